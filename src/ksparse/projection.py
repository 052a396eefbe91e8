"""From labels to a sparse projection: the W-step as the alternation uses it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksparse.matrix import Blocks, Floats, GramCache, Ints, Matrix
from ksparse.solvers import SOLVERS, Problem, select_features

__all__ = ["Projection", "WStep", "fit_projection", "project_samples", "refit", "w_step_problem"]


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
    solver : str
        A name in `ksparse.solvers.SOLVERS`.
    options : dict
        Options of the solver.
    relax : bool
        Whether to refit on the selected features without the bound.
    ridge : float
        Ridge of that refit, relative to the mean variance of the selected features.
    """

    n_features: int | None
    eta: float | None
    costs: Floats
    solver: str = "working_set"
    options: dict[str, Any] = field(default_factory=dict)
    relax: bool = True
    ridge: float = 0.3


# What a checkpoint keeps of a projection as it is.
PLAIN = ("eta", "gap", "n_iter", "converged", "tied", "working", "n_asked")


@dataclass(frozen=True)
class Projection:
    """A sparse projection and what is known about it.

    Attributes
    ----------
    weights : ndarray, features x components
        The projection in use (refitted where `relax`).
    l1_weights : ndarray, features x components
        The solution on the ball.
    eta, gap, n_iter, converged
        Radius of the ball; certificate (relative to half the squared targets; NaN where
        none was asked for) and effort of the solution on it.
    tied : bool
        Whether the number of features could not be met by any radius.
    working : ndarray of int or None
        Features that were in the working set, a guess for the next one.
    n_asked : int or None
        Number of features that was asked for.
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

    @property
    def selected(self) -> Ints:
        """Indices of the features with nonzero weights."""
        return np.flatnonzero(self.weights.any(axis=1))

    def as_arrays(self) -> dict[str, Any]:
        """What is kept in a checkpoint: of the weights, the rows that are not zero."""
        out: dict[str, Any] = {name: getattr(self, name) for name in PLAIN}
        out["shape"] = np.array(self.weights.shape)
        for name in ("weights", "l1_weights"):
            W = getattr(self, name)
            out[f"{name}_rows"] = np.flatnonzero(W.any(axis=1))
            out[name] = W[out[f"{name}_rows"]]
        return out

    @classmethod
    def from_arrays(cls, kept: Mapping[str, Any]) -> Projection:
        """What `as_arrays` gave."""
        W = {}
        for name in ("weights", "l1_weights"):
            W[name] = np.zeros(tuple(int(n) for n in kept["shape"]))
            W[name][kept[f"{name}_rows"]] = kept[name]
        asked, working = kept.get("n_asked"), kept.get("working")
        return cls(
            W["weights"], W["l1_weights"], float(kept["eta"]), float(kept["gap"]),
            int(kept["n_iter"]), bool(kept["converged"]), bool(kept["tied"]), working,
            None if asked is None else int(asked),
        )  # fmt: skip


def w_step_problem(
    matrix: Matrix, labels: Ints, targets: Floats, how: WStep, gram: GramCache | None = None
) -> Problem:
    """The least-squares problem for T = Y targets.

    X'T is had from the sums of the data by cluster: one pass, whatever the width of T.
    """
    sums = matrix.cluster_sums(labels, targets.shape[0])
    sizes = np.bincount(labels, weights=matrix.sample_weight, minlength=targets.shape[0])
    return Problem(
        matrix,
        sums.T @ targets,
        float(sizes @ (targets**2).sum(axis=1)),
        np.inf if how.eta is None else how.eta,
        how.costs,
        gram if gram is not None else GramCache(matrix),
    )


def fit_projection(
    matrix: Matrix,
    labels: Ints,
    targets: Floats,
    how: WStep,
    *,
    gram: GramCache | None = None,
    start: Floats | None = None,
    last: Projection | None = None,
    certify: bool = True,
) -> Projection:
    """Solve the W-step for T = Y targets, where targets are one row per cluster.

    It starts from `start`, or from the `last` projection, if given. With `certify=False`
    a selection of features is solved approximately.
    """
    problem = w_step_problem(matrix, labels, targets, how, gram)
    if last is not None:
        start = last.l1_weights
    tied, working = False, None
    if how.n_features is None:
        solution = SOLVERS[how.solver](problem, start, **how.options)
        eta = problem.radius
    else:
        tol = how.options.get("tol", 1e-4)
        selection = select_features(
            problem,
            how.n_features,
            start,
            columns=None if last is None else last.working,
            tol=tol,
            exact=certify,
        )
        solution, eta, tied = selection.solution, selection.radius, selection.tied
        working = selection.columns
        if certify and not tied and how.solver != "working_set":
            # The radius is known now: the solver asked for has the last word on it.
            solve = SOLVERS[how.solver]
            solution = solve(replace(problem, radius=eta), solution.weights, **how.options)
    weights = solution.weights
    if how.relax:
        weights = refit(problem, np.flatnonzero(weights.any(axis=1)), how.ridge)
    return Projection(
        weights,
        solution.weights,
        eta,
        solution.gap / problem.scale if problem.scale > 0 else 0.0,
        solution.n_iter,
        solution.converged,
        tied,
        working,
        how.n_features,
    )


def project_samples(X: Any, mean: Floats, factor: Floats, weights: NDArray[Any]) -> Floats:
    """Project samples, old or new: (X - mean) diag(factor) W, touching only features in use."""
    used = np.flatnonzero(weights.any(axis=1))
    if isinstance(X, Blocks):
        out = np.empty((X.shape[0], weights.shape[1]))
        results = X.results(_project_block, (mean, factor, weights))
        for (start, stop), part in zip(X.bounds, results, strict=True):
            out[start:stop] = part
        return out
    V = weights[used].astype(np.float64) * factor[used, None]
    if sp.issparse(X):
        return np.asarray(X[:, used] @ V) - mean[used] @ V
    return (X[:, used] - mean[used]) @ V


def _project_block(block: Any, mean: Floats, factor: Floats, weights: NDArray[Any]) -> Floats:
    values = block.data if sp.issparse(block) else block
    if values.size and not np.isfinite([values.min(), values.max()]).all():
        raise ValueError("X contains NaN or infinity: remove or impute them.")
    return project_samples(block, mean, factor, weights)


def refit(problem: Problem, selected: Ints, ridge: float) -> Floats:
    """Ridge regression of the targets on the selected features: no shrinkage by the ball."""
    out = np.zeros_like(problem.correlation)
    if selected.size:
        G = problem.gram(selected)
        G[np.diag_indices_from(G)] += ridge * np.trace(G) / selected.size
        out[selected] = np.linalg.solve(G, problem.correlation[selected])
    return out
