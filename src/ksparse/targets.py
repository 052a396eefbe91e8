"""What the projection aims at: one point for every cluster."""

from __future__ import annotations

import numpy as np

from ksparse.assignment import centroids
from ksparse.matrix import Floats, Ints, Matrix

__all__ = ["embedded_targets"]


def embedded_targets(matrix: Matrix, embedding: Floats, labels: Ints, n_clusters: int) -> Floats:
    """Centroids of the embedding, relative to their mean, each along an axis of its own.

    The data are centred, so the mean of the targets cannot be fitted and is left out.

    A rotation of the targets changes nothing in the least squares, but it does in the l1
    norm: a cluster whose target lies along an axis is cheaper to aim at than one whose
    target lies between several, and the axes of an embedding are a matter of chance where
    singular values are close. So the targets are turned to where they are nearest to one
    axis per cluster: to the symmetric square root of their inner products, which does not
    depend on the axes of the embedding at all. Column c of the projection then speaks for
    cluster c. (With fewer components than clusters there is no such place, and the axes
    stay those of the embedding.)
    """
    mu = centroids(embedding, labels, n_clusters, matrix.sample_weight)
    sizes = np.bincount(labels, weights=matrix.sample_weight, minlength=n_clusters)
    mu = mu - sizes @ mu / sizes.sum()
    if mu.shape[1] < n_clusters:
        return mu
    left, length, _ = np.linalg.svd(mu, full_matrices=False)
    turned = np.zeros_like(mu)
    turned[:, :n_clusters] = (left * length) @ left.T
    return turned
