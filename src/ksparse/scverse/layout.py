"""Coordinates on a plane: t-SNE or UMAP of the projection."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ksparse._errors import InputError, Term
from ksparse._threads import openmp_threads

__all__ = ["METHODS", "layout"]

METHODS = ("tsne", "umap")
# t-SNE takes about 20 s for so many points; the others are placed among their nearest neighbours.
MAX_POINTS, N_NEIGHBOURS = 5_000, 5


def layout(
    P: NDArray[Any], *, method: str = "tsne", random_state: int | None = 0
) -> NDArray[np.float32]:
    """Return two coordinates for each row of P."""
    if method not in METHODS:
        raise InputError(Term("method", method), f" is unknown; choose from {', '.join(METHODS)}.")
    P = np.asarray(P, dtype=np.float32)
    scale = float(np.abs(P).max(initial=0.0))
    if scale > 0:
        P = P / scale
    if len(P) < 5 or scale == 0:  # too few for neighbours, or all in one place
        return np.ascontiguousarray(np.pad(P, ((0, 0), (0, 2)))[:, :2])
    if method == "umap":
        return _umap(P, random_state)
    if len(P) <= MAX_POINTS:
        return _tsne(P, random_state)
    rng = np.random.RandomState(random_state)
    chosen = np.sort(rng.permutation(len(P))[:MAX_POINTS])
    return _place(P, chosen, _tsne(P[chosen], random_state), rng)


def _tsne(P: NDArray[Any], random_state: int | None) -> NDArray[np.float32]:
    from sklearn.manifold import TSNE

    perplexity = min(30.0, (len(P) - 1) / 3)
    init = "pca" if P.shape[1] >= 2 else "random"
    model = TSNE(random_state=random_state, perplexity=perplexity, init=init)
    with openmp_threads():
        return np.asarray(model.fit_transform(P), dtype=np.float32)


def _umap(P: NDArray[Any], random_state: int | None) -> NDArray[np.float32]:
    try:
        from umap import UMAP
    except ImportError:
        raise ImportError(
            "method='umap' needs umap-learn: install it with  pip install 'ksparse[anndata]'"
        ) from None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns that a seed means one thread
        model = UMAP(random_state=random_state, n_neighbors=min(15, len(P) - 1), init="pca")
        return np.asarray(model.fit_transform(P), dtype=np.float32)


def _place(
    P: NDArray[Any], chosen: NDArray[np.intp], points: NDArray[Any], rng: np.random.RandomState
) -> NDArray[np.float32]:
    """Return all points: the chosen ones, and the others at weighted means of their nearest."""
    from sklearn.neighbors import NearestNeighbors

    out = np.empty((len(P), 2), dtype=np.float32)
    out[chosen] = points
    rest = np.setdiff1d(np.arange(len(P)), chosen)
    near = NearestNeighbors(n_neighbors=N_NEIGHBOURS).fit(P[chosen])
    with openmp_threads():
        distance, nearest = near.kneighbors(P[rest])
    # The nearest counts most: a mean of points far from each other would lie between clusters.
    weight = 1.0 / np.maximum(distance, 1e-12) ** 2
    weight /= weight.sum(axis=1, keepdims=True)
    out[rest] = np.einsum("ij,ijc->ic", weight, points[nearest])
    spread = np.ptp(points, axis=0)
    out[rest] += rng.normal(scale=1e-3, size=(rest.size, 2)) * spread  # no point hides another
    return out
