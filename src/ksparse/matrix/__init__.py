"""Data of any storage behind one small protocol."""

from __future__ import annotations

from typing import Any

import scipy.sparse as sp

from ksparse.matrix.base import Floats, Ints, Matrix
from ksparse.matrix.dense import DenseMatrix
from ksparse.matrix.gram import GramCache
from ksparse.matrix.sparse import SparseMatrix

__all__ = ["Floats", "GramCache", "Ints", "Matrix", "as_matrix"]


def as_matrix(X: Any, *, sample_weight: Floats | None = None, standardize: bool = False) -> Matrix:
    """Return the view that fits the storage of X."""
    kind = SparseMatrix if sp.issparse(X) else DenseMatrix
    return kind(X, sample_weight=sample_weight, standardize=standardize)
