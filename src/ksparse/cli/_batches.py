"""Tables of batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ksparse.scverse.batches import Batches, read_batches
from ksparse.scverse.schema import read_record

__all__ = ["batch_rows", "batch_sentences", "gene_columns"]


def _batches(adata: Any, key: str) -> Batches | None:
    return read_batches(adata, key, read_record(adata, key))


def batch_rows(adata: Any, key: str) -> tuple[list[str], list[list[Any]]] | None:
    """Return header and rows of batches.csv, one row for each cluster; None without batches."""
    record = read_record(adata, key)
    batches = read_batches(adata, key, record)
    if batches is None:
        return None
    header = ["cluster", "cells", "largest", "share", "expected", "p_value", "one_batch"]
    mixing, rows = batches.mixing, []
    for c, cluster in enumerate(record.cluster_names):
        counts = [f"{count:g}" for count in mixing["counts"][c]]
        shares = [f"{float(mixing[name][c]):.4g}" for name in header[3:6]]
        largest = batches.name[int(mixing["largest"][c])]
        size = f"{mixing['counts'][c].sum():g}"
        rows.append([cluster, size, largest, *shares, bool(mixing["one_batch"][c]), *counts])
    return [*header, *(f"cells_{name}" for name in batches.name)], rows


def gene_columns(adata: Any, key: str) -> tuple[list[str], Iterator[list[Any]]]:
    """Return what genes.csv says of batches, for the selected genes in the order of the model."""
    batches = _batches(adata, key)
    if batches is None:
        n_genes = read_record(adata, key).model.genes.size
        return [], ([] for _ in range(n_genes))
    explained = batches.support["explained"].T
    rows = ([only, *("" if share != share else f"{share:.4g}" for share in shares)]
            for only, shares in zip(batches.supporting, explained, strict=True))  # fmt: skip
    return ["one_batch", *(f"explained_{name}" for name in batches.name)], rows


def batch_sentences(adata: Any, key: str) -> list[str]:
    """Return what is to be said of clusters and genes of one batch; nothing without batches."""
    record = read_record(adata, key)
    batches = read_batches(adata, key, record)
    if batches is None:
        return []
    return batches.sentences(record.cluster_names, record.model.genes)
