"""Select features by the l1 ball: the radius at which exactly N features have weights.

Only features with a large gradient can have nonzero weights. The problem is solved on
those (their Gram matrix is all it takes), the optimality conditions are checked on
every feature in one pass over the data, and what violates them joins the working set.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from ksparse.core.balls import L1Ball
from ksparse.core.lasso_path import LassoPaths
from ksparse.core.w_step import Problem, Selection, Solution
from ksparse.matrix import Floats, Ints

__all__ = ["MAX_ROUNDS", "L1Selector", "WorkingSet"]

MAX_ROUNDS = 20
# How many features beside those to be selected the first working set has.
MIN_OTHERS, MAX_OTHERS = 100, 500
L1 = L1Ball()


class WorkingSet:
    """Some of the features, and the lasso problem on them.

    Parameters
    ----------
    problem : Problem
        The problem on all features.
    size : int
        How many features to begin with: those most correlated with the targets.
    start : ndarray, optional
        Weights of a similar problem; its features belong to the set.
    columns : ndarray of int, optional
        Further features that belong to the set.
    """

    def __init__(
        self, problem: Problem, size: int, start: Floats | None, columns: Ints | None = None
    ) -> None:
        self.problem = problem
        ratio = L1.ratios(problem.correlation, problem.costs)
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
        """Return the lasso paths on the set, from their beginning."""
        problem, columns = self.problem, self.columns
        return LassoPaths(
            problem.gram(columns), problem.correlation[columns], problem.costs[columns]
        )

    def grow(self, gradient: Floats, penalty: float, limit: int) -> int:
        """Add at most `limit` features that violate the optimality conditions; return how many."""
        ratio = L1.ratios(gradient, self.problem.costs)
        ratio[self.columns] = 0.0
        order = np.argsort(-ratio, kind="stable")[:limit]
        new = order[ratio[order] > penalty * (1 + 1e-7)]
        self.columns = np.concatenate([self.columns, new])
        return int(new.size)

    def expand(self, W: Floats) -> Floats:
        """Return weights of the set as weights of all features."""
        out = np.zeros(self.problem.correlation.shape)
        out[self.columns] = W
        return out


class L1Selector:
    """Features that enter the lasso path first, as the radius grows."""

    balls: tuple[str, ...] | None = ("l1",)
    radius_determines_support: bool = True
    in_loops: bool = True

    def select(
        self,
        problem: Problem,
        n_features: int,
        start: Floats | None = None,
        *,
        columns: Ints | None = None,
        tol: float = 1e-4,
        exact: bool = True,
        max_iter: int = MAX_ROUNDS,
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
        exact : bool
            False solves on the first working set only, without certificate: good enough for a
            search that will solve exactly in the end.
        max_iter : int
            Largest number of rounds.
        """
        size = n_features + max(MIN_OTHERS, min(3 * n_features, MAX_OTHERS))
        work = WorkingSet(problem, size, start, columns)
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
            if exact:  # the certificate is that of the weights that are returned
                gap = replace(problem, radius=radius).evaluate(W).gap
        solution = Solution(W, np.array(history), gap, n_rounds, bool(gap <= tol * problem.scale))
        return Selection(solution, radius, penalty, work.columns, not reached)

    def select_path(self, problem: Problem, counts: Sequence[int]) -> Iterator[Ints]:
        """Yield the features selected for each of several increasing numbers.

        One lasso path on all features of the problem gives them all.
        """
        every = np.arange(problem.costs.size)
        paths = LassoPaths(problem.gram(every), problem.correlation, problem.costs)
        for count in counts:
            paths.go_to_count(count)
            yield np.flatnonzero(paths.weights.any(axis=1))

    def candidates(self, problem: Problem, n_candidates: int) -> Ints:
        """Return the features most correlated with the targets, and all that are free."""
        ratio = L1.ratios(problem.correlation, problem.costs)
        ratio[problem.free] = np.inf
        return np.sort(np.argsort(-ratio, kind="stable")[:n_candidates])


def _share_with_twins(W: Floats, work: WorkingSet, missing: int) -> None:
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
