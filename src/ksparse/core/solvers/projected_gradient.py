"""Algorithm 1 of the paper: gradient step, exact projection on the ball."""

from __future__ import annotations

import numpy as np

from ksparse.core.w_step import Problem, Solution
from ksparse.matrix import Floats

__all__ = ["solve_projected_gradient"]


def solve_projected_gradient(
    problem: Problem,
    start: Floats | None = None,
    *,
    tol: float = 1e-4,
    max_iter: int = 1000,
    step: float = 1.0,
) -> Solution:
    """Minimise by projected gradient steps of constant length.

    The data have spectral norm at most 1, so a step of 1 never raises the objective.
    """
    W = problem.project(np.zeros_like(problem.correlation) if start is None else start)
    history: list[float] = []
    for n_iter in range(max_iter + 1):
        objective, gradient, gap = problem.evaluate(W)
        history.append(objective)
        if problem.free.size and (gap <= tol * problem.scale or n_iter == max_iter):
            W = problem.refit_free(W)
            objective, gradient, gap = problem.evaluate(W)
            history.append(objective)
        if gap <= tol * problem.scale or n_iter == max_iter:
            break
        W = problem.project(W - step * gradient)
    return Solution(W, np.array(history), gap, n_iter, gap <= tol * problem.scale)
