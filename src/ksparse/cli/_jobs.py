"""What the commands do: read, fit, write."""

from __future__ import annotations

import json
import platform
import warnings
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import numpy as np

from ksparse.cli._steps import Steps, checksum, command_line, noted
from ksparse.files import new_file, write_csv
from ksparse.h5ad import write_h5ad
from ksparse.metrics import summary
from ksparse.readers import read
from ksparse.report._content import MOST_LABELS
from ksparse.tl._data import label_column, selected_genes
from ksparse.tl._rank_genes import contributions

__all__ = [
    "Opened",
    "Source",
    "about_run",
    "cell_columns",
    "check_label_column",
    "cluster",
    "gene_rows",
    "open_source",
    "say_scores",
    "write_json",
    "write_results",
    "write_run",
]

KEY = "ksparse"
MASK = "ksparse_min_cells"


@dataclass(frozen=True)
class Source:
    """What is read, and how."""

    path: Path
    transpose: bool = False
    unique_names: bool = False
    layer: str | None = None
    normalize: str = "auto"
    label_column: str | None = None
    min_cells: int = 0
    shown_as: Path | None = None

    @property
    def normalization(self) -> str | None:
        """As `ksparse.tl` calls it."""
        return None if self.normalize == "none" else self.normalize

    def words(self, *without: str) -> list[Any]:
        """The options that differ from their defaults, as a command has them."""
        out: list[Any] = []
        for name, value in asdict(self).items():
            if name in ("path", "shown_as", *without) or value == getattr(Source, name):
                continue
            flag = f"--{name.replace('_', '-')}"
            out += [flag] if value is True else [flag, value]
        return out


@dataclass
class Opened:
    """Data from a file, and what is to be said of them."""

    adata: Any
    source: Source
    about: dict[str, Any]
    notes: list[str] = field(default_factory=list)
    filtered: str = ""

    @property
    def mask(self) -> str | None:
        """The column of `var` with the genes that passed the filter."""
        return MASK if self.source.min_cells else None


def open_source(source: Source, steps: Steps) -> Opened:
    """Read a file and apply the filter."""
    with steps.step("read", f"reading {source.path.name}"), noted() as notes:
        adata = read(source.path, transpose=source.transpose, unique_names=source.unique_names,
                     label_column=source.label_column)  # fmt: skip
        if source.label_column is not None:
            check_label_column(adata, source.label_column, source.path)
    with steps.step("checksum", "checksum"):
        digest = checksum(source.path)
    about = {"name": source.path.name, "sha256": digest,
             "path": str((source.shown_as or source.path).absolute()),
             "cells": adata.n_obs, "genes": adata.n_vars}  # fmt: skip
    filtered = ""
    if source.min_cells:
        kept = _filter(adata, source)
        about["genes kept"] = kept
        filtered = (
            f"{adata.n_vars - kept:,} of {adata.n_vars:,} genes were found in fewer than "
            f"{source.min_cells} cells, and took no part."
        )
        notes.append(filtered)
    return Opened(adata, source, about, notes, filtered)


def check_label_column(adata: Any, name: str, path: Path) -> None:
    """Refuse a column that is not there, or has nothing in it."""
    if name == KEY:
        raise ValueError(f"--label-column {name!r} is where clusters are written: rename it.")
    if name not in adata.obs:
        known = ", ".join(repr(str(column)) for column in adata.obs) or "none"
        raise ValueError(f"--label-column {name!r} is not in {path}; its columns: {known}.")
    n_classes = adata.obs[name].nunique()
    if n_classes > MOST_LABELS:
        raise ValueError(
            f"--label-column {name!r} has {n_classes} distinct values, which should be <= "
            f"{MOST_LABELS}: give a column of classes."
        )
    missing = int(adata.obs[name].isna().sum())
    if missing == adata.n_obs:
        raise ValueError(f"--label-column {name!r} of {path} is empty for all cells.")
    if missing:
        warnings.warn(
            f"{missing:,} of {adata.n_obs:,} cells have no {name}: they are clustered, but not "
            "scored.",
            UserWarning,
            stacklevel=2,
        )


def _filter(adata: Any, source: Source) -> int:
    from ksparse.tl._data import matrix_of

    X = matrix_of(adata, source.layer)
    found_in = np.asarray((X != 0).sum(axis=0)).ravel()
    mask = found_in >= source.min_cells
    if not mask.any():
        raise ValueError(
            f"No genes are left: none was found in --min-cells {source.min_cells} cells or more "
            f"(the most is {int(found_in.max())})."
        )
    adata.var[MASK] = mask
    return int(mask.sum())


def cluster(
    opened: Opened, steps: Steps, n_clusters: int, n_features: int | str, seed: int,
    *, with_path: bool = False, layout: str = "tsne", scale: bool = False, max_labels: int = 1,
    checkpoint: Path | None = None,
) -> dict[str, float]:  # fmt: skip
    """Fit, rank genes, lay out cells; return scores if there are labels."""
    from ksparse import tl

    adata, source = opened.adata, opened.source
    options: dict[str, Any] = {"layer": source.layer, "normalize": source.normalization,
                               "mask_var": opened.mask}  # fmt: skip
    adata.uns.pop("ksparse_path", None)  # of an older run
    with steps.step("fit", "clustering"), noted() as notes:
        tl.ksparse(adata, n_clusters, n_features=n_features, random_state=seed, verbose=1,
                   scale=scale, max_labels=max_labels, checkpoint=checkpoint,
                   **options)  # fmt: skip
        own = "rank_genes_groups" not in adata.uns  # a ranking that was there is kept
        tl.rank_genes(adata, key_added="rank_genes_groups" if own else "rank_genes_ksparse")
    opened.notes += notes
    with steps.step("layout", "laying out cells"):
        tl.embed(adata, method=layout, random_state=seed)
    scores: dict[str, float] = {}
    labels = None
    if source.label_column is not None:
        truth, known = label_column(adata, source.label_column)
        found = np.asarray(adata.obs[KEY].astype(str), dtype=str)
        scores = summary(truth[known], found[known])
        labels = source.label_column if known.all() else None
    if with_path:
        with steps.step("path", "path of numbers of genes"), noted() as notes:
            tl.path(adata, n_clusters, labels=labels, random_state=seed, verbose=1, scale=scale,
                    **options)  # fmt: skip
        opened.notes += notes
    return scores


def gene_rows(adata: Any) -> tuple[list[str], list[list[Any]]]:
    """Header and rows of genes.csv."""
    entry = adata.uns[KEY]
    shares = contributions(entry)
    weight = np.linalg.norm(np.asarray(entry["model"]["weights"], dtype=np.float64), axis=1)
    parts = {"contribution": shares, "mean": np.asarray(entry["clusters"]["mean"]),
             "fraction": np.asarray(entry["clusters"]["fraction"])}  # fmt: skip
    header = ["rank", "gene", "weight", "cluster"]
    header += [f"{name}_{c}" for name in parts for c in range(len(shares))]
    rows = []
    names = selected_genes(entry)
    for rank, j in enumerate(np.argsort(-weight, kind="stable"), start=1):
        values = [f"{value:.6g}" for table in parts.values() for value in table[:, j]]
        rows.append([rank, str(names[j]), f"{weight[j]:.6g}", int(shares[:, j].argmax()), *values])
    return header, rows


def cell_columns(opened: Opened) -> tuple[list[str], Any]:
    """Header and rows of clusters.csv."""
    adata, labels = opened.adata, opened.source.label_column
    header = ["cell", "cluster", "margin"]
    margins = adata.obs[f"{KEY}_margin"]
    columns: list[Any] = [adata.obs_names, adata.obs[KEY], (f"{m:.4f}" for m in margins)]
    if labels is not None:
        truth, known = label_column(adata, labels)
        header.append(labels)
        columns.append(np.where(known, truth, ""))
    return header, zip(*columns, strict=True)


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write JSON that people can read."""
    text = json.dumps(content, indent=2, ensure_ascii=False, default=_plain)
    with new_file(path) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    return str(value)


def about_run(
    opened: Opened, command: str, options: dict[str, Any], steps: Steps
) -> dict[str, Any]:
    """What every run.json tells."""
    import ksparse

    return {
        "command": command,
        "ksparse": ksparse.__version__,
        "python": platform.python_version(),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "input": opened.about,
        "options": {name: value for name, value in options.items() if value is not None},
        "notes": opened.notes,
        "seconds": steps.seconds,
    }


def write_results(
    folder: Path, opened: Opened, steps: Steps, run: dict[str, Any], scores: dict[str, float]
) -> None:
    """Write clusters.csv, genes.csv, result.h5ad, report.html and run.json."""
    from ksparse.report import write_report

    adata = opened.adata
    entry = adata.uns[KEY]
    with steps.step("write", "writing"):
        write_csv(folder / "clusters.csv", *cell_columns(opened))
        write_csv(folder / "genes.csv", *gene_rows(adata))
        run = run | {
            "results": dict(entry["results"]) | {"cluster_sizes": entry["clusters"]["size"]},
            "parameters": dict(entry["params"]),
            "versions": dict(entry["versions"]),
            "scores": scores,
        }
        entry["run"] = json.dumps(run, default=_plain)
        write_h5ad(folder / "result.h5ad", adata)
        write_report(adata, folder / "report.html", labels=opened.source.label_column,
                     title=opened.about["name"], run=run)  # fmt: skip
    write_json(folder / "run.json", run | {"seconds": steps.seconds})


def write_run(
    folder: Path, opened: Opened, words: list[Any], options: dict[str, Any], steps: Steps,
    results: dict[str, Any],
) -> None:  # fmt: skip
    seed = ["--seed", options["seed"]] if "seed" in options else []
    command = command_line([*words, *seed, "-o", options["output"]])
    shown = {name: value for name, value in options.items() if name not in ("input", "force")}
    about = about_run(opened, command, shown, steps)
    write_json(folder / "run.json", about | {"results": results})


def say_scores(labels: str | None, scores: dict[str, float]) -> None:
    """Print how clusters compare with known labels."""
    click.echo(
        f"Against {labels}: accuracy {scores['accuracy']:.1%}, ARI {scores['ari']:.3f}, "
        f"NMI {scores['nmi']:.3f}."
    )
