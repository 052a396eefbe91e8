"""Fits of parts of the data, for several numbers of clusters at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from sklearn.metrics import adjusted_rand_score

from ksparse.alternation import Fit
from ksparse.assignment import distances, fill_empty
from ksparse.matrix import Floats, Ints, Matrix
from ksparse.pipeline import Prepared, Settings, fit_prepared

__all__ = ["common_agreement", "fit_halves", "fit_part", "labels_of_part"]


def fit_part(
    matrix: Matrix, rows: Ints, settings: Sequence[Settings], seed: int
) -> tuple[Matrix, list[Fit]]:
    """Fit some of the samples by themselves; the singular vectors serve all settings."""
    rng = np.random.RandomState(seed)
    part = matrix.rows(rows)
    prepared = Prepared(part, max(s.n_components for s in settings), rng)
    return part, [fit_prepared(prepared, _cut(s, rows), rng).fit for s in settings]


def _cut(settings: Settings, rows: Ints) -> Settings:
    """Cut starts that are labels to the samples of the part."""
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
    """Agreement of two halves, for each of the settings.

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
    """Clusters of other samples by a fit: nearest centroids in its projection."""
    used = fit.projection.selected
    # Undo the centring and scaling of the others, and apply that of the fit.
    with np.errstate(divide="ignore", invalid="ignore"):
        raw = others.columns(used) / others.factor[used] + others.mean[used]
    raw = np.where(others.factor[used] > 0, raw, others.mean[used])
    P: Floats = (raw - home.mean[used]) * home.factor[used] @ fit.projection.weights[used]
    return distances(P, fit.centroids).argmin(axis=1)


def labels_of_part(
    matrix: Matrix, rows: Ints, settings: Sequence[Settings], seed: int
) -> list[Ints]:
    """Labels of some of the samples clustered by themselves, for each of the settings."""
    return [fit.labels for fit in fit_part(matrix, rows, settings, seed)[1]]


def common_agreement(rows_a: Ints, labels_a: Ints, rows_b: Ints, labels_b: Ints) -> float:
    """Adjusted Rand index on the samples that two parts share."""
    _, a, b = np.intersect1d(rows_a, rows_b, assume_unique=True, return_indices=True)
    return float(adjusted_rand_score(labels_a[a], labels_b[b]))
