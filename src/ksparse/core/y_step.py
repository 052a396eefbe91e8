"""The Y-step: k-means on the projected samples."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn import config_context
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from ksparse._errors import InputError, Term
from ksparse._threads import openmp_threads
from ksparse.matrix import Floats, Ints

__all__ = [
    "CRITERIA",
    "Assignment",
    "agreement",
    "assign",
    "centroids",
    "distances",
    "fill_empty",
    "inertia_of",
    "margins",
    "margins_of",
    "nearest_labels",
    "order_by_size",
]


# With more samples than this, k-means replicates run on a sample of this size.
MAX_REPLICATED = 20_000


class Assignment(NamedTuple):
    """Labels, their centroids, and the within-cluster sum of squares."""

    labels: Ints
    centroids: Floats
    inertia: float


def centroids(
    P: Floats, labels: Ints, n_clusters: int, sample_weight: Floats | None = None
) -> Floats:
    """Return the weighted mean of the rows of P in each cluster (zero for an empty one)."""
    weight = np.ones(P.shape[0]) if sample_weight is None else sample_weight
    sizes = np.bincount(labels, weights=weight, minlength=n_clusters)
    sums = np.column_stack(
        [np.bincount(labels, weights=weight * column, minlength=n_clusters) for column in P.T]
    )
    return sums / np.where(sizes > 0, sizes, 1.0)[:, None]


def distances(P: Floats, centres: Floats) -> Floats:
    """Return squared distances of the rows of P to the centres (samples x clusters)."""
    out = np.empty((P.shape[0], centres.shape[0]))
    for j, centre in enumerate(centres):
        out[:, j] = ((P - centre) ** 2).sum(axis=1)
    return out


def inertia_of(P: Floats, centres: Floats, sample_weight: Floats | None = None) -> float:
    """Return the weighted sum of squares of P - centres, where each row has its own centre."""
    square = ((P - centres) ** 2).sum(axis=1)
    return float(square.sum() if sample_weight is None else sample_weight @ square)


def agreement(one: Ints, other: Ints) -> float:
    """Return the adjusted Rand index of two labelings with numbers from 0 on.

    It is scikit-learn's, without its checks: on few samples these would take most of a fit.
    """
    n, width = one.size, int(other.max(initial=0)) + 1
    tables = (one.astype(np.intp) * width + other, one, other)
    both, first, second = (int((np.bincount(table) ** 2).sum()) for table in tables)
    if first == second == both:
        return 1.0
    # Pairs of samples: together in both, in the other only, in the first only, in neither.
    tp, fp, fn = both - n, second - both, first - both
    tn = n**2 - fp - fn - both
    return 2.0 * (tp * tn - fn * fp) / ((tp + fn) * (fn + tn) + (tp + fp) * (fp + tn))


def order_by_size(labels: Ints, n_clusters: int, sample_weight: Floats | None = None) -> Ints:
    """Return for each cluster its number when clusters are numbered by decreasing size.

    Equal sizes are ordered by their first member.
    """
    sizes = np.bincount(labels, weights=sample_weight, minlength=n_clusters)
    first = np.full(n_clusters, labels.size)
    np.minimum.at(first, labels, np.arange(labels.size))
    rank = np.empty(n_clusters, dtype=np.intp)
    rank[np.lexsort((first, -sizes))] = np.arange(n_clusters)
    return rank


def nearest_labels(P: Floats, centres: Floats, known: Ints | None = None) -> Ints:
    """Return the nearest centre of each sample; known labels (not -1) stay, no cluster is empty."""
    labels = distances(P, centres).argmin(axis=1)
    if known is not None:
        labels = np.where(known >= 0, known, labels)
    return fill_empty(P, labels, centres.shape[0], known)


def fill_empty(P: Floats, labels: Ints, n_clusters: int, known: Ints | None = None) -> Ints:
    """Return labels in which empty clusters got the samples farthest from their centroids.

    Samples whose label is `known` (not -1) do not move.
    """
    labels = labels.copy()
    sizes = np.bincount(labels, minlength=n_clusters)
    if (sizes > 0).all():
        return labels
    distance = ((P - centroids(P, labels, n_clusters)[labels]) ** 2).sum(axis=1)
    if known is not None:
        distance[known >= 0] = -1.0
    for cluster in np.flatnonzero(sizes == 0):
        movable = np.where(sizes[labels] > 1, distance, -1.0)
        sample = int(movable.argmax())
        sizes[labels[sample]] -= 1
        labels[sample] = cluster
        sizes[cluster] = 1
        distance[sample] = -1.0
    return labels


def margins(P: Floats, labels: Ints, centres: Floats) -> Floats:
    """Return the margin of every sample, a silhouette in linear time.

    (b - a) / max(a, b) with the distances a to its own and b to the nearest other centroid:
    1 at its centroid, 0 half-way between two, negative beyond.
    """
    return margins_of(distances(P, centres), labels)


def margins_of(square: Floats, labels: Ints) -> Floats:
    """Return margins, given the squared distances to all centroids."""
    each = np.arange(labels.size)
    inside = np.sqrt(square[each, labels])
    if square.shape[1] == 1:
        return np.zeros(labels.size)
    others = square.copy()
    others[each, labels] = np.inf
    other = np.sqrt(others.min(axis=1))
    largest = np.maximum(inside, other)
    return (other - inside) / np.where(largest > 0, largest, 1.0)


def _mean_margin(square: Floats, labels: Ints, sample_weight: Floats | None) -> float:
    return float(np.average(margins_of(square, labels), weights=sample_weight))


def _compactness(square: Floats, labels: Ints, sample_weight: Floats | None) -> float:
    """Return minus the logarithm of the inertia, so that differences are relative."""
    own = np.average(square[np.arange(labels.size), labels], weights=sample_weight)
    return -float(np.log(max(own, np.finfo(np.float64).tiny)))


# How k-means runs are compared: from squared distances, labels and weights; the largest wins.
CRITERIA: dict[str, Callable[[Floats, Ints, Floats | None], float]] = {
    "margin": _mean_margin,
    "inertia": _compactness,
}


def assign(
    P: Floats,
    n_clusters: int,
    rng: np.random.RandomState,
    *,
    n_init: int,
    current: Ints | None = None,
    sample_weight: Floats | None = None,
    max_inertia: float = np.inf,
    criterion: str = "margin",
) -> Assignment:
    """Run k-means: the best of `n_init` k-means++ runs and a run from the current labels.

    Runs are compared by their mean margin, unless told otherwise: the optima of k-means
    with the least inertia tend to cut large clusters in two. The run from the current
    labels wins ties, so labels that have converged stay as they are. No cluster is ever empty.

    Parameters
    ----------
    P : ndarray, samples x components
        Projected samples.
    n_clusters : int
        Number of clusters.
    rng : RandomState
        Seeds the runs.
    n_init : int
        Number of k-means++ runs.
    current : ndarray of int, optional
        Labels from which one more run starts.
    sample_weight : ndarray, optional
        Weight of each sample.
    max_inertia : float
        Runs with a larger inertia are passed over (unless there is no other).
    criterion : {"margin", "inertia"}
        What runs are compared by.
    """
    best: tuple[bool, float, Assignment] | None = None
    if current is not None:
        best = _lloyd(
            P,
            centroids(P, current, n_clusters, sample_weight),
            rng,
            sample_weight,
            max_inertia,
            n_clusters,
            criterion,
        )
    if P.shape[0] > MAX_REPLICATED and n_init > 0:
        # Many samples: the replicates run on some of them, the best one goes on with all.
        part = np.sort(rng.choice(P.shape[0], MAX_REPLICATED, replace=False))
        weight = None if sample_weight is None else sample_weight[part]
        sampled = assign(
            P[part],
            n_clusters,
            rng,
            n_init=n_init,
            sample_weight=weight,
            max_inertia=max_inertia * MAX_REPLICATED / P.shape[0],
            criterion=criterion,
        )
        runs: list[Any] = [sampled.centroids]
    else:
        runs = ["k-means++"] * n_init
    for start in runs:
        run = _lloyd(P, start, rng, sample_weight, max_inertia, n_clusters, criterion)
        if best is None or run[:2] > (best[0], best[1] + 1e-9):
            best = run
    if best is None:
        raise InputError(Term("n_init", 0), " needs current labels to start from.")
    return best[2]


def _lloyd(
    P: Floats,
    start: Any,
    rng: np.random.RandomState,
    sample_weight: Floats | None,
    max_inertia: float,
    k: int,
    criterion: str,
) -> tuple[bool, float, Assignment]:
    """Return whether the inertia of a run is allowed, how good it is, and its result."""
    seed = int(rng.randint(np.iinfo(np.int32).max))
    with (
        warnings.catch_warnings(),
        openmp_threads(n_distances=P.shape[0] * k),
        # The points are ours: with few of them, checks would take longer than the runs.
        config_context(assume_finite=True, skip_parameter_validation=True),
    ):
        # Fewer distinct points than clusters: `fill_empty` below takes care of them.
        warnings.simplefilter("ignore", ConvergenceWarning)
        run = KMeans(k, init=start, n_init=1, random_state=seed)
        run.fit(P, sample_weight=sample_weight)
    labels = fill_empty(P, run.labels_.astype(np.intp), k)
    centres = centroids(P, labels, k, sample_weight)
    square = distances(P, centres)
    inertia = float(np.average(square[np.arange(labels.size), labels], weights=sample_weight))
    inertia *= labels.size if sample_weight is None else float(sample_weight.sum())
    score = CRITERIA[criterion](square, labels, sample_weight)
    return inertia <= max_inertia, score, Assignment(labels, centres, inertia)
