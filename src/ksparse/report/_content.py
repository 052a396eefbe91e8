"""The content of a report, as plain lists, numbers and text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ksparse._errors import InputError, Term
from ksparse._plotting import COLOURS
from ksparse.metrics import summary
from ksparse.report._cells import packed_cells, packed_genes
from ksparse.report._story import convergence_text, story, tables
from ksparse.report._tree import tree_content
from ksparse.report._values import coloured_groups, number, numbers
from ksparse.scverse.batches import read_batches
from ksparse.scverse.fields import clustered_cells
from ksparse.scverse.labels import MAX_CLASSES, clusters_of, label_column, sorted_confusion
from ksparse.scverse.markers import contributions, order_by_weight, top_genes
from ksparse.scverse.schema import Record, read_path, read_record

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = ["report_content"]

# Genes in the dot plot: up to so many for each cluster, and about so many in all.
MAX_TOP, MAX_DOTS = 5, 45


def report_content(
    adata: AnnData,
    key: str,
    labels: str | None,
    path_key: str,
    title: str | None,
    run: dict[str, Any] | None,
    tree_key: str = "tree",
) -> dict[str, Any]:
    """Return everything that the page shows."""
    record = read_record(adata, key)
    run = run or {}
    codes, names = clusters_of(adata, key)
    clustered = clustered_cells(adata, key)
    size = np.bincount(codes, minlength=len(names))
    told = _told(adata, record)[clustered]
    known = _KnownLabels(adata, labels, clustered, np.asarray(names)[codes], told)
    notes = [str(note) for note in run.get("notes", [])]
    if known.note and not run:  # the command line has noted it
        notes.append(known.note)
    cells, drawn = packed_cells(adata, key, clustered, codes, known.codes)
    genes, cells["levels"] = _genes(adata, record, drawn)
    named_tables, command = tables(record, run)
    batches = read_batches(adata, key, record)
    if batches is not None:
        said = batches.sentences(names, record.model.genes)
        notes += [sentence for sentence in said if sentence not in notes]
        rows = [list(row) for row in zip(names, batches.cluster_words(), strict=True)]
        named_tables.insert(1, [f"Clusters and batches ({record.params['batch_key']})", rows])
    return {
        "title": str(title or "") or f"{len(names)} clusters of {codes.size:,} cells",
        "n_cells": codes.size,
        "clusters": coloured_groups(names, size),
        "palette": list(COLOURS),
        **known.content(),
        "label_name": labels,
        "cells": cells,
        "genes": genes,
        "genes_hint": _genes_hint(genes),
        "dots": _dots(record, genes, len(names)),
        "history": {name: numbers(record.history[name]) for name in ("cost", "labels_changed")},
        "convergence": convergence_text(record),
        "path": _path(adata, path_key, record, len(names)),
        "tree": tree_content(adata, tree_key),
        "story": story(
            record, size, labels, known.scores, run, known.scored, adata.n_obs - codes.size
        ),
        "tiles": _tiles(codes.size, record, len(names), known.scores),
        "notes": notes,
        "tables": named_tables,
        "command": command,
    }


def _told(adata: AnnData, record: Record) -> NDArray[np.bool_]:
    """Return which cells had a label that they kept, as far as that column is still there."""
    column = record.params.get("known_labels")
    if column is None or column not in adata.obs:
        return np.zeros(adata.n_obs, dtype=bool)
    return label_column(adata, str(column))[1]


class _KnownLabels:
    """Known labels of the cells, and the scores of the clusters against them.

    Cells that were `told` their cluster are counted, but not scored.
    """

    def __init__(
        self,
        adata: AnnData,
        labels: str | None,
        cells: NDArray[Any],
        clusters: NDArray[Any],
        told: NDArray[np.bool_],
    ) -> None:
        self.codes: NDArray[np.intp] | None = None
        self.scores: dict[str, float] = {}
        self.scored, self.note = "cells", ""
        if labels is None:
            return
        truth, known = (values[cells] for values in label_column(adata, labels))
        if not known.any():
            raise InputError(Term("labels", labels), f" is missing for all {known.size} cells.")
        if not known.all():
            self.scored = "labelled cells"
            self.note = f"{int((~known).sum()):,} cells have no {labels}, and are not scored."
        self.classes, self.codes = np.unique(truth, return_inverse=True)
        if self.classes.size > MAX_CLASSES:
            raise InputError(
                Term("labels", labels), f" has {self.classes.size} distinct values, which should "
                f"be <= {MAX_CLASSES}: give a column of classes.",
            )  # fmt: skip
        scored = known & ~told
        if told.any():
            self.scored = "cells that kept no known label"
        if scored.any():
            self.scores = summary(truth[scored], clusters[scored])
        self.confusion = sorted_confusion(truth[known], clusters[known])

    def content(self) -> dict[str, Any]:
        """Return classes, confusion and scores."""
        if self.codes is None:
            return {"labels": None, "confusion": None}
        classes, clusters, counts = self.confusion
        return {
            "labels": coloured_groups(
                [str(name) for name in self.classes], np.bincount(self.codes)
            ),
            "confusion": {"classes": classes, "clusters": clusters, "counts": counts.tolist()},
            "scores": [
                ["accuracy (best matching)", f"{self.scores['accuracy']:.1%}"],
                ["adjusted Rand index", f"{self.scores['ari']:.3f}"],
                ["normalised mutual information", f"{self.scores['nmi']:.3f}"],
            ]
            if self.scores
            else [],
        }


def _tiles(
    n_cells: int, record: Record, n_clusters: int, scores: dict[str, float]
) -> list[list[str]]:
    out = [
        ["cells", f"{n_cells:,}"],
        ["clusters", str(n_clusters)],
        ["genes selected", f"{record.results.n_features:,}"],
        ["genes in all", f"{record.results.n_genes:,}"],
    ]
    if scores:
        out += [["accuracy", f"{scores['accuracy']:.1%}"], ["ARI", f"{scores['ari']:.3f}"]]
    return out


def _genes(adata: AnnData, record: Record, drawn: Any) -> tuple[list[dict[str, Any]], int]:
    """Return the selected genes by decreasing weight, and the steps of their expression."""
    names, weight = record.model.genes, record.model.gene_weights
    order = order_by_weight(record)
    shares = contributions(record)
    mean, fraction = record.clusters.mean, record.clusters.fraction
    values, lows, tops, levels = packed_genes(adata, record, names[order], drawn)
    out = [
        {
            "rank": rank + 1,
            "place": int(j),
            "name": str(names[j]),
            "weight": number(weight[j]),
            "cluster": int(shares[:, j].argmax()),
            "contribution": numbers(shares[:, j]),
            "mean": numbers(mean[:, j]),
            "fraction": numbers(fraction[:, j]),
            "values": values[rank],
            "low": number(lows[rank]),
            "top": number(tops[rank]),
        }
        for rank, j in enumerate(order)
    ]
    return out, levels


def _genes_hint(genes: list[dict[str, Any]]) -> str:
    hidden = sum(gene["values"] is None for gene in genes)
    hint = (
        "Click a row to colour the cells by the gene; highlight a cluster to bring its genes to "
        "the top."
    )
    if hidden:
        hint += f" To keep the page small, {hidden} genes cannot be shown on the cells."
    return hint


def _dots(record: Record, genes: list[dict[str, Any]], n_clusters: int) -> list[list[int]]:
    """Return pairs (rank of a gene, cluster) for the dot plot."""
    rank_of = {gene["place"]: i for i, gene in enumerate(genes)}
    n_top = max(1, min(MAX_TOP, MAX_DOTS // max(1, n_clusters)))
    return [[rank_of[j], cluster] for j, cluster in top_genes(record, n_top)]


def _path(adata: AnnData, path_key: str, record: Record, n_clusters: int) -> dict[str, Any] | None:
    """Return the path, unless it is of another number of clusters or of other cells."""
    path = read_path(adata, path_key)
    if path is None or path.n_clusters != n_clusters:
        return None
    if path.restrict_to != (record.restriction.text if record.restriction else ""):
        return None
    names = ("n_features", "eta", "explained", "agreement", "silhouette", "accuracy", "ari", "nmi")
    columns = {name: numbers(path.columns[name]) for name in names if name in path.columns}
    return columns | {"best": path.best}
