"""From what a user passes in to what the algorithm works on."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from ksparse.alternation import Fit, Loop
from ksparse.assignment import distances, order_by_size
from ksparse.data_checks import check_blocks, check_distinct_rows
from ksparse.journal import NO_JOURNAL, Journal, data_checksum, digest
from ksparse.matrix import BlockMatrix, Blocks, Floats, Ints, Matrix, SomeRows, as_matrix
from ksparse.pipeline import Settings
from ksparse.projection import project_samples
from ksparse.validation import (
    check_costs,
    check_init,
    check_n_features,
    check_sample_weight,
    check_settings,
)

__all__ = ["UNIMPORTANT", "Inputs", "label_all", "open_journal", "read_inputs"]

# Parameters that do not change the result.
UNIMPORTANT = ("checkpoint", "memory_limit", "verbose")


@dataclass(frozen=True)
class Inputs:
    """Checked data and settings.

    Attributes
    ----------
    X : array or sparse matrix
        All samples.
    matrix : Matrix
        The samples that take part in the fit.
    rows : ndarray of int or None
        Which these are (None: all).
    weight : ndarray or None
        Weight of each of all samples (None: equal).
    settings : Settings
        What was asked for.
    """

    X: Any
    matrix: Matrix
    rows: Ints | None
    weight: Floats | None
    settings: Settings


def read_inputs(model: Any, X: Any, sample_weight: ArrayLike | None = None) -> Inputs:
    """Check the data and the parameters of a `KSparse`."""
    X = model._validate(X, reset=True)
    check_settings(model, X.shape[0])
    costs = check_costs(model.feature_weights, X.shape[1])
    n_features = check_n_features(model.n_features, costs)
    starts = check_init(model.init, X.shape[0], model.n_clusters)
    weight, rows = check_sample_weight(X, sample_weight)
    kept = X
    if rows is not None:
        kept = SomeRows(X, rows) if isinstance(X, Blocks) else X[rows]
    if rows is not None:
        starts = [start if isinstance(start, str) else start[rows] for start in starts]
        if kept.shape[0] < model.n_clusters:
            raise ValueError(
                f"{kept.shape[0]} samples have a positive sample_weight, which should be >= "
                f"n_clusters={model.n_clusters}."
            )
    matrix = as_matrix(kept, sample_weight=weight, standardize=model.scale)
    if isinstance(matrix, BlockMatrix):
        check_blocks(X, matrix)
    check_distinct_rows(kept, model.n_clusters)
    options: dict[str, Any] = {"tol": model.solver_tol}
    if model.solver_max_iter is not None:
        options["max_iter"] = model.solver_max_iter
    if model.solver == "fista":
        options["threshold"] = model.threshold
    settings = Settings(
        n_clusters=model.n_clusters,
        n_features=n_features,
        eta=model.eta,
        costs=costs,
        starts=starts,
        n_components=model.n_components or model.n_clusters + 4,
        solver=model.solver,
        solver_options=options,
        relax=model.relax,
        ridge=model.ridge,
        loop=Loop(model.n_init, model.max_loops, model.tol, model.targets),
        sigma=model.sigma,
    )
    if rows is not None:
        full = np.zeros(X.shape[0])
        full[rows] = 1.0 if weight is None else weight
        weight = full
    return Inputs(X, matrix, rows, weight, settings)


def label_all(inputs: Inputs, fit: Fit) -> Ints:
    """Labels of all samples, those without weight included, numbered by size."""
    k = fit.centroids.shape[0]
    labels = fit.labels
    if inputs.rows is not None:
        factor, mean = inputs.matrix.factor, inputs.matrix.mean
        P = project_samples(inputs.X, mean, factor, fit.projection.weights)
        labels = distances(P, fit.centroids).argmin(axis=1)
        labels[inputs.rows] = fit.labels
    return order_by_size(labels, k, inputs.weight)[labels]


def open_journal(model: Any, inputs: Inputs) -> tuple[Journal, np.random.RandomState]:
    """Where a `KSparse` keeps finished steps, and the random numbers of this run."""
    rng = check_random_state(model.random_state)
    if model.checkpoint is None:
        return NO_JOURNAL, rng
    about = {
        "version": version("ksparse"),
        "shape": list(inputs.X.shape),
        "dtype": str(inputs.X.dtype),
        "data": f"{data_checksum(inputs.X):016x}",
        "sample_weight": digest(inputs.weight),
    }
    params = {name: digest(value) for name, value in model.get_params(deep=False).items()
              if name not in UNIMPORTANT}  # fmt: skip
    journal = Journal(model.checkpoint, about | params)
    if model.random_state is None:
        rng = np.random.RandomState(rng.randint(2**31 - 1))
        journal.step("random", rng, dict)  # the same random numbers when it goes on
    return journal, rng
