"""What users may pass in: arrays, sparse matrices, AnnData, matrices in files, dask arrays.

Convert it to data that can be clustered, check the values, and return the view that fits
their storage.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksparse._compile import compiled
from ksparse._errors import InputError, Term
from ksparse._names import repeated
from ksparse._threads import map_parts, split
from ksparse.matrix.bad_data import BadValues, bad_values, check_indices, check_unmasked
from ksparse.matrix.base import DenseMatrix, Floats, Ints, Matrix
from ksparse.matrix.blocks import BlockMatrix, Blocks, SomeRows, project_block
from ksparse.matrix.opening import is_dask, is_sparse_file, open_blocks, top_module
from ksparse.matrix.sparse import SparseMatrix

__all__ = [
    "as_data",
    "as_matrix",
    "check_column_names",
    "check_costs",
    "check_data",
    "check_distinct_rows",
    "check_finite",
    "check_finite_block",
    "check_sample_weight",
    "check_stored_values",
    "check_table",
    "check_values",
    "columns_in_memory",
    "count_distinct_rows",
    "is_stored",
    "n_passes",
    "project_samples",
    "select_rows",
]

# Squares, and sums of many of them, stay within the range of float64.
SMALLEST_VALUE, LARGEST_VALUE = 1e-60, 1e60
# Positive sample weights further apart than this would leave only rounding of the smallest.
WEIGHT_RANGE = 1e12
# Values are checked in this many parts.
CHECK_PARTS = 8


def is_stored(X: Any) -> bool:
    """Return whether X is in a file, or on a cluster, and not in memory."""
    if isinstance(X, np.ndarray) or sp.issparse(X):
        return False
    if isinstance(X, Blocks) or is_dask(X):
        return True
    return top_module(X) in ("h5py", "zarr") or is_sparse_file(X)


def as_data(X: Any, memory_limit: Any = None) -> tuple[Any, list[str] | None]:
    """Return what can be clustered (stored matrices as `Blocks`), and the names of AnnData."""
    if isinstance(X, np.ndarray):
        return X, None
    names = None
    if top_module(X) == "anndata" and hasattr(X, "var_names"):
        names = [str(name) for name in X.var_names]
        if X.is_view and X.isbacked:
            raise InputError(
                "X is a view of a backed AnnData: give the whole, or ", Term("X.to_memory()"), "."
            )
        X = X.X
        if X is None:
            raise InputError("The AnnData object has no X: give one of its layers.")
    if sp.issparse(X):
        check_indices(X)
    if isinstance(X, Blocks) or not is_stored(X):
        return X, names
    return open_blocks(X, memory_limit), names


def as_matrix(X: Any, **options: Any) -> Matrix:
    """Return the view that fits the storage of X; for the options see `Matrix`."""
    if isinstance(X, Blocks):
        return BlockMatrix(X, **options)
    return (SparseMatrix if sp.issparse(X) else DenseMatrix)(X, **options)


def select_rows(X: Any, rows: Ints) -> Any:
    """Return some of the samples (in increasing order), as blocks where X is in blocks."""
    return SomeRows(X, rows) if isinstance(X, Blocks) else X[rows]


def columns_in_memory(X: Any, columns: Ints) -> Any:
    """Return some of the features of all samples, in memory."""
    if isinstance(X, Blocks):
        return X.pick(columns).take(np.arange(X.shape[0]))
    return X[:, columns]


def n_passes(X: Any) -> int | None:
    """Return how often data in blocks were read; None for data in memory."""
    return X.n_passes if isinstance(X, Blocks) else None


def project_samples(X: Any, mean: Floats, factor: Floats, W: NDArray[Any]) -> Floats:
    """Return (X - 1 mean') diag(factor) W for any samples, old or new, in any storage.

    Only features with a nonzero row in W are read. Blocks are checked for NaN and infinity
    on the way, as arrays in memory are when they are passed in.
    """
    if not isinstance(X, Blocks):
        return project_block(X, mean, factor, W)
    out = np.empty((X.shape[0], W.shape[1]))
    results = X.results(_project_checked, (mean, factor, W))
    for (start, stop), part in zip(X.bounds, results, strict=True):
        out[start:stop] = part
    return out


def _project_checked(block: Any, mean: Floats, factor: Floats, W: NDArray[Any]) -> Floats:
    check_finite_block(block)
    return project_block(block, mean, factor, W)


def check_finite_block(block: Any) -> None:
    """Raise InputError if a block in memory holds NaN or infinity."""
    if not np.isfinite(_block_largest(block)):
        raise InputError("X contains NaN or infinity: remove or impute them.")


class Data(NamedTuple):
    """Checked data, and the names of the features where they are known."""

    X: Any
    names: list[str] | None


def check_data(X: Any, memory_limit: Any, validate: Callable[..., Any]) -> Data:
    """Return data that can be computed with; raise InputError on what cannot.

    `validate` is scikit-learn's `check_array`, or `validate_data` for an estimator.
    """
    check_column_names(X)
    X, names = as_data(X, memory_limit)
    if not is_stored(X):
        check_table("X", X)
        try:
            X = validate(X, accept_sparse=("csr", "csc"), dtype=(np.float64, np.float32),
                         ensure_all_finite=False)  # fmt: skip
        except ValueError as error:
            raise InputError(str(error)) from None
        if sp.issparse(X):
            check_indices(X)  # of what was converted from other kinds
        check_values(X)
    if names is not None and (again := repeated(names)):
        raise InputError(f"X has {len(again)} repeated feature names: make them unique.")
    return Data(X, names)


def check_sample_weight(n_samples: int, sample_weight: Any) -> tuple[Floats | None, Ints | None]:
    """Return positive weights (None: all equal), and the rows that have them (None: all)."""
    if sample_weight is None:
        return None, None
    weight = _real_array("sample_weight", "sample", sample_weight)
    if weight.ndim == 0:
        weight = np.full(n_samples, float(weight))
    if weight.shape != (n_samples,):
        raise InputError(
            Term("sample_weight"), f" has shape {weight.shape}, but X has {n_samples} samples: "
            "give one weight per sample.",
        )  # fmt: skip
    if not np.isfinite(weight).all():
        raise InputError(Term("sample_weight"), " contains NaN or infinity: give numbers >= 0.")
    if (weight < 0).any():
        raise InputError("Negative values in ", Term("sample_weight"), ": give numbers >= 0.")
    if not weight.any():
        raise InputError(
            Term("sample_weight"), " is zero for all samples: give some a positive weight."
        )
    least, most = float(weight[weight > 0].min()), float(weight.max())
    if not SMALLEST_VALUE <= most <= LARGEST_VALUE:
        raise InputError(
            "The largest ", Term("sample_weight"), f" is {most:.3g}, which should be between "
            f"{SMALLEST_VALUE:.0g} and {LARGEST_VALUE:.0g}: multiply all by one number, which "
            "changes nothing.",
        )  # fmt: skip
    if most > WEIGHT_RANGE * least:
        raise InputError(
            Term("sample_weight"), f" ranges from {least:.3g} to {most:.3g}, which should be "
            f"within a factor of {WEIGHT_RANGE:.0e}: set the smallest to 0.",
        )  # fmt: skip
    if (weight == weight[0]).all():
        return None, None  # equal weights change nothing but the scale of the cost
    rows = None if weight.all() else np.flatnonzero(weight)
    return (weight if rows is None else weight[rows]), rows


def check_costs(feature_weights: Any, n_features: int, name: str = "feature_weights") -> Floats:
    """Return the cost of each feature; `name` is what an error calls them."""
    if feature_weights is None:
        return np.ones(n_features)
    costs = _real_array(name, "feature", feature_weights)
    if costs.shape != (n_features,):
        raise InputError(
            Term(name), f" has shape {costs.shape}, but X has {n_features} features: "
            "give one weight per feature.",
        )  # fmt: skip
    if np.isnan(costs).any() or (costs < 0).any():
        raise InputError(
            Term(name),
            " must be >= 0 (0: always allowed, infinity: never selected).",
        )
    if np.isinf(costs).all():
        raise InputError(Term(name), " is infinite for all features: none may be selected.")
    return costs


def _real_array(name: str, per: str, values: Any) -> Floats:
    """Return values as float64, or raise InputError if they are no real numbers."""
    check_unmasked(name, values)
    try:
        given = np.asarray(values)
        if given.dtype.kind in "fiubO":
            return given.astype(np.float64)
    except (TypeError, ValueError):
        pass
    raise InputError(Term(name), f" must be real numbers, one per {per}.")


def check_column_names(X: Any) -> None:
    """Raise InputError if column names of a data frame are repeated."""
    names = getattr(X, "columns", None)
    if names is None:
        return
    again = repeated(names)
    if again:
        raise InputError(
            f"X has {len(again)} repeated column names (the first is {again[0]!r}): "
            "make them unique."
        )


def check_table(name: str, X: Any) -> None:
    """Raise InputError if X is no table, or holds text or other objects, not real numbers.

    scikit-learn's checks would quote the data in many lines.
    """
    if isinstance(X, np.ma.MaskedArray):
        check_unmasked(name, X)
    try:
        values = X if sp.issparse(X) else np.asarray(X)
        if values.dtype.kind in "OUS":
            values.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must hold numbers only: {error}") from None
    if values.dtype.kind == "c":
        raise InputError(f"Complex data not supported: {name} must hold real numbers.")
    if values.ndim < 2:
        raise InputError(
            f"Expected 2D array, got {f'{values.ndim}D' if values.ndim else 'scalar'} array "
            f"instead: {name} must be samples x features. Reshape your data, such as one sample "
            "by ", Term(f"{name}.reshape(1, -1)"), ".",
        )  # fmt: skip


def check_finite(X: Any) -> None:
    """Raise InputError on NaN and infinity, with the place of the first; makes no copy."""
    values = X.data if sp.issparse(X) else X
    # A sum is finite unless an entry is not (or it overflows): look closer only then.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum(dtype=np.float64)):
            return
    bad = bad_values(X)
    if bad.first is not None:
        raise InputError(bad.message())


def check_values(X: Any) -> None:
    """Raise InputError on NaN, infinity, and values whose squares overflow or underflow.

    One pass, in threads, without a copy: NaN and infinity show in the largest value.
    """
    largest = _block_largest(X)
    if not np.isfinite(largest):
        raise InputError(bad_values(X).message())
    _check_largest(largest)


def check_stored_values(X: Any, matrix: Matrix) -> None:
    """Raise InputError or warn about values of data in blocks; others are checked before.

    A view of all samples has seen the largest value; that of some of them has not.
    """
    if not isinstance(X, Blocks):
        return
    assert isinstance(matrix, BlockMatrix)
    largest = matrix.largest if matrix.X is X else X.total(_block_largest, (), combine=np.maximum)
    if not np.isfinite(largest):
        out = BadValues(0, frozenset(), None)
        results = X.results(bad_values, ())
        for (start, _), bad in zip(X.bounds, results, strict=True):
            first = None if bad.first is None else (start + bad.first[0], bad.first[1])
            out = BadValues(out.number + bad.number, out.kinds | bad.kinds, out.first or first)
        raise InputError(out.message())
    _check_largest(float(largest))
    if matrix.mixed:
        warnings.warn(
            "Some chunks of X are sparse and some are dense: each is used as it is.",
            UserWarning,
            stacklevel=4,
        )


def _block_largest(block: Any) -> float:
    """Return the largest magnitude; NaN if there is one."""
    values = block.data if sp.issparse(block) else block
    if not (values.flags.c_contiguous or values.flags.f_contiguous):
        with np.errstate(invalid="ignore"):
            return float(np.maximum(values.max(initial=0.0), -values.min(initial=0.0)))
    flat = values.ravel(order="K")  # a view
    largest = map_parts(lambda part: _largest_of(flat, *part), split(flat.size, CHECK_PARTS))
    return float(np.max(largest, initial=0.0))


@compiled
def _largest_of(values: NDArray[Any], i0: int, i1: int) -> float:
    largest = 0.0
    for i in range(i0, i1):
        size = abs(np.float64(values[i]))
        if size > largest:
            largest = size
        elif size != size:
            return np.nan
    return largest


def _check_largest(largest: float) -> None:
    if largest > 0 and not SMALLEST_VALUE <= largest <= LARGEST_VALUE:
        raise InputError(
            f"The largest value in X is {largest:.3g}, outside the range from "
            f"{SMALLEST_VALUE:.0g} to {LARGEST_VALUE:.0g} that can be computed with: rescale X."
        )


def check_distinct_rows(X: Any, n_clusters: int) -> None:
    """Raise InputError if there are fewer distinct samples than clusters."""
    n_distinct = count_distinct_rows(X, n_clusters)
    if n_distinct < n_clusters:
        raise InputError(
            f"X has {n_distinct} distinct samples, which should be >= ",
            Term("n_clusters", n_clusters),
            ": ask for fewer clusters.",
        )


def count_distinct_rows(X: Any, most: int) -> int:
    """Return the number of distinct samples, or `most` if there are at least that many."""
    if isinstance(X, Blocks):
        seen = _distinct_rows(X.first(), most)
        if len(seen) < most:
            seen = X.total(_distinct_rows, (most,), combine=set.union)
    else:
        seen = _distinct_rows(X, most)
    return min(len(seen), most)


def _distinct_rows(X: Any, enough: int) -> set[bytes]:
    """Return bytes of distinct rows, up to so many."""
    seen: set[bytes] = set()
    rows = X.tocsr() if sp.issparse(X) and X.format != "csr" and X.shape[0] < 2**15 else X
    if sp.issparse(rows) and rows.format != "csr":
        # A large CSC: k distinct rows are not worth a copy of the data.
        return {str(i).encode() for i in range(enough)}
    for i in range(X.shape[0]):
        seen.add(_row_key(rows, i))
        if len(seen) >= enough:
            break
    return seen


def _row_key(X: Any, i: int) -> bytes:
    """Return bytes that are equal for equal rows."""
    if sp.issparse(X):
        part = slice(X.indptr[i], X.indptr[i + 1])
        row: NDArray[Any] = np.zeros(X.shape[1])
        np.add.at(row, X.indices[part], X.data[part])
        used = np.flatnonzero(row)
        return used.tobytes() + row[used].tobytes()
    return (np.ascontiguousarray(X[i]) + 0.0).tobytes()  # + 0.0: -0.0 is 0.0
