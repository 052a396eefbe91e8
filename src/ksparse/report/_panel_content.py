"""The content of the page about a gene panel, as plain lists, numbers and text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ksparse._plotting import COLOURS
from ksparse.panel.scoring import CLASSIFIERS
from ksparse.report._values import (
    call_text,
    coloured_groups,
    number,
    numbers,
    run_tables,
    table_rows,
)
from ksparse.scverse.markers import diagonal_order
from ksparse.scverse.panel_evaluation import has_field, read_curve, read_evaluation
from ksparse.scverse.panels import Panel, panel_profiles, read_gates, read_panel
from ksparse.scverse.schema import package_versions

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = ["panel_content"]

# Genes in the dot plot.
MAX_DOTS = 150
TITLES = {"logistic": "Logistic regression", "5nn": "5 nearest neighbours"}
# The methods of a curve: what they are called, and their places in the palette (None: grey).
METHODS = {"ksparse": ("ksparse", 0), "wilcoxon": ("Wilcoxon", 1), "hvg": ("variance", 2),
           "random": ("random", None)}  # fmt: skip


def panel_content(
    adata: AnnData,
    key: str,
    evaluation_key: str,
    curve_key: str,
    gates_key: str,
    half_gates_key: str | None,
    title: str | None,
    run: dict[str, Any] | None,
) -> dict[str, Any]:
    """Return everything that the page shows; parameters are those of `write_panel_report`."""
    panel, run = read_panel(adata, key), run or {}
    profiles = panel_profiles(adata, panel)
    groups = [str(name) for name in panel.recall.index]
    scores = _held_out(adata, evaluation_key, panel)
    curve = read_curve(adata, curve_key) if has_field(adata, curve_key) else None
    n_cells = int(profiles.size.sum())
    return {
        "title": str(title or "") or f"{len(panel.genes)} genes for {len(groups)} groups of cells",
        "noun": "cluster" if "n_clusters" in panel.params else "group",
        "clusters": coloured_groups(groups, profiles.size),
        "palette": list(COLOURS),
        "genes": _genes(panel, profiles, groups),
        "dots": _dots(profiles.mean),
        "dots_hint": _dots_hint(len(panel.genes)),
        "curve": _curve(curve, scores, len(panel.genes)),
        "recall": _recall(scores, groups),
        "recall_hint": scores["hint"],
        "gates": _gates(adata, gates_key, half_gates_key, groups),
        "unit": _unit(panel),
        "story": _story(panel, profiles, scores, adata.n_vars, run),
        "tiles": [
            ["genes", f"{len(panel.genes):,}"],
            ["groups", str(len(groups))],
            ["cells", f"{n_cells:,}"],
            ["balanced accuracy, held out", _percent(scores["logistic"][0])],
            ["of the groups explained", f"{panel.explained:.0%}"],
        ],
        "notes": [str(note) for note in run.get("notes", [])],
        **_settings(panel, run),
    }


def _percent(value: float) -> str:
    return f"{value:.1%}"


def _held_out(adata: AnnData, key: str, panel: Panel) -> dict[str, Any]:
    """Return recall and balanced accuracy of cells that had no part in choosing genes."""
    if has_field(adata, key):
        result = read_evaluation(adata, key)
        table, scores = result["recall"], result["scores"]
        same = sorted(map(str, table.index)) == sorted(map(str, panel.recall.index))
        if str(result["params"].get("held_out")) == "yes" and same:
            own = scores[scores["method"] == "panel"].set_index("classifier")
            figures = {name: (float(own["balanced_accuracy"][name]), float(own["se"][name]))
                       for name in CLASSIFIERS}  # fmt: skip
            return figures | {
                "table": table,
                "n_genes": int(scores["n_genes"].iloc[0]),
                "hint": "Cells that were held out: a panel was chosen in the same way without "
                "these cells, and classifiers with its genes are cross-validated on them. The "
                "line in a bar is the share of the group among the cells, what guesses would find.",
            }
    figures = {name: (float(panel.recall[name].mean()), np.nan) for name in CLASSIFIERS}
    return figures | {
        "table": panel.recall,
        "n_genes": len(panel.genes),
        "hint": "Half of the cells of every group, which were held out: genes were chosen in the "
        "same way, and classifiers fitted, with the other half. The line in a bar is the share of "
        "the group among the cells, what guesses would find.",
    }


def _genes(panel: Panel, profiles: Any, groups: list[str]) -> list[dict[str, Any]]:
    return [
        {
            "rank": int(row.rank),
            "name": str(row.gene),
            "gain": number(row.gain),
            "explained": number(row.explained),
            "cluster": groups.index(str(row.group)),
            "up": str(row.direction) == "up",
            "difference": number(row.difference),
            "why": str(row.why),
            "mean": numbers(profiles.mean[:, i]),
            "fraction": numbers(profiles.fraction[:, i]),
        }
        for i, row in enumerate(panel.genes.itertuples())
    ]


def _dots(mean: Any) -> list[list[int]]:
    """Return pairs (place of a gene, group in which it is highest) in the order of groups."""
    order, marked = diagonal_order(mean[:, :MAX_DOTS])
    return [[int(j), int(group)] for j, group in zip(order, marked, strict=True)]


def _dots_hint(n_genes: int) -> str:
    hint = (
        "Genes stand in the order of the groups in which their mean is highest. Size: share of "
        "the cells in which the gene is not zero. Colour: mean expression, scaled for each gene."
    )
    return hint + (f" The first {MAX_DOTS} of {n_genes} genes." if n_genes > MAX_DOTS else "")


def _curve(curve: Any, scores: dict[str, Any], n_genes: int) -> list[dict[str, Any]]:
    """Return one picture for each classifier: lines of methods, and the point of the panel."""
    if curve is None:
        return []
    counts = sorted({int(n) for n in curve["n_genes"]})
    pictures = []
    for classifier in dict.fromkeys(map(str, curve["classifier"])):
        part = curve[curve["classifier"].astype(str) == classifier]
        series = []
        for method in dict.fromkeys(map(str, part["method"])):
            line = part[part["method"].astype(str) == method].set_index("n_genes")
            name, place = METHODS.get(method, (method, None))
            series.append({"name": name, "colour": None if place is None else COLOURS[place],
                           "values": [number(line["balanced_accuracy"].get(n, np.nan))
                                      for n in counts],
                           "errors": [number(line["se"].get(n, np.nan))
                                      for n in counts]})  # fmt: skip
        value, se = scores.get(classifier, (np.nan, np.nan))
        pictures.append({
            "title": TITLES.get(classifier, classifier), "n_genes": counts, "series": series,
            "chance": number(part["chance"].iloc[0]) if "chance" in part else None,
            "panel": {"n_genes": n_genes, "value": number(value), "error": number(se)},
        })  # fmt: skip
    return pictures


def _recall(scores: dict[str, Any], groups: list[str]) -> list[dict[str, Any]]:
    table = scores["table"].set_axis([str(name) for name in scores["table"].index])
    n_cells = table["n_cells"]
    chance = table["chance"] if "chance" in table else n_cells / n_cells.sum()
    rows = []
    for place, name in enumerate(groups):
        row: dict[str, Any] = {
            "cluster": place,
            "n_cells": int(n_cells[name]),
            "chance": number(chance[name]),
        }
        for classifier in CLASSIFIERS:
            error = table[f"{classifier}_se"][name] if f"{classifier}_se" in table else np.nan
            row[classifier] = [number(table[classifier][name]), number(error)]
        rows.append(row)
    return rows


def _gates(
    adata: AnnData, key: str, half_key: str | None, groups: list[str]
) -> list[dict[str, Any]]:
    """Return the gates of the groups of the panel."""
    if not has_field(adata, key):
        return []
    again = {}
    if half_key is not None and has_field(adata, half_key):
        again = {gate.group: gate for gate in read_gates(adata, half_key).gates}
    rows = []
    for gate in read_gates(adata, key).gates:
        if gate.group not in groups:
            continue
        other = again.get(gate.group)
        rows.append({
            "cluster": groups.index(gate.group),
            "conditions": [[gene, sign, number(threshold)] for gene, sign, threshold
                           in zip(gate.genes, gate.signs, gate.thresholds, strict=True)],
            "precision": number(gate.precision), "recall": number(gate.recall),
            "F": number(gate.F), "F_se": number(gate.F_se),
            "held_out": None if other is None else
            {"gate": other.text, "F": number(other.F), "F_se": number(other.F_se)},
        })  # fmt: skip
    return rows


def _unit(panel: Panel) -> str:
    if str(panel.params.get("normalize", "")) == "log1p":
        return "Thresholds are logarithms of 1 + counts per 10,000."
    return "Thresholds are in the unit of the data."


def _story(
    panel: Panel, profiles: Any, scores: dict[str, Any], n_vars: int, run: dict[str, Any]
) -> str:
    """Return a paragraph about the panel, the method, and how good it is."""
    source = run.get("input", {}).get("name")
    params, k = panel.params, len(panel.recall)
    what = f"{k} clusters" if "n_clusters" in params else f"{k} groups ({params.get('groupby')})"
    text = [
        f"{f'In {source}, ksparse' if source else 'ksparse'} chose {len(panel.genes):,} of "
        f"{n_vars:,} genes that together tell {what} of {int(profiles.size.sum()):,} cells apart."
    ]
    if str(params.get("normalize", "")) == "log1p":
        text.append("Counts were scaled to 10,000 per cell and log-transformed.")
    same = float(params.get("balance", 1.0)) == 1
    text.append(
        "Genes were taken one after the other, each the one that explains most of what those "
        f"before leave of the groups{', of which every one counts the same' if same else ''}."
    )
    value, error = scores["logistic"]
    accuracy = _percent(value) + ("" if np.isnan(error) else f" ± {_percent(error)}")
    text.append(
        "On cells that had no part in choosing genes, logistic regression with "
        f"{scores['n_genes']} genes that were chosen in the same way finds {accuracy} of "
        f"the cells of a group, on average over groups; guesses would find {1 / k:.1%}."
    )
    return " ".join(text)


def _settings(panel: Panel, run: dict[str, Any]) -> dict[str, Any]:
    result = {"genes": len(panel.genes), "explained": panel.explained,
              "explained by all candidates": panel.explained_bound}  # fmt: skip
    tables = [["Result", table_rows(result)], ["Parameters", table_rows(panel.params)]]
    tables += run_tables(run)
    tables.append(["Versions", table_rows(package_versions())])
    left_out = {"n_genes"} | ({"groupby"} if "n_clusters" in panel.params else set())
    params = {name: value for name, value in panel.params.items() if name not in left_out}
    call = call_text("ksparse.tl.panel", panel.params.get("n_genes", len(panel.genes)), params)
    return {"tables": tables, "command": str(run.get("command") or call)}
