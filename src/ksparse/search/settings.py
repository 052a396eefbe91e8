"""What a fit is told: checked settings, and where its finished steps are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ksparse.core.alternation import State
from ksparse.core.balls import Ball
from ksparse.core.targets import TargetRule
from ksparse.core.w_step import Selector, Solver
from ksparse.matrix import Floats, Ints

if TYPE_CHECKING:
    from ksparse.search.known import Known

__all__ = ["Loop", "Settings", "StepRecord"]

Result = TypeVar("Result")


@dataclass(frozen=True)
class Loop:
    """When the alternation stops.

    Attributes
    ----------
    n_init : int
        k-means++ replicates in every Y-step, besides the run from the current labels.
    max_loops : int
        Largest number of loops.
    tol : float or None
        Converged when labels (1 - ARI) change by no more than this between loops, and the
        selected features by no more than five times this share; None always runs
        `max_loops`.
    """

    n_init: int = 5
    max_loops: int = 10
    tol: float | None = 0.01


@dataclass(frozen=True)
class Settings:
    """What a fit needs to know; see `KSparse` for the meaning of each.

    Checked values: `n_features` is a number or None (choose it, unless there is an `eta`),
    and `starts` holds "auto", names of starts and label vectors. `selector` selects in the
    loops; `few`, if there is one, after them (`always`, or if fewer features are asked for than
    the clusters need). `known` are labels that samples keep.
    """

    n_clusters: int
    n_features: int | None
    eta: float | None
    costs: Floats
    starts: list[str | Ints]
    n_components: int
    selector: Selector
    few: Selector | None
    always: bool
    solver: Solver
    solver_options: dict[str, Any]
    ball: Ball
    targets: TargetRule
    relax: bool
    ridge: float
    loop: Loop
    sigma: float
    known: Known | None = None


class StepRecord(Protocol):
    """Where the finished steps of a run are kept, such as a checkpoint."""

    def once(self, name: str, compute: Callable[[], Result]) -> Result:
        """Return what a step computes, or computed in an earlier run."""
        ...

    def states(
        self, name: str, resume: Callable[[State | None], Iterator[State]]
    ) -> Iterator[State]:
        """Yield the states that were kept, and then those of ``resume(last one or None)``."""
        ...
