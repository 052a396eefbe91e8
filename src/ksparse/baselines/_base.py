"""What all baselines share: checks of data and settings."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import validate_data

from ksparse.data_checks import check_distinct_rows, check_names, check_values
from ksparse.validation import check_at_least

__all__ = ["Baseline"]


class Baseline(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """A clusterer that knows how to read its data."""

    n_clusters: int

    def _read(self, X: Any, **least: int) -> Any:
        """Return checked data; `least` names settings that must be integers of that size."""
        check_names(X)
        X = validate_data(
            self, X, accept_sparse=("csr",), dtype=(np.float64, np.float32), ensure_min_samples=1,
            ensure_all_finite=False,
        )  # fmt: skip
        check_values(X)
        for name, value in ({"n_clusters": 1} | least).items():
            check_at_least(name, getattr(self, name), value)
        if X.shape[0] < self.n_clusters:
            raise ValueError(
                f"n_samples={X.shape[0]} should be >= n_clusters={self.n_clusters}: "
                "ask for fewer clusters or give more samples."
            )
        check_distinct_rows(X, self.n_clusters)
        return X

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
