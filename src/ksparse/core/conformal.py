"""Conformal p-values: how many samples of a cluster are at least as far from it as a new one.

Samples are held out fold by fold. A yardstick is fitted on the others (features, projection,
means and covariance of the clusters), and measures how far each held-out sample is from its own
cluster. A new sample is measured with every yardstick, and compared with the samples that were
held out from it: these had no more part in the yardstick than the new sample has.

The score of a sample x and a cluster c is the sum of two squared Mahalanobis distances, each
with the covariance within clusters, which all clusters share (so that small ones have one, too):
in the projection, where clusters are far apart, and among all selected features, because a
sample of another kind may be projected near a centroid by chance. Each is divided by its spread
among the cluster's own samples (from the median to the 90 % quantile), so that both have the same
say. Of five lung cancer cell lines (17 to 22 features), with one left out in turn, the projection
alone finds 79 % of that line at level 0.1, all features alone 87 %, both together 87 %; with 100
features 98 %, 87 % and 97 %.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ksparse.core.y_step import centroids, distances
from ksparse.matrix import Floats, Ints

__all__ = ["Calibration", "Yardstick", "fit_yardstick", "n_needed", "p_values", "stack"]

# Ridge of variances and of the covariance in the projection, relative to their mean.
RIDGE = 0.1
# The unit of distances is the difference of these quantiles among a cluster's own samples.
MIDDLE, FAR = 0.5, 0.9
SMALLEST = float(np.finfo(np.float64).tiny)


class Yardstick(NamedTuple):
    """Squared distances of samples from clusters, in two parts.

    Attributes
    ----------
    features : ndarray of int
        The selected features.
    mean : ndarray, one per feature
        What is subtracted.
    axes : ndarray, features x (clusters + features)
        Axes on which distances within clusters are about equal: of the projection, and of all
        selected features.
    centres : ndarray, clusters x (clusters + features)
        The clusters on these axes.
    units : ndarray, clusters x 2
        What the squared distances of each part are divided by.
    """

    features: Ints
    mean: Floats
    axes: Floats
    centres: Floats
    units: Floats

    def scores(self, Z: Floats) -> Floats:
        """Return scores, samples x clusters, of samples of which Z has the selected features."""
        first, second = _squares((Z - self.mean) @ self.axes, self.centres)
        return first / self.units[:, 0] + second / self.units[:, 1]


@dataclass(frozen=True)
class Calibration:
    """The yardsticks of all folds, and the scores of the samples held out from them.

    Attributes
    ----------
    features : ndarray of int, folds x features
        The features that each yardstick reads.
    mean : ndarray, folds x features
        What is subtracted from them.
    axes : ndarray, folds x features x axes
        See `Yardstick`; zero for features that a fold does not use.
    centres : ndarray, folds x clusters x axes
        The clusters on the axes.
    units : ndarray, folds x clusters x 2
        What squared distances are divided by.
    scores : ndarray, one per calibration sample
        The score of each for its own cluster.
    fold, cluster : ndarray of int, one per calibration sample
        From which yardstick it was held out, and its cluster.
    """

    features: NDArray[Any]
    mean: Floats
    axes: Floats
    centres: Floats
    units: Floats
    scores: Floats
    fold: NDArray[Any]
    cluster: NDArray[Any]

    @property
    def sizes(self) -> Ints:
        """Number of calibration samples of each cluster."""
        return np.bincount(self.cluster, minlength=self.units.shape[1])


def n_needed(alpha: float) -> int:
    """Return how many calibration samples a cluster needs to be excluded at a level.

    Examples
    --------
    >>> from ksparse.core.conformal import n_needed
    >>> n_needed(0.1), n_needed(0.3)
    (9, 3)
    """
    n = max(int(1 / alpha) - 2, 0)
    while 1 / (n + 1) > alpha:
        n += 1
    return n


def fit_yardstick(
    Z: Floats,
    features: Ints,
    weights: Floats,
    labels: Ints,
    n_clusters: int,
    sample_weight: Floats | None,
) -> Yardstick:
    """Return the yardstick of samples with given clusters.

    Parameters
    ----------
    Z : ndarray, samples x features
        The selected features.
    features : ndarray of int
        Which these are.
    weights : ndarray, features x clusters
        The projection.
    labels : ndarray of int
        Cluster of each sample.
    n_clusters : int
        Number of clusters; one without samples is where all samples have their mean.
    sample_weight : ndarray or None
        Weight of each sample.
    """
    mass = np.ones(len(Z)) if sample_weight is None else sample_weight
    mean = np.average(Z, axis=0, weights=mass)
    Z = Z - mean
    means = centroids(Z, labels, n_clusters, mass)
    R = (Z - means[labels]) * np.sqrt(mass / mass.mean())[:, None]
    axes = np.hstack([_projection_axes(R, weights), _feature_axes(R, (Z**2).mean(axis=0))])
    centres = means @ axes
    each = np.arange(len(Z))
    own = [square[each, labels] for square in _squares(Z @ axes, centres)]
    units = np.empty((n_clusters, 2))
    for part, square in enumerate(own):
        for c in range(n_clusters):
            here = square[labels == c]
            low, high = np.quantile(here if here.size else square, (MIDDLE, FAR))
            units[c, part] = high - low
    # Equal samples have no spread: a small share of what is between clusters stands for it.
    between = [square.mean() for square in _squares(centres, centres)]
    units = np.maximum(units, [1e-6 * square if square > 0 else 1.0 for square in between])
    return Yardstick(features, mean, axes, centres, units)


def _projection_axes(R: Floats, weights: Floats) -> Floats:
    """Return axes of the projection on which deviations from the centroids have unit variance."""
    P = R @ weights
    covariance = P.T @ P / len(P)
    mean = np.trace(covariance) / len(covariance)
    covariance[np.diag_indices_from(covariance)] += RIDGE * mean if mean > 0 else 1.0
    return weights @ _whitening(covariance)


def _feature_axes(R: Floats, variance: Floats) -> Floats:
    """Return axes of all features on which deviations are about independent (Ledoit and Wolf)."""
    from sklearn.covariance import ledoit_wolf_shrinkage  # slow to import, and seldom needed

    p = R.shape[1]
    if p == 0:
        return np.empty((0, 0))
    within = (R**2).mean(axis=0)
    unit = np.sqrt(np.maximum(within + RIDGE * within.mean() + 1e-6 * variance.mean(), SMALLEST))
    S = R / unit
    covariance = S.T @ S / len(S)
    share = float(ledoit_wolf_shrinkage(S, assume_centered=True)) if covariance.any() else 1.0
    covariance *= 1 - share
    mean = np.trace(covariance) / p
    covariance[np.diag_indices_from(covariance)] += share * float((S**2).mean()) + 1e-6 * (1 + mean)
    return _whitening(covariance) / unit[:, None]


def _whitening(covariance: Floats) -> Floats:
    """Return V with V' covariance V = I."""
    lower = np.linalg.cholesky(covariance)
    return np.asarray(np.linalg.inv(lower).T, dtype=np.float64)


def _squares(points: Floats, centres: Floats) -> tuple[Floats, Floats]:
    """Return squared distances on the axes of the projection, and on those of the features."""
    k = len(centres)
    return distances(points[:, :k], centres[:, :k]), distances(points[:, k:], centres[:, k:])


def stack(yardsticks: list[Yardstick], scores: Floats, fold: Ints, cluster: Ints) -> Calibration:
    """Return yardsticks of any numbers of features, and the scores of samples, as arrays."""
    n, p = len(yardsticks), max(max(one.features.size for one in yardsticks), 1)
    k = len(yardsticks[0].units)
    features, mean = np.zeros((n, p), dtype=np.int64), np.zeros((n, p))
    axes, centres = np.zeros((n, p, k + p)), np.zeros((n, k, k + p))
    for f, one in enumerate(yardsticks):
        size, width = one.axes.shape
        features[f, :size], mean[f, :size] = one.features, one.mean
        axes[f, :size, :width], centres[f, :, :width] = one.axes, one.centres
    units = np.array([one.units for one in yardsticks])
    whole = fold.astype(np.int32), cluster.astype(np.int32)
    return Calibration(features, mean, axes, centres, units, scores, *whole)


def p_values(Z: Floats, columns: Ints, calibration: Calibration) -> Floats:
    """Return p-values, samples x clusters.

    (1 + the number of calibration samples of the cluster whose score is at least that of the
    new sample) / (1 + their number).

    Parameters
    ----------
    Z : ndarray, samples x columns
        Features of new samples.
    columns : ndarray of int
        Which these are, in increasing order. Features that are missing have their mean.
    calibration : Calibration
        Yardsticks and scores.
    """
    sizes = calibration.sizes
    counts = np.zeros((len(Z), sizes.size))
    for f in range(len(calibration.units)):
        mean, axes = calibration.mean[f], calibration.axes[f]
        here = np.isin(calibration.features[f], columns)
        place = np.searchsorted(columns, calibration.features[f][here])
        yardstick = Yardstick(place, mean[here], axes[here], calibration.centres[f],
                              calibration.units[f])  # fmt: skip
        scores = yardstick.scores(Z[:, place])
        for c in range(sizes.size):
            held_out = (calibration.fold == f) & (calibration.cluster == c)
            known = np.sort(calibration.scores[held_out])
            counts[:, c] += known.size - np.searchsorted(known, scores[:, c], side="left")
    return (1 + counts) / (1 + sizes)
