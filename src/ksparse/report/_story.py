"""The words of a report."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["convergence_text", "story", "tables"]


def story(
    entry: Any,
    size: Any,
    labels: str | None,
    scores: dict[str, float],
    run: dict[str, Any],
    scored: str,
) -> str:
    """What was done, in one paragraph."""
    results = entry["results"]
    n, d = int(results["n_features"]), int(results["n_genes"])
    source = run.get("input", {}).get("name")
    start = f"In {source}, ksparse" if source else "ksparse"
    sizes = f"{size.min():,} to {size.max():,} cells" if len(size) > 1 else f"{size[0]:,} cells"
    text = [
        f"{start} put {int(np.sum(size)):,} cells in {len(size)} clusters ({sizes}) and selected "
        f"{n:,} of {d:,} genes that define them."
    ]
    if str(results["normalized"]) == "log1p":
        text.append("Counts were scaled to 10,000 per cell and log-transformed.")
    else:
        text.append("The values were used as they are.")
    text.append(
        "Clusters and genes were found together, by alternating k-means on a sparse projection of "
        "the cells with the search for that projection."
    )
    if scores and labels is not None:
        text.append(
            f"Compared with the known labels ({labels}), {scores['accuracy']:.1%} of the {scored} "
            f"are in the cluster matched to their class (ARI {scores['ari']:.3f}, NMI "
            f"{scores['nmi']:.3f}); these labels had no part in the search."
        )
    return " ".join(text)


def convergence_text(entry: Any) -> str:
    """How the alternation ended."""
    results = entry["results"]
    loops = int(results["n_iter"])
    end = "Labels and genes settled" if bool(results["converged"]) else "Stopped before settling"
    gap = float(results["gap"])
    text = f"{end} after {loops} loop{'' if loops == 1 else 's'}."
    if np.isfinite(gap):
        text += (
            f" The last projection is certified: its objective is at most {max(gap, 0):.1g} "
            "(relative) above the optimum."
        )
    return text


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray):
        items = [str(item) for item in value.ravel()[:6]]
        more = f", ... ({value.size} in all)" if value.size > len(items) else ""
        return ", ".join(items) + more
    if isinstance(value, float | np.floating):
        return f"{float(value):.6g}"
    if isinstance(value, np.generic):
        value = value.item()
    return str(value)


def _rows(values: Any) -> list[list[str]]:
    return [[str(name), _shown(value)] for name, value in values.items()]


def tables(entry: Any, run: dict[str, Any]) -> tuple[list[Any], str]:
    """Named tables of everything that was set or used, and how to run it again."""
    starts = entry["starts"]
    tried = [
        [str(name), f"score {float(score):.3f}, {int(loops)} loops" + (", chosen" * bool(chosen))]
        for name, score, loops, chosen in zip(
            starts["start"], starts["score"], starts["n_loops"], starts["chosen"], strict=True
        )
    ]
    if len(tried) > 1:
        tried.append(["rule", "a later one is chosen if better by two standard errors"])
    out = [
        ["Result", _rows(entry["results"])],
        ["Parameters", _rows(entry["params"])],
        ["Starts that were compared", tried],
    ]
    for title, name in (("Input", "input"), ("Options", "options"), ("Seconds", "seconds")):
        if run.get(name):
            out.append([title, _rows(run[name])])
    out.append(["Versions", _rows(entry["versions"])])
    return out, str(run["command"]) if run.get("command") else _call(entry["params"])


def _call(params: Any) -> str:
    options = []
    for name, value in params.items():
        if name != "n_clusters":
            plain = value.item() if isinstance(value, np.generic) else value
            text = repr(plain) if isinstance(plain, bool | int | float | str) else "..."
            options.append(f"{name}={text}")
    return f"ksparse.tl.ksparse({', '.join(['adata', str(params['n_clusters']), *options])})"
