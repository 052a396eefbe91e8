"""Targets: the points that the projection aims at, one for every cluster."""

from __future__ import annotations

from copy import copy
from typing import Protocol

import numpy as np

from ksparse.core.y_step import centroids
from ksparse.matrix import Floats, Ints, Matrix

__all__ = [
    "TARGETS",
    "BalancedTargets",
    "EmbeddingTargets",
    "ProjectionTargets",
    "TargetRule",
    "compared_by",
    "indicator_targets",
]


class TargetRule(Protocol):
    """Where the W-step aims, given the labels, and which k-means runs may follow it.

    Attributes
    ----------
    axis_per_cluster : bool
        Whether column c of the projection belongs to cluster c (where there are enough
        components).
    monotone : bool
        Whether no step may raise the cost, as in the paper: then every W-step continues from
        the last one and is solved fully, and no k-means run that raises the cost is taken.
    criterion : str
        What k-means runs are compared by: a name in `y_step.CRITERIA`.
    """

    axis_per_cluster: bool
    monotone: bool
    criterion: str

    def targets(
        self,
        matrix: Matrix,
        embedding: Floats,
        labels: Ints,
        n_clusters: int,
        centres: Floats | None,
    ) -> Floats:
        """Return one row per cluster.

        `centres` are the centroids of the labels in the last projection (None: there is none).
        """
        ...

    def first_weights(self, shape: tuple[int, int]) -> Floats | None:
        """Return the weights from which the first W-step starts (None: any)."""
        ...


class BalancedTargets:
    """An axis for each cluster, on which all clusters have the same sum of squares.

    The targets of the paper are distances in an embedding: there a rare cluster hardly adds to
    the least squares, and the l1 ball holds features of large clusters only.
    """

    axis_per_cluster = True
    monotone = False
    criterion = "margin"

    def targets(
        self,
        matrix: Matrix,
        embedding: Floats,
        labels: Ints,
        n_clusters: int,
        centres: Floats | None = None,
    ) -> Floats:
        """Return indicators of the clusters, centred and divided by the root of their share.

        Rows have a mean square of about 1 over the samples, as those of the embedding have. With
        fewer components than clusters, the leading components of the targets are taken.
        """
        aims = indicator_targets(labels, n_clusters, matrix.sample_weight)
        share = 1.0 - np.diag(aims)
        aims /= np.sqrt(n_clusters * np.where(share > 0, share, 1.0))
        n_components = embedding.shape[1]
        if n_components < n_clusters:
            left, length, _ = np.linalg.svd(aims)
            return np.asarray((left * length)[:, :n_components])
        return np.pad(aims, ((0, 0), (0, n_components - n_clusters)))

    def first_weights(self, shape: tuple[int, int]) -> None:
        """Return None: the solution does not depend on where the solver starts."""


class EmbeddingTargets:
    """Centroids in the spectral embedding, which keep their scale from loop to loop."""

    axis_per_cluster = True
    monotone = False
    criterion = "margin"

    def targets(
        self,
        matrix: Matrix,
        embedding: Floats,
        labels: Ints,
        n_clusters: int,
        centres: Floats | None = None,
    ) -> Floats:
        """Return centroids of the embedding, centred, each along an axis of its own.

        The data are centred, so the mean of the targets cannot be fitted and is left out.

        A rotation of the targets changes nothing in the least squares, but it does in the l1
        norm: a cluster whose target lies along an axis is cheaper to aim at than one whose
        target lies between several, and the axes of an embedding are arbitrary where
        singular values are close. So the targets are rotated to where they are nearest to one
        axis per cluster: to the symmetric square root of their inner products, which does not
        depend on the axes of the embedding at all. Column c of the projection then belongs to
        cluster c. (With fewer components than clusters there is no such rotation, and the
        axes stay those of the embedding.)
        """
        mu = centroids(embedding, labels, n_clusters, matrix.sample_weight)
        sizes = np.bincount(labels, weights=matrix.sample_weight, minlength=n_clusters)
        mu = mu - sizes @ mu / sizes.sum()
        if mu.shape[1] < n_clusters:
            return mu
        left, length, _ = np.linalg.svd(mu, full_matrices=False)
        rotated = np.zeros_like(mu)
        rotated[:, :n_clusters] = (left * length) @ left.T
        return rotated

    def first_weights(self, shape: tuple[int, int]) -> None:
        """Return None: the solution does not depend on where the solver starts."""


class ProjectionTargets:
    """Centroids in the projection itself, as in the paper, where they shrink."""

    axis_per_cluster = False
    monotone = True
    criterion = "margin"

    def targets(
        self,
        matrix: Matrix,
        embedding: Floats,
        labels: Ints,
        n_clusters: int,
        centres: Floats | None = None,
    ) -> Floats:
        """Return the centroids in the last projection; in the embedding before the first."""
        if centres is not None:
            return centres
        return centroids(embedding, labels, n_clusters, matrix.sample_weight)

    def first_weights(self, shape: tuple[int, int]) -> Floats:
        """Return the paper's first point: a constant."""
        return np.full(shape, 1.0 / (shape[0] * shape[1]))


def indicator_targets(labels: Ints, n_clusters: int, sample_weight: Floats | None) -> Floats:
    """Return targets that depend on the labels alone: an axis for each cluster, centred.

    A cluster without samples has its axis, too.
    """
    sizes = np.bincount(labels, weights=sample_weight, minlength=n_clusters)
    return np.asarray(np.eye(n_clusters) - sizes / sizes.sum(), dtype=np.float64)


def compared_by(rule: TargetRule, criterion: str) -> TargetRule:
    """Return the rule with k-means runs compared by another criterion."""
    rule = copy(rule)
    rule.criterion = criterion
    return rule


TARGETS: dict[str, TargetRule] = {
    "balanced": BalancedTargets(),
    "embedding": EmbeddingTargets(),
    "projection": ProjectionTargets(),
}
