"""Data that are read some rows at a time, and become sparse if most values are zero."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

__all__ = ["BLOCK", "sparse_or_dense", "stacked"]

# Values that are read together, and the share of nonzero values up to which data are sparse.
BLOCK, SPARSE_SHARE = 4_000_000, 0.5


def sparse_or_dense(values: NDArray[np.float32]) -> Any:
    """Return values as CSR if most of them are zero."""
    is_sparse = np.count_nonzero(values) < SPARSE_SHARE * values.size
    return sp.csr_matrix(values) if is_sparse else values


def stacked(blocks: list[Any]) -> Any:
    """Return blocks of rows as one matrix: sparse if at least one of them is."""
    if any(sp.issparse(block) for block in blocks):
        return sp.vstack([sp.csr_matrix(block) for block in blocks], format="csr")
    return np.concatenate(blocks)
