"""Judge clusters without true labels, on samples held out.

The cost cannot compare two fits (it is smallest where nothing is projected). What can
is whether the clusters stay apart on samples that had no part in finding the features:
the features and centroids are fitted on one half of the samples with their labels, the
other half is projected, and every sample there is scored by its margin between its own
and the nearest other centroid. The mean is taken by cluster first, so a large cluster that
is easy to agree on does not hide small ones that are not.

What is held out, and what is not: of the samples that are scored, neither data nor labels
have any part in the choice of features (nor in that of the candidates for it), in the
weights, the centroids, the mean or the scale of the features. The labels that are judged
were found with all samples. So labels that have nothing to do with the data score 0,
whatever the number of features; labels that follow noise may score a little more.

Data whose features are centred within batches are not halved: each batch is left out once
(or several together). It is centred by its own mean, as in the fit, without its labels. Only where
nearly all samples are of one batch are they halved: too few would be left to fit without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

import numpy as np

from ksparse._threads import blas_threads, map_parts
from ksparse.core.targets import indicator_targets
from ksparse.core.w_step import Problem, WStep, refit, solve_w_step, w_step_problem
from ksparse.core.y_step import agreement, centroids, distances, margins_of
from ksparse.matrix import Floats, GramCache, Ints, Matrix, as_matrix, project_samples
from ksparse.search.batches import batch_folds

__all__ = ["Judge", "Scores", "mean_and_error"]

# At most so many samples are judged. Features are selected among so many times their
# number, but among no more than so many others.
MAX_SAMPLES = 5_000
POOL, MAX_POOL = 5, 500
# Few samples are halved more often, until about this many have been held out: which of them share
# a half is chance, and then a large part of the answer.
MIN_HALVINGS, MAX_HALVINGS, HELD_OUT = 2, 10, 1_000
# How many numbers the features, and how many all Gram matrices, that are kept from one labeling to
# the next may have.
KEPT = 2**24

Result = TypeVar("Result")


class Scores(NamedTuple):
    """Held-out scores, one for each half of each halving, or for each fold of batches.

    Attributes
    ----------
    margin : ndarray
        Mean margin of the held-out samples between centroids, by cluster first. A cluster
        that is not in the other half has the lowest margin, -1.
    agreement : ndarray
        Adjusted Rand index of the labels and of the nearest centroids.
    explained : ndarray
        Share of the squared targets that the projection explains; negative if it is farther
        from them than their mean.
    """

    margin: Floats
    agreement: Floats
    explained: Floats


def mean_and_error(values: Floats, ratio: float = 1.0) -> tuple[float, float]:
    """Return the mean of scores on halves, and its standard error (NaN for a single one).

    Halves of different halvings overlap, and the two of a halving share no sample but one
    fit each: the values are not independent, and their spread divided by the root of their
    number is too small. This is the corrected error of Nadeau and Bengio (2003), in which
    the ratio of test to training samples, 1 for halves, is added to 1 / n. Folds of
    cross-validation, whose training samples overlap, have another ratio.
    """
    if values.size < 2:
        return float(values.mean()) if values.size else np.nan, np.nan
    return float(values.mean()), float(values.std(ddof=1) * np.sqrt(1 / values.size + ratio))


class _Half(NamedTuple):
    """Samples that are fitted and samples held out, with the features that may be selected."""

    matrix: Matrix
    gram: GramCache
    labels: Ints
    targets: Floats
    costs: Floats
    test: Floats
    truth: Ints
    mass: Floats


class _Features:
    """Some of the features, as dense columns."""

    def __init__(self, matrix: Matrix) -> None:
        self.matrix = matrix
        self.data = np.empty((matrix.shape[0], 0))
        self._place = np.full(matrix.shape[1], -1, dtype=np.intp)

    def missing(self, features: Ints) -> Ints:
        """Return those of the features that are not here."""
        return features[self._place[features] < 0]

    def add(self, features: Ints) -> None:
        """Read features that are not here."""
        known = self.data.shape[1]
        self.data = np.hstack([self.data, self.matrix.columns(features)])
        self._place[features] = np.arange(known, known + features.size)

    def of(self, samples: Ints, features: Ints, unit: Floats | None) -> Floats:
        """Return features of some samples, divided by their `unit`."""
        part = self.data.take(samples, axis=0).take(self._place[features], axis=1)
        if unit is not None:
            part /= unit[features]
        return part


class _Train(NamedTuple):
    """The samples that are fitted in one half; what Gram matrices of features are made from."""

    features: _Features
    samples: Ints
    unit: Floats | None

    @property
    def shape(self) -> tuple[int, int]:
        return self.samples.size, self.features.matrix.shape[1]

    def matrix(self, features: Ints) -> Matrix:
        """Return these features, with the means that they have here."""
        weight = self.features.matrix.sample_weight
        return as_matrix(
            self.features.of(self.samples, features, self.unit),
            sample_weight=None if weight is None else weight[self.samples],
        )

    def gram(self, columns: Ints, others: Ints | None = None) -> Floats:
        needed = columns if others is None else np.union1d(columns, others)
        at = np.searchsorted(needed, columns) if others is not None else np.arange(columns.size)
        matrix = self.matrix(needed)
        return matrix.gram(at, None if others is None else np.searchsorted(needed, others))


class Judge:
    """Score labelings of the same data, all on the same halvings, or folds of batches.

    Parameters
    ----------
    matrix : Matrix
        The data.
    n_clusters : int
        Number of clusters.
    rng : RandomState
        Draws the halvings (and the samples, if there are many).
    n_halvings : int, optional
        How many times the samples are halved: twice, and up to 10 times if they are few.
    max_features : int, optional
        A fit with more features than this is judged by its best so many.

    Attributes
    ----------
    ratio : float
        Ratio of samples held out to samples fitted, for the error of a mean of scores.
    """

    def __init__(
        self,
        matrix: Matrix,
        n_clusters: int,
        rng: np.random.RandomState,
        *,
        n_halvings: int | None = None,
        max_features: int | None = 100,
    ) -> None:
        m = matrix.shape[0]
        self.n_clusters, self.max_features = n_clusters, max_features
        self.samples: Ints | None = None
        self.matrix = matrix
        if m > MAX_SAMPLES:
            self.samples = np.sort(rng.choice(m, MAX_SAMPLES, replace=False))
            self.matrix = matrix.rows(self.samples)
        m = self.matrix.shape[0]
        if n_halvings is None:
            n_halvings = min(max(HELD_OUT // max(m, 1), MIN_HALVINGS), MAX_HALVINGS)
        self.halvings = [rng.permutation(m) for _ in range(n_halvings)]
        self.ratio, self._fold = 1.0, None
        if (batches := self.matrix.batches) is not None:
            fold = batch_folds(batches, self.matrix.sample_weight)
            if (size := np.bincount(fold, weights=self.matrix.sample_weight)).size > 1:
                self._fold, self.halvings = fold, []
                self.ratio = float(np.mean(size / (size.sum() - size)))
        self._spread = None
        if matrix.standardize:
            self._spread = [self._deviation(train) for train, _ in self.halves()]
        self._forget()

    def __call__(self, labels: Ints, w_step: WStep, n_selected: int) -> Scores:
        """Return the scores of the labels."""
        n_features = min(n_selected, self.max_features or n_selected)
        scores = self._fitted(labels, w_step, n_features, _score)
        return Scores(*np.array(scores).T)

    def held_out(self, labels: Ints, w_step: WStep, n_selected: int) -> list[Floats]:
        """Return every half in the projection fitted on the other half."""
        return self._fitted(labels, w_step, n_selected, _project)

    def along(self, labels: Ints, w_step: WStep, counts: Sequence[int]) -> list[Scores]:
        """Return scores of the labels for several numbers of features (increasing).

        One path of the selector for each half gives them all.
        """

        def score(half: _Half) -> list[tuple[float, float, float]]:
            step = replace(w_step, costs=half.costs)
            problem = w_step_problem(half.matrix, half.labels, half.targets, step, half.gram)
            path = w_step.selector.select_path(problem, counts)
            return [_score(half, refit(problem, selected, w_step.ridge)) for selected in path]

        table = np.array(self._map(score, labels, w_step, max(counts)))
        return [Scores(*table[:, i].T) for i in range(len(counts))]

    def halves(self) -> Iterator[tuple[Ints, Ints]]:
        """Yield samples to fit and samples held out, for every half or fold."""
        if self._fold is not None:
            for f in range(int(self._fold.max()) + 1):
                yield np.flatnonzero(self._fold != f), np.flatnonzero(self._fold == f)
        for order in self.halvings:
            middle = order.size // 2
            yield order[:middle], order[middle:]
            yield order[middle:], order[:middle]

    def _fitted(
        self,
        labels: Ints,
        w_step: WStep,
        n_features: int,
        result: Callable[[_Half, Floats], Result],
    ) -> list[Result]:
        """Return ``result(half, weights)`` of every half, with the weights that fit it."""
        w_step = replace(w_step, n_features=max(1, n_features), eta=None, relax=True)

        def of(half: _Half) -> Result:
            step = replace(w_step, costs=half.costs)
            W = solve_w_step(
                half.matrix, half.labels, half.targets, step, gram=half.gram, certify=False
            )
            return result(half, W.weights)

        return self._map(of, labels, w_step, n_features)

    def _map(
        self, function: Callable[[_Half], Result], labels: Ints, w_step: WStep, n_features: int
    ) -> list[Result]:
        """Apply a function to every half, with those features that may be selected on it."""
        if self.samples is not None:
            labels = labels[self.samples]
        n_features = max(1, n_features)
        size = min(POOL * n_features, n_features + MAX_POOL)
        pools = self._pools(labels, w_step, size)
        self._keep(np.unique(np.concatenate(pools)))
        weight = self.matrix.sample_weight

        def on_half(part: tuple[_Train, GramCache, Ints, Ints]) -> Result:
            train, gram, test, pool = part
            fitted, given = train.matrix(pool), labels[train.samples]
            half = _Half(
                fitted,
                gram.within(pool),
                given,
                indicator_targets(given, self.n_clusters, fitted.sample_weight),
                w_step.costs[pool],
                train.features.of(test, pool, train.unit),
                labels[test],
                np.ones(test.size) if weight is None else weight[test],
            )
            return function(half)

        tests = [test for _, test in self.halves()]
        with blas_threads(0):  # halves are worked on at the same time
            return map_parts(on_half, zip(self._train, self._grams, tests, pools, strict=True))

    def _forget(self) -> None:
        """Keep no features and no Gram matrices."""
        self._features = _Features(self.matrix)
        self._train = [
            _Train(self._features, train, None if self._spread is None else self._spread[i])
            for i, (train, _) in enumerate(self.halves())
        ]
        size = int(np.sqrt(KEPT / max(len(self._train), 1)))
        self._grams = [GramCache(train, size) for train in self._train]

    def _keep(self, features: Ints) -> None:
        """Have these features at hand, as dense columns.

        Labelings that are compared have most of them in common; where there are too many, all
        from before are dropped.
        """
        new, known = self._features.missing(features), self._features.data
        if known.size and known.size + new.size * known.shape[0] > KEPT:
            self._forget()
            new = features
        if new.size:
            self._features.add(new)

    def _pools(self, labels: Ints, w_step: WStep, size: int) -> list[Ints]:
        """Return for every half the features that may be selected on it.

        The others are too little correlated with the targets there.
        """
        k = self.n_clusters
        pools: list[Ints] = []
        for part, n in self._train_sums(labels):
            centred = part - np.outer(n, part.sum(axis=0) / max(n.sum(), np.finfo(float).tiny))
            correlation = centred.T @ (np.eye(k) - n / max(n.sum(), np.finfo(float).tiny))
            if self._spread is not None:
                correlation /= self._spread[len(pools)][:, None]
            problem = Problem(self.matrix, correlation, 1.0, np.inf, w_step.costs)
            pools.append(w_step.selector.candidates(problem, size))
        return pools

    def _train_sums(self, labels: Ints) -> Iterator[tuple[Floats, Floats]]:
        """Yield sums and sizes by cluster of the samples to fit, for every half or fold.

        Those of both halves of a halving, and of all folds, come from one pass over the data.
        """
        if self._fold is not None:
            n_folds = int(self._fold.max()) + 1
            sums, sizes = self._sums(labels, self._fold, n_folds)
            for f in range(n_folds):
                others = np.arange(n_folds) != f
                yield sums[others].sum(axis=0), sizes[others].sum(axis=0)
        for order in self.halvings:
            second = np.zeros(order.size, dtype=np.intp)
            second[order[order.size // 2 :]] = 1
            yield from zip(*self._sums(labels, second, 2), strict=True)

    def _sums(self, labels: Ints, part: Ints, n_parts: int) -> tuple[Floats, Floats]:
        """Return sums and sizes by part and cluster."""
        k, groups = self.n_clusters, labels + self.n_clusters * part
        sums = self.matrix.cluster_sums(groups, n_parts * k)
        sizes = np.bincount(groups, weights=self.matrix.sample_weight, minlength=n_parts * k)
        return sums.reshape(n_parts, k, -1), sizes.reshape(n_parts, k).astype(np.float64)

    def _deviation(self, train: Ints) -> Floats:
        """Return the standard deviations of scaled features among some of the samples."""
        half = self.matrix.rows(train)
        deviation = np.sqrt(half.variance) * self.matrix.factor
        return np.where(half.constant, 1.0, deviation)


def _project(half: _Half, weights: Floats) -> Floats:
    """Return the samples held out in a projection."""
    return project_samples(half.test, half.matrix.mean, half.matrix.factor, weights)


def _score(half: _Half, weights: Floats) -> tuple[float, float, float]:
    """Return margin, agreement and explained share of the samples held out."""
    k = half.targets.shape[0]
    mass, truth = half.mass, half.truth
    sizes = np.bincount(truth, weights=mass, minlength=k)
    if not sizes.any():
        return 0.0, 0.0, 0.0
    projected = _project(half, weights)
    known = half.matrix.project(weights)
    fitted = np.bincount(half.labels, minlength=k) > 0
    centres = centroids(known, half.labels, k, half.matrix.sample_weight)
    present = np.flatnonzero(fitted)  # the others have no centroid
    square = distances(projected, centres[present])
    seen = fitted[truth]
    margin = np.full(truth.size, -1.0)
    margin[seen] = margins_of(square[seen], np.searchsorted(present, truth[seen]))
    by_cluster = np.bincount(truth, weights=mass * margin, minlength=k)[sizes > 0]
    agreed = agreement(truth, square.argmin(axis=1))
    aims = half.targets[truth]
    left = float(mass @ ((aims - projected) ** 2).sum(axis=1))
    total = float(mass @ (aims**2).sum(axis=1))
    explained = 1 - left / total if total > 0 else 0.0
    return float((by_cluster / sizes[sizes > 0]).mean()), agreed, explained
