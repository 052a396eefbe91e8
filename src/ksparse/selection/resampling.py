"""Fits of parts of the data, for several numbers of clusters at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from sklearn.metrics import adjusted_rand_score

from ksparse.core.alternation import Fit
from ksparse.core.y_step import distances, fill_empty
from ksparse.matrix import Ints, Matrix, project_samples
from ksparse.search.fit import fit_prepared, prepare
from ksparse.search.settings import Settings

__all__ = ["common_agreement", "cut_starts", "fit_halves", "fit_part", "labels_of_part"]


def fit_part(
    matrix: Matrix, rows: Ints, settings: Sequence[Settings], seed: int
) -> tuple[Matrix, list[Fit]]:
    """Fit some of the samples by themselves; the singular vectors serve all settings.

    Returns the view that was fitted, and one fit for each of the settings.
    """
    rng = np.random.RandomState(seed)
    components = max(s.n_components for s in settings)
    prepared = prepare(matrix.rows(rows), components, rng, starts=settings[0].starts)
    fits = [fit_prepared(prepared, cut_starts(s, rows), rng).fit for s in settings]
    return prepared.matrix, fits


def cut_starts(settings: Settings, rows: Ints) -> Settings:
    """Return settings whose label vectors are those of the part."""
    starts: list[str | Ints] = [
        start
        if isinstance(start, str)
        else fill_empty(np.zeros((rows.size, 1)), start[rows], settings.n_clusters)
        for start in settings.starts
    ]
    return replace(settings, starts=starts)


def fit_halves(
    matrix: Matrix, order: Ints, settings: Sequence[Settings], seed: int
) -> list[tuple[float, float]]:
    """Return the agreement of two halves, both ways, for each of the settings.

    Both halves are clustered independently. Each then places the samples of the other:
    the adjusted Rand index says how well that agrees with the other's own clusters.
    """
    middle = order.size // 2
    rows = np.sort(order[:middle]), np.sort(order[middle:])
    parts = [fit_part(matrix, half, settings, seed + i) for i, half in enumerate(rows)]
    out = []
    for i in range(len(settings)):
        pair = []
        for one, other in ((0, 1), (1, 0)):
            placed = _place(parts[one][0], parts[one][1][i], parts[other][0])
            pair.append(float(adjusted_rand_score(parts[other][1][i].labels, placed)))
        out.append((pair[0], pair[1]))
    return out


def _place(home: Matrix, fit: Fit, others: Matrix) -> Ints:
    """Return clusters of other samples by a fit: nearest centroids in its projection."""
    P = project_samples(others.X, home.mean, home.factor, fit.projection.weights)
    return distances(P, fit.centroids).argmin(axis=1)


def labels_of_part(
    matrix: Matrix, rows: Ints, settings: Sequence[Settings], seed: int
) -> list[Ints]:
    """Return labels of some of the samples clustered by themselves, for each of the settings."""
    return [fit.labels for fit in fit_part(matrix, rows, settings, seed)[1]]


def common_agreement(rows_a: Ints, labels_a: Ints, rows_b: Ints, labels_b: Ints) -> float:
    """Return the adjusted Rand index on the samples that two parts share."""
    _, a, b = np.intersect1d(rows_a, rows_b, assume_unique=True, return_indices=True)
    return float(adjusted_rand_score(labels_a[a], labels_b[b]))
