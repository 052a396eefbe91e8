"""Go through HDF5 files and zarr folders in another process; run as a script.

Libraries may crash on a damaged file, never return, or take all memory. So everything that is
about to be read is gone through here first: names, attributes, the places of all chunks, text
and small arrays. The script answers a line of JSON, {"path", "kind", "cpu_seconds", "bytes"},
by a line: {"declared", "outside"}, or {"error"}, {"memory"} or {"missing"} if that failed. Its
imports are few, so that it starts quickly.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any

# The first line of the script: from now on, whatever goes wrong is due to a file.
READY = {"ready": True}
# Arrays of up to so many bytes are read completely; text of up to this multiple of the file.
SMALL, TEXT_RATIO = 2**24, 64


def walk_hdf5(path: str, values: bool = True) -> dict[str, Any]:
    """Go through an HDF5 file.

    Parameters
    ----------
    path : str
        The file.
    values : bool, default=True
        Whether to read attributes, text and small arrays, and to look up all chunks.

    Returns
    -------
    dict
        "declared": bytes of all arrays according to their headers; "outside": an item that is
        stored in another file, or nothing.
    """
    import h5py

    declared = 0
    outside: list[str] = []
    visited: set[Any] = set()
    max_text = TEXT_RATIO * Path(path).stat().st_size
    with h5py.File(path, "r") as file:
        stack: list[tuple[str, Any]] = [("", file)]
        while stack:
            place, item = stack.pop()
            for key in item.attrs if values else ():
                item.attrs[key]
            if isinstance(item, h5py.Group):
                info = h5py.h5o.get_info(item.id)
                if (info.fileno, info.addr) in visited:  # links may form a cycle
                    continue
                visited.add((info.fileno, info.addr))
                for name in item:
                    if isinstance(item.get(name, getlink=True), h5py.ExternalLink):
                        outside.append(f"{place}/{name}")
                    else:
                        stack.append((f"{place}/{name}", item[name]))
            elif isinstance(item, h5py.Dataset):
                if item.external or item.is_virtual:
                    outside.append(place)
                elif item.shape is not None:
                    declared += _n_bytes(item)
                    if values:
                        _read_values(item, max_text)
    return {"declared": declared, "outside": outside[:1]}


def _n_bytes(item: Any) -> int:
    return int(item.dtype.itemsize) * math.prod(int(n) for n in item.shape)


def _read_values(item: Any, max_text: int) -> None:
    """Read small arrays and text; of large arrays the ends and the places of the chunks."""
    size = _n_bytes(item)
    if size <= SMALL or (item.dtype.kind not in "biuf" and size <= max_text):
        item[...]
        return
    if item.chunks is not None:
        if hasattr(item.id, "chunk_iter"):
            item.id.chunk_iter(lambda chunk: None)
        else:  # its time is quadratic in the number of chunks
            for i in range(item.id.get_num_chunks()):
                item.id.get_chunk_info(i)
    item[0, ...]
    item[-1, ...]


def walk_zarr(path: str) -> dict[str, Any]:
    """Go through a folder of zarr: read attributes, text and small arrays."""
    import zarr

    stack: list[Any] = [zarr.open_group(path, mode="r")]
    while stack:
        item = stack.pop()
        dict(item.attrs)
        if hasattr(item, "dtype"):
            if _n_bytes(item) <= SMALL or item.dtype.kind not in "biuf":
                item[...]
        else:
            stack += [item[name] for name in item]
    return {}


WALKS: dict[str, tuple[str, Callable[[str], dict[str, Any]]]] = {
    "hdf5": ("h5py", walk_hdf5),
    "zarr": ("zarr", walk_zarr),
}


def _limit_memory(n_bytes: int) -> None:
    with suppress(ImportError, ValueError, OSError):  # not on every system
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (n_bytes, resource.RLIM_INFINITY))


def _limit_cpu(seconds: float) -> None:
    """End this process by SIGPROF after so much CPU time, even inside a library; 0: never.

    CPU time, because time on the clock is also spent waiting for other processes.
    """
    if hasattr(signal, "setitimer"):  # not on Windows
        signal.setitimer(signal.ITIMER_PROF, seconds)


def _answer(question: dict[str, Any]) -> dict[str, Any]:
    library, walk = WALKS[question["kind"]]
    try:
        importlib.import_module(library)  # its time and memory are not those of the file
    except ImportError as error:
        return {"missing": error.name or library}
    _limit_memory(question["bytes"])
    _limit_cpu(question["cpu_seconds"])
    try:
        return walk(question["path"])
    except MemoryError:
        return {"memory": question["bytes"]}
    except Exception as error:
        return {"error": str(error) or type(error).__name__}
    finally:
        _limit_cpu(0)


def main() -> None:
    """Answer until there are no more questions."""
    if hasattr(signal, "SIGPROF"):  # whatever the process that started this one did with it
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as out:
        os.dup2(2, 1)  # what libraries print is no answer
        print(json.dumps(READY), file=out, flush=True)
        questions: SimpleQueue[str] = SimpleQueue()
        Thread(target=_listen, args=(questions,), daemon=True).start()
        while True:
            print(json.dumps(_answer(json.loads(questions.get()))), file=out, flush=True)


def _listen(questions: SimpleQueue[str]) -> None:
    """Take in questions; end when there are no more, even if one is being answered.

    Then the process that asked has ended, and may have been killed.
    """
    for line in sys.stdin:
        questions.put(line)
    os._exit(0)


if __name__ == "__main__":
    main()
