"""The PCA start: k-means on principal component scores."""

from __future__ import annotations

import numpy as np

from ksparse.matrix import Ints
from ksparse.starts.base import StartData
from ksparse.starts.spectral import cluster_points

__all__ = ["PCAStart"]


class PCAStart:
    """k-means on principal component scores."""

    def labels(self, data: StartData, rng: np.random.RandomState) -> Ints:
        """Return the clusters of the best of many replicates."""
        return cluster_points(data.embedding.scores, data, rng)
