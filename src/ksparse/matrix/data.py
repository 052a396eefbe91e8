"""Functions of data in any storage, for code that should not know how data are stored.

Data are in memory (a numpy array, or a scipy CSR or CSC matrix or array) or in blocks of rows
(`Blocks`: matrices in files, dask arrays).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksparse.matrix.base import Floats, Ints
from ksparse.matrix.blocks import Blocks
from ksparse.matrix.sources import as_data, check_finite_block

__all__ = [
    "column_blocks",
    "count_nonzero",
    "dense",
    "group_counts",
    "group_sums",
    "map_rows",
    "open_matrix",
    "pick_columns",
    "reduce_rows",
    "row_results",
    "row_sums",
    "scale_rows",
    "stored_values",
    "sum_duplicates",
    "take_rows",
]

Step = Callable[[Any], Any]
# Rows that are worked on at a time.
ROWS = 4096


def open_matrix(X: Any, memory_limit: Any = None) -> Any:
    """Return a matrix in memory as it is, and one in a file or a dask array as blocks.

    A sparse matrix that a file stores by columns is read into memory: it has no rows to read.
    """
    if getattr(X, "format", "") == "csc" and not sp.issparse(X):
        X = X.to_memory()
    return as_data(X, memory_limit)[0]


# Rows and columns ----------------------------------------------------------------------------


def pick_columns(X: Any, columns: Ints) -> Any:
    """Return some of the columns, in the storage of X."""
    return X.pick(columns) if isinstance(X, Blocks) else X[:, columns]


def map_rows(X: Any, step: Step, *, n_columns: int | None = None, dtype: Any = None) -> Any:
    """Return `step(X)` for a function of the rows alone, such as normalisation.

    In memory it is computed at once, for data in blocks whenever a block is read.
    `n_columns` and `dtype` are those of the result, if not those of X.
    """
    if isinstance(X, Blocks):
        return X.with_steps(step, n_columns=n_columns, dtype=dtype)
    return step(X)


def take_rows(
    X: Any, rows: Ints | None, step: Step, *, n_columns: int | None = None, dtype: Any = None
) -> Any:
    """Return `step` of some of the rows (None: of all), in memory; see `map_rows`."""
    if isinstance(X, Blocks):
        blocks = X.with_steps(step, n_columns=n_columns, dtype=dtype)
        return blocks.take(np.arange(X.shape[0]) if rows is None else rows)
    if rows is None:
        return step(X)
    return step((X.tocsr() if sp.issparse(X) else X)[rows])


def row_results(
    X: Any, columns: Ints, work: Callable[..., Floats], shared: Sequence[Any], width: int
) -> Floats:
    """Return `work(Z, *shared)`, rows x width, where Z has some columns of a few rows, dense."""
    out = np.empty((X.shape[0], width))
    if isinstance(X, Blocks):
        results = X.pick(columns).results(_on_finite, (work, tuple(shared)))
        for (start, stop), part in zip(X.bounds, results, strict=True):
            out[start:stop] = part
        return out
    X = pick_columns(X, columns)
    X = X.tocsr() if sp.issparse(X) else X
    for start in range(0, X.shape[0], ROWS):
        rows = slice(start, start + ROWS)
        out[rows] = work(dense(X[rows]).astype(np.float64), *shared)
    return out


def _on_finite(block: Any, work: Callable[..., Floats], shared: Sequence[Any]) -> Floats:
    check_finite_block(block)
    return work(dense(block).astype(np.float64), *shared)


# Sums over the data --------------------------------------------------------------------------


def reduce_rows(
    X: Any,
    work: Callable[..., Any],
    shared: Sequence[Any],
    *by_row: NDArray[Any],
    combine: Callable[[Any, Any], Any] = np.add,
) -> Any:
    """Return `work(X, *by_row, *shared)`, for data in blocks combined over the blocks.

    Each block is given the part of `by_row` (arrays with one entry per row) that belongs to it.
    """
    if isinstance(X, Blocks):
        return X.total(work, shared, *(X.cut(values) for values in by_row), combine=combine)
    return work(X, *by_row, *shared)


def count_nonzero(X: Any) -> Floats:
    """Return how many rows have a nonzero value in each column."""
    counts = reduce_rows(X, group_counts, (1,), np.zeros(X.shape[0], dtype=np.intp))
    return np.asarray(counts[0])


# Data in memory ------------------------------------------------------------------------------


def dense(X: Any) -> NDArray[Any]:
    """Return data in memory as a numpy array."""
    return np.asarray(X.toarray() if sp.issparse(X) else X)


def column_blocks(X: Any, width: int) -> Iterator[tuple[slice, Floats]]:
    """Yield data in memory as dense float64 arrays of a few columns each, and which they are.

    So sparse data can be worked on by columns, and never stand in memory as a dense array.
    """
    by_column = X.tocsc() if sp.issparse(X) else X
    for start in range(0, X.shape[1], width):
        columns = slice(start, min(start + width, X.shape[1]))
        yield columns, dense(by_column[:, columns]).astype(np.float64, copy=False)


def stored_values(X: Any) -> NDArray[Any]:
    """Return the values that are stored (all but the zeros of sparse data), without a copy."""
    return np.asarray(X.data if sp.issparse(X) else X)


def sum_duplicates(X: Any) -> Any:
    """Return sparse data with every entry stored once; X itself is not changed."""
    if sp.issparse(X) and not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def row_sums(X: Any) -> Floats:
    """Return the sum of every row."""
    return np.asarray(X.sum(axis=1, dtype=np.float64)).ravel()


def scale_rows(X: Any, factor: NDArray[Any], dtype: Any) -> Any:
    """Return new data with every row multiplied by its factor: an array, or a CSR array."""
    if not sp.issparse(X):
        return (X * factor[:, None]).astype(dtype)
    rows = X.tocsr()
    data = (rows.data * np.repeat(factor, np.diff(rows.indptr))).astype(dtype)
    return sp.csr_array((data, rows.indices.copy(), rows.indptr.copy()), shape=rows.shape)


def _members(groups: Ints, n_groups: int) -> Any:
    """Return groups x rows, with 1 where a row belongs to a group."""
    shape = (n_groups, groups.size)
    return sp.csr_array((np.ones(groups.size), (groups, np.arange(groups.size))), shape=shape)


def group_sums(X: Any, groups: Ints, n_groups: int) -> Floats:
    """Return the sums of the rows of each group, groups x columns."""
    return dense(_members(groups, n_groups) @ X)


def group_counts(X: Any, groups: Ints, n_groups: int) -> Floats:
    """Return the numbers of nonzero values in the rows of each group, groups x columns."""
    return dense(_members(groups, n_groups) @ (X != 0).astype(np.float64))
