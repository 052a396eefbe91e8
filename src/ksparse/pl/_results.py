"""Convergence, the path of numbers of genes, and clusters against known labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ksparse._errors import InputError, Term
from ksparse._plotting import COLOURS, one_axes, saved
from ksparse.scverse.fields import clustered_cells, read_labels
from ksparse.scverse.labels import known_labels, sorted_confusion
from ksparse.scverse.schema import check_adata, field_term, read_path, read_record
from ksparse.selection.path import FeaturePath

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = ["clusters_vs_labels", "convergence", "path"]


def convergence(
    adata: AnnData, *, key: str = "ksparse", ax: Any = None, save: str | Path | None = None
) -> Any:
    """Draw the cost, and the share of changed labels, after each loop.

    Parameters
    ----------
    adata : AnnData
        With the results of `ksparse.tl.ksparse`.
    key : str, default="ksparse"
        The `key_added` of these results.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    save : path, optional
        Write the figure to this file too.

    Returns
    -------
    Axes
        The axes of the cost; the changed labels are on their twin.
    """
    record = read_record(adata, key)
    cost, changed = record.history["cost"], record.history["labels_changed"]
    loops = np.arange(1, len(cost) + 1)
    ax = one_axes(ax, save, width=4.8, height=3.4)
    first = ax.plot(loops, cost, "o-", color=COLOURS[0], label="cost")
    ax.set(xlabel="loop", xticks=loops, ylim=(0, 1.1 * float(np.nanmax(cost)) or 1.0))
    ax.set_ylabel("cost  ½‖Yμ − XW‖²", color=COLOURS[0])
    twin = ax.twinx()
    second = twin.plot(loops, changed, "s--", color=COLOURS[5], label="labels changed")
    twin.set_ylabel("labels changed (1 − ARI)", color=COLOURS[5])
    twin.set_ylim(0, max(0.05, 1.1 * float(np.nanmax(changed, initial=0.0))))
    twin.spines["top"].set_visible(False)
    end = "converged" if record.results.converged else "not converged"
    ax.set_title(f"{len(cost)} loops, {end}")
    ax.legend(handles=first + second, frameon=False, fontsize=8)
    return saved(ax, save)


def path(
    result: AnnData | FeaturePath,
    *,
    key: str = "ksparse_path",
    ax: Any = None,
    save: str | Path | None = None,
) -> Any:
    """Draw genes against eta, and quality against the number of genes.

    Parameters
    ----------
    result : AnnData or FeaturePath
        An object with the result of `ksparse.tl.path`, or what `ksparse.tl.path` returned.
    key : str, default="ksparse_path"
        The `key_added` of `ksparse.tl.path`.
    ax : sequence of two matplotlib Axes, optional
        Where to draw; a new figure by default.
    save : path, optional
        Write the figure to this file too.

    Returns
    -------
    sequence of two Axes
    """
    if not isinstance(result, FeaturePath):
        check_adata(result)
        stored = read_path(result, key)
        if stored is None:
            raise InputError(
                field_term("uns", key), " holds no path: ",
                Term("path first", text="run ksparse.tl.path first"), ".",
            )  # fmt: skip
        result = FeaturePath(stored.columns, [], np.empty((0, 0), dtype=np.int32))
    axes = result.plot(ax)
    saved(axes[0], save)
    return axes


def clusters_vs_labels(
    adata: AnnData,
    labels: str,
    *,
    key: str = "ksparse",
    ax: Any = None,
    save: str | Path | None = None,
) -> Any:
    """Draw how many cells of each class are in each cluster.

    Of a result that is restricted to some cells, these are counted.

    Parameters
    ----------
    adata : AnnData
        With the results of `ksparse.tl.ksparse`.
    labels : str
        Column of `adata.obs` with true labels.
    key : str, default="ksparse"
        The `key_added` of these results.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    save : path, optional
        Write the figure to this file too.

    Returns
    -------
    Axes
    """
    read_record(adata, key)
    cells = clustered_cells(adata, key)
    truth, known = known_labels(adata, labels, cells)
    clusters = read_labels(adata, key)[cells]
    names, ids, table = sorted_confusion(truth[known], clusters[known])
    share = table / np.maximum(table.sum(axis=1, keepdims=True), 1)
    longest = max(len(name) for name in names)
    ax = one_axes(
        ax, save, width=2.6 + 0.5 * len(ids) + 0.07 * longest, height=1.6 + 0.34 * len(names)
    )
    image = ax.imshow(share, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for (i, j), count in np.ndenumerate(table):
        if count:
            colour = "white" if share[i, j] > 0.55 else "black"
            ax.text(j, i, f"{count:,}", ha="center", va="center", fontsize=8, color=colour)
    ax.set_xticks(np.arange(len(ids)), labels=ids, parse_math=False)
    ax.set_yticks(np.arange(len(names)), labels=names, parse_math=False)
    ax.set(xlabel="cluster", ylabel=labels)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    ax.figure.colorbar(image, ax=ax, shrink=0.8, pad=0.02, label="share of the class")
    return saved(ax, save)
