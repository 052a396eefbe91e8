"""The methods that are compared, each as a function of data, number of clusters and seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ksparse.compare._paper import ETAS, paper_name

__all__ = ["METHODS", "run_method"]

# Shuffled data sets by which sparse k-means chooses its bound (R's default is 25).
N_PERMUTATIONS = 5

Found = tuple[NDArray[Any], NDArray[np.bool_] | None]


def _ksparse(X: Any, k: int, seed: int, data: str) -> Found:
    from ksparse import KSparse

    model = KSparse(k, random_state=seed).fit(X)
    return model.labels_, model.get_support()


def _ksparse_paper(X: Any, k: int, seed: int, data: str) -> Found:
    from ksparse import KSparse

    name = paper_name(data)
    if name is None:
        raise ValueError(f"The paper gives no radius eta for {data}.")
    model = KSparse.paper(k, ETAS[name], random_state=seed).fit(X)
    return model.labels_, model.get_support()


def _pca(X: Any, k: int, seed: int, data: str) -> Found:
    from ksparse.baselines import PCAKMeans

    return PCAKMeans(k, random_state=seed).fit_predict(X), None


def _spectral(X: Any, k: int, seed: int, data: str) -> Found:
    from ksparse.baselines import Spectral

    return Spectral(k, random_state=seed).fit_predict(X), None


def _simlr(X: Any, k: int, seed: int, data: str) -> Found:
    from ksparse.baselines import SIMLR

    return SIMLR(k, random_state=seed).fit_predict(X), None


def _simlr_large(X: Any, k: int, seed: int, data: str) -> Found:
    from ksparse.baselines import SIMLR

    return SIMLR(k, large=True, random_state=seed).fit_predict(X), None


def _sparcl(X: Any, k: int, seed: int, data: str) -> Found:
    from ksparse.baselines import SparseKMeans

    model = SparseKMeans(k, random_state=seed)
    bound = model.choose_bound(X, n_permutations=N_PERMUTATIONS).best  # as in the paper
    model.set_params(wbound=bound).fit(X)
    return model.labels_, model.weights_ > 0


# In the order of the paper's tables.
METHODS: dict[str, Callable[[Any, int, int, str], Found]] = {
    "pca": _pca,
    "spectral": _spectral,
    "simlr": _simlr,
    "simlr-large": _simlr_large,
    "sparcl": _sparcl,
    "ksparse-paper": _ksparse_paper,
    "ksparse": _ksparse,
}


def run_method(name: str, X: Any, k: int, seed: int, data: str) -> Found:
    """Clusters, and which features were selected (None: all are used)."""
    return METHODS[name](X, k, seed, data)
