"""Many fits in a row or in several processes, with progress."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
from joblib import Parallel, delayed

from ksparse._processes import end_with_parent, safe_children
from ksparse._progress import progress_bar

__all__ = ["PartialResultWarning", "collect", "draw_seeds", "run_all"]

Result = TypeVar("Result")


class PartialResultWarning(UserWarning):
    """The result is of what was done before an interrupt."""


def draw_seeds(rng: np.random.RandomState, n: int) -> list[int]:
    """Return seeds for `n` tasks: what a task does must not depend on which worker runs it."""
    return [int(seed) for seed in rng.randint(np.iinfo(np.int32).max, size=n)]


def run_all(
    function: Callable[..., Result], tasks: Sequence[tuple[Any, ...]], n_jobs: int | None
) -> Iterator[Result]:
    """Yield the results of all tasks, in their order, as they are done.

    The first entry of every task is the matrix that is fitted.
    """
    if n_jobs is None or n_jobs == 1:
        return (function(*task) for task in tasks)
    for task in tasks[:1]:
        task[0].check_shareable()
    return _in_processes(function, tasks, n_jobs)


def _in_processes(
    function: Callable[..., Result], tasks: Sequence[tuple[Any, ...]], n_jobs: int
) -> Iterator[Result]:
    parallel = Parallel(n_jobs=n_jobs, return_as="generator")
    with safe_children():
        yield from parallel(delayed(_task)(os.getpid(), function, task) for task in tasks)


def _task(parent: int, function: Callable[..., Result], task: tuple[Any, ...]) -> Result:
    end_with_parent(parent)  # or a worker does all tasks in its queue, for nobody
    return function(*task)


def collect(
    results: Iterable[Result], total: int, description: str, verbose: int, keep_partial: bool
) -> list[Result]:
    """Return all results.

    After an interrupt (Ctrl-C), with `keep_partial`: those that are done, with a warning.
    """
    done: list[Result] = []
    with progress_bar(total, description, verbose) as bar:
        try:
            for result in results:
                done.append(result)
                bar.update()
        except KeyboardInterrupt:
            if not done or not keep_partial:
                raise
            warnings.warn(
                f"Interrupted: {len(done)} of {total} fits of the {description} are done, and the "
                "result is of these.",
                PartialResultWarning,
                stacklevel=3,
            )
    return done
