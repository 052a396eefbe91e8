"""Clusters and known labels of cells, and their correspondence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ksparse._errors import InputError, Term, warn
from ksparse.core.y_step import distances
from ksparse.metrics import match_clusters
from ksparse.scverse.expression import listed_choices
from ksparse.scverse.fields import Part, clustered_cells, read_projection
from ksparse.scverse.restriction import Restriction
from ksparse.scverse.schema import ANOTHER_KEY, field_term, read_record

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = [
    "MAX_CLASSES",
    "cluster_names",
    "clusters_of",
    "group_order",
    "kept_labels",
    "known_labels",
    "label_column",
    "part_of",
    "sorted_confusion",
]

# Columns with more distinct values are numbers or names, not classes.
MAX_CLASSES = 200
# So many cells may be nearer to the centroid of a cluster that no category stands for: they lie
# on a border, or were moved so that no cluster was empty.
MAX_STRAY = 2


def label_column(
    adata: AnnData, labels: str, name: str = "labels"
) -> tuple[NDArray[np.str_], NDArray[np.bool_]]:
    """Return a column of `obs` as text, and where it is not missing; `name` is for errors."""
    if not isinstance(labels, str) or labels not in adata.obs:
        raise InputError(
            Term(name, labels), " is not a column of ", Term("adata.obs"),
            f": {listed_choices(adata.obs)}.",
        )  # fmt: skip
    values = adata.obs[labels]
    known = ~np.asarray(values.isna())
    text = np.asarray(values.astype(object).where(known, "(missing)").astype(str), dtype=object)
    return text.astype(str), known


def group_order(adata: AnnData, groupby: str) -> list[str]:
    """Return the groups of a column of `obs` that have cells, as text.

    Categories keep their order, numbers are in theirs, and all else is sorted as text.
    """
    text, known = label_column(adata, groupby)
    column = adata.obs[groupby][known]
    if hasattr(column, "cat"):
        values = np.asarray(column.cat.codes)
    else:
        values = np.asarray(column) if column.dtype.kind in "iufb" else text[known]
    _, first = np.unique(values, return_index=True)
    return list(dict.fromkeys(str(group) for group in text[known][first]))


def known_labels(
    adata: AnnData, labels: str, cells: NDArray[np.intp] | None = None, *, stacklevel: int = 2
) -> tuple[NDArray[np.str_], NDArray[np.bool_]]:
    """Return `label_column` of some cells (None: of all).

    Warns if some of them have no label, and raises ValueError if none has.
    """
    text, known = label_column(adata, labels)
    if cells is not None:
        text, known = text[cells], known[cells]
    if not known.any():
        raise InputError(Term("labels", labels), f" is missing for all {known.size} cells.")
    if not known.all():
        warn(
            f"{int((~known).sum())} of {known.size} cells have no {labels}, and are not compared.",
            stacklevel=stacklevel + 1,
        )
    return text, known


def kept_labels(
    adata: AnnData, column: str, part: Part | None, key_added: str
) -> NDArray[np.object_]:
    """Return the labels that cells keep in a fit, as text; None for cells that have none.

    With `part`, those of its cells. Raises ValueError if there is no such column, if the clusters
    would be written over it, or if a class would be called like a group of other cells.
    """
    if column == key_added:
        raise InputError(
            Term("known_labels", column), " is where clusters are written: ", ANOTHER_KEY, "."
        )
    text, known = label_column(adata, column, "known_labels")
    labels = text.astype(object)
    labels[~known] = None
    if part is None:
        return labels
    labels = labels[part.chosen]
    prefix, groups = part.restriction.prefix, set(part.column.categories)
    names = [one for one in dict.fromkeys(labels) if one is not None]
    if taken := [one for one in names if f"{prefix}{one}" in groups]:
        raise InputError(
            field_term("obs", part.restriction.column), f" has the group {prefix + taken[0]!r}, "
            "which would be the name of a class of ", Term("known_labels", column),
            ": rename it first.",
        )  # fmt: skip
    return labels


def cluster_names(classes: NDArray[np.object_] | None) -> list[str] | None:
    """Return the names of clusters of which some are known classes (None: there are none).

    New clusters are called by their number, or "new 0" where a class has that name.
    """
    if classes is None:
        return None
    taken = {str(one) for one in classes if one is not None}
    names = []
    for cluster, one in enumerate(classes):
        name = str(cluster if one is None else one)
        while one is None and name in taken:
            name = f"new {name}"
        names.append(name)
    return names


def clusters_of(adata: AnnData, key: str) -> tuple[NDArray[np.intp], list[str]]:
    """Return the cluster of each cell of `clustered_cells`, and the names of all clusters.

    Some of the cells may have been removed (then anndata drops the categories of empty
    clusters), and clusters may have been renamed, in any order: which category is which cluster
    is computed from the projection.
    """
    record = read_record(adata, key)
    centroids, names = record.model.centroids, record.cluster_names
    k = len(centroids)
    if key not in adata.obs or not hasattr(adata.obs[key], "cat"):
        raise InputError(
            field_term("obs", key), " must be the clusters that ",
            Term("tool", text="ksparse.tl.ksparse"), " wrote.",
        )  # fmt: skip
    cells = clustered_cells(adata, key)
    column = adata.obs[key].iloc[cells]
    if cells.size < adata.n_obs:
        column = column.cat.remove_unused_categories()  # the groups of other cells
    if column.isna().any():
        raise InputError(
            field_term("obs", key), f" is missing for {int(column.isna().sum())} of {cells.size} "
            "cells: leave them out.",
        )  # fmt: skip
    categories = [str(name) for name in column.cat.categories]
    codes = np.asarray(column.cat.codes, dtype=np.intp)
    points, centres = (
        np.asarray(values, dtype=np.float64)
        for values in (read_projection(adata, key)[cells], centroids)
    )
    nearest = distances(points, centres).argmin(axis=1)
    cluster_of = _match_categories(categories, codes, nearest, names)
    # A cluster that has cells has a category of its own, unless it was merged with another. Cells
    # that kept a known label may be anywhere.
    free = np.ones(cells.size, dtype=bool)
    if (column := record.params.get("known_labels")) in adata.obs:
        free = ~label_column(adata, str(column))[1][cells]
    present = np.flatnonzero(np.bincount(nearest[free], minlength=k) > MAX_STRAY)
    unnamed = set(present) - set(cluster_of[codes])
    if unnamed or len(set(cluster_of)) < len(cluster_of):
        raise InputError(
            field_term("obs", key), f" has categories that are not the {k} clusters of the result "
            "one to one: rename clusters, but keep merged ones in another column.",
        )  # fmt: skip
    for name, cluster in zip(categories, cluster_of, strict=True):
        names[cluster] = name
    return cluster_of[codes], names


def _match_categories(
    categories: list[str], codes: NDArray[np.intp], nearest: NDArray[np.intp], names: list[str]
) -> NDArray[np.intp]:
    """Return the cluster of each category: by its name, or where most of its cells are."""
    if set(categories) <= set(names):
        return np.array([names.index(name) for name in categories], dtype=np.intp)
    table = np.zeros((len(categories), len(names)), dtype=np.intp)
    np.add.at(table, (codes, nearest), 1)
    return table.argmax(axis=1)


def part_of(adata: AnnData, restriction: Restriction, *, all_groups: bool = True) -> Part:
    """Return the cells of a restriction.

    Raises ValueError if the column or a group is not there; without `all_groups`, only if no
    group is.
    """
    import pandas

    text, known = label_column(adata, restriction.column, "restrict_to")
    order = group_order(adata, restriction.column)
    unknown = [group for group in restriction.groups if group not in order]
    if unknown and (all_groups or len(unknown) == len(restriction.groups)):
        raise InputError(
            Term("restrict_to"), " names ", ", ".join(repr(group) for group in unknown),
            ", which no cell has in ", field_term("obs", restriction.column),
            f": {listed_choices(order)}.",
        )  # fmt: skip
    column = pandas.Categorical.from_codes(pandas.Index(order).get_indexer(text), order)
    column[~known] = np.nan  # a group may be called as missing values are in text
    chosen = known & np.isin(text, restriction.groups)
    like_clusters = [
        name for name in order
        if name not in restriction.groups and name.startswith(restriction.prefix)
        and name.removeprefix(restriction.prefix).isdecimal()
    ]  # fmt: skip
    if like_clusters:
        raise InputError(
            field_term("obs", restriction.column), f" has the group {like_clusters[0]!r}, which "
            "would be the name of a new cluster: rename it first.",
        )  # fmt: skip
    return Part(restriction, chosen, column)


def sorted_confusion(truth: Any, clusters: Any) -> tuple[list[str], list[str], NDArray[np.int64]]:
    """Return classes, clusters and counts, with each class beside the cluster matched to it."""
    classes, rows = np.unique(truth, return_inverse=True)
    names, columns = np.unique(clusters, return_inverse=True)
    table = np.zeros((classes.size, names.size), dtype=np.int64)
    np.add.at(table, (rows, columns), 1)
    numbers = [str(n).rpartition(",")[2] for n in names]  # "T,10" comes after "T,2"
    by_number = np.argsort([int(n) if n.isdecimal() else 0 for n in numbers], kind="stable")
    table, names = table[:, by_number], names[by_number]
    match = match_clusters(table)
    place = np.where(match < 0, names.size, match)  # classes without a cluster come last
    order = np.lexsort((-table.sum(axis=1), place))
    return [str(c) for c in classes[order]], [str(n) for n in names], table[order]
