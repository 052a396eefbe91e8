"""A checksum of data that does not depend on how they are stored."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ksparse._compile import compiled
from ksparse.matrix.blocks import Blocks
from ksparse.matrix.marks import mixed

__all__ = ["data_checksum"]


@compiled
def _entries_sum(rows: NDArray[Any], columns: NDArray[Any], bits: NDArray[Any]) -> np.uint64:
    total = np.uint64(0)
    for p in range(bits.size):
        if bits[p] << np.uint64(1) != 0:  # neither 0 nor -0
            total += mixed(np.uint64(rows[p]), np.uint64(columns[p]), bits[p])
    return total


def data_checksum(X: Any) -> int:
    """Return a sum over the nonzero values and their places, the same for any storage."""
    if isinstance(X, Blocks):
        starts = [start for start, _ in X.bounds]
        return int(X.total(_block_checksum, (), starts, combine=_add))
    return _block_checksum(X, 0)


def _add(a: int, b: int) -> int:
    return (a + b) % 2**64


def _block_checksum(block: Any, start: int) -> int:
    total = 0
    step = max(1, 2**21 // max(1, block.shape[1]))
    by_rows = block if isinstance(block, np.ndarray) else block.tocsr()
    for first in range(0, block.shape[0], step):
        part = by_rows[first : first + step]
        if isinstance(part, np.ndarray):
            rows, columns = np.nonzero(part)
            values = part[rows, columns]
        else:
            part = part.tocoo()
            part.sum_duplicates()
            rows, columns, values = part.row, part.col, part.data
        bits = np.ascontiguousarray(values, dtype=np.float64).view(np.uint64)
        total = _add(total, int(_entries_sum(rows + (first + start), columns, bits)))
    return total
