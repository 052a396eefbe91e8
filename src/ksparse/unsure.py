"""Samples that resemble no cluster: conformal prediction sets of a fitted model."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from ksparse._errors import InputError, Term, warn
from ksparse.core.conformal import Calibration, n_needed, p_values
from ksparse.core.selectors import SELECTORS
from ksparse.core.y_step import centroids, distances
from ksparse.matrix import Floats, project_samples
from ksparse.matrix.data import row_results
from ksparse.params import check_integer, is_number, read_inputs
from ksparse.search.fit import w_step_for
from ksparse.search.folds import calibrate
from ksparse.search.settings import Settings

__all__ = ["UnsureMixin", "check_level", "warn_small"]

Array = NDArray[Any]

# The share of samples that must be where the model places them, in the data that were fitted.
AGREED = 0.99
# By which share of their squared distances from the mean centroids may differ from those of the
# fit, where samples have known labels: the last samples that moved are not in them.
MOVED = 0.1


def check_level(name: str, value: Any) -> float:
    """Return a level between 0 and 1; raise InputError for anything else."""
    if is_number(value) and 0 < value < 1:
        return float(value)
    raise InputError(
        Term(name, value), " must be a number between 0 and 1, such as 0.1: the share of samples "
        "of a cluster that may be taken for others.",
    )  # fmt: skip


def warn_small(sizes: Array, name: str, alpha: float, stacklevel: int) -> None:
    """Warn if clusters have too few calibration samples to be excluded at a level."""
    needed, smallest = n_needed(alpha), int(sizes.min())
    few = int((sizes < needed).sum())
    if few:
        warn(
            f"{few} of {sizes.size} clusters have fewer calibration samples (at least {smallest}) "
            f"than the {needed} that are needed to exclude a cluster at ", Term(name, alpha),
            ": they are in all sets, so that no set is empty.", stacklevel=stacklevel + 1,
        )  # fmt: skip


def _n_features(n_features: Any, settings: Settings) -> int:
    """Return how many features each fold selects, of those that may be."""
    costs = settings.costs
    n = check_integer("n_features", n_features, 1)
    return max(min(n, int(np.isfinite(costs).sum())), int((costs == 0).sum()))


class UnsureMixin:
    """Calibration, p-values and prediction sets of `KSparse`."""

    labels_: Array
    centroids_: Array
    weights_: Array
    mean_: Floats
    scale_: Floats
    n_features_selected_: int
    n_features_in_: int
    calibration_: dict[str, Array]

    def _validate(self, X: Any, *, reset: bool) -> Any:
        raise NotImplementedError  # the estimator's

    def calibrate(
        self, X: Any, sample_weight: ArrayLike | None = None, *, n_features: int | None = 100
    ) -> Self:
        """Learn how far samples are from their own cluster, for `predict_set`.

        The samples are split into five folds. Features, projection, centroids and covariances
        are found anew on four of them, for the labels of the fit and with one W-step, and the
        samples of the fifth are scored: they had no part in what scores them (but the labels were
        found with all samples). Of more than 5,000 samples 5,000 are used, of large clusters as
        many of each.

        It is not part of `fit`, because it costs five W-steps and more passes over the data: 4 to
        13 % of a fit from several starts, but up to 40 % of one from a single start (measured on
        four sets of 259 to 8,617 cells). It makes saved models 0.3 MB larger.

        Parameters
        ----------
        X : array-like, sparse matrix, AnnData, stored matrix or dask array
            The data that were fitted, in the same order.
        sample_weight : array-like, optional
            The weights that were given to `fit`. Samples of weight 0 have no part; all others
            count once, so that what is promised holds for samples as they were drawn.
        n_features : int or None, default=100
            How many features each fold selects (all that may be selected, if these are fewer).
            None: as many as the model has. More features see more kinds of samples that are none
            of the clusters: these may differ where the clusters do not.

        Returns
        -------
        self

        Examples
        --------
        >>> import numpy as np
        >>> from ksparse import KSparse
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(200, 50))
        >>> X[:100, :5] += 5
        >>> model = KSparse(2, n_features=5, random_state=0).fit(X).calibrate(X)
        >>> model.predict_set(X[:3] - 20)
        array([[False, False],
               [False, False],
               [False, False]])
        """
        check_is_fitted(self)
        if len(getattr(self, "batches_", ())) > 1:
            raise InputError(
                "The model was fitted with ", Term("groups"), ", and batches cannot be calibrated: "
                "fit it without them.",
            )  # fmt: skip
        X = self._validate(X, reset=False)
        if X.shape[0] != self.labels_.size:
            raise InputError(
                f"X has {X.shape[0]} samples, but {self.labels_.size} were fitted: give the data "
                "that were fitted.",
            )  # fmt: skip
        if not self.n_features_selected_:
            raise InputError("The model selected 0 features: there is nothing to calibrate.")
        given = self.get_params(deep=False)  # type: ignore[attr-defined]
        params = given | {"n_clusters": len(self.centroids_)}
        inputs = read_inputs(params, X, sample_weight)
        self._check_same(X, inputs.weight)
        settings = inputs.settings
        n = _n_features(self.n_features_selected_ if n_features is None else n_features, settings)
        selector = settings.selector
        if selector.balls is not None and params["ball"] not in selector.balls:
            selector = SELECTORS["forward"]  # the ball of the fit has no selection
        w_step = w_step_for(settings, n, selector)
        labels = self.labels_.astype(np.intp)
        labels = labels if inputs.fitted is None else labels[inputs.fitted]
        found = calibrate(inputs.matrix, labels, len(self.centroids_), w_step)
        self.calibration_ = {name: np.asarray(part) for name, part in vars(found).items()}
        return self

    def _check_same(self, X: Any, weight: Floats | None) -> None:
        """Raise InputError if samples are not where the model places them.

        Those that kept a known label may be anywhere; the means of the clusters may not.
        """
        P = project_samples(X, self.mean_, self.scale_, self.weights_)
        centres = self.centroids_.astype(np.float64)
        if hasattr(self, "known_classes_"):
            means = centroids(P, self.labels_.astype(np.intp), len(centres), weight)
            if ((means - centres) ** 2).sum() > MOVED * ((centres - P.mean(axis=0)) ** 2).sum():
                raise InputError(
                    "X is not what was fitted: the means of its samples by cluster are not the "
                    "centroids of the fit. Give the same data in the same order.",
                )  # fmt: skip
            return
        nearest = distances(P, centres).argmin(axis=1)
        agreed = int((nearest == self.labels_).sum())
        if agreed < AGREED * self.labels_.size:
            raise InputError(
                f"X is not what was fitted: {agreed} of {self.labels_.size} samples are in the "
                "cluster of the fit. Give the same data in the same order.",
            )  # fmt: skip

    def _calibration(self, name: str) -> Calibration:
        check_is_fitted(self)
        if not hasattr(self, "calibration_"):
            raise InputError(
                Term(name), " needs a calibration, which the model does not have: call ",
                Term("calibrate(X)"), " with the data that were fitted, or fit again and do so.",
            )  # fmt: skip
        return Calibration(**self.calibration_)

    def _p_values(self, X: Any, calibration: Calibration) -> Floats:
        columns = np.unique(calibration.features)
        return row_results(X, columns, p_values, (columns, calibration), len(self.centroids_))

    def predict_p_values(self, X: Any) -> Floats:
        """Return how well samples conform with each cluster, compared with those that were fitted.

        (1 + the number of calibration samples of the cluster that are at least as far from it) /
        (1 + their number). Needs `calibrate`.

        Parameters
        ----------
        X : array-like or sparse matrix, samples x features
            New samples. Those that were fitted had part in finding clusters and features: theirs
            are not valid.

        Returns
        -------
        ndarray, samples x clusters
            Of samples of a cluster, about a share `alpha` has a p-value <= `alpha` for it.
        """
        calibration = self._calibration("predict_p_values")
        return self._p_values(self._validate(X, reset=False), calibration)

    def predict_set(self, X: Any, alpha: float = 0.1) -> NDArray[np.bool_]:
        """Return for each sample the clusters that cannot be excluded. Needs `calibrate`.

        The set of a new sample of the population that was fitted contains its cluster with
        probability 1 - alpha or a little more, in every cluster by itself: 0.90 to 0.92 on
        simulated data for 0.1 (more, where folds select other features). What is proven of
        cross-conformal sets, for any distribution and any number of samples, is about 1 - 2 alpha
        (Barber, Candes, Ramdas and Tibshirani, 2021). Sets are nested: that of a larger alpha is
        contained in that of a smaller one.

        A cluster with fewer than 1 / alpha - 1 calibration samples (9 for 0.1) cannot be
        excluded: it is in all sets, and a warning tells how many there are.

        Parameters
        ----------
        X : array-like or sparse matrix, samples x features
            New samples.
        alpha : float, default=0.1
            Level: the share of samples of a cluster whose set may lack it.

        Returns
        -------
        ndarray of bool, samples x clusters
            Rows without any True are samples that resemble no cluster.
        """
        level = check_level("alpha", alpha)
        calibration = self._calibration("predict_set")
        X = self._validate(X, reset=False)
        warn_small(calibration.sizes, "alpha", level, stacklevel=2)
        return self._p_values(X, calibration) > level

    def _mark_unassigned(self, X: Any, labels: Array, unassigned: Any) -> Array:
        """Return labels, -1 where no cluster conforms; to be called by `predict` itself."""
        level = check_level("unassigned", unassigned)
        calibration = self._calibration("unassigned")
        warn_small(calibration.sizes, "unassigned", level, stacklevel=3)
        conforms = (self._p_values(X, calibration) > level).any(axis=1)
        return np.where(conforms, labels, np.int32(-1))
