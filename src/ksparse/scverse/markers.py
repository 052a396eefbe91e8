"""Marker genes: contributions of the selected genes to each cluster."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ksparse.matrix.data import group_counts, group_sums, pick_columns, reduce_rows
from ksparse.scverse.schema import Clusters, Record

__all__ = [
    "cluster_profiles",
    "contributions",
    "diagonal_order",
    "log2_fold_changes",
    "order_by_weight",
    "per_gene",
    "top_genes",
    "unmarked_sentence",
]

Floats = NDArray[np.float64]


def cluster_profiles(
    X: Any, columns: NDArray[np.intp], labels: NDArray[Any], n_clusters: int
) -> Clusters:
    """Return the size of each cluster, and mean and share of nonzero values of some genes."""
    size = np.bincount(labels, minlength=n_clusters)
    sums, counts = reduce_rows(X, _sums_and_counts, (columns, n_clusters), labels)
    per_cell = 1.0 / np.maximum(size, 1)[:, None]
    return Clusters(size=size, mean=sums * per_cell, fraction=counts * per_cell)


def unmarked_sentence(record: Record) -> str:
    """Return a sentence about clusters that no selected gene marks; none if all are marked."""
    marked, n = record.clusters.marked, record.results.n_features
    if marked is None or np.all(marked) or n == 0:
        return ""
    names = [record.cluster_names[c] for c in np.flatnonzero(~np.asarray(marked))]
    several = len(names) > 1
    return (
        f"Cluster{'s' * several} {', '.join(map(repr, names))} {'are' if several else 'is'} marked "
        f"by none of the {n} selected genes: each has about the same mean in another cluster; "
        "select more genes, or ask for fewer clusters."
    )


def _sums_and_counts(
    X: Any, labels: NDArray[Any], columns: NDArray[np.intp], n_clusters: int
) -> Floats:
    part = pick_columns(X, columns)
    return np.stack([group_sums(part, labels, n_clusters), group_counts(part, labels, n_clusters)])


def per_gene(values: NDArray[Any]) -> NDArray[Any]:
    """Return the values with every column scaled to the range from 0 to 1."""
    low, high = values.min(axis=0), values.max(axis=0)
    return (values - low) / np.where(high > low, high - low, 1.0)


def diagonal_order(mean: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the order of genes that makes the diagonal visible, and the group of each.

    `mean` is groups x genes. Genes stand in the order of the groups in which their mean is
    highest, and within a group those come first that are farthest above the next group.
    """
    marked = mean.argmax(axis=0)
    scaled = np.sort(per_gene(mean), axis=0)
    second = scaled[-2] if len(scaled) > 1 else np.zeros(mean.shape[1])
    order = np.lexsort((second, marked))
    return order, marked[order]


def contributions(record: Record) -> Floats:
    """Return signed contributions, clusters x selected genes; see `ksparse.tl.rank_genes`."""
    model = record.model
    centres = np.asarray(model.centroids, dtype=np.float64)
    means, middle = np.asarray(record.clusters.mean), np.asarray(model.mean)
    if not record.params.get("center", True):  # then the centre of all cells is not at zero
        share = np.asarray(record.clusters.size) / np.sum(record.clusters.size)
        centres, middle = centres - share @ centres, share @ means
    if record.clusters.middle is not None:
        middle = np.asarray(record.clusters.middle)
    length = np.linalg.norm(centres, axis=1, keepdims=True)
    length[length == 0] = np.inf  # a cluster in the centre of all cells, or the only one
    direction = (centres / length) @ np.asarray(model.weights, dtype=np.float64).T
    difference = (means - middle) * model.scale
    return np.sign(difference) * np.abs(direction * difference) / length


def order_by_weight(record: Record) -> NDArray[np.intp]:
    """Return the selected genes in the order of decreasing weight."""
    return np.argsort(-record.model.gene_weights, kind="stable")


def top_genes(record: Record, n_genes: int) -> list[tuple[int, int]]:
    """Return pairs (gene, cluster): up to `n_genes` markers of each cluster, none twice."""
    taken: set[int] = set()
    pairs = []
    for cluster, row in enumerate(contributions(record)):
        order = [int(j) for j in np.argsort(-row, kind="stable") if row[j] > 0]
        markers = [j for j in order if j not in taken][:n_genes]
        taken.update(markers)
        pairs += [(j, cluster) for j in markers]
    return pairs


def log2_fold_changes(record: Record) -> Floats:
    """Return log2 of the mean against all other cells, as scanpy computes it from log1p data."""
    mean, size = np.asarray(record.clusters.mean), np.asarray(record.clusters.size)
    total = (mean * size[:, None]).sum(axis=0)
    others = np.maximum(size.sum() - size, 1)[:, None]
    rest = (total - mean * size[:, None]) / others
    with np.errstate(over="ignore", invalid="ignore"):
        high, low = np.expm1(mean) + 1e-9, np.expm1(rest) + 1e-9
        return np.log2(np.where((high > 0) & (low > 0), high / low, np.nan))
