"""The spectral start: k-means in the spectral embedding, which is computed in linear time.

The kernel of the paper is so wide that it is linear. Its leading eigenvectors are then the
constant vector and the left singular vectors of the centred data, which a few passes over
the data give.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ksparse.core.y_step import assign
from ksparse.matrix import Floats, Ints, Matrix
from ksparse.starts.base import Embedding, StartData

__all__ = [
    "Decomposition",
    "SpectralStart",
    "cluster_points",
    "decompose",
    "embedding_of",
    "leading_svd",
    "replicates",
    "spectral_embedding",
    "unit_rows",
]

OVERSAMPLING = 8
# Residuals of singular vectors, relative to the largest eigenvalue: of those that the embedding
# has, and of more, which are only to span what a ridge regression works in.
EXACT, ROUGH = 1e-5, 1e-3
MAX_PASSES = 30
# Relative accuracy of the largest eigenvalue of the data with their mean.
NORM_TOL = 1e-6
# k-means replicates of a start: more on small data, where they are cheap and optima many.
MIN_REPLICATES, MAX_REPLICATES, REPLICATED_SAMPLES = 40, 100, 20_000


class SpectralStart:
    """k-means in the spectral embedding."""

    def labels(self, data: StartData, rng: np.random.RandomState) -> Ints:
        """Return the clusters of the best of many replicates."""
        return cluster_points(data.embedding.coordinates, data, rng)


def cluster_points(points: Floats, data: StartData, rng: np.random.RandomState) -> Ints:
    """Return labels by k-means with many replicates."""
    n_init, weight = replicates(data.matrix.shape[0], MIN_REPLICATES), data.matrix.sample_weight
    return assign(points, data.n_clusters, rng, n_init=n_init, sample_weight=weight).labels


def replicates(n_samples: int, least: int) -> int:
    """Return how many times k-means is run: at least so many times, and more for few samples."""
    return max(least, min(REPLICATED_SAMPLES // n_samples, MAX_REPLICATES))


# The embedding ----------------------------------------------------------------------------


def spectral_embedding(matrix: Matrix, n_components: int, rng: np.random.RandomState) -> Embedding:
    """Return the spectral embedding of the data.

    A single component is the first singular vector.
    """
    U, s, _ = leading_svd(matrix, max(n_components - 1, 1), rng)
    return embedding_of(U, s, n_components, matrix.total_weight)


def embedding_of(U: Floats, s: Floats, n_components: int, total_weight: float) -> Embedding:
    """Return the embedding from the leading singular vectors and values (or more of them)."""
    m, n_vectors = U.shape[0], max(n_components - 1, 1)
    U, s = U[:, :n_vectors], s[:n_vectors]
    padding = np.zeros((m, n_vectors - U.shape[1]))
    constant = np.full((m, 1), 1 / np.sqrt(total_weight))
    rows = np.hstack([constant, U, padding])[:, -n_components:]
    return Embedding(unit_rows(rows), np.hstack([U * s, padding]))


def unit_rows(E: Floats) -> Floats:
    """Return E with every row scaled to unit length (rows of zeros stay zero)."""
    length = np.linalg.norm(E, axis=1, keepdims=True)
    return E / np.where(length > 0, length, 1.0)


# Singular vectors -------------------------------------------------------------------------


class Decomposition(NamedTuple):
    """What the paper's scaling and the embedding need.

    Attributes
    ----------
    norm : float
        Largest singular value of the data with their mean left in (1 if all are zero).
    U : ndarray, samples x rank
        Leading left singular vectors of the centred data, orthonormal when samples are
        weighted.
    s : ndarray
        Their singular values, decreasing, of the data divided by `norm`.
    """

    norm: float
    U: Floats
    s: Floats


def decompose(
    matrix: Matrix, rank: int, rng: np.random.RandomState, more: int = 0
) -> Decomposition:
    """Return the spectral norm and the leading singular vectors, from one Krylov space.

    Beyond `rank` there are `more` vectors, to a few digits.

    The vectors are those of the centred data even where the view is not centred: they stand
    for a kernel of the distances between samples, which do not depend on the mean.

    With the mean among the first vectors, the space of the centred data contains that of the
    data with their mean, whose X'X differs by the outer product of the mean with itself: both
    answers are the best ones in that space. They are computed in units of the Frobenius norm,
    which is known from means and variances: no overflow, whatever the unit of the data.
    """
    square = (matrix.variance + matrix.feature_means**2) * matrix.factor**2
    unit = float(np.sqrt(matrix.total_weight * square.sum())) or 1.0
    view = matrix.with_center(True).scaled(unit)
    offset = view.mean * view.factor * np.sqrt(view.total_weight)
    tol = np.repeat([EXACT, ROUGH], [rank, more])
    U, s, _, norm2 = _krylov(view, tol, rng, offset=offset)
    norm = float(np.sqrt(norm2)) or 1.0
    return Decomposition(norm * unit, U, s / norm)


def leading_svd(
    matrix: Matrix, rank: int, rng: np.random.RandomState, *, tol: float = EXACT
) -> tuple[Floats, Floats, Floats]:
    """Return leading singular triplets of the centred data (samples weighted).

    Returns
    -------
    U : ndarray, samples x rank
        Left vectors, orthonormal when samples are weighted.
    s : ndarray
        Singular values, decreasing.
    V : ndarray, features x rank
        Right vectors; the entry of largest magnitude in each is positive.
    """
    return _krylov(matrix, np.full(rank, tol), rng, offset=None)[:3]


def _krylov(
    matrix: Matrix, tol: Floats, rng: np.random.RandomState, *, offset: Floats | None
) -> tuple[Floats, Floats, Floats, float]:
    """Return singular triplets, and the largest eigenvalue of Xc'Xc + offset offset'.

    A block Krylov method: every pass multiplies a few vectors by X'X, and the answer is
    the best one in the space of all vectors seen. It stops when the residual of each is below
    its `tol` relative to the largest eigenvalue, so the answer hardly depends on the random
    start. Only features x (passes * rank) numbers are stored.
    """
    m, d = matrix.shape
    rank = min(tol.size, m, d)
    width = min(rank + OVERSAMPLING, d)
    block = rng.standard_normal((d, width))
    if offset is not None and width < d:
        block = np.column_stack([block, offset])
    basis = _orthogonal_part(block, np.zeros((d, 0)))
    images = matrix.normal(basis)
    newest, norm2, small = basis.shape[1], -1.0, basis.T @ images
    for n_passes in range(1, MAX_PASSES + 1):
        values, vectors = _rayleigh_ritz(small)
        lead = vectors[:, :rank]
        residual = images @ lead - (basis @ lead) * values[:rank]
        worst = float((np.linalg.norm(residual, axis=0) / tol[:rank]).max())
        before, norm2 = norm2, _largest_with(basis, small, offset, values)
        vectors_done = worst <= max(values[0], np.finfo(float).tiny)
        if n_passes == MAX_PASSES or (vectors_done and norm2 - before <= NORM_TOL * norm2):
            break
        new = _orthogonal_part(images[:, -newest:], basis)
        newest = new.shape[1]
        if newest == 0:  # the space is exhausted: the answer is exact
            break
        image = matrix.normal(new)  # of `small`, only what is new is computed
        small = np.block([[small, basis.T @ image], [new.T @ images, new.T @ image]])
        basis, images = np.hstack([basis, new]), np.hstack([images, image])
    V = basis @ vectors[:, :rank]
    V *= np.sign(V[np.abs(V).argmax(axis=0), np.arange(V.shape[1])])
    s = np.sqrt(np.maximum(values[:rank], 0.0))
    U = matrix.project(V)
    U /= np.where(s > 1e-12 * max(float(s.max(initial=0.0)), 1e-300), s, np.inf)
    return U, s, V, norm2


def _largest_with(basis: Floats, small: Floats, offset: Floats | None, values: Floats) -> float:
    """Return the largest Ritz value of the operator plus the outer product of the offset.

    `small` is the operator in the basis.
    """
    if offset is None:
        return max(float(values[0]), 0.0)
    inner = basis.T @ offset
    return max(float(np.linalg.eigvalsh((small + small.T) / 2 + np.outer(inner, inner))[-1]), 0.0)


def _orthogonal_part(block: Floats, basis: Floats) -> Floats:
    """Return an orthonormal basis of what a block has outside another one; may be empty.

    Twice is enough for all digits. What is left of a direction that the basis holds
    already is rounding, and is dropped: a space has no more dimensions than it has.
    """
    scale = float(np.linalg.norm(block, axis=0).max(initial=0.0))
    for least in (1e-10 * scale, 0.5):
        block = block - basis @ (basis.T @ block)
        block, R = np.linalg.qr(block)
        block = block[:, np.abs(np.diag(R)) > least]
        if block.shape[1] == 0:
            break
    return block


def _rayleigh_ritz(small: Floats) -> tuple[Floats, Floats]:
    values, vectors = np.linalg.eigh((small + small.T) / 2)
    return values[::-1], vectors[:, ::-1]
