"""Simulated counts with known clusters and known markers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksparse._errors import InputError, Term
from ksparse.normalise import log_normalise
from ksparse.params import check_integer, check_seed

__all__ = ["SimulatedCounts", "log_normalise", "simulate_counts"]


@dataclass(frozen=True)
class SimulatedCounts:
    """Simulated counts with their clusters and markers.

    Attributes
    ----------
    counts : csr_array, samples x features
        Non-negative whole numbers, as float32.
    labels : ndarray of int
        Cluster of each sample.
    markers : ndarray of bool
        Mask of the features that differ between clusters.
    """

    counts: Any
    labels: NDArray[np.intp]
    markers: NDArray[np.bool_]

    def to_anndata(self) -> Any:
        """Return an AnnData object: X, obs["label"], var["is_marker"], cells and genes named.

        Examples
        --------
        >>> from ksparse.simulate import simulate_counts
        >>> simulate_counts(50, 200, 2, random_state=0).to_anndata().obs["label"].nunique()
        2
        """
        try:
            import pandas
            from anndata import AnnData
        except ImportError:
            raise ImportError(
                "to_anndata needs anndata: install it with  pip install 'ksparse[anndata]'"
            ) from None
        m, d = self.counts.shape
        obs = pandas.DataFrame(
            {"label": pandas.Categorical([f"type {label}" for label in self.labels])},
            index=[f"cell_{i}" for i in range(m)],
        )
        var = pandas.DataFrame({"is_marker": self.markers}, index=[f"gene_{j}" for j in range(d)])
        return AnnData(sp.csr_matrix(self.counts), obs=obs, var=var)


def simulate_counts(
    n_samples: int = 600,
    n_features: int = 2000,
    n_clusters: int = 4,
    *,
    n_markers: int = 40,
    fold_change: float = 1.5,
    zeros: float = 0.5,
    random_state: int | np.random.RandomState | None = None,
) -> SimulatedCounts:
    """Simulate counts like those of single cells: overdispersed, of unequal depth, many zeros.

    Features have gamma-distributed means, samples have random depths, and each cluster has
    `n_markers` features that are raised or lowered in it alone. Cluster sizes decrease from the
    first to the last.

    Parameters
    ----------
    n_samples, n_features, n_clusters : int
        Size of the data and number of clusters.
    n_markers : int
        Number of marker features of each cluster.
    fold_change : float
        Mean log2 fold change of a marker.
    zeros : float
        Share of the counts that are set to zero, besides those that are drawn as zero.
    random_state : int, RandomState or None
        Seed.

    Returns
    -------
    SimulatedCounts

    Examples
    --------
    >>> from ksparse.simulate import simulate_counts
    >>> data = simulate_counts(100, 500, 3, random_state=0)
    >>> data.counts.shape, int(data.markers.sum())
    ((100, 500), 120)
    """
    n_samples, n_features, n_clusters, n_markers = (
        check_integer(name, count, least)
        for name, count, least in (
            ("n_samples", n_samples, 1),
            ("n_features", n_features, 1),
            ("n_clusters", n_clusters, 1),
            ("n_markers", n_markers, 0),
        )
    )
    if n_samples < n_clusters:
        raise InputError(
            Term("n_samples", n_samples), " should be >= ", Term("n_clusters", n_clusters), " >= 1."
        )
    if n_clusters * n_markers > n_features:
        raise InputError(
            Term("n_clusters"), " * ", Term("n_markers"), f" = {n_clusters * n_markers} should be "
            "<= ", Term("n_features", n_features), ".",
        )  # fmt: skip
    if not 0 <= zeros < 1:
        raise InputError(Term("zeros", zeros), " must be at least 0 and less than 1.")
    rng = check_seed(random_state)
    share = 1.0 / np.arange(2, n_clusters + 2)
    labels = np.searchsorted(
        np.cumsum(share) / share.sum(), np.arange(n_samples) / n_samples, "right"
    )
    labels = labels.astype(np.intp)
    labels[:n_clusters] = np.arange(n_clusters)  # no cluster is empty, however few samples
    rng.shuffle(labels)
    base = rng.gamma(2.0, 4.0 / 3.0, n_features)
    depth = np.abs(rng.normal(1.0, 0.25, n_samples)) + 0.05
    log2_fold = np.zeros((n_clusters, n_features))
    for cluster in range(n_clusters):
        markers_of_cluster = slice(cluster * n_markers, (cluster + 1) * n_markers)
        size = np.abs(rng.normal(fold_change, 0.4, n_markers))
        log2_fold[cluster, markers_of_cluster] = size * rng.choice([1, 1, -1], n_markers)
    rows = []
    for start in range(0, n_samples, 1000):  # in blocks, so that the table is never dense
        part = slice(start, start + 1000)
        mean = depth[part, None] * base * 2.0 ** log2_fold[labels[part]]
        counts = rng.poisson(mean * rng.gamma(50.0, 1 / 50.0, mean.shape))
        # Small counts are lost more easily than large ones.
        lost = rng.random_sample(counts.shape) < zeros * 1.5 * np.exp(-0.15 * counts)
        rows.append(sp.csr_array(np.where(lost, 0, counts).astype(np.float32)))
    markers = np.arange(n_features) < n_clusters * n_markers
    return SimulatedCounts(sp.csr_array(sp.vstack(rows)), labels, markers)
