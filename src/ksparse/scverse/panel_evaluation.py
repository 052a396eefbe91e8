"""Evaluations and curves of gene panels in AnnData: what is read for them, and what is written."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ksparse._errors import InputError, InputWarning, Term
from ksparse._tables import as_table
from ksparse.io.rules import Rule, UnsoundError, check_stored
from ksparse.panel.evaluation import PanelEvaluation
from ksparse.panel.scoring import CLASSIFIERS, halves, read_groups
from ksparse.params import check_seed
from ksparse.scverse.expression import listed_choices
from ksparse.scverse.genes import gene_places
from ksparse.scverse.labels import MAX_CLASSES
from ksparse.scverse.schema import check_key, field_term, holds_record, sound

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = [
    "CURVE_COLUMNS",
    "check_curve",
    "check_new_field",
    "group_column",
    "has_field",
    "held_out_cells",
    "held_out_half",
    "panel_params",
    "panel_places",
    "read_curve",
    "read_evaluation",
    "write_curve",
    "write_evaluation",
]

CURVE_COLUMNS = ("method", "n_genes", "classifier", "balanced_accuracy", "se")


EVALUATE_AGAIN = Term("evaluate again", text="run ksparse.tl.evaluate_panel again")
# Two cells to choose genes with, and two to score them.
LEAST_CELLS = 4

_SHARES = {name: Rule("number", ("rows",), least=0, most=1, finite=False) for name in CLASSIFIERS}
_ERRORS = {f"{name}_se": Rule("number", ("rows",), least=0, finite=False) for name in CLASSIFIERS}
# The columns of an evaluation that are read again.
EVALUATION_RULES = {
    "scores": {
        "method": Rule("text", ("rows",)), "classifier": Rule("text", ("rows",)),
        "n_genes": Rule("count", ("rows",), least=0),
        "balanced_accuracy": Rule("number", ("rows",), least=0, most=1, finite=False),
        "se": Rule("number", ("rows",), least=0, finite=False),
    },
    "recall": {"n_cells": Rule("count", ("rows",), least=0), **_SHARES, **_ERRORS},
}  # fmt: skip


# What is evaluated ---------------------------------------------------------------------------


def panel_places(adata: AnnData, genes: Any) -> NDArray[np.intp]:
    """Return the places of the genes of a panel, in its order.

    Parameters
    ----------
    adata : AnnData
        Cells x genes.
    genes : sequence of str, or str
        Names of genes, or a column of `adata.var` that is True for the genes of the panel.
    """
    if isinstance(genes, str):
        if genes not in adata.var or adata.var[genes].dtype != bool:
            raise InputError(
                Term("genes", genes), " must be a list of names of genes, or a column of ",
                Term("adata.var"), " with True or False for each gene.",
            )  # fmt: skip
        places = np.flatnonzero(np.asarray(adata.var[genes]))
        if not places.size:
            raise InputError(Term("genes", genes), " is True for no gene: name another column.")
        return places
    return gene_places(adata, "genes", genes)


def group_column(adata: AnnData, groupby: str) -> Any:
    """Return a column of `obs` with groups; raise ValueError if it holds none."""
    if not isinstance(groupby, str) or groupby not in adata.obs:
        raise InputError(
            Term("groupby", groupby), " is not a column of ", Term("adata.obs"),
            f": {listed_choices(adata.obs)}.",
        )  # fmt: skip
    column = adata.obs[groupby]
    if (n := column.nunique()) > MAX_CLASSES:
        raise InputError(
            Term("groupby", groupby), f" has {n} different values, more than {MAX_CLASSES}: name a "
            "column with groups of cells.",
        )  # fmt: skip
    if n == 0:
        raise InputError(Term("groupby", groupby), f" is missing for all {len(column)} cells.")
    return column


def held_out_cells(adata: AnnData, held_out: Any) -> Any:
    """Return a mask of cells (None: all) from a mask or a column of `obs`."""
    if not isinstance(held_out, str):
        return held_out
    if held_out not in adata.obs:
        raise InputError(
            Term("held_out", held_out), " is not a column of ", Term("adata.obs"),
            f": {listed_choices(adata.obs)}.",
        )  # fmt: skip
    return np.asarray(adata.obs[held_out])


def held_out_half(adata: AnnData, groupby: str, random_state: Any) -> NDArray[np.bool_]:
    """Return a mask of half of the cells of every group that has at least 4.

    Cells of smaller groups, and those without a group, are not in it.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)  # the tools tell which are left out
        groups = read_groups(group_column(adata, groupby), adata.n_obs, least=LEAST_CELLS)
    mask = np.zeros(adata.n_obs, dtype=bool)
    mask[halves(groups, check_seed(random_state))[1].rows] = True
    return mask


def check_new_field(adata: AnnData, key_added: str) -> None:
    """Raise ValueError if a table cannot be written to `uns[key_added]`."""
    check_key("key_added", key_added)
    if holds_record(adata, key_added):
        raise InputError(Term("key_added", key_added), " holds a result: give another name.")


def panel_params(adata: AnnData, key: str) -> dict[str, Any]:
    """Return the parameters that are recorded with a panel, as far as there are any."""
    stored = adata.uns.get(key)
    params = stored.get("params") if isinstance(stored, Mapping) else None
    return dict(params) if isinstance(params, Mapping) else {}


# What is written -----------------------------------------------------------------------------


def write_evaluation(
    adata: AnnData,
    key: str,
    result: PanelEvaluation,
    names: NDArray[np.str_],
    params: Mapping[str, Any],
) -> None:
    """Write an evaluation to `uns[key]`.

    `names` are those of all genes that `result` counts. Names of groups are values, never
    columns: files allow no "/" in the name of a column.
    """
    genes = result.genes.drop(columns="feature")
    partner = result.genes["partner"].to_numpy()
    genes["partner"] = np.where(partner < 0, "", names[partner]).astype(object)
    adata.uns[key] = {
        "scores": _with_text_index(result.scores),
        "recall": result.recall,
        "confusion": _tidy_confusion(result),
        "genes": genes.set_axis(names[result.genes["feature"]].astype(object)).rename_axis("gene"),
        "summary": {
            name: getattr(result, name)
            for name in ("neighbour_overlap", "chance_overlap", "mean_abs_correlation",
                         "max_abs_correlation", "n_cells", "n_splits")
        },
        "params": {name: value for name, value in params.items() if value is not None},
    }  # fmt: skip


def _tidy_confusion(result: PanelEvaluation) -> Any:
    """Return held-out counts with one row for each classifier, group and predicted group."""
    rows: dict[str, list[Any]] = {"classifier": [], "group": [], "predicted": [], "n_cells": []}
    for classifier, table in result.confusion.items():
        for (i, j), count in np.ndenumerate(table.to_numpy()):
            values = (classifier, table.index[i], table.columns[j], int(count))
            for column, value in zip(rows.values(), values, strict=True):
                column.append(value)
    return _with_text_index(as_table(rows))


def _with_text_index(table: Any) -> Any:
    """Return a table with the index that it would have after it was written and read."""
    return table.set_axis([str(i) for i in range(len(table))])


def has_field(adata: AnnData, key: str) -> bool:
    """Return whether something is stored in `uns[key]`."""
    return key in adata.uns


def read_evaluation(adata: AnnData, key: str) -> dict[str, Any]:
    """Return the evaluation in `uns[key]`; raise ValueError if there is none that is sound."""
    stored = adata.uns.get(key)
    if not isinstance(stored, Mapping) or not {*EVALUATION_RULES, "summary", "params"} <= set(
        stored
    ):
        raise InputError(
            field_term("uns", key), " holds no evaluation of a panel: ",
            Term("evaluate first", text="run ksparse.tl.evaluate_panel first"), ".",
        )  # fmt: skip
    with sound(field_term("uns", key), EVALUATE_AGAIN):
        for name, rules in EVALUATION_RULES.items():
            if not hasattr(stored[name], "columns"):
                raise UnsoundError(f"{name} must be a table")
            table = {str(column): np.asarray(stored[name][column]) for column in stored[name]}
            check_stored(table, rules, {})
    return dict(stored)


def write_curve(adata: AnnData, key: str, curve: Any) -> None:
    """Write a curve of panels to `uns[key]`."""
    adata.uns[key] = _with_text_index(curve)


def read_curve(adata: AnnData, key: str) -> Any:
    """Return the curve in `uns[key]`; raise ValueError if there is none."""
    if not hasattr(stored := adata.uns.get(key), "columns"):
        raise InputError(
            field_term("uns", key), " holds no curve: ",
            Term("panel curve first", text="run ksparse.tl.panel_curve first"), ".",
        )  # fmt: skip
    return check_curve(stored)


def check_curve(curve: Any) -> Any:
    """Return a tidy table of scores; raise ValueError if it is none."""
    if missing := [name for name in CURVE_COLUMNS if name not in curve.columns]:
        raise InputError(
            f"The curve has no column {missing[0]!r}: it needs {', '.join(CURVE_COLUMNS)}."
        )
    if not len(curve):
        raise InputError("The curve has no rows: there is nothing to draw.")
    for name in ("n_genes", "balanced_accuracy", "se"):
        if curve[name].dtype.kind not in "iuf":
            raise InputError(f"The column {name!r} of the curve must hold numbers.")
    return curve
