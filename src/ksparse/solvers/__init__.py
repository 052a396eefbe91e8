"""Solvers of the W-step: one problem, one certificate, three ways."""

from __future__ import annotations

from collections.abc import Callable

from ksparse.solvers.fista import solve_fista
from ksparse.solvers.homotopy import LassoPaths
from ksparse.solvers.problem import Problem, Solution
from ksparse.solvers.projected_gradient import solve_projected_gradient
from ksparse.solvers.working_set import Selection, select_features, solve_working_set

__all__ = ["SOLVERS", "LassoPaths", "Problem", "Selection", "Solution", "select_features"]

SOLVERS: dict[str, Callable[..., Solution]] = {
    "working_set": solve_working_set,
    "fista": solve_fista,
    "projected_gradient": solve_projected_gradient,
}
