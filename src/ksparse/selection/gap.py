"""The gap statistic (Tibshirani, Walther and Hastie 2001)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from ksparse._threads import openmp_threads
from ksparse.matrix import Floats

__all__ = ["GAP_RULES", "gap_statistic"]

# k-means runs on the points and on every reference.
N_INIT = 5


def gap_statistic(
    points: Floats, ks: Sequence[int], rng: np.random.RandomState, *, n_references: int = 20
) -> tuple[Floats, Floats]:
    """Return gaps and their standard errors for numbers of clusters.

    The gap is how much smaller the within-cluster dispersion (log) is than that of data
    without clusters: points drawn evenly from the box around the data along their principal
    axes.
    """
    centred = points - points.mean(axis=0)
    left, length, _ = np.linalg.svd(centred, full_matrices=False)
    varying = length > 1e-10 * max(float(length.max(initial=0.0)), 1e-300)
    rotated = left[:, varying] * length[varying]
    if rotated.shape[1] == 0:  # all points coincide: nothing indicates clusters
        return np.zeros(len(ks)), np.zeros(len(ks))
    observed = _log_dispersions(rotated, ks, rng)
    low, high = rotated.min(axis=0, initial=0.0), rotated.max(axis=0, initial=0.0)
    references = np.array(
        [
            _log_dispersions(rng.uniform(low, high, size=rotated.shape), ks, rng)
            for _ in range(n_references)
        ]
    )
    error = references.std(axis=0) * np.sqrt(1 + 1 / n_references)
    return references.mean(axis=0) - observed, error


def _log_dispersions(points: Floats, ks: Sequence[int], rng: np.random.RandomState) -> Floats:
    out = np.empty(len(ks))
    for i, k in enumerate(ks):
        seed = int(rng.randint(np.iinfo(np.int32).max))
        with warnings.catch_warnings(), openmp_threads():
            warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct points than k
            inertia = KMeans(k, n_init=N_INIT, random_state=seed).fit(points).inertia_
        out[i] = np.log(max(inertia, np.finfo(float).tiny))
    return out


def first_max(gap: Floats, error: Floats) -> int:
    """Return the index of the first gap within one standard error of the first local maximum."""
    falls = np.flatnonzero(gap[:-1] >= gap[1:])
    peak = int(falls[0]) if falls.size else gap.size - 1
    return int(np.flatnonzero(gap[: peak + 1] >= gap[peak] - error[peak])[0])


def tibshirani(gap: Floats, error: Floats) -> int:
    """Return the index of the first gap within one standard error of the next one (or the last)."""
    enough = np.flatnonzero(gap[:-1] >= gap[1:] - error[1:])
    return int(enough[0]) if enough.size else gap.size - 1


GAP_RULES = {"first_max": first_max, "tibshirani": tibshirani}
