"""Checks of what users pass in: one sentence that names the argument and the cure."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ksparse.matrix import Floats, Ints
from ksparse.metrics import label_codes
from ksparse.solvers import SOLVERS
from ksparse.starts import START_NAMES

__all__ = [
    "check_at_least",
    "check_costs",
    "check_count",
    "check_init",
    "check_listed",
    "check_n_features",
    "check_n_jobs",
    "check_sample_weight",
    "check_settings",
    "check_several_clusters",
    "check_true_labels",
]


# Positive sample weights further apart than this would leave only rounding of the smallest.
WEIGHT_RANGE = 1e12


def _is_integer(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool | np.bool_)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_)


def check_settings(model: Any, n_samples: int) -> None:
    """Check the settings that do not depend on the features."""
    for name, least in (("n_clusters", 1), ("n_init", 1), ("max_loops", 1), ("max_labels", 1)):
        check_at_least(name, getattr(model, name), least)
    if n_samples < model.n_clusters:
        raise ValueError(
            f"n_samples={n_samples} should be >= n_clusters={model.n_clusters}: "
            "ask for fewer clusters or give more samples."
        )
    n_components = model.n_components
    if n_components is not None and not (_is_integer(n_components) and n_components >= 1):
        raise ValueError(f"n_components={n_components!r} must be None or an integer >= 1.")
    if model.eta is not None:
        if not isinstance(model.n_features, str):
            raise ValueError(
                f"n_features={model.n_features} and eta={model.eta} exclude each other: give one."
            )
        if not _is_number(model.eta) or not 0 < model.eta < np.inf:
            raise ValueError(f"eta={model.eta!r} must be a finite number > 0.")
    for name in ("relax", "scale"):
        if not isinstance(getattr(model, name), bool | np.bool_):
            raise TypeError(f"{name}={getattr(model, name)!r} must be True or False.")
    if not _is_number(model.verbose) and not isinstance(model.verbose, bool):
        raise TypeError(f"verbose={model.verbose!r} must be a number, 0 for silence.")
    if not isinstance(model.solver, str) or model.solver not in SOLVERS:
        raise ValueError(f"solver={model.solver!r} is unknown; choose from {', '.join(SOLVERS)}.")
    if not isinstance(model.targets, str) or model.targets not in ("embedding", "projection"):
        raise ValueError(f"targets={model.targets!r} must be 'embedding' or 'projection'.")
    if model.tol is not None and not (_is_number(model.tol) and model.tol >= 0):
        raise ValueError(f"tol={model.tol!r} must be None or a number >= 0.")
    for name in ("solver_tol", "threshold", "ridge"):
        value = getattr(model, name)
        if not (_is_number(value) and 0 <= value < np.inf):
            raise ValueError(f"{name}={value!r} must be a number >= 0.")
    if not (_is_number(model.sigma) and model.sigma > 0):
        raise ValueError(f"sigma={model.sigma!r} must be a number > 0.")
    most = model.solver_max_iter
    if most is not None and not (_is_integer(most) and most >= 1):
        raise ValueError(f"solver_max_iter={most!r} must be None or an integer >= 1.")


def check_sample_weight(X: Any, sample_weight: Any) -> tuple[Floats | None, Ints | None]:
    """Return positive weights (None: all equal), and the rows that have them (None: all)."""
    if sample_weight is None:
        return None, None
    try:
        raw = np.asarray(sample_weight)
        if raw.dtype.kind == "c":
            raise TypeError
        weight = raw.astype(np.float64)
    except (TypeError, ValueError):
        raise TypeError("sample_weight must be numbers, one per sample.") from None
    if weight.ndim == 0:
        weight = np.full(X.shape[0], float(weight))
    if weight.shape != (X.shape[0],):
        raise ValueError(
            f"sample_weight has shape {weight.shape}, but X has {X.shape[0]} samples: "
            "give one weight per sample."
        )
    if not np.isfinite(weight).all():
        raise ValueError("sample_weight contains NaN or infinity: give numbers >= 0.")
    if (weight < 0).any():
        raise ValueError("Negative values in sample_weight: give numbers >= 0.")
    if not weight.any():
        raise ValueError("sample_weight is zero for all samples: give some a positive weight.")
    least, most = float(weight[weight > 0].min()), float(weight.max())
    if most > WEIGHT_RANGE * least:
        raise ValueError(
            f"sample_weight ranges from {least:.3g} to {most:.3g}, which should be within a factor "
            f"of {WEIGHT_RANGE:.0e}: set the smallest to 0."
        )
    if (weight == weight[0]).all():
        return None, None  # equal weights change nothing but the scale of the cost
    rows = None if weight.all() else np.flatnonzero(weight)
    return (weight if rows is None else weight[rows]), rows


def check_costs(feature_weights: Any, n_features_in: int) -> Floats:
    """Return the cost of each feature in the norm."""
    if feature_weights is None:
        return np.ones(n_features_in)
    try:
        given = np.asarray(feature_weights)
        costs = given.astype(np.float64) if given.dtype.kind in "fiubO" else None
    except (TypeError, ValueError):
        costs = None
    if costs is None:
        raise TypeError("feature_weights must be real numbers, one per feature.")
    if costs.shape != (n_features_in,):
        raise ValueError(
            f"feature_weights has shape {costs.shape}, but X has {n_features_in} features: "
            "give one weight per feature."
        )
    if np.isnan(costs).any() or (costs < 0).any():
        raise ValueError(
            "feature_weights must be >= 0 (0: always allowed, infinity: never selected)."
        )
    if np.isinf(costs).all():
        raise ValueError("feature_weights is infinite for all features: none may be selected.")
    return costs


def check_n_features(n_features: Any, costs: Floats) -> int | None:
    """Return the number of features to select, or None for "auto"."""
    d = costs.size
    if isinstance(n_features, str):
        if n_features != "auto":
            raise ValueError(
                f"n_features={n_features!r} must be a number of features, a fraction or 'auto'."
            )
        return None
    if not _is_number(n_features):
        raise TypeError(
            f"n_features={n_features!r} must be a number of features, a fraction or 'auto'."
        )
    if _is_integer(n_features):
        count = int(n_features)
    elif 0 < n_features <= 1:
        count = max(1, round(float(n_features) * d))
    else:
        raise ValueError(f"n_features={n_features} as a fraction must be between 0 and 1.")
    return check_count(count, costs)


def check_count(count: Any, costs: Floats) -> int:
    """Return a number of features that can be selected."""
    if not _is_integer(count):
        raise TypeError(f"n_features={count!r} must be an integer.")
    count, d = int(count), costs.size
    if count < 1:
        raise ValueError(f"n_features={count} must be at least 1.")
    if count > d:
        raise ValueError(f"n_features={count} should be <= {d}, the number of features in X.")
    allowed, free = int(np.isfinite(costs).sum()), int((costs == 0).sum())
    if count > allowed:
        raise ValueError(
            f"n_features={count} should be <= {allowed}, the number of features with a finite "
            "feature weight."
        )
    if count < free:
        raise ValueError(
            f"n_features={count} should be >= {free}, the number of features with weight 0, "
            "which are always allowed."
        )
    return count


def check_init(init: Any, n_samples: int, n_clusters: int) -> list[str | Ints]:
    """Return a list of named starts and label vectors ("auto" stands for itself)."""
    if isinstance(init, str):
        if init != "auto" and init not in START_NAMES:
            raise ValueError(
                f"init={init!r} is unknown; choose from auto, {', '.join(START_NAMES)}, "
                "or give labels."
            )
        return [init]
    # A list of starts has names or label vectors in it; one of labels has one per sample.
    is_list = isinstance(init, Sequence) and any(
        np.ndim(item) > 0 or (isinstance(item, str) and item in ("auto", *START_NAMES))
        for item in init
    )
    if is_list:
        return [start for item in init for start in check_init(item, n_samples, n_clusters)]
    if init is None:
        raise ValueError(
            f"init=None is not a start; choose from auto, {', '.join(START_NAMES)}, or give labels."
        )
    labels = np.asarray(init)
    if labels.ndim != 1 or labels.size != n_samples:
        raise ValueError(
            f"init has shape {labels.shape}, but X has {n_samples} samples: "
            "give one label per sample."
        )
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise ValueError("init contains NaN or infinity: give one label per sample.")
    try:
        values, codes = np.unique(labels, return_inverse=True)
    except TypeError:
        raise TypeError(
            "init holds labels that cannot be compared (such as None and text): "
            "give one label per sample, all of a kind."
        ) from None
    if values.size != n_clusters:
        raise ValueError(
            f"init has {values.size} distinct labels, but n_clusters={n_clusters}: "
            "give labels of exactly that many clusters."
        )
    return [codes.astype(np.intp)]


def check_several_clusters(n_clusters: Any) -> None:
    """Refuse a single cluster, which no feature can tell from others."""
    check_at_least("n_clusters", n_clusters, 1)
    if n_clusters == 1:
        raise ValueError("n_clusters=1 should be >= 2: features tell clusters apart.")


def check_n_jobs(n_jobs: Any) -> None:
    """Refuse what joblib would stumble over."""
    if n_jobs is not None and not (_is_integer(n_jobs) and n_jobs != 0):
        raise ValueError(f"n_jobs={n_jobs!r} must be None or a number of processes (-1: all).")


def check_listed(name: str, values: Any) -> list[Any]:
    """Return values as a list that is not empty."""
    try:
        if isinstance(values, str):
            raise TypeError
        out = list(values)
    except TypeError:
        raise TypeError(
            f"{name}={values!r} must be a sequence of numbers, such as [10, 20, 50]."
        ) from None
    if not out:
        raise ValueError(f"{name} is empty: give at least one number.")
    return out


def check_at_least(name: str, value: Any, least: int) -> None:
    """Refuse what is not an integer, or too small."""
    if not _is_integer(value):
        raise TypeError(f"{name}={value!r} must be an integer.")
    if value < least:
        raise ValueError(f"{name}={value} must be at least {least}.")


def check_true_labels(labels: Any, n_samples: int) -> NDArray[Any] | None:
    """Return true labels, one per sample, or None."""
    if labels is None:
        return None
    truth = np.asarray(labels)
    if truth.ndim == 1:
        label_codes("labels", truth)
    if truth.shape != (n_samples,):
        raise ValueError(
            f"labels has shape {truth.shape}, but X has {n_samples} samples: "
            "give one true label per sample."
        )
    return truth
