"""Samples whose cluster is known: they keep it, and the others are clustered around them.

Known labels are numbers: 0 to m - 1 for m classes, -1 where a label is not known. During a fit
cluster c is class c, for c < m, and the other clusters are new.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.optimize import linear_sum_assignment

from ksparse.core.y_step import (
    Assignment,
    centroids,
    distances,
    fill_empty,
    inertia_of,
    margins,
    nearest_labels,
)
from ksparse.matrix import Floats, Ints

__all__ = ["anchor", "assign_around", "start_from_known"]

# As many as k-means of scikit-learn may do.
MAX_ITERATIONS = 300
# Runs that begin with the known samples, and the seed of their new clusters.
N_SEEDED, SEED = 10, 0


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
    labels = current
    for _ in range(MAX_ITERATIONS):
        before = labels
        labels = nearest_labels(P, centroids(P, before, n_clusters, sample_weight), known)
        if np.array_equal(labels, before):
            break
    centres = centroids(P, labels, n_clusters, sample_weight)
    return Assignment(labels, centres, inertia_of(P, centres[labels], sample_weight))


def anchor(
    P: Floats, labels: Ints, known: Ints, n_clusters: int, sample_weight: Floats | None = None
) -> Ints:
    """Return the labels of a start with every class in a cluster of its own.

    Classes are matched to clusters one to one, such that as many known samples as possible are in
    the cluster of their class; these clusters get the numbers of the classes, and all known
    samples move to theirs. Where a start has two classes in one cluster, no cluster is left for one
    of them that has any of its samples. Then the clusters of the start say nothing about that
    class: it begins with its known samples alone, and k-means in `P` divides the others.

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
    given = np.flatnonzero(known >= 0)
    n_classes = int(known.max()) + 1
    overlap = np.zeros((n_classes, n_clusters))
    weight = np.ones(given.size) if sample_weight is None else sample_weight[given]
    np.add.at(overlap, (known[given], labels[given]), weight)
    classes, clusters = linear_sum_assignment(overlap, maximize=True)
    number = np.full(n_clusters, -1)
    number[clusters] = classes
    number[number < 0] = np.arange(n_classes, n_clusters)
    out = np.where(known >= 0, known, number[labels])
    lost = classes[overlap[classes, clusters] == 0]
    if not lost.size:
        return fill_empty(P, out, n_clusters, known)
    centres = centroids(P, out, n_clusters, sample_weight)
    centres[lost] = centroids(P[given], known[given], n_classes, weight)[lost]
    out = nearest_labels(P, centres, known)
    return assign_around(P, out, known, n_clusters, sample_weight).labels


def _margin(P: Floats, labels: Ints, n_clusters: int, sample_weight: Floats | None) -> float:
    """Return the mean margin, by cluster first: large clusters do not hide a small one."""
    found = margins(P, labels, centroids(P, labels, n_clusters, sample_weight))
    weight = np.ones(labels.size) if sample_weight is None else sample_weight
    sums, sizes = (
        np.bincount(labels, weights=values, minlength=n_clusters)
        for values in (weight * found, weight)
    )
    return float((sums / np.where(sizes > 0, sizes, 1.0)).mean())


def start_from_known(
    P: Floats, known: Ints, n_clusters: int, sample_weight: Floats | None = None
) -> Ints:
    """Return labels of k-means that begins with the known samples (Basu, Banerjee, Mooney, 2002).

    Starts that know of no classes may put a small one into a large cluster, and divide another.
    New clusters begin by k-means++; of several runs the one with the largest margins is returned.
    """
    runs = list(_seeded(P, known, n_clusters, sample_weight))
    return max(runs, key=lambda run: _margin(P, run, n_clusters, sample_weight))


def _seeded(
    P: Floats, known: Ints, n_clusters: int, sample_weight: Floats | None
) -> Iterator[Ints]:
    """Yield labels of the runs."""
    given, rng = np.flatnonzero(known >= 0), np.random.RandomState(SEED)
    n_classes = int(known.max()) + 1
    weight = None if sample_weight is None else sample_weight[given]
    classes = centroids(P[given], known[given], n_classes, weight)
    for _ in range(N_SEEDED if n_clusters > n_classes else 1):
        centres = classes
        square = np.where(known < 0, distances(P, centres).min(axis=1), 0.0)
        for _ in range(n_clusters - n_classes):
            share = square if sample_weight is None else square * sample_weight
            total = share.sum()
            new = rng.choice(share.size, p=share / total) if total > 0 else int(known.argmin())
            centres = np.vstack([centres, P[new]])
            square = np.minimum(square, ((P - P[new]) ** 2).sum(axis=1))
        begin = nearest_labels(P, centres, known)
        yield assign_around(P, begin, known, n_clusters, sample_weight).labels
