"""How many features: the rule behind ``n_features="auto"``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ksparse.core.w_step import WStep
from ksparse.matrix import Floats, Ints, Matrix
from ksparse.search.judge import Judge
from ksparse.search.settings import Settings

__all__ = [
    "PLATEAU",
    "SEED",
    "Counts",
    "choose_counts",
    "choose_n_features",
    "smallest_on_plateau",
]

SMALLEST, LARGEST, GROWTH = 5, 400, 1.35
# Clusters for few features are found with at least so many, but with no more than one for so many
# samples: with fewer, clusters are lost that the few features would tell apart.
SETTLED, SAMPLES_EACH = 100, 5
# What share of the best quality counts as good enough.
PLATEAU = 0.95
# Seed of the halvings: what they decide depends on the data alone.
SEED = 0


def smallest_on_plateau(counts: Ints, explained: Floats) -> int:
    """Return the first number of features from which on 95 % of the best is reached.

    From there to the best number nothing falls below: one lucky number is no plateau.
    """
    order = np.argsort(counts, kind="stable")
    explained = np.asarray(explained)[order]
    best = int(np.nanargmax(explained))
    below = ~(explained[:best] >= PLATEAU * explained[best])
    first = int(np.flatnonzero(below)[-1]) + 1 if below.any() else 0
    if explained[best] <= 0:  # nothing to explain
        first = best
    return int(np.asarray(counts)[order][first])


class Counts(NamedTuple):
    """Numbers of features: in the loops (None: by `eta`), and after them (None: the same)."""

    in_loops: int | None
    after: int | None


def choose_counts(
    matrix: Matrix,
    labelings: Sequence[Ints],
    settings: Settings,
    w_step: WStep,
    judge: Judge | None = None,
) -> Counts:
    """Return how many features the clusters need, and how many to select.

    Of several labelings the one counts whose clusters are explained best on held-out samples, by
    as many features as are used where few are asked for.

    Parameters
    ----------
    matrix : Matrix
        The data.
    labelings : sequence of ndarray of int
        Labels of the starts.
    settings : Settings
        What was asked for.
    w_step : WStep
        How the W-step is solved in the loops.
    judge : Judge, optional
        A judge of the same data on the same halvings, which keeps what it has computed.
    """
    k = settings.n_clusters
    if judge is None:
        judge = Judge(matrix, k, np.random.RandomState(SEED))
    settled = _least_settled(matrix, w_step.costs)
    labels = _best_explained(labelings, w_step, judge, settled)
    needed = choose_n_features(matrix, labels, k, w_step, judge)
    asked, few = settings.n_features, settings.few
    if asked is None and settings.always:
        assert few is not None
        asked = choose_n_features(matrix, labels, k, replace(w_step, selector=few), judge)
    if asked is None:
        return Counts(needed, None)
    if settings.always or asked < needed:
        return Counts(max(asked, needed, settled), asked)
    return Counts(asked, None)


def _best_explained(
    labelings: Sequence[Ints], w_step: WStep, judge: Judge, n_features: int
) -> Ints:
    """Return the labels that so many features explain best on held-out samples."""
    if len(labelings) == 1:
        return labelings[0]
    free = int(np.count_nonzero(w_step.costs == 0))
    explained = [
        judge(labels, w_step, max(n_features, free, 1)).explained.mean() for labels in labelings
    ]
    return labelings[int(np.argmax(explained))]


def _least_settled(matrix: Matrix, costs: Floats) -> int:
    """Return the least number of features with which clusters for few features are found."""
    allowed = int(np.count_nonzero(np.isfinite(costs) & ~matrix.constant))
    return min(SETTLED, matrix.shape[0] // SAMPLES_EACH, allowed)


def choose_n_features(
    matrix: Matrix, labels: Ints, n_clusters: int, w_step: WStep, judge: Judge | None = None
) -> int:
    """Return the smallest number of features that explains the clusters nearly as well as any.

    For the given labels and a grid of numbers of features (5, 7, 9, 12, ... up
    to 400), features are selected on one half of the samples, the targets are regressed on
    them, as the relaxed projection does, and the share of the targets that is explained on
    the other half is measured. One lasso path per half gives all the numbers. The halvings
    do not depend on the random state.
    """
    costs = w_step.costs
    allowed = int(np.count_nonzero(np.isfinite(costs) & ~matrix.constant))
    n_free = int(np.count_nonzero(costs == 0))
    top = min(allowed, LARGEST)
    if top <= max(SMALLEST, n_free):
        return max(1, top, n_free)
    n_steps = int(np.log(top / SMALLEST) / np.log(GROWTH)) + 1
    grid = {max(round(SMALLEST * GROWTH**i), n_free, 1) for i in range(n_steps)} | {top}
    counts = np.array(sorted(grid))
    if judge is None:
        judge = Judge(matrix, n_clusters, np.random.RandomState(SEED))
    scores = judge.along(labels, w_step, counts.tolist())
    explained = np.array([score.explained.mean() for score in scores])
    # The first that is enough, plateau or not: with few features the loops find better labels
    # than those of a start, which may need many.
    enough = (
        explained >= PLATEAU * explained.max()
        if explained.max() > 0
        else explained == explained.max()
    )
    return int(counts[np.argmax(enough)])
