"""Marks of blocks, to see that data that are read again are what they were before.

Data in files and dask arrays are read in several passes. If they change in between (a file is
overwritten, a chunk is computed anew from other random numbers), every pass would be right and
their combination wrong, and nothing else would show it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksparse._compile import compiled
from ksparse._errors import InputError

__all__ = ["Mark", "Marks", "block_mark", "mixed"]

# Rows that are not contiguous are copied in parts of about this many entries.
PART_ENTRIES = 2**18


class Mark(NamedTuple):
    """Number of stored values of a block, and a checksum of them and their places."""

    n_stored: int
    checksum: int


class Marks:
    """The mark of each block when it was read first, shared by all views of the same data."""

    def __init__(self, bounds: Sequence[tuple[int, int]]) -> None:
        self._bounds = list(bounds)
        self._first: dict[int, Mark] = {}

    def check(self, place: int, mark: Mark) -> None:
        """Raise InputError if a block is not what it was when it was read first."""
        first = self._first.setdefault(place, mark)  # atomic: threads may read at once
        if mark == first:
            return
        start, stop = self._bounds[place]
        found = "other values" if mark.n_stored == first.n_stored else (
            f"{mark.n_stored} stored values, not {first.n_stored}"
        )  # fmt: skip
        raise InputError(
            f"X changed while it was read: rows {start} to {stop - 1} have {found} when they are "
            "read again. Give data that stay the same: a file that nobody writes to, or a dask "
            "array that is persisted."
        )


def block_mark(block: Any) -> Mark:
    """Return the mark of a block: an array, or CSR with sorted, distinct indices.

    The same for equal values, whatever the order in memory of an array.
    """
    if not sp.issparse(block):
        return Mark(int(block.size), _array_checksum(block) % 2**64)
    total = _array_checksum(block.data)
    total += 3 * _array_checksum(block.indices) + 5 * _array_checksum(block.indptr)
    return Mark(int(block.nnz), total % 2**64)


def _array_checksum(values: NDArray[Any]) -> int:
    """Return a checksum of the bits of values and their places, in the order of rows."""
    if values.dtype.itemsize > 8:  # bytes of padding may hold anything
        values = values.astype(np.float64)
    if values.flags.c_contiguous:
        return _words_checksum(values, 0)
    step = max(1, PART_ENTRIES // max(1, values[:1].size))
    return sum(
        _words_checksum(np.ascontiguousarray(values[i : i + step]), i * values[:1].size)
        for i in range(0, len(values), step)
    )


def _words_checksum(values: NDArray[Any], first: int) -> int:
    words = values.reshape(-1).view(f"u{values.dtype.itemsize}")
    return int(_words_sum(words, first))


@compiled
def _words_sum(words: NDArray[Any], first: int) -> np.uint64:
    total = np.uint64(0)
    for p in range(words.size):
        total += mixed(np.uint64(first + p), np.uint64(0), np.uint64(words[p]))
    return total


@compiled
def mixed(i: np.uint64, j: np.uint64, bits: np.uint64) -> np.uint64:
    """Return the bits of a value and its place, well mixed."""
    h = bits ^ (i * np.uint64(0x9E3779B97F4A7C15)) ^ (j * np.uint64(0xC2B2AE3D27D4EB4F))
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(31))
