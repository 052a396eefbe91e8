"""Cells and their expression in few bytes: whole numbers, deflated, as text."""

from __future__ import annotations

import base64
import json
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ksparse.layout import layout
from ksparse.tl._data import expression_of, projected

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = ["packed_cells", "packed_genes"]

# Cells that are drawn, and bytes that the expression of genes may take in the page.
MOST_CELLS, GENE_BYTES = 50_000, 3_000_000
# Steps of the colour scale: fine, or coarse where that would be too much.
LEVELS = (255, 15)


def packed(values: bytes) -> str:
    """Deflate and write as base64."""
    return base64.b64encode(zlib.compress(values, 9)).decode()


def packed_cells(
    adata: AnnData, key: str, codes: NDArray[Any], label_codes: NDArray[Any] | None
) -> tuple[dict[str, Any], NDArray[np.intp]]:
    """The picture of the cells, and which of them are drawn."""
    methods = [method for method in ("tsne", "umap") if f"{key}_{method}" in adata.obsm]
    method = methods[0] if methods else "tsne"
    if methods:
        points = np.asarray(adata.obsm[f"{key}_{method}"], dtype=np.float64)
    else:
        points = layout(projected(adata, key), method=method).astype(np.float64)
    drawn = np.arange(adata.n_obs)
    if drawn.size > MOST_CELLS:
        drawn = np.sort(np.random.RandomState(0).permutation(drawn.size)[:MOST_CELLS])
    points = points[drawn]
    low, span = points.min(axis=0), np.ptp(points, axis=0)
    whole = np.rint((points - low) / np.where(span > 0, span, 1) * 65535).astype("<u2")
    name = {"tsne": "t-SNE", "umap": "UMAP"}[method]
    hint = f"{name} of the sparse projection: cells that are near share their cluster's genes, and "
    hint += "distances between groups mean little. Click a cluster or a cell to highlight it."
    if drawn.size < adata.n_obs:
        hint += f" {drawn.size:,} of {adata.n_obs:,} cells are drawn, taken at random."
    return {
        "shown": int(drawn.size),
        "x": packed(whole[:, 0].tobytes()),
        "y": packed(whole[:, 1].tobytes()),
        "aspect": float(np.clip(span[0] / span[1], 0.4, 2.5)) if (span > 0).all() else 1.0,
        "cluster": _codes(codes[drawn]),
        "label": None if label_codes is None else _codes(label_codes[drawn]),
        "names": packed(json.dumps([str(n) for n in adata.obs_names[drawn]]).encode()),
        "hint": hint,
    }, drawn


def _codes(values: NDArray[Any]) -> str:
    return packed(values.astype("<u2").tobytes())


def packed_genes(
    adata: AnnData, entry: Any, genes: NDArray[Any], drawn: NDArray[np.intp]
) -> tuple[list[str | None], NDArray[Any], NDArray[Any], int]:
    """Expression of each gene in steps between its ends, both ends, and the number of steps.

    Genes with the largest weights come first, and those that find no room are None.
    """
    if not len(genes):
        return [], np.zeros(0), np.zeros(0), LEVELS[0]
    there = np.isin(genes, np.asarray(adata.var_names, dtype=object).astype(str))
    lows, tops = np.zeros(len(genes)), np.zeros(len(genes))
    columns: list[NDArray[Any] | None] = [None] * len(genes)
    for start in range(0, len(genes), 400):  # not all at once: cells x genes may be large
        part = [i for i in range(start, min(start + 400, len(genes))) if there[i]]
        if part:
            values = expression_of(adata, entry, genes[part], drawn)
            lows[part] = values.min(axis=0, initial=0)
            tops[part] = values.max(axis=0, initial=0)
            span = tops[part] - lows[part]
            scaled = (values - lows[part]) / np.where(span > 0, span, 1)
            steps = np.rint(scaled * LEVELS[0]).astype(np.uint8)
            for i, column in zip(part, steps.T, strict=True):
                columns[i] = np.ascontiguousarray(column)
    out = [None if column is None else packed(column.tobytes()) for column in columns]
    levels = LEVELS[0]
    if sum(len(text) for text in out if text) > GENE_BYTES:
        levels = LEVELS[1]
        step = LEVELS[0] // LEVELS[1]
        for i, column in enumerate(columns):
            if column is not None:  # uint8 is too small for the sum
                coarse = (column.astype(np.uint16) + step // 2) // step
                out[i] = packed(coarse.astype(np.uint8).tobytes())
        room = GENE_BYTES - np.cumsum([len(text) if text else 0 for text in out])
        out = [text if left >= 0 else None for text, left in zip(out, room, strict=True)]
    return out, lows, tops, levels
