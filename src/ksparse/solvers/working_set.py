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
from ksparse.solvers.lasso import GramLasso
from ksparse.solvers.problem import Problem, Solution

__all__ = ["Selection", "select_features", "solve_working_set"]

MAX_ROUNDS = 20
# What an inexact selection may exceed its number by, before it is cut.
SLACK = 1.05
# Relative to the largest penalty: below this, whatever can enter has entered.
SMALLEST_PENALTY = 1e-9
# An exact selection solves the lasso to this tolerance, and features that enter within
# this relative range of penalties enter together.
EXACT_TOL, TIE = 1e-9, 1e-7
# Relative to the largest weight: what is below is rounding, not a selected feature.
DUST = 1e-7


class _WorkingSet:
    """The features at work, and the lasso problem on them."""

    def __init__(
        self,
        problem: Problem,
        size: int,
        warm: Floats | None,
        columns: Ints | None = None,
        *,
        tol: float = 1e-6,
    ) -> None:
        self.problem = problem
        ratio = problem.ratio(problem.correlation)
        order = np.argsort(-ratio, kind="stable")[: max(size, 1)]
        chosen = np.zeros(ratio.size, dtype=bool)
        chosen[order[ratio[order] > 0]] = True
        chosen[problem.free] = True
        if warm is not None:
            chosen |= warm.any(axis=1) & np.isfinite(problem.costs)
        if columns is not None:
            chosen[columns] = True
        self.columns: Ints = np.flatnonzero(chosen)
        self.tol = tol
        self.lasso = self._lasso()
        if warm is not None:
            self.lasso.W = np.ascontiguousarray(warm[self.columns])

    def _lasso(self) -> GramLasso:
        problem, columns = self.problem, self.columns
        G, C, costs = problem.gram(columns), problem.correlation[columns], problem.costs[columns]
        return GramLasso(G, C, costs, tol=self.tol)

    def grow(self, gradient: Floats, penalty: float, limit: int) -> int:
        """Add at most `limit` features that violate the optimality conditions."""
        ratio = self.problem.ratio(gradient)
        ratio[self.columns] = 0.0
        order = np.argsort(-ratio, kind="stable")[:limit]
        new = order[ratio[order] > penalty * (1 + 1e-7)]
        if new.size == 0:
            return 0
        W, rank = self.lasso.W, self.problem.correlation.shape[1]
        self.columns = np.concatenate([self.columns, new])
        self.lasso = self._lasso()
        self.lasso.W = np.concatenate([W, np.zeros((new.size, rank))])
        return int(new.size)

    def expand(self, W: Floats) -> Floats:
        """Weights of the set as weights of all features."""
        out = np.zeros(self.problem.correlation.shape)
        out[self.columns] = W
        return out

    def largest_penalty(self) -> float:
        """The smallest penalty at which only free features have weights."""
        costs = self.lasso.costs
        free, paid = np.flatnonzero(costs == 0), np.flatnonzero(costs > 0)
        if paid.size == 0:
            return 0.0
        residual = self.lasso.C
        if free.size:
            G = self.lasso.G
            start = np.zeros_like(self.lasso.W)
            start[free] = np.linalg.lstsq(G[np.ix_(free, free)], residual[free], rcond=None)[0]
            residual = residual - G @ start
            if not self.lasso.W.any():
                self.lasso.W = start
        return float((np.abs(residual[paid]).max(axis=1) / costs[paid]).max())


def _penalty_of_radius(work: _WorkingSet, radius: float, guess: float) -> float:
    """Find the multiplier whose solution has norm `radius` (0 if the ball is not binding).

    The norm is continuous, piecewise linear and decreasing in the penalty: a bracket
    around the root, and regula falsi (Illinois) inside it.
    """
    top = work.largest_penalty()
    if top == 0.0:
        work.lasso.solve(0.0)
        return 0.0
    high, high_value = top, -radius
    low, factor = min(guess, top) if guess > 0 else top / 2, 0.5
    while True:
        low_value = work.lasso.norm(work.lasso.solve(low)) - radius
        if np.isfinite(radius) and abs(low_value) <= 1e-9 * radius:
            return low
        if low_value > 0:
            break
        high, high_value = low, low_value
        low *= factor
        factor *= factor
        if low < SMALLEST_PENALTY * top:
            work.lasso.solve(low)
            return low
    for _ in range(100):
        penalty = (low * high_value - high * low_value) / (high_value - low_value)
        if not low < penalty < high:
            penalty = (low + high) / 2
        value = work.lasso.norm(work.lasso.solve(penalty)) - radius
        if abs(value) <= 1e-7 * radius or high - low <= 1e-14 * high:
            return penalty
        if value > 0:
            low, low_value = penalty, value
            high_value /= 2
        else:
            high, high_value = penalty, value
            low_value /= 2
    return penalty


def solve_working_set(
    problem: Problem,
    start: Floats | None = None,
    *,
    tol: float = 1e-4,
    max_iter: int = MAX_ROUNDS,
) -> Solution:
    """Solve the W-step to a relative gap of `tol`, certified on all features."""
    rank = problem.correlation.shape[1]
    warm = start if start is not None and start.any() else None
    known = 0 if warm is None else int(np.count_nonzero(warm.any(axis=1)))
    work = _WorkingSet(problem, max(100, 4 * rank, 2 * known), warm)
    history: list[float] = []
    penalty = 0.0
    best: tuple[float, Floats] | None = None
    for n_rounds in range(1, max_iter + 1):
        penalty = _penalty_of_radius(work, problem.radius, penalty)
        W = work.expand(work.lasso.W)
        norm = problem.norm(W)
        if norm > problem.radius:
            paid = problem.costs > 0
            W[paid] *= problem.radius / norm
        W = problem.refit_free(W)
        objective, gradient, gap = problem.evaluate(W)
        history.append(objective)
        if best is None or gap < best[0]:
            best = gap, W
        if gap <= tol * problem.scale:
            break
        if work.grow(gradient, penalty, max(100, work.columns.size)) == 0:
            if work.tol < 1e-11:
                break
            work.tol = work.lasso.tol = work.tol / 100
    gap, W = best if best is not None else (0.0, work.expand(work.lasso.W))
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
    guess: float = 0.0,
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
        Weights to start from.
    guess : float
        The multiplier of a similar problem, to start the search near it.
    columns : ndarray of int, optional
        Features to take in the first working set, besides those most correlated with the
        targets: the working set of a similar problem.
    tol : float
        Relative gap at which the solution counts as converged.
    max_iter : int
        Largest number of rounds.
    exact : bool
        False solves on the first working set only, without certificate, and takes up to
        5 % too many features before cutting to the number: good enough for a search that
        will solve exactly in the end.
    """
    warm = start if start is not None and start.any() else None
    size = max(4 * n_features, n_features + 100)
    work = _WorkingSet(problem, size, warm, columns, tol=EXACT_TOL if exact else 1e-6)
    history: list[float] = []
    penalty = guess
    for n_rounds in range(1, max_iter + 1):
        most = n_features if exact else max(n_features, int(SLACK * n_features))
        penalty, reached = _penalty_of_count(work, n_features, most, penalty)
        W = problem.refit_free(work.expand(work.lasso.W))
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

    Any division of a weight among equal features is optimal; coordinate descent gives it
    all to one of them.
    """
    G, columns = work.lasso.G, work.columns
    size = np.diag(G)
    inside = W[columns].any(axis=1)
    for j in np.flatnonzero(~inside & (size > 0)):
        if missing == 0:
            break
        equal = np.abs(np.abs(G[j]) - size[j]) <= 1e-10 * size[j]
        twins = np.flatnonzero(inside & equal & (np.abs(size - size[j]) <= 1e-10 * size[j]))
        twins = twins[work.lasso.costs[twins] == work.lasso.costs[j]]
        if twins.size:
            twin = twins[0]
            W[columns[twin]] /= 2
            W[columns[j]] = np.sign(G[j, twin]) * W[columns[twin]]
            missing -= 1


def _penalty_of_count(work: _WorkingSet, least: int, most: int, guess: float) -> tuple[float, bool]:
    """Find a multiplier with `least` to `most` nonzero rows; leave its solution in the lasso.

    Returns the penalty and whether there is one; otherwise the solution has the smallest
    support found above `most` (or the largest of all, if even that is below `least`).
    """
    lasso = work.lasso

    def count(penalty: float, start: Floats | None = None) -> int:
        W = lasso.solve(penalty, start)
        size = np.abs(W).max(axis=1, initial=0.0)
        W[size <= DUST * size.max(initial=0.0)] = 0.0
        return int(np.count_nonzero(W.any(axis=1)))

    warm = lasso.W
    top = work.largest_penalty()
    if top == 0.0:
        return 0.0, least <= count(0.0) <= most
    # A bracket: `high` leaves too few features (beyond the top, only the free ones), `low`
    # lets too many in; `above` and `below` are their solutions.
    beyond = high = 1.001 * top
    low, below = 0.0, warm
    n = count(high)
    above = lasso.W
    if least <= n <= most:
        return high, True
    penalty = guess if 0 < guess < top else 0.9 * top
    n = count(penalty, warm)
    factor = 0.9
    while not least <= n <= most:
        if n < least:
            high, above = penalty, lasso.W
            if penalty < SMALLEST_PENALTY * top:
                return penalty, False
        else:
            low, below = penalty, lasso.W
        if high - low <= TIE * high:
            lasso.W = below
            return low, False
        if low == 0.0:  # step down until too many enter, further each time
            penalty *= factor
        elif high == beyond and penalty / factor < top:  # step up likewise
            penalty /= factor
        else:
            penalty = float(np.sqrt(low * high))
        factor = max(factor * factor, 0.3)
        n = count(penalty, above)
    return penalty, True
