"""Compiled parts of k-means: distances, Lloyd's iteration and the choice of first centroids.

scikit-learn's k-means does the same; on the small data that the Y-step has many times over, most
of its time goes into checks and set-up. Points are stored component by component (`columns`), so
that sums over components run over many samples at once, each in the order of the components;
distances are sums of squared differences, in which nothing cancels, however far the points are
from 0.
"""

from __future__ import annotations

import numpy as np

from ksparse._compile import compiled
from ksparse.matrix import Floats, Ints

__all__ = ["assign_nearest", "first_centroids", "square_distances"]

# Samples whose distances are computed together: they stay in the cache.
BLOCK = 256


@compiled
def _add_squares(columns: Floats, start: int, stop: int, centre: Floats, out: Floats) -> None:
    """Put the squared distances of samples `start` to `stop` to one point in `out`."""
    n = stop - start
    for i in range(n):
        out[i] = 0.0
    c = 0
    while c + 1 < centre.size:  # two at a time, which are added one after the other
        x, y = centre[c], centre[c + 1]
        one, two = columns[c, start:stop], columns[c + 1, start:stop]
        for i in range(n):
            a, b = one[i] - x, two[i] - y
            out[i] = (out[i] + a * a) + b * b
        c += 2
    if c < centre.size:
        x, one = centre[c], columns[c, start:stop]
        for i in range(n):
            a = one[i] - x
            out[i] += a * a


@compiled
def square_distances(columns: Floats, centres: Floats, out: Floats) -> None:
    """Put the squared distances of samples (components x samples) to the centres in `out`."""
    m = columns.shape[1]
    square = np.empty(BLOCK)
    for start in range(0, m, BLOCK):
        stop = min(start + BLOCK, m)
        for j in range(centres.shape[0]):
            _add_squares(columns, start, stop, centres[j], square)
            for i in range(stop - start):
                out[start + i, j] = square[i]


@compiled
def assign_nearest(
    columns: Floats, points: Floats, weight: Floats, centres: Floats, labels: Ints,
    sums: Floats, sizes: Floats, start: int, stop: int,
) -> None:  # fmt: skip
    """Label samples `start` to `stop` by the nearest centre, the first of equally near ones.

    Their weighted sums by cluster are added to `sums`, their weights to `sizes`. `points` has
    the same samples as `columns`, sample by sample.
    """
    square, least = np.empty(BLOCK), np.empty(BLOCK)
    nearest = np.empty(BLOCK, dtype=np.int64)
    for i0 in range(start, stop, BLOCK):
        i1 = min(i0 + BLOCK, stop)
        n = i1 - i0
        for j in range(centres.shape[0]):
            _add_squares(columns, i0, i1, centres[j], square)
            for i in range(n):
                closer = j == 0 or square[i] < least[i]
                least[i] = square[i] if closer else least[i]
                nearest[i] = j if closer else nearest[i]
        for i in range(n):
            j, w = nearest[i], weight[i0 + i]
            labels[i0 + i] = j
            sizes[j] += w
            for c in range(points.shape[1]):
                sums[j, c] += points[i0 + i, c] * w


@compiled
def first_centroids(
    columns: Floats, weight: Floats, first: int, random: Floats, chosen: Ints
) -> None:
    """Choose samples as first centroids by k-means++, beginning with the sample `first`.

    Each row of `random` (numbers between 0 and 1) chooses the candidates for one more centroid,
    with probabilities in proportion to their weighted squared distances to the nearest of those
    chosen before; the candidate that leaves the least inertia is taken.
    """
    m, n_trials = columns.shape[1], random.shape[1]
    nearest, best, found = np.empty(m), np.empty(m), np.empty(m)
    total = np.empty(m)
    chosen[0] = first
    _add_squares(columns, 0, m, columns[:, first].copy(), nearest)
    inertia = 0.0
    for i in range(m):
        inertia += nearest[i] * weight[i]
    for step in range(random.shape[0]):
        up_to = 0.0
        for i in range(m):
            up_to += weight[i] * nearest[i]
            total[i] = up_to
        least = np.inf
        for trial in range(n_trials):
            candidate = min(np.searchsorted(total, random[step, trial] * inertia), m - 1)
            _add_squares(columns, 0, m, columns[:, candidate].copy(), found)
            left = 0.0
            for i in range(m):
                found[i] = min(found[i], nearest[i])
                left += found[i] * weight[i]
            if left < least:
                least, chosen[step + 1] = left, candidate
                best, found = found, best
        inertia = least
        nearest, best = best, nearest
