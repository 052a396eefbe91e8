"""Algorithm 2 of the paper: projected gradient with momentum (Chambolle-Dossal)."""

from __future__ import annotations

import numpy as np

from ksparse.core.w_step import Problem, Solution
from ksparse.matrix import Floats

__all__ = ["solve_fista"]


def solve_fista(
    problem: Problem,
    start: Floats | None = None,
    *,
    tol: float = 1e-4,
    max_iter: int = 1000,
    step: float = 1 / 1.001,
    threshold: float = 0.0,
    last: bool = False,
) -> Solution:
    """Minimise by accelerated projected gradient steps; return the best point seen.

    Momentum (t - 1) / t_new with t_new = (n + 5) / 4, as in the paper. Objective and
    gap of the projected points need no further passes over the data, because
    X'X is linear and the extrapolated point is a combination of projected ones.

    Parameters
    ----------
    problem : Problem
        What to minimise.
    start : ndarray, features x components, optional
        First point (zero by default).
    tol : float
        Stop at this gap, relative to ||T||^2 / 2. 0 runs all the iterations.
    max_iter : int
        Largest number of iterations.
    step : float
        Length of a gradient step; the gradient has Lipschitz constant at most 1.
    threshold : float
        Entries smaller than this are set to zero after every projection (the authors'
        published settings have 0.01; the points stay in the ball).
    last : bool
        Whether to return the last point, as the paper does, instead of the best one.
    """
    free = problem.free

    def shrink(V: Floats) -> Floats:
        W = problem.project(V)
        if threshold > 0:
            small = np.abs(W) < threshold
            small[free] = False
            W[small] = 0.0
        return W

    W = problem.project(np.zeros_like(problem.correlation) if start is None else start)
    objective, gradient, gap = problem.evaluate(W)
    history = [objective]
    best = objective, gap, W
    momentum_point, momentum_gradient = W, gradient
    t = 1.0
    n_iter = 0
    while n_iter < max_iter and best[1] > tol * problem.scale:
        new = shrink(momentum_point - step * momentum_gradient)
        objective, new_gradient, gap = problem.evaluate(new)
        history.append(objective)
        if last or objective < best[0] or gap <= tol * problem.scale:
            best = objective, gap, new
        t_new = (n_iter + 5) / 4
        momentum = (t - 1) / t_new
        momentum_point = new + momentum * (new - W)
        momentum_gradient = new_gradient + momentum * (new_gradient - gradient)
        W, gradient, t = new, new_gradient, t_new
        n_iter += 1
        if free.size and (best[1] <= tol * problem.scale or n_iter == max_iter):
            # Only with the free features at their optimum is the gap a bound.
            W = problem.refit_free(best[2])
            objective, gradient, gap = problem.evaluate(W)
            history.append(objective)
            best = objective, gap, W
            momentum_point, momentum_gradient, t = W, gradient, 1.0
    _, gap, W = best
    return Solution(W, np.array(history), gap, n_iter, gap <= tol * problem.scale)
