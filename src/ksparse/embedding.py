"""The spectral embedding: where starts are found and targets are taken."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from ksparse.decomposition import leading_svd
from ksparse.matrix import Floats, Matrix

__all__ = ["Embedding", "embedding_of", "kernel_embedding", "spectral_embedding"]

# The full kernel is m x m: for checking, not for large data.
KERNEL_LIMIT = 20_000


@dataclass(frozen=True)
class Embedding:
    """Samples in a few dimensions.

    Attributes
    ----------
    rows : ndarray, samples x components
        Spectral coordinates, each row of unit length.
    scores : ndarray, samples x (components - 1, at least 1)
        Principal component scores: left singular vectors times singular values.
    """

    rows: Floats
    scores: Floats


def _unit_rows(E: Floats) -> Floats:
    length = np.linalg.norm(E, axis=1, keepdims=True)
    return E / np.where(length > 0, length, 1.0)


def spectral_embedding(matrix: Matrix, n_components: int, rng: np.random.RandomState) -> Embedding:
    """Spectral embedding in linear time.

    The kernel of the paper is so wide that it is linear. Its leading eigenvectors then
    are the constant vector and the left singular vectors of the centred data, which a
    few passes over the data give. A single component is the first singular vector.
    """
    U, s, _ = leading_svd(matrix, max(n_components - 1, 1), rng)
    return embedding_of(U, s, n_components, matrix.total_weight)


def embedding_of(U: Floats, s: Floats, n_components: int, total_weight: float) -> Embedding:
    """Spectral embedding from the leading singular vectors and values (or more of them)."""
    m, n_vectors = U.shape[0], max(n_components - 1, 1)
    U, s = U[:, :n_vectors], s[:n_vectors]
    padding = np.zeros((m, n_vectors - U.shape[1]))
    constant = np.full((m, 1), 1 / np.sqrt(total_weight))
    rows = np.hstack([constant, U, padding])[:, -n_components:]
    return Embedding(_unit_rows(rows), np.hstack([U * s, padding]))


def kernel_embedding(matrix: Matrix, n_components: int, sigma: float) -> Floats:
    """Spectral embedding from the full RBF kernel, as in the paper: O(m^2 d + m^3)."""
    m, d = matrix.shape
    if m > KERNEL_LIMIT:
        raise ValueError(
            f"init='spectral_kernel' needs a kernel of {m} x {m}, and is meant for at most "
            f"{KERNEL_LIMIT} samples; use init='spectral', which agrees with it in linear time."
        )
    inner = np.zeros((m, m))
    for start in range(0, d, 512):
        stop = min(start + 512, d)
        pick = np.zeros((d, stop - start))
        pick[np.arange(start, stop), np.arange(stop - start)] = 1.0
        block = matrix.project(pick)
        inner += block @ block.T
    square = np.diag(inner)
    distance = np.maximum(square[:, None] + square[None, :] - 2 * inner, 0.0)
    affinity = np.exp(-distance / (2 * sigma**2))
    weight = np.ones(m) if matrix.sample_weight is None else matrix.sample_weight
    root = np.sqrt(affinity @ weight / weight)
    n_vectors = min(n_components, m)
    _, vectors = eigh(affinity / np.outer(root, root), subset_by_index=[m - n_vectors, m - 1])
    rows = np.zeros((m, n_components))
    rows[:, :n_vectors] = vectors[:, ::-1] / np.sqrt(weight)[:, None]
    return _unit_rows(rows)
