"""What a report tells, as plain lists, numbers and text."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from ksparse.metrics import summary
from ksparse.pl._genes import top_genes
from ksparse.pl._results import sorted_confusion
from ksparse.plotting import COLOURS, cluster_colours
from ksparse.report._cells import packed_cells, packed_genes
from ksparse.report._story import convergence_text, story, tables
from ksparse.tl._data import clusters_of, found, label_column, selected_genes
from ksparse.tl._rank_genes import contributions

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = ["read_run", "report_content"]

MOST_LABELS = 200


def report_content(
    adata: AnnData,
    key: str,
    labels: str | None,
    path_key: str,
    title: str | None,
    run: dict[str, Any] | None,
) -> dict[str, Any]:
    """Everything that the page shows."""
    entry = found(adata, key)
    run = run or {}
    codes, names = clusters_of(adata, key)
    size = np.bincount(codes, minlength=len(names))
    content: dict[str, Any] = {
        "title": str(title or "") or f"{len(names)} clusters of {adata.n_obs:,} cells",
        "n_cells": adata.n_obs,
        "clusters": _groups(names, size),
        "labels": None,
        "confusion": None,
        "palette": list(COLOURS),
    }
    label_codes = None
    scored = "cells"
    scores: dict[str, float] = {}
    notes: list[str] = [str(note) for note in run.get("notes", [])]
    if labels is not None:
        truth, known = label_column(adata, labels)
        if not known.any():
            raise ValueError(f"labels={labels!r} is missing for all {known.size} cells.")
        if not known.all() and not run:  # the command line has noted it
            notes.append(f"{int((~known).sum()):,} cells have no {labels}, and are not scored.")
        scored = "cells" if known.all() else "labelled cells"
        values, label_codes = np.unique(truth, return_inverse=True)
        if values.size > MOST_LABELS:
            raise ValueError(
                f"labels={labels!r} has {values.size} distinct values, which should be <= "
                f"{MOST_LABELS}: give a column of classes."
            )
        content["labels"] = _groups([str(v) for v in values], np.bincount(label_codes))
        clusters = np.asarray(names)[codes]
        scores = summary(truth[known], clusters[known])
        classes, ids, counts = sorted_confusion(truth[known], clusters[known])
        content["confusion"] = {"classes": classes, "clusters": ids, "counts": counts.tolist()}
        content["scores"] = [
            ["accuracy (best matching)", f"{scores['accuracy']:.1%}"],
            ["adjusted Rand index", f"{scores['ari']:.3f}"],
            ["normalised mutual information", f"{scores['nmi']:.3f}"],
        ]
    content["label_name"] = labels
    content["cells"], drawn = packed_cells(adata, key, codes, label_codes)
    content["genes"], content["cells"]["levels"] = _genes(adata, entry, drawn)
    hidden = sum(gene["values"] is None for gene in content["genes"])
    content["genes_hint"] = (
        "Click a row to colour the cells by the gene; highlight a cluster to bring its genes to "
        "the top."
        + (f" To keep the page small, {hidden} genes cannot be shown on the cells." * (hidden > 0))
    )
    rank_of = {gene["place"]: i for i, gene in enumerate(content["genes"])}
    n_top = max(1, min(5, 45 // max(1, len(names))))
    content["dots"] = [[rank_of[j], cluster] for j, cluster in top_genes(entry, n_top)]
    content["history"] = {name: _numbers(entry["history"][name])
                          for name in ("cost", "labels_changed")}  # fmt: skip
    content["convergence"] = convergence_text(entry)
    content["path"] = _path(adata, path_key, len(names))
    content["story"] = story(entry, size, labels, scores, run, scored)
    content["tiles"] = _tiles(adata, entry, len(names), scores)
    content["notes"] = notes
    content["tables"], content["command"] = tables(entry, run)
    return content


def _groups(names: list[str], size: Any) -> list[dict[str, Any]]:
    colours = cluster_colours(len(names))
    return [
        {"name": name, "size": int(count), "colour": colour}
        for name, count, colour in zip(names, size, colours, strict=True)
    ]


def _tiles(
    adata: AnnData, entry: Any, n_clusters: int, scores: dict[str, float]
) -> list[list[str]]:
    out = [
        ["cells", f"{adata.n_obs:,}"],
        ["clusters", str(n_clusters)],
        ["genes selected", f"{int(entry['results']['n_features']):,}"],
        ["genes looked at", f"{int(entry['results']['n_genes']):,}"],
    ]
    if scores:
        out += [["accuracy", f"{scores['accuracy']:.1%}"], ["ARI", f"{scores['ari']:.3f}"]]
    return out


def _genes(adata: AnnData, entry: Any, drawn: Any) -> tuple[list[dict[str, Any]], int]:
    model, clusters = entry["model"], entry["clusters"]
    weight = np.linalg.norm(np.asarray(model["weights"], dtype=np.float64), axis=1)
    order = np.argsort(-weight, kind="stable")
    shares = contributions(entry)
    mean, fraction = np.asarray(clusters["mean"]), np.asarray(clusters["fraction"])
    names = selected_genes(entry)
    values, lows, tops, levels = packed_genes(adata, entry, names[order], drawn)
    out = [
        {
            "rank": rank + 1,
            "place": int(j),
            "name": str(names[j]),
            "weight": _number(weight[j]),
            "cluster": int(shares[:, j].argmax()),
            "contribution": _numbers(shares[:, j]),
            "mean": _numbers(mean[:, j]),
            "fraction": _numbers(fraction[:, j]),
            "values": values[rank],
            "low": _number(lows[rank]),
            "top": _number(tops[rank]),
        }
        for rank, j in enumerate(order)
    ]
    return out, levels


def _path(adata: AnnData, path_key: str, n_clusters: int) -> dict[str, Any] | None:
    table = adata.uns.get(path_key)
    if table is None or int(table["n_clusters"]) != n_clusters:
        return None
    names = ("n_features", "eta", "explained", "agreement", "silhouette", "accuracy", "ari", "nmi")
    out: dict[str, Any] = {name: _numbers(table[name]) for name in names if name in table}
    return out | {"best": int(table["best"])}


def _number(value: Any) -> float | None:
    number = float(value)
    return float(f"{number:.5g}") if np.isfinite(number) else None


def _numbers(values: Any) -> list[float | None]:
    return [_number(value) for value in np.asarray(values).ravel()]


def read_run(adata: AnnData, key: str) -> dict[str, Any]:
    """What the command line stored of its run."""
    text = adata.uns.get(key, {}).get("run")
    return dict(json.loads(str(text))) if text is not None else {}
