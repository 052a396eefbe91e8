"""From an AnnData object to the matrix that is clustered."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array

from ksparse._errors import InputError, Term, warn
from ksparse._names import repeated
from ksparse.matrix.data import dense, map_rows, open_matrix, pick_columns, take_rows
from ksparse.matrix.sources import check_data, select_rows
from ksparse.normalise import count_empty, log_rows, summarise_values, warn_empty

if TYPE_CHECKING:
    from anndata import AnnData

    from ksparse.scverse.schema import Record

__all__ = [
    "check_gene_names",
    "check_writable",
    "expression_of",
    "listed_choices",
    "matrix_of",
    "other_expression",
    "read_expression",
    "selected_columns",
]

NORMALIZE = (None, "log1p", "auto")


def check_gene_names(adata: AnnData) -> None:
    """Raise ValueError if gene names are repeated: genes could not be told apart."""
    if again := repeated(adata.var_names):
        raise InputError(
            Term("adata"), f" has {len(again)} repeated gene names (the first is "
            f"{str(again[0])!r}): ",
            Term("number names", text="call adata.var_names_make_unique() first"), ".",
        )  # fmt: skip


def check_writable(adata: AnnData, copy: bool = False) -> None:
    """Raise ValueError if results cannot be written to this object, rather than when they are."""
    if adata.isbacked and adata.is_view and not copy:
        raise InputError(
            Term("adata"), " is a view of a backed object: call ", Term("adata.to_memory()"),
            " first.",
        )  # fmt: skip


def listed_choices(names: Any) -> str:
    """Return names for an error message: "choose from 'a', 'b'"."""
    known = [repr(str(name)) for name in names if name is not None]  # None: X, since 0.13
    return f"choose from {', '.join(known)}" if known else "there is none"


def matrix_of(adata: AnnData, layer: str | None, memory_limit: Any = None) -> Any:
    """Return X or a layer (never `raw`): in memory, or as blocks if it is not in memory."""
    if layer is None:
        X: Any = adata.X
        if X is None:
            raise InputError(
                Term("adata"), " has no X: give ", Term("layer", text="layer="),
                ", the name of a layer.",
            )  # fmt: skip
    else:
        if layer not in adata.layers:
            raise InputError(
                Term("layer", layer), " is not in ", Term("adata.layers"),
                f": {listed_choices(adata.layers)}.",
            )  # fmt: skip
        X = adata.layers[layer]
        if len(X.shape) != 2:  # which AnnData allows
            raise InputError(
                Term("layer", layer), f" must be cells x genes, got the shape {X.shape}."
            )
    if adata.isbacked and adata.is_view:
        adata = adata.to_memory()  # rows of a view are not in their order in the file
        X = adata.X if layer is None else adata.layers[layer]
    return open_matrix(X, memory_limit)


def selected_columns(
    adata: AnnData, mask_var: Any, name: str = "mask_var"
) -> NDArray[np.intp] | None:
    """Return the places of the genes that take part (None: all); `name` is for errors."""
    if mask_var is None:
        return None
    if isinstance(mask_var, str):
        if mask_var not in adata.var:
            raise InputError(
                Term(name, mask_var), " is not a column of ", Term("adata.var"),
                f": {listed_choices(adata.var)}.",
            )  # fmt: skip
        mask = np.asarray(adata.var[mask_var])
    else:
        mask = np.asarray(mask_var)
    if mask.dtype != bool or mask.shape != (adata.n_vars,):
        raise InputError(
            Term(name), f" must be True or False for each of the {adata.n_vars} genes, got "
            f"shape {mask.shape} and dtype {mask.dtype}.",
        )  # fmt: skip
    if not mask.any():
        raise InputError(Term(name), f" leaves 0 of {mask.size} genes: let some take part.")
    return np.flatnonzero(mask)


def read_expression(
    adata: AnnData,
    layer: str | None,
    normalize: str | None,
    *,
    columns: NDArray[np.intp] | None = None,
    cells: NDArray[np.intp] | None = None,
    memory_limit: Any = None,
    stacklevel: int = 2,
) -> tuple[Any, str | None]:
    """Return the data to cluster, and "log1p" if they were normalised (or None).

    `adata` is not changed. Warns if the data do not look like what `normalize` expects.

    Parameters
    ----------
    adata : AnnData
        Cells x genes.
    layer : str or None
        Use this layer instead of X.
    normalize : {None, "log1p", "auto"}
        "log1p": log(1 + counts per 10,000) of each cell. "auto": that, if the data are whole
        numbers.
    columns : ndarray of int, optional
        Genes to return; cells are normalised by all of their genes.
    cells : ndarray of int, optional
        Cells to return, in increasing order; others are not looked at.
    memory_limit : int or str, optional
        Memory for blocks of data that are read from files.
    stacklevel : int
        Where warnings point to, as in `warnings.warn`.
    """
    if normalize not in NORMALIZE:
        raise InputError(Term("normalize", normalize), " must be None, 'log1p' or 'auto'.")
    X = matrix_of(adata, layer, memory_limit)
    if cells is not None:
        X = select_rows(X, cells)
    values = summarise_values(X)
    source = Term("adata.X") if layer is None else Term("layer", layer)
    if normalize == "auto":
        normalize = "log1p" if values.are_counts else None
    elif normalize is None and values.are_counts:
        warn(
            source, " looks like raw counts (whole numbers): give ", Term("normalize", "log1p"),
            ", or normalise it, else the clusters follow the depth of the cells.",
            stacklevel=stacklevel + 1,
        )  # fmt: skip
    if normalize is None:
        if values.too_large_for_logs and not values.are_counts:
            warn(
                source, " has values too large for logarithms: give ", Term("normalize", "log1p"),
                " if they are counts or counts per million.", stacklevel=stacklevel + 1,
            )  # fmt: skip
        return _prepared(X, columns, False), None
    logged = _prepared(X, columns, True)
    warn_empty(count_empty(X), X.shape[0], stacklevel + 1)
    if not values.are_counts and not values.too_large_for_logs:
        warn(
            source, " does not look like counts, but ", Term("normalize", "log1p"),
            " was asked for: if it is logarithms already, give ", Term("normalize", None), ".",
            stacklevel=stacklevel + 1,
        )  # fmt: skip
    return logged, normalize


def _prepared(X: Any, columns: NDArray[np.intp] | None, log: bool) -> Any:
    """Return some of the genes (None: all), as logarithms if asked for."""
    if not log:
        return X if columns is None else pick_columns(X, columns)
    n_columns = None if columns is None else columns.size
    step = partial(log_rows, columns=columns)
    return map_rows(X, step, n_columns=n_columns, dtype=np.float32)


def other_expression(
    adata: AnnData,
    layer: str | None,
    normalized: str | None,
    cells: NDArray[np.intp],
    *,
    columns: NDArray[np.intp] | None = None,
    memory_limit: Any = None,
) -> Any:
    """Return cells besides those of `read_expression`, treated alike; without a warning.

    Parameters are those of `read_expression`; `normalized` is what it returned.
    """
    X = select_rows(matrix_of(adata, layer, memory_limit), cells)
    return check_data(_prepared(X, columns, normalized == "log1p"), None, check_array).X


def expression_of(
    adata: AnnData, record: Record, genes: Any, cells: NDArray[np.intp] | None = None
) -> NDArray[np.float32]:
    """Return the expression of a few genes, cells x genes, normalised as for the clusters."""
    places = adata.var_names.get_indexer(genes)
    if (places < 0).any():
        lost = [str(gene) for gene, place in zip(genes, places, strict=True) if place < 0]
        raise InputError(
            f"{len(lost)} genes are not in ", Term("adata"), f" (the first is {lost[0]!r})."
        )
    step = partial(log_rows if record.log_normalised else pick_columns, columns=places)
    X = matrix_of(adata, record.layer)
    values = take_rows(X, cells, step, n_columns=places.size, dtype=np.float32)
    return dense(values).astype(np.float32, copy=False)
