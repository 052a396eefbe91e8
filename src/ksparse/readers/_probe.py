"""Go through HDF5 files and zarr folders in another process; run as a script.

Libraries may crash on a damaged file, never return, or take all memory. So everything that is
about to be read is gone through here first: names, attributes, the places of all chunks, text,
small arrays, and chunks that may unpack to much more than they should. The script answers a
line of JSON, {"path", "kind", "cpu_seconds", "bytes"}, by a line: {"declared", "outside"}, or
{"error"}, {"memory"} or {"missing"} if that failed. Its imports are few, so that it starts
quickly.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import signal
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any

# The first line of the script: from now on, whatever goes wrong is due to a file.
READY = {"ready": True}
# Arrays of up to so many bytes are read completely; text of up to this multiple of the file.
SMALL, TEXT_RATIO = 2**24, 64
# What `ksparse.io.archives.check_declared_size` lets pass (this script imports nothing of
# ksparse): the walk ends where it is exceeded.
HARMLESS_BYTES, MAX_RATIO = 2**28, 2000
# How much more than what is stored of a chunk filters of HDF5 may give: deflate, shuffle,
# fletcher32 and lzf. Nothing is known of others.
EXPANSION = {1: 1032, 2: 1, 3: 1, 32000: 88}
# Reading a chunk takes its bytes so many times.
COPIES = 4
# Paths on which one group may be reached: more are a circle, or a tree that grows at each level.
MAX_PATHS = 100

Allow = Callable[[int], None]


def _allow_all(n_bytes: int) -> None:
    """Set no limit."""


def walk_hdf5(path: str, values: bool = True, allow: Allow = _allow_all) -> dict[str, Any]:
    """Go through an HDF5 file.

    Parameters
    ----------
    path : str
        The file.
    values : bool, default=True
        Whether to read attributes, text and small arrays, and to look up all chunks.
    allow : callable, optional
        ``allow(n_bytes)`` is called before so many bytes are read.

    Returns
    -------
    dict
        "declared": bytes of all arrays according to their headers; "outside": an item that is
        stored in another file, or nothing.
    """
    import h5py

    with h5py.File(path, "r") as file:
        walk = _Hdf5Walk(file, Path(path).stat().st_size, values, allow)
        while walk.waiting and not walk.outside and walk.declared <= walk.max_declared:
            walk.visit_next()
    return {"declared": walk.declared, "outside": walk.outside[:1]}


class _Hdf5Walk:
    """A walk along all links and references of an HDF5 file."""

    def __init__(self, file: Any, size: int, values: bool, allow: Allow) -> None:
        import h5py

        self.h5py, self.file, self.values, self.allow = h5py, file, values, allow
        self.max_text = max(SMALL, TEXT_RATIO * size)
        self.max_declared = max(HARMLESS_BYTES, MAX_RATIO * size)
        self.declared = 0
        self.outside: list[str] = []
        # Places, and functions that open what is there.
        self.waiting: deque[tuple[str, Callable[[], Any]]] = deque([("", lambda: file)])
        self.n_paths: Counter[Any] = Counter()
        self.first_place: dict[Any, str] = {}
        self.referred: set[Any] = set()

    def visit_next(self) -> None:
        """Look at an item, and remember those that it leads to."""
        place, open_item = self.waiting.pop()
        item = open_item()
        self._attributes(place, item)
        if isinstance(item, self.h5py.Group):
            self._links(place, item)
        elif isinstance(item, self.h5py.Dataset):
            self._dataset(place, item)

    def _links(self, place: str, group: Any) -> None:
        address = self._address(group)
        first = self.first_place.setdefault(address, place or "/")
        self.n_paths[address] += 1
        if self.n_paths[address] > MAX_PATHS:
            raise ValueError(f"links lead to {first} in a circle, or on too many paths")
        for name in group:
            link = group.get(name, getlink=True)
            entry = (f"{place}/{name}", partial(group.__getitem__, name))
            if isinstance(link, self.h5py.ExternalLink):
                self.outside.append(entry[0])
            elif isinstance(link, self.h5py.SoftLink):
                # They may pass through an external link: after all of these are known.
                self.waiting.appendleft(entry)
            else:
                self.waiting.append(entry)

    def _dataset(self, place: str, item: Any) -> None:
        if item.external or item.is_virtual:
            self.outside.append(place)
        elif item.shape is not None:
            size, chunk_size = _n_bytes(item), _chunk_bytes(item)
            self.declared += max(size, chunk_size)
            if self.declared > self.max_declared:
                return
            if chunk_size > max(HARMLESS_BYTES, 2 * size):
                raise ValueError(f"{place} has {size} bytes, in a chunk of {chunk_size}")
            if item.id.get_type().detect_class(self.h5py.h5t.REFERENCE):
                if _n_bytes(item) > SMALL:
                    raise ValueError(f"{place} holds too many references")
                self._follow(place, item[...])
            elif self.values:
                _read_values(item, self.max_text, self.allow)

    def _attributes(self, place: str, item: Any) -> None:
        for name in item.attrs:
            kind = item.attrs.get_id(name).get_type()
            has_references = kind.detect_class(self.h5py.h5t.REFERENCE)
            if self.values or has_references:
                value = item.attrs[name]
                if has_references:
                    self._follow(f"{place or '/'}@{name}", value)

    def _follow(self, place: str, value: Any) -> None:
        """Visit what references in a value lead to: it may have no other path."""
        for reference in _references(value, self.h5py.Reference):
            target = self.file[reference]
            address = self._address(target)
            if address not in self.referred:
                self.referred.add(address)
                self.waiting.append((place, partial(self.file.__getitem__, reference)))

    def _address(self, item: Any) -> Any:
        info = self.h5py.h5o.get_info(item.id)
        return info.fileno, info.addr


def _references(value: Any, kind: type) -> Iterator[Any]:
    """Yield the references in a value, in fields of records and in arrays of arrays, too."""
    if isinstance(value, kind):
        if value:  # not null
            yield value
        return
    dtype = getattr(value, "dtype", None)
    if dtype is not None and dtype.names:
        for name in dtype.names:
            yield from _references(value[name], kind)
    elif dtype is not None and dtype.kind == "O":
        for entry in value.flat:
            yield from _references(entry, kind)


def _n_bytes(item: Any) -> int:
    return int(item.dtype.itemsize) * math.prod(int(n) for n in item.shape)


def _chunk_bytes(item: Any) -> int:
    return int(item.dtype.itemsize) * math.prod(int(n) for n in item.chunks or (0,))


def _read_values(item: Any, max_text: int, allow: Allow) -> None:
    """Read small arrays and text; of large arrays the ends, and chunks that may be a trap."""
    size = _n_bytes(item)
    allow(COPIES * _chunk_bytes(item))
    if size <= SMALL or item.dtype.kind not in "biuf":
        if size > max_text:
            raise ValueError(f"{item.name} announces {size} bytes of text")
        item[...]
        return
    if item.chunks is not None:
        for offset in _suspicious_chunks(item):
            item[tuple(slice(at, at + n) for at, n in zip(offset, item.chunks, strict=True))]
    item[0, ...]
    item[-1, ...]


def _suspicious_chunks(item: Any) -> list[tuple[int, ...]]:
    """Return the places of chunks that may unpack to much more than they should.

    Looks up all chunks. Most are so small that they cannot do harm, and need not be unpacked.
    """
    pipeline = item.id.get_create_plist()
    codes = [pipeline.get_filter(i)[0] for i in range(pipeline.get_nfilters())]
    expansion = math.prod(EXPANSION.get(code, math.inf) for code in codes)
    found: list[tuple[int, ...]] = []

    def look(chunk: Any) -> None:
        if chunk.size * expansion > HARMLESS_BYTES:
            found.append(chunk.chunk_offset)

    if hasattr(item.id, "chunk_iter"):
        item.id.chunk_iter(look)
    else:  # its time is quadratic in the number of chunks
        for i in range(item.id.get_num_chunks()):
            look(item.id.get_chunk_info(i))
    return found


def walk_zarr(path: str, allow: Allow = _allow_all) -> dict[str, Any]:
    """Go through a folder of zarr: read attributes, and all arrays, a few chunks at a time.

    All, because there is no limit to what a chunk may unpack to.
    """
    import zarr

    stack: list[Any] = [zarr.open_group(path, mode="r")]
    while stack:
        item = stack.pop()
        dict(item.attrs)
        if hasattr(item, "dtype"):
            _read_rows(item, allow)
        else:
            stack += [item[name] for name in item]
    return {}


def _read_rows(item: Any, allow: Allow) -> None:
    size = _n_bytes(item)
    if size <= SMALL or item.dtype.kind not in "biufc":
        allow(COPIES * _chunk_bytes(item))
        item[...]
        return
    n_rows, chunk_rows = int(item.shape[0]), int(item.chunks[0])
    bytes_per_row = max(1, size // n_rows)
    step = max(1, SMALL // bytes_per_row // chunk_rows) * chunk_rows
    allow(COPIES * max(_chunk_bytes(item), step * bytes_per_row))
    for start in range(0, n_rows, step):
        item[start : start + step]


WALKS: dict[str, tuple[str, Callable[..., dict[str, Any]]]] = {
    "hdf5": ("h5py", walk_hdf5),
    "zarr": ("zarr", walk_zarr),
}


def _limit_memory(n_bytes: int) -> None:
    """Limit the memory to what is taken now and so much more, where the system can do that."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[0]
        most = int(pages) * resource.getpagesize() + n_bytes
        _, hard = resource.getrlimit(resource.RLIMIT_AS)  # which may be raised by nobody else
        if hard != resource.RLIM_INFINITY:
            most = min(most, hard)
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))


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
        return walk(question["path"], allow=lambda more: _limit_memory(question["bytes"] + more))
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
