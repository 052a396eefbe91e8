"""What batches have to do with clusters and features that were found."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, fdtrc, ncfdtr, ncfdtrinc

from ksparse.core.y_step import centroids, distances
from ksparse.matrix import Floats, Ints

__all__ = ["Mixing", "Support", "batch_mixing", "feature_support"]

# A cluster is of one batch if at least this share of it is, and chance would do that with less
# than this probability in any cluster.
ALMOST_ALL, CHANCE = 0.95, 0.01
# Level of the tests of features, for all of them in all batches. A cluster has part in the test in
# a batch if it has so many samples there.
LEVEL, MIN_SAMPLES = 0.05, 5
# An association is taken as that weak that a stronger one would be seen with this probability.
UNSURE = 0.05


@dataclass(frozen=True)
class Mixing:
    """How batches are spread over clusters.

    Attributes
    ----------
    counts : ndarray, clusters x batches
        Samples of each batch in each cluster (their weight).
    largest : ndarray of int, one per cluster
        The batch that has most samples in the cluster.
    share, expected : ndarray, one per cluster
        Share of that batch in the cluster, and in all samples.
    p_value : ndarray, one per cluster
        Probability that of so many samples, drawn at random, so many or more are of one batch
        (binomial, corrected for the numbers of batches and clusters).
    one_batch : ndarray of bool, one per cluster
        Whether 95 % or more are of one batch, with a `p_value` below 0.01.
    """

    counts: Floats
    largest: Ints
    share: Floats
    expected: Floats
    p_value: Floats
    one_batch: NDArray[np.bool_]


@dataclass(frozen=True)
class Support:
    """In which batches features are associated with clusters.

    Attributes
    ----------
    explained : ndarray, batches x features
        Share of the variance of the feature in the batch that lies between the clusters, which
        are found for this purpose without the feature. NaN in batches that do not have two
        clusters of at least five samples.
    supported : ndarray of bool, batches x features
        Whether that is more than chance (F test, level 0.05 for all features and batches).
    one_batch : ndarray of bool, one per feature
        Whether exactly one batch supports the feature, and in another it is associated with the
        clusters so much less that this is more than chance, too: an association as strong as in
        the first (at least, with 95 % confidence) would hardly look so weak there (noncentral F
        distribution). A batch that is too small to have seen it is no evidence.
    """

    explained: Floats
    supported: NDArray[np.bool_]
    one_batch: NDArray[np.bool_]


def batch_mixing(
    labels: Ints, batches: Ints, n_clusters: int, n_batches: int, weight: Floats | None = None
) -> Mixing:
    """Return how batches are spread over clusters; samples of weight 0 have no part."""
    both = labels.astype(np.intp) * n_batches + batches
    table = np.bincount(both, weights=weight, minlength=n_clusters * n_batches)
    counts = table.reshape(n_clusters, n_batches).astype(np.float64)
    size, overall = counts.sum(axis=1), counts.sum(axis=0) / counts.sum()
    largest = counts.argmax(axis=1)
    most = counts[np.arange(n_clusters), largest]
    expected = overall[largest]
    # P(Binomial(size, expected) >= most)
    chance = betainc(np.maximum(most, 1e-300), size - most + 1, expected)
    p_value = np.minimum(np.where(size > 0, chance, 1.0) * n_clusters * n_batches, 1.0)
    share = most / np.where(size > 0, size, 1.0)
    return Mixing(
        counts, largest, share, expected, p_value, (share >= ALMOST_ALL) & (p_value < CHANCE)
    )


def feature_support(
    Z: Floats,
    W: Floats,
    P: Floats,
    labels: Ints,
    n_clusters: int,
    batches: Ints,
    n_batches: int,
    *,
    known: Ints | None = None,
    weight: Floats | None = None,
) -> Support:
    """Return in which batches selected features are associated with clusters.

    A feature had part in finding the clusters, so it is associated with them even where it is
    noise. So the samples are assigned anew without it, in the projection of the other features,
    before it is tested.

    Parameters
    ----------
    Z : ndarray, samples x selected features
        The features, centred within batches and scaled as in the fit.
    W : ndarray, selected features x components
        Their weights.
    P : ndarray, samples x components
        The samples in the projection.
    labels : ndarray of int
        Cluster of each sample.
    n_clusters : int
        Number of clusters.
    batches : ndarray of int
        Batch of each sample.
    n_batches : int
        Number of batches.
    known : ndarray of int, optional
        The cluster that a sample keeps, -1 for those that have none.
    weight : ndarray, optional
        Weight of each sample.
    """
    shape = (n_batches, Z.shape[1])
    explained, p_value = np.full(shape, np.nan), np.ones(shape)
    freedom = np.zeros((2, *shape))
    if Z.shape[1] > 1:  # nothing is left without the only one
        axes, w = W.any(axis=0), np.ones(labels.size) if weight is None else weight
        W, P = W[:, axes], P[:, axes]
        centres, means = (centroids(A, labels, n_clusters, weight) for A in (P, Z))
        for j in range(Z.shape[1]):
            square = distances(P - np.outer(Z[:, j], W[j]), centres - np.outer(means[:, j], W[j]))
            nearest = square.argmin(axis=1)
            if known is not None:
                nearest = np.where(known >= 0, known, nearest)
            columns = _between(Z[:, j], nearest, n_clusters, batches, n_batches, w)
            explained[:, j], p_value[:, j], freedom[0, :, j], freedom[1, :, j] = columns
    n_tests = max(int(np.isfinite(explained).sum()), 1)
    level = LEVEL / n_tests
    supported = np.isfinite(explained) & (p_value < level)
    one_batch = np.zeros(Z.shape[1], dtype=bool)
    for i in np.flatnonzero(supported.sum(axis=0) == 1):
        share, df, strong = explained[:, i], freedom[:, :, i], int(supported[:, i].argmax())
        others = np.flatnonzero(np.isfinite(share) & ~supported[:, i])
        chances = [_weaker(share[[strong, b]], df[:, [strong, b]]) for b in others.tolist()]
        one_batch[i] = min(chances, default=1.0) < level
    return Support(explained, supported, one_batch)


def _between(
    z: Floats, labels: Ints, n_clusters: int, batches: Ints, n_batches: int, w: Floats
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return by batch: share of the variance between clusters, p-value, degrees of freedom."""
    both, shape = batches * n_clusters + labels, (n_batches, n_clusters)
    size, total, square = (
        np.bincount(both, weights=values, minlength=shape[0] * shape[1]).reshape(shape)
        for values in (w, w * z, w * z * z)
    )
    used = size >= MIN_SAMPLES
    size, total, square = (np.where(used, values, 0.0) for values in (size, total, square))
    n, g = size.sum(axis=1), used.sum(axis=1)
    middle = total.sum(axis=1) ** 2 / np.where(n > 0, n, 1.0)
    of_clusters = (total**2 / np.where(used, size, 1.0)).sum(axis=1)
    around = np.maximum(square.sum(axis=1) - middle, 0.0)
    between = np.clip(of_clusters - middle, 0.0, around)
    tested = (g >= 2) & (n > g)
    varies = around > 1e-12 * square.sum(axis=1)
    first, second = np.maximum(g - 1.0, 1.0), np.maximum(n - g, 1.0)
    share = np.where(varies, between / np.where(around > 0, around, 1.0), 0.0)
    rest = np.maximum(1.0 - share, np.finfo(float).tiny)
    p = np.where(varies, fdtrc(first, second, share / rest * second / first), 1.0)
    return np.where(tested, share, np.nan), np.where(tested, p, 1.0), first, second


def _weaker(shares: Floats, freedom: Floats) -> float:
    """Return the probability of so small a share in the second batch, if it is as in the first.

    What it is in the first is a 95 % lower bound: that batch is looked at because of its share.
    `freedom` has the degrees of freedom between and within clusters, 2 x batches.
    """
    (between, within), least = freedom, 1e-6
    n = freedom.sum(axis=0) + 1
    F = shares / np.maximum(1 - shares, least) * within / between
    effect = float(ncfdtrinc(between[0], within[0], 1 - UNSURE, F[0]))
    if not np.isfinite(effect):
        effect = 0.0
    effect *= n[1] / n[0]
    chance = float(ncfdtr(between[1], within[1], min(max(effect, 0.0), 1e4), F[1]))
    return chance if np.isfinite(chance) else 0.0
