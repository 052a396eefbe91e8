"""Exact W-step on a small working set of features, with a certificate on all of them.

Only features with a large gradient can have nonzero weights. The problem is solved on
those (their Gram matrix is all it takes), the optimality conditions are checked on
every feature in one pass over the data, and what violates them joins the set.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ksparse.matrix import Floats, Ints
from ksparse.solvers.homotopy import LassoPaths
from ksparse.solvers.problem import Problem, Solution

__all__ = ["Selection", "select_features", "solve_working_set"]

MAX_ROUNDS = 20
# How many features beside those to be selected the first working set has.
MIN_OTHERS, MAX_OTHERS = 100, 500


class _WorkingSet:
    """The features at work, and the lasso problem on them."""

    def __init__(
        self, problem: Problem, size: int, start: Floats | None, columns: Ints | None = None
    ) -> None:
        self.problem = problem
        ratio = problem.ratio(problem.correlation)
        order = np.argsort(-ratio, kind="stable")[: max(size, 1)]
        chosen = np.zeros(ratio.size, dtype=bool)
        chosen[order[ratio[order] > 0]] = True
        chosen[problem.free] = True
        if start is not None:
            chosen |= start.any(axis=1) & np.isfinite(problem.costs)
        if columns is not None:
            chosen[columns] = True
        self.columns: Ints = np.flatnonzero(chosen)

    def paths(self) -> LassoPaths:
        """The lasso paths on the set, from their beginning."""
        problem, columns = self.problem, self.columns
        return LassoPaths(
            problem.gram(columns), problem.correlation[columns], problem.costs[columns]
        )

    def grow(self, gradient: Floats, penalty: float, limit: int) -> int:
        """Add at most `limit` features that violate the optimality conditions."""
        ratio = self.problem.ratio(gradient)
        ratio[self.columns] = 0.0
        order = np.argsort(-ratio, kind="stable")[:limit]
        new = order[ratio[order] > penalty * (1 + 1e-7)]
        self.columns = np.concatenate([self.columns, new])
        return int(new.size)

    def expand(self, W: Floats) -> Floats:
        """Weights of the set as weights of all features."""
        out = np.zeros(self.problem.correlation.shape)
        out[self.columns] = W
        return out


def solve_working_set(
    problem: Problem,
    start: Floats | None = None,
    *,
    tol: float = 1e-4,
    max_iter: int = MAX_ROUNDS,
) -> Solution:
    """Solve the W-step to a relative gap of `tol`, certified on all features.

    Weights given as a `start` tell which features to look at first.
    """
    rank = problem.correlation.shape[1]
    known = 0 if start is None else int(np.count_nonzero(start.any(axis=1)))
    work = _WorkingSet(problem, max(100, 4 * rank, 2 * known), start)
    history: list[float] = []
    best: tuple[float, Floats] | None = None
    for n_rounds in range(1, max_iter + 1):
        paths = work.paths()
        penalty, _ = paths.go_to_norm(problem.radius)
        W = work.expand(paths.weights)
        norm = problem.norm(W)
        if norm > problem.radius:  # by rounding
            W[problem.costs > 0] *= problem.radius / norm
        W = problem.refit_free(W)
        objective, gradient, gap = problem.evaluate(W)
        history.append(objective)
        if best is None or gap < best[0]:
            best = gap, W
        if gap <= tol * problem.scale:
            break
        if work.grow(gradient, penalty, max(100, work.columns.size)) == 0:
            break
    assert best is not None
    gap, W = best
    return Solution(W, np.array(history), gap, n_rounds, gap <= tol * problem.scale)


class Selection(NamedTuple):
    """The W-step solved for a number of features instead of a radius.

    `solution` is at the optimum for `radius`, except for the rows that were cut to keep
    the number (`tied`). `penalty` is the multiplier of the ball there, `columns` the
    features that were in the working set.
    """

    solution: Solution
    radius: float
    penalty: float
    columns: Ints
    tied: bool


def select_features(
    problem: Problem,
    n_features: int,
    start: Floats | None = None,
    *,
    columns: Ints | None = None,
    tol: float = 1e-4,
    max_iter: int = MAX_ROUNDS,
    exact: bool = True,
) -> Selection:
    """Find the radius at which exactly `n_features` features have weights, and solve there.

    `problem.radius` is not used. Where no radius gives the number (features that enter
    together), the next larger support is cut to its largest rows and `tied` is True.
    If fewer features can ever enter, all that can are returned, and `tied` is True.

    Parameters
    ----------
    problem : Problem
        What to minimise.
    n_features : int
        How many features are to have nonzero weights.
    start : ndarray, optional
        Weights of a similar problem: its features are looked at first.
    columns : ndarray of int, optional
        Features to take in the first working set, besides those most correlated with the
        targets: the working set of a similar problem.
    tol : float
        Relative gap at which the solution counts as converged.
    max_iter : int
        Largest number of rounds.
    exact : bool
        False solves on the first working set only, without certificate: good enough for a
        search that will solve exactly in the end.
    """
    size = n_features + max(MIN_OTHERS, min(3 * n_features, MAX_OTHERS))
    work = _WorkingSet(problem, size, start, columns)
    history: list[float] = []
    for n_rounds in range(1, max_iter + 1):
        paths = work.paths()
        penalty, reached = paths.go_to_count(n_features)
        W = problem.refit_free(work.expand(paths.weights))
        radius = problem.norm(W)
        if not exact:
            gap = np.nan
            break
        objective, gradient, gap = replace(problem, radius=radius).evaluate(W)
        history.append(objective)
        if work.grow(gradient, penalty, max(100, work.columns.size)) == 0:
            break
    missing = n_features - int(np.count_nonzero(W.any(axis=1)))
    if missing > 0:
        _share_with_twins(W, work, missing)
    elif missing < 0:
        norms = np.linalg.norm(W, axis=1)
        norms[problem.free] = np.inf
        W[np.argsort(-norms, kind="stable")[n_features:]] = 0.0
    solution = Solution(W, np.array(history), gap, n_rounds, bool(gap <= tol * problem.scale))
    return Selection(solution, radius, penalty, work.columns, not reached)


def _share_with_twins(W: Floats, work: _WorkingSet, missing: int) -> None:
    """Let unselected copies of selected features share their weights, up to a number.

    Any division of a weight among equal features is optimal; the path gives it all to the
    one that enters first.
    """
    columns = work.columns
    G, costs = work.problem.gram(columns), work.problem.costs[columns]
    size = np.diag(G)
    inside = W[columns].any(axis=1)
    for j in np.flatnonzero(~inside & (size > 0)):
        if missing == 0:
            break
        equal = np.abs(np.abs(G[j]) - size[j]) <= 1e-10 * size[j]
        twins = np.flatnonzero(inside & equal & (np.abs(size - size[j]) <= 1e-10 * size[j]))
        twins = twins[costs[twins] == costs[j]]
        if twins.size:
            twin = twins[0]
            W[columns[twin]] /= 2
            W[columns[j]] = np.sign(G[j, twin]) * W[columns[twin]]
            missing -= 1
