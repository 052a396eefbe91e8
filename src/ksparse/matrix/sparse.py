"""Sparse matrices (CSR and CSC) behind the matrix protocol.

The data stay sparse: centring enters as a rank-one correction of every product.
The kernels run in threads; a scatter is split in a fixed number of parts that are
added in a fixed order, so results do not depend on the number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ksparse._compile import compiled
from ksparse._threads import blas_threads, map_parts, split
from ksparse.matrix.base import Floats, Ints, Matrix

__all__ = ["SparseMatrix", "project_sparse"]

# A scatter accumulates in this many parts, unless one part is larger than the limit.
SCATTER_PARTS = 4
SCATTER_LIMIT = 2**22
# Features are made dense in blocks of about this many entries.
BLOCK_ENTRIES = 2**20
# Products of features of which fewer than this share is stored are made from the entries alone
# (on one core, as fast as dense ones at this share, and more than twice as fast at half of it),
SPARSE_SHARE = 0.2
# Products X'X V with many vectors, of data of which at least this share is stored, go through
# dense blocks of rows (on one core, as fast at this share, and twice as fast at twice as much).
DENSE_SHARE = 0.25
# unless a variance is a smaller share than this of its squares: the difference would be rounding.
LEAST_VARIANCE = 1e-4

Array = NDArray[Any]


@compiled
def _longest(indptr: Array, i0: int, i1: int) -> int:
    """Return the largest number of entries of a row."""
    longest = 0
    for i in range(i0, i1):
        longest = max(longest, indptr[i + 1] - indptr[i])
    return longest


@compiled
def _gather(
    indptr: Array,
    indices: Array,
    data: Array,
    V: Floats,
    used: Array,
    out: Floats,
    i0: int,
    i1: int,
) -> None:
    """Add to out[i] the sum over the entries (i, j) of x_ij V[j], for rows j of V in use."""
    r = V.shape[1]
    # The entries in use are found first, without a branch that would be guessed wrong.
    here = np.empty(_longest(indptr, i0, i1) + 1, dtype=np.int64)
    for i in range(i0, i1):
        n = 0
        for p in range(indptr[i], indptr[i + 1]):
            here[n] = p
            n += used[indices[p]]
        for q in range(n):
            p = here[q]
            j, x = indices[p], np.float64(data[p])
            for c in range(r):
                out[i, c] += x * V[j, c]


@compiled
def _scatter(
    indptr: Array,
    indices: Array,
    data: Array,
    R: Floats,
    used: Array,
    out: Floats,
    i0: int,
    i1: int,
) -> None:
    """Add to out[j] the sum over the entries (i, j) of x_ij R[i], for rows i of R in use."""
    r = R.shape[1]
    for i in range(i0, i1):
        if not used[i]:
            continue
        for p in range(indptr[i], indptr[i + 1]):
            j = indices[p]
            x = np.float64(data[p])
            for c in range(r):
                out[j, c] += x * R[i, c]


@compiled
def _scatter_groups(
    indptr: Array, indices: Array, data: Array, group: Array, weight: Floats, out: Floats,
    i0: int, i1: int,
) -> None:  # fmt: skip
    """Add to out[g, j] the sum over the entries (i, j) with group[i] = g of weight_i x_ij."""
    for i in range(i0, i1):
        g = group[i]
        for p in range(indptr[i], indptr[i + 1]):
            out[g, indices[p]] += np.float64(data[p]) * weight[i]


@compiled
def _scatter_normal(
    indptr: Array, indices: Array, data: Array, V: Floats, used: Array, shift: Floats,
    weight: Floats, out: Floats, total: Floats, i0: int, i1: int,
) -> None:  # fmt: skip
    """Add X' diag(weight) R to out and the weighted sums of R to total, R = X V - shift."""
    r = V.shape[1]
    row = np.zeros(r)
    for i in range(i0, i1):
        for c in range(r):
            row[c] = -shift[c]
        for p in range(indptr[i], indptr[i + 1]):
            j = indices[p]
            if used[j]:
                x = np.float64(data[p])
                for c in range(r):
                    row[c] += x * V[j, c]
        for c in range(r):
            row[c] *= weight[i]
            total[c] += row[c]
        for p in range(indptr[i], indptr[i + 1]):
            j = indices[p]
            x = np.float64(data[p])
            for c in range(r):
                out[j, c] += x * row[c]


@compiled
def _fill(
    indptr: Array, indices: Array, data: Array, place: Array, out: Floats, i0: int, i1: int
) -> None:
    """Put the entries of rows i0 to i1 in their places; place -1 is left out."""
    here = np.empty(_longest(indptr, i0, i1) + 1, dtype=np.int64)
    for i in range(i0, i1):
        n = 0
        for p in range(indptr[i], indptr[i + 1]):
            here[n] = p
            n += place[indices[p]] >= 0
        for q in range(n):
            p = here[q]
            out[i - i0, place[indices[p]]] += np.float64(data[p])


@compiled
def _scatter_products(
    indptr: Array, indices: Array, data: Array, place: Array, weight: Floats, out: Floats,
    i0: int, i1: int,
) -> None:  # fmt: skip
    """Add to out[a, b] the weighted products of the entries of a row, a <= b; sums to the end.

    Features are in increasing order within rows, and so are their places.
    """
    n = out.shape[1]
    here = np.empty(n, dtype=np.intp)
    x = np.empty(n)
    for i in range(i0, i1):
        m = 0
        for p in range(indptr[i], indptr[i + 1]):
            c = place[indices[p]]
            if c >= 0:
                here[m], x[m] = c, np.float64(data[p])
                m += 1
        for a in range(m):
            row, y = out[here[a]], weight[i] * x[a]
            out[n, here[a]] += y
            for b in range(a, m):
                row[here[b]] += y * x[b]


@compiled
def _squared_deviations(
    indptr: Array, indices: Array, data: Array, mean: Floats, weight: Floats, by_rows: bool,
    out: Floats, i0: int, i1: int,
) -> None:  # fmt: skip
    """Add by feature: weighted squared deviations of stored entries, their weight and number."""
    for major in range(i0, i1):
        for p in range(indptr[major], indptr[major + 1]):
            i, j = (major, indices[p]) if by_rows else (indices[p], major)
            deviation = np.float64(data[p]) - mean[j]
            out[0, j] += weight[i] * deviation * deviation
            out[1, j] += weight[i]
            out[2, j] += 1.0


def _nonzero_rows(V: Floats) -> Array:
    return np.asarray(V.any(axis=1))


def _accumulate(
    n_major: int, shape: tuple[int, ...], add: Callable[[Floats, int, int], None]
) -> Floats:
    """Sum what `add(out, i0, i1)` leaves in `out` over a fixed split of the major axis."""
    parts = SCATTER_PARTS if math.prod(shape) <= SCATTER_LIMIT else 1

    def one(part: tuple[int, int]) -> Floats:
        out = np.zeros(shape)
        add(out, *part)
        return out

    pieces = map_parts(one, split(n_major, parts))
    return reduce(np.add, pieces) if pieces else np.zeros(shape)


def _multiply(X: Any, V: Floats, *, transpose: bool) -> Floats:
    """Return X V, or X' V; rows of zeros in V are skipped."""
    V = np.ascontiguousarray(V)
    used = _nonzero_rows(V)
    arrays = X.indptr, X.indices, X.data
    shape = (X.shape[1] if transpose else X.shape[0], V.shape[1])
    if (X.format == "csr") == transpose:
        return _accumulate(
            X.indptr.size - 1,
            shape,
            lambda out, i0, i1: _scatter(*arrays, V, used, out, i0, i1),
        )
    out = np.zeros(shape)
    map_parts(
        lambda part: _gather(*arrays, V, used, out, *part), split(shape[0], 4 * SCATTER_PARTS)
    )
    return out


def project_sparse(X: Any, mean: Floats, factor: Floats, W: NDArray[Any]) -> Floats:
    """Return (X - 1 mean') diag(factor) W; the mean enters as a rank-one correction."""
    V = W.astype(np.float64) * factor[:, None]
    return _multiply(X, V, transpose=False) - mean @ V


class SparseMatrix(Matrix):
    """A scipy CSR or CSC matrix or array."""

    def __init__(self, X: Any, **options: Any) -> None:
        if not X.has_canonical_format:  # repeated entries would spoil the variances
            X = X.copy()
            X.sum_duplicates()
        super().__init__(X, **options)

    @property
    def by_rows(self) -> bool:
        """Whether rows are stored one after the other."""
        return bool(self.X.format == "csr")

    @property
    def _arrays(self) -> tuple[Array, Array, Array]:
        return self.X.indptr, self.X.indices, self.X.data

    def _row_weights(self) -> Floats:
        return np.ones(self.shape[0]) if self.sample_weight is None else self.sample_weight

    def _moments(self) -> tuple[Floats, Floats]:
        weight = self._row_weights()
        mean = _multiply(self.X, weight[:, None], transpose=True)[:, 0] / self.total_weight
        square, stored, number = _accumulate(
            self.X.indptr.size - 1,
            (3, self.shape[1]),
            lambda out, i0, i1: _squared_deviations(
                *self._arrays, mean, weight, self.by_rows, out, i0, i1
            ),
        )
        # Where every entry is stored, a difference of weights would be rounding, not zeros.
        zeros = np.where(number < self.shape[0], np.maximum(self.total_weight - stored, 0.0), 0.0)
        square += zeros * mean**2
        return mean, square / self.total_weight

    def project(self, W: Floats) -> Floats:
        return project_sparse(self.X, self.mean, self.factor, W)

    def correlate(self, T: Floats) -> Floats:
        T = self._weighted(T)
        out = _multiply(self.X, T, transpose=True)
        out -= np.outer(self.mean, T.sum(axis=0))
        return out * self.factor[:, None]

    def normal(self, W: Floats) -> Floats:
        if not self.by_rows:
            return self.correlate(self.project(W))
        V = W * self.factor[:, None]
        used, shift, weight = _nonzero_rows(V), self.mean @ V, self._row_weights()
        (m, d), r = self.shape, V.shape[1]

        def add(out: Floats, i0: int, i1: int) -> None:  # the last row holds the sums of R
            _scatter_normal(*self._arrays, V, used, shift, weight, out[:d], out[d], i0, i1)

        def add_dense(out: Floats, i0: int, i1: int) -> None:
            every, step = np.arange(d), max(1, BLOCK_ENTRIES // d)
            for start in range(i0, i1, step):
                stop = min(start + step, i1)
                block = np.zeros((stop - start, d))
                _fill(*self._arrays, every, block, start, stop)
                R = (block @ V - shift) * weight[start:stop, None]
                out[:d] += block.T @ R
                out[d] += R.sum(axis=0)

        dense = r > 1 and 2 * used.sum() > d and self.X.nnz >= DENSE_SHARE * m * d
        with blas_threads(0):  # the parts have threads already
            both = _accumulate(m, (d + 1, r), add_dense if dense else add)
        return (both[:d] - np.outer(self.mean, both[d])) * self.factor[:, None]

    def cluster_sums(self, labels: Ints, n_clusters: int) -> Floats:
        weight = self._row_weights()
        if not self.by_rows:
            members = np.zeros((self.shape[0], n_clusters))
            members[np.arange(self.shape[0]), labels] = 1.0
            return np.ascontiguousarray(self.correlate(members).T)
        sums = _accumulate(
            self.X.indptr.size - 1,
            (n_clusters, self.shape[1]),
            lambda out, i0, i1: _scatter_groups(*self._arrays, labels, weight, out, i0, i1),
        )
        sizes = np.bincount(labels, weights=weight, minlength=n_clusters)
        return (sums - np.outer(sizes, self.mean)) * self.factor

    def _dense_blocks(self, columns: Ints) -> Iterator[tuple[slice, Floats]]:
        """Yield some features (each once), centred and scaled, dense in blocks of rows."""
        if self.by_rows:
            data, place = self.X, np.full(self.shape[1], -1, dtype=np.intp)
            place[columns] = np.arange(columns.size)
        else:
            data, place = self.X[:, columns].tocsr(), np.arange(columns.size)
        step = max(1, BLOCK_ENTRIES // max(1, columns.size))
        for start in range(0, self.shape[0], step):
            stop = min(start + step, self.shape[0])
            block = np.zeros((stop - start, columns.size))
            _fill(data.indptr, data.indices, data.data, place, block, start, stop)
            block -= self.mean[columns]
            block *= self.factor[columns]
            yield slice(start, stop), block

    def _sparse_gram(self, columns: Ints) -> Floats | None:
        """Return the Gram matrix of features (each once, increasing) from their entries alone.

        None where that would be slow or inexact.
        """
        if not self.by_rows:
            return None
        place = np.full(self.shape[1], -1, dtype=np.intp)
        place[columns] = np.arange(columns.size)
        some = self.X.indices[:: max(1, self.X.nnz // BLOCK_ENTRIES)]
        entries = self.X.nnz * float(np.mean(place[some] >= 0)) if some.size else 0.0
        if entries >= SPARSE_SHARE * self.shape[0] * columns.size:
            return None
        weight = self._row_weights()
        both = _accumulate(
            self.shape[0],
            (columns.size + 1, columns.size),
            lambda out, i0, i1: _scatter_products(*self._arrays, place, weight, out, i0, i1),
        )
        upper, sums = both[:-1], both[-1]
        squares = np.diag(upper).copy()
        out = upper + np.triu(upper, 1).T
        mean, factor = self.mean[columns], self.factor[columns]
        shift = np.outer(mean, sums - 0.5 * weight.sum() * mean)
        out -= shift + shift.T
        if np.any((np.diag(out) < LEAST_VARIANCE * squares) & (factor > 0)):
            return None
        return out * factor * factor[:, None]

    def gram(self, columns: Ints, others: Ints | None = None) -> Floats:
        if others is None:
            needed, place = np.unique(columns, return_inverse=True)
            found = self._sparse_gram(needed)
            if found is not None:
                return found[np.ix_(place, place)]
        both = columns if others is None else np.concatenate([columns, others])
        needed, place = np.unique(both, return_inverse=True)
        left, right = place[: columns.size], place[-others.size :] if others is not None else place
        # Products of features that are wanted on one side only are made only once.
        rows, columns_ = np.unique(left), np.unique(right)
        out = np.zeros((rows.size, columns_.size))
        every = np.arange(needed.size)
        for part, block in self._dense_blocks(needed):
            A = block if np.array_equal(rows, every) else block[:, rows]
            B = block if np.array_equal(columns_, every) else block[:, columns_]
            if self.sample_weight is not None and others is None:
                block *= np.sqrt(self.sample_weight[part, None])  # a symmetric product is faster
            elif self.sample_weight is not None:
                A = A * self.sample_weight[part, None]
            out += A.T @ B
        return out[np.ix_(np.searchsorted(rows, left), np.searchsorted(columns_, right))]

    def columns(self, index: Ints) -> Floats:
        needed, place = np.unique(index, return_inverse=True)
        out = np.empty((self.shape[0], index.size))
        for part, block in self._dense_blocks(needed):
            out[part] = block[:, place]
        return out

    def rows(self, index: Ints) -> Matrix:
        return self._child(self.X[index], index)
