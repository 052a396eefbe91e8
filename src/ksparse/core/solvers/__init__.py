"""Solvers of the W-step for a given radius: one file per solver, and the registry."""

from __future__ import annotations

from ksparse.core.solvers.fista import solve_fista
from ksparse.core.solvers.fista_paper import solve_fista_paper
from ksparse.core.solvers.projected_gradient import solve_projected_gradient
from ksparse.core.solvers.working_set import solve_working_set
from ksparse.core.w_step import Solver

__all__ = ["SOLVERS"]

SOLVERS: dict[str, Solver] = {
    "working_set": Solver(solve_working_set, balls=("l1",), exact=True),
    "fista": Solver(solve_fista, options=("threshold",)),
    "fista_paper": Solver(solve_fista_paper, options=("threshold",)),
    "projected_gradient": Solver(solve_projected_gradient),
}
