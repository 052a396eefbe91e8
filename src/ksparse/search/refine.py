"""Split and merge: a way out of poor optima of k-means.

k-means likes clusters of equal size: it cuts a large cluster in two and lets a small one
disappear in a larger one. Such a cut shows: the two halves overlap even in the projection
that was fitted to tell them apart. So the pair of clusters that overlap most is merged,
another cluster is split where it falls apart best, and the alternation goes on from
there. The move is kept only if the held-out score says so.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from sklearn.cluster import KMeans

from ksparse._threads import openmp_threads
from ksparse.matrix import Floats, Ints

__all__ = ["proposals"]

# Distance of two centroids in within-cluster standard deviations along their line. Two
# halves of one Gaussian are 2.6 apart, and a projection fitted to them adds to that.
OVERLAP = 4.0
# Moves tried per round, and the smallest cluster that is split or split off.
MAX_MERGES, MAX_SPLITS = 2, 3
MIN_PART = 5


def separation(A: Floats, B: Floats) -> float:
    """Return the distance of two groups of points relative to their spread along it."""
    difference = B.mean(axis=0) - A.mean(axis=0)
    length = float(np.linalg.norm(difference))
    if length == 0.0:
        return 0.0
    spread = ((A @ difference).var() + (B @ difference).var()) / 2
    return length**2 / float(np.sqrt(spread)) if spread > 0 else np.inf


def _overlapping(P: Floats, labels: Ints, n_clusters: int) -> list[tuple[int, int]]:
    """Return pairs of clusters that overlap, most first."""
    groups = [P[labels == c] for c in range(n_clusters)]
    pairs = [
        (separation(groups[a], groups[b]), a, b)
        for a in range(n_clusters)
        for b in range(a + 1, n_clusters)
    ]
    return [(a, b) for apart, a, b in sorted(pairs) if apart < OVERLAP]


def _splits(points: Floats, labels: Ints, rng: np.random.RandomState) -> list[tuple[int, Ints]]:
    """Return clusters and the part to split off, best separated first."""
    splits: list[tuple[float, int, Ints]] = []
    for cluster in np.unique(labels):
        members = np.flatnonzero(labels == cluster)
        inside = points[members]
        if members.size < 2 * MIN_PART or not np.ptp(inside, axis=0).any():
            continue
        seed = int(rng.randint(np.iinfo(np.int32).max))
        with openmp_threads():
            second = KMeans(2, n_init=5, random_state=seed).fit(inside).labels_ == 1
        if min(second.sum(), (~second).sum()) >= MIN_PART:
            apart = separation(inside[~second], inside[second])
            splits.append((-apart, int(cluster), members[second]))
    return [(cluster, part) for _, cluster, part in sorted(splits, key=lambda item: item[:2])]


def proposals(
    P: Floats, scores: Floats, labels: Ints, n_clusters: int, rng: np.random.RandomState
) -> Iterator[Ints]:
    """Yield labelings with two overlapping clusters merged and another cluster split.

    Overlap is judged in the projection P, splits are sought in the principal component
    scores: what a cluster hides is not in a projection that was fitted to hide it.
    """
    for a, b in _overlapping(P, labels, n_clusters)[:MAX_MERGES]:
        merged = np.where(labels == b, a, labels)
        for _, part in _splits(scores, merged, rng)[:MAX_SPLITS]:
            proposal = merged.copy()
            proposal[part] = b
            yield proposal
