"""Evaluations and curves of gene panels in AnnData: what is read for them, and what is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ksparse._errors import InputError, Term
from ksparse._tables import as_table
from ksparse.panel.evaluation import PanelEvaluation
from ksparse.scverse.expression import listed_choices
from ksparse.scverse.genes import gene_places
from ksparse.scverse.labels import MAX_CLASSES
from ksparse.scverse.schema import check_key, field_term, holds_record

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = [
    "CURVE_COLUMNS",
    "check_curve",
    "check_new_field",
    "group_column",
    "held_out_cells",
    "panel_params",
    "panel_places",
    "read_curve",
    "write_curve",
    "write_evaluation",
]

CURVE_COLUMNS = ("method", "n_genes", "classifier", "balanced_accuracy", "se")


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
