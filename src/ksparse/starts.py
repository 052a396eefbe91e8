"""Starts: labels from which the alternation begins."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score

from ksparse.assignment import assign, centroids, fill_empty
from ksparse.decomposition import leading_svd
from ksparse.embedding import Embedding, kernel_embedding
from ksparse.graph import graph_communities
from ksparse.journal import NO_JOURNAL, Journal
from ksparse.matrix import Ints, Matrix

__all__ = ["START_NAMES", "journaled_start", "start_labels"]

PLAIN = ("spectral", "spectral_kernel", "pca", "graph")
DENSE = "+dense"
START_NAMES = PLAIN + tuple(name + DENSE for name in PLAIN)

# k-means replicates of a start: more on small data, where they are cheap and optima many.
MIN_REPLICATES, MAX_REPLICATES, REPLICATED_SAMPLES = 40, 200, 120_000

# The dense alternation works in the span of this many singular vectors, with a ridge
# relative to the smallest variance that the spectral embedding keeps.
DENSE_RANK = 60
DENSE_RIDGE = 0.15
DENSE_LOOPS = 10


def start_labels(
    name: str,
    matrix: Matrix,
    embedding: Embedding,
    n_clusters: int,
    rng: np.random.RandomState,
    *,
    sigma: float = 150.0,
) -> Ints:
    """Labels of a named start; a name that ends in ``+dense`` is alternated densely first."""
    if name.endswith(DENSE):
        first = start_labels(
            name.removesuffix(DENSE), matrix, embedding, n_clusters, rng, sigma=sigma
        )
        return _settle_densely(matrix, embedding, first, n_clusters, rng)
    if name == "graph":
        labels = graph_communities(embedding.scores, n_clusters, rng)
        return fill_empty(embedding.scores, labels, n_clusters)
    if name == "spectral":
        points = embedding.rows
    elif name == "spectral_kernel":
        points = kernel_embedding(matrix, embedding.rows.shape[1], sigma)
    elif name == "pca":
        points = embedding.scores
    else:
        raise ValueError(f"init={name!r} is not a start; choose from {', '.join(START_NAMES)}.")
    replicates = min(max(MIN_REPLICATES, REPLICATED_SAMPLES // matrix.shape[0]), MAX_REPLICATES)
    found = assign(points, n_clusters, rng, n_init=replicates, sample_weight=matrix.sample_weight)
    return found.labels


def journaled_start(
    name: str,
    matrix: Matrix,
    embedding: Embedding,
    n_clusters: int,
    rng: np.random.RandomState,
    *,
    sigma: float = 150.0,
    journal: Journal = NO_JOURNAL,
) -> Ints:
    """`start_labels` as a step of a run."""

    def compute() -> dict[str, Any]:
        labels = start_labels(name, matrix, embedding, n_clusters, rng, sigma=sigma)
        return {"labels": labels.astype(np.int32)}

    found: Ints = journal.step("start", rng, compute)["labels"].astype(np.intp)
    return found


def _settle_densely(
    matrix: Matrix,
    embedding: Embedding,
    labels: Ints,
    n_clusters: int,
    rng: np.random.RandomState,
) -> Ints:
    """Alternate with all features until the labels settle (the paper at a large eta).

    Without sparsity the W-step is a ridge regression, and in the basis of the singular
    vectors X W = U f U'T with a factor f per vector: no pass over the data.
    """
    weight = matrix.sample_weight
    U, s, _ = leading_svd(matrix, DENSE_RANK, rng, tol=1e-3)
    kept = s[min(embedding.rows.shape[1] - 1, s.size) - 1] ** 2
    filtered = U * (s**2 / (s**2 + max(DENSE_RIDGE * kept, np.finfo(float).tiny)))
    weighted = U if weight is None else U * weight[:, None]
    mu = centroids(embedding.rows, labels, n_clusters, weight)
    for _ in range(DENSE_LOOPS):
        P = filtered @ (weighted.T @ mu[labels])
        found = assign(P, n_clusters, rng, n_init=10, current=labels, sample_weight=weight)
        agreement = adjusted_rand_score(labels, found.labels)
        labels, mu = found.labels, found.centroids
        if agreement >= 0.99:
            break
    return labels
