"""Small scores that several tables share."""

from __future__ import annotations

import numpy as np
from sklearn.metrics import silhouette_score

from ksparse.matrix import Floats, Ints

__all__ = ["mean_and_error", "silhouette"]

# Silhouettes compare all pairs: they are those of so many samples.
SILHOUETTE_SAMPLES = 1_000


def mean_and_error(values: Floats) -> tuple[float, float]:
    """Return the mean and its standard error (NaN for a single value)."""
    if values.size < 2:
        return float(values.mean()) if values.size else np.nan, np.nan
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(values.size))


def silhouette(P: Floats, labels: Ints, seed: int) -> float:
    """Return the mean silhouette of projected samples; NaN where there is only one cluster."""
    if P.shape[0] > SILHOUETTE_SAMPLES:
        part = np.random.RandomState(seed).choice(P.shape[0], SILHOUETTE_SAMPLES, replace=False)
        P, labels = P[part], labels[part]
    n_clusters = np.unique(labels).size
    if not 1 < n_clusters < labels.size:
        return np.nan
    return float(silhouette_score(P, labels))
