"""Look at files in a process that is watched, before they are read in this one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

__all__ = ["probe"]

# Time for small files, and for each byte of large ones.
SECONDS, SECONDS_PER_BYTE = 20, 1e-7
# Memory: what Python and the libraries need, and text that becomes Python objects.
BYTES, BYTES_PER_BYTE = 2**31, 20


class _Probe:
    """A process that answers questions about files, and is replaced when it dies."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._owner = 0

    def ask(self, path: Path, kind: str, size: int) -> dict[str, Any] | None:
        """What the process says of a file; None if it died over it."""
        seconds = int(SECONDS + SECONDS_PER_BYTE * size)
        question = {
            "path": str(path.resolve()),
            "kind": kind,
            "seconds": seconds,
            "bytes": BYTES + BYTES_PER_BYTE * size,
        }
        with self._lock:
            process = self._alive()
            assert process.stdin is not None and process.stdout is not None
            timer = threading.Timer(seconds + 1, process.kill)
            timer.daemon = True
            timer.start()
            try:
                process.stdin.write(json.dumps(question) + "\n")
                process.stdin.flush()
                line = process.stdout.readline()
            except BrokenPipeError:
                line = ""
            except BaseException:  # interrupted: its answer would be taken for another
                self._end()
                raise
            finally:
                timer.cancel()
            if not line.endswith("\n"):
                self._end()
                return None
            return dict(json.loads(line))

    def _alive(self) -> subprocess.Popen[str]:
        if self._owner != os.getpid():  # a forked process has one of its own
            self._process = None
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("_probe.py"))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                encoding="utf-8",
                # Its threads would reserve memory; and the folder of the script is no place
                # to import from.
                env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "PYTHONSAFEPATH": "1"},
                start_new_session=True,  # an interrupt is for us
            )
            self._owner = os.getpid()
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with suppress(OSError):
                        pipe.close()


_probe = _Probe()


def probe(path: Path, kind: str, size: int) -> dict[str, Any]:
    """Go through a file of a kind ("hdf5", "zarr"); refuse it if that goes wrong."""
    found = _probe.ask(path, kind, size)
    if found is None:
        raise ValueError(f"{path} is damaged: the {kind} library does not survive it.")
    if "error" in found:
        raise ValueError(f"{path} is damaged: {' '.join(str(found['error']).split())}")
    return found
