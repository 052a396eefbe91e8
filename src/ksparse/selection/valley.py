"""Is there a valley between two clusters, in samples that had no part in finding the direction?

Where samples are one population, however long or flat, their density along any line has one peak:
the middle between two places cannot be emptier than both of them. So clusters a and b are compared
by counts of samples in three windows of equal width, around a, around b, and between them.

The samples are split into five folds, in proportion to the clusters. On four of them features are
selected and weighed that tell the given labels apart, every cluster counting the same; the line
from a to b is the direction in which their means are farthest apart relative to the scatter within
clusters. The samples of the fifth are put on this line, without their labels; where the windows
are is decided by the samples of the other folds, each on the line that was found without it.

Only samples near the line from a to b are counted: those on its side of the planes half-way
between the line and every other cluster. Planes cut a convex body out of the space, in which one
population still has one peak. Taking the samples whose nearest centroid is a or b would not do:
that region is narrow in the middle, and flat data that were cut in five seem to have valleys.

What is held out, and what is not: the labels were found with all samples. They choose the direction
and nothing else; a direction, however it was chosen, does not empty the middle of new samples.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import binom

from ksparse.core.forward import balanced_problem, forward_path
from ksparse.core.y_step import centroids
from ksparse.matrix import Floats, Ints, as_matrix, project_samples
from ksparse.matrix.data import take_rows
from ksparse.matrix.sources import is_stored, select_rows

__all__ = ["N_FOLDS", "ValleyCounts", "log_tail", "valley_counts"]

N_FOLDS = 5
# Features that tell the clusters apart: so many for each cluster, but no more than in all, among
# so many more candidates. More ridge than for clusters: what is told apart here is weak.
PER_CLUSTER, MAX_FEATURES, MORE_CANDIDATES, RIDGE = 20, 400, 500, 1.0
# Samples of each cluster from which features and directions are found, at most.
TRAINING = 1_000
# What is added to the scatter within clusters, relative to its mean variance.
SCATTER_RIDGE = 0.1
# The width of the windows, and where the middle one may be, relative to the distance from a to b.
# For two Gaussian clusters of equal size, 4 standard deviations apart, this width has most power.
WIDTH, MIDDLES = 0.375, (0.5, 0.35, 0.65)


class ValleyCounts(NamedTuple):
    """Samples in the windows around two clusters, and between them."""

    first: int
    second: int
    valley: int


class _Fold(NamedTuple):
    """Samples held out in a projection, with the centroids and scatter of the others."""

    points: Floats
    centres: Floats
    scatter: Floats


def log_tail(counts: ValleyCounts) -> float:
    """Return the logarithm of the p-value of one split.

    If the middle is no emptier than one of the ends, then that end has at most half of what both
    have; so the larger of the two binomial tails is a p-value of "not emptier than both".
    """
    ends = np.array(counts[:2])
    return float(binom.logsf(ends - 1, ends + counts.valley, 0.5).max())


def valley_counts(
    X: Any,
    labels: Ints,
    n_clusters: int,
    costs: Floats,
    rng: np.random.RandomState,
    *,
    standardize: bool = False,
) -> dict[tuple[int, int], ValleyCounts]:
    """Return the counts of every pair of clusters, for one random split into folds.

    Parameters
    ----------
    X : array, sparse matrix or blocks
        Checked data.
    labels : ndarray of int
        Cluster of each sample, -1 for samples without one. Each cluster has at least as many
        samples as there are folds.
    n_clusters : int
        Number of clusters.
    costs : ndarray
        Cost of each feature in the selection; infinity: never selected.
    rng : RandomState
        Splits the samples.
    standardize : bool
        Whether to divide every feature by its standard deviation.
    """
    folds = list(_cross_fitted(X, labels, n_clusters, costs, rng, standardize))
    pairs = [(a, b) for a in range(n_clusters) for b in range(a + 1, n_clusters)]
    return {(a, b): _counts([_places(fold, a, b) for fold in folds]) for a, b in pairs}


def _cross_fitted(
    X: Any, labels: Ints, k: int, costs: Floats, rng: np.random.RandomState, standardize: bool
) -> Iterator[_Fold]:
    """Yield every fold in the projection that was fitted on the others."""
    fold, training = _split(labels, k, rng)
    data = take_rows(X, training, _same) if is_stored(X) else X
    for number in range(N_FOLDS):
        used = np.flatnonzero(fold[training] != number)
        given = labels[training[used]]
        part = data[used if is_stored(X) else training[used]]
        matrix = as_matrix(part, standardize=standardize)
        W = _weights(matrix, given, k, costs)
        fitted = matrix.project(W)
        centres = centroids(fitted, given, k)
        rest = select_rows(X, np.flatnonzero(fold == number))
        points = project_samples(rest, matrix.mean, matrix.factor, W)
        yield _Fold(points, centres, _scatter(fitted - centres[given], given, k))


def _same(rows: Any) -> Any:
    return rows


def _split(labels: Ints, k: int, rng: np.random.RandomState) -> tuple[Ints, Ints]:
    """Return the fold of each sample (-1 without a label), and samples to train with, in order."""
    fold = np.full(labels.size, -1, dtype=np.intp)
    training, dealt = [], 0
    for cluster in range(k):
        members = rng.permutation(np.flatnonzero(labels == cluster))
        fold[members] = (np.arange(members.size) + dealt) % N_FOLDS
        training.append(members[:TRAINING])
        dealt += members.size
    return fold, np.sort(np.concatenate(training))


def _weights(matrix: Any, labels: Ints, k: int, costs: Floats) -> Floats:
    """Return a projection with one column for each cluster, on features selected for them."""
    n_features = min(PER_CLUSTER * k, MAX_FEATURES)
    problem = balanced_problem(
        matrix, labels, matrix.cluster_sums(labels, k), costs,
        n_features=n_features, ridge=RIDGE, n_candidates=n_features + MORE_CANDIDATES,
    )  # fmt: skip
    places = forward_path(problem, n_features).places
    W = np.zeros((matrix.shape[1], k))
    if places.size:
        G = problem.gram[np.ix_(places, places)]
        W[problem.features[places]] = np.linalg.solve(G, problem.correlation[places])
    return W


def _scatter(residuals: Floats, labels: Ints, k: int) -> Floats:
    """Return the mean covariance within clusters, every cluster counting the same."""
    weight = 1 / np.bincount(labels, minlength=k)[labels]
    scatter = residuals.T @ (residuals * weight[:, None]) / k
    ridge = SCATTER_RIDGE * np.trace(scatter) / k
    scatter[np.diag_indices(k)] += ridge if ridge > 0 else 1.0  # no scatter: any direction will do
    return np.asarray(scatter)


def _places(fold: _Fold, a: int, b: int) -> Floats:
    """Return the places of the samples near the line from a (0) to b (1)."""
    points, centres = fold.points, fold.centres
    line = centres[b] - centres[a]
    length = float(line @ line)
    if length <= 0:
        return np.empty(0)
    others = np.delete(centres, [a, b], axis=0)
    along = np.clip((others - centres[a]) @ line / length, 0.0, 1.0)
    foot = centres[a] + along[:, None] * line  # the point of the line nearest to each of them
    away = others - foot
    inside = (points @ away.T <= ((others + foot) / 2 * away).sum(axis=1)).all(axis=1)
    direction = np.linalg.solve(fold.scatter, line)
    return (points[inside] - centres[a]) @ direction / float(line @ direction)


def _counts(folds: Sequence[Floats]) -> ValleyCounts:
    """Return the samples in the windows, summed over folds; each has windows of the others."""
    total = np.zeros(3, dtype=np.intp)
    for number, places in enumerate(folds):
        rest = np.concatenate([other for i, other in enumerate(folds) if i != number])
        total += _windows(places, rest)
    return ValleyCounts(*(int(count) for count in total))


def _windows(places: Floats, others: Floats) -> Ints:
    """Return how many are around the first cluster, around the second, and between them.

    The windows of the clusters are around the medians of the `others` on either side; of the
    middles the one where fewest of the others are is taken, as a rare cluster has its valley
    nearer to itself.
    """
    left, right = others[others < 0.5], others[others >= 0.5]
    if not (left.size and right.size):
        return np.zeros(3, dtype=np.intp)
    low, high = np.median(left), np.median(right)
    half = WIDTH / 2 * (high - low)

    def inside(values: Floats, centre: float) -> int:
        return int(np.count_nonzero(np.abs(values - centre) <= half))

    middles = [low + share * (high - low) for share in MIDDLES]
    middle = min(middles, key=lambda centre: inside(others, centre))  # of equal ones the first
    return np.array([inside(places, centre) for centre in (low, high, middle)])
