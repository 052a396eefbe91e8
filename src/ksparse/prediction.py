"""What a fitted model does: project, predict, score; save itself."""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from ksparse.batched import BatchMixin
from ksparse.core.y_step import distances, margins
from ksparse.matrix import Floats, project_samples
from ksparse.matrix.bad_data import check_indices
from ksparse.matrix.sources import columns_in_memory, is_stored
from ksparse.unsure import UnsureMixin

__all__ = ["PredictionMixin", "soft_assignment"]

Array = NDArray[Any]


def soft_assignment(square_distances: Floats, spread: float) -> Floats:
    """Return probabilities of equal spherical Gaussians with that variance."""
    nearest = square_distances.min(axis=1, keepdims=True)
    unit = max(2 * spread, np.finfo(np.float64).tiny)
    likelihood = np.exp(-(square_distances - nearest) / unit)
    return likelihood / likelihood.sum(axis=1, keepdims=True)


class PredictionMixin(BatchMixin, UnsureMixin):
    """Projection and prediction from the fitted attributes of `KSparse`."""

    feature_importances_: Array
    memberships_: Array
    membership_log_odds_: Array
    membership_centroids_: Array
    max_labels: int
    _spread: float
    memory_limit: Any
    feature_names_in_: Array

    def _get_support_mask(self) -> Array:
        check_is_fitted(self)
        return self.feature_importances_ > 0

    def _store_memberships(self, P: Floats, sample_weight: Floats | None) -> None:
        """Set the attributes of samples with several labels."""
        from ksparse.core.memberships import assign_several

        labels, centres = self.labels_.astype(np.intp), self.centroids_.astype(np.float64)
        several = assign_several(P, labels, centres, int(self.max_labels), sample_weight)
        self.memberships_, self.membership_log_odds_ = several.sets, several.log_odds
        self.membership_centroids_ = several.centroids.astype(self.centroids_.dtype)

    def _validate(self, X: Any, *, reset: bool) -> Any:
        raise NotImplementedError  # the estimator's

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "weights_")

    @property
    def spread_(self) -> float:
        """Variance within clusters in the projection, per component."""
        return self._spread

    def _project(self, X: Any, groups: Any, depth: int = 0) -> Floats:
        offsets = self._offsets_of(X.shape[0], groups, depth)
        P = project_samples(X, self.mean_, self.scale_, self.weights_)
        return P if offsets is None else P - offsets

    def project(self, X: Any, groups: Any = None) -> Array:
        """Return samples in the projection: X W for centred and scaled data.

        Parameters
        ----------
        X : array-like or sparse matrix, samples x features
            Samples, with the features of the data that were fitted.
        groups : array-like, optional
            The batch of each sample, of a model that was fitted with batches. From samples of
            other batches, or of none, the mean of all samples is subtracted, with a warning.

        Returns
        -------
        ndarray, samples x components
        """
        check_is_fitted(self)
        X = self._validate(X, reset=False)
        return self._project(X, groups).astype(X.dtype, copy=False)

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
            check_indices(X)
            return super().transform(X)  # type: ignore[misc]
        check_is_fitted(self)
        X = self._validate(X, reset=False)
        chosen = np.flatnonzero(self.weights_.any(axis=1))
        return columns_in_memory(X, chosen)

    def _distances(self, X: Any, groups: Any) -> Floats:
        return distances(self._project(X, groups, 1), self.centroids_.astype(np.float64))

    def predict(self, X: Any, unassigned: float | None = None, groups: Any = None) -> Array:
        """Return the cluster of each sample: that of the nearest centroid in the projection.

        A sample whose label was known to `fit` may be nearer to another centroid than to that of
        its class: `labels_` has its class, and what is predicted is another cluster.

        Parameters
        ----------
        X : array-like or sparse matrix, samples x features
            Samples, old or new.
        unassigned : float, optional
            Level at which samples that resemble no cluster are not assigned (their `predict_set`
            is empty): about that share of the samples of every cluster is not, and as many of
            another kind as the features can tell apart from all clusters. Needs `calibrate`.
        groups : array-like, optional
            The batch of each sample; see `project`.

        Returns
        -------
        ndarray of int, one per sample
            -1 for samples that are not assigned.
        """
        check_is_fitted(self)
        X = self._validate(X, reset=False)
        labels = self._distances(X, groups).argmin(axis=1).astype(np.int32)
        return labels if unassigned is None else self._mark_unassigned(X, labels, unassigned)

    def predict_proba(self, X: Any, groups: Any = None) -> Array:
        """Return soft assignments: how near a sample is to each centroid, relative to the others.

        Posterior probabilities of a mixture of equal spherical Gaussians around the
        centroids, with the spread within clusters that was fitted.

        Parameters
        ----------
        X : array-like or sparse matrix, samples x features
            Samples, old or new.
        groups : array-like, optional
            The batch of each sample; see `project`.

        Returns
        -------
        ndarray, samples x clusters
            Rows sum to 1; the largest entry is the cluster that `predict` gives.
        """
        check_is_fitted(self)
        X = self._validate(X, reset=False)
        return soft_assignment(self._distances(X, groups), self._spread)

    def score(self, X: Any, y: Any = None, groups: Any = None) -> float:
        """Return the mean margin of the samples in the projection: how far apart clusters are.

        The margin of a sample is (b - a) / max(a, b), where a and b are its distances to
        its own and to the next centroid: between 0 and 1, and free of scale, so that fits
        with other features or other settings can be compared (unlike the cost).

        Parameters
        ----------
        X : array-like or sparse matrix, samples x features
            Samples, old or new.
        y : ignored
            For compatibility.
        groups : array-like, optional
            The batch of each sample; see `project`.
        """
        check_is_fitted(self)
        P = self._project(self._validate(X, reset=False), groups)
        centres = self.centroids_.astype(np.float64)
        return float(margins(P, distances(P, centres).argmin(axis=1), centres).mean())

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted model to a file, for `ksparse.load`.

        One zip file of arrays and text, which later versions read and which cannot execute
        anything, unlike a pickle. It appears whole or not at all; a file that was there is
        replaced.

        Parameters
        ----------
        path : path
            The file, for example "cells.ksparse".

        Examples
        --------
        >>> import pathlib, tempfile
        >>> import numpy as np
        >>> import ksparse
        >>> X = np.random.default_rng(0).normal(size=(60, 20))
        >>> X[:20, :3] += 5
        >>> model = ksparse.KSparse(2, n_features=3, random_state=0).fit(X)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(pathlib.Path(folder, "cells.ksparse"))
        ...     ksparse.load(pathlib.Path(folder, "cells.ksparse")).n_features_selected_
        3
        """
        check_is_fitted(self)
        from ksparse.io.model_file import write_model

        write_model(path, self.get_params(deep=False), vars(self))  # type: ignore[attr-defined]
