"""From a matrix view to a finished fit: what every front end runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ksparse.alternation import Loop
from ksparse.decomposition import leading_svd, spectral_norm
from ksparse.embedding import Embedding, embedding_of
from ksparse.feature_count import choose_n_features
from ksparse.journal import NO_JOURNAL, Journal
from ksparse.matrix import Floats, GramCache, Ints, Matrix
from ksparse.matrix.gram import MAX_COLUMNS
from ksparse.projection import WStep
from ksparse.search import AUTO_STARTS, SearchResult, search
from ksparse.starts import journaled_start

__all__ = ["PAPER", "Prepared", "Settings", "fit_matrix", "fit_prepared"]

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

    def w_step(self, n_features: int | None) -> WStep:
        """How the W-step is to be solved, for a number of features (None: for `eta`)."""
        return WStep(
            n_features,
            self.eta if n_features is None else None,
            self.costs,
            self.solver,
            self.solver_options,
            self.relax,
            self.ridge,
        )


class Prepared:
    """Data scaled as in the paper and their singular vectors: what several fits share.

    Parameters
    ----------
    matrix : Matrix
        The data; they are rescaled in place.
    n_components : int
        The largest number of components that will be asked for.
    rng : RandomState
        Seeds the singular vectors.
    gram_columns : int, optional
        Columns of the Gram matrix that are kept.
    journal : Journal, optional
        Where finished steps are kept.
    """

    def __init__(
        self,
        matrix: Matrix,
        n_components: int,
        rng: np.random.RandomState,
        *,
        gram_columns: int = MAX_COLUMNS,
        journal: Journal = NO_JOURNAL,
    ) -> None:
        self.matrix = matrix

        def decompose() -> dict[str, Any]:
            norm = spectral_norm(matrix) or 1.0
            matrix.factor = factor / norm
            U, s, _ = leading_svd(matrix, max(n_components - 1, 1), rng)
            return {"norm": norm, "U": U, "s": s}

        factor = matrix.factor
        found = journal.step("embedding", rng, decompose)
        matrix.factor = factor / float(found["norm"])
        self._U, self._s = found["U"], found["s"]
        self.gram = GramCache(matrix, gram_columns)

    def embedding(self, n_components: int) -> Embedding:
        """Spectral embedding with that many components."""
        return embedding_of(self._U, self._s, n_components, self.matrix.total_weight)


def fit_matrix(
    matrix: Matrix,
    settings: Settings,
    rng: np.random.RandomState,
    on_step: Callable[[str], object] = lambda what: None,
    journal: Journal = NO_JOURNAL,
) -> SearchResult:
    """Scale the data as in the paper, embed them, and search from all starts."""
    on_step("embedding")
    prepared = Prepared(matrix, settings.n_components, rng, journal=journal)
    return fit_prepared(prepared, settings, rng, on_step, journal)


def fit_prepared(
    prepared: Prepared,
    settings: Settings,
    rng: np.random.RandomState,
    on_step: Callable[[str], object] = lambda what: None,
    journal: Journal = NO_JOURNAL,
) -> SearchResult:
    """Search from all starts."""
    k, matrix = settings.n_clusters, prepared.matrix
    refine = any(isinstance(start, str) and start == "auto" for start in settings.starts)
    starts: list[str | Ints] = []
    for start in settings.starts:
        starts += AUTO_STARTS if isinstance(start, str) and start == "auto" else [start]
    if k == 1:
        starts, refine = [np.zeros(matrix.shape[0], dtype=np.intp)], False

    embedding = prepared.embedding(settings.n_components)
    n_features = settings.n_features
    if n_features is None and settings.eta is None:
        on_step("number of features")
        first = starts[0]
        if isinstance(first, str):
            first = journaled_start(
                first, matrix, embedding, k, rng, sigma=settings.sigma, journal=journal
            )
            if len(starts) == 1:
                starts = [first]
        n_features = int(journal.step("count", rng, lambda: {
            "n": choose_n_features(matrix, embedding.rows, first, k, settings.w_step(1))
        })["n"])  # fmt: skip
    first_weights = None
    if settings.loop.targets == "projection":  # the paper's first point
        shape = (matrix.shape[1], settings.n_components)
        first_weights = np.full(shape, 1.0 / (shape[0] * shape[1]))
    return search(
        matrix,
        embedding,
        starts,
        k,
        settings.w_step(n_features),
        settings.loop,
        rng,
        refine=refine,
        gram=prepared.gram,
        sigma=settings.sigma,
        first_weights=first_weights,
        journal=journal,
        on_step=on_step,
    )
