"""A score that several tables share."""

from __future__ import annotations

import numpy as np
from sklearn.metrics import silhouette_score

from ksparse.matrix import Floats, Ints

__all__ = ["silhouette"]

# Silhouettes compare all pairs: they are those of so many samples.
SILHOUETTE_SAMPLES = 1_000


def silhouette(P: Floats, labels: Ints, seed: int) -> float:
    """Return the mean silhouette of projected samples; NaN where there is only one cluster."""
    if P.shape[0] > SILHOUETTE_SAMPLES:
        part = np.random.RandomState(seed).choice(P.shape[0], SILHOUETTE_SAMPLES, replace=False)
        P, labels = P[part], labels[part]
    n_clusters = np.unique(labels).size
    if not 1 < n_clusters < labels.size:
        return np.nan
    return float(silhouette_score(P, labels))
