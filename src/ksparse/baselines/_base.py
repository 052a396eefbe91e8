"""The checks of data and settings that all baselines share."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.cluster import KMeans
from sklearn.utils.validation import validate_data

from ksparse._errors import InputError, Term
from ksparse._threads import openmp_threads
from ksparse.matrix.bad_data import check_indices, check_unmasked
from ksparse.matrix.sources import check_column_names, check_distinct_rows, check_values
from ksparse.params import check_integer

__all__ = ["Baseline", "kmeans_labels"]


def kmeans_labels(X: Any, n_clusters: int, **options: Any) -> Any:
    """Return the clusters of scikit-learn's k-means."""
    with openmp_threads():
        return KMeans(int(n_clusters), **options).fit_predict(X)


class Baseline(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """A clusterer with checks of its data and settings."""

    n_clusters: int

    def _checked(self, X: Any, **least: int) -> Any:
        """Return checked data; `least` holds the smallest values of settings that are integers."""
        check_column_names(X)
        check_indices(X)
        check_unmasked("X", X)
        X = validate_data(
            self, X, accept_sparse=("csr",), dtype=(np.float64, np.float32), ensure_min_samples=1,
            ensure_all_finite=False,
        )  # fmt: skip
        check_indices(X)  # of what was converted from other kinds
        check_values(X)
        for name, value in ({"n_clusters": 1} | least).items():
            check_integer(name, getattr(self, name), value)
        if X.shape[0] < self.n_clusters:
            raise InputError(
                Term("n_samples", X.shape[0]),
                " should be >= ",
                Term("n_clusters", self.n_clusters),
                ": ask for fewer clusters or give more samples.",
            )
        check_distinct_rows(X, self.n_clusters)
        return X

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
