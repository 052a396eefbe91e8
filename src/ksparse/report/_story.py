"""The text of a report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

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
    if record.log_normalised:
        text.append("Counts were scaled to 10,000 per cell and log-transformed.")
    else:
        text.append("The values were not transformed.")
    text.append(
        "Clusters and genes were computed together, by alternating k-means on a sparse projection "
        "of the cells with the estimation of that projection."
    )
    if scores and labels is not None:
        text.append(
            f"Compared with the known labels ({labels}), {scores['accuracy']:.1%} of the {scored} "
            f"are in the cluster matched to their class (ARI {scores['ari']:.3f}, NMI "
            f"{scores['nmi']:.3f}); these labels were not used by the fit."
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
    return text


def _text(value: Any) -> str:
    if isinstance(value, np.ndarray):
        items = [str(item) for item in value.ravel()[:6]]
        more = f", ... ({value.size} in all)" if value.size > len(items) else ""
        return ", ".join(items) + more
    if isinstance(value, float | np.floating):
        return f"{float(value):.6g}"
    if isinstance(value, np.generic):
        value = value.item()
    return str(value)


def _rows(values: Mapping[str, Any]) -> list[list[str]]:
    return [[str(name), _text(value)] for name, value in values.items()]


def _result_rows(results: Results) -> list[list[str]]:
    return _rows({name: value for name, value in asdict(results).items() if value is not None})


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
        ["Parameters", _rows(record.params)],
        ["Starts that were compared", tried],
    ]
    for title, name in (("Input", "input"), ("Options", "options"), ("Seconds", "seconds")):
        if run.get(name):
            out.append([title, _rows(run[name])])
    out.append(["Versions", _rows(record.versions)])
    return out, str(run["command"]) if run.get("command") else _call(record.params)


def _call(params: Any) -> str:
    options = []
    for name, value in params.items():
        if name != "n_clusters":
            plain = value.item() if isinstance(value, np.generic) else value
            text = repr(plain) if isinstance(plain, bool | int | float | str) else "..."
            if name == "restrict_to":
                column, *groups = (str(word) for word in value)
                text = repr((column, groups))
            options.append(f"{name}={text}")
    return f"ksparse.tl.ksparse({', '.join(['adata', str(params['n_clusters']), *options])})"
