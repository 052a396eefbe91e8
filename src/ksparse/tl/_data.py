"""From an AnnData object to the matrix that is clustered, and back to what was found in it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksparse.normalise import log_normalise, looks_like_counts, looks_unlogged

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = [
    "check_adata",
    "check_gene_names",
    "expression",
    "expression_of",
    "found",
    "gene_mask",
    "label_column",
    "matrix_of",
    "selected_genes",
    "storable",
]

NORMALIZE = (None, "log1p", "auto")


def check_adata(adata: Any) -> None:
    """Refuse what is not an AnnData object."""
    try:
        from anndata import AnnData
    except ImportError:
        raise ImportError(
            "ksparse.tl works on AnnData: install it with  pip install 'ksparse[anndata]'"
        ) from None
    if not isinstance(adata, AnnData):
        raise TypeError(
            f"adata must be an AnnData object, got {type(adata).__name__}: "
            "for arrays and data frames use ksparse.KSparse."
        )


def check_gene_names(adata: AnnData) -> None:
    """Refuse repeated names: genes could not be told apart."""
    names = adata.var_names
    if not names.is_unique:
        repeated = names[names.duplicated()]
        raise ValueError(
            f"adata has {len(repeated)} repeated gene names (the first is {repeated[0]!r}): "
            "call adata.var_names_make_unique() first."
        )


def matrix_of(adata: AnnData, layer: str | None) -> Any:
    """X or a layer, in memory; never `raw`."""
    if layer is None:
        X: Any = adata.X
        if X is None:
            raise ValueError("adata has no X: give layer=, the name of a layer.")
    else:
        if layer not in adata.layers:
            raise ValueError(f"layer={layer!r} is not in adata.layers: {_choices(adata.layers)}.")
        X = adata.layers[layer]
    if hasattr(X, "to_memory"):  # a sparse matrix in a file
        X = X.to_memory()
    elif not isinstance(X, np.ndarray) and not sp.issparse(X):
        X = X[...] if hasattr(X, "id") else X  # a dense matrix in an HDF5 or zarr file
        X = np.asarray(X.compute() if hasattr(X, "compute") else X)
    return X


def _choices(names: Any) -> str:
    known = [repr(str(name)) for name in names if name is not None]  # None: X, since 0.13
    return f"choose from {', '.join(known)}" if known else "there is none"


def gene_mask(adata: AnnData, mask_var: Any) -> NDArray[np.bool_] | None:
    """Which genes take part (None: all)."""
    if mask_var is None:
        return None
    if isinstance(mask_var, str):
        if mask_var not in adata.var:
            raise ValueError(
                f"mask_var={mask_var!r} is not a column of adata.var: {_choices(adata.var)}."
            )
        mask = np.asarray(adata.var[mask_var])
    else:
        mask = np.asarray(mask_var)
    if mask.dtype != bool or mask.shape != (adata.n_vars,):
        raise ValueError(
            f"mask_var must be True or False for each of the {adata.n_vars} genes, got "
            f"shape {mask.shape} and dtype {mask.dtype}."
        )
    if not mask.any():
        raise ValueError(f"mask_var leaves 0 of {mask.size} genes: let some take part.")
    return mask


def expression(
    adata: AnnData, layer: str | None, normalize: str | None, *, stacklevel: int = 3
) -> tuple[Any, str | None]:
    """The data to cluster, and how they were normalised; the user's own are not changed."""
    if normalize not in NORMALIZE:
        raise ValueError(f"normalize={normalize!r} must be None, 'log1p' or 'auto'.")
    X = matrix_of(adata, layer)
    where = "adata.X" if layer is None else f"adata.layers[{layer!r}]"
    if normalize is None or normalize == "auto":
        counts = looks_like_counts(X)
        if normalize == "auto":
            normalize = "log1p" if counts else None
        elif counts:
            warnings.warn(
                f"{where} looks like raw counts (whole numbers): give normalize='log1p', or "
                "normalise it, else the clusters follow the depth of the cells.",
                UserWarning,
                stacklevel=stacklevel,
            )
        if not counts and looks_unlogged(X):
            warnings.warn(
                f"{where} has values too large for logarithms: give normalize='log1p' if they "
                "are counts or counts per million.",
                UserWarning,
                stacklevel=stacklevel,
            )
    if normalize == "log1p":
        X = log_normalise(X)
    return X, normalize


def expression_of(adata: AnnData, entry: Mapping[str, Any], genes: Any) -> NDArray[np.float32]:
    """Expression of a few genes, cells x genes, normalised as when the clusters were found."""
    where = adata.var_names.get_indexer(genes)
    if (where < 0).any():
        lost = [str(gene) for gene, at in zip(genes, where, strict=True) if at < 0]
        raise ValueError(f"{len(lost)} genes are not in adata (the first is {lost[0]!r}).")
    X = matrix_of(adata, entry["params"].get("layer"))
    part = X[:, where]
    part = part.toarray() if sp.issparse(part) else np.asarray(part)
    values = part.astype(np.float32)
    if str(entry["results"]["normalized"]) == "log1p":
        depth = np.asarray(X.sum(axis=1, dtype=np.float64)).ravel()
        values *= (1e4 / np.where(depth > 0, depth, 1.0)).astype(np.float32)[:, None]
        np.log1p(values, out=values)
    return values


def found(adata: AnnData, key: str) -> Mapping[str, Any]:
    """What `tl.ksparse` wrote into `adata.uns`."""
    check_adata(adata)
    entry = adata.uns.get(key)
    if not isinstance(entry, Mapping) or "model" not in entry:
        raise ValueError(
            f"adata.uns[{key!r}] holds no result: run ksparse.tl.ksparse(adata, n_clusters, "
            f"key_added={key!r}) first."
        )
    return entry


def label_column(adata: AnnData, labels: str) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """A column of `obs` as text, and where it is not missing."""
    if labels not in adata.obs:
        raise ValueError(f"labels={labels!r} is not a column of adata.obs: {_choices(adata.obs)}.")
    values = adata.obs[labels]
    known = ~np.asarray(values.isna())
    text = np.asarray(values.astype(object).where(known, "(missing)").astype(str), dtype=object)
    return text.astype(str), known


def selected_genes(entry: Mapping[str, Any]) -> NDArray[np.str_]:
    """Names of the selected genes; files give them back in several kinds of arrays."""
    return np.array([str(name) for name in np.asarray(entry["model"]["genes"])], dtype=str)


def storable(values: Mapping[str, Any]) -> dict[str, Any]:
    """What HDF5 and zarr can hold of some parameters; those that are None are left out."""
    out: dict[str, Any] = {}
    for name, value in values.items():
        if value is None:
            continue
        plain = isinstance(value, bool | int | float | str | np.generic)
        if plain or (isinstance(value, np.ndarray) and value.dtype.kind in "biufU"):
            out[name] = value
        elif isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
            out[name] = np.array(value, dtype=str)
        else:
            out[name] = type(value).__name__ if hasattr(value, "get_state") else str(value)
    return out
