"""Many fits in a row or side by side, with progress, keeping what is done when interrupted."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
from joblib import Parallel, delayed

from ksparse.progress import progress_bar

__all__ = ["Interrupted", "collect", "draw_seeds", "run_all"]

Result = TypeVar("Result")


class Interrupted(UserWarning):
    """The result is of what was done before an interrupt."""


def draw_seeds(rng: np.random.RandomState, n: int) -> list[int]:
    """Seeds for `n` tasks: what a task does must not depend on which worker runs it."""
    return [int(seed) for seed in rng.randint(np.iinfo(np.int32).max, size=n)]


def run_all(
    function: Callable[..., Result], tasks: Sequence[tuple[Any, ...]], n_jobs: int | None
) -> Iterator[Result]:
    """Results of all tasks, in their order, as they are done."""
    if n_jobs is None or n_jobs == 1:
        return (function(*task) for task in tasks)
    parallel = Parallel(n_jobs=n_jobs, return_as="generator")
    return iter(parallel(delayed(function)(*task) for task in tasks))


def collect(results: Iterable[Result], total: int, description: str, verbose: int) -> list[Result]:
    """All results; after an interrupt those that are done, with a warning (if there are any)."""
    done: list[Result] = []
    with progress_bar(total, description, verbose) as bar:
        try:
            for result in results:
                done.append(result)
                bar.update()
        except KeyboardInterrupt:
            if not done:
                raise
            warnings.warn(
                f"Interrupted: {len(done)} of {total} fits of the {description} are done, and the "
                "result is of these.",
                Interrupted,
                stacklevel=3,
            )
    return done
