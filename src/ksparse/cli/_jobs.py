"""The work of the commands: read, fit, write."""

from __future__ import annotations

import json
import platform
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from ksparse._errors import InputError, warn
from ksparse.cli._batches import batch_rows, batch_sentences, gene_columns
from ksparse.cli._steps import Steps, checksum, command_line, noted
from ksparse.cli._words import say
from ksparse.io.files import new_file, write_csv
from ksparse.io.h5ad import write_h5ad
from ksparse.matrix.data import count_nonzero
from ksparse.matrix.sources import select_rows
from ksparse.metrics import summary
from ksparse.readers import read
from ksparse.scverse.expression import matrix_of
from ksparse.scverse.fields import (
    Part,
    clustered_cells,
    filter_name,
    is_clustered,
    is_taken,
    read_margins,
    read_outlying,
    read_set_sizes,
    write_filter,
)
from ksparse.scverse.labels import MAX_CLASSES, group_order, label_column, part_of
from ksparse.scverse.markers import contributions, order_by_weight
from ksparse.scverse.restriction import Restriction
from ksparse.scverse.schema import holds_record, read_record, remove_path, write_record

__all__ = [
    "Opened",
    "Source",
    "about_run",
    "cell_columns",
    "check_label_column",
    "cluster",
    "gene_rows",
    "open_source",
    "print_scores",
    "score",
    "write_json",
    "write_results",
    "write_run",
]

# Where results and their path are written.
KEY, PATH_KEY = "ksparse", "ksparse_path"


@dataclass(frozen=True)
class Source:
    """A file to read, and the options of reading it.

    `final_path` is its path in accounts of the run, where it is still in a temporary folder.
    """

    path: Path
    transpose: bool = False
    unique_names: bool = False
    check: bool = True
    layer: str | None = None
    normalize: str = "auto"
    label_column: str | None = None
    group_column: str | None = None
    min_cells: int = 0
    restrict_to: str | None = None
    known_column: str | None = None
    batch_column: str | None = None
    final_path: Path | None = None

    @property
    def normalization(self) -> str | None:
        """The parameter `normalize` of `ksparse.tl`."""
        return None if self.normalize == "none" else self.normalize

    def words(self, *without: str) -> list[Any]:
        """Return the options that differ from their defaults, as words of a command."""
        out: list[Any] = []
        for name, value in asdict(self).items():
            if name in ("path", "final_path", *without) or value == getattr(Source, name):
                continue
            option = name.replace("_", "-")
            if isinstance(value, bool):
                out.append(f"--{option}" if value else f"--no-{option}")
            else:
                out += [f"--{option}", value]
        return out

    def read(self) -> Any:
        """Return the data as AnnData."""
        restricted = None if self.restrict_to is None else self.restrict_to.partition("=")[0]
        columns = (self.label_column, self.group_column, self.known_column, self.batch_column,
                   restricted)  # fmt: skip
        return read_file(self.path, self.check, transpose=self.transpose,
                         unique_names=self.unique_names,
                         label_column=[one for one in columns if one is not None])  # fmt: skip


def read_file(path: Path, check: bool, **options: Any) -> Any:
    """Return a file as AnnData; `check` is whether to check it in another process first."""
    if not check:
        options["check"] = False
    return read(path, **options)


@dataclass
class Opened:
    """Data from a file, with notes for the report."""

    adata: Any
    source: Source
    about: dict[str, Any]
    notes: list[str] = field(default_factory=list)
    filtered: str = ""
    part: Part | None = None

    @property
    def restrict_to(self) -> tuple[str, list[str]] | None:
        """The parameter `restrict_to` of `ksparse.tl`."""
        if self.part is None:
            return None
        return self.part.restriction.column, list(self.part.restriction.groups)

    @property
    def mask(self) -> str | None:
        """The column of `var` with the genes that passed the filter."""
        return filter_name(KEY) if self.source.min_cells else None


def open_source(source: Source, steps: Steps) -> Opened:
    """Read a file, find the cells that are clustered, and apply the filter."""
    with steps.step("read", f"reading {source.path.name}"), noted() as notes:
        adata = source.read()
        if source.label_column is not None:
            check_label_column(adata, source.label_column, source.path)
        part = None if source.restrict_to is None else _part(adata, source)
    with steps.step("checksum", "checksum"):
        digest = checksum(source.path)
    about = {"name": source.path.name, "sha256": digest,
             "path": str((source.final_path or source.path).absolute()),
             "cells": adata.n_obs, "genes": adata.n_vars}  # fmt: skip
    filtered = ""
    if part is not None:
        about["cells clustered"] = int(part.chosen.sum())
        if part.restriction.column == KEY and holds_record(adata, KEY):
            notes.append("The clusters of INPUT are refined; its own genes are left out.")
            steps.log(notes[-1])
    if source.min_cells:
        n_passed = _filter_genes(adata, source, part)
        about["genes kept"] = n_passed
        filtered = (
            f"{adata.n_vars - n_passed:,} of {adata.n_vars:,} genes were found in fewer than "
            f"{source.min_cells} cells, and are left out."
        )
        notes.append(filtered)
    return Opened(adata, source, about, notes, filtered, part)


def _part(adata: Any, source: Source) -> Part:
    """Return the cells of "column=group1,group2"; names of groups may hold commas, too."""
    column, _, words = str(source.restrict_to).partition("=")
    known = group_order(adata, column) if column in adata.obs else []
    left, groups = words.split(","), []
    while left:
        # The longest name that is a group; a word that is none is named in the error.
        sizes = range(len(left), 0, -1)
        size = next((n for n in sizes if ",".join(left[:n]) in known), 1)
        groups.append(",".join(left[:size]))
        left = left[size:]
    part = part_of(adata, Restriction(column, tuple(dict.fromkeys(groups))))
    labels = source.label_column
    if labels is not None and adata.obs[labels][part.chosen].isna().all():
        raise InputError(
            f"--label-column {labels!r} is empty for all {int(part.chosen.sum()):,} cells of "
            f"--restrict-to {source.restrict_to!r}: leave it out."
        )
    return part


def check_label_column(adata: Any, name: str, path: Path) -> None:
    """Raise ValueError if a column is missing, empty, or holds no classes."""
    if name == KEY:
        raise InputError(f"--label-column {name!r} is where clusters are written: rename it.")
    if name not in adata.obs:
        known = ", ".join(repr(str(column)) for column in adata.obs) or "none"
        raise InputError(f"--label-column {name!r} is not in {path}; its columns: {known}.")
    n_classes = adata.obs[name].nunique()
    if n_classes > MAX_CLASSES:
        raise InputError(
            f"--label-column {name!r} has {n_classes} distinct values, which should be <= "
            f"{MAX_CLASSES}: give a column of classes."
        )
    missing = int(adata.obs[name].isna().sum())
    if missing == adata.n_obs:
        raise InputError(f"--label-column {name!r} of {path} is empty for all cells.")
    if missing:
        warn(
            f"{missing:,} of {adata.n_obs:,} cells have no {name}: they are clustered, but not "
            "scored."
        )


def _filter_genes(adata: Any, source: Source, part: Part | None) -> int:
    """Write which genes have enough cells to a column of `var`; return how many do.

    Cells that are not clustered do not count.
    """
    X = matrix_of(adata, source.layer)
    n_cells = count_nonzero(X if part is None else select_rows(X, np.flatnonzero(part.chosen)))
    passed = n_cells >= source.min_cells
    if not passed.any():
        raise InputError(
            f"No genes are left: none was found in --min-cells {source.min_cells} cells or more "
            f"(the most is {int(n_cells.max())})."
        )
    write_filter(adata, KEY, passed)
    return int(passed.sum())


def cluster(
    opened: Opened, steps: Steps, n_clusters: int, n_features: int | str, seed: int,
    *, with_path: bool = False, layout: str = "tsne", scale: bool = False, max_labels: int = 1,
    min_cluster_size: int = 5, checkpoint: Path | None = None, calibrate: bool = False,
) -> dict[str, float]:  # fmt: skip
    """Fit, rank genes, lay out cells; return scores if there are labels."""
    from ksparse import tl

    adata, source = opened.adata, opened.source
    options: dict[str, Any] = {"layer": source.layer, "normalize": source.normalization,
                               "mask_var": opened.mask,
                               "restrict_to": opened.restrict_to}  # fmt: skip
    remove_path(adata, PATH_KEY)  # of an older run
    with steps.step("fit", "clustering"), noted() as notes:
        tl.ksparse(adata, n_clusters, n_features=n_features, random_state=seed, verbose=1,
                   scale=scale, max_labels=max_labels, checkpoint=checkpoint, key_added=KEY,
                   calibrate=calibrate, min_cluster_size=min_cluster_size,
                   known_labels=source.known_column, batch_key=source.batch_column,
                   **options)  # fmt: skip
        taken = is_taken(adata, "rank_genes_groups")  # a ranking of the user is not replaced
        tl.rank_genes(adata, key_added="rank_genes_ksparse" if taken else "rank_genes_groups")
    opened.notes += [*notes, *batch_sentences(adata, KEY)]
    with steps.step("layout", "laying out cells"):
        tl.embed(adata, method=layout, random_state=seed)
    if with_path:
        labels = source.label_column
        cells = clustered_cells(adata, KEY)
        if labels is not None and not label_column(adata, labels)[1][cells].all():
            labels = None  # a path is scored on all cells
        with steps.step("path", "path of numbers of genes"), noted() as notes:
            tl.path(adata, n_clusters, labels=labels, random_state=seed, verbose=1, scale=scale,
                    **options)  # fmt: skip
        opened.notes += notes
    return score(opened)


def score(opened: Opened) -> dict[str, float]:
    """Return the scores of the clusters against known labels; empty without labels.

    Cells that were told their label are not scored.
    """
    if opened.source.label_column is None:
        return {}
    truth, known = label_column(opened.adata, opened.source.label_column)
    clusters, _ = label_column(opened.adata, KEY)
    known = known & is_clustered(opened.adata, KEY)
    if opened.source.known_column is not None:
        known = known & ~label_column(opened.adata, opened.source.known_column)[1]
    return summary(truth[known], clusters[known]) if known.any() else {}


def gene_rows(adata: Any) -> tuple[list[str], list[list[Any]]]:
    """Return header and rows of genes.csv."""
    record = read_record(adata, KEY)
    shares, weight = contributions(record), record.model.gene_weights
    parts = {"contribution": shares, "mean": record.clusters.mean,
             "fraction": record.clusters.fraction}  # fmt: skip
    header, clusters = ["rank", "gene", "weight", "cluster"], record.cluster_names
    header += [f"{name}_{cluster}" for name in parts for cluster in clusters]
    rows = []
    names, (more, values_of) = record.model.genes, gene_columns(adata, KEY)
    of_batches = list(values_of)
    for rank, j in enumerate(order_by_weight(record), start=1):
        values = [f"{value:.6g}" for table in parts.values() for value in table[:, j]]
        marked = clusters[shares[:, j].argmax()]
        row = [rank, str(names[j]), f"{weight[j]:.6g}", marked, *values, *of_batches[j]]
        rows.append(row)
    return [*header, *more], rows


def cell_columns(opened: Opened) -> tuple[list[str], Any]:
    """Return header and rows of clusters.csv."""
    adata, labels = opened.adata, opened.source.label_column
    header = ["cell", "cluster", "margin"]
    # Cells that were not clustered have no margin, and may have had no group.
    margins = ("" if np.isnan(margin) else f"{margin:.4f}" for margin in read_margins(adata, KEY))
    clusters, grouped = label_column(adata, KEY)
    columns: list[Any] = [adata.obs_names, np.where(grouped, clusters, ""), margins]
    if (sizes := read_set_sizes(adata, KEY)) is not None:
        header.append("set_size")
        columns.append("" if np.isnan(size) else int(size) for size in sizes)
    if (outlying := read_outlying(adata, KEY)) is not None:
        header.append("outlying")
        columns.append(outlying)
    if labels is not None:
        truth, known = label_column(adata, labels)
        header.append(labels)
        columns.append(np.where(known, truth, ""))
    return header, zip(*columns, strict=True)


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write JSON that people can read."""
    text = json.dumps(content, indent=2, ensure_ascii=False, default=_plain)
    with new_file(path) as temporary:
        # The escape of a byte that is not UTF-8, in the name of a file, is one of JSON, too.
        temporary.write_text(text + "\n", encoding="utf-8", errors="backslashreplace")


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    return str(value)


def about_run(
    opened: Opened, command: str, options: dict[str, Any], steps: Steps
) -> dict[str, Any]:
    """Return the content that every run.json has."""
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
    """Write clusters.csv, genes.csv, result.h5ad, report.html and run.json; batches.csv, too."""
    from ksparse.report import write_report

    adata = opened.adata
    record = read_record(adata, KEY)
    results = {name: value for name, value in asdict(record.results).items() if value is not None}
    with steps.step("write", "writing"):
        write_csv(folder / "clusters.csv", *cell_columns(opened))
        write_csv(folder / "genes.csv", *gene_rows(adata))
        if (table := batch_rows(adata, KEY)) is not None:
            write_csv(folder / "batches.csv", *table)
        run = run | {
            "results": results | {"cluster_sizes": record.clusters.size},
            "parameters": record.params,
            "versions": record.versions,
            "scores": scores,
        }
        run = json.loads(json.dumps(run, default=_plain))
        write_record(adata, KEY, replace(record, run=run))
        write_h5ad(folder / "result.h5ad", adata)
        write_report(adata, folder / "report.html", labels=opened.source.label_column,
                     title=opened.about["name"], run=run)  # fmt: skip
    write_json(folder / "run.json", run | {"seconds": steps.seconds})


def write_run(
    folder: Path, opened: Opened, command: tuple[str, list[Any], list[Any]],
    options: dict[str, Any], steps: Steps, results: dict[str, Any],
) -> None:  # fmt: skip
    """Write run.json; `command` is the name of the command, its arguments and its options."""
    name, paths, words = command
    seed = ["--seed", options["seed"]] if "seed" in options else []
    text = command_line(name, paths, [*words, *seed, "-o", options["output"]])
    reported = {name: value for name, value in options.items() if name not in ("input", "force")}
    about = about_run(opened, text, reported, steps)
    write_json(folder / "run.json", about | {"results": results})


def print_scores(labels: str | None, scores: dict[str, float]) -> None:
    """Print the scores of the clusters against known labels."""
    say(
        f"Against {labels}: accuracy {scores['accuracy']:.1%}, ARI {scores['ari']:.3f}, "
        f"NMI {scores['nmi']:.3f}."
    )
