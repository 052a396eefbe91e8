"""The columns and matrices of a result in AnnData: their names, written and read here alone.

`uns[key]` itself is described in `schema.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ksparse._errors import InputError, Term
from ksparse.core.y_step import margins
from ksparse.io.rules import Rule, check_stored, is_text
from ksparse.scverse.layout import METHODS
from ksparse.scverse.restriction import Restriction
from ksparse.scverse.schema import (
    ANOTHER_KEY,
    RUN_AGAIN,
    field_term,
    read_record,
    sound,
)

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = [
    "BATCHES",
    "CALIBRATION",
    "ONE_BATCH",
    "Part",
    "check_free",
    "clustered_cells",
    "filter_name",
    "is_clustered",
    "is_taken",
    "make_room",
    "ranking_method",
    "read_labels",
    "read_layout",
    "read_margins",
    "read_outlying",
    "read_projection",
    "read_selected",
    "read_set_sizes",
    "read_sizes",
    "write_cells",
    "write_contributions",
    "write_filter",
    "write_genes",
    "write_layout",
    "write_memberships",
    "write_outlying",
    "write_ranking",
    "write_sets",
]

Array = NDArray[Any]

# What follows the key in the names of the fields; clusters (obs), the projected cells (obsm),
# W (varm) and the record (uns) are under the key itself.
MARGIN, LOG_ODDS, CLUSTERED, OUTLYING = "_margin", "_log_odds", "_clustered", "_outlying"
SELECTED, WEIGHT = "_selected", "_weight"
# Of new cells: p-values, and how many clusters cannot be excluded. The name of cells without any.
P_VALUES, SET_SIZE, UNASSIGNED = "_p_values", "_set_size", "unassigned"
CALIBRATION = "_calibration"
BATCHES, ONE_BATCH = "_batches", "_one_batch"
MEMBERSHIPS, CONTRIBUTION, FILTER = "_memberships", "_contribution", "_min_cells"
SUFFIXES = {
    "obs": ("", MARGIN, LOG_ODDS, CLUSTERED, OUTLYING, SET_SIZE),
    "obsm": ("", MEMBERSHIPS, P_VALUES, *(f"_{method}" for method in METHODS)),
    "var": (SELECTED, WEIGHT, ONE_BATCH),
    "varm": ("", CONTRIBUTION),
    "uns": ("", CALIBRATION, BATCHES),
}


def is_taken(adata: AnnData, key: str) -> bool:
    """Return whether something is in `uns[key]`, whoever wrote it."""
    return key in adata.uns


def check_free(adata: AnnData, key: str) -> None:
    """Raise ValueError if `obs[key]` is a column that ksparse has not written."""
    written = is_taken(adata, key) or f"{key}{MARGIN}" in adata.obs
    if key in adata.obs and not written:
        raise InputError(
            field_term("obs", key), " exists and was not written by ksparse: ", ANOTHER_KEY, "."
        )


def make_room(adata: AnnData, key: str) -> None:
    """Remove an older result under this key, and what was computed from it."""
    for name, suffixes in SUFFIXES.items():
        stored = getattr(adata, name)
        for suffix in suffixes:
            if f"{key}{suffix}" in stored:
                del stored[f"{key}{suffix}"]
    for name, stored in list(adata.uns.items()):
        params = stored.get("params") if isinstance(stored, Mapping) else None
        if isinstance(params, Mapping) and (
            is_text(params.get("method"), "ksparse") and is_text(params.get("groupby"), key)
        ):
            del adata.uns[name]


# Cells ---------------------------------------------------------------------------------------


class Part(NamedTuple):
    """Some groups of a column of `obs`, which are clustered while other cells keep their group.

    Attributes
    ----------
    restriction : Restriction
        The column and the groups.
    chosen : ndarray of bool
        Which cells are clustered.
    column : pandas.Categorical
        The groups of all cells, as text.
    """

    restriction: Restriction
    chosen: NDArray[np.bool_]
    column: Any

    def refined(self, labels: Array, clusters: Sequence[str]) -> Any:
        """Return the column with clusters, which stand where the first of the groups stood."""
        import pandas

        restriction, order = self.restriction, [str(name) for name in self.column.categories]
        names = [f"{restriction.prefix}{cluster}" for cluster in clusters]
        first = next(i for i, name in enumerate(order) if name in restriction.groups)
        # The names of clusters are longer than those of the groups, and never equal to one.
        order = [name for name in [*order[:first], *names, *order[first:]]
                 if name not in restriction.groups]  # fmt: skip
        values = np.asarray(self.column, dtype=object).copy()
        values[self.chosen] = np.array(names, dtype=object)[labels]
        return pandas.Categorical(values, categories=order)

    def spread(self, values: Array, fill: float) -> Array:
        """Return values of the clustered cells as those of all cells."""
        out = np.full((self.chosen.size, *values.shape[1:]), fill, dtype=values.dtype)
        out[self.chosen] = values
        return out


def write_cells(
    adata: AnnData,
    key: str,
    labels: Array,
    projected: Array,
    centroids: Array,
    part: Part | None = None,
    names: Sequence[str] | None = None,
) -> None:
    """Write the clusters (as categories "0", "1", ...), their margins and the projection.

    With `part`, `labels` are those of its cells, and `projected` are all cells. Clusters may have
    `names` instead of numbers.
    """
    import pandas

    points, centres = (np.asarray(values, dtype=np.float64) for values in (projected, centroids))
    if names is None:
        names = [str(cluster) for cluster in range(len(centroids))]
    if part is None:
        adata.obs[key] = pandas.Categorical.from_codes(labels, categories=names)
        adata.obs[f"{key}{MARGIN}"] = margins(points, labels, centres)
    else:
        adata.obs[key] = part.refined(labels, names)
        margin = margins(points[part.chosen], labels, centres)
        adata.obs[f"{key}{MARGIN}"] = part.spread(margin, np.nan)
        adata.obs[f"{key}{CLUSTERED}"] = part.chosen
    adata.obsm[key] = projected


def write_outlying(
    adata: AnnData, key: str, outlying: NDArray[np.intp], part: Part | None = None
) -> None:
    """Write which cells were set apart from the fit, if any were."""
    if outlying.size:
        cells = np.arange(adata.n_obs) if part is None else np.flatnonzero(part.chosen)
        adata.obs[f"{key}{OUTLYING}"] = np.isin(np.arange(adata.n_obs), cells[outlying])


def read_outlying(adata: AnnData, key: str) -> NDArray[np.bool_] | None:
    """Return which cells were set apart from the fit, or None if none were."""
    name = f"{key}{OUTLYING}"
    return np.asarray(adata.obs[name], dtype=bool) if name in adata.obs else None


def write_sets(
    adata: AnnData, key: str, p_values: Array, alpha: float, part: Part | None = None
) -> None:
    """Write p-values of placed cells, and make cells without any cluster "unassigned"."""
    sizes = (p_values > alpha).sum(axis=1)
    if part is not None:
        p_values, sizes = part.spread(p_values, np.nan), part.spread(sizes.astype(float), np.nan)
    column = adata.obs[key].cat
    name = UNASSIGNED if part is None else f"{part.restriction.prefix}{UNASSIGNED}"
    while name in column.categories:  # a class of that name
        name += "_"
    column = column.add_categories(name)
    column[sizes == 0] = name
    adata.obs[key] = column
    adata.obs[f"{key}{SET_SIZE}"] = sizes
    adata.obsm[f"{key}{P_VALUES}"] = p_values


def read_set_sizes(adata: AnnData, key: str) -> Array | None:
    """Return how many clusters cannot be excluded for each cell, or None."""
    name = f"{key}{SET_SIZE}"
    return np.asarray(adata.obs[name]) if name in adata.obs else None


def write_memberships(
    adata: AnnData, key: str, memberships: Array, log_odds: Array, part: Part | None = None
) -> None:
    """Write all labels of each cell, and the log odds of several labels against one."""
    if part is not None:
        memberships, log_odds = part.spread(memberships, 0), part.spread(log_odds, np.nan)
    adata.obsm[f"{key}{MEMBERSHIPS}"] = memberships
    adata.obs[f"{key}{LOG_ODDS}"] = log_odds


def clustered_cells(adata: AnnData, key: str) -> NDArray[np.intp]:
    """Return the places of the cells that were clustered: all, unless the result is restricted."""
    if read_record(adata, key).restriction is None:
        return np.arange(adata.n_obs)
    _column(adata, "obs", f"{key}{CLUSTERED}")
    chosen = is_clustered(adata, key)
    if not chosen.any():
        raise InputError(
            Term("adata"), f" has none of the cells that were clustered for {key!r}: keep some."
        )
    return np.flatnonzero(chosen)


def is_clustered(adata: AnnData, key: str) -> NDArray[np.bool_]:
    """Return which cells were clustered or placed: all where no column tells it."""
    name = f"{key}{CLUSTERED}"
    if name not in adata.obs:
        return np.ones(adata.n_obs, dtype=bool)
    chosen = np.asarray(adata.obs[name])
    if chosen.dtype != bool:
        raise InputError(
            field_term("obs", name), f" must be True or False, got {chosen.dtype}: ", RUN_AGAIN, "."
        )
    return chosen


def read_labels(adata: AnnData, key: str) -> NDArray[np.str_]:
    """Return the name of each cell's cluster; raise ValueError if there are no clusters."""
    return np.asarray(_column(adata, "obs", key).astype(str), dtype=str)


def read_sizes(adata: AnnData, key: str) -> dict[str, int]:
    """Return the number of cells in every cluster, also in those without cells."""
    sizes = adata.obs[key].value_counts(sort=False)
    return {str(cluster): int(size) for cluster, size in sizes.items()}


def read_margins(adata: AnnData, key: str) -> NDArray[np.float64]:
    """Return the margin of each cell."""
    return np.asarray(_column(adata, "obs", f"{key}{MARGIN}"), dtype=np.float64)


def _column(adata: AnnData, part: str, name: str) -> Any:
    """Return a column of `obs` or `var`; raise ValueError if it is missing."""
    columns = getattr(adata, part)
    if name not in columns:
        raise InputError(field_term(part, name), " is missing: ", RUN_AGAIN, ".")
    return columns[name]


def read_projection(adata: AnnData, key: str) -> Array:
    """Return the projected cells; raise ValueError if there are none."""
    record = read_record(adata, key)
    if key not in adata.obsm:
        raise InputError(field_term("obsm", key), " is missing: ", RUN_AGAIN, ".")
    return _points(adata, key, record.model.weights.shape[1], RUN_AGAIN)


def _points(adata: AnnData, name: str, n_axes: int, cure: str | Term) -> Array:
    """Return coordinates of all cells; raise ValueError if they are not finite numbers."""
    sizes = {"cells": adata.n_obs, "components": n_axes}
    with sound(field_term("obsm", name), cure):
        check_stored(adata.obsm, {name: Rule("number", ("cells", "components"))}, sizes)
    return np.asarray(adata.obsm[name])


def write_layout(adata: AnnData, key: str, method: str, points: Array) -> None:
    """Write two coordinates for each cell."""
    adata.obsm[f"{key}_{method}"] = points


def read_layout(adata: AnnData, key: str, method: str) -> Array | None:
    """Return the coordinates that `ksparse.tl.embed` has written, or None."""
    name = f"{key}_{method}"
    return _points(adata, name, 2, "run ksparse.tl.embed again") if name in adata.obsm else None


# Genes ---------------------------------------------------------------------------------------


def filter_name(key: str) -> str:
    """Return the column of `var` with the genes that passed the filter of the command line."""
    return f"{key}{FILTER}"


def write_filter(adata: AnnData, key: str, passed: NDArray[np.bool_]) -> None:
    """Write which genes passed the filter of the command line."""
    adata.var[filter_name(key)] = passed


def write_genes(adata: AnnData, key: str, genes: NDArray[np.intp], weights: Array) -> None:
    """Write which genes are selected, their weights, and W.

    Parameters
    ----------
    adata : AnnData
        The object.
    key : str
        The name of the result.
    genes : ndarray of int
        The genes that took part, as places in `var`.
    weights : ndarray, genes that took part x components
        W.
    """
    norm = np.zeros(adata.n_vars)
    norm[genes] = np.linalg.norm(weights, axis=1)
    W = np.zeros((adata.n_vars, weights.shape[1]), dtype=weights.dtype)
    W[genes] = weights
    adata.var[f"{key}{SELECTED}"] = norm > 0
    adata.var[f"{key}{WEIGHT}"] = norm
    adata.varm[key] = W


def read_selected(adata: AnnData, key: str) -> NDArray[np.bool_]:
    """Return which genes are selected."""
    return np.asarray(_column(adata, "var", f"{key}{SELECTED}"), dtype=bool)


def write_contributions(adata: AnnData, key: str, contributions: Array) -> None:
    """Write contributions, genes x clusters."""
    adata.varm[f"{key}{CONTRIBUTION}"] = contributions


def ranking_method(adata: AnnData, key_added: str) -> str | None:
    """Return the method of the ranking in `uns[key_added]` ("unknown"), or None."""
    stored = adata.uns.get(key_added)
    if stored is None:
        return None
    params = stored.get("params", {}) if isinstance(stored, Mapping) else None
    method = params.get("method", "ksparse") if isinstance(params, Mapping) else None
    return str(method) if isinstance(method, str) else "unknown"


def write_ranking(
    adata: AnnData,
    key_added: str,
    groupby: str,
    layer: str | None,
    groups: list[str],
    *,
    names: Array,
    scores: Array,
    log2_fold_changes: Array,
) -> None:
    """Write a ranking in scanpy's schema, without p-values.

    `names`, `scores` and `log2_fold_changes` are groups x genes, in the order of the ranking.
    """
    params = {"groupby": groupby, "reference": "rest", "method": "ksparse", "use_raw": False,
              "corr_method": "none"}  # fmt: skip
    if layer is not None:
        params["layer"] = layer
    missing = np.full(names.shape, np.nan)
    adata.uns[key_added] = {
        "params": params,
        "names": _records(names.astype(object), object, groups),
        "scores": _records(scores, np.float32, groups),
        "logfoldchanges": _records(log2_fold_changes, np.float32, groups),
        "pvals": _records(missing, np.float64, groups),
        "pvals_adj": _records(missing, np.float64, groups),
    }


def _records(rows: Array, dtype: Any, names: list[str]) -> Any:
    """Return a record array with one field for each cluster."""
    return np.rec.fromarrays(
        [row.astype(dtype) for row in rows], dtype=[(name, dtype) for name in names]
    )
