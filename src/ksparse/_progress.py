"""Progress bars: in notebooks and on terminals, only when asked for."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it warns of notebooks without widgets
    from tqdm.auto import tqdm

__all__ = ["each_step", "progress_bar"]

IN_NOTEBOOK = any(kind.__module__ == "tqdm.notebook" for kind in tqdm.__mro__)

_callbacks: list[Callable[[], None]] = []


@contextmanager
def each_step(callback: Callable[[], None]) -> Iterator[None]:
    """Call a function at every step of every bar, shown or not, while the block runs."""
    _callbacks.append(callback)
    try:
        yield
    finally:
        _callbacks.remove(callback)


class _Bar(tqdm):  # type: ignore[misc]
    def update(self, n: float | None = 1) -> bool | None:
        for callback in _callbacks:
            callback()
        return super().update(n)


def progress_bar(total: int | None, description: str, verbose: int) -> Any:
    """Return a bar: a context manager with `update` and `set_postfix_str`.

    It is shown if `verbose` is at least 1, in a notebook or if standard error is a terminal.
    """
    silent = verbose <= 0 or not (IN_NOTEBOOK or sys.stderr.isatty())
    return _Bar(total=total, desc=description, disable=silent, file=sys.stderr, leave=verbose > 1)
