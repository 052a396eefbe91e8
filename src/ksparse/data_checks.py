"""Checks of the data themselves: one sentence that names what is wrong and the cure."""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numba import njit
from numpy.typing import NDArray

from ksparse._threads import map_parts, split
from ksparse.matrix import BlockMatrix, Blocks

__all__ = ["check_blocks", "check_distinct_rows", "check_finite", "check_names", "check_values"]

# Squares, and sums of many of them, stay within the range of float64.
SMALLEST_VALUE, LARGEST_VALUE = 1e-60, 1e60
# Values are looked at in so many parts.
CHECK_PARTS = 8


def check_names(X: Any) -> None:
    """Refuse a data frame with repeated column names: features could not be told apart."""
    names = getattr(X, "columns", None)
    if names is None:
        return
    counts = Counter(names)
    repeated = [name for name, count in counts.items() for _ in range(count - 1)]
    if repeated:
        raise ValueError(
            f"X has {len(repeated)} repeated column names (the first is {repeated[0]!r}): "
            "make them unique."
        )


def check_finite(X: Any) -> None:
    """Refuse NaN and infinity, saying where the first one is. No copy of the data is made."""
    values = X.data if sp.issparse(X) else X
    # A sum is finite unless an entry is not (or it overflows): look closer only then.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum(dtype=np.float64)):
            return
    found = _bad_values(X)
    if found.first is not None:
        raise ValueError(found.sentence())


class _Bad(NamedTuple):
    """Values that are not finite: how many, of which kinds, and where the first one is."""

    number: int
    kinds: frozenset[str]
    first: tuple[int, int] | None

    def sentence(self) -> str:
        assert self.first is not None
        return (
            f"X contains {' and '.join(sorted(self.kinds))} ({self.number} in all, the first in "
            f"row {self.first[0]}, column {self.first[1]}): remove or impute them before "
            "clustering."
        )


def _bad_values(X: Any) -> _Bad:
    out = _Bad(0, frozenset(), None)
    step = max(1, 2**20 // max(1, X.shape[1]))
    rows = X.tocsr() if sp.issparse(X) else X
    for start in range(0, X.shape[0], step):
        block = rows[start : start + step]
        block = block.toarray() if sp.issparse(block) else block
        wrong = np.argwhere(~np.isfinite(block))
        if wrong.size:
            kinds = {"NaN" if np.isnan(block[i, j]) else "infinity" for i, j in wrong}
            first = (start + int(wrong[0][0]), int(wrong[0][1]))
            out = _Bad(out.number + len(wrong), out.kinds | kinds, out.first or first)
    return out


def check_values(X: Any) -> None:
    """Refuse NaN, infinity, and values whose squares overflow or underflow.

    One pass, in threads, without a copy: NaN and infinity show in the largest value.
    """
    largest = _largest(X.data if sp.issparse(X) else X)
    if not np.isfinite(largest):
        raise ValueError(_bad_values(X).sentence())
    _check_largest(largest)


def _block_largest(block: Any) -> float:
    return _largest(block.data if sp.issparse(block) else block)


def _largest(values: NDArray[Any]) -> float:
    """Largest magnitude; NaN if there is one."""
    if not (values.flags.c_contiguous or values.flags.f_contiguous):
        with np.errstate(invalid="ignore"):
            return float(np.maximum(values.max(initial=0.0), -values.min(initial=0.0)))
    flat = values.ravel(order="K")  # a view
    found = map_parts(lambda part: _largest_of(flat, *part), split(flat.size, CHECK_PARTS))
    return float(np.max(found, initial=0.0))


@njit(cache=True, nogil=True)
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
        raise ValueError(
            f"The largest value in X is {largest:.3g}, outside the range from "
            f"{SMALLEST_VALUE:.0g} to {LARGEST_VALUE:.0g} that can be computed with: rescale X."
        )


def check_distinct_rows(X: Any, n_clusters: int) -> None:
    """Refuse data with fewer distinct samples than clusters."""
    if isinstance(X, Blocks):
        seen = _distinct_rows(X.first(), n_clusters)
        if len(seen) < n_clusters:
            seen = X.total(_distinct_rows, (n_clusters,), combine=set.union)
    else:
        seen = _distinct_rows(X, n_clusters)
    if len(seen) < n_clusters:
        raise ValueError(
            f"X has {len(seen)} distinct samples, which should be >= n_clusters={n_clusters}: "
            "ask for fewer clusters."
        )


def _distinct_rows(X: Any, enough: int) -> set[bytes]:
    """Bytes of distinct rows, up to so many."""
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


def check_blocks(X: Blocks, matrix: BlockMatrix) -> None:
    """Refuse or warn of what is in blocks, from what their view has seen.

    A view of some of the samples has not seen the others: these are looked at now.
    """
    largest = matrix.largest if matrix.X is X else X.total(_block_largest, (), combine=np.maximum)
    if not np.isfinite(largest):
        out = _Bad(0, frozenset(), None)
        results = X.results(_bad_values, ())
        for (start, _), found in zip(X.bounds, results, strict=True):
            first = None if found.first is None else (start + found.first[0], found.first[1])
            out = _Bad(out.number + found.number, out.kinds | found.kinds, out.first or first)
        raise ValueError(out.sentence())
    _check_largest(float(largest))
    if matrix.mixed:
        warnings.warn(
            "Some chunks of X are sparse and some are dense: each is worked on as it is.",
            UserWarning,
            stacklevel=4,
        )


def _row_key(X: Any, i: int) -> bytes:
    """Bytes that are equal for equal rows."""
    if sp.issparse(X):
        part = slice(X.indptr[i], X.indptr[i + 1])
        row: NDArray[Any] = np.zeros(X.shape[1])
        np.add.at(row, X.indices[part], X.data[part])
        used = np.flatnonzero(row)
        return used.tobytes() + row[used].tobytes()
    return (np.ascontiguousarray(X[i]) + 0.0).tobytes()  # + 0.0: -0.0 is 0.0
