"""From data and parameters to what `KSparse` has learned."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from ksparse._errors import InputError, InputWarning, Term, warn
from ksparse.core.w_step import Projection
from ksparse.matrix import Floats, Ints, Matrix
from ksparse.matrix.sources import check_data, n_passes
from ksparse.params import DEFAULTS, Inputs, is_auto, read_inputs
from ksparse.search.feature_count import SEED
from ksparse.search.fit import (
    Labelled,
    Observer,
    SearchResult,
    fit_prepared,
    label_all,
    prepare,
)

__all__ = ["DataMixin", "FitMixin"]

Array = NDArray[Any]

# How often samples are set apart. A cluster of this part of the mean size is never too small.
MAX_ROUNDS, PART_OF_MEAN = 3, 0.25
# The level at which a feature marks a cluster, for all features and clusters together; samples of
# each cluster that are looked at, at most.
LEVEL, MAX_OF_EACH = 0.05, 500

Result = TypeVar("Result")


class UnmetWarning(InputWarning, ConvergenceWarning):  # type: ignore[misc]
    """Something did not converge, or there are fewer clusters than were asked for."""


class DataMixin:
    """What estimators share that take data in any storage, with or without names of features."""

    memory_limit: Any
    n_features_in_: int
    feature_names_in_: Array

    def _validate(self, X: Any, *, reset: bool) -> Any:
        """Return checked data; remember (`reset`) or compare features and their names."""
        known = getattr(self, "feature_names_in_", None)
        if reset and known is not None:
            del self.feature_names_in_  # of an earlier fit
        named = hasattr(X, "var_names")  # AnnData, whose names are compared below
        with warnings.catch_warnings():
            if named:
                warnings.filterwarnings("ignore", "X does not have valid feature names")
            X, names = check_data(X, self.memory_limit, partial(validate_data, self, reset=reset))
        if not reset and X.shape[1] != self.n_features_in_:  # data in blocks
            raise InputError(
                f"X has {X.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input."
            )
        if reset:
            self.n_features_in_ = X.shape[1]
        if names is not None and reset:
            self.feature_names_in_ = np.array(names, dtype=object)
        elif names is not None and known is not None and list(known) != names:
            raise InputError(
                "The features of X are not those that were fitted, or in another order: ",
                Term("ksparse.tl.predict"), " matches them by name.",
            )  # fmt: skip
        return X


class FitMixin:
    """Fit, and set the attributes."""

    n_clusters: Any
    init: Any
    center: Any
    solver_tol: Any
    max_labels: Any
    min_cluster_size: Any
    verbose: Any
    checkpoint: Any
    random_state: Any
    get_params: Any
    _with_batches: Any
    _store_batches: Any
    _store_memberships: Any

    def _fitted(
        self, X: Any, sample_weight: ArrayLike | None, known_labels: Any, groups: Any
    ) -> Array:
        """Fit checked data; return all samples in the projection."""
        params = self._with_number(X, sample_weight, known_labels=known_labels, groups=groups)

        def read(weight: ArrayLike | None) -> Inputs:
            inputs = read_inputs(params, X, weight)
            if known_labels is not None:
                from ksparse.search.known import with_known

                inputs = with_known(inputs, known_labels, params["n_clusters"])
            if groups is not None:
                inputs = self._with_batches(inputs, groups, self.center)
            return inputs

        inputs, rng = read(sample_weight), check_random_state(self.random_state)
        with self._accompanied(params, inputs, rng) as (observer, rng):

            def fit(inputs: Inputs) -> tuple[tuple[Matrix, SearchResult], Labelled]:
                return self._fit(inputs, rng, observer)

            inputs, (matrix, result), labelled, self.outlying_ = fit_apart(
                inputs, read, fit, params["min_cluster_size"]
            )
        self.mean_, self.scale_ = matrix.mean, matrix.factor
        return self._store(inputs, result, labelled, params["n_clusters"])

    def _fit(
        self, inputs: Inputs, rng: np.random.RandomState, observer: Observer
    ) -> tuple[tuple[Matrix, SearchResult], Labelled]:
        """Return the view that was fitted with what was found, and the labels of all samples."""
        settings, starts = inputs.settings, inputs.settings.starts
        # Several starts are compared: then all depends on the data, and nothing on the seed.
        several = str(self.init) == "auto" or len(starts) > 1
        own, n = check_random_state(SEED) if several else rng, settings.n_components
        prepared = prepare(inputs.matrix, n, own, starts=starts, observer=observer)
        result = fit_prepared(prepared, settings, rng, observer=observer)
        known, matrix = settings.known.every if settings.known else None, prepared.matrix
        fit, weight = result.fit, inputs.weight
        return (matrix, result), label_all(inputs.X, inputs.fitted, weight, matrix, fit, known)

    def _with_number(self, X: Any, sample_weight: ArrayLike | None, **given: Any) -> dict[str, Any]:
        """Return the parameters, with a recommended number of clusters instead of "auto"."""
        params = self.get_params(deep=False)
        self.__dict__.pop("cluster_number_", None)  # of an earlier fit
        if not is_auto(self.n_clusters):
            return params
        for name, what in (("known_labels", "labels"), ("groups", "batches")):
            if given[name] is not None:
                raise InputError(
                    Term("n_clusters", "auto"), f" knows no {what}: give a number of clusters ",
                    "with ", Term(name), ".",
                )  # fmt: skip
        from ksparse.selection.cluster_number import choose_k

        own = ("n_clusters", "n_components", "checkpoint")
        options = {name: value for name, value in params.items() if name not in own}
        self.cluster_number_ = choose_k(X, sample_weight=sample_weight, **options)
        return params | {"n_clusters": self.cluster_number_.recommended}

    def _accompanied(
        self, params: dict[str, Any], inputs: Inputs, rng: np.random.RandomState
    ) -> Any:
        """Return a context with a progress bar and a checkpoint, where they are asked for."""
        if self.verbose <= 0 and self.checkpoint is None:
            return nullcontext((Observer(), rng))
        from ksparse.io.accompany import accompany

        return accompany(params, inputs, rng)

    def _store(
        self, inputs: Inputs, result: SearchResult, labelled: Labelled, n_clusters: int
    ) -> Array:
        """Set the fitted attributes, clusters in their final order; return the projection."""
        fit, dtype = result.fit, inputs.X.dtype
        projection, order = fit.projection, labelled.order
        k, axes = order.size, np.arange(projection.weights.shape[1])
        if inputs.settings.targets.axis_per_cluster and axes.size >= k:
            axes[:k] = order  # every cluster has an axis of its own
        self.labels_ = labelled.labels.astype(np.int32)
        for name in ("known_classes_", "calibration_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        if (known := inputs.settings.known) is not None:
            self.known_classes_ = known.of_clusters(order)
        self.weights_ = projection.weights[:, axes].astype(dtype)
        self.l1_weights_ = projection.l1_weights[:, axes].astype(dtype)
        self.centroids_ = fit.centroids[order][:, axes].astype(dtype)
        P = labelled.projected[:, axes]
        n_axes = np.count_nonzero(self.weights_.any(axis=0))  # the others hold no variance
        self._spread = fit.inertia / (inputs.matrix.total_weight * max(1, int(n_axes)))
        if self.max_labels > 1:
            self._store_memberships(P, inputs.weight)
        self.eta_, self.gap_ = projection.eta, projection.gap
        self.explained_, self.explained_bound_ = projection.explained
        certified = not projection.gap > (self.solver_tol or DEFAULTS["solver_tol"])
        self.converged_ = bool(fit.converged and certified)
        self.feature_importances_ = np.linalg.norm(self.weights_, axis=1)
        self.n_features_selected_ = int(np.count_nonzero(self.feature_importances_))
        self.history_ = {name: np.array(values) for name, values in fit.history.items()}
        self.cost_history_, self.n_iter_ = self.history_["cost"], len(fit.history["cost"])
        self.starts_ = result.table
        self.n_passes_ = n_passes(inputs.X)
        selected = np.flatnonzero(self.feature_importances_)
        fitted = labelled.labels if inputs.fitted is None else labelled.labels[inputs.fitted]
        self.unmarked_ = unmarked_clusters(inputs.matrix, selected, fitted, k)
        warn_small(self, small_clusters(labelled.labels, inputs, self.min_cluster_size))
        if projection.tied or k < n_clusters or k == 1 or not self.converged_:
            warn_unmet(self, n_clusters, projection, fit.converged)
        if inputs.batches is not None or hasattr(self, "batches_"):
            self._store_batches(inputs, P)
        return P.astype(dtype, copy=False)


def small_clusters(labels: Ints, inputs: Inputs, least: int) -> Ints:
    """Return the clusters with a total weight below `least`, or a quarter of the mean if that is
    less; clusters in which a sample has a known label are never among them.
    """
    k = int(labels.max(initial=0)) + 1
    sizes = np.bincount(labels, weights=inputs.weight, minlength=k)
    small = sizes < min(float(least), PART_OF_MEAN * float(sizes.sum()) / k)
    if (known := inputs.settings.known) is not None:
        small[labels[known.every >= 0]] = False
    return np.flatnonzero(small)


def fit_apart(
    inputs: Inputs,
    read: Callable[[Floats], Inputs],
    fit: Callable[[Inputs], tuple[Result, Labelled]],
    least: int,
) -> tuple[Inputs, Result, Labelled, Ints]:
    """Fit, and while there are clusters that are too small, again without their samples.

    A few samples that are far from all others take a cluster for themselves, which is then missing
    elsewhere. Those that are set apart join the nearest cluster in the end.

    Parameters
    ----------
    inputs : Inputs
        What is to be fitted.
    read : callable
        ``read(sample_weight)`` returns the same with other weights.
    fit : callable
        ``fit(inputs)`` returns a result, and the labels of all samples.
    least : int
        The smallest weight of a cluster.

    Returns
    -------
    Inputs, result, Labelled
        Those of the last fit.
    ndarray of int
        The samples that were set apart.
    """
    m = inputs.X.shape[0]
    outlying = np.empty(0, dtype=np.intp)
    for _ in range(MAX_ROUNDS):
        result, labelled = fit(inputs)
        small = small_clusters(labelled.labels, inputs, least)
        if small.size == 0:
            break
        weight = np.ones(m) if inputs.weight is None else inputs.weight.copy()
        found = np.flatnonzero(np.isin(labelled.labels, small) & (weight > 0))
        weight[found] = 0.0
        less = read(weight)
        if less.n_distinct < inputs.n_distinct:
            break
        inputs, outlying = less, np.union1d(outlying, found)
    else:
        result, labelled = fit(inputs)
    return inputs, result, labelled, outlying


def unmarked_clusters(
    matrix: Matrix, selected: Ints, labels: Ints, n_clusters: int
) -> NDArray[np.intp]:
    """Return the clusters that no selected feature marks.

    A feature marks a cluster if its mean there differs from its mean in every other cluster by
    more than chance. Some samples of each cluster are looked at. The features were selected for
    these clusters, so this is a description: what is not marked here is not marked at all.
    """
    if n_clusters < 2 or selected.size == 0:
        return np.arange(n_clusters if n_clusters > 1 else 0)
    rng = np.random.RandomState(0)
    members = [np.flatnonzero(labels == cluster) for cluster in range(n_clusters)]
    few = [rows if rows.size <= MAX_OF_EACH else rng.choice(rows, MAX_OF_EACH, replace=False)
           for rows in members]  # fmt: skip
    rows = np.sort(np.concatenate(few))
    Z = matrix.rows(rows).columns(selected) if rows.size < labels.size else matrix.columns(selected)
    given = labels[rows]
    size = np.bincount(given, minlength=n_clusters)
    means = np.array([Z[given == c].mean(axis=0) if size[c] else np.full(selected.size, np.nan)
                      for c in range(n_clusters)])  # fmt: skip
    within = ((Z - means[given]) ** 2).sum(axis=0) / max(rows.size - n_clusters, 1)
    bound = norm.isf(LEVEL / (2 * selected.size * n_clusters)) ** 2
    unmarked = []
    for c in np.flatnonzero(size):
        others = np.setdiff1d(np.flatnonzero(size), [c])
        noise = within * (1 / size[c] + 1 / size[others])[:, None]
        far = (means[others] - means[c]) ** 2 > bound * noise
        if not far.all(axis=0).any():
            unmarked.append(c)
    return np.array(unmarked, dtype=np.intp)


def warn_small(model: Any, small: Ints) -> None:
    """Warn of samples that were set apart, and of clusters that are too small all the same.

    To be called from three functions below the method that the user called.
    """
    least, n = model.min_cluster_size, model.outlying_.size
    if n:
        warn(
            f"{n} sample{'s are' if n > 1 else ' is'} so far from the others that ",
            f"{'they' if n > 1 else 'it'} would be a cluster of fewer than ",
            Term("min_cluster_size", least), ": set apart from the fit (listed as outlying), with "
            "the label of the nearest cluster.", stacklevel=6,
        )  # fmt: skip
    if small.size:
        names = ", ".join(map(str, small.tolist()))
        warn(
            f"Cluster{'s' * (small.size > 1)} {names} ha{'ve' if small.size > 1 else 's'} fewer "
            "samples than ", Term("min_cluster_size", least), ": ask for fewer clusters.",
            stacklevel=6,
        )  # fmt: skip


def warn_unmet(model: Any, n_asked: int, projection: Projection, loops_converged: bool) -> None:
    """Warn about what a fit of `n_asked` clusters was asked for and could not give.

    To be called from three functions below the method that the user called.
    """
    tied, features_asked = projection.tied, projection.n_asked
    n_distinct = len(model.centroids_)
    if model.tol is not None and model.max_loops > 1 and not loops_converged:
        _warn_unconverged(
            "Labels and features did not converge in ", Term("max_loops", model.max_loops),
            " loops: give more, or a larger ", Term("tol"), ".",
        )  # fmt: skip
    elif 0 < model.solver_tol < projection.gap and not tied:
        _warn_unconverged(
            f"The W-step did not converge: its gap is {projection.gap:.2g}, which should be <= ",
            Term("solver_tol", model.solver_tol), "; give more iterations, ",
            Term("solver_max_iter"), ".",
        )  # fmt: skip
    if n_distinct < n_asked:
        warn(
            f"X has {n_distinct} distinct samples, fewer than ",
            Term("n_clusters", n_asked), ": each of them is a cluster, and there are no "
            "others.", category=UnmetWarning, stacklevel=6,
        )  # fmt: skip
    selected = model.n_features_selected_
    if n_asked == 1 and is_auto(model.n_clusters):
        warn(
            Term("n_clusters", "auto"), f" found no clusters: {model.cluster_number_.sentence} "
            "No feature is selected.", stacklevel=6,
        )  # fmt: skip
        return
    if isinstance(model.n_features, str):
        return
    if n_asked == 1:
        warn(
            Term("n_clusters", 1), " has nothing to tell apart: 0 of ",
            Term("n_features", model.n_features), " features are selected.", stacklevel=6,
        )  # fmt: skip
    elif tied and features_asked is not None and selected < features_asked:
        warn(
            Term("n_features", features_asked), f" could not be met: only {selected} features help "
            "to tell the clusters apart, and all of them are selected.", stacklevel=6,
        )  # fmt: skip
    elif tied and features_asked is not None:
        warn(
            "No radius selects exactly ", Term("n_features", features_asked), " features, because "
            f"some enter together (equal or proportional features); the {selected} with the "
            "largest weights are kept.", stacklevel=6,
        )  # fmt: skip


def _warn_unconverged(*text: str | Term) -> None:
    warn(*text, category=UnmetWarning, stacklevel=7)
