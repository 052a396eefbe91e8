"""Numbers, groups and settings of a page as plain lists and text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ksparse._plotting import cluster_colours

__all__ = ["call_text", "coloured_groups", "number", "numbers", "run_tables", "table_rows"]


def number(value: Any) -> float | None:
    """Return a number with five digits; None if it is not finite."""
    plain = float(value)
    return float(f"{plain:.5g}") if np.isfinite(plain) else None


def numbers(values: Any) -> list[float | None]:
    """Return all numbers of an array with five digits."""
    return [number(value) for value in np.asarray(values).ravel()]


def coloured_groups(names: list[str], size: Any) -> list[dict[str, Any]]:
    """Return name, size and colour of each cluster, class or group."""
    colours = cluster_colours(len(names))
    return [
        {"name": name, "size": int(count), "colour": colour}
        for name, count, colour in zip(names, size, colours, strict=True)
    ]


def _text(value: Any) -> str:
    if isinstance(value, np.ndarray | list | tuple):
        items = [str(item) for item in np.ravel(np.asarray(value, dtype=object))[:6]]
        more = f", ... ({np.size(value)} in all)" if np.size(value) > len(items) else ""
        return ", ".join(items) + more
    if isinstance(value, float | np.floating):
        return f"{float(value):.6g}"
    if isinstance(value, np.generic):
        value = value.item()
    return str(value)


def table_rows(values: Mapping[str, Any]) -> list[list[str]]:
    """Return pairs of texts."""
    return [[str(name), _text(value)] for name, value in values.items()]


def run_tables(run: dict[str, Any]) -> list[Any]:
    """Return the named tables of an account of a run."""
    titles = (("Input", "input"), ("Options", "options"), ("Seconds", "seconds"))
    return [[title, table_rows(run[name])] for title, name in titles if run.get(name)]


def call_text(function: str, first: Any, params: Mapping[str, Any]) -> str:
    """Return the call of a tool: its first argument after adata, and parameters by name."""
    options = []
    for name, value in params.items():
        plain = value.item() if isinstance(value, np.generic) else value
        text = repr(plain) if isinstance(plain, bool | int | float | str) else "..."
        if name == "restrict_to":
            column, *groups = (str(word) for word in value)
            text = repr((column, groups))
        elif name == "keep":
            text = repr([str(gene) for gene in np.ravel(value)])
        options.append(f"{name}={text}")
    return f"{function}({', '.join(['adata', str(first), *options])})"
