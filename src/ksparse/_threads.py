"""Run compiled kernels in threads, with results that do not depend on how many.

Plain threads over kernels that release the GIL, rather than numba's own parallel
loops: those may not be entered from two threads at once on every platform, nor
survive a fork. The split is fixed by the data, never by the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from numba import config

__all__ = ["map_parts", "split"]

Part = TypeVar("Part")
Result = TypeVar("Result")


def split(n: int, parts: int) -> list[tuple[int, int]]:
    """Cut range(n) in at most `parts` runs of nearly equal length."""
    parts = max(1, min(n, parts))
    return [(i * n // parts, (i + 1) * n // parts) for i in range(parts)]


def map_parts(function: Callable[[Part], Result], parts: Iterable[Part]) -> list[Result]:
    """Apply `function` to every part, in threads; results in the order of the parts.

    The number of threads is numba's (the environment variable NUMBA_NUM_THREADS).
    """
    parts = list(parts)
    threads = min(len(parts), config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]
    if threads <= 1:
        return [function(part) for part in parts]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(function, parts))
