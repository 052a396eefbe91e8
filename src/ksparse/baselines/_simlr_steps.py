"""The steps of SIMLR: kernels, neighbours, diffusion, weights of the kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

__all__ = [
    "BANDWIDTHS",
    "EPS",
    "NEIGHBOURS",
    "REACH",
    "diffuse",
    "kernel_weights",
    "kernels_of",
    "on_simplex",
    "row_normalised",
    "square_distances",
]

Floats = NDArray[np.float64]

EPS = float(np.finfo(np.float64).eps)
# Eleven numbers of neighbours and five bandwidths: 55 kernels.
NEIGHBOURS, BANDWIDTHS = tuple(range(10, 31, 2)), (2.0, 1.75, 1.5, 1.25, 1.0)
# Weight of longer paths in the diffusion.
REACH = 0.8


def square_distances(X: Any) -> Floats:
    """Return squared Euclidean distances between all rows."""
    inner = X @ X.T
    inner = np.asarray(inner.toarray() if hasattr(inner, "toarray") else inner, dtype=np.float64)
    square = np.diag(inner)
    out = np.maximum(square[:, None] + square - 2 * inner, 0.0)
    np.fill_diagonal(out, 0.0)
    return out


def kernels_of(distance: Any, spread: Any, self_values: Any) -> Any:
    """Return the distance of pairs of samples in the space of a Gaussian kernel.

    `distance` are squared distances of pairs, `spread` the width of each pair, and
    `self_values` the kernel of a sample with itself, for both samples of each pair.
    """
    value = np.exp(-0.5 * (distance / spread) ** 2) / (np.sqrt(2 * np.pi) * spread)
    first, second = self_values
    scaled = value / np.sqrt((first + 1) * (second + 1))
    return (first / (first + 1) + second / (second + 1) - 2 * scaled) / 2


def row_normalised(W: Floats) -> Floats:
    """Return rows divided by their sum of absolute values."""
    return W / (np.abs(W).sum(axis=1, keepdims=True) + EPS)


def on_simplex(V: Floats) -> Floats:
    """Return the projection of every row on the probability simplex."""
    ordered = -np.sort(-V, axis=1)
    cut = (np.cumsum(ordered, axis=1) - 1) / np.arange(1, V.shape[1] + 1)
    last = (ordered > cut).sum(axis=1) - 1
    return np.maximum(V - cut[np.arange(len(V)), last][:, None], 0.0)


def diffuse(S: Floats, n_neighbors: int) -> Floats:
    """Return the similarity diffused over the graph of the nearest neighbours.

    Computes (1 - a) P (I - a P^2)^-1 of the transitions P, by one Cholesky factorisation instead of
    the eigenvectors of P.
    """
    n = len(S)
    A = S.copy()
    np.fill_diagonal(A, 0.0)
    k = min(n_neighbors, n - 1)
    nearest = np.argpartition(-np.abs(A), k - 1, axis=1)[:, :k]
    graph = np.zeros_like(A)
    np.put_along_axis(graph, nearest, np.take_along_axis(A, nearest, 1), 1)
    P = (graph + graph.T) / 2
    degree = np.abs(P).sum(axis=1)
    np.fill_diagonal(P, degree + 1)
    P = row_normalised(P)
    P = P / np.sqrt(np.abs(P).sum(axis=0) + EPS)
    P = P @ P.T
    factor = cho_factor(np.eye(n) - REACH * (P @ P))
    W = (1 - REACH) * cho_solve(factor, P)
    diagonal = np.diag(W).copy()
    np.fill_diagonal(W, 0.0)
    W = np.maximum(degree[:, None] * W / (1 - diagonal)[:, None], 0.0)
    return (W + W.T) / 2


def kernel_weights(losses: Floats, perplexity: float = 20.0) -> Floats:
    """Return weights that decrease with the loss, with the given perplexity."""
    D = (losses - losses.min()) / (losses.max() - losses.min() + EPS)
    beta, low, high = 1 / D.size, -np.inf, np.inf
    for _ in range(31):
        weights = np.exp(-D * beta)
        total = weights.sum()
        entropy = np.log(total) + beta * (D * weights).sum() / total
        weights = weights / total
        excess = entropy - np.log(min(perplexity, D.size))
        if abs(excess) < 1e-4:
            break
        if excess > 0:
            low = beta
            beta = beta * 2 if np.isinf(high) else (beta + high) / 2
        else:
            high = beta
            beta = beta / 2 if np.isinf(low) else (beta + low) / 2
    return weights
