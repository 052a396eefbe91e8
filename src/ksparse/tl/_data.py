"""From an AnnData object to the matrix that is clustered, and back to what was found in it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksparse.assignment import distances
from ksparse.matrix import Blocks
from ksparse.normalise import (
    both_looks,
    log_block,
    log_normalise,
    looks,
    warn_of_empty,
)
from ksparse.sources import as_data

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = [
    "check_adata",
    "check_free",
    "check_gene_names",
    "check_key",
    "clusters_of",
    "expression",
    "expression_of",
    "found",
    "gene_mask",
    "known_labels",
    "label_column",
    "make_room",
    "matrix_of",
    "pick_columns",
    "projected",
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
            f"adata has {len(repeated)} repeated gene names (the first is {str(repeated[0])!r}): "
            "call adata.var_names_make_unique() first."
        )


def matrix_of(adata: AnnData, layer: str | None, memory_limit: Any = None) -> Any:
    """X or a layer, never `raw`: in memory, or as blocks if it is in a file or a dask array."""
    if layer is None:
        X: Any = adata.X
        if X is None:
            raise ValueError("adata has no X: give layer=, the name of a layer.")
    else:
        if layer not in adata.layers:
            raise ValueError(f"layer={layer!r} is not in adata.layers: {_choices(adata.layers)}.")
        X = adata.layers[layer]
        if len(X.shape) != 2:  # which AnnData allows
            raise ValueError(f"layer={layer!r} must be cells x genes, got the shape {X.shape}.")
    if adata.isbacked and adata.is_view:
        adata = adata.to_memory()  # rows of a view are not in their order in the file
        X = adata.X if layer is None else adata.layers[layer]
    if getattr(X, "format", "") == "csc" and not sp.issparse(X):
        X = X.to_memory()  # stored by columns: no rows to read
    X, _ = as_data(X, memory_limit)
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
    adata: AnnData,
    layer: str | None,
    normalize: str | None,
    *,
    memory_limit: Any = None,
    stacklevel: int = 3,
) -> tuple[Any, str | None]:
    """The data to cluster, and how they were normalised; the user's own are not changed."""
    if normalize not in NORMALIZE:
        raise ValueError(f"normalize={normalize!r} must be None, 'log1p' or 'auto'.")
    X = matrix_of(adata, layer, memory_limit)
    counts, unlogged = looks_of(X)
    where = "adata.X" if layer is None else f"adata.layers[{layer!r}]"
    if normalize is None or normalize == "auto":
        if normalize == "auto":
            normalize = "log1p" if counts else None
        elif counts:
            warnings.warn(
                f"{where} looks like raw counts (whole numbers): give normalize='log1p', or "
                "normalise it, else the clusters follow the depth of the cells.",
                UserWarning,
                stacklevel=stacklevel,
            )
        if not counts and unlogged:
            warnings.warn(
                f"{where} has values too large for logarithms: give normalize='log1p' if they "
                "are counts or counts per million.",
                UserWarning,
                stacklevel=stacklevel,
            )
    if normalize == "log1p":
        logged = _log_normalised(X, stacklevel)
        if not counts and not unlogged:
            warnings.warn(
                f"{where} does not look like counts, but normalize='log1p' was asked for: if it is "
                "logarithms already, give normalize=None.",
                UserWarning,
                stacklevel=stacklevel,
            )
        X = logged
    return X, normalize


def looks_of(X: Any) -> tuple[bool, bool]:
    """Whether data look like counts, and like something too large for logarithms."""
    look = X.total(looks, (), combine=both_looks) if isinstance(X, Blocks) else looks(X)
    return look.counts, look.unlogged


def _log_normalised(X: Any, stacklevel: int) -> Any:
    if not isinstance(X, Blocks):
        return log_normalise(X)
    warn_of_empty(int(X.total(_n_empty, ())), X.shape[0], stacklevel + 1)
    return X.with_steps(log_block, dtype=np.float32)


def _n_empty(block: Any) -> int:
    return int((np.asarray(abs(block).sum(axis=1)).ravel() == 0).sum())


def pick_columns(X: Any, index: NDArray[np.intp]) -> Any:
    """Some of the features of data in memory or in blocks."""
    return X.pick(index) if isinstance(X, Blocks) else X[:, index]


def expression_of(
    adata: AnnData, entry: Mapping[str, Any], genes: Any, cells: NDArray[np.intp] | None = None
) -> NDArray[np.float32]:
    """Expression of a few genes, cells x genes, normalised as when the clusters were found."""
    where = adata.var_names.get_indexer(genes)
    if (where < 0).any():
        lost = [str(gene) for gene, at in zip(genes, where, strict=True) if at < 0]
        raise ValueError(f"{len(lost)} genes are not in adata (the first is {lost[0]!r}).")
    X = matrix_of(adata, entry["params"].get("layer"))
    if isinstance(X, Blocks):
        if str(entry["results"]["normalized"]) == "log1p":
            X = X.with_steps(log_block, dtype=np.float32)
        X = pick_columns(X, where).take(np.arange(X.shape[0]) if cells is None else cells)
        return np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float32)
    X = X if cells is None else (X.tocsr() if sp.issparse(X) else X)[cells]
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


def known_labels(adata: AnnData, labels: str) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """The same, with a word about cells that have none, and an error if none has any."""
    text, known = label_column(adata, labels)
    if not known.any():
        raise ValueError(f"labels={labels!r} is missing for all {known.size} cells.")
    if not known.all():
        warnings.warn(
            f"{int((~known).sum())} of {known.size} cells have no {labels}, and are not compared.",
            UserWarning,
            stacklevel=3,
        )
    return text, known


def clusters_of(adata: AnnData, key: str) -> tuple[NDArray[np.intp], list[str]]:
    """Number of each cell's cluster, and the names of all clusters.

    The user may have taken some cells only (then categories of empty clusters are gone), or
    renamed clusters, in any order: which is which is seen from the projection.
    """
    entry = found(adata, key)
    k = len(entry["model"]["centroids"])
    if key not in adata.obs or not hasattr(adata.obs[key], "cat"):
        raise ValueError(f"adata.obs[{key!r}] must be the clusters that ksparse.tl.ksparse wrote.")
    column = adata.obs[key]
    if column.isna().any():
        raise ValueError(
            f"adata.obs[{key!r}] is missing for {int(column.isna().sum())} of {adata.n_obs} cells: "
            "leave them out."
        )
    names = [str(name) for name in column.cat.categories]
    codes = np.asarray(column.cat.codes, dtype=np.intp)
    numbers = [str(cluster) for cluster in range(k)]
    centres = np.asarray(entry["model"]["centroids"], dtype=np.float64)
    nearest = distances(projected(adata, key).astype(np.float64), centres).argmin(axis=1)
    if set(names) <= set(numbers):
        home = np.array([int(name) for name in names], dtype=np.intp)
    else:
        table = np.zeros((len(names), k), dtype=np.intp)
        np.add.at(table, (codes, nearest), 1)
        home = table.argmax(axis=1)
        for name, cluster in zip(names, home, strict=True):
            numbers[cluster] = name
    # A cluster whose cells are there has a name of its own, unless it was merged. (Two cells
    # may lie on a border, or have been moved so that no cluster was empty.)
    unnamed = set(np.flatnonzero(np.bincount(nearest, minlength=k) > 2)) - set(home[codes])
    if unnamed or len(set(home)) < len(home):
        raise ValueError(
            f"adata.obs[{key!r}] has categories that are not the {k} clusters of the result one to "
            "one: rename clusters, but keep merged ones in another column."
        )
    return home[codes], numbers


def projected(adata: AnnData, key: str) -> NDArray[Any]:
    """The cells in the projection."""
    found(adata, key)
    if key not in adata.obsm:
        raise ValueError(f"adata.obsm[{key!r}] is gone: run ksparse.tl.ksparse again.")
    return np.asarray(adata.obsm[key])


def check_key(name: str, value: Any) -> None:
    """Refuse what cannot be the name of a field in a file."""
    if not isinstance(value, str) or not value or "/" in value:
        raise ValueError(f"{name}={value!r} must be a name without '/'.")


def check_free(adata: AnnData, key: str) -> None:
    """Refuse to overwrite a column that is not ours."""
    ours = key in adata.uns or f"{key}_margin" in adata.obs
    if key in adata.obs and not ours:
        raise ValueError(
            f"adata.obs[{key!r}] exists and was not written by ksparse: give another key_added."
        )


def make_room(adata: AnnData, key: str) -> None:
    """Remove what an older result left under a key, and what was derived from it."""
    for fields, suffixes in (
        (adata.obs, ("", "_margin", "_log_odds")),
        (adata.obsm, ("", "_tsne", "_umap", "_memberships")),
        (adata.var, ("_selected", "_weight")),
        (adata.varm, ("", "_contribution")),
        (adata.uns, ("",)),
    ):
        for suffix in suffixes:
            if f"{key}{suffix}" in fields:
                del fields[f"{key}{suffix}"]
    for name, entry in list(adata.uns.items()):
        params = entry.get("params") if isinstance(entry, Mapping) else None
        if isinstance(params, Mapping) and (
            str(params.get("method")) == "ksparse" and str(params.get("groupby")) == key
        ):
            del adata.uns[name]


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
