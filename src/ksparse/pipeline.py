"""From a matrix view to a finished fit: what every front end runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ksparse.alternation import Loop
from ksparse.decomposition import spectral_norm
from ksparse.embedding import spectral_embedding
from ksparse.feature_count import choose_n_features
from ksparse.matrix import Floats, Ints, Matrix
from ksparse.projection import WStep
from ksparse.search import AUTO_STARTS, SearchResult, search
from ksparse.starts import start_labels

__all__ = ["PAPER", "Settings", "fit_matrix"]

# The settings of the paper and of its authors' programs, as parameters of KSparse.
PAPER: dict[str, Any] = {
    "init": "spectral",
    "solver": "fista",
    "relax": False,
    "n_init": 40,
    "max_loops": 10,
    "tol": None,
    "targets": "projection",
    "solver_tol": 0.0,
    "solver_max_iter": 50,
    "threshold": 0.01,
}


@dataclass(frozen=True)
class Settings:
    """What a fit needs to know; see `KSparse` for the meaning of each.

    Checked values: `n_features` is a number or None (choose it, unless there is an `eta`),
    and `starts` holds "auto", names of starts and label vectors.
    """

    n_clusters: int
    n_features: int | None
    eta: float | None
    costs: Floats
    starts: list[str | Ints]
    n_components: int
    solver: str
    solver_options: dict[str, Any]
    relax: bool
    ridge: float
    loop: Loop
    sigma: float


def fit_matrix(
    matrix: Matrix,
    settings: Settings,
    rng: np.random.RandomState,
    on_step: Callable[[str], object] = lambda what: None,
) -> SearchResult:
    """Scale the data as in the paper, embed them, and search from all starts."""
    k = settings.n_clusters
    norm = spectral_norm(matrix)
    matrix.rescale(norm if norm > 0 else 1.0)
    refine = any(isinstance(start, str) and start == "auto" for start in settings.starts)
    starts: list[str | Ints] = []
    for start in settings.starts:
        starts += AUTO_STARTS if isinstance(start, str) and start == "auto" else [start]
    if k == 1:
        starts, refine = [np.zeros(matrix.shape[0], dtype=np.intp)], False

    on_step("embedding")
    embedding = spectral_embedding(matrix, settings.n_components, rng)
    n_features = settings.n_features
    if n_features is None and settings.eta is None:
        on_step("number of features")
        first = starts[0]
        if isinstance(first, str):
            first = start_labels(first, matrix, embedding, k, rng, sigma=settings.sigma)
            if len(starts) == 1:
                starts = [first]
        n_features = choose_n_features(
            matrix, embedding.rows, first, k, settings.costs, ridge=settings.ridge
        )
    how = WStep(
        n_features,
        settings.eta,
        settings.costs,
        settings.solver,
        settings.solver_options,
        settings.relax,
        settings.ridge,
    )
    first_weights = None
    if settings.loop.targets == "projection":  # the paper's first point
        shape = (matrix.shape[1], settings.n_components)
        first_weights = np.full(shape, 1.0 / (shape[0] * shape[1]))
    return search(
        matrix,
        embedding,
        starts,
        k,
        how,
        settings.loop,
        rng,
        refine=refine,
        sigma=settings.sigma,
        first_weights=first_weights,
        on_step=on_step,
    )
