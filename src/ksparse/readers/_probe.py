"""Walk through HDF5 files and zarr folders in a process of its own; run as a script.

Libraries may crash on a damaged file, never come back from it, or take all memory. So whatever
is about to be read is gone through here first: names, attributes, the places of all chunks,
text and small arrays. Reads lines of JSON, {"path", "kind", "seconds", "bytes"}; answers each
with a line. Kept apart from the package, so that it starts quickly.
"""

from __future__ import annotations

import json
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

SMALL = 2**24  # bytes of an array that is read as a whole


def walk_hdf5(path: str) -> dict[str, Any]:
    """What a file promises: the bytes of all arrays, and whether they are in other files."""
    import h5py

    promised = 0
    outside: list[str] = []
    seen: set[Any] = set()
    most = 64 * Path(path).stat().st_size
    with h5py.File(path, "r") as file:
        stack: list[tuple[str, Any]] = [("", file)]
        while stack:
            place, item = stack.pop()
            for key in item.attrs:
                item.attrs[key]
            if isinstance(item, h5py.Group):
                info = h5py.h5o.get_info(item.id)
                if (info.fileno, info.addr) in seen:  # links may go round in circles
                    continue
                seen.add((info.fileno, info.addr))
                for name in item:
                    if isinstance(item.get(name, getlink=True), h5py.ExternalLink):
                        outside.append(f"{place}/{name}")
                    else:
                        stack.append((f"{place}/{name}", item[name]))
            elif isinstance(item, h5py.Dataset):
                if item.external or item.is_virtual:
                    outside.append(place)
                elif item.shape is not None:
                    size = _size(item)
                    promised += size
                    if size <= SMALL or (item.dtype.kind not in "biuf" and size <= most):
                        item[...]
                    else:
                        _look(item)
    return {"promised": promised, "outside": outside[:1]}


def _size(item: Any) -> int:
    size = int(item.dtype.itemsize)
    for n in item.shape:
        size *= int(n)
    return size


def _look(item: Any) -> None:
    """Look at the ends of a large array and at where its chunks are."""
    if item.chunks is not None:
        for i in range(item.id.get_num_chunks()):
            item.id.get_chunk_info(i)
    item[0, ...]
    item[-1, ...]


def walk_zarr(path: str) -> dict[str, Any]:
    """Read what is small or text."""
    import zarr

    stack: list[Any] = [zarr.open_group(path, mode="r")]
    while stack:
        item = stack.pop()
        dict(item.attrs)
        if hasattr(item, "dtype"):
            size = _size(item)
            if size <= SMALL or item.dtype.kind not in "biuf":
                item[...]
        else:
            stack += [item[name] for name in item]
    return {}


WALKS = {"hdf5": walk_hdf5, "zarr": walk_zarr}


def main() -> None:
    """Answer until there are no more questions."""
    for line in sys.stdin:
        question = json.loads(line)
        with suppress(ImportError, ValueError, OSError):  # not on every system
            import resource

            resource.setrlimit(resource.RLIMIT_AS, (question["bytes"], resource.RLIM_INFINITY))
        if hasattr(signal, "alarm"):  # ends this process even inside a library
            signal.alarm(question["seconds"])
        try:
            answer = WALKS[question["kind"]](question["path"])
        except Exception as error:
            answer = {"error": str(error) or type(error).__name__}
        if hasattr(signal, "alarm"):
            signal.alarm(0)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
