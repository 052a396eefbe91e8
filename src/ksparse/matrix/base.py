"""The matrix protocol: the only operations on data that the algorithm uses; dense arrays.

A `Matrix` is a view of the data, centred and scaled without storing them so: with
features of mean ``mean`` and factor ``factor``, it stands for

    Xc = (X - 1 mean') diag(factor)

and every product below is a product with Xc in which sample i counts
``sample_weight[i]`` times. In a view that is not centred ``mean`` is zero. Sums run in
float64 whatever the type of the data.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

__all__ = ["DenseMatrix", "Floats", "Frame", "GramCache", "Ints", "Matrix", "project_dense"]

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]


# Columns of the Gram matrix that a cache keeps at most.
MAX_GRAM_COLUMNS = 1000
# Rows are converted to float64 in blocks of about this many entries.
BLOCK_ENTRIES = 2**21
# Means beyond this many standard deviations are subtracted from the data themselves:
# subtracting them from the products would cancel too many digits.
OFFSET_LIMIT = 1e3


class Frame(NamedTuple):
    """How data are centred and scaled, and which features are constant."""

    mean: Floats
    variance: Floats
    constant: NDArray[np.bool_]
    factor: Floats


class Matrix(ABC):
    """Centred and scaled view of samples x features.

    Parameters
    ----------
    X : array or sparse matrix, samples x features
        The data, already checked. Never modified, never copied as a whole.
    sample_weight : ndarray of float64, optional
        Weight of each sample, >= 0.
    standardize : bool
        Whether to divide every feature by its standard deviation.
    center : bool
        Whether to subtract the mean of every feature.
    """

    mean: Floats
    factor: Floats
    sample_weight: Floats | None
    # The batch of each sample, where features are centred within batches (`BatchMatrix`).
    batches: Ints | None = None

    def __init__(
        self,
        X: Any,
        *,
        sample_weight: Floats | None = None,
        standardize: bool = False,
        center: bool = True,
    ) -> None:
        self.X = X
        self.shape: tuple[int, int] = X.shape
        self.dtype = X.dtype
        self.sample_weight, self.standardize = sample_weight, standardize
        self.total_weight = float(self.shape[0] if sample_weight is None else np.sum(sample_weight))
        self.feature_means, self.variance = self._moments()
        self.center = center
        self.mean = self.feature_means if center else np.zeros_like(self.feature_means)
        # The same bound as scikit-learn's: what rounding alone could have left.
        eps = np.finfo(np.float64).eps
        noise = (
            self.shape[0] * eps * self.variance + (self.shape[0] * self.feature_means * eps) ** 2
        )
        self.constant = self.variance <= noise
        self.factor = np.where(self.constant, 0.0, 1.0)
        if standardize:
            deviation = np.sqrt(np.where(self.constant, 1.0, self.variance))
            self.factor /= deviation
        self._prepare()

    @classmethod
    def part_of(cls, frame: Frame, X: Any, sample_weight: Floats | None = None) -> Self:
        """Return a view of some samples of larger data, centred and scaled as those are."""
        part = cls.__new__(cls)
        part.X, part.shape, part.dtype = X, X.shape, X.dtype
        part.sample_weight, part.standardize = sample_weight, False
        part.total_weight = float(X.shape[0] if sample_weight is None else np.sum(sample_weight))
        part.mean, part.variance, part.constant, part.factor = frame
        part._prepare()
        return part

    @property
    def frame(self) -> Frame:
        """Mean, variance, constant features and factor of this view."""
        return Frame(self.mean, self.variance, self.constant, self.factor)

    def _prepare(self) -> None:  # noqa: B027
        """Compute what a kind of storage needs before it multiplies."""

    @property
    def in_parallel(self) -> bool:
        """Whether parts of the data are worked on at the same time, by a scheduler."""
        return False

    # What a kind of storage has to provide -------------------------------------------

    @abstractmethod
    def _moments(self) -> tuple[Floats, Floats]:
        """Return the weighted mean and variance of every feature."""

    @abstractmethod
    def project(self, W: Floats) -> Floats:
        """Return Xc W; only features with a nonzero row in W are read."""

    @abstractmethod
    def correlate(self, T: Floats) -> Floats:
        """Return Xc' T, samples weighted."""

    @abstractmethod
    def normal(self, W: Floats) -> Floats:
        """Return Xc' Xc W, samples weighted, in one pass over the data."""

    @abstractmethod
    def cluster_sums(self, labels: Ints, n_clusters: int) -> Floats:
        """Return weighted sums of the rows of Xc by cluster (n_clusters x features)."""

    @abstractmethod
    def gram(self, columns: Ints, others: Ints | None = None) -> Floats:
        """Return Xc[:, columns]' Xc[:, others], samples weighted; others = columns by default."""

    @abstractmethod
    def columns(self, index: Ints) -> Floats:
        """Return some of the features, centred and scaled, as a dense array."""

    @abstractmethod
    def rows(self, index: Ints) -> Matrix:
        """Return a view of some of the samples, with their own means and these factors."""

    # What they share -----------------------------------------------------------------

    def check_shareable(self) -> None:  # noqa: B027
        """Raise InputError if other processes cannot open the same data."""

    def _weighted(self, T: Floats) -> Floats:
        return T if self.sample_weight is None else T * self.sample_weight[:, None]

    def _child(self, X: Any, index: Ints) -> Matrix:
        weight = None if self.sample_weight is None else self.sample_weight[index]
        child = type(self)(X, sample_weight=weight, center=self.center)
        child.factor = np.where(child.constant, 0.0, self.factor)
        return child

    def with_center(self, center: bool) -> Self:
        """Return a view of the same data with the means subtracted, or not."""
        view = copy.copy(self)
        view.center = center
        view.mean = self.feature_means if center else np.zeros_like(self.feature_means)
        view._prepare()
        return view

    def reweighted(self, sample_weight: Floats, shift: Floats) -> Self:
        """Return a view of the same data with other weights, and `shift` subtracted from them."""
        view = copy.copy(self)
        view.sample_weight, view.total_weight = sample_weight, float(sample_weight.sum())
        view.mean = self.mean + shift / np.where(self.factor > 0, self.factor, np.inf)
        view._prepare()
        return view

    def scaled(self, divisor: float) -> Self:
        """Return a view of the same data with all features divided by one number."""
        view = copy.copy(self)
        view.factor = self.factor / divisor
        return view


class HasGram(Protocol):
    """What Gram matrices are computed from, such as a `Matrix`."""

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of samples and features."""
        ...

    def gram(self, columns: Ints, others: Ints | None = None) -> Floats:
        """Return the products of some features with others, or with each other."""
        ...


class GramCache:
    """Xc[:, A]' Xc[:, A] for sets A that overlap from call to call.

    At most `max_columns` columns are kept (or as many as one call asks for).
    """

    def __init__(self, matrix: HasGram, max_columns: int = MAX_GRAM_COLUMNS) -> None:
        self.matrix = matrix
        self.max_columns = max_columns
        self._place = np.full(matrix.shape[1], -1, dtype=np.intp)
        self._columns: Ints = np.empty(0, dtype=np.intp)
        self._gram = np.empty((0, 0))

    def __call__(self, columns: Ints) -> Floats:
        """Return the Gram matrix of these columns, in their order."""
        new = columns[self._place[columns] < 0]
        if new.size:
            if self._columns.size + new.size > self.max_columns:
                self._place[self._columns] = -1
                self._columns, self._gram, new = self._columns[:0], np.empty((0, 0)), columns
            known = self._columns.size
            # In one pass over the data: what is new, with itself and with what is known.
            strip = self.matrix.gram(np.concatenate([self._columns, new]), new)
            cross, corner = strip[:known], strip[known:]
            self._gram = np.block([[self._gram, cross], [cross.T, corner]])
            self._place[new] = np.arange(self._columns.size, self._columns.size + new.size)
            self._columns = np.concatenate([self._columns, new])
        place = self._place[columns]
        return self._gram.take(place, axis=0).take(place, axis=1)

    def within(self, features: Ints) -> GramCache:
        """Return a view of this cache in which the given features are numbered from 0 on."""
        return _Within(self, features)


class _Within(GramCache):
    """Gram matrices of some of the features of a cache."""

    def __init__(self, cache: GramCache, features: Ints) -> None:
        self._cache, self._features = cache, features

    def __call__(self, columns: Ints) -> Floats:
        return self._cache(self._features[columns])


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
