"""Marker genes of each cluster, from the projection."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ksparse._errors import InputError, Term, warn
from ksparse.params import check_integer
from ksparse.scverse.fields import ranking_method, write_contributions, write_ranking
from ksparse.scverse.labels import clusters_of
from ksparse.scverse.markers import contributions, log2_fold_changes
from ksparse.scverse.schema import (
    ANOTHER_KEY,
    check_key,
    copy_adata,
    field_term,
    read_record,
)

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = ["rank_genes"]


def rank_genes(
    adata: AnnData,
    *,
    key: str = "ksparse",
    n_genes: int | None = None,
    key_added: str = "rank_genes_groups",
    copy: bool = False,
) -> AnnData | None:
    """Rank the selected genes by their contribution to each cluster.

    The contribution of a gene to a cluster is its weight in the direction of the cluster's
    centre, times the distance of its mean in the cluster from its mean in all cells, as a
    share of the distance of the cluster's centre from the centre of all cells. Positive:
    the gene is higher in the cluster than in all cells. Negative: it is lower, and marks the
    cluster by its absence. Without their signs contributions to a cluster sum to 1, except for
    the few genes that correct others.

    There are no p-values: these genes defined the clusters, so a test of whether they differ
    between the clusters would always be significant. The fields for p-values are NaN.

    Parameters
    ----------
    adata : AnnData
        With the results of `ksparse.tl.ksparse`.
    key : str, default="ksparse"
        The `key_added` of these results.
    n_genes : int, optional
        How many genes to list for each cluster; all selected ones by default.
    key_added : str, default="rank_genes_groups"
        Where to write the ranking; the default is where scanpy's plots expect it.
    copy : bool, default=False
        Whether to return a copy with the results, and leave `adata` as it is.

    Returns
    -------
    AnnData or None
        None unless `copy`. These fields are written:

    `.varm[key + "_contribution"]` : ndarray, genes x clusters
        Signed contributions; 0 for genes that are not selected.
    `.uns[key_added]` : dict
        scanpy's schema, one field for each cluster: names, scores (the contributions, in
        decreasing order), logfoldchanges (log2, against all other cells), pvals and
        pvals_adj (NaN), and params. `scanpy.get.rank_genes_groups_df` and scanpy's
        `pl.rank_genes_groups_dotplot`, `_heatmap` and the like read it.

    Examples
    --------
    >>> import ksparse as ks
    >>> adata = ks.simulate.simulate_counts(300, 500, 3, random_state=0).to_anndata()
    >>> ks.tl.ksparse(adata, 3, n_features=20, normalize="log1p", random_state=0)
    >>> ks.tl.rank_genes(adata)
    >>> len(adata.uns["rank_genes_groups"]["names"]["0"])
    20
    """
    record = read_record(adata, key)
    check_key("key_added", key_added)
    if key_added == key:
        raise InputError(
            Term("key_added", key_added), " holds the result itself: give another name."
        )
    if n_genes is not None:
        n_genes = check_integer("n_genes", n_genes, 1)
    if copy:
        adata = copy_adata(adata)
    genes = record.model.genes
    missing = sorted(set(genes) - set(adata.var_names))
    if missing:
        raise InputError(
            f"{len(missing)} of {genes.size} selected genes are not in ", Term("adata"),
            f" (the first is {missing[0]!r}): rank them before genes are removed.",
        )  # fmt: skip
    _, groups = clusters_of(adata, key)
    shares = contributions(record)
    of_all_genes = np.zeros((adata.n_vars, shares.shape[0]))
    of_all_genes[adata.var_names.get_indexer(genes)] = shares.T
    write_contributions(adata, key, of_all_genes)

    replaced = ranking_method(adata, key_added)
    if replaced not in (None, "ksparse"):
        warn(
            field_term("uns", key_added), f" held a ranking by {replaced!r}, which is replaced: ",
            ANOTHER_KEY, " to keep both.", stacklevel=2,
        )  # fmt: skip
    n = genes.size if n_genes is None else min(n_genes, genes.size)
    order = np.argsort(-shares, axis=1, kind="stable")[:, :n]
    write_ranking(
        adata,
        key_added,
        key,
        record.layer,
        groups,
        names=genes[order],
        scores=np.take_along_axis(shares, order, 1),
        log2_fold_changes=np.take_along_axis(log2_fold_changes(record), order, 1),
    )
    return adata if copy else None
