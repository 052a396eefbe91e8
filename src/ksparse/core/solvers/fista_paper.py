"""Algorithm 2 of the paper to the letter: the last iterate, and momentum as it is printed."""

from __future__ import annotations

import numpy as np

from ksparse.core.w_step import Problem, Solution
from ksparse.matrix import Floats

__all__ = ["solve_fista_paper"]


def solve_fista_paper(
    problem: Problem,
    start: Floats | None = None,
    *,
    tol: float = 1e-4,
    max_iter: int = 1000,
    threshold: float = 0.0,
) -> Solution:
    """Minimise by the update that the paper prints; return the last projected point.

    With step 1 and lambda = 1 + (t - 1) / t_new, t_new = (n + 5) / 4, the paper has

        W_new <- projection of W - gradient(W),    W <- (1 - lambda) W + lambda W_new

    where W is the extrapolated point itself. FISTA (`solve_fista`) extrapolates from the last
    projected point instead: W <- W_new + (lambda - 1) (W_new - W_new before). The printed
    update is a projected gradient relaxed by a factor that grows from 1 to 2. It leads to the
    same optimum in about half as many iterations as the plain one, not as few as FISTA.

    The extrapolated point, which the paper returns, may lie outside the ball, where nothing is
    known of its distance to the optimum. Returned is the last projected point, and its gap.

    Parameters
    ----------
    problem : Problem
        What to minimise.
    start : ndarray, features x components, optional
        First point (zero by default).
    tol : float
        Stop at this gap, relative to ||T||^2 / 2. 0 runs all the iterations.
    max_iter : int
        Largest number of iterations: N + 1 for n = 0, ..., N.
    threshold : float
        Entries smaller than this are set to zero after every projection (not in the paper).
    """
    W = new = problem.project(np.zeros_like(problem.correlation) if start is None else start)
    objective, gradient, gap = problem.evaluate(W)
    history = [objective]
    t = 1.0
    n = 0
    while n < max_iter and gap > tol * problem.scale:
        new = problem.project(W - gradient)
        if threshold > 0:
            small = np.abs(new) < threshold
            small[problem.free] = False
            new[small] = 0.0
        objective, new_gradient, gap = problem.evaluate(new)
        history.append(objective)
        t_new = (n + 5) / 4
        factor = 1 + (t - 1) / t_new
        W = (1 - factor) * W + factor * new
        # The gradient is affine, so that of W needs no pass over the data.
        gradient = (1 - factor) * gradient + factor * new_gradient
        t = t_new
        n += 1
        if problem.free.size and (gap <= tol * problem.scale or n == max_iter):
            # Only with the free features at their optimum is the gap a bound.
            W = new = problem.refit_free(new)
            objective, gradient, gap = problem.evaluate(new)
            history.append(objective)
            t = 1.0
    return Solution(new, np.array(history), gap, n, gap <= tol * problem.scale)
