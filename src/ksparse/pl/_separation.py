"""Which clusters are separated from which."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ksparse._plotting import check_picture, saved
from ksparse.scverse.separations import read_separation

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = ["separation"]


def separation(
    adata: AnnData,
    *,
    key: str = "separation",
    axes: Any = None,
    save: str | Path | None = None,
) -> Any:
    """Draw a tree of the clusters by the depth of the valleys, and a heat map of all pairs.

    Pairs that are not separated have a frame, which is dotted where a cluster has too few cells
    to tell.

    Parameters
    ----------
    adata : AnnData
        With the results of `ksparse.tl.separation`.
    key : str, default="separation"
        The `key_added` of these results.
    axes : sequence of two matplotlib Axes, optional
        Where to draw; a new figure by default.
    save : path, optional
        Write the figure to this file too.

    Returns
    -------
    sequence of Axes

    Examples
    --------
    >>> import ksparse as ks
    >>> adata = ks.simulate.simulate_counts(300, 500, 3, random_state=0).to_anndata()
    >>> tested = ks.tl.separation(adata, "label", normalize="log1p")
    >>> tree, pairs = ks.pl.separation(adata)
    """
    check_picture(save)
    axes = read_separation(adata, key).plot(axes)
    saved(axes[1], save)
    return axes
