"""Judge a finished clustering without true labels, on samples held out.

The cost cannot compare two fits (it is smallest where nothing is projected). What can
is whether the clusters stay apart on samples that had no part in finding the features:
the features and centroids are fitted on one half of the samples with their labels, the
other half is projected, and every sample there is scored by its margin between its own
and the nearest other centroid. The mean is taken by cluster first, so a large cluster that
is easy to agree on does not hide small ones that are not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from sklearn.metrics import adjusted_rand_score

from ksparse.core.targets import EmbeddingTargets
from ksparse.core.w_step import Projection, WStep, refit, solve_w_step, w_step_problem
from ksparse.core.y_step import centroids, distances, margins_of
from ksparse.matrix import Floats, Ints, Matrix, as_matrix, project_samples

__all__ = ["Judge", "Scores"]

# At most so many samples are judged. Features are selected among so many times their
# number, but among no more than so many others.
MAX_SAMPLES = 5_000
POOL, MAX_POOL = 5, 500
TARGET_RULE = EmbeddingTargets()


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


class _Half(NamedTuple):
    """The samples that are fitted: data, the clusters among them, labels and targets."""

    matrix: Matrix
    present: Ints
    labels: Ints
    targets: Floats


class Judge:
    """Score labelings of the same data, all on the same halvings.

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

    def __call__(self, labels: Ints, w_step: WStep, n_selected: int) -> Scores:
        """Return the scores of the labels."""
        n_features = min(n_selected, self.max_features or n_selected)
        labels, w_step, data = self._data(labels, w_step, n_features)
        scores: list[tuple[float, float, float]] = []
        last: Projection | None = None  # halves are alike: the next one begins with its features
        for train, test in self.halves():
            half = self._half(data, labels, train)
            last = solve_w_step(
                half.matrix, half.labels, half.targets, w_step, last=last, certify=False
            )
            scores.append(self._score(half, last.weights, data, labels, test))
        return Scores(*np.array(scores).T)

    def held_out(self, labels: Ints, w_step: WStep, n_selected: int) -> list[Floats]:
        """Return every half in the projection fitted on the other half."""
        labels, w_step, data = self._data(labels, w_step, n_selected)
        projected = []
        for train, test in self.halves():
            half = self._half(data, labels, train)
            W = solve_w_step(half.matrix, half.labels, half.targets, w_step, certify=False)
            projected.append(_project(half, W.weights, data[test]))
        return projected

    def along(self, labels: Ints, w_step: WStep, counts: Sequence[int]) -> list[Scores]:
        """Return scores of the labels for several numbers of features (increasing).

        One path of the selector for each half gives them all.
        """
        labels, w_step, data = self._data(labels, w_step, max(counts))
        scores = []
        for train, test in self.halves():
            half = self._half(data, labels, train)
            problem = w_step_problem(half.matrix, half.labels, half.targets, w_step)
            for selected in w_step.selector.select_path(problem, counts):
                weights = refit(problem, selected, w_step.ridge)
                scores.append(self._score(half, weights, data, labels, test))
        table = np.array(scores).reshape(-1, len(counts), 3)
        return [Scores(*table[:, i].T) for i in range(len(counts))]

    def _data(self, labels: Ints, w_step: WStep, n_features: int) -> tuple[Ints, WStep, Floats]:
        """Return labels, settings and dense data of the samples and features to judge with."""
        n_features = max(1, n_features)
        if self.samples is not None:
            labels = labels[self.samples]
        w_step = replace(w_step, n_features=n_features, eta=None, relax=True)
        pool = self._pool(labels, w_step, min(POOL * n_features, n_features + MAX_POOL))
        return labels, replace(w_step, costs=w_step.costs[pool]), self.matrix.columns(pool)

    def halves(self) -> Iterator[tuple[Ints, Ints]]:
        """Yield samples to fit and samples held out, for every half of every halving."""
        for order in self.halvings:
            middle = order.size // 2
            yield order[:middle], order[middle:]
            yield order[middle:], order[:middle]

    def _half(self, data: Floats, labels: Ints, train: Ints) -> _Half:
        present, known = np.unique(labels[train], return_inverse=True)
        weight = self.matrix.sample_weight
        half = as_matrix(data[train], sample_weight=None if weight is None else weight[train])
        targets = TARGET_RULE.targets(half, self.embedding[train], known, present.size)
        return _Half(half, present, known, targets)

    def _pool(self, labels: Ints, w_step: WStep, size: int) -> Ints:
        """Return the features that may be selected: the others are too little correlated."""
        targets = TARGET_RULE.targets(self.matrix, self.embedding, labels, self.n_clusters)
        problem = w_step_problem(self.matrix, labels, targets, w_step)
        return w_step.selector.candidates(problem, size)

    def _score(
        self, half: _Half, weights: Floats, data: Floats, labels: Ints, test: Ints
    ) -> tuple[float, float, float]:
        """Return margin, agreement and explained share of the samples held out."""
        test = test[np.isin(labels[test], half.present)]
        if test.size == 0:
            return 0.0, 0.0, 0.0
        k = half.present.size
        truth = np.searchsorted(half.present, labels[test])
        known = half.matrix.project(weights)
        centres = centroids(known, half.labels, k, half.matrix.sample_weight)
        projected = _project(half, weights, data[test])
        square = distances(projected, centres)
        weight = self.matrix.sample_weight
        mass = np.ones(test.size) if weight is None else weight[test]
        sizes = np.bincount(truth, weights=mass, minlength=k)
        sums = np.bincount(truth, weights=mass * margins_of(square, truth), minlength=k)
        by_cluster = sums[sizes > 0] / sizes[sizes > 0]
        agreement = adjusted_rand_score(truth, square.argmin(axis=1))
        left = float(mass @ ((half.targets[truth] - projected) ** 2).sum(axis=1))
        total = float(mass @ (half.targets[truth] ** 2).sum(axis=1))
        explained = 1 - left / total if total > 0 else 0.0
        return float(by_cluster.mean()), float(agreement), explained


def _project(half: _Half, weights: Floats, samples: Floats) -> Floats:
    return project_samples(samples, half.matrix.mean, half.matrix.factor, weights)
