"""Progress bars on standard error: only on a terminal, only when asked for."""

from __future__ import annotations

import sys
from typing import Any

from tqdm import tqdm

__all__ = ["progress_bar"]


def progress_bar(total: int | None, description: str, verbose: int) -> Any:
    """Return a bar (a context manager with `update` and `set_postfix_str`)."""
    silent = verbose <= 0 or not sys.stderr.isatty()
    return tqdm(total=total, desc=description, disable=silent, file=sys.stderr, leave=verbose > 1)
