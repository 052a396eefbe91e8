"""Sparse k-means of Witten and Tibshirani (2010)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksparse._errors import InputError, Term
from ksparse.baselines._base import Baseline, kmeans_labels
from ksparse.matrix import Floats
from ksparse.params import check_integer, check_listed, check_seed

__all__ = ["BoundChoice", "SparseKMeans"]

# The threshold of the weights is found by as many halvings as in the R package, to the same
# precision, so that results are the same.
N_HALVINGS, PRECISION = 15, 1e-4
N_BOUNDS = 10


@dataclass(frozen=True)
class BoundChoice:
    """The permutation gap of several bounds.

    Attributes
    ----------
    bounds : ndarray
        The bounds.
    gaps, gap_spreads : ndarray
        Gap of each, and the standard deviation of the logarithms over permutations.
    n_features : ndarray of int
        Number of features with a weight.
    best : float
        The bound with the largest gap.
    """

    bounds: Floats
    gaps: Floats
    gap_spreads: Floats
    n_features: NDArray[np.intp]
    best: float


class SparseKMeans(Baseline):
    """Sparse k-means (Witten and Tibshirani 2010): feature weights with a bound on their sum.

    Alternates k-means on weighted features with the choice of weights, of unit length and
    l1 norm at most `wbound`, that give the largest weighted sum of squares between clusters.
    Gives the result of R's sparcl from the same first clusters.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    wbound : float, optional
        Bound s on the l1 norm of the weights, from 1 (one feature) to the square root of the
        number of features (all alike); half of that by default. `choose_bound` chooses it.
    n_init : int, default=20
        k-means++ replicates of the first clusters.
    max_iter : int, default=6
        Largest number of iterations.
    tol : float, default=1e-4
        Stop when weights change by no more than this share.
    random_state : int, RandomState or None
        Seed.

    Attributes
    ----------
    labels_ : ndarray of int
        Cluster of each sample.
    weights_ : ndarray, one per feature
        Weights, of unit length.
    objective_ : float
        Weighted sum of squares between clusters.
    n_iter_ : int
        Number of iterations.
    n_features_in_ : int
        Number of features of X.

    References
    ----------
    D. M. Witten, R. Tibshirani. A framework for feature selection in clustering. Journal of
    the American Statistical Association 105, 2010.

    Examples
    --------
    >>> import numpy as np
    >>> from ksparse.baselines import SparseKMeans
    >>> X = np.random.default_rng(0).normal(size=(60, 50))
    >>> X[:30, :3] += 5
    >>> model = SparseKMeans(2, wbound=1.7, random_state=0).fit(X)
    >>> np.flatnonzero(model.weights_)
    array([0, 1, 2])
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        wbound: float | None = None,
        n_init: int = 20,
        max_iter: int = 6,
        tol: float = 1e-4,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.wbound = wbound
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find clusters and weights.

        Parameters
        ----------
        X : array-like or sparse matrix, samples x features
            The data.
        y : ignored
            For compatibility.
        """
        X = self._checked(X, n_init=1, max_iter=1)
        bound = _checked_bound(self.wbound, X.shape[1])
        rng = check_seed(self.random_state)
        self._fit(X, bound, self._first_labels(X, rng), rng)
        return self

    def _first_labels(self, X: Any, rng: np.random.RandomState) -> NDArray[Any]:
        return kmeans_labels(X, self.n_clusters, n_init=int(self.n_init), random_state=rng)

    def _fit(self, X: Any, bound: float, labels: NDArray[Any], rng: np.random.RandomState) -> None:
        d = X.shape[1]
        weights, before = np.full(d, d**-0.5), None
        for iteration in range(self.max_iter):
            if before is not None:
                change = np.abs(weights - before).sum()
                if change <= self.tol * np.abs(before).sum():
                    break
                labels = self._reassign(X, weights, labels, rng)
            before = weights
            gains = _gains(X, labels, int(self.n_clusters))
            weights = bound_weights(gains, bound)
            self.n_iter_ = iteration + 1
        self.labels_, self.weights_ = labels.astype(np.int32), weights
        self.objective_ = float(gains @ weights)

    def _reassign(
        self, X: Any, weights: Floats, labels: NDArray[Any], rng: np.random.RandomState
    ) -> NDArray[Any]:
        """Return the clusters of k-means on the weighted features, from the given clusters."""
        used = np.flatnonzero(weights)
        if not used.size:
            return labels
        part = X[:, used]
        part = part.toarray() if sp.issparse(part) else part
        Z = part * np.sqrt(weights[used]).astype(X.dtype)
        k = int(self.n_clusters)
        centres = np.array([Z[labels == c].mean(axis=0) for c in range(k)])
        nearest = ((centres**2).sum(axis=1) - 2 * Z @ centres.T).argmin(axis=1)
        if np.unique(nearest).size < k:  # a cluster would be empty: start again
            return kmeans_labels(Z, k, n_init=10, random_state=rng)
        return kmeans_labels(Z, k, init=centres, n_init=1)

    def choose_bound(
        self, X: Any, wbounds: Iterable[float] | None = None, *, n_permutations: int = 25
    ) -> BoundChoice:
        """Compare bounds by the permutation gap: the gain over shuffled features.

        The logarithm of the objective, minus its mean over data in which every feature is
        shuffled by itself. One shuffled copy of X is in memory at a time.

        Parameters
        ----------
        X : array-like or sparse matrix, samples x features
            The data.
        wbounds : iterable of float, optional
            Bounds to try; 10 between 1.2 and 0.9 times the largest by default.
        n_permutations : int, default=25
            Number of shuffled data sets.

        Returns
        -------
        BoundChoice
        """
        X = self._checked(X, n_init=1, max_iter=1)
        n_permutations = check_integer("n_permutations", n_permutations, 1)
        largest = np.sqrt(X.shape[1])
        if wbounds is None:
            bounds = np.geomspace(
                min(1.2, largest), max(0.9 * largest, min(1.2, largest)), N_BOUNDS
            )
        else:
            listed = check_listed("wbounds", wbounds)
            bounds = np.array([_checked_bound(bound, X.shape[1]) for bound in listed])
        rng = check_seed(self.random_state)
        observed, counts = self._objectives(X, bounds, rng)
        shuffled = np.array(
            [self._objectives(_shuffled(X, rng), bounds, rng)[0] for _ in range(n_permutations)]
        )
        gaps = observed - shuffled.mean(axis=0)
        spreads = shuffled.std(axis=0, ddof=min(1, n_permutations - 1))
        return BoundChoice(bounds, gaps, spreads, counts, float(bounds[gaps.argmax()]))

    def _objectives(
        self, X: Any, bounds: Floats, rng: np.random.RandomState
    ) -> tuple[Floats, NDArray[np.intp]]:
        """Return the logarithm of the objective, and the number of features, for each bound."""
        from sklearn.base import clone

        first = self._first_labels(X, rng)
        logs, counts = [], []
        for bound in bounds:
            model = clone(self)
            model._fit(X, float(bound), first, rng)
            logs.append(np.log(max(model.objective_, np.finfo(float).tiny)))
            counts.append(np.count_nonzero(model.weights_))
        return np.array(logs), np.array(counts, dtype=np.intp)


def _checked_bound(wbound: Any, n_features: int) -> float:
    """Return the bound, or its default."""
    largest = float(np.sqrt(n_features))
    if wbound is None:
        return max(1.0, largest / 2)
    if isinstance(wbound, bool) or not isinstance(wbound, int | float | np.number):
        raise InputError(Term("wbound", wbound), " must be a number.")
    if not 1 <= wbound < np.inf:
        raise InputError(Term("wbound", float(wbound)), " must be at least 1 (and finite).")
    return float(wbound)


def _gains(X: Any, labels: NDArray[Any], n_clusters: int) -> Floats:
    """Return the sum of squares between clusters, for each feature."""
    size = np.bincount(labels, minlength=n_clusters).astype(np.float64)
    member = sp.csr_array(
        (np.ones(labels.size), (labels, np.arange(labels.size))), shape=(n_clusters, labels.size)
    )
    sums = member @ X
    sums = sums.toarray() if sp.issparse(sums) else np.asarray(sums)
    mean = sums.sum(axis=0) / labels.size
    between = sums / np.maximum(size, 1)[:, None] - mean
    return (size[:, None] * between**2).sum(axis=0)


def bound_weights(gains: Floats, bound: float) -> Floats:
    """Return weights of unit length and l1 norm <= bound with the largest sum of gains."""

    def unit(threshold: float) -> Floats:
        cut = np.maximum(gains - threshold, 0.0)
        length = float(np.linalg.norm(cut))
        return cut / length if length > 0 else cut

    if not gains.any() or unit(0.0).sum() <= bound:
        return unit(0.0)
    low, high = 0.0, float(gains.max()) - 1e-5
    for _ in range(N_HALVINGS):
        if high - low <= PRECISION:
            break
        middle = (low + high) / 2
        if unit(middle).sum() < bound:
            high = middle
        else:
            low = middle
    return unit((low + high) / 2)


def _shuffled(X: Any, rng: np.random.RandomState) -> Any:
    """Return a copy in which the values of every feature are in random order."""
    if not sp.issparse(X):
        out = np.empty_like(X)
        for j in range(X.shape[1]):
            out[:, j] = rng.permutation(X[:, j])
        return out
    columns = sp.csc_array(X)
    indices = columns.indices.copy()
    for j in range(X.shape[1]):
        part = slice(columns.indptr[j], columns.indptr[j + 1])
        n = part.stop - part.start
        indices[part] = rng.permutation(X.shape[0])[:n]
    return sp.csc_array((columns.data, indices, columns.indptr), shape=X.shape).tocsr()
