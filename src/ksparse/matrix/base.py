"""The matrix protocol: the only words in which the algorithm speaks about data.

A `Matrix` shows the data centred and scaled without ever storing them so: with
features of mean ``mean`` and factor ``factor``, it stands for

    Xc = (X - 1 mean') diag(factor)

and every product below is a product with Xc in which sample i counts
``sample_weight[i]`` times. Sums run in float64 whatever the type of the data.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

__all__ = ["Frame", "Matrix"]

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]


class Frame(NamedTuple):
    """What is subtracted from the features and what they are multiplied with."""

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
    """

    mean: Floats
    factor: Floats
    sample_weight: Floats | None

    def __init__(
        self, X: Any, *, sample_weight: Floats | None = None, standardize: bool = False
    ) -> None:
        self.X = X
        self.shape: tuple[int, int] = X.shape
        self.dtype = X.dtype
        self.sample_weight = sample_weight
        self.total_weight = float(self.shape[0] if sample_weight is None else np.sum(sample_weight))
        self.mean, self.variance = self._moments()
        # The same bound as scikit-learn's: what rounding alone could have left.
        eps = np.finfo(np.float64).eps
        noise = self.shape[0] * eps * self.variance + (self.shape[0] * self.mean * eps) ** 2
        self.constant = self.variance <= noise
        self.factor = np.where(self.constant, 0.0, 1.0)
        if standardize:
            deviation = np.sqrt(np.where(self.constant, 1.0, self.variance))
            self.factor /= deviation
        self._prepare()

    @classmethod
    def part_of(cls, frame: Frame, X: Any, sample_weight: Floats | None = None) -> Self:
        """View some samples of larger data: centred and scaled as those are."""
        part = cls.__new__(cls)
        part.X, part.shape, part.dtype = X, X.shape, X.dtype
        part.sample_weight = sample_weight
        part.total_weight = float(X.shape[0] if sample_weight is None else np.sum(sample_weight))
        part.mean, part.variance, part.constant, part.factor = frame
        part._prepare()
        return part

    @property
    def frame(self) -> Frame:
        """How this view is centred and scaled."""
        return Frame(self.mean, self.variance, self.constant, self.factor)

    def _prepare(self) -> None:  # noqa: B027
        """What a kind of storage wants to know before it multiplies."""

    # What a kind of storage has to provide -------------------------------------------

    @abstractmethod
    def _moments(self) -> tuple[Floats, Floats]:
        """Weighted mean and variance of every feature."""

    @abstractmethod
    def project(self, W: Floats) -> Floats:
        """Xc W: only features with a nonzero row in W are touched."""

    @abstractmethod
    def correlate(self, T: Floats) -> Floats:
        """Xc' T, samples weighted."""

    @abstractmethod
    def normal(self, W: Floats) -> Floats:
        """Xc' Xc W, samples weighted, in one pass over the data."""

    @abstractmethod
    def cluster_sums(self, labels: Ints, n_clusters: int) -> Floats:
        """Weighted sums of the rows of Xc by cluster (n_clusters x features)."""

    @abstractmethod
    def gram(self, columns: Ints, others: Ints | None = None) -> Floats:
        """Xc[:, columns]' Xc[:, others], samples weighted; others = columns by default."""

    @abstractmethod
    def columns(self, index: Ints) -> Floats:
        """Some of the features, centred and scaled, as a dense array."""

    @abstractmethod
    def rows(self, index: Ints) -> Matrix:
        """Some of the samples, centred anew, with the factors of this view."""

    # What they share -----------------------------------------------------------------

    def _weighted(self, T: Floats) -> Floats:
        return T if self.sample_weight is None else T * self.sample_weight[:, None]

    def _child(self, X: Any, index: Ints) -> Matrix:
        weight = None if self.sample_weight is None else self.sample_weight[index]
        child = type(self)(X, sample_weight=weight)
        child.factor = np.where(child.constant, 0.0, self.factor)
        return child

    def rescale(self, divisor: float) -> None:
        """Divide all features by one number."""
        self.factor = self.factor / divisor
