"""Lasso on a Gram matrix: the inner problem of the working-set solver.

On the ball all components share one multiplier; given the multiplier (here
`penalty`), the components are independent lasso problems, which cyclic coordinate
descent solves fast when the Gram matrix of the few features concerned is at hand.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ksparse._threads import map_parts
from ksparse.matrix import Floats

__all__ = ["GramLasso"]

# Sweeps over the nonzero coordinates before their linear system is solved instead.
PATIENCE = 200


@njit(cache=True, nogil=True)
def _sweep(G: Floats, c: Floats, bound: Floats, w: Floats, q: Floats) -> float:
    """Update every coordinate once; return the largest change (in units of the gradient)."""
    largest = 0.0
    for i in range(w.size):
        curvature = G[i, i]
        if curvature <= 0.0:
            continue
        old = w[i]
        u = c[i] - q[i] + curvature * old
        edge = bound[i] * (1 + 1e-12)  # twins of a feature are at the edge up to rounding
        if u > edge:
            new = (u - bound[i]) / curvature
        elif u < -edge:
            new = (u + bound[i]) / curvature
        else:
            new = 0.0
        step = new - old
        if step != 0.0:
            w[i] = new
            for j in range(q.size):
                q[j] += step * G[i, j]
            largest = max(largest, abs(step) * curvature)
    return largest


@njit(cache=True, nogil=True)
def _leap(G: Floats, c: Floats, bound: Floats, w: Floats, q: Floats) -> None:
    """Go to the minimum for the signs that the coordinates have, or to where one turns zero.

    Features that are strongly correlated make coordinate descent slow; with the signs
    fixed the problem is a linear system.
    """
    n = w.size
    H = G.copy()
    jitter = 1e-13 * np.trace(G) / n
    right = np.empty(n)
    for i in range(n):
        H[i, i] += jitter
        right[i] = c[i] - bound[i] * np.sign(w[i])
    goal = np.linalg.solve(H, right)
    length = 1.0
    for i in range(n):
        if w[i] * goal[i] < 0.0 and bound[i] > 0.0:
            length = min(length, w[i] / (w[i] - goal[i]))
    for i in range(n):
        w[i] += length * (goal[i] - w[i])
    q[:] = G @ w


@njit(cache=True, nogil=True)
def _descend(G: Floats, c: Floats, bound: Floats, w: Floats, tol: float, max_sweeps: int) -> int:
    """Coordinate descent on one component; w is updated in place.

    Between sweeps over all coordinates, the nonzero ones are brought to rest by
    themselves, on their own small Gram matrix.
    """
    q = G @ w
    sweeps = 0
    while sweeps < max_sweeps:
        sweeps += 1
        if _sweep(G, c, bound, w, q) <= tol:
            break
        active = np.flatnonzero(w)
        n = active.size
        G_in, c_in = np.empty((n, n)), c[active]
        for a in range(n):
            for b in range(n):
                G_in[a, b] = G[active[a], active[b]]
        bound_in, w_in, q_in = bound[active], w[active], q[active]
        inner = 0
        while sweeps < max_sweeps:
            sweeps += 1
            inner += 1
            if _sweep(G_in, c_in, bound_in, w_in, q_in) <= tol:
                break
            if inner % PATIENCE == 0:
                _leap(G_in, c_in, bound_in, w_in, q_in)
        for a in range(n):
            i = active[a]
            step = w_in[a] - w[i]
            if step != 0.0:
                w[i] = w_in[a]
                for j in range(q.size):
                    q[j] += step * G[i, j]
    return sweeps


class GramLasso:
    """min_W 1/2 <W, G W> - <C, W> + penalty * sum(costs * abs(W)), by component.

    Keeps its last solution as the start of the next, so that a path of penalties is cheap.
    """

    def __init__(self, G: Floats, C: Floats, costs: Floats, *, tol: float = 1e-6) -> None:
        self.G, self.C, self.costs = np.ascontiguousarray(G), C, costs
        self.tol = tol
        self.max_sweeps = 20_000
        self.W = np.zeros(C.shape)

    def solve(self, penalty: float, start: Floats | None = None) -> Floats:
        """Solve at one penalty, from `start` or from where the last solve ended."""
        W = self.W if start is None else start
        bound = penalty * self.costs
        tol = self.tol * (penalty if penalty > 0 else float(np.abs(self.C).max(initial=0.0)))

        def column(j: int) -> Floats:
            w = W[:, j].copy()
            _descend(self.G, np.ascontiguousarray(self.C[:, j]), bound, w, tol, self.max_sweeps)
            return w

        self.W = np.column_stack(map_parts(column, range(W.shape[1])))
        return self.W

    def norm(self, W: Floats) -> float:
        """Weighted l1 norm."""
        return float(self.costs @ np.abs(W).sum(axis=1))
