"""Samples whose cluster is known: they keep it, and the others are clustered around them.

Known labels are numbers: 0 to m - 1 for m classes, -1 where a label is not known. During a fit
cluster c is class c, for c < m, and the other clusters are new.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from ksparse.core.y_step import (
    Assignment,
    centroids,
    distances,
    fill_empty,
    inertia_of,
    nearest_labels,
)
from ksparse.matrix import Floats, Ints

__all__ = ["anchor", "assign_around"]

# When k-means stops, as in scikit-learn: after so many iterations, or when the squares by which
# centroids move sum to less than this share of the mean variance.
MAX_ITERATIONS, TOL = 300, 1e-4
# So many times farther (squared) than chance lets it be, a class is far from a cluster.
FAR = 4.0


def assign_around(
    P: Floats, current: Ints, known: Ints, n_clusters: int, sample_weight: Floats | None = None
) -> Assignment:
    """Run k-means from the current labels; samples whose label is known keep it.

    The centroid of a class is the mean of all its members: those that are known, and those that
    have joined. Nothing is left to chance, and no cluster is ever empty.

    Parameters
    ----------
    P : ndarray, samples x components
        Projected samples.
    current : ndarray of int
        Where to begin; these labels agree with those that are known.
    known : ndarray of int
        Known labels, -1 where there is none; every class has a sample.
    n_clusters : int
        Number of clusters.
    sample_weight : ndarray, optional
        Weight of each sample.
    """
    labels, centres = current, centroids(P, current, n_clusters, sample_weight)
    mean = np.average(P, axis=0, weights=sample_weight)
    least = TOL * np.average((P - mean) ** 2, axis=0, weights=sample_weight).mean()
    for _ in range(MAX_ITERATIONS):
        before, last = labels, centres
        labels = nearest_labels(P, centres, known)
        centres = centroids(P, labels, n_clusters, sample_weight)
        if np.array_equal(labels, before) or ((centres - last) ** 2).sum() <= least:
            break
    return Assignment(labels, centres, inertia_of(P, centres[labels], sample_weight))


def anchor(
    P: Floats, labels: Ints, known: Ints, n_clusters: int, sample_weight: Floats | None = None
) -> Ints:
    """Return the labels of a start with every class in a cluster of its own.

    Classes are matched to clusters one to one, such that as many known samples as possible are in
    the cluster of their class; these clusters get the numbers of the classes, and all known
    samples move to theirs.

    A start knows nothing of the classes: it may have two of them in one cluster, or a rare one
    in a large cluster of others, far from its middle. Such a class begins with its known samples
    alone and with those that are nearest to their mean, and the two other clusters that are
    nearest to each other become one.

    Parameters
    ----------
    P : ndarray, samples x components
        The samples, in an embedding.
    labels : ndarray of int
        Labels of the start.
    known : ndarray of int
        Known labels, -1 where there is none; every class has a sample.
    n_clusters : int
        Number of clusters.
    sample_weight : ndarray, optional
        Weight of each sample.
    """
    weight = np.ones(labels.size) if sample_weight is None else sample_weight
    given = known >= 0
    n_classes = int(known.max()) + 1
    means = centroids(P[given], known[given], n_classes, weight[given])
    overlap = np.zeros((n_classes, n_clusters))
    np.add.at(overlap, (known[given], labels[given]), weight[given])
    overlap[_far(P, labels, known, weight, overlap)] = 0.0
    classes, clusters = linear_sum_assignment(overlap, maximize=True)
    found = overlap[classes, clusters] > 0
    apart = classes[~found]
    # Groups: classes first, then clusters of the start that are of no class.
    number = np.full(n_clusters, -1)
    number[clusters[found]] = classes[found]
    number[number < 0] = n_classes + np.arange(np.count_nonzero(number < 0))
    groups = np.where(given, known, number[labels])
    groups = _merged(P, groups, apart, n_classes, n_clusters, weight)
    if apart.size:
        own = ((P - centroids(P, groups, n_clusters, weight)[groups]) ** 2).sum(axis=1)
        square = distances(P, means[apart])
        joins = ~given & (square.min(axis=1) < own)
        groups[joins] = apart[square[joins].argmin(axis=1)]
    return fill_empty(P, groups, n_clusters, known)


def _far(
    P: Floats, labels: Ints, known: Ints, weight: Floats, overlap: Floats
) -> NDArray[np.bool_]:
    """Return which classes are far from the middle of which clusters (classes x clusters).

    The squared distance of the mean of n random samples of a cluster from its centroid is, on
    average, their mean squared distance from it divided by n. `overlap` has the numbers n.
    """
    m, k = overlap.shape
    free = known < 0
    centres = centroids(P[free], labels[free], k, weight[free])
    square = ((P - centres[labels]) ** 2).sum(axis=1)
    size = np.bincount(labels[free], weights=weight[free], minlength=k)
    spread = np.bincount(labels[free], weights=(weight * square)[free], minlength=k)
    pair = (known * k + labels)[~free]
    means = centroids(P[~free], pair, m * k, weight[~free]).reshape(m, k, -1)
    moved = ((means - centres) ** 2).sum(axis=2)
    return (overlap * moved * size > FAR * spread) & (size > 0)


def _merged(
    P: Floats, groups: Ints, apart: Ints, n_classes: int, n_clusters: int, weight: Floats
) -> Ints:
    """Return groups of which pairs were merged, by Ward's rule, until there are few enough.

    Classes that are `apart` take no part, and two classes are never merged.
    """
    n_groups = int(groups.max()) + 1
    while n_groups > n_clusters:
        size = np.bincount(groups, weights=weight, minlength=n_groups)
        centres = centroids(P, groups, n_groups, weight)
        total = size[:, None] + size
        cost = size[:, None] * size / np.where(total > 0, total, 1.0) * distances(centres, centres)
        cost[:n_classes, :n_classes] = np.inf
        cost[apart] = cost[:, apart] = np.inf
        np.fill_diagonal(cost, np.inf)
        one, other = sorted(divmod(int(cost.argmin()), n_groups))
        groups = np.where(groups == other, one, groups)
        groups = np.where(groups > other, groups - 1, groups)
        n_groups -= 1
    return groups
