"""The W-step: from labels and targets to a sparse projection.

`Problem` is the least-squares problem on a ball with its certificate. A `Selector` finds the
radius at which a number of features have weights; a `Solver` solves the problem for a given
radius; `solve_w_step` puts them together, and refits on the selected features.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from ksparse.core.balls import Ball, L1Ball
from ksparse.matrix import Floats, GramCache, Ints, Matrix

__all__ = [
    "Evaluation",
    "Problem",
    "Projection",
    "Selection",
    "Selector",
    "Solution",
    "Solver",
    "WStep",
    "refit",
    "solve_w_step",
    "w_step_problem",
]


class Evaluation(NamedTuple):
    """What one pass over the data gives at a feasible point."""

    objective: float
    gradient: Floats
    gap: float


@dataclass(frozen=True)
class Problem:
    """Minimise 1/2 ||T - X W||^2 subject to norm(W) <= radius.

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
    ball : Ball, optional
        What bounds W; the l1 ball by default.
    ridge : float
        Ridge of a regression on selected features, relative to their mean variance.
    labels, sums : ndarray, optional
        Cluster of each sample, and sums of the data by cluster (clusters x features).
    """

    matrix: Matrix
    correlation: Floats
    target_norm2: float
    radius: float
    costs: Floats
    gram: GramCache = None  # type: ignore[assignment]  # filled in below
    ball: Ball = field(default_factory=L1Ball)
    ridge: float = 0.3
    labels: Ints | None = None
    sums: Floats | None = None

    def __post_init__(self) -> None:
        if self.gram is None:
            object.__setattr__(self, "gram", GramCache(self.matrix))

    @cached_property
    def free(self) -> Ints:
        """Indices of the features that cost nothing."""
        return np.flatnonzero(self.costs == 0)

    @property
    def scale(self) -> float:
        """What tolerances of the gap are relative to: half the squared targets."""
        return self.target_norm2 / 2

    def norm(self, W: Floats) -> float:
        """Return the norm that the radius bounds."""
        return self.ball.norm(W, self.costs)

    def project(self, V: Floats) -> Floats:
        """Return the point of the ball that is nearest to V."""
        return self.ball.project(V, self.radius, self.costs)

    def evaluate(self, W: Floats) -> Evaluation:
        """Return objective, gradient and Frank-Wolfe gap, in one pass over the data.

        The gap bounds the distance to the minimum when the free features are optimal given
        the others, as `refit_free` leaves them; elsewhere it contains what that would gain.
        """
        curvature = self.matrix.normal(W)
        inner = float(np.vdot(self.correlation, W))
        objective = self.target_norm2 / 2 - inner + float(np.vdot(curvature, W)) / 2
        gradient = curvature - self.correlation
        gap = self.ball.gap(gradient, W, self.radius, self.costs)
        if self.free.size:
            slope = gradient[self.free]
            gap += float(np.vdot(slope, self._free_inverse @ slope)) / 2
        return Evaluation(objective, gradient, max(gap, 0.0))

    @cached_property
    def _free_inverse(self) -> Floats:
        return np.asarray(np.linalg.pinv(self.gram(self.free), hermitian=True), dtype=np.float64)

    def refit_free(self, W: Floats) -> Floats:
        """Return W with the free features at their least-squares optimum given the others."""
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


@dataclass(frozen=True)
class Solution:
    """What every solver returns.

    `weights` is a point of the ball, and the objective there at most `gap` (Frank-Wolfe) above
    its minimum; `converged` says whether the gap is below the tolerance. `objective_history`
    has the objective at every iterate that was evaluated on all features.
    """

    weights: Floats
    objective_history: Floats
    gap: float
    n_iter: int
    converged: bool


@dataclass(frozen=True)
class Solver:
    """A way to solve the W-step for a given radius.

    Attributes
    ----------
    solve : callable
        ``solve(problem, start=None, *, tol, max_iter, **options) -> Solution``.
    options : tuple of str
        Parameters of `KSparse`, besides tolerance and number of iterations, that it takes.
    balls : tuple of str, optional
        Names of the balls that it can solve on; any by default.
    exact : bool
        Whether it solves to rounding, so that a solution of the l1 selector needs no other.
    """

    solve: Callable[..., Solution]
    options: tuple[str, ...] = ()
    balls: tuple[str, ...] | None = None
    exact: bool = False

    def __call__(self, problem: Problem, start: Floats | None = None, **options: Any) -> Solution:
        """Solve the problem."""
        return self.solve(problem, start, **options)


class Selection(NamedTuple):
    """The W-step solved for a number of features instead of a radius.

    `solution` is at the optimum for `radius`, except for the rows that were cut to meet
    the number (`tied`); its gap says how far from the optimum that leaves it. `penalty` is the
    multiplier of the ball there, `columns` the features that were in the working set. Instead
    of a gap there may be the share of the targets that is `explained`, and a bound of it.
    """

    solution: Solution
    radius: float
    penalty: float
    columns: Ints
    tied: bool
    explained: tuple[float, float] = (np.nan, np.nan)


class Selector(Protocol):
    """A way to choose N features for given labels.

    Attributes
    ----------
    balls : tuple of str or None
        Names of the balls that it can select on (None: any).
    radius_determines_support : bool
        Whether the solution on the ball of the selected radius, over all features, has
        exactly the selected ones. Only then is the problem solved again on that ball where
        another solver was asked for; otherwise the solution of the selector is kept.
    in_loops : bool
        Whether it selects in every loop; otherwise once, when labels have converged.
    """

    balls: tuple[str, ...] | None
    radius_determines_support: bool
    in_loops: bool

    def select(
        self,
        problem: Problem,
        n_features: int,
        start: Floats | None = None,
        *,
        columns: Ints | None = None,
        tol: float = 1e-4,
        exact: bool = True,
    ) -> Selection:
        """Return the solution with exactly that many features; see `Selection`.

        `start` and `columns` are weights and working set of a similar problem. With
        ``exact=False`` the solution needs no certificate.
        """
        ...

    def select_path(self, problem: Problem, counts: Sequence[int]) -> Iterator[Ints]:
        """Yield the features selected for each of several increasing numbers."""
        ...

    def candidates(self, problem: Problem, n_candidates: int) -> Ints:
        """Return the features that are most likely to be selected, in increasing order."""
        ...


@dataclass(frozen=True)
class WStep:
    """How the W-step is solved.

    Attributes
    ----------
    n_features : int or None
        Number of features to select, or None to use `eta`.
    eta : float or None
        Radius of the ball, or None to use `n_features`.
    costs : ndarray
        Cost of each feature in the norm.
    selector : Selector
        How `n_features` features are chosen.
    solver : Solver
        How the problem is solved for a radius.
    options : dict
        Options of the solver.
    ball : Ball
        What bounds the weights.
    relax : bool
        Whether to refit on the selected features without the bound.
    ridge : float
        Ridge of that refit, relative to the mean variance of the selected features.
    """

    n_features: int | None
    eta: float | None
    costs: Floats
    selector: Selector
    solver: Solver
    options: dict[str, Any] = field(default_factory=dict)
    ball: Ball = field(default_factory=L1Ball)
    relax: bool = True
    ridge: float = 0.3


@dataclass(frozen=True)
class Projection:
    """A sparse projection and what is known about it.

    Attributes
    ----------
    weights : ndarray, features x components
        The projection in use (refitted where `relax`), in the precision of the data.
    l1_weights : ndarray, features x components
        The solution on the ball.
    eta, gap, n_iter, converged
        Radius of the ball; certificate (relative to half the squared targets; NaN: there is
        none) and effort of the solution on it.
    tied : bool
        Whether the number of features could not be met by any radius.
    working : ndarray of int or None
        Features that were in the working set, a guess for the next one.
    n_asked : int or None
        Number of features that was asked for.
    explained : tuple
        Share of the targets that the features explain, and a bound of it; see `Selection`.
    """

    weights: Floats
    l1_weights: Floats
    eta: float
    gap: float
    n_iter: int
    converged: bool
    tied: bool = False
    working: Ints | None = None
    n_asked: int | None = None
    explained: tuple[float, float] = (np.nan, np.nan)

    @property
    def selected(self) -> Ints:
        """Indices of the features with nonzero weights."""
        return np.flatnonzero(self.weights.any(axis=1))


def w_step_problem(
    matrix: Matrix, labels: Ints, targets: Floats, w_step: WStep, gram: GramCache | None = None
) -> Problem:
    """Return the least-squares problem for T = Y targets.

    X'T is computed from the sums of the data by cluster: one pass, whatever the width of T.
    """
    sums = matrix.cluster_sums(labels, targets.shape[0])
    sizes = np.bincount(labels, weights=matrix.sample_weight, minlength=targets.shape[0])
    return Problem(
        matrix,
        sums.T @ targets,
        float(sizes @ (targets**2).sum(axis=1)),
        np.inf if w_step.eta is None else w_step.eta,
        w_step.costs,
        gram if gram is not None else GramCache(matrix),
        w_step.ball,
        w_step.ridge,
        labels,
        sums,
    )


def solve_w_step(
    matrix: Matrix,
    labels: Ints,
    targets: Floats,
    w_step: WStep,
    *,
    gram: GramCache | None = None,
    start: Floats | None = None,
    last: Projection | None = None,
    certify: bool = True,
) -> Projection:
    """Return the projection that brings samples nearest to T = Y targets.

    `targets` has one row per cluster. The solver starts from `start`, or from the `last`
    projection, if given. With `certify=False` a selection of features is solved approximately.
    """
    problem = w_step_problem(matrix, labels, targets, w_step, gram)
    if last is not None:
        start = last.l1_weights
    tied, working, explained = False, None, (np.nan, np.nan)
    if w_step.n_features is None:
        solution, eta = w_step.solver(problem, start, **w_step.options), problem.radius
    else:
        selection = w_step.selector.select(
            problem, w_step.n_features, start, columns=None if last is None else last.working,
            tol=w_step.options.get("tol", 1e-4), exact=certify,
        )  # fmt: skip
        solution, eta, tied = selection.solution, selection.radius, selection.tied
        working, explained = selection.columns, selection.explained
        by_radius = w_step.selector.radius_determines_support and not tied
        if certify and by_radius and not w_step.solver.exact:
            # The radius is known now: the solver that was asked for solves on that ball.
            on_ball = replace(problem, radius=eta)
            solution = w_step.solver(on_ball, solution.weights, **w_step.options)
    weights = solution.weights
    if w_step.relax:
        weights = refit(problem, np.flatnonzero(weights.any(axis=1)), w_step.ridge)
    # In the precision in which a model keeps them, so that it predicts what was fitted.
    weights = weights.astype(matrix.dtype).astype(np.float64)
    gap = solution.gap / problem.scale if problem.scale > 0 else 0.0
    return Projection(
        weights, solution.weights, eta, gap, solution.n_iter, solution.converged, tied, working,
        w_step.n_features, explained,
    )  # fmt: skip


def refit(problem: Problem, selected: Ints, ridge: float) -> Floats:
    """Return the ridge regression of the targets on the selected features, without the ball."""
    out = np.zeros_like(problem.correlation)
    if selected.size:
        G = problem.gram(selected)
        G[np.diag_indices_from(G)] += ridge * np.trace(G) / selected.size
        out[selected] = np.linalg.solve(G, problem.correlation[selected])
    return out
