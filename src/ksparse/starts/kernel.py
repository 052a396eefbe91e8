"""The spectral start with the full kernel of the paper, for checking the linear one."""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh

from ksparse._errors import InputError, Term
from ksparse.matrix import Floats, Ints, Matrix
from ksparse.starts.base import StartData
from ksparse.starts.spectral import cluster_points, unit_rows

__all__ = ["KernelStart", "kernel_embedding"]

# The full kernel is m x m: for checking, not for large data.
KERNEL_LIMIT = 20_000


class KernelStart:
    """k-means in the embedding of the full RBF kernel: O(m^2 d + m^3)."""

    def labels(self, data: StartData, rng: np.random.RandomState) -> Ints:
        """Return the clusters of the best of many replicates."""
        n_components = data.embedding.coordinates.shape[1]
        return cluster_points(kernel_embedding(data.matrix, n_components, data.sigma), data, rng)


def kernel_embedding(matrix: Matrix, n_components: int, sigma: float) -> Floats:
    """Return the spectral embedding from the full RBF kernel, as in the paper."""
    m, d = matrix.shape
    if m > KERNEL_LIMIT:
        raise InputError(
            Term("init", "spectral_kernel"),
            f" needs a kernel of {m} x {m}, and is meant for at most {KERNEL_LIMIT} samples; use ",
            Term("init", "spectral"),
            ", which agrees with it in linear time.",
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
    return unit_rows(rows)
