"""Algorithm 3 of the paper: W-step and Y-step in turn until they settle."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score

from ksparse.assignment import Assignment, assign, centroids
from ksparse.journal import NO_JOURNAL, Journal
from ksparse.matrix import Floats, GramCache, Ints, Matrix
from ksparse.projection import Projection, WStep, fit_projection
from ksparse.targets import embedded_targets

__all__ = ["Fit", "Loop", "alternate", "fit_labels"]

# How many times the tolerance of the labels the selected features may change.
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
    last: Projection | None = None,
    certify: bool = True,
    journal: Journal = NO_JOURNAL,
) -> Fit:
    """Alternate from given labels, and from the projection of a similar fit (`last`).

    With `certify`, the first W-step is solved exactly (unless there is a `last` one), which
    finds a good working set; those after it use that set without proof, and once labels
    and features have settled (or at the last loop) the W-step is solved exactly again: the
    result is certified.
    """
    gram = gram if gram is not None else GramCache(matrix)
    as_in_paper = loop.targets == "projection"
    history: dict[str, list[float]] = {
        name: [] for name in ("cost", "labels_changed", "n_features", "eta", "gap")
    }
    if as_in_paper:
        mu = centroids(embedding, labels, n_clusters, matrix.sample_weight)
    else:
        mu = embedded_targets(matrix, embedding, labels, n_clusters)
    shown: list[Floats] = []  # the samples as the last projection shows them

    def one_loop(
        labels: Ints, mu: Floats, previous: Projection | None, exact: bool
    ) -> dict[str, Any]:
        projection = fit_projection(
            matrix, labels, mu, how, gram=gram, start=start, last=previous, certify=exact
        )
        P = matrix.project(projection.weights)
        shown.append(P)
        found = assign(
            P,
            n_clusters,
            rng,
            n_init=loop.n_init,
            current=labels,
            sample_weight=matrix.sample_weight,
            # Proposition 2 of the paper: no step may raise the cost.
            max_inertia=_inertia(matrix, P, mu[labels]) if as_in_paper else np.inf,
        )
        return found.as_arrays() | projection.as_arrays()

    projection = last
    settled = False
    for n_loops in range(1, loop.max_loops + 1):
        # In the paper's own scheme every W-step goes on from the last, so all are full.
        exact = certify and (
            as_in_paper or projection is None or settled or n_loops == loop.max_loops
        )
        previous = projection
        shown.clear()
        step = journal.step("loop", rng, partial(one_loop, labels, mu, previous, exact))
        projection, found = Projection.from_arrays(step), Assignment.from_arrays(step)
        changed = 1.0 - adjusted_rand_score(labels, found.labels)
        exchanged = 1.0 if previous is None else _exchanged(previous.selected, projection.selected)
        history["cost"].append(found.inertia / 2)
        history["labels_changed"].append(changed)
        history["n_features"].append(projection.selected.size)
        history["eta"].append(projection.eta)
        history["gap"].append(projection.gap)
        labels, mu = found.labels, found.centroids
        if not as_in_paper:
            mu = embedded_targets(matrix, embedding, labels, n_clusters)
        settled = (
            loop.tol is not None and changed <= loop.tol and exchanged <= FEATURE_TOL * loop.tol
        )
        if settled and exact == certify:
            break
    assert projection is not None
    P = shown[0] if shown else matrix.project(projection.weights)
    return Fit(labels, found.centroids, found.inertia, projection, P, history, settled)


def _inertia(matrix: Matrix, P: Floats, targets: Floats) -> float:
    square = ((P - targets) ** 2).sum(axis=1)
    return float(square.sum() if matrix.sample_weight is None else matrix.sample_weight @ square)


def _exchanged(old: Ints, new: Ints) -> float:
    """Share of the selected features that are not selected in both."""
    common = np.intersect1d(old, new, assume_unique=True).size
    return 1.0 - common / max(old.size, new.size, 1)


def fit_labels(
    matrix: Matrix,
    embedding: Floats,
    labels: Ints,
    n_clusters: int,
    how: WStep,
    *,
    gram: GramCache | None = None,
) -> Fit:
    """One W-step for labels that stay as they are."""
    mu = embedded_targets(matrix, embedding, labels, n_clusters)
    projection = fit_projection(matrix, labels, mu, how, gram=gram)
    P = matrix.project(projection.weights)
    centres = centroids(P, labels, n_clusters, matrix.sample_weight)
    inertia = _inertia(matrix, P, centres[labels])
    history: dict[str, list[float]] = {
        "cost": [inertia / 2],
        "labels_changed": [0.0],
        "n_features": [projection.selected.size],
        "eta": [projection.eta],
        "gap": [projection.gap],
    }
    return Fit(labels, centres, inertia, projection, P, history, True)
