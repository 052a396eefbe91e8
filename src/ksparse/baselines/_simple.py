"""PCA + k-means and spectral clustering: thin layers over scikit-learn."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from sklearn.cluster import SpectralClustering
from sklearn.decomposition import PCA

from ksparse._threads import openmp_threads
from ksparse.baselines._base import Baseline, kmeans_labels
from ksparse.params import check_seed

__all__ = ["PCAKMeans", "Spectral"]


class PCAKMeans(Baseline):
    """k-means on principal components.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    n_components : int, optional
        Number of principal components; n_clusters + 4 by default, the dimension of the
        projection of k-sparse.
    n_init : int, default=40
        k-means++ replicates, as in the paper.
    random_state : int, RandomState or None
        Seed.

    Attributes
    ----------
    labels_ : ndarray of int
        Cluster of each sample.
    embedding_ : ndarray, samples x components
        Principal components.
    n_features_in_ : int
        Number of features of X.

    Examples
    --------
    >>> import numpy as np
    >>> from ksparse.baselines import PCAKMeans
    >>> X = np.repeat([[0.0, 0, 0], [9, 9, 0]], 20, axis=0) + np.eye(40, 3)
    >>> sorted(np.bincount(PCAKMeans(2, random_state=0).fit_predict(X)).tolist())
    [20, 20]
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        n_components: int | None = None,
        n_init: int = 40,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_components = n_components
        self.n_init = n_init
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find clusters.

        Parameters
        ----------
        X : array-like or sparse matrix, samples x features
            The data.
        y : ignored
            For compatibility.
        """
        least = {"n_init": 1} | ({} if self.n_components is None else {"n_components": 1})
        X = self._checked(X, **least)
        rng = check_seed(self.random_state)
        seeds = rng.randint(2**31 - 1, size=2)  # one each: solvers differ in what they draw
        if X.shape[0] == 1:
            self.embedding_, self.labels_ = np.zeros((1, 1)), np.zeros(1, dtype=np.int32)
            return self
        wanted = int(self.n_clusters) + 4 if self.n_components is None else self.n_components
        n = min(wanted, *X.shape)
        if hasattr(X, "toarray") and n >= min(X.shape):
            X = X.toarray()  # small: the sparse solver needs fewer components than that
        solver = "arpack" if hasattr(X, "toarray") else "auto"
        self.embedding_ = PCA(n, random_state=seeds[0], svd_solver=solver).fit_transform(X)
        options = {"n_init": int(self.n_init), "random_state": seeds[1]}
        self.labels_ = kmeans_labels(self.embedding_, self.n_clusters, **options)
        return self


class Spectral(Baseline):
    """Spectral clustering of the nearest-neighbour graph, by scikit-learn.

    The paper does not say how its spectral clustering was run; these are usual settings.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    n_neighbors : int, default=10
        Neighbours of each sample in the graph.
    n_init : int, default=40
        k-means++ replicates in the embedding.
    random_state : int, RandomState or None
        Seed.

    Attributes
    ----------
    labels_ : ndarray of int
        Cluster of each sample.
    affinity_matrix_ : sparse matrix, samples x samples
        The graph (not with 1 cluster, or as many clusters as samples).
    n_features_in_ : int
        Number of features of X.

    Examples
    --------
    >>> import numpy as np
    >>> from ksparse.baselines import Spectral
    >>> X = np.random.default_rng(0).normal(size=(60, 5))
    >>> X[:30] += 9
    >>> sorted(np.bincount(Spectral(2, random_state=0).fit_predict(X)).tolist())
    [30, 30]
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        n_neighbors: int = 10,
        n_init: int = 40,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_neighbors = n_neighbors
        self.n_init = n_init
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find clusters.

        Parameters
        ----------
        X : array-like or sparse matrix, samples x features
            The data.
        y : ignored
            For compatibility.
        """
        X = self._checked(X, n_neighbors=1, n_init=1)
        if self.n_clusters in (1, X.shape[0]):  # nothing to embed
            self.labels_ = np.arange(X.shape[0], dtype=np.int32) % self.n_clusters
            return self
        model = SpectralClustering(
            int(self.n_clusters), affinity="nearest_neighbors", n_init=int(self.n_init),
            n_neighbors=min(int(self.n_neighbors), X.shape[0]),
            random_state=check_seed(self.random_state),
        )  # fmt: skip
        with (
            warnings.catch_warnings(),
            openmp_threads(),
        ):  # separate parts of the graph are separate clusters
            warnings.filterwarnings("ignore", "Graph is not fully connected")
            self.labels_ = model.fit_predict(X)
        self.affinity_matrix_ = model.affinity_matrix_
        return self
