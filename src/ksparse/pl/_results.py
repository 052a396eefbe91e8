"""How the fit went, and how its clusters compare with known labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from ksparse.path import FeaturePath
from ksparse.plotting import COLOURS, one_axes, saved
from ksparse.tl._data import check_adata, found, known_labels

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = ["clusters_vs_labels", "convergence", "path", "sorted_confusion"]


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
        That of the cost; the axis of the labels is its twin.
    """
    entry = found(adata, key)
    cost = np.asarray(entry["history"]["cost"])
    changed = np.asarray(entry["history"]["labels_changed"])
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
    done = "settled" if bool(entry["results"]["converged"]) else "not settled"
    ax.set_title(f"{len(cost)} loops, {done}")
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
        An object with the result of `ksparse.tl.path`, or what that returned.
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
        table = result.uns.get(key)
        if table is None:
            raise ValueError(f"adata.uns[{key!r}] holds no path: run ksparse.tl.path first.")
        columns = {name: np.asarray(values) for name, values in table.items() if np.ndim(values)}
        result = FeaturePath(columns, [], np.empty((0, 0), dtype=np.int32))
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
    found(adata, key)
    truth, known = known_labels(adata, labels)
    clusters = np.asarray(adata.obs[key].astype(str), dtype=str)
    names, ids, table = sorted_confusion(truth[known], clusters[known])
    share = table / np.maximum(table.sum(axis=1, keepdims=True), 1)
    longest = max(len(name) for name in names)
    ax = one_axes(
        ax, save, width=2.6 + 0.5 * len(ids) + 0.07 * longest, height=1.6 + 0.34 * len(names)
    )
    shown = ax.imshow(share, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for (i, j), count in np.ndenumerate(table):
        if count:
            colour = "white" if share[i, j] > 0.55 else "black"
            ax.text(j, i, f"{count:,}", ha="center", va="center", fontsize=8, color=colour)
    ax.set_xticks(np.arange(len(ids)), labels=ids, parse_math=False)
    ax.set_yticks(np.arange(len(names)), labels=names, parse_math=False)
    ax.set(xlabel="cluster", ylabel=labels)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    ax.figure.colorbar(shown, ax=ax, shrink=0.8, pad=0.02, label="share of the class")
    return saved(ax, save)


def sorted_confusion(truth: Any, clusters: Any) -> tuple[list[str], list[str], Any]:
    """Classes, clusters, and counts, with each class beside the cluster matched to it."""
    names, rows = np.unique(truth, return_inverse=True)
    ids, columns = np.unique(clusters, return_inverse=True)
    table = np.zeros((names.size, ids.size), dtype=np.int64)
    np.add.at(table, (rows, columns), 1)
    by_number = np.argsort([int(i) if str(i).isdigit() else 0 for i in ids], kind="stable")
    table, ids = table[:, by_number], ids[by_number]
    match = np.full(names.size, ids.size)
    which, home = linear_sum_assignment(table, maximize=True)
    match[which] = home
    order = np.lexsort((-table.sum(axis=1), match))
    return [str(n) for n in names[order]], [str(i) for i in ids], table[order]
