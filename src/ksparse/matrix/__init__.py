"""Data of any storage behind one small protocol."""

from __future__ import annotations

from typing import Any

from ksparse.matrix.base import Floats, Ints, Matrix
from ksparse.matrix.blocks import BlockMatrix, Blocks, SomeRows, in_memory
from ksparse.matrix.gram import GramCache

__all__ = [
    "BlockMatrix",
    "Blocks",
    "Floats",
    "GramCache",
    "Ints",
    "Matrix",
    "SomeRows",
    "as_matrix",
]


def as_matrix(X: Any, *, sample_weight: Floats | None = None, standardize: bool = False) -> Matrix:
    """Return the view that fits the storage of X."""
    make = BlockMatrix if isinstance(X, Blocks) else in_memory
    return make(X, sample_weight=sample_weight, standardize=standardize)
