"""Algorithm 3 of the paper: W-step and Y-step in turn until they settle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn.metrics import adjusted_rand_score

from ksparse.assignment import assign, centroids
from ksparse.matrix import Floats, GramCache, Ints, Matrix
from ksparse.projection import Projection, WStep, fit_projection

__all__ = ["Fit", "Loop", "alternate", "embedded_targets"]


FEATURE_TOL = 5


@dataclass(frozen=True)
class Loop:
    """How the alternation runs.

    Attributes
    ----------
    n_init : int
        k-means++ replicates in every Y-step, besides the run from the current labels.
    max_loops : int
        Largest number of loops.
    tol : float or None
        Settled when labels (1 - ARI) change by no more than this between loops, and the
        selected features by no more than five times this share; None always runs
        `max_loops`.
    targets : {"embedding", "projection"}
        Where the centroids that the W-step aims at are taken: in the spectral embedding,
        which keeps their scale from loop to loop, or in the projection itself, as in the
        paper, where they shrink.
    """

    n_init: int = 5
    max_loops: int = 10
    tol: float | None = 0.01
    targets: str = "embedding"


@dataclass(frozen=True)
class Fit:
    """Result of an alternation.

    `history` has one entry per loop: cost 1/2 ||Y mu - X W||^2, share of labels that
    changed, number of selected features, radius and gap.
    """

    labels: Ints
    centroids: Floats
    inertia: float
    projection: Projection
    projected: Floats
    history: dict[str, list[float]]
    settled: bool


def embedded_targets(matrix: Matrix, embedding: Floats, labels: Ints, n_clusters: int) -> Floats:
    """Centroids of the embedding, relative to their mean.

    The data are centred, so the mean of the targets cannot be fitted and is left out.
    """
    mu = centroids(embedding, labels, n_clusters, matrix.sample_weight)
    sizes = np.bincount(labels, weights=matrix.sample_weight, minlength=n_clusters)
    return mu - sizes @ mu / sizes.sum()


def alternate(
    matrix: Matrix,
    embedding: Floats,
    labels: Ints,
    n_clusters: int,
    how: WStep,
    loop: Loop,
    rng: np.random.RandomState,
    *,
    gram: GramCache | None = None,
    start: Floats | None = None,
    certify: bool = True,
    on_loop: Callable[[], object] | None = None,
) -> Fit:
    """Alternate from given labels.

    The certificate is a property of the last W-step. The first one is certified too, which
    finds a good working set; those between use it without proof, and once they have
    settled (or at the last loop) the W-step is solved again with it.
    """
    gram = gram if gram is not None else GramCache(matrix)
    history: dict[str, list[float]] = {
        name: [] for name in ("cost", "labels_changed", "n_features", "eta", "gap")
    }
    if loop.targets == "embedding":
        mu = embedded_targets(matrix, embedding, labels, n_clusters)
    else:
        mu = centroids(embedding, labels, n_clusters, matrix.sample_weight)
    projection: Projection | None = None
    settled = False
    n_loops = 0
    while True:
        n_loops += 1
        # In the paper's own scheme every W-step goes on from the last, so all are full.
        last = settled or n_loops >= loop.max_loops or loop.targets == "projection"
        previous = projection
        projection = fit_projection(
            matrix,
            labels,
            mu,
            how,
            gram=gram,
            start=start,
            last=previous,
            certify=certify and (last or previous is None),
        )
        P = matrix.project(projection.weights)
        bound = np.inf
        if loop.targets == "projection":
            # Proposition 2 of the paper: no step may raise the cost.
            weight = 1.0 if matrix.sample_weight is None else matrix.sample_weight
            bound = float((weight * ((P - mu[labels]) ** 2).sum(axis=1)).sum())
        assignment = assign(
            P,
            n_clusters,
            rng,
            n_init=loop.n_init,
            current=labels,
            sample_weight=matrix.sample_weight,
            max_inertia=bound,
        )
        changed = 1.0 - adjusted_rand_score(labels, assignment.labels)
        exchanged = 1.0 if previous is None else _exchanged(previous.selected, projection.selected)
        history["cost"].append(assignment.inertia / 2)
        history["labels_changed"].append(changed)
        history["n_features"].append(projection.selected.size)
        history["eta"].append(projection.eta)
        history["gap"].append(projection.gap)
        labels = assignment.labels
        if loop.targets == "embedding":
            mu = embedded_targets(matrix, embedding, labels, n_clusters)
        else:
            mu = assignment.centroids
        if on_loop is not None:
            on_loop()
        was_settled = settled
        settled = (
            loop.tol is not None and changed <= loop.tol and exchanged <= FEATURE_TOL * loop.tol
        )
        if n_loops >= loop.max_loops or (settled and (was_settled or not certify or last)):
            break
    return Fit(labels, assignment.centroids, assignment.inertia, projection, P, history, settled)


def _exchanged(old: Ints, new: Ints) -> float:
    """Share of the selected features that are not selected in both."""
    common = np.intersect1d(old, new, assume_unique=True).size
    return 1.0 - common / max(old.size, new.size, 1)
