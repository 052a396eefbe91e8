"""Judging a finished clustering without labels, on samples held out.

The cost cannot compare two fits (it is smallest where nothing is projected). What can
is whether the clusters stay apart on samples that had no part in finding the features:
the features and centroids are fitted on one half of the samples with their labels, the
other half is projected, and every sample there is scored by its margin between its own
and the nearest other centroid. The mean is taken by cluster first, so a large cluster that
is easy to agree on does not hide small ones that are not.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from sklearn.metrics import adjusted_rand_score

from ksparse.assignment import centroids, distances, margins_of
from ksparse.matrix import Floats, Ints, Matrix, as_matrix
from ksparse.projection import Projection, WStep, fit_projection
from ksparse.targets import embedded_targets

__all__ = ["Judge", "Scores"]

# At most so many samples are judged. Features are selected among so many times their
# number, but among no more than so many others.
MAX_SAMPLES = 5_000
POOL, MAX_POOL = 5, 1_000


class Scores(NamedTuple):
    """Held-out scores, one for each half of each halving.

    Attributes
    ----------
    margin : ndarray
        Mean margin of the held-out samples between centroids, by cluster first.
    agreement : ndarray
        Adjusted Rand index of the labels and of the nearest centroids.
    explained : ndarray
        Share of the squared targets that the projection explains.
    """

    margin: Floats
    agreement: Floats
    explained: Floats


class Judge:
    """Scores labelings of the same data, all on the same halvings.

    Parameters
    ----------
    matrix : Matrix
        The data.
    embedding : ndarray
        Spectral coordinates, in which targets are taken.
    n_clusters : int
        Number of clusters.
    rng : RandomState
        Draws the halvings (and the samples, if there are many).
    n_halvings : int
        How many times the samples are halved.
    max_features : int, optional
        A fit with more features than this is judged by its best so many.
    """

    def __init__(
        self,
        matrix: Matrix,
        embedding: Floats,
        n_clusters: int,
        rng: np.random.RandomState,
        *,
        n_halvings: int = 3,
        max_features: int | None = 100,
    ) -> None:
        m = matrix.shape[0]
        self.n_clusters, self.max_features = n_clusters, max_features
        self.samples: Ints | None = None
        self.matrix, self.embedding = matrix, embedding
        if m > MAX_SAMPLES:
            self.samples = np.sort(rng.choice(m, MAX_SAMPLES, replace=False))
            self.matrix = matrix.rows(self.samples)
            self.embedding = embedding[self.samples]
        self.halvings = [rng.permutation(self.matrix.shape[0]) for _ in range(n_halvings)]

    def __call__(self, labels: Ints, how: WStep, n_selected: int) -> Scores:
        """Scores of the labels."""
        if self.samples is not None:
            labels = labels[self.samples]
        n_features = max(1, min(n_selected, self.max_features or n_selected))
        how = replace(how, n_features=n_features, eta=None, relax=True, solver="working_set")
        pool = self._pool(labels, how, min(POOL * n_features, n_features + MAX_POOL))
        how = replace(how, costs=how.costs[pool])
        part = self.matrix.columns(pool)
        scores: list[tuple[float, float, float]] = []
        last: Projection | None = None  # halves are alike: where to begin the next search
        for order in self.halvings:
            middle = order.size // 2
            for train, test in ((order[:middle], order[middle:]), (order[middle:], order[:middle])):
                score, last = self._score(part, labels, train, test, how, last)
                scores.append(score)
        return Scores(*np.array(scores).T)

    def _pool(self, labels: Ints, how: WStep, size: int) -> Ints:
        """The features most correlated with the labels: the others cannot be selected."""
        targets = embedded_targets(self.matrix, self.embedding, labels, self.n_clusters)
        correlation = self.matrix.cluster_sums(labels, self.n_clusters).T @ targets
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.abs(correlation).max(axis=1) / how.costs
        ratio = np.where(how.costs == 0, np.inf, np.nan_to_num(ratio, nan=0.0, posinf=np.inf))
        return np.sort(np.argsort(-ratio, kind="stable")[:size])

    def _score(
        self,
        data: Floats,
        labels: Ints,
        train: Ints,
        test: Ints,
        how: WStep,
        last: Projection | None,
    ) -> tuple[tuple[float, float, float], Projection]:
        present, known = np.unique(labels[train], return_inverse=True)
        weight = self.matrix.sample_weight
        half = as_matrix(data[train], sample_weight=None if weight is None else weight[train])
        targets = embedded_targets(half, self.embedding[train], known, present.size)
        fitted = fit_projection(half, known, targets, how, last=last, certify=False)
        V = fitted.weights * half.factor[:, None]
        centres = centroids((data[train] - half.mean) @ V, known, present.size, half.sample_weight)
        test = test[np.isin(labels[test], present)]
        if test.size == 0:
            return (0.0, 0.0, 0.0), fitted
        truth = np.searchsorted(present, labels[test])
        projected = (data[test] - half.mean) @ V
        square = distances(projected, centres)
        mass = np.ones(test.size) if weight is None else weight[test]
        sizes = np.bincount(truth, weights=mass, minlength=present.size)
        margin = margins_of(square, truth)
        sums = np.bincount(truth, weights=mass * margin, minlength=present.size)
        by_cluster = sums[sizes > 0] / sizes[sizes > 0]
        agreement = adjusted_rand_score(truth, square.argmin(axis=1))
        left = float(mass @ ((targets[truth] - projected) ** 2).sum(axis=1))
        total = float(mass @ (targets[truth] ** 2).sum(axis=1))
        explained = 1 - left / total if total > 0 else 0.0
        return (float(by_cluster.mean()), float(agreement), explained), fitted
