"""Scores of a path of fits on samples that had no part in them, not even in their clusters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from sklearn.metrics import adjusted_rand_score

from ksparse.core.alternation import Fit
from ksparse.core.y_step import distances
from ksparse.matrix import Floats, Ints, Matrix, project_samples
from ksparse.metrics import match_clusters
from ksparse.search.fit import Prepared, prepare
from ksparse.search.settings import Settings
from ksparse.selection.resampling import cut_starts

__all__ = ["PointScores", "score_halving"]

# As many samples as this are scored at most.
MAX_SAMPLES = 10_000


class PointScores(NamedTuple):
    """Scores of the points of a path on one halving; the mean of both directions.

    Attributes
    ----------
    agreement : ndarray
        Adjusted Rand index of the clusters of a half and of those in which the fit of the other
        half places its samples.
    explained : ndarray
        Share of the squared targets of a half's own clusters, matched one to one with those of
        the other half, that the projection of the other half explains.
    """

    agreement: Floats
    explained: Floats


def score_halving(
    matrix: Matrix,
    settings: Settings,
    fit_points: Callable[[Settings, Prepared, np.random.RandomState], Sequence[Fit]],
    rng: np.random.RandomState,
) -> PointScores:
    """Fit the whole path on two halves of the samples, each by itself, and compare them.

    Nothing is shared but the parameters: starts, clusters, features, projection, mean and scale
    of each half are its own. So on data without clusters both scores are about 0, or below.

    Parameters
    ----------
    matrix : Matrix
        The data.
    settings : Settings
        What was asked for.
    fit_points : callable
        ``fit_points(settings, prepared, rng)`` returns the fits of all points.
    rng : RandomState
        Draws the halves, and seeds the fits.
    """
    order = rng.permutation(matrix.shape[0])[:MAX_SAMPLES]
    middle = order.size // 2
    halves = []
    for rows in (np.sort(order[:middle]), np.sort(order[middle:])):
        part = cut_starts(settings, rows)
        prepared = prepare(matrix.rows(rows), settings.n_components, rng, starts=part.starts)
        fits = fit_points(part, prepared, rng)
        halves.append([_Half(prepared, fit, settings) for fit in fits])
    scores = [_compare(one, other) for one, other in zip(*halves, strict=True)]
    return PointScores(*np.array(scores).T)


class _Half:
    """The fit of a half at one point."""

    def __init__(self, prepared: Prepared, fit: Fit, settings: Settings) -> None:
        self.matrix, self.fit, self.k = prepared.matrix, fit, settings.n_clusters
        embedding = prepared.embedding(settings.n_components).coordinates
        self.aims = settings.targets.targets(self.matrix, embedding, fit.labels, self.k, None)

    def place(self, other: _Half) -> tuple[Floats, Ints]:
        """Return the samples of the other half in this projection, and their nearest centroids."""
        weights = self.fit.projection.weights
        P = project_samples(other.matrix.X, self.matrix.mean, self.matrix.factor, weights)
        return P, distances(P, self.fit.centroids).argmin(axis=1)

    def match(self, placed: Ints) -> Ints:
        """Return the cluster here that each cluster of the other half is matched to.

        `placed` are the samples of this half in the clusters of the other.
        """
        table = np.zeros((self.k, self.k))
        np.add.at(table, (placed, self.fit.labels), 1.0)
        return match_clusters(table)

    def explained(self, P: Floats, other: _Half, match: Ints) -> float:
        """Return the share of the targets of the other half's clusters that is explained."""
        targets = self.aims[match[other.fit.labels]]
        weight = other.matrix.sample_weight
        mass = np.ones(P.shape[0]) if weight is None else weight
        total = float(mass @ (targets**2).sum(axis=1))
        left = float(mass @ ((targets - P) ** 2).sum(axis=1))
        return 1 - left / total if total > 0 else 0.0


def _compare(one: _Half, other: _Half) -> tuple[float, float]:
    """Return agreement and explained share of two halves, the means of both directions.

    Clusters are matched on the samples that are not scored.
    """
    P, in_one = one.place(other)
    Q, in_other = other.place(one)
    agreement = [
        adjusted_rand_score(other.fit.labels, in_one),
        adjusted_rand_score(one.fit.labels, in_other),
    ]
    explained = [
        one.explained(P, other, one.match(in_other)),
        other.explained(Q, one, other.match(in_one)),
    ]
    return float(np.mean(agreement)), float(np.mean(explained))
