"""What a list of features keeps of the data, and the features themselves: no classifier."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

from ksparse._tables import as_table
from ksparse._threads import blas_threads, openmp_threads
from ksparse.matrix import Floats, Ints, as_matrix
from ksparse.matrix.data import dense, take_rows
from ksparse.matrix.sources import columns_in_memory
from ksparse.panel.scoring import Groups
from ksparse.starts.spectral import leading_svd

__all__ = ["describe_features", "mean_correlation", "neighbour_overlap"]

# Principal components of all features in which neighbours are looked for, and their accuracy:
# neighbours do not depend on the last digits.
N_COMPONENTS, SVD_TOL = 30, 1e-4
# Neighbours are compared among so many cells at most.
MAX_CELLS = 2_000


def neighbour_overlap(
    X: Any, features: Ints, n_neighbors: int, rng: np.random.RandomState
) -> tuple[float, float]:
    """Return the share of nearest neighbours that features keep, and what chance would keep.

    The neighbours of a cell among at most 2,000 cells drawn at random: in the first 30
    principal components of all features, and in the given features. Both in the units of
    the data.
    """
    # In random order: cells that the features cannot tell apart have neighbours in the order
    # of the data, which often is that of the groups.
    cells = rng.permutation(X.shape[0])[:MAX_CELLS]
    n_neighbors = min(n_neighbors, cells.size - 1)
    rows = take_rows(X, np.sort(cells), lambda block: block)
    shuffled = np.argsort(np.argsort(cells))
    n_components = min(N_COMPONENTS, cells.size - 1)
    with blas_threads(float(cells.size) * X.shape[1] * n_components):
        U, s, _ = leading_svd(as_matrix(rows), n_components, rng, tol=SVD_TOL)
    values = dense(columns_in_memory(rows, features)).astype(np.float64)
    near_all = _neighbours((U * s)[shuffled], n_neighbors)
    near_panel = _neighbours(values[shuffled], n_neighbors)
    kept = [np.intersect1d(a, b).size for a, b in zip(near_all, near_panel, strict=True)]
    return float(np.mean(kept)) / n_neighbors, n_neighbors / (cells.size - 1)


def _neighbours(points: Floats, n_neighbors: int) -> Ints:
    with openmp_threads(len(points) ** 2):
        model = NearestNeighbors(n_neighbors=n_neighbors).fit(points)
        return np.asarray(model.kneighbors(return_distance=False))


def describe_features(X: Any, groups: Groups, features: Ints) -> Any:
    """Return a data frame with the range of each feature, and its most correlated partner.

    Its columns: feature; detected, the share of samples in which it is above zero; group, in
    which its mean is highest, and that mean, highest_mean; max; partner, the feature of the
    list with which it is most correlated (-1: none), and abs_correlation.
    """
    values = dense(columns_in_memory(X, features)).astype(np.float64)
    means = np.array([values[groups.codes == g].mean(axis=0) for g in range(len(groups.names))])
    highest = means.argmax(axis=0)
    correlation = _absolute_correlations(values)
    np.fill_diagonal(correlation, -1.0)
    best = correlation.argmax(axis=1)
    strength = correlation.max(axis=1)
    alone = ~(strength >= 0)  # the only feature, or one that is constant
    return as_table(
        {
            "feature": features,
            "detected": (values > 0).mean(axis=0),
            "group": np.array(groups.names, dtype=object)[highest],
            "highest_mean": means.max(axis=0),
            "max": values.max(axis=0),
            "partner": np.where(alone, -1, features[best]),
            "abs_correlation": np.where(alone, np.nan, strength),
        }
    )


def mean_correlation(X: Any, features: Ints) -> float:
    """Return the mean absolute correlation of all pairs of features (NaN: there is no pair)."""
    matrix = _absolute_correlations(dense(columns_in_memory(X, features)).astype(np.float64))
    pairs = matrix[np.triu_indices(len(matrix), 1)]
    pairs = pairs[pairs >= 0]
    return float(pairs.mean()) if pairs.size else np.nan


def _absolute_correlations(values: Floats) -> NDArray[np.float64]:
    """Return absolute correlations of the columns; -1 where one of them is constant."""
    centred = values - values.mean(axis=0)
    length = np.linalg.norm(centred, axis=0)
    # What rounding may leave of a constant column.
    constant = length <= 1e-10 * np.linalg.norm(values, axis=0)
    unit = centred / np.where(constant, 1.0, length)
    correlation = np.minimum(np.abs(unit.T @ unit), 1.0)
    correlation[constant], correlation[:, constant] = -1.0, -1.0
    return correlation
