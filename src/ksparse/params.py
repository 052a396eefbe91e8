"""Parameters: one table of constraints, and from plain values to checked settings.

`KSparse` and the functions that take its parameters (`feature_path`, `choose_k`,
`stability_selection`) read their inputs here; none of them needs an estimator for it.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from ksparse._errors import InputError, Term
from ksparse.core.balls import BALLS
from ksparse.core.selectors import SELECTORS
from ksparse.core.solvers import SOLVERS
from ksparse.core.targets import TARGETS, compared_by
from ksparse.core.w_step import Selector
from ksparse.core.y_step import CRITERIA
from ksparse.matrix import Floats, Ints, Matrix, as_matrix
from ksparse.matrix.sources import (
    check_costs,
    check_sample_weight,
    check_stored_values,
    count_distinct_rows,
    select_rows,
)
from ksparse.search.batches import Batches
from ksparse.search.settings import Loop, Settings
from ksparse.starts import STARTS

__all__ = [
    "DEFAULTS",
    "NO_EFFECT",
    "PARAMETERS",
    "Inputs",
    "check_count",
    "check_integer",
    "check_listed",
    "check_seed",
    "is_auto",
    "is_integer",
    "is_number",
    "read_inputs",
]

# Parameters that do not change the result.
NO_EFFECT = ("checkpoint", "memory_limit", "verbose")


def is_integer(value: Any) -> bool:
    """Return whether a value is an integer, and not True or False."""
    return isinstance(value, Integral) and not isinstance(value, bool | np.bool_)


def is_number(value: Any) -> bool:
    """Return whether a value is a real number, and not True or False."""
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_)


@dataclass(frozen=True)
class Constraint:
    """What a parameter must be: a test, and the sentence that names it."""

    test: Callable[[Any], bool]
    sentence: str

    def check(self, name: str, value: Any) -> Any:
        """Return a value that passes, numbers as Python's own; raise InputError otherwise.

        Small types of numpy do not go further: arithmetic with them overflows.
        """
        if not self.test(value):
            raise InputError(Term(name, value), f" {self.sentence}.")
        return value.item() if isinstance(value, np.generic) else value


class _Count(Constraint):
    """An integer of at least some size."""

    def __init__(self, least: int) -> None:
        super().__init__(lambda value: bool(value >= least), f"must be at least {least}")

    def check(self, name: str, value: Any) -> int:
        if not is_integer(value):
            raise InputError(Term(name, value), " must be an integer.")
        return int(super().check(name, value))


class _Choice(Constraint):
    """A name in a registry, which may grow after this module was imported."""

    def __init__(self, registry: Mapping[str, Any]) -> None:
        super().__init__(lambda value: isinstance(value, str) and value in registry, "")
        object.__setattr__(self, "registry", registry)

    def check(self, name: str, value: Any) -> Any:
        if self.test(value):
            return value
        names = ", ".join(self.registry)  # type: ignore[attr-defined]
        raise InputError(Term(name, value), f" is unknown; choose from {names}.")


def _or_none(test: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or test(value)


NOT_NEGATIVE = Constraint(
    lambda value: is_number(value) and 0 <= value < np.inf, "must be a number >= 0"
)
POSITIVE = Constraint(lambda value: is_number(value) and value > 0, "must be a number > 0")
TRUE_OR_FALSE = Constraint(
    lambda value: isinstance(value, bool | np.bool_), "must be True or False"
)
COUNT_OR_NONE = Constraint(
    _or_none(lambda value: is_integer(value) and value >= 1), "must be None or an integer >= 1"
)
SEED = Constraint(
    lambda value: value is None or value is np.random or isinstance(value, np.random.RandomState)
    or (isinstance(value, Integral) and 0 <= int(value) < 2**32),
    "must be an integer from 0 to 2**32 - 1, a RandomState or None",
)  # fmt: skip
ANYTHING = Constraint(lambda value: True, "")


def is_auto(value: Any) -> bool:
    """Return whether a parameter is left to the data."""
    return isinstance(value, str) and value == "auto"


# Parameter -> default, constraint. Those that depend on the data are checked with them below.
PARAMETERS: dict[str, tuple[Any, Constraint]] = {
    "n_clusters": (8, _Count(1)),
    "n_features": ("auto", ANYTHING),
    "eta": (None, Constraint(
        _or_none(lambda value: is_number(value) and 0 < value < np.inf),
        "must be a finite number > 0",
    )),
    "n_components": (None, COUNT_OR_NONE),
    "init": ("auto", ANYTHING),
    "selector": ("auto", _Choice(ChainMap({"auto": None}, SELECTORS))),
    "solver": ("working_set", _Choice(SOLVERS)),
    "ball": ("l1", _Choice(BALLS)),
    "relax": (True, TRUE_OR_FALSE),
    "n_init": (5, _Count(1)),
    "kmeans_criterion": ("margin", _Choice(CRITERIA)),
    "max_loops": (10, _Count(1)),
    "min_cluster_size": (5, _Count(1)),
    "tol": (0.01, Constraint(
        _or_none(lambda value: is_number(value) and value >= 0), "must be None or a number >= 0"
    )),
    "center": (True, TRUE_OR_FALSE),
    "scale": (False, TRUE_OR_FALSE),
    "feature_weights": (None, ANYTHING),
    "ridge": (0.3, NOT_NEGATIVE),
    "targets": ("balanced", _Choice(TARGETS)),
    "solver_tol": (1e-4, NOT_NEGATIVE),
    "solver_max_iter": (None, COUNT_OR_NONE),
    "threshold": (0.0, NOT_NEGATIVE),
    "max_labels": (1, _Count(1)),
    "sigma": (150.0, POSITIVE),
    "memory_limit": (None, ANYTHING),
    "checkpoint": (None, Constraint(
        _or_none(lambda value: isinstance(value, str | PathLike)), "must be the path of a folder"
    )),
    "random_state": (None, SEED),
    "verbose": (0, Constraint(
        lambda value: is_number(value) or isinstance(value, bool),
        "must be a number, 0 for silence",
    )),
}  # fmt: skip
DEFAULTS = {name: default for name, (default, _) in PARAMETERS.items()}


def check_integer(name: str, value: Any, least: int) -> int:
    """Return an integer of at least some size as an int; raise InputError for anything else."""
    return _Count(least).check(name, value)


def check_seed(random_state: Any) -> np.random.RandomState:
    """Return random numbers of a seed; raise InputError for what is none."""
    return check_random_state(SEED.check("random_state", random_state))


def check_listed(name: str, values: Any) -> list[Any]:
    """Return values as a list that is not empty."""
    try:
        if isinstance(values, str):
            raise TypeError
        out = list(values)
    except TypeError:
        raise InputError(
            Term(name, values), " must be a sequence of numbers, such as [10, 20, 50]."
        ) from None
    if not out:
        raise InputError(Term(name), " is empty: give at least one number.")
    return out


@dataclass(frozen=True)
class Inputs:
    """Checked data and settings.

    Attributes
    ----------
    X : array, sparse matrix or blocks
        All samples.
    matrix : Matrix
        The samples that take part in the fit.
    fitted : ndarray of int or None
        Which these are (None: all).
    weight : ndarray or None
        Weight of each of all samples (None: equal).
    settings : Settings
        What was asked for.
    n_distinct : int
        Number of distinct samples, if that is below the number of clusters that was asked
        for; then it is the number of clusters that is fitted.
    batches : Batches or None
        The batches within which features are centred (None: there are none).
    """

    X: Any
    matrix: Matrix
    fitted: Ints | None
    weight: Floats | None
    settings: Settings
    n_distinct: int
    batches: Batches | None = None


def read_inputs(
    params: Mapping[str, Any], X: Any, sample_weight: ArrayLike | None = None
) -> Inputs:
    """Return checked settings and the view of checked data that they are for."""
    params = {name: rule.check(name, params[name]) for name, (_, rule) in PARAMETERS.items()}
    n_clusters = params["n_clusters"]
    if X.shape[0] < n_clusters:
        raise InputError(
            Term("n_samples", X.shape[0]), " should be >= ", Term("n_clusters", n_clusters),
            ": ask for fewer clusters or give more samples.",
        )  # fmt: skip
    costs = check_costs(params["feature_weights"], X.shape[1])
    _check_combinations(params)
    n_features = _check_n_features(params["n_features"], costs)
    starts = _check_init(params["init"], X.shape[0], n_clusters)
    weight, rows = check_sample_weight(X.shape[0], sample_weight)
    part = X if rows is None else select_rows(X, rows)
    if part.shape[0] < n_clusters:
        raise InputError(
            f"{part.shape[0]} samples have a positive ", Term("sample_weight"),
            ", which should be >= ", Term("n_clusters", n_clusters), ".",
        )  # fmt: skip
    if rows is not None:
        starts = [start if isinstance(start, str) else start[rows] for start in starts]
    scaling = {"standardize": params["scale"], "center": params["center"]}
    matrix = as_matrix(part, sample_weight=weight, **scaling)
    check_stored_values(X, matrix)
    n_distinct = count_distinct_rows(part, n_clusters)
    if n_distinct < n_clusters:
        starts = [start if isinstance(start, str) else "auto" for start in starts]
    if rows is not None:
        full = np.zeros(X.shape[0])
        full[rows] = 1.0 if weight is None else weight
        weight = full
    settings = _settings(params, n_distinct, n_features, costs, starts)
    return Inputs(X, matrix, rows, weight, settings, n_distinct)


def _settings(
    params: Mapping[str, Any], n_clusters: int, n_features: int | None, costs: Floats,
    starts: list[str | Ints],
) -> Settings:  # fmt: skip
    solver, selector = SOLVERS[params["solver"]], _selector(params)
    after_loops, auto = not selector.in_loops, params["selector"] == "auto" and params["relax"]
    options = {"tol": params["solver_tol"]} | {name: params[name] for name in solver.options}
    if params["solver_max_iter"] is not None:
        options["max_iter"] = params["solver_max_iter"]
    return Settings(
        n_clusters=n_clusters,
        n_features=n_features,
        eta=params["eta"],
        costs=costs,
        starts=starts,
        n_components=params["n_components"] or params["n_clusters"] + 4,
        selector=SELECTORS["l1"] if after_loops else selector,
        few=SELECTORS["forward"] if after_loops or auto else None,
        always=after_loops,
        solver=solver,
        solver_options=options,
        ball=BALLS[params["ball"]],
        targets=compared_by(TARGETS[params["targets"]], params["kmeans_criterion"]),
        relax=params["relax"],
        ridge=params["ridge"],
        loop=Loop(params["n_init"], params["max_loops"], params["tol"]),
        sigma=params["sigma"],
    )


def _selector(params: Mapping[str, Any]) -> Selector:
    """Return the selector that was asked for; of "auto", the one of the loops."""
    return SELECTORS["l1" if params["selector"] == "auto" else params["selector"]]


def _check_combinations(params: Mapping[str, Any]) -> None:
    """Raise InputError if parameters exclude each other."""
    if params["eta"] is not None and not isinstance(params["n_features"], str):
        raise InputError(
            Term("n_features", params["n_features"]), " and ", Term("eta", params["eta"]),
            " exclude each other: give one.",
        )  # fmt: skip
    ball = params["ball"]
    solver, selector = SOLVERS[params["solver"]], _selector(params)
    if params["eta"] is not None and not selector.in_loops:
        raise InputError(
            Term("eta", params["eta"]), " is a radius, and ", Term("selector", params["selector"]),
            " selects a number of features: give ", Term("n_features"), ", or another selector.",
        )  # fmt: skip
    if solver.balls is not None and ball not in solver.balls:
        raise InputError(
            Term("solver", params["solver"]), f" solves on the ball {', '.join(solver.balls)} "
            "only, not on ", Term("ball", ball), ": give another solver.",
        )  # fmt: skip
    if params["eta"] is None and selector.balls is not None and ball not in selector.balls:
        raise InputError(
            Term("selector", params["selector"]), f" selects on the ball "
            f"{', '.join(selector.balls)} only, not on ", Term("ball", ball), ": give eta.",
        )  # fmt: skip


def _check_n_features(n_features: Any, costs: Floats) -> int | None:
    """Return the number of features to select, or None for "auto"."""
    if is_auto(n_features):
        return None
    if not is_number(n_features):
        raise InputError(
            Term("n_features", n_features), " must be a number of features, a fraction or 'auto'."
        )
    if is_integer(n_features):
        return check_count(n_features, costs)
    if not 0 < n_features <= 1:
        raise InputError(Term("n_features", n_features), " as a fraction must be between 0 and 1.")
    return check_count(max(1, round(float(n_features) * costs.size)), costs)


def check_count(count: Any, costs: Floats) -> int:
    """Return a number of features that can be selected."""
    count = _Count(1).check("n_features", count)
    allowed, free = int(np.isfinite(costs).sum()), int((costs == 0).sum())
    if count > costs.size:
        sentence = f" should be <= {costs.size}, the number of features in X."
    elif count > allowed:
        sentence = f" should be <= {allowed}, the number of features with a finite feature weight."
    elif count < free:
        sentence = f" should be >= {free}, the number of features with weight 0 (always allowed)."
    else:
        return count
    raise InputError(Term("n_features", count), sentence)


def _check_init(init: Any, n_samples: int, n_clusters: int) -> list[str | Ints]:
    """Return a list of named starts and label vectors ("auto" stands for itself)."""
    choices = f"choose from auto, {', '.join(STARTS)}, or give labels."
    if init is None or (isinstance(init, str) and init not in ("auto", *STARTS)):
        raise InputError(Term("init", init), f" is unknown; {choices}")
    if isinstance(init, str):
        return [init]
    # A list of starts has names or label vectors in it; one of labels has one per sample.
    is_list = isinstance(init, Sequence) and any(
        np.ndim(item) > 0 or (isinstance(item, str) and item in ("auto", *STARTS)) for item in init
    )
    if is_list:
        return [start for item in init for start in _check_init(item, n_samples, n_clusters)]
    labels = np.asarray(init)
    if labels.ndim != 1 or labels.size != n_samples:
        text = f" has shape {labels.shape}, but X has {n_samples} samples: give a label for each."
        raise InputError(Term("init"), text)
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise InputError(Term("init"), " contains NaN or infinity: give one label per sample.")
    try:
        values, codes = np.unique(labels, return_inverse=True)
    except TypeError:
        raise InputError(
            Term("init"), " holds labels that cannot be compared (such as None and text): "
            "give one label per sample, all of a kind.",
        ) from None  # fmt: skip
    if values.size != n_clusters:
        raise InputError(
            Term("init"), f" has {values.size} distinct labels, but ",
            Term("n_clusters", n_clusters), ": give labels of exactly that many clusters.",
        )  # fmt: skip
    return [codes.astype(np.intp)]
