"""Clusters within clusters."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ksparse._plotting import check_picture, saved
from ksparse.scverse.trees import read_tree
from ksparse.selection.tree_plot import draw

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = ["tree"]


def tree(
    adata: AnnData,
    *,
    key: str = "tree",
    n_clusters: int | None = None,
    axes: Any = None,
    save: str | Path | None = None,
) -> Any:
    """Draw the tree of clusters from left to right, with genes on its branches.

    On each branch are the genes that are higher in it than in its sibling, at each split its
    corrected p-value, and at each end the name of the cluster, its cells, and the p-value of a
    further split ("too few" cells to tell). Splits that are not supported are dashed.

    Parameters
    ----------
    adata : AnnData
        With the results of `ksparse.tl.tree`.
    key : str, default="tree"
        The `key_added` of these results.
    n_clusters : int, optional
        Where to cut the tree; the supported clusters by default.
    axes : matplotlib Axes, optional
        Where to draw; a new figure of the size that the tree needs by default.
    save : path, optional
        Write the figure to this file too.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import ksparse as ks
    >>> adata = ks.simulate.simulate_counts(200, 300, 3, random_state=0).to_anndata()
    >>> tree = ks.tl.tree(adata, init="graph", normalize="log1p", random_state=0)
    >>> axes = ks.pl.tree(adata)
    """
    check_picture(save)
    return saved(draw(read_tree(adata, key), axes, n_clusters=n_clusters), save)
