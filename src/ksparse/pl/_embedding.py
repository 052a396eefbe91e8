"""Cells on a plane."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ksparse._errors import InputError, Term
from ksparse._plotting import cluster_colours, expression_colours, one_axes, saved
from ksparse.metrics import correctly_placed
from ksparse.scverse.expression import expression_of
from ksparse.scverse.fields import clustered_cells, read_layout, read_projection
from ksparse.scverse.labels import clusters_of, known_labels
from ksparse.scverse.layout import layout
from ksparse.scverse.schema import read_record

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = ["embedding"]

TITLES = {"tsne": "t-SNE", "umap": "UMAP"}


def embedding(
    adata: AnnData,
    *,
    key: str = "ksparse",
    method: str = "tsne",
    labels: str | None = None,
    gene: str | None = None,
    size: float | None = None,
    random_state: int | None = 0,
    ax: Any = None,
    save: str | Path | None = None,
) -> Any:
    """Draw the projected cells on a plane, coloured by cluster or by a gene.

    Of a result that is restricted to some cells, these are drawn.

    Parameters
    ----------
    adata : AnnData
        With the results of `ksparse.tl.ksparse`.
    key : str, default="ksparse"
        The `key_added` of these results.
    method : {"tsne", "umap"}, default="tsne"
        Layout of the cells. Coordinates that `ksparse.tl.embed` wrote are used.
    labels : str, optional
        Column of `adata.obs` with true labels: cells that are not in the cluster matched to
        their class are black, as in the paper.
    gene : str, optional
        Colour by the expression of this gene instead.
    size : float, optional
        Size of the dots.
    random_state : int or None, default=0
        Seed of the layout.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    save : path, optional
        Write the figure to this file too.

    Returns
    -------
    Axes
    """
    record = read_record(adata, key)
    if labels is not None and gene is not None:
        raise InputError(Term("labels"), " and ", Term("gene"), " exclude each other: give one.")
    cells = clustered_cells(adata, key)
    points = read_layout(adata, key, method)
    if points is None:
        projected = read_projection(adata, key)[cells]
        points = layout(projected, method=method, random_state=random_state)
    else:
        points = points[cells]
    if gene is not None and gene not in adata.var_names:
        raise InputError(Term("gene", gene), " is not in ", Term("adata.var_names"), ".")
    truth = None if labels is None else known_labels(adata, labels, cells)
    dot = size if size is not None else float(np.clip(6000 / len(points), 1.5, 24))
    codes, names = clusters_of(adata, key)
    ax = one_axes(ax, save, width=5.6, height=4.6)
    if gene is not None:
        _by_gene(ax, expression_of(adata, record, [gene], cells)[:, 0], points, gene, dot)
    else:
        _by_cluster(ax, points, codes, names, dot)
        _title(ax, codes, points, labels, truth, dot, adata.n_obs)
    ax.set(xticks=[], yticks=[], aspect="equal", anchor="W")
    ax.set_xlabel(f"{TITLES.get(method, method)} of the projection", fontsize=9)
    ax.spines[:].set_visible(False)
    return saved(ax, save)


def _by_gene(ax: Any, values: NDArray[Any], points: Any, gene: str, dot: float) -> None:
    order = np.argsort(values, kind="stable")  # the highest on top
    dots = ax.scatter(
        *points[order].T, c=values[order], s=dot, cmap=expression_colours(), linewidths=0
    )
    ax.figure.colorbar(dots, ax=ax, shrink=0.6, label="expression")
    ax.set_title(gene, parse_math=False)


def _by_cluster(
    ax: Any, points: NDArray[Any], codes: NDArray[Any], names: list[str], dot: float
) -> None:
    colours = cluster_colours(len(names))
    for cluster, name in enumerate(names):
        here = codes == cluster
        if not here.any():
            continue
        ax.scatter(
            *points[here].T, s=dot, color=colours[cluster], linewidths=0,
            label=f"{name} ({here.sum():,})",
        )  # fmt: skip
    for cluster, name in enumerate(names):
        here = codes == cluster
        if here.any():
            ax.annotate(
                name, np.median(points[here], axis=0), ha="center", va="center", fontsize=9,
                parse_math=False, weight="bold",
                bbox={"boxstyle": "round,pad=0.15", "fc": "white", "ec": "0.4", "alpha": 0.85},
            )  # fmt: skip


def _title(
    ax: Any, codes: Any, points: Any, labels: str | None, truth: Any, dot: float, n_cells: int
) -> None:
    drawn = f"{len(points):,} of {n_cells:,}" if len(points) < n_cells else f"{n_cells:,}"
    title = f"{drawn} cells, {len(np.unique(codes))} clusters"
    if truth is not None:
        classes, known = truth
        wrong = np.zeros(len(points), dtype=bool)
        wrong[known] = ~correctly_placed(classes[known], codes[known])
        share = 1 - wrong[known].mean()
        if wrong.any():
            ax.scatter(*points[wrong].T, s=1.3 * dot, color="black", linewidths=0,
                       label=f"misplaced ({wrong.sum():,})")  # fmt: skip
        title += f", {share:.1%} as in {labels}"
    ax.set_title(title)
    columns = 1 + len(ax.get_legend_handles_labels()[0]) // 16
    ax.legend(
        frameon=False, fontsize=8, title="cluster (cells)", title_fontsize=8, markerscale=1.0,
        loc="center left", bbox_to_anchor=(1.0, 0.5), ncols=columns, scatterpoints=1,
    )  # fmt: skip
    for handle in ax.get_legend().legend_handles:
        handle.set_sizes([30])
    for text in ax.get_legend().get_texts():
        text.set_parse_math(False)
