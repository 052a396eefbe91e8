"""The Y-step: k-means on the projected samples."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ksparse._errors import InputError, Term
from ksparse._threads import map_parts, split
from ksparse.core.lloyd import assign_nearest, first_centroids, square_distances
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
# Samples of one part of an iteration of k-means; parts are worked on at the same time.
PART = 20_000
# Like scikit-learn's: most iterations, and the squared movement of the centroids, relative to the
# mean variance, at which k-means ends before the labels stay the same.
MAX_ITERATIONS, TOL = 300, 1e-4


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
    square_distances(np.ascontiguousarray(P.T), np.ascontiguousarray(centres), out)
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
    points = _Points(P, np.ones(P.shape[0]) if sample_weight is None else sample_weight)

    def run(start: Floats | int) -> tuple[bool, float, Assignment]:
        """Return whether the inertia of a run is allowed, how good it is, and its result."""
        if isinstance(start, int):
            start = _chosen_centroids(points, n_clusters, start)
        labels = fill_empty(P, _lloyd(points, start), n_clusters)
        centres = centroids(P, labels, n_clusters, sample_weight)
        square = points.distances(centres)
        inertia = float(np.average(square[np.arange(labels.size), labels], weights=sample_weight))
        inertia *= labels.size if sample_weight is None else float(sample_weight.sum())
        score = CRITERIA[criterion](square, labels, sample_weight)
        return inertia <= max_inertia, score, Assignment(labels, centres, inertia)

    starts: list[Floats | int] = []
    if current is not None:
        starts.append(centroids(P, current, n_clusters, sample_weight))
        _seed(rng)  # as many random numbers are drawn as if this run needed some
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
        starts.append(sampled.centroids)
        _seed(rng)
    else:
        starts += [_seed(rng) for _ in range(n_init)]
    if not starts:
        raise InputError(Term("n_init", 0), " needs current labels to start from.")
    # Large data are worked on in parts by one run after the other, small ones by all at once.
    runs = map_parts(run, starts) if P.shape[0] <= PART else [run(start) for start in starts]
    best = runs[0]
    for other in runs[1:]:
        if other[:2] > (best[0], best[1] + 1e-9):
            best = other
    return best[2]


def _seed(rng: np.random.RandomState) -> int:
    return int(rng.randint(np.iinfo(np.int32).max))


class _Points:
    """Samples that k-means is run on, also stored component by component."""

    def __init__(self, P: Floats, weight: Floats) -> None:
        self.rows, self.columns = np.ascontiguousarray(P), np.ascontiguousarray(P.T)
        self.weight = np.ascontiguousarray(weight, dtype=np.float64)

    @cached_property
    def tolerance(self) -> float:
        """The squared movement of the centroids at which a run ends."""
        return TOL * float(self.rows.var(axis=0).mean())

    def distances(self, centres: Floats) -> Floats:
        """Return squared distances to the centres."""
        out = np.empty((self.rows.shape[0], centres.shape[0]))
        square_distances(self.columns, centres, out)
        return out


def _chosen_centroids(points: _Points, k: int, seed: int) -> Floats:
    """Return first centroids by k-means++, the same as scikit-learn's for the same seed."""
    rng = np.random.RandomState(seed)
    share = points.weight / points.weight.sum()
    first = int(rng.choice(points.rows.shape[0], p=share))
    random = rng.random_sample((k - 1, 2 + int(np.log(k))))
    chosen = np.empty(k, dtype=np.intp)
    first_centroids(points.columns, points.weight, first, random, chosen)
    return points.rows[chosen]


def _lloyd(points: _Points, centres: Floats) -> Ints:
    """Return the labels to which Lloyd's iterations lead from given centroids.

    As in scikit-learn, clusters that become empty get the samples farthest from their
    centroids, and the last labels belong to the last centroids.
    """
    m, k = points.rows.shape[0], centres.shape[0]
    parts = split(m, -(-m // PART))
    labels = np.full(m, -1, dtype=np.intp)

    def step(part: tuple[int, int]) -> tuple[Floats, Floats]:
        sums, sizes = np.zeros_like(centres), np.zeros(k)
        assign_nearest(
            points.columns, points.rows, points.weight, centres, labels, sums, sizes, *part
        )
        return sums, sizes

    for _ in range(MAX_ITERATIONS):
        before = labels.copy()
        pieces = map_parts(step, parts)
        if np.array_equal(labels, before):
            return labels
        sums, sizes = pieces[0]
        for more, number in pieces[1:]:
            sums, sizes = sums + more, sizes + number
        if not sizes.all():
            _occupy(points, centres, labels, sums, sizes)
        # What is still empty (there are fewer distinct samples than clusters) joins the largest.
        empty = sizes <= 0
        new = sums / np.where(empty, 1.0, sizes)[:, None]
        new[empty] = new[sizes.argmax()]
        movement = float(((new - centres) ** 2).sum())
        centres = new
        if movement <= points.tolerance:
            break
    map_parts(step, parts)
    return labels


def _occupy(points: _Points, centres: Floats, labels: Ints, sums: Floats, sizes: Floats) -> None:
    """Move the samples farthest from their centroids to empty clusters, in sums and sizes."""
    empty = np.flatnonzero(sizes == 0)
    distance = ((points.rows - centres[labels]) ** 2).sum(axis=1)
    if distance.max() == 0:
        return
    farthest = np.argpartition(distance, -empty.size)[: -empty.size - 1 : -1]
    for cluster, sample in zip(empty, farthest, strict=True):
        weight = points.weight[sample]
        moved = points.rows[sample] * weight
        sums[labels[sample]] -= moved
        sizes[labels[sample]] -= weight
        sums[cluster], sizes[cluster] = moved, weight
