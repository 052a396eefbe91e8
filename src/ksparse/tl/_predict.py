"""Clusters of new cells."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from ksparse.estimator import KSparse
from ksparse.tl._data import (
    check_adata,
    check_free,
    check_gene_names,
    check_key,
    expression,
    found,
    make_room,
    pick_columns,
    selected_genes,
)
from ksparse.tl._fit import write_labels, write_margins

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = ["predict"]

SHOWN = 5


def predict(
    model: KSparse | AnnData,
    new_adata: AnnData,
    *,
    key: str = "ksparse",
    layer: str | None = None,
    normalize: str | None = "model",
    min_share: float = 0.8,
    key_added: str | None = None,
    copy: bool = False,
) -> AnnData | None:
    """Place new cells in the clusters that were found in others.

    Genes are aligned by name, and only the selected ones are needed. One that is missing
    in the new cells is taken to have its mean, which speaks for no cluster.

    Parameters
    ----------
    model : AnnData or KSparse
        An object with the results of `ksparse.tl.ksparse`, or a model that was fitted on a
        data frame, so that it knows the names of its features.
    new_adata : AnnData
        The new cells.
    key : str, default="ksparse"
        The `key_added` of the results, if `model` is an AnnData object.
    layer : str, optional
        Use this layer of `new_adata`; by default that which the model was fitted on. "X"
        takes its X in any case.
    normalize : {"model", None, "log1p", "auto"}, default="model"
        "model": what was done to the cells of `model` (nothing, if that is a KSparse). Else
        as in `ksparse.tl.ksparse`: None takes the values as they are.
    min_share : float, default=0.8
        Share of the selected genes that must be there. A warning names the missing ones.
    key_added : str, optional
        Under which name to write the results; `key` by default.
    copy : bool, default=False
        Whether to return a copy with the results, and leave `new_adata` as it is.

    Returns
    -------
    AnnData or None
        None unless `copy`. These fields are written:

    `.obs[key_added]` : categorical of str
        Cluster of each cell; the categories are all clusters of `model`.
    `.obs[key_added + "_margin"]` : float
        How clear the cluster of each cell is: 1 at its centre, 0 half-way to the next.
    `.obsm[key_added]` : ndarray, cells x components
        The cells in the projection.

    Examples
    --------
    >>> import ksparse as ks
    >>> adata = ks.simulate.simulate_counts(300, 500, 3, random_state=0).to_anndata()
    >>> old, new = adata[:200].copy(), adata[200:].copy()
    >>> ks.tl.ksparse(old, 3, n_features=20, normalize="log1p", random_state=0)
    >>> ks.tl.predict(old, new)
    >>> new.obs["ksparse"].cat.categories.tolist()
    ['0', '1', '2']
    """
    check_adata(new_adata)
    check_gene_names(new_adata)
    key_added = key if key_added is None else key_added
    check_key("key_added", key_added)
    check_free(new_adata, key_added)
    if key_added in new_adata.uns:
        raise ValueError(
            f"new_adata has a result of its own under {key_added!r}: give another key_added."
        )
    if not (isinstance(min_share, int | float) and 0 < min_share <= 1):
        raise ValueError(f"min_share={min_share!r} must be a number in (0, 1].")
    if isinstance(model, KSparse):
        fitted, genes = _selected_part(model)
        done, fitted_on = "no", None
    else:
        entry = found(model, key)
        stored = entry["model"]
        fitted = _model_of(stored["weights"], stored["centroids"], stored["mean"], stored["scale"],
                           float(stored["spread"]))  # fmt: skip
        genes = selected_genes(entry)
        done = str(entry["results"]["normalized"])
        fitted_on = entry["params"].get("layer")
    if normalize == "model":
        normalize = None if done == "no" else done
    if not genes.size:
        raise ValueError("model selected no genes: there is nothing to place cells by.")
    where = new_adata.var_names.get_indexer(genes)
    _check_missing(genes[where < 0], genes.size, min_share)
    if copy:
        new_adata = new_adata.to_memory() if new_adata.isbacked else new_adata.copy()
    X, _ = expression(new_adata, _layer(new_adata, layer, fitted_on), normalize)
    here = where >= 0
    values = pick_columns(X, where[here])
    # Without a gene is the same as with the gene at its mean, for centred data.
    fitted = _model_of(fitted.weights_[here], fitted.centroids_, fitted.mean_[here],
                       fitted.scale_[here], fitted._spread)  # fmt: skip
    make_room(new_adata, key_added)
    labels, P = fitted.predict(values), fitted.project(values)
    write_labels(new_adata, key_added, labels, len(fitted.centroids_))
    write_margins(new_adata, key_added, P, labels, fitted.centroids_)
    new_adata.obsm[key_added] = P
    return new_adata if copy else None


def _layer(new_adata: AnnData, layer: str | None, fitted_on: Any) -> str | None:
    """Which layer to read: as asked for, or else as in the fit."""
    if layer == "X" or (layer is None and fitted_on is None):
        return None
    if layer is None and str(fitted_on) not in new_adata.layers:
        raise ValueError(
            f"The model was fitted on layer={str(fitted_on)!r}, which new_adata does not have: "
            "give layer= (the name of a layer, or 'X')."
        )
    return str(fitted_on) if layer is None else layer


def _check_missing(missing: NDArray[Any], n_genes: int, min_share: float) -> None:
    if not missing.size:
        return
    names = ", ".join(repr(str(name)) for name in missing[:SHOWN])
    more = f" and {missing.size - SHOWN} more" if missing.size > SHOWN else ""
    present = n_genes - missing.size
    if not present:
        more += " (none is there: are genes in rows, or named otherwise?)"
    if present < min_share * n_genes:
        raise ValueError(
            f"new_adata has {present} of the {n_genes} selected genes, fewer than "
            f"min_share={min_share:g} of them; missing: {names}{more}."
        )
    warnings.warn(
        f"new_adata lacks {missing.size} of the {n_genes} selected genes, which are taken to "
        f"have their mean: {names}{more}.",
        UserWarning,
        stacklevel=3,
    )


def _selected_part(model: KSparse) -> tuple[KSparse, NDArray[Any]]:
    check_is_fitted(model)
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        raise ValueError(
            "model does not know the names of its features: fit it on a data frame, or give "
            "the AnnData object with the results of ksparse.tl.ksparse."
        )
    chosen = np.flatnonzero(model.get_support())
    scale = np.broadcast_to(model.scale_, model.mean_.shape)
    part = _model_of(model.weights_[chosen], model.centroids_, model.mean_[chosen], scale[chosen],
                     model._spread)  # fmt: skip
    return part, np.asarray(names)[chosen].astype(str)


def _model_of(weights: Any, centroids: Any, mean: Any, scale: Any, spread: float) -> KSparse:
    """A fitted model of the selected genes alone."""
    model = KSparse(len(centroids))
    model.weights_, model.centroids_ = np.asarray(weights), np.asarray(centroids)
    model.mean_, model.scale_ = np.asarray(mean), np.asarray(scale)
    model._spread = spread
    model.n_features_in_ = len(weights)
    return model
