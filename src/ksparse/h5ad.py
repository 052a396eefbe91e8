"""Write .h5ad files so that a full disk is an error, not a crash."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ksparse.files import new_file

__all__ = ["write_h5ad"]


class _Careful:
    """A file that keeps its first error to itself until all is over.

    HDF5 does not survive a write that fails: it tries again when the process ends, and
    crashes. So it is told that all went well, and the file is thrown away afterwards.
    """

    def __init__(self, file: Any) -> None:
        self.file = file
        self.error: OSError | None = None

    def write(self, block: Any) -> int:
        view = memoryview(block).cast("B")
        size = view.nbytes
        try:
            while self.error is None and view.nbytes:
                view = view[self.file.write(view) :]
        except OSError as error:
            self.error = error
        return size

    def _unless_failed(self, action: Any, *values: Any) -> Any:
        if self.error is None:
            try:
                return action(*values)
            except OSError as error:
                self.error = error
        return None

    def truncate(self, size: int | None = None) -> Any:
        return self._unless_failed(self.file.truncate, size)

    def flush(self) -> None:
        self._unless_failed(self.file.flush)

    def readinto(self, block: Any) -> int:
        return self._unless_failed(self.file.readinto, block) or 0

    def read(self, size: int = -1) -> Any:
        return self.file.read(size)

    def seek(self, *place: int) -> int:
        return int(self.file.seek(*place))

    def tell(self) -> int:
        return int(self.file.tell())


def write_h5ad(path: Path, adata: Any) -> None:
    """Write an AnnData object, whole or not at all."""
    import h5py
    from anndata.io import write_elem

    with new_file(path) as temporary, temporary.open("w+b", buffering=0) as file:
        careful = _Careful(file)
        try:
            with h5py.File(careful, "w") as root:
                write_elem(root, "/", adata)
        finally:
            if careful.error is not None:
                raise careful.error
