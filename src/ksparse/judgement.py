"""Judging a finished clustering without labels, on samples held out.

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

from ksparse.assignment import centroids, distances, margins_of
from ksparse.matrix import Floats, Ints, Matrix, as_matrix
from ksparse.projection import Projection, WStep, fit_projection, refit, w_step_problem
from ksparse.solvers import LassoPaths
from ksparse.targets import embedded_targets

__all__ = ["Judge", "Scores"]

# At most so many samples are judged. Features are selected among so many times their
# number, but among no more than so many others.
MAX_SAMPLES = 5_000
POOL, MAX_POOL = 5, 500


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
        labels, how, data = self._data(
            labels, how, min(n_selected, self.max_features or n_selected)
        )
        scores: list[tuple[float, float, float]] = []
        last: Projection | None = None  # halves are alike: where to look first in the next
        for train, test in self.halves():
            half = self._half(data, labels, train)
            fitted = last = fit_projection(
                half.matrix, half.labels, half.targets, how, last=last, certify=False
            )
            scores.append(self._score(half, fitted.weights, data, labels, test))
        return Scores(*np.array(scores).T)

    def held_out(self, labels: Ints, how: WStep, n_selected: int) -> list[Floats]:
        """Every half, as the projection fitted on the other half shows it."""
        labels, how, data = self._data(labels, how, n_selected)
        shown = []
        for train, test in self.halves():
            half = self._half(data, labels, train)
            fitted = fit_projection(half.matrix, half.labels, half.targets, how, certify=False)
            shown.append(_project(half, fitted.weights, data, test))
        return shown

    def along(self, labels: Ints, how: WStep, counts: Sequence[int]) -> list[Scores]:
        """Scores of the labels for several numbers of features (increasing).

        One lasso path for each half gives them all.
        """
        labels, how, data = self._data(labels, how, max(counts))
        scores = []
        for train, test in self.halves():
            half = self._half(data, labels, train)
            problem = w_step_problem(half.matrix, half.labels, half.targets, how)
            every = np.arange(how.costs.size)
            paths = LassoPaths(problem.gram(every), problem.correlation, how.costs)
            for count in counts:
                paths.go_to_count(count)
                selected = np.flatnonzero(paths.weights.any(axis=1))
                weights = refit(problem, selected, how.ridge)
                scores.append(self._score(half, weights, data, labels, test))
        table = np.array(scores).reshape(-1, len(counts), 3)
        return [Scores(*table[:, i].T) for i in range(len(counts))]

    def _data(self, labels: Ints, how: WStep, n_features: int) -> tuple[Ints, WStep, Floats]:
        """Labels, settings and dense data of the samples and features to judge with."""
        n_features = max(1, n_features)
        if self.samples is not None:
            labels = labels[self.samples]
        how = replace(how, n_features=n_features, eta=None, relax=True, solver="working_set")
        pool = self._pool(labels, how, min(POOL * n_features, n_features + MAX_POOL))
        return labels, replace(how, costs=how.costs[pool]), self.matrix.columns(pool)

    def halves(self) -> Iterator[tuple[Ints, Ints]]:
        """Samples to fit and samples held out, for every half of every halving."""
        for order in self.halvings:
            middle = order.size // 2
            yield order[:middle], order[middle:]
            yield order[middle:], order[:middle]

    def _half(self, data: Floats, labels: Ints, train: Ints) -> _Half:
        present, known = np.unique(labels[train], return_inverse=True)
        weight = self.matrix.sample_weight
        half = as_matrix(data[train], sample_weight=None if weight is None else weight[train])
        targets = embedded_targets(half, self.embedding[train], known, present.size)
        return _Half(half, present, known, targets)

    def _pool(self, labels: Ints, how: WStep, size: int) -> Ints:
        """The features most correlated with the labels: the others cannot be selected."""
        targets = embedded_targets(self.matrix, self.embedding, labels, self.n_clusters)
        correlation = self.matrix.cluster_sums(labels, self.n_clusters).T @ targets
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.abs(correlation).max(axis=1) / how.costs
        ratio = np.where(how.costs == 0, np.inf, np.nan_to_num(ratio, nan=0.0, posinf=np.inf))
        return np.sort(np.argsort(-ratio, kind="stable")[:size])

    def _score(
        self, half: _Half, weights: Floats, data: Floats, labels: Ints, test: Ints
    ) -> tuple[float, float, float]:
        """Margin, agreement and explained share of the samples held out."""
        test = test[np.isin(labels[test], half.present)]
        if test.size == 0:
            return 0.0, 0.0, 0.0
        k = half.present.size
        truth = np.searchsorted(half.present, labels[test])
        known = half.matrix.project(weights)
        centres = centroids(known, half.labels, k, half.matrix.sample_weight)
        projected = _project(half, weights, data, test)
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


def _project(half: _Half, weights: Floats, data: Floats, samples: Ints) -> Floats:
    used = np.flatnonzero(weights.any(axis=1))
    V = weights[used] * half.matrix.factor[used, None]
    return (data[np.ix_(samples, used)] - half.matrix.mean[used]) @ V
