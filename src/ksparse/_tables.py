"""Tables of results, as pandas data frames.

pandas is imported where a table is asked for: it takes longer than all else.
"""

from __future__ import annotations

from typing import Any

__all__ = ["as_table", "render"]


def as_table(columns: dict[str, Any]) -> Any:
    """Return the columns as a `pandas.DataFrame`."""
    import pandas

    return pandas.DataFrame(columns)


def render(columns: dict[str, Any]) -> str:
    """Return lines of text with the columns under their names; missing values are "-"."""
    table = as_table(columns)
    return str(table.to_string(index=False, na_rep="-", float_format="{:.4g}".format))
