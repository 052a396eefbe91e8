"""Coordinates and expression of cells in few bytes: whole numbers, deflated, as text."""

from __future__ import annotations

import base64
import json
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ksparse.scverse.expression import expression_of
from ksparse.scverse.fields import read_layout, read_projection
from ksparse.scverse.layout import METHODS, layout
from ksparse.scverse.schema import Record

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = ["packed_cells", "packed_genes"]

# Cells that are drawn, and bytes that the expression of genes may take in the page.
MAX_CELLS, GENE_BYTES = 50_000, 3_000_000
# Steps of the colour scale: fine, or coarse where that would take too many bytes.
LEVELS = (255, 15)
# Genes whose expression is read together: cells x genes may be large.
N_TOGETHER = 400


def packed(values: bytes) -> str:
    """Return bytes deflated, as base64."""
    return base64.b64encode(zlib.compress(values, 9)).decode()


def packed_cells(
    adata: AnnData,
    key: str,
    cells: NDArray[np.intp],
    codes: NDArray[Any],
    label_codes: NDArray[Any] | None,
) -> tuple[dict[str, Any], NDArray[np.intp]]:
    """Return the coordinates and codes of the cells that are drawn, and which these are.

    `cells` are those that were clustered, and the codes are theirs.
    """
    method, points = _coordinates(adata, key, cells)
    drawn = np.arange(cells.size)
    if drawn.size > MAX_CELLS:
        drawn = np.sort(np.random.RandomState(0).permutation(drawn.size)[:MAX_CELLS])
    points = points[drawn]
    low, span = points.min(axis=0), np.ptp(points, axis=0)
    whole = np.rint((points - low) / np.where(span > 0, span, 1) * 65535).astype("<u2")
    name = {"tsne": "t-SNE", "umap": "UMAP"}[method]
    hint = f"{name} of the sparse projection: cells that are near share their cluster's genes, and "
    hint += "distances between groups mean little. Click a cluster or a cell to highlight it."
    if drawn.size < cells.size:
        hint += f" {drawn.size:,} of {cells.size:,} cells are drawn, taken at random."
    return {
        "shown": int(drawn.size),
        "x": packed(whole[:, 0].tobytes()),
        "y": packed(whole[:, 1].tobytes()),
        "aspect": float(np.clip(span[0] / span[1], 0.4, 2.5)) if (span > 0).all() else 1.0,
        "cluster": _codes(codes[drawn]),
        "label": None if label_codes is None else _codes(label_codes[drawn]),
        "names": packed(json.dumps([str(n) for n in adata.obs_names[cells[drawn]]]).encode()),
        "hint": hint,
    }, cells[drawn]


def _coordinates(
    adata: AnnData, key: str, cells: NDArray[np.intp]
) -> tuple[str, NDArray[np.float64]]:
    """Return the method and the coordinates of the first layout that is stored, or of a new one."""
    for method in METHODS:
        stored = read_layout(adata, key, method)
        if stored is not None:
            return method, stored[cells].astype(np.float64)
    projected = read_projection(adata, key)[cells]
    return METHODS[0], layout(projected, method=METHODS[0]).astype(np.float64)


def _codes(values: NDArray[Any]) -> str:
    return packed(values.astype("<u2").tobytes())


def packed_genes(
    adata: AnnData, record: Record, genes: NDArray[Any], drawn: NDArray[np.intp]
) -> tuple[list[str | None], NDArray[Any], NDArray[Any], int]:
    """Return the expression of each gene in steps between its ends, both ends, and their number.

    The genes come in the order of their weights; those for which there is no room are None.
    """
    columns, lows, tops = _steps(adata, record, genes, drawn)
    packed_columns = [None if column is None else packed(column.tobytes()) for column in columns]
    if _n_bytes(packed_columns).sum() <= GENE_BYTES:
        return packed_columns, lows, tops, LEVELS[0]
    step = LEVELS[0] // LEVELS[1]
    for i, column in enumerate(columns):
        if column is not None:  # uint8 is too small for the sum
            coarse = (column.astype(np.uint16) + step // 2) // step
            packed_columns[i] = packed(coarse.astype(np.uint8).tobytes())
    fits = np.cumsum(_n_bytes(packed_columns)) <= GENE_BYTES
    return (
        [text if fit else None for text, fit in zip(packed_columns, fits, strict=True)],
        lows, tops, LEVELS[1],
    )  # fmt: skip


def _n_bytes(texts: list[str | None]) -> NDArray[np.int64]:
    return np.array([0 if text is None else len(text) for text in texts], dtype=np.int64)


def _steps(
    adata: AnnData, record: Record, genes: NDArray[Any], drawn: NDArray[np.intp]
) -> tuple[list[NDArray[np.uint8] | None], NDArray[Any], NDArray[Any]]:
    """Return the expression of each gene in fine steps (None: not in adata), and both ends."""
    lows, tops = np.zeros(len(genes)), np.zeros(len(genes))
    columns: list[NDArray[np.uint8] | None] = [None] * len(genes)
    present = np.isin(genes, np.asarray(adata.var_names, dtype=object).astype(str))
    for start in range(0, len(genes), N_TOGETHER):
        part = [i for i in range(start, min(start + N_TOGETHER, len(genes))) if present[i]]
        if not part:
            continue
        values = expression_of(adata, record, genes[part], drawn)
        lows[part] = values.min(axis=0, initial=0)
        tops[part] = values.max(axis=0, initial=0)
        span = tops[part] - lows[part]
        scaled = (values - lows[part]) / np.where(span > 0, span, 1)
        steps = np.rint(scaled * LEVELS[0]).astype(np.uint8)
        for i, column in zip(part, steps.T, strict=True):
            columns[i] = np.ascontiguousarray(column)
    return columns, lows, tops
