"""Counts: recognise them, scale them to counts per million, take logarithms."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array

from ksparse._errors import InputError, Term, warn
from ksparse.matrix.bad_data import check_indices
from ksparse.matrix.data import (
    pick_columns,
    reduce_rows,
    row_sums,
    scale_rows,
    stored_values,
    sum_duplicates,
)
from ksparse.matrix.sources import check_finite, check_table

__all__ = [
    "ValueSummary",
    "count_empty",
    "counts_per_million",
    "log_normalise",
    "log_rows",
    "looks_like_counts",
    "summarise_values",
    "warn_empty",
]

# Values that are examined together; logarithms of anything countable stay below LARGEST_LOG.
BLOCK, LARGEST_LOG = 2**20, 50.0


def log_normalise(counts: Any, total: float = 1e4) -> Any:
    """Return log(1 + counts per `total`) of each sample; samples without counts stay zero.

    Sparse data stay sparse, dense data stay dense, and `counts` itself is not changed.

    Parameters
    ----------
    counts : array-like or sparse matrix, samples x features
        Counts.
    total : float
        The sum that every sample is scaled to.

    Returns
    -------
    csr_array or ndarray of float32

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from ksparse.normalise import log_normalise
    >>> log_normalise(sp.csr_array([[1, 3], [0, 2]]), total=4).toarray().round(2)
    array([[0.69, 1.39],
           [0.  , 1.61]], dtype=float32)
    """
    scaled, depth = _scaled(counts, total)
    warn_empty(int((depth == 0).sum()), depth.size, 2)
    return _log(scaled)


def counts_per_million(counts: Any) -> Any:
    """Return counts per million of each sample; samples without counts stay zero.

    Sparse data stay sparse, dense data stay dense, and `counts` itself is not changed.

    Parameters
    ----------
    counts : array-like or sparse matrix, samples x features
        Counts.

    Returns
    -------
    csr_array or ndarray of float32

    Examples
    --------
    >>> import numpy as np
    >>> from ksparse.normalise import counts_per_million
    >>> counts_per_million(np.array([[1, 3], [0, 2]])).tolist()
    [[250000.0, 750000.0], [0.0, 1000000.0]]
    """
    scaled, depth = _scaled(counts, 1e6)
    warn_empty(int((depth == 0).sum()), depth.size, 2)
    return scaled


def log_rows(counts: Any, columns: NDArray[np.intp] | None = None) -> Any:
    """Return `log_normalise` of some of the samples, without a warning.

    Parameters
    ----------
    counts : array or sparse matrix, samples x features
        Counts of all features.
    columns : ndarray of int, optional
        Features to return; all by default. Every sample is scaled by all of its counts.
    """
    return _log(_scaled(counts, 1e4, columns)[0])


def warn_empty(n_empty: int, n_samples: int, stacklevel: int) -> None:
    """Warn of samples without counts, if there are any."""
    if n_empty:
        warn(
            f"{n_empty} of {n_samples} samples have no counts, and stay zero: "
            "leave them out for clearer clusters.",
            stacklevel=stacklevel + 1,
        )


def count_empty(X: Any) -> int:
    """Return how many samples have no counts, for data in memory or in blocks."""
    return int(reduce_rows(X, _count_empty, ()))


def _count_empty(block: Any) -> int:
    return int((row_sums(block) == 0).sum())


def _log(scaled: Any) -> Any:
    values = stored_values(scaled)
    np.log1p(values, out=values)
    return scaled


def _scaled(
    counts: Any, total: float, columns: NDArray[np.intp] | None = None
) -> tuple[Any, NDArray[np.float64]]:
    """Return new data in which every sample adds up to `total`, and the sums before."""
    if not isinstance(total, Real) or not 0 < total < np.inf:
        raise InputError(Term("total", total), " must be a finite number > 0.")
    check_indices(counts)
    check_table("counts", counts)
    counts = check_array(
        counts,
        accept_sparse="csr" if columns is None else ("csr", "csc"),
        dtype=(np.float32, np.float64),
        ensure_all_finite=False,
    )
    check_indices(counts)  # of what was converted from other kinds
    check_finite(counts)
    counts = sum_duplicates(counts)
    values = stored_values(counts)
    if values.size and values.min() < 0:
        raise InputError(
            f"counts has {int((values < 0).sum())} negative values, the smallest "
            f"{values.min():g}: give counts, which are >= 0."
        )
    depth = row_sums(counts)
    factor = (total / np.where(depth > 0, depth, 1.0)).astype(counts.dtype)
    part = counts if columns is None else pick_columns(counts, columns)
    return scale_rows(part, factor, np.float32), depth


class ValueSummary(NamedTuple):
    """Whether all values are whole numbers, whether any is negative, and the largest."""

    whole: bool
    negative: bool
    largest: float

    @property
    def are_counts(self) -> bool:
        """Whether they are counts: whole numbers >= 0, and more than yes and no."""
        return self.whole and not self.negative and self.largest > 1

    @property
    def too_large_for_logs(self) -> bool:
        """Whether they are >= 0 and too large for logarithms."""
        return not self.negative and self.largest > LARGEST_LOG

    def merge(self, other: ValueSummary) -> ValueSummary:
        """Return the summary of two parts of the data together."""
        return ValueSummary(
            self.whole and other.whole,
            self.negative or other.negative,
            max(self.largest, other.largest),
        )


def summarise_values(X: Any) -> ValueSummary:
    """Return whether values are whole, negative, and the largest.

    Parameters
    ----------
    X : ndarray, sparse matrix or blocks
        The data.

    Examples
    --------
    >>> import numpy as np
    >>> from ksparse.normalise import summarise_values
    >>> summarise_values(np.array([[0, 3], [12, 1]])).are_counts
    True
    >>> summarise_values(np.array([[0.0, 1300.5]])).too_large_for_logs
    True
    """
    return reduce_rows(X, _summarise, (), combine=ValueSummary.merge)


def _summarise(X: Any) -> ValueSummary:
    if X.dtype.kind not in "fiu":
        return ValueSummary(False, True, 0.0)
    summary = ValueSummary(True, False, 0.0)
    for block in _parts(stored_values(X)):
        whole = bool(np.isfinite(block).all() and (block == np.rint(block)).all())
        part = ValueSummary(whole, bool((block < 0).any()), float(block.max(initial=0)))
        summary = summary.merge(part)
    return summary


def _parts(values: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Yield the values, some at a time: checks make copies of them."""
    step = max(1, BLOCK // max(1, values[:1].size))
    for start in range(0, len(values), step):
        yield values[start : start + step]


def looks_like_counts(X: Any) -> bool:
    """Return whether the data are whole numbers >= 0, and more than yes and no.

    Parameters
    ----------
    X : ndarray or sparse matrix
        The data.

    Examples
    --------
    >>> import numpy as np
    >>> from ksparse.normalise import looks_like_counts
    >>> looks_like_counts(np.array([[0, 3], [12, 1]])), looks_like_counts(np.array([[0.5, 3]]))
    (True, False)
    """
    return summarise_values(X).are_counts
