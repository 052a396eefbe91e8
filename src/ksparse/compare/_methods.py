"""The methods that are compared, each as a function of data, number of clusters and seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksparse.compare._leiden import leiden
from ksparse.compare._paper import ETAS, paper_name

__all__ = ["METHODS", "MethodResult", "Task", "run_method", "warm_up"]

# Shuffled data sets by which sparse k-means chooses its bound (R's default is 25).
N_PERMUTATIONS = 5
# Number of features for the paper's settings where the paper gives no radius.
N_FEATURES = 500


@dataclass(frozen=True)
class Task:
    """The input of a method."""

    X: Any
    k: int
    seed: int
    data: str = ""
    preparation: str = "raw"
    eta: float | None = None


@dataclass(frozen=True)
class MethodResult:
    """The result of a method.

    Attributes
    ----------
    labels : ndarray
        Cluster of each sample.
    selected : ndarray of bool or None
        Mask of the selected features; None if the method uses all.
    embedding : callable
        Returns the coordinates in which the method clustered.
    extra : dict
        More to be recorded.
    """

    labels: NDArray[Any]
    selected: NDArray[np.bool_] | None
    embedding: Callable[[], Any]
    extra: dict[str, Any] = field(default_factory=dict)


def _ksparse(task: Task) -> MethodResult:
    from ksparse import KSparse

    model = KSparse(task.k, random_state=task.seed).fit(task.X)
    return MethodResult(model.labels_, model.get_support(), lambda: model.project(task.X))


def _ksparse_paper(task: Task) -> MethodResult:
    from ksparse import KSparse

    eta = task.eta if task.eta is not None else ETAS.get(paper_name(task.data) or "")
    if eta is None:
        n = max(1, min(N_FEATURES, task.X.shape[1] // 4))
        model = KSparse.paper(task.k, eta, n_features=n, random_state=task.seed)
    else:
        model = KSparse.paper(task.k, eta, random_state=task.seed)
    model.fit(task.X)
    extra = {"eta": float(model.eta_), "cost": model.cost_history_.tolist()}
    return MethodResult(model.labels_, model.get_support(), lambda: model.project(task.X), extra)


def _pca(task: Task) -> MethodResult:
    from ksparse.baselines import PCAKMeans

    model = PCAKMeans(task.k, random_state=task.seed).fit(task.X)
    return MethodResult(model.labels_, None, lambda: model.embedding_)


def _spectral(task: Task) -> MethodResult:
    from sklearn.manifold import spectral_embedding

    from ksparse.baselines import Spectral

    model = Spectral(task.k, random_state=task.seed).fit(task.X)

    def embedding() -> Any:
        return spectral_embedding(
            model.affinity_matrix_, n_components=task.k, drop_first=False, random_state=task.seed
        )

    return MethodResult(model.labels_, None, embedding)


def _simlr(task: Task, *, large: bool = False) -> MethodResult:
    from ksparse.baselines import SIMLR

    model = SIMLR(task.k, large=large, random_state=task.seed).fit(task.X)

    def embedding() -> Any:
        # Of the similarity itself: in the embedding, whole clusters can be one point.
        from sklearn.decomposition import TruncatedSVD

        n = min(30, task.X.shape[0] - 1)
        return TruncatedSVD(n, random_state=task.seed).fit_transform(model.similarity_)

    return MethodResult(model.labels_, None, embedding)


def _simlr_large(task: Task) -> MethodResult:
    return _simlr(task, large=True)


def _sparcl(task: Task) -> MethodResult:
    from ksparse.baselines import SparseKMeans

    model = SparseKMeans(task.k, random_state=task.seed)
    bound = model.choose_bound(task.X, n_permutations=N_PERMUTATIONS).best  # as in the paper
    model.set_params(wbound=bound).fit(task.X)
    selected = model.weights_ > 0

    def embedding() -> Any:
        from sklearn.decomposition import PCA

        chosen = sp.csr_array(task.X)[:, np.flatnonzero(selected)].toarray()
        weighted = chosen * np.sqrt(model.weights_[selected])
        n = min(task.k + 4, *weighted.shape)
        return PCA(n, random_state=task.seed).fit_transform(weighted)

    return MethodResult(model.labels_, selected, embedding, {"bound": float(bound)})


def _leiden(task: Task) -> MethodResult:
    labels, selected, points = leiden(task.X, task.k, task.seed, logged=task.preparation == "log1p")
    extra = {"n_clusters_found": len(np.unique(labels))}
    return MethodResult(labels, selected, lambda: points, extra)


# In the order of the paper's tables, then the usual method of scanpy.
METHODS: dict[str, Callable[[Task], MethodResult]] = {
    "pca": _pca,
    "spectral": _spectral,
    "simlr": _simlr,
    "simlr-large": _simlr_large,
    "sparcl": _sparcl,
    "ksparse-paper": _ksparse_paper,
    "ksparse": _ksparse,
    "scanpy": _leiden,
}


def run_method(name: str, task: Task) -> MethodResult:
    """Run a method and return its result."""
    return METHODS[name](task)


def warm_up(name: str) -> None:
    """Run a method on a few numbers, so that loading and compiling are not timed."""
    rng = np.random.RandomState(0)
    X = rng.poisson(1.0, size=(80, 60)).astype(np.float32)
    X[:40, :10] += 5
    run_method(name, Task(X, 2, 0))
