"""Write .h5ad files so that a full disk is an error, not a crash."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ksparse.io.files import new_file

__all__ = ["write_h5ad"]


# Writes up to this size are the bookkeeping of HDF5, which it may read again.
SMALL = 2**20


class _CarefulFile:
    """A file that does not raise its first error, but keeps it in `error`.

    HDF5 does not survive a write that fails: it tries again when the process ends, and crashes.
    So every write succeeds and can be read again; the file is removed afterwards.
    """

    def __init__(self, file: Any) -> None:
        self.file = file
        self.error: BaseException | None = None
        self.at = self.size = 0
        self.written: dict[int, bytes] = {}  # after an error, by their places

    def _do(self, action: Callable[..., Any], *values: Any) -> None:
        if self.error is None:
            try:
                action(*values)
            except BaseException as error:  # h5py would swallow an interrupt, too
                self.error = error

    def _write_all(self, view: memoryview) -> None:
        self.file.seek(self.at)
        while view.nbytes:
            view = view[self.file.write(view) :]

    def write(self, block: Any) -> int:
        view = memoryview(block).cast("B")
        self._do(self._write_all, view)
        if self.error is not None and view.nbytes <= SMALL:
            self.written.pop(self.at, None)  # the newest goes last
            self.written[self.at] = bytes(view)
        self.at += view.nbytes
        self.size = max(self.size, self.at)
        return view.nbytes

    def _read_all(self, view: memoryview) -> None:
        self.file.seek(self.at)
        self.file.readinto(view)

    def readinto(self, block: Any) -> int:
        view = memoryview(block).cast("B")
        self._do(self._read_all, view)
        if self.error is not None:
            try:
                self._read_all(view)
            except OSError:
                view[:] = bytes(view.nbytes)
        end = self.at + view.nbytes
        for start, block_written in self.written.items():
            low, high = max(start, self.at), min(start + len(block_written), end)
            if low < high:
                view[low - self.at : high - self.at] = block_written[low - start : high - start]
        self.at = end
        return view.nbytes

    def read(self, size: int = -1) -> bytes:
        block = bytearray(self.size - self.at if size < 0 else size)
        self.readinto(block)
        return bytes(block)

    def truncate(self, size: int | None = None) -> int:
        self.size = self.at if size is None else size
        self._do(self.file.truncate, self.size)
        return self.size

    def flush(self) -> None:
        self._do(self.file.flush)

    def seek(self, place: int, whence: int = 0) -> int:
        self.at = place + (0, self.at, self.size)[whence]
        return self.at

    def tell(self) -> int:
        return self.at


def _open(path: Path) -> Any:
    return path.open("w+b", buffering=0)


def write_h5ad(path: Path, adata: Any) -> None:
    """Write an AnnData object, whole or not at all.

    In a thread of its own: an interrupt reaches the main thread only, so none can be raised in a
    callback of HDF5. It is raised when the file is closed.
    """
    with new_file(path) as temporary, _open(temporary) as file:
        careful = _CarefulFile(file)
        try:
            with ThreadPoolExecutor(1, thread_name_prefix="ksparse-write") as writer:
                writer.submit(int).result()  # no interrupt may find the thread half started
                writer.submit(_write, careful, adata).result()
        finally:
            if careful.error is not None:
                raise careful.error


def _write(file: Any, adata: Any) -> None:
    import h5py
    from anndata.io import write_elem

    with h5py.File(file, "w") as root:
        write_elem(root, "/", adata)
