"""The work of the commands about gene panels: choose, score, write."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ksparse._errors import InputError, InputWarning
from ksparse._names import called
from ksparse.cli._jobs import Opened, write_json
from ksparse.cli._lists import allowed_list, gene_list
from ksparse.cli._panel_tables import (
    clusters_table,
    confusion_table,
    curve_rows,
    evaluated_genes,
    evaluation_rows,
    gate_table,
    panel_table,
    score_of,
    write_table,
)
from ksparse.cli._steps import Steps, noted
from ksparse.panel.rivals import usable_features
from ksparse.scverse.expression import read_expression
from ksparse.scverse.genes import candidate_genes
from ksparse.scverse.panel_evaluation import held_out_half, read_curve, read_evaluation
from ksparse.scverse.panels import Panel, panel_profiles, read_gates, read_panel
from ksparse.scverse.schema import package_versions

__all__ = [
    "EVALUATION_FILES",
    "PANEL_FILES",
    "Found",
    "choose",
    "evaluate",
    "evaluation_results",
    "evaluation_summary",
    "named_genes",
    "panel_summary",
    "read_wishes",
    "write_evaluation_files",
    "write_panel_files",
]

PANEL_FILES = ("panel.csv", "gates.csv", "evaluation.csv", "clusters.csv", "report.html",
               "run.json")  # fmt: skip
EVALUATION_FILES = ("evaluation.csv", "confusion.csv", "genes.csv", "run.json")
# Where results are written in the object, of which no file is made.
PANEL, GATES = "ksparse_panel", "ksparse_gates"
# The same without the cells that are held out.
HALF_PANEL, HALF_GATES = "ksparse_half_panel", "ksparse_half_gates"
EVALUATION, CURVE = "ksparse_evaluation", "ksparse_curve"
SIZES = (2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)
FOUND_AGAIN = (
    "The clusters were found in the same cells, held-out ones among them: clusters are found again "
    "more easily than groups that are given."
)


@dataclass(frozen=True)
class Found:
    """A panel, and what is known about it.

    Attributes
    ----------
    panel, half_panel : Panel
        The panel, and the one that was chosen in the same way without the held-out cells.
    profiles : Clusters
        Size, mean and share of cells of each group for the genes of the panel.
    evaluation : dict
        Of the second panel, on the held-out cells.
    curve : DataFrame
        Ours and other methods over the number of genes, on the same cells.
    gates, half_gates : Gates or None
        Of either panel.
    """

    panel: Panel
    half_panel: Panel
    profiles: Any
    evaluation: dict[str, Any]
    curve: Any
    gates: Any = None
    half_gates: Any = None

    @property
    def groupby(self) -> str:
        """The column with the groups."""
        return str(self.panel.params["groupby"])


def named_genes(option: str, text: str) -> list[str]:
    """Return the genes of an option; raise InputError if there are none."""
    genes = gene_list(option, text)
    if not genes:
        raise InputError(f"{option} {text!r} names no gene.")
    return genes


def read_wishes(options: dict[str, Any]) -> dict[str, Any]:
    """Return the wishes of `ksparse.tl.panel` from options; files are read."""
    wishes = {name: options[name] for name in ("exclude_pattern", "costs", "min_per_group",
                                               "balance")}  # fmt: skip
    for name in ("keep", "exclude", "extend"):
        text = options[name]
        wishes[name] = None if text is None else named_genes(f"--{name}", text)
    return wishes | {"allowed": allowed_list("--allowed", options["allowed"])}


# Panels --------------------------------------------------------------------------------------


def choose(opened: Opened, steps: Steps, options: dict[str, Any], wishes: dict[str, Any]) -> Found:
    """Choose a panel, and score what is chosen in the same way without half of the cells."""
    from ksparse import tl

    adata, seed = opened.adata, options["seed"]
    how: dict[str, Any] = {"layer": opened.source.layer, "normalize": opened.source.normalization}
    with steps.step("panel", "choosing genes"), noted(opened.notes) as notes:
        tl.panel(adata, options["genes"], groupby=options["group_column"],
                 n_clusters=options["clusters"], mask_var=opened.mask, key_added=PANEL,
                 random_state=seed, **wishes, **how)  # fmt: skip
        panel = read_panel(adata, PANEL)
    opened.notes += notes
    if options["clusters"] is not None:
        opened.notes.append(FOUND_AGAIN)
    groupby = str(panel.params["groupby"])
    half = held_out_half(adata, groupby, seed)
    may = _candidates(opened, wishes)
    with steps.step("evaluation", "scoring on held-out cells"), noted(opened.notes) as notes:
        half_panel = _without(half, opened, options, wishes, groupby)
        tl.evaluate_panel(adata, half_panel.genes["gene"].tolist(), groupby, held_out=half,
                          mask_var=may, compare=False, n_random=0, key_added=EVALUATION,
                          random_state=seed, **how)  # fmt: skip
    opened.notes += notes
    with steps.step("curve", "other numbers of genes"), noted(opened.notes) as notes:
        sizes = _sizes(opened, len(panel.genes), half, may)
        rivals = ["wilcoxon"] * (find_spec("scanpy") is not None) + ["hvg", "random"]
        tl.panel_curve(adata, groupby, n_genes=sizes, held_out=half, rivals=rivals, mask_var=may,
                       key_added=CURVE, random_state=seed, **how)  # fmt: skip
    opened.notes += notes
    found = Found(panel, half_panel, panel_profiles(adata, panel),
                  read_evaluation(adata, EVALUATION), read_curve(adata, CURVE))  # fmt: skip
    return _with_gates(found, opened, steps, options, half) if options["gate_genes"] else found


def _candidates(opened: Opened, wishes: dict[str, Any]) -> NDArray[np.bool_]:
    """Return a mask of the genes that the panel could have, for other ways to choose."""
    adata = opened.adata
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)  # they were told before
        places, _ = candidate_genes(
            adata, wishes["keep"], wishes["extend"], wishes["exclude"], wishes["exclude_pattern"],
            wishes["allowed"], opened.mask, wishes["costs"],
        )  # fmt: skip
    return np.isin(np.arange(adata.n_vars), places)


def _without(
    half: NDArray[np.bool_], opened: Opened, options: dict[str, Any], wishes: dict[str, Any],
    groupby: str,
) -> Panel:  # fmt: skip
    """Return the panel that is chosen in the same way without the cells that are held out."""
    from ksparse import tl

    source = opened.source
    given = {"groupby": groupby, "held_out": half, "layer": source.layer, "key_added": HALF_PANEL,
             "normalize": source.normalization, "mask_var": opened.mask,
             "random_state": options["seed"]}  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)  # the panel itself has told the same
        try:
            tl.panel(opened.adata, options["genes"], **wishes, **given)
        except InputError:
            # Kept genes may be highest in other groups there: then places do not suffice.
            tl.panel(opened.adata, options["genes"], **wishes | {"min_per_group": 0}, **given)
    return read_panel(opened.adata, HALF_PANEL)


def _sizes(
    opened: Opened, n_genes: int, half: NDArray[np.bool_], may: NDArray[np.bool_]
) -> list[int]:
    """Return numbers of genes around that of the panel, as far as there are so many."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        X, _ = read_expression(
            opened.adata, opened.source.layer, opened.source.normalization,
            columns=np.flatnonzero(may), cells=np.flatnonzero(~half),
        )  # fmt: skip
    most = usable_features(X).size
    return sorted({min(n, most) for n in (*SIZES, n_genes) if n <= 2 * n_genes})


def _with_gates(
    found: Found, opened: Opened, steps: Steps, options: dict[str, Any], half: NDArray[np.bool_]
) -> Found:
    """Find gates with the genes of the panel, and again with those of the other one."""
    from ksparse import tl

    adata, source = opened.adata, opened.source
    given = {"max_genes": options["gate_genes"], "held_out": half, "layer": source.layer,
             "normalize": source.normalization, "random_state": options["seed"]}  # fmt: skip
    with steps.step("gates", "gates"), noted(opened.notes) as notes:
        tl.gates(adata, found.groupby, genes=found.panel.genes["gene"].tolist(),
                 key_added=GATES, **given)  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InputWarning)
            tl.gates(adata, found.groupby, genes=found.half_panel.genes["gene"].tolist(),
                     key_added=HALF_GATES, **given)  # fmt: skip
    opened.notes += notes
    return replace(found, gates=read_gates(adata, GATES), half_gates=read_gates(adata, HALF_GATES))


def write_panel_files(
    folder: Path, opened: Opened, steps: Steps, found: Found, about: dict[str, Any]
) -> None:
    """Write all files of `ksparse panel`."""
    from ksparse.report import write_panel_report

    panel = found.panel
    groups = [str(name) for name in panel.recall.index]
    with steps.step("write", "writing"):
        write_table(folder / "panel.csv", panel_table(panel, found.profiles))
        if found.gates is not None:
            write_table(folder / "gates.csv", gate_table(found.gates, found.half_gates))
        chance = found.half_panel.recall["chance"]
        rows = evaluation_rows(found.evaluation, chance, structure=True)
        rows += curve_rows(found.curve, int(rows[0]["n_cells"]))
        write_table(folder / "evaluation.csv", rows)
        if opened.source.group_column is None:
            write_table(folder / "clusters.csv", clusters_table(opened.adata, found.groupby))
        results = {"genes": panel.genes["gene"].tolist(), "explained": panel.explained,
                   "explained_bound": panel.explained_bound,
                   "group_sizes": dict(zip(groups, found.profiles.size.tolist(), strict=True)),
                   "held_out_cells": int(found.evaluation["recall"]["n_cells"].sum())}  # fmt: skip
        run = about | {
            "results": results,
            "parameters": panel.params,
            "versions": package_versions(),
            "scores": {name: score_of(found.evaluation, "panel", name)[0]
                       for name in ("logistic", "5nn")},
        }  # fmt: skip
        write_panel_report(
            opened.adata, folder / "report.html", key=PANEL, evaluation_key=EVALUATION,
            curve_key=CURVE, gates_key=GATES, half_gates_key=HALF_GATES,
            title=opened.about["name"], run=run,
        )  # fmt: skip
    write_json(folder / "run.json", run | {"seconds": steps.seconds})


def panel_summary(opened: Opened, found: Found) -> list[str]:
    """Return lines about a panel."""
    panel, sizes = found.panel, found.profiles.size
    lines = [
        f"{len(panel.genes):,} of {opened.adata.n_vars:,} genes for {len(sizes)} groups of "
        f"{int(sizes.sum()):,} cells; they explain {panel.explained:.1%} of the groups, all "
        f"candidates together {panel.explained_bound:.1%}."
    ]
    n = max(found.curve["n_genes"][found.curve["n_genes"] <= len(panel.genes)])
    at = found.curve[(found.curve["n_genes"] == n) & (found.curve["classifier"] == "logistic")]
    others = {"wilcoxon": "Wilcoxon", "hvg": "variance", "random": "random"}
    beside = [f"{others[row.method]} {row.balanced_accuracy:.1%}"
              for row in at.itertuples() if row.method in others]  # fmt: skip
    lines.append(_score_line(found.evaluation) + f" As many genes by {', '.join(beside)}.")
    noun = "cluster" if opened.source.group_column is None else "group"
    lines.append(_worst_line(found.evaluation, noun))
    return lines + ([opened.filtered] if opened.filtered else [])


def _score_line(evaluation: dict[str, Any]) -> str:
    (value, se), (other, _) = (score_of(evaluation, "panel", name) for name in ("logistic", "5nn"))
    return (
        f"Held-out cells: balanced accuracy {value:.1%} ± {se:.1%} (5 nearest neighbours "
        f"{other:.1%})."
    )


def _worst_line(evaluation: dict[str, Any], noun: str = "group") -> str:
    recall = evaluation["recall"]["logistic"].sort_values(kind="stable")
    worst = [f"{called(str(name), noun)} {value:.0%}" for name, value in recall.iloc[:3].items()]
    return f"{noun.capitalize()}s of lowest recall: {', '.join(worst)}."


# Lists of others -----------------------------------------------------------------------------


def evaluate(
    opened: Opened, steps: Steps, genes: list[str], options: dict[str, Any]
) -> dict[str, Any]:
    """Evaluate a list of genes."""
    from ksparse import tl

    source = opened.source
    with steps.step("evaluation", "evaluating genes"), noted(opened.notes) as notes:
        tl.evaluate_panel(
            opened.adata, genes, str(source.group_column), held_out=options["held_out"],
            layer=source.layer, mask_var=opened.mask, normalize=source.normalization,
            key_added=EVALUATION, random_state=options["seed"],
        )  # fmt: skip
    opened.notes += notes
    return read_evaluation(opened.adata, EVALUATION)


def write_evaluation_files(folder: Path, result: dict[str, Any]) -> None:
    """Write all files of `ksparse evaluate-panel` but run.json."""
    recall = result["recall"]
    chance = recall["n_cells"] / recall["n_cells"].sum()
    write_table(folder / "evaluation.csv", evaluation_rows(result, chance, structure=True))
    write_table(folder / "confusion.csv", confusion_table(result))
    write_table(folder / "genes.csv", evaluated_genes(result))


def evaluation_results(result: dict[str, Any], genes: list[str]) -> dict[str, Any]:
    """Return the results of an evaluation for run.json."""
    summary = {
        name: None if isinstance(value, float) and np.isnan(value) else value
        for name, value in result["summary"].items()
    }
    return {"genes": genes, **summary,
            "scores": {name: score_of(result, "panel", name)[0]
                       for name in ("logistic", "5nn")}}  # fmt: skip


def evaluation_summary(result: dict[str, Any], genes: list[str], held_out: Any) -> list[str]:
    """Return lines about an evaluation."""
    n_groups, summary = len(result["recall"]), result["summary"]
    (value, se), (other, _) = (score_of(result, "panel", name) for name in ("logistic", "5nn"))
    random, ours = (score_of(result, name, "logistic")[0] for name in ("random", "ksparse"))
    lines = [
        f"{len(genes):,} genes, {n_groups} groups of {summary['n_cells']:,} cells, "
        f"{summary['n_splits']} folds.",
        f"Balanced accuracy {value:.1%} ± {se:.1%} (5 nearest neighbours {other:.1%}); as many "
        f"random genes {random:.1%}, as many that ksparse chooses within the folds {ours:.1%}.",
        _worst_line(result),
        f"Neighbours of cells that are kept: {summary['neighbour_overlap']:.1%} (by chance "
        f"{summary['chance_overlap']:.1%}).",
    ]
    if held_out is None:
        lines.append(
            "If the genes were chosen with these cells, their figures are too good: give "
            "--held-out, or other cells."
        )
    return lines
