"""Check files in a process that is watched, before they are read in this one.

If the process crashes on a file, the file is damaged. If it takes too long, that is not known:
the machine may be busy. Its CPU time is limited by itself, and the time on the clock here, to
many times as much.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from ksparse._errors import InputError, Term
from ksparse.io.archives import format_bytes, one_line
from ksparse.readers._probe import READY

__all__ = ["probe"]

# CPU time for small files, and for each byte of large ones; the time on the clock may be so
# many times as long.
CPU_SECONDS, CPU_SECONDS_PER_BYTE, WALL_FACTOR = 20.0, 1e-7, 15
# Memory, besides what Python and the libraries take: for any file, and text that becomes Python
# objects.
BYTES, BYTES_PER_BYTE = 2**28, 20
# The signal by which the process ends itself when its CPU time is used up; and those that come
# from other processes or from the system. Any other one is that of a crash.
TIME_IS_UP = getattr(signal, "SIGPROF", None)
FROM_OUTSIDE = ("SIGHUP", "SIGINT", "SIGTERM", "SIGKILL", "SIGXCPU")
# Threads reserve memory. And the folder of the script is no place to import from.
ENVIRONMENT = {
    "MALLOC_ARENA_MAX": "1",
    "MKL_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONSAFEPATH": "1",
    "ZARR_THREADING__MAX_WORKERS": "1",
}


class _Crashed(Exception):
    """The process ended by itself."""


class _TookTooLong(Exception):
    """The process gave no answer within so many seconds."""


class _Unchecked(Exception):
    """The process gave no answer, for a reason that is not in the file."""


class _Probe:
    """A process that answers questions about files, and is replaced when it has ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._owner = 0
        self._took_too_long = False

    def ask(self, path: Path, kind: str, size: int) -> dict[str, Any]:
        """Return the answer about a file, or raise _Crashed, _TookTooLong or _Unchecked."""
        cpu_seconds = CPU_SECONDS + CPU_SECONDS_PER_BYTE * size
        wall_seconds = WALL_FACTOR * cpu_seconds
        question = {
            "path": str(path.resolve()),
            "kind": kind,
            "cpu_seconds": cpu_seconds,
            "bytes": BYTES + BYTES_PER_BYTE * size,
        }
        with self._lock:
            self._took_too_long = False
            timer = threading.Timer(wall_seconds, self._stop)
            timer.daemon = True
            timer.start()
            try:
                started = self._start()
                line = self._ask(question) if started else ""
            except BaseException:  # interrupted: its answer would be taken for another
                self._end(at_once=True)
                raise
            finally:
                timer.cancel()
            code = 0 if line and not self._took_too_long else self._end()
            if line:
                return dict(json.loads(line))
            if self._took_too_long:
                raise _TookTooLong(wall_seconds)
        if TIME_IS_UP is not None and code == -TIME_IS_UP:
            raise _TookTooLong(cpu_seconds)
        if not started:
            raise _Unchecked("the process for it does not start")
        if any(-code == getattr(signal, name, None) for name in FROM_OUTSIDE):
            raise _Unchecked(f"the process for it was ended from outside, by signal {-code}")
        raise _Crashed

    def _start(self) -> bool:
        """Start the process unless it runs; return whether it is ready."""
        if self._owner != os.getpid():  # a forked process needs another one
            self._process = None
        if self._process is not None and self._process.poll() is None:
            return True
        try:
            self._process = subprocess.Popen(
                [sys.executable or "python", str(Path(__file__).with_name("_probe.py"))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                encoding="utf-8",
                env=os.environ | ENVIRONMENT,
                start_new_session=True,  # an interrupt is for us
            )
        except OSError:
            return False
        self._owner = os.getpid()
        if self._took_too_long:  # before there was a process to stop
            self._process.kill()
        while (line := self._answer()) and json.dumps(READY) not in line:
            pass  # whatever else is printed when Python starts
        return bool(line)

    def _ask(self, question: dict[str, Any]) -> str:
        assert self._process is not None and self._process.stdin is not None
        with suppress(OSError):  # it has ended
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> str:
        """Return a line, or an empty text if the process ended before one was complete."""
        assert self._process is not None and self._process.stdout is not None
        line = self._process.stdout.readline()
        return line if line.endswith("\n") else ""

    def _stop(self) -> None:
        """End the process because time is up; whoever waits for its answer gets none."""
        self._took_too_long = True
        if self._process is not None:
            self._process.kill()

    def close(self) -> None:
        """End the process, unless it is that of the process that this one was forked from."""
        if self._owner == os.getpid():
            self._end(at_once=True)

    def _end(self, at_once: bool = False) -> int:
        """End the process if it has not ended yet; return its exit code."""
        process, self._process = self._process, None
        if process is None:
            return 0
        try:
            process.wait(0 if at_once else 1)  # its output ends before the process does
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        return process.returncode


_probe = _Probe()
atexit.register(_probe.close)


def probe(path: Path, kind: str, size: int) -> dict[str, Any]:
    """Go through a file in another process.

    Parameters
    ----------
    path : Path
        File or folder.
    kind : {"hdf5", "zarr"}
        What it is.
    size : int
        Its size in bytes.

    Returns
    -------
    dict
        See `ksparse.readers._probe.walk_hdf5`; empty for zarr.

    Raises
    ------
    InputError
        If it is damaged; or if that is not known, because the check took too long.
    ImportError
        If the library that reads it is not installed.
    """
    cure = ("give ", Term("check", False), " to read it without the check.")
    try:
        answer = _probe.ask(path, kind, size)
    except _TookTooLong as limit:
        raise InputError(
            f"{path} took longer than {limit.args[0]:g} s to check, because the machine is busy or "
            "the file is damaged: ",
            *cure,
        ) from None
    except _Unchecked as reason:
        raise InputError(f"{path} could not be checked, because {reason}: ", *cure) from None
    except _Crashed:
        raise InputError(f"{path} is damaged: the {kind} library does not survive it.") from None
    if "missing" in answer:
        raise ImportError(f"Reading {path} needs {answer['missing']}", name=answer["missing"])
    if "memory" in answer:
        most = format_bytes(answer["memory"])
        raise InputError(
            f"{path} is damaged, or needs more than {most} of memory to check: ", *cure
        )
    if "error" in answer:
        raise InputError(f"{path} is damaged: {one_line(answer['error'])}")
    return answer
