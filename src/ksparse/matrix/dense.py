"""Dense arrays behind the matrix protocol."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ksparse.matrix.base import Floats, Ints, Matrix

__all__ = ["DenseMatrix", "project_dense"]

# Rows are converted to float64 in blocks of about this many entries.
BLOCK_ENTRIES = 2**21
# Means beyond this many standard deviations are subtracted from the data themselves:
# subtracting them from the products would cancel too many digits.
OFFSET_LIMIT = 1e3


def project_dense(X: Any, mean: Floats, factor: Floats, W: NDArray[Any]) -> Floats:
    """Return (X - 1 mean') diag(factor) W, reading only features with a nonzero row in W.

    The mean is subtracted before the product: exact however far the data are from 0.
    """
    used = np.flatnonzero(W.any(axis=1))
    V = W[used].astype(np.float64) * factor[used, None]
    offset = mean[used]
    columns = slice(None) if used.size == X.shape[1] else used
    step = max(1, BLOCK_ENTRIES // max(1, used.size))
    out = np.empty((X.shape[0], W.shape[1]))
    for start in range(0, X.shape[0], step):
        out[start : start + step] = (X[start : start + step, columns] - offset) @ V
    return out


class DenseMatrix(Matrix):
    """A numpy array (any order, float32 or float64)."""

    def _prepare(self) -> None:
        spread = np.sqrt(self.variance[~self.constant])
        offset = np.abs(self.mean[~self.constant])
        self.explicit = bool((offset > OFFSET_LIMIT * spread).any())

    def _slices(self) -> Iterator[slice]:
        step = max(1, BLOCK_ENTRIES // max(1, self.shape[1]))
        if self.dtype == np.float64 and not getattr(self, "explicit", True):
            step = max(1, self.shape[0])  # nothing to convert: one block, no copy
        for start in range(0, self.shape[0], step):
            yield slice(start, min(start + step, self.shape[0]))

    def _block(self, part: slice) -> tuple[Floats, Floats]:
        """Return rows in float64, and what is still to be subtracted from them."""
        block = np.asarray(self.X[part], dtype=np.float64)
        if self.explicit:
            return block - self.mean, np.zeros_like(self.mean)
        return block, self.mean

    def _moments(self) -> tuple[Floats, Floats]:
        weight = self.sample_weight
        total = np.zeros(self.shape[1])
        for part in self._slices():
            if weight is None:
                total += self.X[part].sum(axis=0, dtype=np.float64)
            else:
                total += weight[part] @ self.X[part].astype(np.float64, copy=False)
        mean = total / self.total_weight
        square = np.zeros(self.shape[1])
        for part in self._slices():
            centred = self.X[part] - mean
            if weight is None:
                square += np.einsum("ij,ij->j", centred, centred)
            else:
                square += np.einsum("i,ij,ij->j", weight[part], centred, centred)
        return mean, square / self.total_weight

    def project(self, W: Floats) -> Floats:
        return project_dense(self.X, self.mean, self.factor, W)

    def correlate(self, T: Floats) -> Floats:
        T = self._weighted(T)
        out = np.zeros((self.shape[1], T.shape[1]))
        mean = self.mean
        for part in self._slices():
            block, mean = self._block(part)
            out += block.T @ T[part]
        out -= np.outer(mean, T.sum(axis=0))
        return out * self.factor[:, None]

    def normal(self, W: Floats) -> Floats:
        V = W * self.factor[:, None]
        out = np.zeros((self.shape[1], W.shape[1]))
        total = np.zeros(W.shape[1])
        mean = self.mean
        for part in self._slices():
            block, mean = self._block(part)
            R = block @ V - mean @ V
            if self.sample_weight is not None:
                R *= self.sample_weight[part, None]
            out += block.T @ R
            total += R.sum(axis=0)
        out -= np.outer(mean, total)
        return out * self.factor[:, None]

    def cluster_sums(self, labels: Ints, n_clusters: int) -> Floats:
        members = np.zeros((self.shape[0], n_clusters))
        members[np.arange(self.shape[0]), labels] = 1.0
        return np.ascontiguousarray(self.correlate(members).T)

    def gram(self, columns: Ints, others: Ints | None = None) -> Floats:
        right = columns if others is None else others
        out = np.zeros((columns.size, right.size))
        for part in self._slices():
            # Columns are copied anyway, so they are centred before the product.
            A = (self.X[part][:, columns] - self.mean[columns]) * self.factor[columns]
            if self.sample_weight is not None:
                # A product with itself is symmetric, which is faster.
                weight = self.sample_weight[part, None]
                A *= np.sqrt(weight) if others is None else weight
            B = A
            if others is not None:
                B = (self.X[part][:, others] - self.mean[others]) * self.factor[others]
            out += A.T @ B
        return out

    def columns(self, index: Ints) -> Floats:
        return (self.X[:, index] - self.mean[index]) * self.factor[index]

    def rows(self, index: Ints) -> Matrix:
        return self._child(self.X[index], index)
