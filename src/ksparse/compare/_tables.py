"""Tables of a comparison, in the form of the paper's, with the paper's figures beside ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ksparse._errors import visible
from ksparse.compare._paper import PAPER, TITLES, paper_name
from ksparse.compare._run import is_sweep

__all__ = ["IN_PAPER", "Section", "distinct", "name_of", "sections", "usual"]

# Rows of a table: key of the value, title, factor, number of digits, and place of the value
# in `PAPER`.
ROWS = (("accuracy", "Accuracy (%)", 100, 1, 0), ("ari", "ARI (%)", 100, 1, 1),
        ("nmi", "NMI", 1, 2, 2), ("n_features", "Features", 1, 0, None),
        ("precision", "Precision (%)", 100, 0, None), ("seconds", "Time (s)", 1, 1, 3),
        ("peak_mb", "Peak memory (MB)", 1, 0, None))  # fmt: skip
IN_PAPER = "in the paper"
BEST_OF = ("accuracy", "ari", "nmi")
LARGE = ("simlr", "simlr-large", "ksparse-paper", "ksparse")


@dataclass
class Section:
    """A heading with text, a table (the first row is its header), notes and pictures."""

    title: str
    level: int = 2
    text: str = ""
    table: list[list[str]] = field(default_factory=list)
    bold: set[tuple[int, int]] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    pictures: list[tuple[str, str]] = field(default_factory=list)


def usual(results: Sequence[dict[str, Any]], **values: Any) -> list[dict[str, Any]]:
    """Return the runs with the usual radius whose entries have the given values."""
    return [
        run for run in results
        if not is_sweep(run) and all(run[name] == value for name, value in values.items())
    ]  # fmt: skip


def distinct(results: Sequence[dict[str, Any]], name: str) -> list[Any]:
    """Return the different values of an entry, in the order of their first runs."""
    return list(dict.fromkeys(run[name] for run in results))


def name_of(data: str) -> str:
    """Return the title of a data set."""
    return TITLES.get(data, visible(Path(data).stem))


def sections(results: Sequence[dict[str, Any]]) -> list[Section]:
    """Return all tables: an overview, one per data set and preparation, and large data."""
    out = [_overview(results)]
    for data in distinct(usual(results), "data"):
        out.append(_about(results, data))
        for preparation in distinct(usual(results, data=data), "preparation"):
            out.append(_table(usual(results, data=data, preparation=preparation), preparation))
    return out + _large(results)


def _values(runs: Sequence[dict[str, Any]], name: str, factor: float = 1.0) -> list[float]:
    values = [factor * run[name] for run in runs if run.get(name) is not None]
    return [value for value in values if np.isfinite(value)]


def _mean_and_spread(values: Sequence[float], digits: int) -> str:
    if not values:
        return "-"
    mean = f"{np.mean(values):,.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ± {np.std(values):,.{digits}f}"


def _paper_value(
    reported: Mapping[str, Sequence[float | None]], method: str, place: int | None
) -> str:
    """Return a value that the paper reports for a method, or "-"."""
    value = reported[method][place] if place is not None and method in reported else None
    return "-" if value is None else f"{value:,g}"


def _best(entries: Sequence[Sequence[float]]) -> set[int]:
    """Return the places of the largest mean."""
    means = [np.mean(values) if values else -np.inf for values in entries]
    top = max(means, default=-np.inf)
    return {i for i, mean in enumerate(means) if np.isfinite(top) and mean >= top - 1e-12}


def _overview(results: Sequence[dict[str, Any]]) -> Section:
    """Return the table of accuracies: a row per data set and preparation."""
    methods = distinct(usual(results), "method")
    section = Section("Accuracy (%) at a glance", table=[["data", "prepared", *methods]])
    for data in distinct(usual(results), "data"):
        for preparation in distinct(usual(results, data=data), "preparation"):
            rows = [_values(usual(results, data=data, preparation=preparation, method=method),
                            "accuracy", 100) for method in methods]  # fmt: skip
            section.bold |= {(len(section.table), 2 + i) for i in _best(rows)}
            section.table.append(
                [name_of(data), preparation, *(_mean_and_spread(row, 1) for row in rows)]
            )
    section.text = (
        "Mean over seeds ± standard deviation; the largest mean of each row is bold. The number "
        "of clusters is given."
    )
    return section


def _about(results: Sequence[dict[str, Any]], data: str) -> Section:
    """Return a heading with the size of a data set."""
    sizes = next((r for r in results if r["data"] == data and "k" in r), None)
    text = ""
    if sizes is not None:
        text = f"{sizes['k']} clusters, {sizes['n_samples']:,} cells, {sizes['n_genes']:,} genes."
    return Section(name_of(data), text=text)


def _table(runs: Sequence[dict[str, Any]], preparation: str) -> Section:
    """Return a table in the form of the paper's: methods are columns."""
    methods = distinct(runs, "method")
    reported = PAPER.get(paper_name(runs[0]["data"]) or "", {})
    of = {method: [run for run in runs if run["method"] == method] for method in methods}
    section = Section(f"{name_of(runs[0]['data'])}: {preparation}", level=3)
    section.table.append(["", *methods])
    for name, title, factor, digits, place in ROWS:
        entries = [_values(of[method], name, factor) for method in methods]
        if not any(entries):
            continue
        if name in BEST_OF:
            section.bold |= {(len(section.table), 1 + i) for i in _best(entries)}
        section.table.append([title, *(_mean_and_spread(values, digits) for values in entries)])
        in_paper = [_paper_value(reported, method, place) for method in methods]
        if set(in_paper) != {"-"}:
            section.table.append([IN_PAPER, *in_paper])
    done = [f"{sum('failed' not in r for r in of[m])} of {len(of[m])}" for m in methods]
    section.table.append(["Runs", *done])
    section.notes = _failures(runs)
    section.notes += [
        f"{run['method']}, seed {run['seed']}: found {run['n_clusters_found']} clusters, not "
        f"{run['k']}."
        for run in runs
        if run.get("n_clusters_found", run.get("k")) != run.get("k")
    ]
    return section


def _failures(runs: Sequence[dict[str, Any]]) -> list[str]:
    """Return the reasons of failed runs, once for each method and reason."""
    seeds: dict[tuple[str, str], list[str]] = {}
    for run in runs:
        if "failed" in run:
            seeds.setdefault((run["method"], run["failed"]), []).append(str(run["seed"]))
    return [
        f"Not done: {method}, seed {', '.join(which)}: {reason}"
        for (method, reason), which in seeds.items()
    ]


def _large(results: Sequence[dict[str, Any]]) -> list[Section]:
    """Return the paper's last two tables: SIMLR, its large variant, and k-sparse."""
    methods = [m for m in LARGE if usual(results, method=m)]
    if not {"simlr-large", "simlr"} <= set(methods):
        return []
    out = []
    for name, title, factor, digits, place in (
        ("ari", "ARI (%)", 100, 1, 1),
        ("seconds", "Time (s)", 1, 1, 3),
    ):
        section = Section(f"SIMLR, its large variant and k-sparse: {title}")
        section.table.append(["data", "prepared", *methods])
        for data in distinct(usual(results), "data"):
            for preparation in distinct(usual(results, data=data), "preparation"):
                runs = usual(results, data=data, preparation=preparation)
                entries = [_values([r for r in runs if r["method"] == m], name, factor)
                           for m in methods]  # fmt: skip
                section.table.append(
                    [name_of(data), preparation, *(_mean_and_spread(e, digits) for e in entries)]
                )
            reported = PAPER.get(paper_name(data) or "", {})
            in_paper = [_paper_value(reported, m, place) for m in methods]
            if set(in_paper) != {"-"}:
                section.table.append([name_of(data), IN_PAPER, *in_paper])
        out.append(section)
    return out
