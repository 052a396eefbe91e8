"""What a fitted model does with samples, old or new."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted, validate_data

from ksparse.assignment import distances, margins
from ksparse.data_checks import check_names, check_values
from ksparse.matrix import Blocks, Floats
from ksparse.projection import project_samples
from ksparse.sources import as_data, is_stored

__all__ = ["PredictionMixin", "soft_assignment"]

Array = NDArray[Any]


def soft_assignment(square_distances: Floats, spread: float) -> Floats:
    """Probabilities of equal spherical Gaussians with that variance, samples x clusters."""
    nearest = square_distances.min(axis=1, keepdims=True)
    unit = max(2 * spread, np.finfo(np.float64).tiny)
    likelihood = np.exp(-(square_distances - nearest) / unit)
    return likelihood / likelihood.sum(axis=1, keepdims=True)


class PredictionMixin:
    """Projection and prediction from the fitted attributes of `KSparse`."""

    weights_: Array
    centroids_: Array
    mean_: Floats
    scale_: Floats
    _spread: float
    memory_limit: Any
    n_features_in_: int
    feature_names_in_: Array

    def _validate(self, X: Any, *, reset: bool) -> Any:
        check_names(X)
        X, names = as_data(X, self.memory_limit)
        if isinstance(X, Blocks):
            if not reset and X.shape[1] != self.n_features_in_:
                raise ValueError(
                    f"X has {X.shape[1]} features, but {type(self).__name__} is expecting "
                    f"{self.n_features_in_} features as input."
                )
            if reset and hasattr(self, "feature_names_in_"):
                del self.feature_names_in_  # of an earlier fit
        else:
            X = self._validate_array(X, reset, names is not None)
        if reset:
            self.n_features_in_ = X.shape[1]
        if names is not None:
            self._check_gene_names(np.array(names, dtype=object), reset)
        return X

    def _validate_array(self, X: Any, reset: bool, named: bool) -> Any:
        try:
            with warnings.catch_warnings():
                if named:  # the names are compared by ourselves
                    warnings.filterwarnings("ignore", "X does not have valid feature names")
                X = validate_data(
                    self,
                    X,
                    reset=reset,
                    accept_sparse=("csr", "csc"),
                    dtype=(np.float64, np.float32),
                    ensure_all_finite=False,
                )
        except ValueError as error:
            if "convert" in str(error):
                raise ValueError(f"X must hold numbers only: {error}") from None
            raise
        check_values(X)
        return X

    def _check_gene_names(self, names: Array, reset: bool) -> None:
        if len(set(names)) < names.size:
            raise ValueError(
                f"X has {names.size - len(set(names))} repeated feature names: make them unique."
            )
        if reset:
            self.feature_names_in_ = names
        elif not np.array_equal(names, getattr(self, "feature_names_in_", names)):
            raise ValueError(
                "The features of X are not those that were fitted, or in another order: "
                "ksparse.tl.predict matches them by name."
            )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "weights_")

    def _project(self, X: Any) -> Floats:
        return project_samples(X, self.mean_, self.scale_, self.weights_)

    def project(self, X: Any) -> Array:
        """Project samples: X W for centred and scaled data.

        Parameters
        ----------
        X : array-like or sparse matrix, samples x features
            Samples, with the features of the data that were fitted.

        Returns
        -------
        ndarray, samples x components
        """
        check_is_fitted(self)
        X = self._validate(X, reset=False)
        return self._project(X).astype(X.dtype, copy=False)

    def transform(self, X: Any) -> Any:
        """Reduce samples to the selected features.

        Parameters
        ----------
        X : array-like, sparse matrix, AnnData, stored matrix or dask array
            Samples, with the features of the data that were fitted.

        Returns
        -------
        ndarray or sparse matrix, samples x selected features
            In memory, whatever X is.
        """
        if isinstance(X, np.ndarray) or not (is_stored(X) or hasattr(X, "var_names")):
            return super().transform(X)  # type: ignore[misc]
        check_is_fitted(self)
        X = self._validate(X, reset=False)
        chosen = np.flatnonzero(self.weights_.any(axis=1))
        return X.pick(chosen).take(np.arange(X.shape[0])) if isinstance(X, Blocks) else X[:, chosen]

    def _distances(self, X: Any) -> Floats:
        check_is_fitted(self)
        return distances(self._project(self._validate(X, reset=False)), self.centroids_)

    def predict(self, X: Any) -> Array:
        """Cluster of each sample: that of the nearest centroid in the projection.

        Parameters
        ----------
        X : array-like or sparse matrix, samples x features
            Samples, old or new.

        Returns
        -------
        ndarray of int, one per sample
        """
        return self._distances(X).argmin(axis=1).astype(np.int32)

    def predict_proba(self, X: Any) -> Array:
        """Soft assignment: how near a sample is to each centroid, compared with the others.

        Posterior probabilities of a mixture of equal spherical Gaussians around the
        centroids, with the spread within clusters that was fitted.

        Parameters
        ----------
        X : array-like or sparse matrix, samples x features
            Samples, old or new.

        Returns
        -------
        ndarray, samples x clusters
            Rows sum to 1; the largest entry is the cluster that `predict` gives.
        """
        return soft_assignment(self._distances(X), self._spread)

    def score(self, X: Any, y: Any = None) -> float:
        """Mean margin of the samples in the projection: how far apart the clusters are.

        The margin of a sample is (b - a) / max(a, b), where a and b are its distances to
        its own and to the next centroid: between 0 and 1, and free of scale, so that fits
        with other features or other settings can be compared (unlike the cost).

        Parameters
        ----------
        X : array-like or sparse matrix, samples x features
            Samples, old or new.
        y : ignored
            For compatibility.
        """
        check_is_fitted(self)
        P = self._project(self._validate(X, reset=False))
        labels = distances(P, self.centroids_).argmin(axis=1)
        return float(margins(P, labels, self.centroids_.astype(np.float64)).mean())
