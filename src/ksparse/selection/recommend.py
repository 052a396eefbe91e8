"""From the separation of the clusters for several k to one recommendation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ksparse.matrix import Floats
from ksparse.selection.separation import Separation

__all__ = ["LENIENT", "LEVEL", "STRICT", "Recommendation", "recommend", "supported", "worst_pair"]

# Every pair of clusters has to be separated at this level: about 0.05 for ten numbers of clusters
# together. The others say how sure the answer is.
LEVEL, STRICT, LENIENT = 0.005, 0.001, 0.05


class Recommendation(NamedTuple):
    """A number of clusters, and between which numbers it would be at other levels.

    `k` is None if no number that was tried is supported, and 1 if that is true from 2 on.
    """

    k: int | None
    low: int | None
    high: int | None


def worst_pair(separation: Separation) -> tuple[float, str, str]:
    """Return the largest p-value of a pair of clusters, and their names."""
    p = separation.p_values
    below = [(float(p[a, b]), a, b) for b in range(len(p)) for a in range(b)]
    value, a, b = max(below, key=lambda pair: pair[0])
    return value, separation.clusters[a], separation.clusters[b]


def supported(ks: Sequence[int], p_worst: Sequence[float], level: float = LEVEL) -> list[bool]:
    """Return for each number whether all its clusters are real.

    They are if every pair is separated at the level; "some pair is not", tested by the largest
    p-value, needs no correction for the number of pairs. And they are if every pair is separated
    at the lenient level, where that is not so with one cluster less: fewer clusters than there
    are may cut some of them in pieces, but more only ever add a pair that is one population.

    Parameters
    ----------
    ks : sequence of int
        Numbers of clusters, increasing.
    p_worst : sequence of float
        The largest p-value of a pair for each (of k = 1: ignored).
    level : float
        The level.
    """
    p: Floats = np.asarray(p_worst, dtype=float)
    out = []
    for i, k in enumerate(ks):
        follows = i > 0 and ks[i - 1] == k - 1 > 1
        regained = follows and bool(p[i] <= max(level, LENIENT) < p[i - 1]) and level >= LEVEL
        out.append(k > 1 and (bool(p[i] <= level) or regained))
    return out


def recommend(ks: Sequence[int], p_worst: Sequence[float]) -> Recommendation:
    """Return the largest supported number; parameters as for `supported`."""
    return Recommendation(*(_largest(ks, p_worst, level) for level in (LEVEL, STRICT, LENIENT)))


def _largest(ks: Sequence[int], p_worst: Sequence[float], level: float) -> int | None:
    right = [k for k, good in zip(ks, supported(ks, p_worst, level), strict=True) if good]
    if right:
        return right[-1]
    return 1 if ks[0] <= 2 else None
