"""Panels and gates in AnnData: their fields, written and read here alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ksparse._errors import InputError, Term
from ksparse.io.rules import Rule, UnsoundError, check_stored
from ksparse.panel.gates import Gate, Gates
from ksparse.scverse.schema import ANOTHER_KEY, check_adata, field_term, sound

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = ["check_gates_key", "panel_columns", "read_gates", "write_gates"]

PANEL = "panel"  # the column of `var` with the genes of the panel
GATES_AGAIN = Term("gates again", text="run ksparse.tl.gates again")

# The columns from which gates are read. Lists are JSON text: files hold no lists in tables.
RULES = {
    **{name: Rule("text", ("groups",)) for name in ("group", "genes", "signs", "thresholds")},
    **{name: Rule("number", ("groups",), least=0, most=1, finite=False)
       for name in ("precision", "recall", "F", "F_training")},
    "F_se": Rule("number", ("groups",), least=0, finite=False),
    "n_cells": Rule("count", ("groups",), least=0),
    "n_training": Rule("count", ("groups",), least=0),
    "beta": Rule("number", ("groups",), least=0),
}  # fmt: skip


def panel_columns(adata: AnnData) -> NDArray[np.intp] | None:
    """Return the places of the genes of the panel; None if there is no panel."""
    if PANEL not in adata.var:
        return None
    mask = np.asarray(adata.var[PANEL])
    if mask.dtype != bool or not mask.any():
        raise InputError(
            field_term("var", PANEL), f" must be True or False for each of the {adata.n_vars} "
            "genes, and True for some: rename it, or give ", Term("genes"), ".",
        )  # fmt: skip
    return np.flatnonzero(mask)


def _holds_gates(stored: Any) -> bool:
    return hasattr(stored, "columns") and {"group", "gate", "thresholds"} <= set(stored.columns)


def check_gates_key(adata: AnnData, key: str) -> None:
    """Raise ValueError if `uns[key]` holds something else than gates."""
    if key in adata.uns and not _holds_gates(adata.uns[key]):
        raise InputError(field_term("uns", key), " holds something else: ", ANOTHER_KEY, ".")


def write_gates(
    adata: AnnData, key: str, gates: Gates, *, layer: str | None, normalized: str | None
) -> None:
    """Write gates to `uns[key]`, a data frame, with the data to which thresholds belong."""
    table = gates.table
    for name in ("genes", "thresholds"):
        table[name] = [json.dumps(list(values)) for values in table[name]]
    table["layer"] = layer or "X"
    table["normalized"] = normalized or "no"
    adata.uns[key] = table


def read_gates(adata: AnnData, key: str) -> Gates:
    """Return the gates in `uns[key]`; raise ValueError if there are none that are sound."""
    check_adata(adata)
    stored = adata.uns.get(key)
    if not _holds_gates(stored):
        raise InputError(
            field_term("uns", key), " holds no gates: ",
            Term("gates first", text=f"run ksparse.tl.gates(adata, groupby, key_added={key!r})"),
            " first.",
        )  # fmt: skip
    columns = {str(name): np.asarray(stored[name]) for name in stored.columns}
    with sound(field_term("uns", key), GATES_AGAIN):
        check_stored(columns, RULES, {})
        gates = tuple(_gate(columns, i) for i in range(len(stored)))
    names = dict.fromkeys(gene for gate in gates for gene in gate.genes)
    return Gates(gates, tuple(names))


def _gate(columns: dict[str, NDArray[Any]], row: int) -> Gate:
    values = {name: columns[name][row] for name in RULES}
    genes = _list("genes", values.pop("genes"), str)
    thresholds = _list("thresholds", values.pop("thresholds"), float)
    group, signs = str(values.pop("group")), str(values.pop("signs"))
    if not len(genes) == len(signs) == len(thresholds) or set(signs) - {"+", "-"}:
        raise UnsoundError(f"genes, signs and thresholds of {group!r} do not belong together")
    plain = {name: value.item() for name, value in values.items()}
    return Gate(group, tuple(genes), signs, tuple(thresholds), **plain)


def _list(name: str, text: str, kind: type) -> list[Any]:
    """Return a list from JSON; raise UnsoundError if it is none of this kind."""
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, list) or not all(isinstance(value, kind) for value in values):
        raise UnsoundError(f"{name} holds no list of {'text' if kind is str else 'numbers'}")
    return values
