"""The tables of gene panels, as columns for .csv files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ksparse.io.files import write_csv
from ksparse.panel.scoring import CLASSIFIERS
from ksparse.scverse.labels import label_column
from ksparse.scverse.panels import Panel

__all__ = [
    "clusters_table",
    "confusion_table",
    "curve_rows",
    "evaluated_genes",
    "evaluation_rows",
    "gate_table",
    "panel_table",
    "score_of",
    "write_table",
]

Rows = list[dict[str, Any]]
NOTHING = {"measure": "", "method": "", "classifier": "", "group": "", "n_genes": "",
           "n_cells": "", "value": "", "se": "", "chance": ""}  # fmt: skip


def write_table(path: Path, rows: Rows) -> None:
    """Write rows with the same columns; numbers have six digits, and missing ones are empty."""
    write_csv(path, list(rows[0]), ([_text(value) for value in row.values()] for row in rows))


def _text(value: Any) -> Any:
    if isinstance(value, float | np.floating):
        return "" if np.isnan(value) else f"{value:.6g}"
    return value


def panel_table(panel: Panel, profiles: Any) -> Rows:
    """Return rank, gene, reasons, and mean and share of cells of each group."""
    groups = [str(name) for name in panel.recall.index]
    names = ("rank", "gene", "gain", "explained", "group", "direction", "difference", "why")
    rows = []
    for i, gene in enumerate(panel.genes[list(names)].itertuples(index=False, name=None)):
        row = dict(zip(names, gene, strict=True))
        for kind, values in (("mean", profiles.mean), ("fraction", profiles.fraction)):
            row |= {f"{kind}_{name}": values[g, i] for g, name in enumerate(groups)}
        rows.append(row)
    return rows


def gate_table(gates: Any, without: Any) -> Rows:
    """Return a sheet: for each group its genes, on which side of which threshold, and scores.

    `without` are the gates that were found without the held-out cells, with a panel that was
    chosen without them, too.
    """
    most = max(len(gate.genes) for gate in gates.gates)
    again = {gate.group: gate for gate in without.gates}
    rows = []
    for gate in gates.gates:
        row: dict[str, Any] = {"group": gate.group, "gate": gate.text, "n_genes": len(gate.genes)}
        for i in range(most):
            there = i < len(gate.genes)
            side = {"+": "above", "-": "not above"}[gate.signs[i]] if there else ""
            # As many digits as give the same number again.
            threshold = repr(float(gate.thresholds[i])) if there else ""
            row |= {f"gene_{i + 1}": gate.genes[i] if there else "", f"side_{i + 1}": side,
                    f"threshold_{i + 1}": threshold}  # fmt: skip
        row |= {name: getattr(gate, name) for name in ("precision", "recall", "F", "F_se",
                                                       "F_training", "n_cells",
                                                       "n_training")}  # fmt: skip
        other = again[gate.group]
        row |= {"held_out_gate": other.text, "held_out_precision": other.precision,
                "held_out_recall": other.recall, "held_out_F": other.F,
                "held_out_F_se": other.F_se}  # fmt: skip
        rows.append(row)
    return rows


def evaluation_rows(result: dict[str, Any], chance: Any, *, structure: bool = False) -> Rows:
    """Return one row for each figure of an evaluation.

    `chance` is the share of each group; `structure` adds neighbours and correlations.
    """
    recall, scores = result["recall"], result["scores"]
    n_cells, n_genes = int(recall["n_cells"].sum()), int(scores["n_genes"].iloc[0])
    rows = [
        NOTHING | {"measure": "balanced_accuracy", "method": str(row.method),
                   "classifier": str(row.classifier), "n_genes": int(row.n_genes),
                   "n_cells": n_cells, "value": float(row.balanced_accuracy), "se": float(row.se),
                   "chance": 1 / len(recall)}
        for row in scores.itertuples()
    ]  # fmt: skip
    for name in CLASSIFIERS:
        rows += [
            NOTHING | {"measure": "recall", "method": "panel", "classifier": name,
                       "group": str(group), "n_genes": n_genes,
                       "n_cells": int(recall["n_cells"][group]), "value": recall[name][group],
                       "se": recall[f"{name}_se"][group], "chance": float(chance[group])}
            for group in recall.index
        ]  # fmt: skip
    if structure:
        summary = result["summary"]
        for name, by_chance in (("neighbour_overlap", summary["chance_overlap"]),
                                ("mean_abs_correlation", ""),
                                ("max_abs_correlation", "")):  # fmt: skip
            rows.append(NOTHING | {"measure": name, "method": "panel", "n_genes": n_genes,
                                   "n_cells": int(summary["n_cells"]), "value": summary[name],
                                   "chance": by_chance})  # fmt: skip
    return rows


def curve_rows(curve: Any, n_cells: int) -> Rows:
    """Return one row for each method, classifier and number of genes."""
    return [
        NOTHING | {"measure": "balanced_accuracy", "method": str(row.method),
                   "classifier": str(row.classifier), "n_genes": int(row.n_genes),
                   "n_cells": n_cells, "value": float(row.balanced_accuracy), "se": float(row.se),
                   "chance": float(row.chance)}
        for row in curve.itertuples()
    ]  # fmt: skip


def clusters_table(adata: Any, groupby: str) -> Rows:
    """Return the cluster of each cell."""
    text, _ = label_column(adata, groupby)
    return [{"cell": str(cell), "cluster": str(cluster)}
            for cell, cluster in zip(adata.obs_names, text, strict=True)]  # fmt: skip


def confusion_table(result: dict[str, Any]) -> Rows:
    """Return the number of held-out cells by classifier, group and predicted group."""
    return [dict(row) for row in result["confusion"].to_dict("records")]


def evaluated_genes(result: dict[str, Any]) -> Rows:
    """Return the range of each gene, and the gene with which it is most correlated."""
    return [dict(row) for row in result["genes"].reset_index().to_dict("records")]


def score_of(result: dict[str, Any], method: str, classifier: str) -> tuple[float, float]:
    """Return balanced accuracy and its standard error."""
    scores = result["scores"]
    row = scores[(scores["method"] == method) & (scores["classifier"] == classifier)].iloc[0]
    return float(row["balanced_accuracy"]), float(row["se"])
