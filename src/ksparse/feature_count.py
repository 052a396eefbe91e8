"""How many features: the cheap rule behind ``n_features="auto"``."""

from __future__ import annotations

import numpy as np

from ksparse.matrix import Floats, GramCache, Ints, Matrix
from ksparse.solvers import Problem, select_features
from ksparse.targets import embedded_targets

__all__ = ["choose_n_features"]

SMALLEST, LARGEST, GROWTH = 8, 400, 1.5
PLATEAU = 0.95


def choose_n_features(
    matrix: Matrix,
    embedding: Floats,
    labels: Ints,
    n_clusters: int,
    costs: Floats,
    *,
    ridge: float,
) -> int:
    """Return the smallest number of features that explains the clusters nearly as well as any.

    For the labels of the first start and a grid of numbers of features (8, 12, 18, ... up
    to 400), the targets are regressed on the selected features, as the relaxed projection
    does. What such a fit would explain on new samples is estimated by generalised
    cross-validation. The rule takes the first number that reaches 95 % of the largest such
    share. No random choice is involved.
    """
    m = matrix.shape[0]
    allowed = int(np.count_nonzero(np.isfinite(costs) & ~matrix.constant))
    n_free = int(np.count_nonzero(costs == 0))
    top = min(allowed, LARGEST)
    if top <= max(SMALLEST, n_free):
        return max(1, top, n_free)
    targets = embedded_targets(matrix, embedding, labels, n_clusters)
    sizes = np.bincount(labels, weights=matrix.sample_weight, minlength=n_clusters)
    total = float(sizes @ (targets**2).sum(axis=1))
    correlation = matrix.cluster_sums(labels, n_clusters).T @ targets
    problem = Problem(matrix, correlation, total, np.inf, costs, GramCache(matrix))
    n_steps = int(np.log(top / SMALLEST) / np.log(GROWTH)) + 1
    grid = {max(round(SMALLEST * GROWTH**i), n_free) for i in range(n_steps)} | {top}
    counts = sorted(grid)
    explained: list[float] = []
    weights = None
    for count in counts:
        selection = select_features(problem, count, weights, exact=False)
        weights = selection.solution.weights
        selected = np.flatnonzero(weights.any(axis=1))
        if selected.size == 0:
            return 1
        G = problem.gram(selected)
        values, vectors = np.linalg.eigh(G)
        values = np.maximum(values, 0.0)
        shrunk = values + ridge * values.sum() / selected.size
        rotated = vectors.T @ correlation[selected]
        # Residual of the ridge fit, and its degrees of freedom, in the basis of G.
        fitted = ((2 / shrunk - values / shrunk**2)[:, None] * rotated**2).sum()
        freedom = min(float((values / shrunk).sum()) + 1, 0.99 * m)
        explained.append(1 - max(total - fitted, 0.0) / total / (1 - freedom / m) ** 2)
    if max(explained) <= 0:  # nothing to explain: one sample per degree of freedom, or so
        return counts[int(np.argmax(explained))]
    enough = PLATEAU * max(explained)
    return next(n for n, share in zip(counts, explained, strict=True) if share >= enough)
