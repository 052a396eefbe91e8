"""Progress bars on standard error: only on a terminal, only when asked for."""

from __future__ import annotations

import sys
from typing import Any

from tqdm import tqdm

from ksparse.signals import check_signals

__all__ = ["progress_bar"]


class _Bar(tqdm):  # type: ignore[misc]
    """A bar whose steps, shown or not, are where a lost interrupt is noticed."""

    def update(self, n: float | None = 1) -> bool | None:
        check_signals()
        return super().update(n)


def progress_bar(total: int | None, description: str, verbose: int) -> Any:
    """Return a bar (a context manager with `update` and `set_postfix_str`)."""
    silent = verbose <= 0 or not sys.stderr.isatty()
    return _Bar(total=total, desc=description, disable=silent, file=sys.stderr, leave=verbose > 1)
