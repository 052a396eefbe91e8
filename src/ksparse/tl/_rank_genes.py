"""Marker genes of each cluster, from the projection."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ksparse.tl._data import check_key, clusters_of, found, selected_genes
from ksparse.validation import check_at_least

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = ["contributions", "rank_genes"]


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
    the gene is higher in the cluster than in all cells. Negative: it is lower, and its
    absence tells. Without their signs contributions to a cluster sum to 1, but for the few
    genes that correct others: what these take away is shown as what others give.

    There are no p-values: these genes defined the clusters, so that a test of whether they
    differ between the clusters would always say yes. Fields of the schema for p-values
    are NaN.

    Parameters
    ----------
    adata : AnnData
        With the results of `ksparse.tl.ksparse`.
    key : str, default="ksparse"
        The `key_added` of these results.
    n_genes : int, optional
        How many genes to list for each cluster; all selected ones by default.
    key_added : str, default="rank_genes_groups"
        Where to write the ranking; the default is where scanpy's pictures look for it.
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
    entry = found(adata, key)
    check_key("key_added", key_added)
    if key_added == key:
        raise ValueError(f"key_added={key_added!r} holds the result itself: give another name.")
    if n_genes is not None:
        check_at_least("n_genes", n_genes, 1)
    if copy:
        adata = adata.to_memory() if adata.isbacked else adata.copy()
    genes = selected_genes(entry)
    missing = sorted(set(genes) - set(adata.var_names))
    if missing:
        raise ValueError(
            f"{len(missing)} of {genes.size} selected genes are not in adata (the first is "
            f"{missing[0]!r}): rank them before genes are removed."
        )
    shares = contributions(entry)
    where = adata.var_names.get_indexer(genes)
    full = np.zeros((adata.n_vars, shares.shape[0]))
    full[where] = shares.T
    adata.varm[f"{key}_contribution"] = full

    before = adata.uns.get(key_added, {})
    before = before.get("params", {}) if isinstance(before, Mapping) else {"method": "unknown"}
    before = str(before.get("method", "ksparse"))
    if before != "ksparse":
        warnings.warn(
            f"adata.uns[{key_added!r}] held a ranking by {before!r}, which is replaced: "
            "give key_added= to keep both.",
            UserWarning,
            stacklevel=2,
        )
    n = genes.size if n_genes is None else min(n_genes, genes.size)
    order = np.argsort(-shares, axis=1, kind="stable")[:, :n]
    fold = _log2_fold_changes(entry)
    params = {"groupby": key, "reference": "rest", "method": "ksparse", "use_raw": False,
              "corr_method": "none"}  # fmt: skip
    if "layer" in entry["params"]:
        params["layer"] = entry["params"]["layer"]
    nothing = np.full(order.shape, np.nan)
    _, groups = clusters_of(adata, key)
    adata.uns[key_added] = {
        "params": params,
        "names": _records(genes[order].astype(object), object, groups),
        "scores": _records(np.take_along_axis(shares, order, 1), np.float32, groups),
        "logfoldchanges": _records(np.take_along_axis(fold, order, 1), np.float32, groups),
        "pvals": _records(nothing, np.float64, groups),
        "pvals_adj": _records(nothing, np.float64, groups),
    }
    return adata if copy else None


def contributions(entry: Any) -> NDArray[np.float64]:
    """Signed contributions, clusters x selected genes."""
    model = entry["model"]
    centres = np.asarray(model["centroids"], dtype=np.float64)
    length = np.linalg.norm(centres, axis=1, keepdims=True)
    length[length == 0] = np.inf  # a cluster in the middle, or the only one: nothing tells
    toward = (centres / length) @ np.asarray(model["weights"], dtype=np.float64).T
    difference = (np.asarray(entry["clusters"]["mean"]) - model["mean"]) * model["scale"]
    return np.sign(difference) * np.abs(toward * difference) / length


def _log2_fold_changes(entry: Any) -> NDArray[np.float64]:
    """log2 of mean expression against all other cells, as scanpy computes it from log1p data."""
    mean, size = np.asarray(entry["clusters"]["mean"]), np.asarray(entry["clusters"]["size"])
    total = (mean * size[:, None]).sum(axis=0)
    others = np.maximum(size.sum() - size, 1)[:, None]
    rest = (total - mean * size[:, None]) / others
    with np.errstate(over="ignore", invalid="ignore"):
        high, low = np.expm1(mean) + 1e-9, np.expm1(rest) + 1e-9
        return np.log2(np.where((high > 0) & (low > 0), high / low, np.nan))


def _records(rows: NDArray[Any], dtype: Any, names: list[str]) -> Any:
    """A record array with one field for each cluster."""
    return np.rec.fromarrays(
        [row.astype(dtype) for row in rows], dtype=[(name, dtype) for name in names]
    )
