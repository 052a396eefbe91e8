"""The W-step: least squares on a (weighted) l1 ball, and its certificate."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ksparse.matrix import Floats, GramCache, Ints, Matrix

__all__ = ["Evaluation", "Problem", "Solution"]


class Evaluation(NamedTuple):
    """What one pass over the data tells about a feasible point."""

    objective: float
    gradient: Floats
    gap: float


@dataclass(frozen=True)
class Solution:
    """What every solver returns.

    Attributes
    ----------
    weights : ndarray, features x components
        A point of the ball.
    objective_history : ndarray
        The objective at every iterate that was evaluated on all features.
    gap : float
        Frank-Wolfe gap at `weights`: the objective is at most this far from its minimum.
    n_iter : int
        Iterations (of a working-set solver: rounds).
    converged : bool
        Whether the gap is below the tolerance.
    """

    weights: Floats
    objective_history: Floats
    gap: float
    n_iter: int
    converged: bool


@dataclass(frozen=True)
class Problem:
    """Minimise 1/2 ||T - X W||^2 subject to sum(costs * abs(W)) <= radius.

    T enters only through X'T and ||T||^2.

    Parameters
    ----------
    matrix : Matrix
        The data X, of spectral norm at most 1.
    correlation : ndarray, features x components
        X'T.
    target_norm2 : float
        ||T||^2, samples weighted.
    radius : float
        Radius of the ball (eta).
    costs : ndarray, one per feature
        Cost of a feature in the norm: 0 is free, infinity excludes it.
    gram : GramCache, optional
        Gram matrices of the data known from other problems.
    """

    matrix: Matrix
    correlation: Floats
    target_norm2: float
    radius: float
    costs: Floats
    gram: GramCache = None  # type: ignore[assignment]  # filled in below

    def __post_init__(self) -> None:
        if self.gram is None:
            object.__setattr__(self, "gram", GramCache(self.matrix))

    @cached_property
    def free(self) -> Ints:
        """Indices of the features that cost nothing."""
        return np.flatnonzero(self.costs == 0)

    @property
    def scale(self) -> float:
        """What tolerances of the gap are relative to."""
        return self.target_norm2 / 2

    def norm(self, W: Floats) -> float:
        """The weighted l1 norm that the radius bounds."""
        counted = (self.costs > 0) & np.isfinite(self.costs)
        return float(self.costs[counted] @ np.abs(W[counted]).sum(axis=1))

    def ratio(self, gradient: Floats) -> Floats:
        """Largest |gradient| of each feature per unit of its cost (0 if free or excluded)."""
        counted = (self.costs > 0) & np.isfinite(self.costs)
        out = np.zeros(self.costs.size)
        out[counted] = np.abs(gradient[counted]).max(axis=1) / self.costs[counted]
        return out

    def evaluate(self, W: Floats) -> Evaluation:
        """Objective, gradient and Frank-Wolfe gap, in one pass over the data.

        The gap bounds the distance to the minimum when the free features are optimal given
        the others, as `refit_free` leaves them; elsewhere it contains what that would gain.
        """
        curvature = self.matrix.normal(W)
        inner = float(np.vdot(self.correlation, W))
        objective = self.target_norm2 / 2 - inner + float(np.vdot(curvature, W)) / 2
        gradient = curvature - self.correlation
        counted = (self.costs > 0) & np.isfinite(self.costs)
        linear = float(np.vdot(gradient[counted], W[counted]))
        largest = float(self.ratio(gradient).max(initial=0.0))
        # radius * 0 even if the radius is infinite: a zero gradient is optimal.
        gap = linear + (self.radius * largest if largest > 0 else 0.0)
        if self.free.size:
            slope = gradient[self.free]
            gap += float(np.vdot(slope, self._free_inverse @ slope)) / 2
        return Evaluation(objective, gradient, max(gap, 0.0))

    @cached_property
    def _free_inverse(self) -> Floats:
        return np.asarray(np.linalg.pinv(self.gram(self.free), hermitian=True), dtype=np.float64)

    def refit_free(self, W: Floats) -> Floats:
        """Set the free features to their least-squares optimum given the others."""
        free = self.free
        if free.size == 0:
            return W
        rest = W.copy()
        rest[free] = 0.0
        used = np.flatnonzero(rest.any(axis=1))
        right = self.correlation[free].copy()
        if used.size:
            right -= self.matrix.gram(free, used) @ rest[used]
        rest[free] = self._free_inverse @ right
        return rest
