"""Cells on a plane."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ksparse.layout import layout
from ksparse.tl._data import projected

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = ["embed"]


def embed(
    adata: AnnData,
    *,
    key: str = "ksparse",
    method: str = "tsne",
    random_state: int | None = 0,
    copy: bool = False,
) -> AnnData | None:
    """Lay out the projected cells on a plane, for pictures.

    Parameters
    ----------
    adata : AnnData
        With the results of `ksparse.tl.ksparse`.
    key : str, default="ksparse"
        The `key_added` of these results.
    method : {"tsne", "umap"}, default="tsne"
        "umap" needs the package umap-learn, which comes with scanpy. With "tsne" and more
        than 5,000 cells, as many are laid out and the others are placed among their nearest.
    random_state : int or None, default=0
        Seed.
    copy : bool, default=False
        Whether to return a copy with the results, and leave `adata` as it is.

    Returns
    -------
    AnnData or None
        None unless `copy`. This field is written:

    `.obsm[key + "_" + method]` : ndarray, cells x 2
        Coordinates; ``scanpy.pl.embedding(adata, "ksparse_tsne")`` draws them too.

    Examples
    --------
    >>> import ksparse as ks
    >>> adata = ks.simulate.simulate_counts(100, 500, 3, random_state=0).to_anndata()
    >>> ks.tl.ksparse(adata, 3, n_features=20, normalize="log1p", random_state=0)
    >>> ks.tl.embed(adata)
    >>> adata.obsm["ksparse_tsne"].shape
    (100, 2)
    """
    points = layout(projected(adata, key), method=method, random_state=random_state)
    if copy:
        adata = adata.to_memory() if adata.isbacked else adata.copy()
    adata.obsm[f"{key}_{method}"] = points
    return adata if copy else None
