"""Cells on a plane."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ksparse.scverse.fields import read_projection, write_layout
from ksparse.scverse.layout import layout
from ksparse.scverse.schema import copy_adata

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
        than 5,000 cells, a sample of 5,000 is laid out and the others are placed among their
        nearest neighbours.
    random_state : int or None, default=0
        Seed.
    copy : bool, default=False
        Whether to return a copy with the results, and leave `adata` as it is.

    Returns
    -------
    AnnData or None
        None unless `copy`. This field is written, for all cells, also where the result is
        restricted to some of them:

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
    points = layout(read_projection(adata, key), method=method, random_state=random_state)
    if copy:
        adata = copy_adata(adata)
    write_layout(adata, key, method, points)
    return adata if copy else None
