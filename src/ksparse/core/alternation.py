"""Algorithm 3 of the paper: W-step and Y-step in turn.

`alternate` generates the states after each loop, without end. When to stop, when a W-step
is certified, what is recorded and what is kept on disk is decided by whoever consumes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ksparse.core.known import assign_around
from ksparse.core.targets import TargetRule
from ksparse.core.w_step import Projection, WStep, solve_w_step
from ksparse.core.y_step import agreement, assign, inertia_of
from ksparse.matrix import Floats, GramCache, Ints, Matrix

__all__ = ["Alternation", "Fit", "State", "alternate"]


@dataclass(frozen=True)
class Alternation:
    """What stays the same in all loops.

    Attributes
    ----------
    matrix : Matrix
        The data X, of spectral norm at most 1.
    embedding : ndarray, samples x components
        Spectral coordinates, in which targets are taken.
    n_clusters : int
        Number of clusters.
    w_step : WStep
        How the W-step is solved.
    rule : TargetRule
        Where the W-step aims.
    n_init : int
        k-means++ replicates in every Y-step, besides the run from the current labels.
    gram : GramCache
        Gram matrices of the data.
    known : ndarray of int or None
        The cluster that a sample keeps, -1 for those that have none (None: none has). With known
        labels there are no replicates.
    """

    matrix: Matrix
    embedding: Floats
    n_clusters: int
    w_step: WStep
    rule: TargetRule
    n_init: int
    gram: GramCache
    known: Ints | None = None

    def targets(self, labels: Ints, centres: Floats | None) -> Floats:
        """Return where the W-step aims for these labels."""
        return self.rule.targets(self.matrix, self.embedding, labels, self.n_clusters, centres)


@dataclass(frozen=True)
class State:
    """Where the alternation is: after `n_loops` loops, or before the first.

    Attributes
    ----------
    labels : ndarray of int
        Cluster of each sample.
    n_loops : int
        Loops done.
    projection : Projection or None
        The last projection (before the first loop: that of a similar fit, or None).
    centroids : ndarray, clusters x components, or None
        Centroids of the labels in the projection; None before the first loop.
    inertia : float
        Within-cluster sum of squares: ||Y mu - X W||^2.
    labels_changed : float
        1 - ARI of the labels before and after the last loop.
    features_changed : float
        Share of the selected features that were exchanged in the last loop.
    projected : ndarray, samples x components, or None
        X W of the last loop; None in a state that was read from a checkpoint.
    """

    labels: Ints
    n_loops: int = 0
    projection: Projection | None = None
    centroids: Floats | None = None
    inertia: float = np.nan
    labels_changed: float = 1.0
    features_changed: float = 1.0
    projected: Floats | None = None


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
    converged: bool


def alternate(
    problem: Alternation,
    state: State,
    rng: np.random.RandomState,
    *,
    certify: Callable[[State], bool] = lambda state: True,
) -> Iterator[State]:
    """Generate the states of the alternation, from the one after `state` on, without end.

    Parameters
    ----------
    problem : Alternation
        What stays the same.
    state : State
        Where to begin: ``State(labels)``, or any state that was generated before.
    rng : RandomState
        Seeds k-means.
    certify : callable
        ``certify(state)`` decides whether the W-step after a state is solved exactly, with a
        certificate on all features, or only on the working set of the last one.

    Yields
    ------
    State
    """
    X, k, rule = problem.matrix, problem.n_clusters, problem.rule
    first_weights = rule.first_weights((X.shape[1], problem.embedding.shape[1]))
    while True:
        Y, W = state.labels, state.projection
        mu = problem.targets(Y, state.centroids)
        # W <- argmin 1/2 ||Y mu - X W||^2 on the ball
        W = solve_w_step(
            X, Y, mu, problem.w_step,
            gram=problem.gram, start=first_weights, last=W, certify=certify(state),
        )  # fmt: skip
        P = X.project(W.weights)
        # Y, mu <- k-means(X W). Proposition 2 of the paper: no step may raise the cost.
        if problem.known is not None:  # one run from Y, which never does
            assigned = assign_around(P, Y, problem.known, k, X.sample_weight)
        else:
            limit = inertia_of(P, mu[Y], X.sample_weight) if rule.monotone else np.inf
            assigned = assign(
                P, k, rng,
                n_init=problem.n_init, current=Y, sample_weight=X.sample_weight,
                max_inertia=limit, criterion=rule.criterion,
            )  # fmt: skip
        state = State(
            assigned.labels,
            state.n_loops + 1,
            W,
            assigned.centroids,
            assigned.inertia,
            labels_changed=1.0 - agreement(Y, assigned.labels),
            features_changed=_exchanged(state.projection, W),
            projected=P,
        )
        yield state


def _exchanged(before: Projection | None, after: Projection) -> float:
    """Return the share of the selected features that are not selected in both."""
    if before is None:
        return 1.0
    old, new = before.selected, after.selected
    if old.size == new.size == 0:
        return 0.0
    common = np.intersect1d(old, new, assume_unique=True).size
    return 1.0 - common / max(old.size, new.size)
