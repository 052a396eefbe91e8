"""Blocks of rows read from HDF5 and zarr files, one after the other."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from ksparse._errors import InputError, Term
from ksparse.matrix.blocks import Blocks, as_block
from ksparse.matrix.marks import Marks, block_mark

__all__ = ["StoredBlocks", "float_type"]

# A block takes this share of the memory limit: two are there at a time (the next one is
# read while one is worked on), with what is computed from them.
SHARE = 12
LEAST_BYTES = 2**16


def float_type(dtype: Any) -> np.dtype[Any]:
    """Return the type for computations: float32 stays float32, all else is float64."""
    dtype = np.dtype(dtype)
    if dtype.kind not in "fiub":
        raise InputError(f"X holds {dtype} values, which must be real numbers.")
    return np.dtype(np.float32) if dtype == np.float32 else np.dtype(np.float64)


class StoredBlocks(Blocks):
    """Rows of a CSR or dense matrix in a file.

    Parameters
    ----------
    stored : HDF5 or zarr group (CSR) or array (dense)
        With data, indices and indptr, if it is a group.
    shape : (int, int)
        Rows and columns.
    memory_limit : int
        Bytes that blocks may take, with what is computed from each.
    """

    def __init__(self, stored: Any, shape: tuple[int, int], memory_limit: int) -> None:
        self.stored = stored
        self.is_csr = not hasattr(stored, "dtype")
        self.shape = self._stored_shape = (int(shape[0]), int(shape[1]))
        values = stored["data"] if self.is_csr else stored
        self.dtype = float_type(values.dtype)
        size = max(self.dtype.itemsize, values.dtype.itemsize)
        budget = max(LEAST_BYTES, memory_limit // SHARE)
        if self.is_csr:
            self._indptr = self._checked_indptr()
            entry = size + max(4, stored["indices"].dtype.itemsize)
            self.bounds = _cut_by_size(self._indptr, budget // entry, budget // 64)
        else:
            step = max(1, budget // (size * max(1, self.shape[1])))
            self.bounds = [(start, min(start + step, self.shape[0]))
                           for start in range(0, self.shape[0], step)]  # fmt: skip
        self._marks = Marks(self.bounds)

    def __getstate__(self) -> dict[str, Any]:
        """Let other processes open the file themselves: HDF5 handles cannot be sent to them."""
        state = self.__dict__.copy()
        if self._is_hdf5:
            state["stored"] = (self.stored.file.filename, self.stored.name)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if isinstance(self.stored, tuple):
            import h5py

            path, name = self.stored
            self.stored = h5py.File(path, "r")[name]

    @property
    def _is_hdf5(self) -> bool:
        return type(self.stored).__module__.split(".")[0] == "h5py"

    def check_shareable(self) -> None:
        """Raise InputError if other processes cannot open the same file."""
        if not self._is_hdf5:
            return
        path = self.stored.file.filename
        if not isinstance(path, str) or not Path(path).is_file():
            raise InputError(
                "X is in an HDF5 file that is not on the disk, which other processes cannot open: "
                "give ", Term("n_jobs", 1), ".",
            )  # fmt: skip
        if self.stored.file.mode != "r":
            raise InputError(
                f"X is in {path}, which is open for writing, so that other processes cannot open "
                "it: open it with backed='r', or give ", Term("n_jobs", 1), ".",
            )  # fmt: skip

    def _checked_indptr(self) -> Any:
        stored, n_stored = self.stored, self.stored["data"].shape[0]
        indptr = np.asarray(stored["indptr"][:], dtype=np.int64)
        sound = (
            indptr.size == self.shape[0] + 1
            and indptr[0] == 0
            and indptr[-1] == n_stored == stored["indices"].shape[0]
            and (np.diff(indptr) >= 0).all()
        )
        if not sound:
            raise InputError("The sparse matrix in the file is damaged: its indptr is wrong.")
        return indptr

    def _check_same_indptr(self) -> None:
        """Raise InputError if rows no longer begin where they did when the file was opened."""
        if not self.is_csr:
            return
        with _one_line_errors(0, self.shape[0]):
            indptr = self.stored["indptr"][:]
        if not np.array_equal(indptr, self._indptr):
            raise InputError(
                "X changed while it was read: the indptr of the sparse matrix in the file is not "
                "what it was. Give a file that nobody writes to."
            )

    def _check_not_cut_off(self) -> None:
        """Raise InputError if the file is shorter than it was: HDF5 reads zeros beyond its end."""
        if not self._is_hdf5:
            return
        file = self.stored.file
        if file.mode != "r" or file.driver != "sec2":  # what is written may not be there yet
            return
        size, before = os.fstat(file.id.get_vfd_handle()).st_size, file.id.get_filesize()
        if size < before:
            raise InputError(
                f"X changed while it was read: {file.filename} has {size} bytes, and had {before}. "
                "Give a file that nobody writes to."
            )

    def _stored_block(self, start: int, stop: int) -> Any:
        """Return rows as they are stored."""
        if not self.is_csr:
            return np.asarray(self.stored[start:stop])
        first, last = int(self._indptr[start]), int(self._indptr[stop])
        indices = np.asarray(self.stored["indices"][first:last])
        # Compiled code would follow indices that point elsewhere.
        if indices.size and not (indices.min() >= 0 and indices.max() < self._stored_shape[1]):
            raise InputError(
                "The sparse matrix in the file is damaged: a column index is out of range."
            )
        data = np.asarray(self.stored["data"][first:last])
        if data.size != last - first or indices.size != last - first:
            raise InputError("The sparse matrix in the file is damaged: it is cut off.")
        offsets = self._indptr[start : stop + 1] - first
        return sp.csr_matrix((data, indices, offsets), shape=(stop - start, self._stored_shape[1]))

    def _read(self, place: int) -> Any:
        """Return a block, checked to be what it was before."""
        start, stop = self.bounds[place]
        with _one_line_errors(start, stop):
            block = self._stored_block(start, stop)
        # Steps see the numbers as they are stored, as they would in memory.
        block = as_block(block, block.dtype, (stop - start, self._stored_shape[1]))
        self._marks.check(place, block_mark(block))
        for step in self.steps:
            block = step(block)
        return as_block(block, self.dtype, (stop - start, self.shape[1]))

    def first(self) -> Any:
        """Return the first block."""
        return self._read(0)

    def results(
        self, work: Callable[..., Any], shared: Sequence[Any], *by_block: Sequence[Any]
    ) -> Iterator[Any]:
        """Yield what `work` makes of each block; the next one is read in the meantime."""
        self.n_passes += 1
        self._check_same_indptr()
        entries = zip(*by_block, strict=True) if by_block else iter([()] * len(self.bounds))
        with ThreadPoolExecutor(1, thread_name_prefix="ksparse-read") as reader:
            coming: Future[Any] = reader.submit(self._read, 0)
            for i, mine in enumerate(entries):
                block = coming.result()
                if i + 1 < len(self.bounds):
                    coming = reader.submit(self._read, i + 1)
                yield work(block, *mine, *shared)
                del block
        self._check_not_cut_off()


@contextmanager
def _one_line_errors(start: int, stop: int) -> Iterator[None]:
    """Turn what HDF5 or zarr raise on a file that is damaged, or was cut off, into one line."""
    try:
        yield
    except InputError:
        raise
    except (OSError, RuntimeError, KeyError, ValueError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(
            f"Rows {start} to {stop - 1} of X cannot be read ({reason}): the file is damaged, or "
            "was changed while it was read."
        ) from error


def _cut_by_size(indptr: Any, most_entries: int, most_rows: int) -> list[tuple[int, int]]:
    """Return runs of rows with at most so many entries (or a single row), and so many rows."""
    n = indptr.size - 1
    bounds, start = [], 0
    while start < n:
        stop = int(np.searchsorted(indptr, indptr[start] + most_entries, side="right")) - 1
        stop = min(max(stop, start + 1), start + max(1, most_rows), n)
        bounds.append((start, stop))
        start = stop
    return bounds
