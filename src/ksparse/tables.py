"""Tables: data frames where pandas is installed, dictionaries of columns where it is not."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["as_table", "render"]


def as_table(columns: dict[str, Any]) -> Any:
    """Return a `pandas.DataFrame`, or without pandas the columns as they are."""
    try:
        import pandas
    except ImportError:
        return columns
    return pandas.DataFrame(columns)


def render(columns: dict[str, Any]) -> str:
    """Lines of text with the columns under their names."""
    texts = [[name, *(_text(value) for value in values)] for name, values in columns.items()]
    widths = [max(len(text) for text in column) for column in texts]
    rows = zip(*texts, strict=True)
    return "\n".join(
        "  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True))
        for row in rows
    )


def _text(value: Any) -> str:
    if isinstance(value, (int, np.integer)):
        return str(value)
    if isinstance(value, (float, np.floating)):
        return "-" if np.isnan(value) else f"{value:.4g}"
    return str(value)
