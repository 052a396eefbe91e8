"""The selected genes: their weights, and their expression in the clusters."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ksparse._errors import InputError
from ksparse._plotting import cluster_colours, one_axes, saved
from ksparse.params import check_integer
from ksparse.scverse.expression import expression_of
from ksparse.scverse.fields import clustered_cells
from ksparse.scverse.labels import clusters_of
from ksparse.scverse.markers import contributions, order_by_weight, per_gene, top_genes
from ksparse.scverse.schema import Record, read_record

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = ["dotplot", "genes", "heatmap"]

# Cells that a heat map can show, one per column.
MAX_CELLS = 2_000


def _cluster_title(name: str) -> str:
    """Return "cluster 3" for "3", and names that users gave as they are."""
    return f"cluster {name}" if name.isdigit() else name


def _top_genes(record: Record, n_genes: int) -> list[tuple[int, int]]:
    """Return the top genes of each cluster; raise ValueError if there are none."""
    n_genes = check_integer("n_genes", n_genes, 1)
    pairs = top_genes(record, n_genes)
    if not pairs:
        raise InputError("No gene is a marker of a cluster: there is nothing to draw.")
    return pairs


def genes(
    adata: AnnData,
    *,
    key: str = "ksparse",
    n_genes: int = 30,
    ax: Any = None,
    save: str | Path | None = None,
) -> Any:
    """Draw the selected genes with the largest weights, in the colour of their cluster.

    A gene is a marker of the cluster to which it contributes most, of those where it is high.

    Parameters
    ----------
    adata : AnnData
        With the results of `ksparse.tl.ksparse`.
    key : str, default="ksparse"
        The `key_added` of these results.
    n_genes : int, default=30
        How many genes to show at most.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    save : path, optional
        Write the figure to this file too.

    Returns
    -------
    Axes
    """
    record = read_record(adata, key)
    n_genes = check_integer("n_genes", n_genes, 1)
    weight = record.model.gene_weights
    if not weight.size:
        raise InputError("No gene was selected: there is nothing to draw.")
    order = order_by_weight(record)[:n_genes]
    marker_of = contributions(record).argmax(axis=0)[order]
    names = record.model.genes[order]
    ax = one_axes(ax, save, width=4.6, height=1.2 + 0.19 * max(6, len(order)))
    _, names_of_clusters = clusters_of(adata, key)
    colours = cluster_colours(len(names_of_clusters))
    at = np.arange(len(order))
    for cluster in np.unique(marker_of):
        here = marker_of == cluster
        ax.barh(
            at[here],
            weight[order][here],
            color=colours[cluster],
            label=_cluster_title(names_of_clusters[cluster]),
        )
    ax.set_yticks(at, labels=names, fontsize=8, parse_math=False)
    ax.set_ylim(len(order) - 0.4, -0.6)
    ax.set_xlabel("weight (row norm of W)")
    ax.set_title(f"{len(order)} of {len(weight)} selected genes")
    ax.legend(frameon=False, fontsize=8, loc="lower right", title="marker of", title_fontsize=8)
    return saved(ax, save)


def dotplot(
    adata: AnnData,
    *,
    key: str = "ksparse",
    n_genes: int = 4,
    ax: Any = None,
    save: str | Path | None = None,
) -> Any:
    """Draw the top genes of each cluster: share of cells that express them, and how much.

    Parameters
    ----------
    adata : AnnData
        With the results of `ksparse.tl.ksparse`.
    key : str, default="ksparse"
        The `key_added` of these results.
    n_genes : int, default=4
        How many genes to show for each cluster.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    save : path, optional
        Write the figure to this file too.

    Returns
    -------
    Axes
    """
    record = read_record(adata, key)
    pairs = _top_genes(record, n_genes)
    columns = [j for j, _ in pairs]
    mean = record.clusters.mean[:, columns]
    fraction = record.clusters.fraction[:, columns]
    k = len(mean)
    ax = one_axes(ax, save, width=2.4 + 0.24 * len(columns), height=1.9 + 0.3 * k)
    x, y = np.meshgrid(np.arange(len(columns)), np.arange(k))
    dots = ax.scatter(x, y, c=per_gene(mean), s=4 + 130 * fraction, cmap="Reds",
                      edgecolors="0.4", linewidths=0.4, vmin=0, vmax=1)  # fmt: skip
    names = record.model.genes[columns]
    ax.set_xticks(np.arange(len(columns)), labels=names, rotation=90, fontsize=8, parse_math=False)
    ax.set_yticks(
        np.arange(k),
        labels=[_cluster_title(name) for name in clusters_of(adata, key)[1]],
        fontsize=8,
    )
    ax.set(xlim=(-0.7, len(columns) - 0.3), ylim=(k - 0.4, -0.6))
    _bands(ax, [cluster for _, cluster in pairs])
    ax.figure.colorbar(dots, ax=ax, shrink=0.7, pad=0.02, label="mean, scaled per gene")
    handles = [ax.scatter([], [], s=4 + 130 * share, c="0.6", label=f"{share:.0%}")
               for share in (0.25, 0.5, 1.0)]  # fmt: skip
    ax.legend(handles=handles, title="cells expressing", title_fontsize=8, fontsize=8, ncols=3,
              frameon=False, loc="lower left", bbox_to_anchor=(0, 1.0))  # fmt: skip
    return saved(ax, save)


def _bands(ax: Any, clusters: list[int]) -> None:
    """Shade every other group of columns."""
    for cluster in set(clusters):
        here = [i for i, c in enumerate(clusters) if c == cluster]
        if cluster % 2:
            ax.axvspan(here[0] - 0.5, here[-1] + 0.5, color="0.94", zorder=0, linewidth=0)


def heatmap(
    adata: AnnData,
    *,
    key: str = "ksparse",
    n_genes: int = 5,
    random_state: int | None = 0,
    ax: Any = None,
    save: str | Path | None = None,
) -> Any:
    """Draw the expression of the top genes of each cluster in single cells.

    Parameters
    ----------
    adata : AnnData
        With the results of `ksparse.tl.ksparse`.
    key : str, default="ksparse"
        The `key_added` of these results.
    n_genes : int, default=5
        How many genes to show for each cluster.
    random_state : int or None, default=0
        Seed of the cells that are drawn, where there are more than 2,000.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    save : path, optional
        Write the figure to this file too.

    Returns
    -------
    Axes
    """
    record = read_record(adata, key)
    pairs = _top_genes(record, n_genes)
    names = record.model.genes[[j for j, _ in pairs]]
    codes, names_of_clusters = clusters_of(adata, key)
    cells = np.arange(len(codes))
    if len(cells) > MAX_CELLS:
        cells = np.sort(np.random.RandomState(random_state).permutation(len(cells))[:MAX_CELLS])
    cells = cells[np.argsort(codes[cells], kind="stable")]
    values = expression_of(adata, record, names, clustered_cells(adata, key)[cells])
    low = np.minimum(np.quantile(values, 0.01, axis=0), 0)
    span = np.maximum(np.quantile(values, 0.99, axis=0) - low, 1e-12)
    ax = one_axes(ax, save, width=7.5, height=1.6 + 0.16 * len(names))
    scaled = np.clip((values - low) / span, 0, 1).T
    image = ax.imshow(
        scaled, aspect="auto", cmap="magma_r", vmin=0, vmax=1, interpolation="nearest"
    )
    ax.set_yticks(np.arange(len(names)), labels=names, fontsize=7, parse_math=False)
    here = codes[cells]
    edges = np.flatnonzero(np.diff(here)) + 0.5
    ax.vlines(edges, -0.5, len(names) - 0.5, color="0.4", linewidth=0.7)
    clusters = np.unique(here)
    middle = [np.flatnonzero(here == cluster).mean() for cluster in clusters]
    ax.set_xticks(middle, labels=[names_of_clusters[c] for c in clusters], fontsize=8)
    ax.tick_params(length=0)
    ax.set_xlabel("cells, by cluster" + (f" ({len(cells):,} of {len(codes):,})"
                  if len(cells) < len(codes) else ""))  # fmt: skip
    ax.figure.colorbar(image, ax=ax, shrink=0.7, pad=0.02, label="expression, scaled per gene")
    return saved(ax, save)
