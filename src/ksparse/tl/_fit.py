"""Cluster the cells of an AnnData object."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksparse.assignment import margins
from ksparse.estimator import KSparse
from ksparse.inputs import UNIMPORTANT
from ksparse.matrix import Blocks
from ksparse.tl._data import (
    check_adata,
    check_free,
    check_gene_names,
    check_key,
    expression,
    gene_mask,
    make_room,
    pick_columns,
    storable,
)

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = ["ksparse", "write_labels", "write_margins"]


def ksparse(
    adata: AnnData,
    n_clusters: int,
    *,
    n_features: int | float | str = "auto",
    layer: str | None = None,
    mask_var: Any = None,
    normalize: str | None = None,
    key_added: str = "ksparse",
    random_state: int | np.random.RandomState | None = None,
    verbose: int = 0,
    copy: bool = False,
    **options: Any,
) -> AnnData | None:
    """Cluster cells and select the genes that define the clusters.

    `adata` may be in memory or backed by a file (what is found is then written to the
    object, not to the file: save it with `adata.write`). `adata.raw` is never read.

    Parameters
    ----------
    adata : AnnData
        Cells x genes.
    n_clusters : int
        Number of clusters.
    n_features : int, float or "auto", default="auto"
        How many genes to select: exactly that many, or a fraction of all.
    layer : str, optional
        Use this layer instead of `adata.X`.
    mask_var : str or array of bool, optional
        Genes that take part: a column of `adata.var`, such as "highly_variable", or a mask.
    normalize : {None, "log1p", "auto"}, default=None
        "log1p": use log(1 + counts per 10,000) of each cell. "auto": that, if the data are
        whole numbers. The data in `adata` are not changed.
    key_added : str, default="ksparse"
        Under which name to write the results.
    random_state : int, RandomState or None
        Seed.
    verbose : int
        1 shows a progress bar on a terminal.
    copy : bool, default=False
        Whether to return a copy with the results, and leave `adata` as it is.
    **options
        Other parameters of `ksparse.KSparse`, such as `eta`, `init` or `max_labels`.

    Returns
    -------
    AnnData or None
        None unless `copy`. These fields are written:

    `.obs[key_added]` : categorical of str
        Cluster of each cell, "0" is the largest.
    `.obs[key_added + "_margin"]` : float
        How clear the cluster of each cell is: 1 at its centre, 0 half-way to the next.
    `.obsm[key_added]` : ndarray, cells x components
        The cells in the projection.
    `.var[key_added + "_selected"]` : bool
        Which genes were selected.
    `.var[key_added + "_weight"]` : float
        Weight of each gene (norm of its row of W); 0 if not selected.
    `.varm[key_added]` : ndarray, genes x components
        The projection W; column c speaks for cluster c.
    `.uns[key_added]["params"]` : dict
        Parameters that were given; those that are None are left out.
    `.uns[key_added]["results"]` : dict
        n_features, eta, gap (of the last W-step), converged, n_iter, n_cells, n_genes,
        normalized: what was done to the data, and n_passes: how often data in a file or a
        dask array were gone through.
    `.uns[key_added]["history"]` : dict of ndarray
        Per loop: cost, labels_changed, n_features, eta, gap.
    `.uns[key_added]["starts"]` : dict of ndarray
        The starts that were tried, with held-out scores.
    `.uns[key_added]["model"]` : dict
        What `tl.predict` needs, of the selected genes only.
    `.uns[key_added]["clusters"]` : dict of ndarray
        size, and for the selected genes mean and fraction (of cells where the gene is not
        zero) in each cluster.
    `.uns[key_added]["versions"]` : dict of str
        ksparse, numpy, scipy, scikit-learn, numba, python.

    With ``max_labels > 1`` also `.obsm[key_added + "_memberships"]` (0 and 1, cells x
    clusters) and `.obs[key_added + "_log_odds"]` (of several labels against one).

    Examples
    --------
    >>> import ksparse as ks
    >>> adata = ks.simulate.simulate_counts(300, 500, 3, random_state=0).to_anndata()
    >>> ks.tl.ksparse(adata, 3, n_features=20, normalize="log1p", random_state=0)
    >>> adata.obs["ksparse"].value_counts().tolist(), int(adata.var["ksparse_selected"].sum())
    ([142, 92, 66], 20)
    """
    check_adata(adata)
    check_key("key_added", key_added)
    if adata.isbacked and adata.is_view and not copy:
        raise ValueError("adata is a view of a backed object: call adata.to_memory() first.")
    check_gene_names(adata)
    check_free(adata, key_added)
    mask = gene_mask(adata, mask_var)
    if copy:
        adata = adata.to_memory() if adata.isbacked else adata.copy()
    limit = options.get("memory_limit")
    X, normalized = expression(adata, layer, normalize, memory_limit=limit)
    if mask is not None:
        X = pick_columns(X, np.flatnonzero(mask))
    model = KSparse(
        n_clusters, n_features=n_features, random_state=random_state, verbose=verbose, **options
    ).fit(X)
    params = {
        "n_clusters": n_clusters,
        "n_features": n_features,
        "layer": layer,
        "mask_var": mask_var,
        "normalize": normalize,
        "random_state": random_state,
        **{name: value for name, value in options.items() if name not in UNIMPORTANT},
    }
    make_room(adata, key_added)
    genes = np.arange(adata.n_vars) if mask is None else np.flatnonzero(mask)
    _write(adata, key_added, model, X, genes, storable(params), normalized)
    return adata if copy else None


def write_labels(adata: AnnData, key: str, labels: NDArray[Any], n_clusters: int) -> None:
    """Write clusters as categories "0", "1", ..."""
    import pandas

    names = [str(cluster) for cluster in range(n_clusters)]
    adata.obs[key] = pandas.Categorical.from_codes(labels, categories=names)


def write_margins(adata: AnnData, key: str, P: Any, labels: Any, centroids: Any) -> None:
    """Write how clear the cluster of each cell is."""
    points, centres = (np.asarray(values, dtype=np.float64) for values in (P, centroids))
    adata.obs[f"{key}_margin"] = margins(points, labels, centres)


def _write(
    adata: AnnData,
    key: str,
    model: KSparse,
    X: Any,
    genes: NDArray[np.intp],
    params: dict[str, Any],
    normalized: str | None,
) -> None:
    chosen = np.flatnonzero(model.get_support())
    selected, weight = np.zeros(adata.n_vars, dtype=bool), np.zeros(adata.n_vars)
    selected[genes[chosen]] = True
    weight[genes] = model.feature_importances_
    W = np.zeros((adata.n_vars, model.weights_.shape[1]), dtype=model.weights_.dtype)
    W[genes] = model.weights_
    write_labels(adata, key, model.labels_, model.n_clusters)
    P = model.project(X)
    write_margins(adata, key, P, model.labels_, model.centroids_)
    adata.obsm[key] = P
    adata.var[f"{key}_selected"] = selected
    adata.var[f"{key}_weight"] = weight
    adata.varm[key] = W
    if model.max_labels > 1:
        adata.obsm[f"{key}_memberships"] = model.memberships_
        adata.obs[f"{key}_log_odds"] = model.membership_log_odds_
    names = np.asarray(adata.var_names, dtype=object)[genes[chosen]].astype(str)
    adata.uns[key] = {
        "params": params,
        "results": {
            "n_features": model.n_features_selected_,
            "eta": float(model.eta_),
            "gap": float(model.gap_),
            "converged": bool(model.converged_),
            "n_iter": model.n_iter_,
            "n_cells": adata.n_obs,
            "n_genes": int(genes.size),
            "normalized": normalized or "no",
            **({} if model.n_passes_ is None else {"n_passes": model.n_passes_}),
        },
        "history": dict(model.history_),
        "starts": {name: np.array(values) for name, values in model.starts_.items()},
        "model": {
            "encoding": "ksparse-model",
            "version": 1,
            "genes": names,
            "mean": np.asarray(model.mean_)[chosen],
            "scale": np.broadcast_to(model.scale_, model.mean_.shape)[chosen].copy(),
            "weights": model.weights_[chosen],
            "centroids": model.centroids_,
            "spread": float(model._spread),
        },
        "clusters": _cluster_profiles(X, chosen, model.labels_, model.n_clusters),
        "versions": _versions(),
    }


def _cluster_profiles(
    X: Any, columns: NDArray[np.intp], labels: NDArray[Any], n_clusters: int
) -> dict[str, NDArray[Any]]:
    """Mean and share of nonzero values of some features in each cluster."""
    size = np.bincount(labels, minlength=n_clusters)
    if isinstance(X, Blocks):
        sums, counts = X.total(_sums_and_counts, (columns, n_clusters), X.cut(labels))
    else:
        sums, counts = _sums_and_counts(X, labels, columns, n_clusters)
    per_cell = 1.0 / np.maximum(size, 1)[:, None]
    return {"size": size, "mean": sums * per_cell, "fraction": counts * per_cell}


def _sums_and_counts(
    X: Any, labels: NDArray[Any], columns: NDArray[np.intp], n_clusters: int
) -> NDArray[Any]:
    """Sums of some features in each cluster, and numbers of nonzero values."""
    part = X[:, columns]
    member = sp.csr_array(
        (np.ones(labels.size), (labels, np.arange(labels.size))), shape=(n_clusters, labels.size)
    )
    both = member @ part, member @ (part != 0).astype(np.float64)
    return np.stack([each.toarray() if sp.issparse(each) else each for each in both])


def _versions() -> dict[str, str]:
    from importlib.metadata import version

    packages = ("ksparse", "numpy", "scipy", "scikit-learn", "numba", "anndata")
    return {name: version(name) for name in packages} | {"python": platform.python_version()}
