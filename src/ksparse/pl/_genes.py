"""The selected genes: their weights, and their expression in the clusters."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ksparse.plotting import cluster_colours, one_axes, saved
from ksparse.tl._data import clusters_of, expression_of, found, selected_genes
from ksparse.tl._rank_genes import contributions
from ksparse.validation import check_at_least

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = ["dotplot", "genes", "heatmap", "top_genes"]

# Cells that a heat map can show, one per column.
MOST_CELLS = 2_000


def top_genes(entry: Any, n_genes: int) -> list[tuple[int, int]]:
    """Pairs (gene, cluster): up to `n_genes` for each cluster, none of them twice."""
    shares = contributions(entry)
    taken: set[int] = set()
    out = []
    for cluster, row in enumerate(shares):
        order = [int(j) for j in np.argsort(-row, kind="stable") if row[j] > 0]
        own = [j for j in order if j not in taken][:n_genes]
        taken.update(own)
        out += [(j, cluster) for j in own]
    return out


def shown_name(name: str) -> str:
    """A number is not enough to go by."""
    return f"cluster {name}" if name.isdigit() else name


def genes(
    adata: AnnData,
    *,
    key: str = "ksparse",
    n_genes: int = 30,
    ax: Any = None,
    save: str | Path | None = None,
) -> Any:
    """Draw the selected genes with the largest weights, in the colour of a cluster each.

    That is the cluster to which the gene contributes most, of those where it is high.

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
    entry = found(adata, key)
    check_at_least("n_genes", n_genes, 1)
    weight = np.linalg.norm(np.asarray(entry["model"]["weights"], dtype=np.float64), axis=1)
    if not weight.size:
        raise ValueError("No gene was selected: there is nothing to draw.")
    order = np.argsort(-weight, kind="stable")[:n_genes]
    home = contributions(entry).argmax(axis=0)[order]
    names = selected_genes(entry)[order]
    ax = one_axes(ax, save, width=4.6, height=1.2 + 0.19 * max(6, len(order)))
    _, names_of_clusters = clusters_of(adata, key)
    colours = cluster_colours(len(names_of_clusters))
    at = np.arange(len(order))
    for cluster in np.unique(home):
        here = home == cluster
        ax.barh(
            at[here],
            weight[order][here],
            color=colours[cluster],
            label=shown_name(names_of_clusters[cluster]),
        )
    ax.set_yticks(at, labels=names, fontsize=8, parse_math=False)
    ax.set_ylim(len(order) - 0.4, -0.6)
    ax.set_xlabel("weight (row norm of W)")
    ax.set_title(f"{len(order)} of {len(weight)} selected genes")
    ax.legend(frameon=False, fontsize=8, loc="lower right", title="speaks for", title_fontsize=8)
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
    entry = found(adata, key)
    check_at_least("n_genes", n_genes, 1)
    pairs = top_genes(entry, n_genes)
    if not pairs:
        raise ValueError("No gene speaks for a cluster: there is nothing to draw.")
    columns = [j for j, _ in pairs]
    mean = np.asarray(entry["clusters"]["mean"])[:, columns]
    fraction = np.asarray(entry["clusters"]["fraction"])[:, columns]
    k = len(mean)
    ax = one_axes(ax, save, width=2.4 + 0.24 * len(columns), height=1.9 + 0.3 * k)
    x, y = np.meshgrid(np.arange(len(columns)), np.arange(k))
    shown = ax.scatter(x, y, c=_per_gene(mean), s=4 + 130 * fraction, cmap="Reds",
                       edgecolors="0.4", linewidths=0.4, vmin=0, vmax=1)  # fmt: skip
    names = selected_genes(entry)[columns]
    ax.set_xticks(np.arange(len(columns)), labels=names, rotation=90, fontsize=8, parse_math=False)
    ax.set_yticks(
        np.arange(k), labels=[shown_name(name) for name in clusters_of(adata, key)[1]], fontsize=8
    )
    ax.set(xlim=(-0.7, len(columns) - 0.3), ylim=(k - 0.4, -0.6))
    _bands(ax, [cluster for _, cluster in pairs])
    ax.figure.colorbar(shown, ax=ax, shrink=0.7, pad=0.02, label="mean, scaled per gene")
    handles = [ax.scatter([], [], s=4 + 130 * share, c="0.6", label=f"{share:.0%}")
               for share in (0.25, 0.5, 1.0)]  # fmt: skip
    ax.legend(handles=handles, title="cells expressing", title_fontsize=8, fontsize=8, ncols=3,
              frameon=False, loc="lower left", bbox_to_anchor=(0, 1.0))  # fmt: skip
    return saved(ax, save)


def _per_gene(values: NDArray[Any]) -> NDArray[Any]:
    """Scale every column to the range from 0 to 1."""
    low, high = values.min(axis=0), values.max(axis=0)
    return (values - low) / np.where(high > low, high - low, 1.0)


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
    entry = found(adata, key)
    check_at_least("n_genes", n_genes, 1)
    pairs = top_genes(entry, n_genes)
    if not pairs:
        raise ValueError("No gene speaks for a cluster: there is nothing to draw.")
    names = selected_genes(entry)[[j for j, _ in pairs]]
    codes, names_of_clusters = clusters_of(adata, key)
    cells = np.arange(len(codes))
    if len(cells) > MOST_CELLS:
        cells = np.sort(np.random.RandomState(random_state).permutation(len(cells))[:MOST_CELLS])
    cells = cells[np.argsort(codes[cells], kind="stable")]
    values = expression_of(adata, entry, names, cells)
    low = np.minimum(np.quantile(values, 0.01, axis=0), 0)
    span = np.maximum(np.quantile(values, 0.99, axis=0) - low, 1e-12)
    ax = one_axes(ax, save, width=7.5, height=1.6 + 0.16 * len(names))
    scaled = np.clip((values - low) / span, 0, 1).T
    shown = ax.imshow(
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
    ax.figure.colorbar(shown, ax=ax, shrink=0.7, pad=0.02, label="expression, scaled per gene")
    return saved(ax, save)
