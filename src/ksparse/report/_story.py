"""The text of a report."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from ksparse.report._values import call_text, run_tables, table_rows
from ksparse.scverse.markers import unmarked_sentence
from ksparse.scverse.schema import Record, Results

__all__ = ["convergence_text", "story", "tables"]


def story(
    record: Record,
    size: Any,
    labels: str | None,
    scores: dict[str, float],
    run: dict[str, Any],
    scored: str,
    n_others: int,
) -> str:
    """Return a paragraph about the result and the method.

    `n_others` is the number of cells that were not clustered.
    """
    n, d = record.results.n_features, record.results.n_genes
    source = run.get("input", {}).get("name")
    start = f"In {source}, ksparse" if source else "ksparse"
    sizes = f"{size.min():,} to {size.max():,} cells" if len(size) > 1 else f"{size[0]:,} cells"
    text = [
        f"{start} put {int(np.sum(size)):,} cells in {len(size)} clusters ({sizes}) and selected "
        f"{n:,} of {d:,} genes that define them."
    ]
    if record.restriction:
        groups = " or ".join(record.restriction.groups)
        text.append(
            f"Only cells whose {record.restriction.column} was {groups} were clustered, and this "
            f"page is about them; {n_others:,} other cells kept their group."
        )
    if "known_labels" in record.params:
        text.append(
            f"Cells whose {record.params['known_labels']} was known kept it, and all others were "
            "clustered around them."
        )
    if "batch_key" in record.params:
        text.append(f"Genes were centred within the batches of {record.params['batch_key']}.")
    if record.log_normalised:
        text.append("Counts were scaled to 10,000 per cell and log-transformed.")
    else:
        text.append("The values were not transformed.")
    text.append(
        "Clusters and genes were computed together, by alternating k-means on a sparse projection "
        "of the cells with the estimation of that projection."
    )
    if n_apart := record.results.n_outlying:
        text.append(
            f"{n_apart:,} cell{' was' if n_apart == 1 else 's were'} set apart, being far from all "
            "others but too few for a cluster."
        )
    if sentence := unmarked_sentence(record):
        text.append(sentence)
    if scores and labels is not None:
        text.append(
            f"Compared with the known labels ({labels}), {scores['accuracy']:.1%} of the {scored} "
            f"are in the cluster matched to their class (ARI {scores['ari']:.3f}, NMI "
            f"{scores['nmi']:.3f}); their labels were not used by the fit."
        )
    return " ".join(text)


def convergence_text(record: Record) -> str:
    """Return sentences about convergence."""
    results = record.results
    end = "Labels and genes converged" if results.converged else "Stopped before convergence"
    text = f"{end} after {results.n_iter} loop{'' if results.n_iter == 1 else 's'}."
    if np.isfinite(results.gap):
        text += (
            " The weights on the l1 ball, which chose the genes, are certified: their objective is "
            f"at most {max(results.gap, 0):.1g} (relative) above the optimum. The refit of these "
            "weights and the clusters have no such certificate."
        )
    if results.explained is not None and results.explained_bound is not None:
        text += (
            " The genes were taken one after the other; they explain "
            f"{results.explained:.1%} of the clusters, all candidates together "
            f"{results.explained_bound:.1%}, which no set of them can exceed."
        )
    return text


def _result_rows(results: Results) -> list[list[str]]:
    return table_rows({name: value for name, value in asdict(results).items() if value is not None})


def tables(record: Record, run: dict[str, Any]) -> tuple[list[Any], str]:
    """Return named tables of results and settings, and the command or call to repeat them."""
    starts = record.starts
    tried = [
        [str(name), f"score {float(score):.3f}, {int(loops)} loops" + (", chosen" * bool(chosen))]
        for name, score, loops, chosen in zip(
            starts["start"], starts["score"], starts["n_loops"], starts["chosen"], strict=True
        )
    ]
    if len(tried) > 1:
        tried.append(
            ["rule", "a later start is chosen if it is better by more than a standard error"]
        )
    out = [
        ["Result", _result_rows(record.results)],
        ["Parameters", table_rows(record.params)],
        ["Starts that were compared", tried],
    ]
    out += run_tables(run)
    out.append(["Versions", table_rows(record.versions)])
    if run.get("command"):
        return out, str(run["command"])
    others = {name: value for name, value in record.params.items() if name != "n_clusters"}
    return out, call_text("ksparse.tl.ksparse", record.params["n_clusters"], others)
