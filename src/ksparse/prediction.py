"""What a fitted model does with samples, old or new."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted, validate_data

from ksparse.assignment import distances, margins
from ksparse.matrix import Floats
from ksparse.projection import project_samples
from ksparse.validation import check_finite, check_names, check_scale

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

    def _validate(self, X: Any, *, reset: bool) -> Any:
        check_names(X)
        try:
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
        check_finite(X)
        check_scale(X)
        return X

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
