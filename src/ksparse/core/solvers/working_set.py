"""Exact W-step on a small working set of features, with a certificate on all of them."""

from __future__ import annotations

import numpy as np

from ksparse.core.selectors.l1 import MAX_ROUNDS, WorkingSet
from ksparse.core.w_step import Problem, Solution
from ksparse.matrix import Floats

__all__ = ["solve_working_set"]


def solve_working_set(
    problem: Problem,
    start: Floats | None = None,
    *,
    tol: float = 1e-4,
    max_iter: int = MAX_ROUNDS,
) -> Solution:
    """Solve the W-step to a relative gap of `tol`, certified on all features.

    The features of `start` belong to the first working set.
    """
    rank = problem.correlation.shape[1]
    known = 0 if start is None else int(np.count_nonzero(start.any(axis=1)))
    work = WorkingSet(problem, max(100, 4 * rank, 2 * known), start)
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
