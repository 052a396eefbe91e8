"""Checks of arguments that `feature_path`, `choose_k` and `stability_selection` share."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array

from ksparse._errors import InputError, Term
from ksparse.matrix.sources import Data, check_data, check_distinct_rows
from ksparse.metrics import label_codes
from ksparse.params import DEFAULTS, PARAMETERS, Inputs, check_integer, is_integer, read_inputs

__all__ = [
    "check_n_jobs",
    "check_several_clusters",
    "check_true_labels",
    "plain_starts",
    "read_arguments",
    "with_defaults",
]

# Where fits start whose clusters are tested. The start "divisive" looks for gaps, and a gene that
# is on in some cells of a type and off in the others is one.
PLAIN_STARTS = ("graph+dense", "spectral+dense", "graph")


def plain_starts(init: Any) -> Any:
    """Return where fits start whose clusters are tested, given the parameter `init`."""
    return list(PLAIN_STARTS) if isinstance(init, str) and init == "auto" else init


def with_defaults(options: Mapping[str, Any], **given: Any) -> dict[str, Any]:
    """Return all parameters of `KSparse`, from those that a function was given."""
    unknown = [name for name in options if name not in PARAMETERS or name in given]
    if unknown:
        possible = [name for name in PARAMETERS if name != unknown[0]]
        near = get_close_matches(unknown[0], possible, n=1) if unknown[0] not in given else []
        hint = f"did you mean {near[0]}?" if near else f"choose from {', '.join(possible)}."
        raise InputError(f"{unknown[0]!r} is no parameter that can be given here; {hint}")
    return DEFAULTS | dict(options) | given


def read_arguments(
    X: Any, sample_weight: ArrayLike | None, options: Mapping[str, Any], **given: Any
) -> tuple[Inputs, list[str] | None]:
    """Return checked inputs of a function, and the names of the features where known.

    `options` are parameters of `KSparse` that the user gave, `given` those that the function
    sets.
    """
    params = with_defaults(options, **given)
    data = _read_data(X, params["memory_limit"])
    inputs = read_inputs(params, data.X, sample_weight)
    if inputs.n_distinct < params["n_clusters"]:
        check_distinct_rows(inputs.matrix.X, params["n_clusters"])
    return inputs, data.names


def _read_data(X: Any, memory_limit: Any) -> Data:
    """Return checked data with the names of a data frame."""
    names = getattr(X, "columns", None)
    data = check_data(X, memory_limit, check_array)
    if names is None or not all(isinstance(name, str) for name in names):
        return data
    return Data(data.X, list(names))


def check_several_clusters(n_clusters: Any) -> int:
    """Return a number of clusters; raise InputError for one, which no feature tells from others."""
    n_clusters = check_integer("n_clusters", n_clusters, 1)
    if n_clusters == 1:
        raise InputError(Term("n_clusters", 1), " should be >= 2: features tell clusters apart.")
    return n_clusters


def check_n_jobs(n_jobs: Any) -> int | None:
    """Return a number of processes for joblib; raise InputError for anything else."""
    if n_jobs is not None and not (is_integer(n_jobs) and n_jobs != 0):
        raise InputError(Term("n_jobs", n_jobs), " must be a number of processes (-1: all cores).")
    return None if n_jobs is None else int(n_jobs)


def check_true_labels(labels: Any, n_samples: int) -> NDArray[Any] | None:
    """Return true labels, one per sample, or None."""
    if labels is None:
        return None
    truth = np.asarray(labels)
    if truth.ndim == 1:
        label_codes("labels", truth)
    if truth.shape != (n_samples,):
        raise InputError(
            Term("labels"), f" has shape {truth.shape}, but X has {n_samples} samples: "
            "give one true label per sample.",
        )  # fmt: skip
    return truth
