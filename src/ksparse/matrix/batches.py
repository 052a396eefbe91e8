"""Data whose features are centred within batches, over any other view of them.

With G the indicator of the batches and M the means of the batches in a view Xc, it stands for

    Xc - G M

and every product is one with Xc and a correction of rank n_batches: sparse data stay sparse,
data in files are read as often as without batches, and nothing of the size of the data is stored.
"""

from __future__ import annotations

import copy
from typing import Self

import numpy as np

from ksparse.matrix.base import Floats, Ints, Matrix

__all__ = ["BatchMatrix", "batch_offsets"]


def batch_offsets(shift: Floats, factor: Floats, W: Floats) -> Floats:
    """Return where batches lie in a projection, if they are not centred (batches x components).

    `shift` are the means of the batches minus that of all samples; only features with a nonzero
    row in W are read.
    """
    used = np.flatnonzero(W.any(axis=1))
    V = W[used].astype(np.float64) * np.asarray(factor, dtype=np.float64)[used, None]
    return np.asarray(np.asarray(shift, dtype=np.float64)[:, used] @ V)


class BatchMatrix(Matrix):
    """View of samples x features in which the means of all batches are zero.

    `variance` and `constant` are those within batches, `mean` is that of all samples.

    Parameters
    ----------
    base : Matrix
        A view of the same data, which is centred.
    batches : ndarray of int
        The batch of each sample.
    n_batches : int
        Number of batches; some may have no sample.
    every : ndarray of int, optional
        The batch of each of all samples, where the view is of some of them.
    """

    batches: Ints

    def __init__(
        self, base: Matrix, batches: Ints, n_batches: int, every: Ints | None = None
    ) -> None:
        self.X, self.shape, self.dtype = base.X, base.shape, base.dtype
        self.sample_weight, self.total_weight = base.sample_weight, base.total_weight
        self.standardize, self.center = base.standardize, True
        self.mean, self.feature_means = base.mean, base.feature_means
        self.batches, self.n_batches = batches, n_batches
        self.every = batches if every is None else every
        self.sizes = np.bincount(batches, weights=base.sample_weight, minlength=n_batches)
        usable = base.factor > 0
        sums = base.cluster_sums(batches, n_batches) / np.where(usable, base.factor, 1.0)
        n = np.where(self.sizes > 0, self.sizes, 1.0)
        self.shift = np.where(usable, sums, 0.0) / n[:, None]
        between = self.sizes @ self.shift**2 / self.total_weight
        self.variance = np.maximum(base.variance - between, 0.0)
        # What rounding alone could have left of a feature that differs between batches only.
        m, eps = self.shape[0], np.finfo(np.float64).eps
        size = np.abs(base.feature_means) + np.sqrt(base.variance)
        self.constant = base.constant | (self.variance <= m * eps * size * np.sqrt(base.variance))
        factor = np.where(self.constant, 0.0, 1.0)
        if self.standardize:
            factor /= np.sqrt(np.where(self.constant, 1.0, self.variance))
        self._set(base, factor)
        # Sums of the base by batch; None where they are the sizes times the means.
        self._sums: Floats | None = None

    def _set(self, base: Matrix, factor: Floats) -> None:
        self.factor = factor
        self.base = copy.copy(base)
        self.base.factor = factor

    @property
    def in_parallel(self) -> bool:
        return self.base.in_parallel

    def check_shareable(self) -> None:
        self.base.check_shareable()

    def _moments(self) -> tuple[Floats, Floats]:
        return self.feature_means, self.variance

    def _means(self, columns: Ints | slice = slice(None)) -> Floats:
        """Return M, or some of its columns."""
        return np.asarray(self.shift[:, columns] * self.factor[columns])

    def offsets(self, W: Floats) -> Floats:
        """Return what the projection of the samples of each batch is corrected by."""
        return batch_offsets(self.shift, self.factor, W)

    def _batch_sums(self, T: Floats) -> Floats:
        """Return the sums of the rows of T by batch."""
        out = np.empty((self.n_batches, T.shape[1]))
        for c, column in enumerate(T.T):
            out[:, c] = np.bincount(self.batches, weights=column, minlength=self.n_batches)
        return out

    def project(self, W: Floats) -> Floats:
        return self.base.project(W) - self.offsets(W)[self.batches]

    def correlate(self, T: Floats) -> Floats:
        return self.base.correlate(T) - self._means().T @ self._batch_sums(self._weighted(T))

    def normal(self, W: Floats) -> Floats:
        M = self._means()
        image = M @ W
        out = self.base.normal(W) - M.T @ (self._excess(M, slice(None)) @ W)
        if self._sums is not None:
            out -= (self._sums * self.factor).T @ image
        return out

    def _excess(self, M: Floats, columns: Ints | slice) -> Floats:
        """Return sums of the base by batch that M'M does not take away (batches x features)."""
        if self._sums is None:
            return self.sizes[:, None] * M
        return np.asarray(self._sums[:, columns] * self.factor[columns] - self.sizes[:, None] * M)

    def cluster_sums(self, labels: Ints, n_clusters: int) -> Floats:
        both = labels.astype(np.intp) * self.n_batches + self.batches
        sizes = np.bincount(
            both, weights=self.sample_weight, minlength=n_clusters * self.n_batches
        ).reshape(n_clusters, self.n_batches)
        return self.base.cluster_sums(labels, n_clusters) - sizes @ self._means()

    def gram(self, columns: Ints, others: Ints | None = None) -> Floats:
        out = self.base.gram(columns, others)
        A = self._means(columns)
        if others is None and self._sums is None:
            A = A * np.sqrt(self.sizes)[:, None]  # a product with itself is symmetric
            return out - A.T @ A
        right = columns if others is None else others
        B = self._means(right)
        out = out - A.T @ self._excess(B, right)
        if self._sums is not None:
            out -= (self._sums[:, columns] * self.factor[columns]).T @ B
        return out

    def columns(self, index: Ints) -> Floats:
        return self.base.columns(index) - self._means(index)[self.batches]

    def rows(self, index: Ints) -> Matrix:
        """Return a view of some of the samples, with the means that their batches have there."""
        part = BatchMatrix(self.base.rows(index), self.batches[index], self.n_batches)
        part._set(part.base, np.where(part.constant, 0.0, self.factor))
        return part

    def with_center(self, center: bool) -> Self:
        """Return a view of the same data; without means subtracted there are no batches."""
        assert center
        return copy.copy(self)

    def reweighted(self, sample_weight: Floats, shift: Floats) -> Self:
        """Return a view of the same data with other weights, and `shift` subtracted from them.

        What is subtracted from the batches stays the same, so their means are not zero.
        """
        view = copy.copy(self)
        view.base = self.base.reweighted(sample_weight, shift)
        view.mean, view.sample_weight = view.base.mean, sample_weight
        view.total_weight = view.base.total_weight
        view.sizes = np.bincount(self.batches, weights=sample_weight, minlength=self.n_batches)
        sums = view.base.cluster_sums(self.batches, self.n_batches)
        view._sums = sums / np.where(self.factor > 0, self.factor, np.inf)
        return view

    def scaled(self, divisor: float) -> Self:
        """Return a view of the same data with all features divided by one number."""
        view = copy.copy(self)
        view.factor, view.base = self.factor / divisor, self.base.scaled(divisor)
        return view
