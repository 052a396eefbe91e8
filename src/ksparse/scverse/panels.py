"""Panels and gates in AnnData: their fields, written and read here alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ksparse._errors import InputError, Term
from ksparse.io.rules import Rule, UnsoundError, check_stored
from ksparse.panel.gates import Gate, Gates
from ksparse.scverse.expression import other_expression
from ksparse.scverse.labels import label_column
from ksparse.scverse.markers import cluster_profiles
from ksparse.scverse.schema import ANOTHER_KEY, Clusters, check_adata, field_term, sound

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = [
    "Panel",
    "check_gates_key",
    "check_panel_key",
    "cluster_column",
    "panel_columns",
    "panel_profiles",
    "read_gates",
    "read_panel",
    "write_gates",
    "write_panel",
]

PANEL = "panel"  # the column of `var` with the genes of the panel
RANK, CLUSTERS = "_rank", "_clusters"  # what follows the key in names of columns
PANEL_AGAIN = Term("panel again", text="run ksparse.tl.panel again")
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

# The columns of the genes of a panel.
GENE_RULES = {
    **{name: Rule("text", ("genes",)) for name in ("gene", "group", "direction", "why")},
    "rank": Rule("count", ("genes",), least=1),
    **{name: Rule("number", ("genes",), least=0) for name in ("gain", "explained")},
    "difference": Rule("number", ("genes",)),
}


@dataclass(frozen=True)
class Panel:
    """A panel of genes, as `ksparse.tl.panel` writes it.

    Attributes
    ----------
    genes : DataFrame
        One row for each gene, in the order of selection: gene, rank, gain, explained, group,
        direction ("up", "down"), difference and why.
    recall : DataFrame
        Held-out recall of each group: n_cells, chance, logistic, 5nn.
    explained, explained_bound : float
        The share of the groups that the genes explain, and that which all candidates would.
    params : dict
        What was asked for; without what was None.
    """

    genes: Any
    recall: Any
    explained: float
    explained_bound: float
    params: dict[str, Any]


def _holds_panel(stored: Any) -> bool:
    return isinstance(stored, Mapping) and {"genes", "recall", "explained"} <= set(stored)


def check_panel_key(adata: AnnData, key: str) -> None:
    """Raise ValueError if something else would be overwritten by a panel."""
    if _holds_panel(adata.uns.get(key)):
        return
    for part, name in (("uns", key), ("var", key), ("var", key + RANK), ("obs", key + CLUSTERS)):
        if name in getattr(adata, part):
            raise InputError(
                field_term(part, name), " exists and was not written by ",
                Term("panel tool", text="ksparse.tl.panel"), ": ", ANOTHER_KEY, ".",
            )  # fmt: skip


def cluster_column(key: str) -> str:
    """Return the column of `obs` with the clusters for which a panel was chosen."""
    return key + CLUSTERS


def write_panel(adata: AnnData, key: str, panel: Panel, clusters: Any = None) -> None:
    """Write a panel to `var` and `uns`, and the clusters that were found for it to `obs`."""
    import pandas

    places = adata.var_names.get_indexer(panel.genes["gene"])
    mask, rank = np.zeros(adata.n_vars, dtype=bool), np.full(adata.n_vars, np.nan)
    mask[places], rank[places] = True, panel.genes["rank"]
    adata.var[key], adata.var[key + RANK] = mask, rank
    if key + CLUSTERS in adata.obs:
        del adata.obs[key + CLUSTERS]  # of an earlier panel
    if clusters is not None:
        names = [str(cluster) for cluster in range(int(clusters.max()) + 1)]
        adata.obs[key + CLUSTERS] = pandas.Categorical.from_codes(clusters, categories=names)
    adata.uns[key] = {
        "params": {name: value for name, value in panel.params.items() if value is not None},
        "genes": panel.genes.set_axis([str(i) for i in range(len(panel.genes))]),
        "recall": panel.recall,
        "explained": panel.explained,
        "explained_bound": panel.explained_bound,
    }


def read_panel(adata: AnnData, key: str) -> Panel:
    """Return the panel in `uns[key]`; raise ValueError if there is none that is sound."""
    check_adata(adata)
    stored = adata.uns.get(key)
    if not _holds_panel(stored):
        raise InputError(
            field_term("uns", key), " holds no panel: ",
            Term("panel first", text=f"run ksparse.tl.panel(adata, n_genes, key_added={key!r})"),
            " first.",
        )  # fmt: skip
    genes, recall = stored["genes"], stored["recall"]
    with sound(field_term("uns", key), PANEL_AGAIN):
        if not hasattr(genes, "columns") or not hasattr(recall, "columns"):
            raise UnsoundError("genes and recall must be tables")
        check_stored({str(name): np.asarray(genes[name]) for name in genes}, GENE_RULES, {})
        shares = {name: Rule("number", least=0)
                  for name in ("explained", "explained_bound")}  # fmt: skip
        check_stored(stored, shares, {})
    return Panel(
        genes, recall, float(stored["explained"]), float(stored["explained_bound"]),
        dict(stored.get("params", {})),
    )  # fmt: skip


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


def panel_profiles(adata: AnnData, panel: Panel) -> Clusters:
    """Return size, mean and share of nonzero values in each group of ``panel.recall``.

    Genes are those of the panel, in its order; values are normalised as for the panel.
    """
    places = np.asarray(adata.var_names.get_indexer(panel.genes["gene"]), dtype=np.intp)
    if (places < 0).any():
        lost = str(panel.genes["gene"].iloc[int((places < 0).argmax())])
        raise InputError(
            f"{int((places < 0).sum())} genes of the panel are not in ", Term("adata"),
            f" (the first is {lost!r}).",
        )  # fmt: skip
    text, known = label_column(adata, str(panel.params.get("groupby")), "groupby")
    groups = [str(name) for name in panel.recall.index]
    code = {name: i for i, name in enumerate(groups)}
    codes = np.array([code.get(str(name), -1) for name in text], dtype=np.intp)
    rows = np.flatnonzero(known & (codes >= 0))
    params = panel.params
    X = other_expression(
        adata, params.get("layer"), params.get("normalize"), rows, columns=places
    )  # fmt: skip
    return cluster_profiles(X, np.arange(places.size), codes[rows], len(groups))


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
