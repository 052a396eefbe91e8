"""Tables of a comparison, in the paper's form, with the paper's own figures beside ours."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ksparse.compare._paper import PAPER, paper_name

__all__ = ["summarise"]

HEADER = ("method", "accuracy %", "ARI %", "NMI", "features", "precision %", "seconds", "peak MB",
          "runs", "paper: accuracy / ARI / NMI / s")  # fmt: skip


def summarise(results: Sequence[dict[str, Any]]) -> str:
    """Return Markdown: one table for each data set and preparation, mean ± spread over seeds.

    Parameters
    ----------
    results : sequence of dict
        What `compare` returned.
    """
    parts = []
    for data, preparation in _pairs(results, "data", "preparation"):
        here = [r for r in results if (r["data"], r["preparation"]) == (data, preparation)]
        sizes = next((r for r in here if "k" in r), None)
        about = ""
        if sizes is not None:
            about = f" ({sizes['k']} clusters, {sizes['n_samples']:,} cells, "
            about += f"{sizes['n_genes']:,} genes)"
        parts.append(f"## {_cell(Path(data).stem)}, {preparation}{about}\n")
        rows = [_row([r for r in here if r["method"] == method], data, method)
                for (method,) in _pairs(here, "method")]  # fmt: skip
        lines = [HEADER, ("---",) * len(HEADER), *rows]
        parts.append("\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n")
        failed = [f"- {r['method']}, seed {r['seed']}: {_cell(r['failed'])}"
                  for r in here if "failed" in r]  # fmt: skip
        if failed:
            parts.append("Not done:\n\n" + "\n".join(failed) + "\n")
    return "\n".join(parts)


def _cell(text: str) -> str:
    """Text that cannot break a table, nor be read as HTML."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def _pairs(results: Sequence[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    """Different values, in the order in which they come."""
    return list(dict.fromkeys(tuple(r[name] for name in names) for r in results))


def _row(runs: Sequence[dict[str, Any]], data: str, method: str) -> tuple[str, ...]:
    done = [run for run in runs if "failed" not in run]

    def shown(name: str, digits: int, factor: float = 1.0) -> str:
        values = [factor * run[name] for run in done if run.get(name) is not None]
        values = [value for value in values if np.isfinite(value)]
        if not values:
            return "-"
        mean = f"{np.mean(values):.{digits}f}"
        return mean if len(values) == 1 else f"{mean} ± {np.std(values):.{digits}f}"

    name = paper_name(data)
    theirs = PAPER.get(name or "", {}).get(method)
    said = "" if theirs is None else " / ".join("-" if v is None else f"{v:g}" for v in theirs)
    return (method, shown("accuracy", 1, 100), shown("ari", 1, 100), shown("nmi", 2),
            shown("n_features", 0), shown("precision", 0, 100), shown("seconds", 1),
            shown("peak_mb", 0), f"{len(done)}/{len(runs)}", said)  # fmt: skip
