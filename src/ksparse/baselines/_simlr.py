"""SIMLR of Wang et al. (2017): a similarity learned from many kernels."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.sparse.linalg import eigsh
from sklearn.decomposition import PCA

from ksparse._errors import InputError, Term
from ksparse.baselines._base import Baseline, kmeans_labels
from ksparse.baselines._simlr_steps import (
    BANDWIDTHS,
    EPS,
    NEIGHBOURS,
    REACH,
    diffuse,
    kernel_weights,
    kernels_of,
    on_simplex,
    row_normalised,
    square_distances,
)
from ksparse.matrix import Floats
from ksparse.params import check_seed

__all__ = ["SIMLR"]

# Weight of the new value in each update, and number of samples whose kernels fit in memory.
BETA, MAX_SAMPLES = 0.8, 4_000
# Iterations of the large-scale variant, and dimension in which its neighbours are searched.
LARGE_ITERATIONS, LARGE_COMPONENTS = 5, 100


class SIMLR(Baseline):
    """Single-cell interpretation via multi-kernel learning (Wang et al. 2017).

    Learns a similarity of samples from 55 Gaussian kernels: their weights, a similarity that
    has as many connected parts as there are clusters, and an embedding are updated in turn,
    with a diffusion over the graph of the nearest neighbours. Clusters are found by k-means
    in the embedding.

    Follows the published R and MATLAB programs in the kernels, the updates and when to stop.
    These also run t-SNE on the similarity and cluster its result; here the embedding of the
    similarity itself is clustered. The similarity is n x n: memory is 55 times that, and
    time cubic.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    n_neighbors : int, default=10
        Neighbours in the graph; the large variant takes 30 if this is smaller.
    large : bool, default=False
        The large-scale variant: similarity of approximate nearest neighbours only, in linear
        memory. Needs the package pynndescent (``pip install 'ksparse[baselines]'``).
    max_iter : int, default=30
        Largest number of updates (5 in the large variant).
    n_init : int, default=50
        k-means++ replicates.
    random_state : int, RandomState or None
        Seed.

    Attributes
    ----------
    labels_ : ndarray of int
        Cluster of each sample.
    similarity_ : ndarray or csr_array, samples x samples
        The learned similarity.
    embedding_ : ndarray, samples x clusters
        The coordinates that were clustered.
    kernel_weights_ : ndarray
        Weight of each kernel.
    n_iter_ : int
        Number of updates.
    n_features_in_ : int
        Number of features of X.

    References
    ----------
    B. Wang, J. Zhu, E. Pierson, D. Ramazzotti, S. Batzoglou. Visualization and analysis of
    single-cell RNA-seq data by kernel-based similarity learning. Nature Methods 14, 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from ksparse.baselines import SIMLR
    >>> X = np.random.default_rng(0).normal(size=(60, 30))
    >>> X[:30, :8] += 4
    >>> sorted(np.bincount(SIMLR(2, random_state=0).fit_predict(X)).tolist())
    [30, 30]
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        n_neighbors: int = 10,
        large: bool = False,
        max_iter: int = 30,
        n_init: int = 50,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_neighbors = n_neighbors
        self.large = large
        self.max_iter = max_iter
        self.n_init = n_init
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the similarity and find clusters.

        Parameters
        ----------
        X : array-like or sparse matrix, samples x features
            The data.
        y : ignored
            For compatibility.
        """
        X = self._checked(X, n_neighbors=1, max_iter=1, n_init=1)
        n = X.shape[0]
        rng = check_seed(self.random_state)
        if not self.large and n > MAX_SAMPLES:
            raise InputError(
                Term("n_samples", n),
                f" should be <= {MAX_SAMPLES}, for whose kernels there is memory: give ",
                Term("large", True),
                ".",
            )
        if n < 6 or self.n_clusters in (1, n):  # no neighbours to learn from
            options = {"n_init": int(self.n_init), "random_state": rng}
            self.labels_ = kmeans_labels(X, self.n_clusters, **options)
            return self
        learn = _learn_large if self.large else _learn
        counts = (int(self.n_clusters), int(self.n_neighbors), int(self.max_iter))
        S, F, weights, n_iter = learn(X, *counts, rng)
        self.similarity_, self.embedding_ = S, F
        self.kernel_weights_, self.n_iter_ = weights, n_iter
        options = {"n_init": int(self.n_init), "random_state": rng}
        self.labels_ = kmeans_labels(F, self.n_clusters, **options)
        return self


def _spread_of(nearest: Floats, k: int) -> Floats:
    """Return the mean squared distance to the k nearest; the first column is the sample itself."""
    return nearest[:, 1 : k + 1].mean(axis=1) + EPS


def _neighbour_numbers(n: int) -> list[int]:
    return [k for k in NEIGHBOURS if k < n - 1] or [max(1, n - 2)]


def _dense_kernels(X: Any) -> NDArray[np.float32]:
    distance = square_distances(X)
    ordered = np.sort(distance, axis=1)
    out = []
    for k in _neighbour_numbers(len(distance)):
        spread = _spread_of(ordered, k)
        width = (spread[:, None] + spread) / 2
        for bandwidth in BANDWIDTHS:
            self_value = 1 / (np.sqrt(2 * np.pi) * bandwidth * spread)
            pair = (self_value[:, None], self_value)
            kernel = kernels_of(distance, bandwidth * width, pair)
            np.fill_diagonal(kernel, 0.0)
            out.append(kernel.astype(np.float32))
    return np.array(out)


def _ridge(distance: Floats, k: int) -> float:
    """Return the scale at which a sample has k neighbours, from sorted distances."""
    near = distance[:, 1 : k + 2]
    return max(float((0.5 * (k * near[:, k] - near[:, :k].sum(axis=1))).mean()), EPS)


def _smallest(S: Floats, c: int) -> tuple[Floats, Floats]:
    """Return c eigenvectors of the Laplacian, and its c + 1 smallest eigenvalues."""
    values, vectors = eigh(np.diag(S.sum(axis=1)) - S, subset_by_index=(0, min(c, len(S) - 1)))
    return vectors[:, :c], values


def _learn(
    X: Any, c: int, n_neighbors: int, max_iter: int, rng: np.random.RandomState
) -> tuple[Floats, Floats, Floats, int]:
    """Return the similarity, the embedding, the kernel weights and the number of updates."""
    kernels = _dense_kernels(X)
    n = kernels.shape[1]
    k = min(n_neighbors, n - 2)
    weights = np.full(len(kernels), 1 / len(kernels))
    distance = np.tensordot(weights, kernels, axes=1).astype(np.float64)
    order = np.argsort(distance, axis=1, kind="stable")
    r = penalty = _ridge(np.take_along_axis(distance, order, 1), k)
    S = row_normalised(diffuse(distance.max() - distance, k))
    S = (S + S.T) / 2
    F = row_normalised(_smallest(S, c)[0])
    last, eigengap = S, np.inf
    for iteration in range(max_iter):
        others = order[:, 1:]
        apart = square_distances(F)
        cost = np.take_along_axis(distance, others, 1)
        cost = (cost + penalty * np.take_along_axis(apart, others, 1)) / (2 * r)
        A = np.zeros((n, n))
        np.put_along_axis(A, others, on_simplex(-cost), 1)
        S = diffuse((1 - BETA) * S + BETA * A, k)
        vectors, values = _smallest(S, c)
        F = (1 - BETA) * F + BETA * row_normalised(vectors)
        losses = np.array([float((kernel * S).sum()) for kernel in kernels]) / n
        weights = (1 - BETA) * weights + BETA * kernel_weights(losses)
        weights /= weights.sum()
        if iteration < 9:
            if values[-1] > 1e-6:
                penalty *= 1.5
                r /= 1.01
        elif values[-1] > 1.01 * eigengap:  # the parts are connected again: take the result before
            S = last
            break
        last, eigengap = S, float(values[-1])
        distance = np.tensordot(weights, kernels, axes=1).astype(np.float64)
        order = np.argsort(distance, axis=1, kind="stable")
    return S, F, weights, iteration + 1


def _neighbours(X: Any, k: int, rng: np.random.RandomState) -> tuple[NDArray[np.intp], Floats]:
    """Return approximate nearest neighbours, each sample first, and squared distances."""
    try:
        from pynndescent import NNDescent
    except ImportError:
        raise ImportError(
            "SIMLR(large=True) needs pynndescent: install it with  pip install 'ksparse[baselines]'"
        ) from None
    n_components = min(LARGE_COMPONENTS, X.shape[0] - 1, X.shape[1] - 1)
    if n_components >= 2 and X.shape[1] > LARGE_COMPONENTS:
        solver = "arpack" if sp.issparse(X) else "auto"
        X = PCA(n_components, random_state=rng, svd_solver=solver).fit_transform(X)
    X = np.ascontiguousarray(X.toarray() if sp.issparse(X) else X, dtype=np.float32)
    seed = int(rng.randint(2**31 - 1))
    index = NNDescent(X, n_neighbors=k + 1, random_state=seed, n_jobs=1)
    neighbours, distance = index.neighbor_graph
    neighbours = np.where(neighbours < 0, np.arange(len(X))[:, None], neighbours)
    neighbours[:, 0], distance[:, 0] = np.arange(len(X)), 0.0
    return neighbours.astype(np.intp), distance.astype(np.float64) ** 2


def _top_vectors(
    S: Floats, neighbours: NDArray[np.intp], c: int, rng: np.random.RandomState
) -> tuple[Floats, Any]:
    """Return diffused leading eigenvectors of the symmetric similarity, and that similarity."""
    n, width = S.shape
    rows = np.repeat(np.arange(n), width)
    W = sp.csr_array((S.ravel(), (rows, neighbours.ravel())), shape=(n, n))
    W = ((W + W.T) / 2).tocsr()
    start = rng.uniform(-1, 1, n)
    values, vectors = eigsh(W, k=min(c, n - 1), which="LA", v0=start)
    share = np.clip(values[::-1] / max(values.max(), EPS), 0, 1)
    share = (1 - REACH) * share / (1 - REACH * share**2)
    return row_normalised(vectors[:, ::-1] * (share + EPS)), W


def _learn_large(
    X: Any, c: int, n_neighbors: int, max_iter: int, rng: np.random.RandomState
) -> tuple[Any, Floats, Floats, int]:
    """Return the same for the large-scale variant, from nearest neighbours only."""
    n = X.shape[0]
    k = min(max(n_neighbors, 30), (n - 2) // 2)
    neighbours, near = _neighbours(X, 2 * k, rng)
    kernels = []
    for number in [m for m in NEIGHBOURS if m < near.shape[1]] or [near.shape[1] - 1]:
        spread = _spread_of(near, number)
        width = (spread[:, None] + spread[neighbours]) / 2
        for bandwidth in BANDWIDTHS:
            value = 1 / (np.sqrt(2 * np.pi) * bandwidth * spread)
            pair = (value[:, None], value[neighbours])
            kernels.append(kernels_of(near, bandwidth * width, pair).astype(np.float32))
    stack = np.array(kernels)
    stack[:, :, 0] = 0.0
    weights = np.full(len(stack), 1 / len(stack))
    distance = np.tensordot(weights, stack, axes=1).astype(np.float64)
    r = penalty = _ridge(np.sort(distance, axis=1), k)
    S = distance.max() - distance
    S[:, 0] += S.sum(axis=1)
    S = row_normalised(S)
    F, W = _top_vectors(S, neighbours, c, rng)
    n_iter = min(max_iter, LARGE_ITERATIONS)
    for _ in range(n_iter):
        apart = ((F[:, None] - F[neighbours]) ** 2).sum(axis=2)
        A = on_simplex(-(distance + penalty * apart) / (2 * r))
        S = (1 - BETA) * S + BETA * A
        S[:, 0] += S.sum(axis=1)
        S = row_normalised(S)
        new, W = _top_vectors(S, neighbours, c, rng)
        F = (1 - BETA) * F + BETA * new
        losses = np.array([float((kernel * S).sum()) for kernel in stack]) / n
        weights = (1 - BETA) * weights + BETA * kernel_weights(losses)
        weights /= weights.sum()
        penalty *= 1.5
        r /= 1.1
        distance = np.tensordot(weights, stack, axes=1).astype(np.float64)
    return W, F, weights, n_iter
