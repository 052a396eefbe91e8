"""Decide about threads, in one place, with results that do not depend on how many.

Plain threads over kernels that release the GIL, rather than numba's own parallel
loops: those may not be entered from two threads at once on every platform, nor
survive a fork. The split is fixed by the data, never by the number of threads.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

import numpy as np
from numba import config
from threadpoolctl import ThreadpoolController, threadpool_limits

__all__ = ["blas_threads", "limited_threads", "map_parts", "openmp_threads", "split"]

Part = TypeVar("Part")
Result = TypeVar("Result")

# With fewer distances than this in an iteration, k-means runs in one thread.
SMALL_KMEANS = 100_000
# A fit whose products with the data have fewer multiplications than this runs BLAS in one thread.
SMALL_PRODUCT = 1e9

_most_threads: int | None = None
_forked = False
_thread = threading.local()  # `.in_pool`: whether it is one of the pool's


@contextmanager
def limited_threads(n: int | None) -> Iterator[None]:
    """Use at most `n` threads inside the block (None: no limit), in the whole process."""
    global _most_threads
    before = _most_threads
    with threadpool_limits(n):
        _most_threads = n
        try:
            yield
        finally:
            _most_threads = before


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


def openmp_threads(n_distances: float = np.inf) -> Any:
    """Return a context for scikit-learn's k-means, nearest neighbours and t-SNE.

    They use as many threads of OpenMP as their work is worth: on small data a second thread
    gains little, and waiting for it costs much when other processes keep it from running. In
    a forked process it is one, because OpenMP would wait for threads of the parent process.

    Parameters
    ----------
    n_distances : float, default=inf
        Number of distances in an iteration.
    """
    limit = 1 if _forked or n_distances < SMALL_KMEANS else None
    return _controller().limit(limits=limit, user_api="openmp")


def blas_threads(n_multiplications: float, *, in_parallel: bool = False) -> Any:
    """Return a context for a fit: BLAS uses as many threads as its products are worth.

    Small products wait for their slowest thread. On a machine that is busy with other things,
    that makes a fit several times as slow as one thread; on an idle one it gains little.

    Parameters
    ----------
    n_multiplications : float
        Multiplications in a product with the data.
    in_parallel : bool
        Whether products with parts of the data run at the same time as it is: then each has
        one thread.
    """
    limit = 1 if _forked or in_parallel or n_multiplications < SMALL_PRODUCT else None
    return _controller().limit(limits=limit, user_api="blas")


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    def mark() -> None:
        _thread.in_pool = True

    return ThreadPoolExecutor(threads, thread_name_prefix="ksparse", initializer=mark)


def _after_fork() -> None:
    """Forget the threads of a pool, which do not live on in a forked process."""
    global _forked
    _forked = True
    _pool.cache_clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def split(n: int, parts: int) -> list[tuple[int, int]]:
    """Return at most `parts` runs of nearly equal length that make up range(n)."""
    parts = max(1, min(n, parts))
    return [(i * n // parts, (i + 1) * n // parts) for i in range(parts)]


def map_parts(function: Callable[[Part], Result], parts: Iterable[Part]) -> list[Result]:
    """Apply `function` to every part, in threads; results in the order of the parts.

    The number of threads is numba's (the environment variable NUMBA_NUM_THREADS), or
    that of `limited_threads` if it is smaller. Where `function` calls `map_parts` itself, the
    inner parts are done one after the other.
    """
    parts = list(parts)
    threads = config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
    if _most_threads is not None:
        threads = min(threads, _most_threads)
    if min(threads, len(parts)) <= 1 or getattr(_thread, "in_pool", False):
        return [function(part) for part in parts]
    return list(_pool(threads).map(function, parts))
