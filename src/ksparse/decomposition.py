"""Leading singular vectors of a matrix view, in a few passes over the data."""

from __future__ import annotations

import numpy as np

from ksparse.matrix import Floats, Matrix

__all__ = ["leading_svd", "spectral_norm"]

OVERSAMPLING = 8
MAX_PASSES = 30


def leading_svd(
    matrix: Matrix, rank: int, rng: np.random.RandomState, *, tol: float = 1e-5
) -> tuple[Floats, Floats, Floats]:
    """Leading singular triplets of the centred data (samples weighted).

    A block Krylov method: every pass multiplies a few vectors by X'X, and the answer is
    the best one in the space of all vectors seen. It stops when the residuals are below
    `tol` relative to the largest eigenvalue, so the answer hardly depends on the random
    start. Only features x (passes * rank) numbers are stored.

    Returns
    -------
    U : ndarray, samples x rank
        Left vectors, orthonormal when samples are weighted.
    s : ndarray
        Singular values, decreasing.
    V : ndarray, features x rank
        Right vectors; the entry of largest magnitude in each is positive.
    """
    m, d = matrix.shape
    rank = min(rank, m, d)
    width = min(rank + OVERSAMPLING, d)
    Q = np.linalg.qr(rng.standard_normal((d, width)))[0]
    basis, images = Q, matrix.normal(Q)
    values, vectors = _rayleigh_ritz(basis, images)
    newest = width
    for _ in range(MAX_PASSES - 1):
        lead = vectors[:, :rank]
        residual = images @ lead - (basis @ lead) * values[:rank]
        worst = float(np.linalg.norm(residual, axis=0).max())
        if worst <= tol * max(values[0], np.finfo(float).tiny):
            break
        new = _orthogonal_part(images[:, -newest:], basis)
        newest = new.shape[1]
        if newest == 0:  # the space is exhausted: the answer is exact
            break
        basis, images = np.hstack([basis, new]), np.hstack([images, matrix.normal(new)])
        values, vectors = _rayleigh_ritz(basis, images)
    V = basis @ vectors[:, :rank]
    V *= np.sign(V[np.abs(V).argmax(axis=0), np.arange(V.shape[1])])
    s = np.sqrt(np.maximum(values[:rank], 0.0))
    U = matrix.project(V)
    U /= np.where(s > 1e-12 * max(float(s.max(initial=0.0)), 1e-300), s, np.inf)
    return U, s, V


def _orthogonal_part(block: Floats, basis: Floats) -> Floats:
    """Orthonormal basis of what a block has outside an orthonormal basis; may be empty.

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


def _rayleigh_ritz(basis: Floats, images: Floats) -> tuple[Floats, Floats]:
    small = basis.T @ images
    values, vectors = np.linalg.eigh((small + small.T) / 2)
    return values[::-1], vectors[:, ::-1]


def spectral_norm(matrix: Matrix, *, tol: float = 1e-6) -> float:
    """Largest singular value of the data with their mean left in (samples weighted).

    Lanczos on X'X started near the mean, which is close to the leading vector of
    non-negative data; a share of the standard deviations keeps it off directions that
    the mean alone may miss. The centred view serves: X = Xc + 1 mean'.
    """
    offset = matrix.mean * matrix.factor
    spread = np.sqrt(matrix.variance) * matrix.factor
    start = offset + 0.1 * np.where(offset < 0, -spread, spread)
    if not start.any():
        return 0.0
    basis = [start / np.linalg.norm(start)]
    images: list[Floats] = []
    value = 0.0
    for _ in range(MAX_PASSES):
        v = basis[-1]
        image = matrix.normal(v[:, None])[:, 0] + matrix.total_weight * offset * (offset @ v)
        images.append(image)
        values, _ = _rayleigh_ritz(np.column_stack(basis), np.column_stack(images))
        previous, value = value, float(values[0])
        new = image
        for _ in range(2):
            for b in basis:
                new = new - b * (b @ new)
        length = float(np.linalg.norm(new))
        if value - previous <= tol * value or length <= 1e-12 * value:
            break
        basis.append(new / length)
    return float(np.sqrt(value))
