"""Counts: how to recognise them, counts per million, and log(1 + counts per 10,000)."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_array

from ksparse.data_checks import check_finite

__all__ = [
    "Looks",
    "both_looks",
    "counts_per_million",
    "log_block",
    "log_normalise",
    "looks",
    "looks_like_counts",
    "warn_of_empty",
]

# Values that are looked at together; logarithms of anything countable stay below LARGEST_LOG.
BLOCK, LARGEST_LOG = 2**20, 50.0


def log_normalise(counts: Any, total: float = 1e4) -> Any:
    """log(1 + counts per `total`) of each sample; samples without counts stay zero.

    Sparse data stay sparse, dense data stay dense, and `counts` itself is not changed.

    Parameters
    ----------
    counts : array-like or sparse matrix, samples x features
        Counts.
    total : float
        What every sample is scaled to.

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
    scaled = _scaled(counts, total)
    values = scaled.data if sp.issparse(scaled) else scaled
    np.log1p(values, out=values)
    return scaled


def counts_per_million(counts: Any) -> Any:
    """Counts per million of each sample; samples without counts stay zero.

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
    return _scaled(counts, 1e6)


def log_block(counts: Any) -> Any:
    """`log_normalise` of some of the samples: not a word about those without counts.

    Parameters
    ----------
    counts : array or sparse matrix, samples x features
        Counts.
    """
    scaled = _scaled(counts, 1e4, tell=False)
    values = scaled.data if sp.issparse(scaled) else scaled
    np.log1p(values, out=values)
    return scaled


def warn_of_empty(empty: int, n_samples: int, stacklevel: int) -> None:
    """Tell how many samples have no counts."""
    if empty:
        warnings.warn(
            f"{empty} of {n_samples} samples have no counts, and stay zero: "
            "leave them out for clearer clusters.",
            UserWarning,
            stacklevel=stacklevel + 1,
        )


def _scaled(counts: Any, total: float, *, tell: bool = True) -> Any:
    """New data in which every sample adds up to `total`."""
    if not isinstance(total, Real) or not 0 < total < np.inf:
        raise ValueError(f"total={total!r} must be a finite number > 0.")
    counts = check_array(
        counts, accept_sparse="csr", dtype=(np.float32, np.float64), ensure_all_finite=False
    )
    check_finite(counts)
    if sp.issparse(counts) and not counts.has_canonical_format:
        counts = counts.copy()
        counts.sum_duplicates()
    values = counts.data if sp.issparse(counts) else counts
    if values.size and values.min() < 0:
        raise ValueError(
            f"counts has {int((values < 0).sum())} negative values, the smallest "
            f"{values.min():g}: give counts, which are >= 0."
        )
    depth = np.asarray(counts.sum(axis=1, dtype=np.float64)).ravel()
    if tell:
        warn_of_empty(int((depth == 0).sum()), depth.size, 3)
    factor = (total / np.where(depth > 0, depth, 1.0)).astype(counts.dtype)
    if not sp.issparse(counts):
        return (counts * factor[:, None]).astype(np.float32)
    data = (counts.data * np.repeat(factor, np.diff(counts.indptr))).astype(np.float32)
    return sp.csr_array((data, counts.indices.copy(), counts.indptr.copy()), shape=counts.shape)


def _blocks(X: Any) -> Iterator[Any]:
    """The stored values, some at a time."""
    if sp.issparse(X):
        for start in range(0, X.data.size, BLOCK):
            yield X.data[start : start + BLOCK]
    else:
        step = max(1, BLOCK // max(1, X.shape[1]))
        for start in range(0, X.shape[0], step):
            yield X[start : start + step]


class Looks(NamedTuple):
    """What values look like: all whole numbers, any negative, and the largest."""

    whole: bool
    negative: bool
    largest: float

    @property
    def counts(self) -> bool:
        """Whether they are counts: whole numbers >= 0, and more than yes and no."""
        return self.whole and not self.negative and self.largest > 1

    @property
    def unlogged(self) -> bool:
        """Whether they are >= 0 and too large for logarithms."""
        return not self.negative and self.largest > LARGEST_LOG


def looks(X: Any) -> Looks:
    """What the data look like, seen in blocks.

    Parameters
    ----------
    X : ndarray or sparse matrix
        The data.

    Examples
    --------
    >>> import numpy as np
    >>> from ksparse.normalise import looks
    >>> looks(np.array([[0, 3], [12, 1]])).counts, looks(np.array([[0.5, 3]])).counts
    (True, False)
    >>> looks(np.array([[0.0, 1300.5]])).unlogged, looks(np.array([[0.0, 7.2]])).unlogged
    (True, False)
    """
    if X.dtype.kind not in "fiu":
        return Looks(False, True, 0.0)
    found = Looks(True, False, 0.0)
    for block in _blocks(X):
        whole = bool(np.isfinite(block).all() and (block == np.rint(block)).all())
        part = Looks(whole, bool((block < 0).any()), float(block.max(initial=0)))
        found = both_looks(found, part)
    return found


def both_looks(a: Looks, b: Looks) -> Looks:
    """What two parts of the data look like together."""
    return Looks(a.whole and b.whole, a.negative or b.negative, max(a.largest, b.largest))


def looks_like_counts(X: Any) -> bool:
    """Whether the data are whole numbers >= 0, and more than yes and no.

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
    return looks(X).counts
