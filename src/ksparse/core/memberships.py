"""More than one label: samples between clusters, such as doublets of cells.

A sample with several labels is modelled as the mean of their centroids, as two cells in
one droplet are after depth normalisation. (The sum would fit data that are not centred
and not normalised; on centred data it depends on where the origin is.)
"""

from __future__ import annotations

from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ksparse.matrix import Floats, Ints

__all__ = ["Memberships", "assign_several"]

# Prior probability of every further label.
PRIOR = 0.05
# With more sets of labels than this, labels are added one by one instead.
MAX_SETS = 2_000
MAX_ROUNDS = 10


class Memberships(NamedTuple):
    """Labels of every sample, centroids that fit them, and the evidence for several.

    `sets` is samples x clusters, 0 or 1; `log_odds` compares the best set of several
    labels with the primary label alone.
    """

    sets: NDArray[np.int8]
    centroids: Floats
    log_odds: Floats


def assign_several(
    P: Floats,
    labels: Ints,
    centres: Floats,
    max_labels: int,
    sample_weight: Floats | None = None,
) -> Memberships:
    """Give every sample its primary label and, where the evidence is enough, others.

    Alternates between the best set of labels of every sample and centroids by least squares
    on the sets, in a space where the pooled spread within clusters is one in all directions.
    A sample has further labels where the likelihood outweighs the prior (5 % for each
    further label, spread over all sets of that size). All sets that contain the primary
    label are searched if they are few; otherwise labels are added one by one.
    """
    k = centres.shape[0]
    weight = np.ones(P.shape[0]) if sample_weight is None else sample_weight
    whiten = _whitening(P - centres[labels], weight)
    Q = P @ whiten
    mu = centres @ whiten
    most = min(max_labels, k)
    member = np.zeros((P.shape[0], k))
    member[np.arange(labels.size), labels] = 1.0
    odds = np.full(labels.size, -np.inf)
    for _ in range(MAX_ROUNDS):
        best, odds = _best_sets(Q, labels, mu, most)
        if (best == member).all():
            break
        member = best
        mu = _least_squares(Q, member, weight, mu)
    return Memberships(member.astype(np.int8), _least_squares(P, member, weight, centres), odds)


def _whitening(residuals: Floats, weight: Floats) -> Floats:
    """Turn and scale such that residuals have unit variance in all directions they have."""
    scatter = (residuals * weight[:, None]).T @ residuals / weight.sum()
    values, vectors = np.linalg.eigh(scatter)
    top = float(values.max(initial=0.0))
    varying = values > 1e-10 * max(top, np.finfo(float).tiny)
    # Directions of little spread are not trusted beyond a thousandth of the mean.
    least = 1e-3 * values[varying].sum() / max(1, int(varying.sum()))
    return np.asarray(vectors[:, varying] / np.sqrt(values[varying] + least))


def _penalty(size: int, k: int) -> float:
    """Return minus the log prior of one set of that size that contains a given label."""
    return float(np.log(comb(k - 1, size - 1)) - (size - 1) * np.log(PRIOR) - np.log1p(-PRIOR))


def _best_sets(Q: Floats, labels: Ints, mu: Floats, most: int) -> tuple[Floats, Floats]:
    """Return the best set for every sample, and the log odds of several labels against one."""
    k = mu.shape[0]
    if sum(comb(k - 1, size - 1) for size in range(1, most + 1)) * k > MAX_SETS:
        return _grown_sets(Q, labels, mu, most)
    member = np.zeros((Q.shape[0], k))
    odds = np.full(Q.shape[0], -np.inf)
    for label in range(k):
        rows = np.flatnonzero(labels == label)
        if rows.size == 0:
            continue
        others = [c for c in range(k) if c != label]
        alone = _energy(Q[rows], mu[[label]]) + _penalty(1, k)
        best, best_set = np.full(rows.size, np.inf), np.zeros((rows.size, k))
        for size in range(2, most + 1):
            for rest in combinations(others, size - 1):
                energy = _energy(Q[rows], mu[[label, *rest]]) + _penalty(size, k)
                better = energy < best
                best[better] = energy[better]
                best_set[better] = 0.0
                for c in (label, *rest):
                    best_set[better, c] = 1.0
        several = best < alone
        member[rows, label] = 1.0
        member[rows[several]] = best_set[several]
        odds[rows] = alone - best
    return member, odds


def _grown_sets(Q: Floats, labels: Ints, mu: Floats, most: int) -> tuple[Floats, Floats]:
    """Return what `_best_sets` does, with sets that grow by their best further label."""
    m, k = Q.shape[0], mu.shape[0]
    each = np.arange(m)
    grown = np.zeros((m, k))
    grown[each, labels] = 1.0
    total = mu[labels].copy()
    member = grown.copy()
    alone = ((Q - total) ** 2).sum(axis=1) / 2 + _penalty(1, k)
    lowest, odds = alone.copy(), np.full(m, -np.inf)
    for size in range(2, most + 1):
        energy = np.full((m, k), np.inf)
        for c in range(k):
            mean = (total + mu[c]) / size
            energy[:, c] = ((Q - mean) ** 2).sum(axis=1) / 2 + _penalty(size, k)
        energy[grown > 0] = np.inf
        added = energy.argmin(axis=1)
        grown[each, added] = 1.0
        total += mu[added]
        value = energy[each, added]
        odds = np.maximum(odds, alone - value)
        better = value < lowest
        member[better], lowest[better] = grown[better], value[better]
    return member, odds


def _energy(Q: Floats, centres: Floats) -> Floats:
    return np.asarray(((Q - centres.mean(axis=0)) ** 2).sum(axis=1) / 2)


def _least_squares(P: Floats, member: Floats, weight: Floats, before: Floats) -> Floats:
    """Return centroids that fit the samples best as means of the centroids of their labels."""
    A = member / member.sum(axis=1, keepdims=True)
    root = np.sqrt(weight)[:, None]
    # Relative to the centroids before: what the sets say nothing about stays.
    change = np.linalg.lstsq(A * root, (P - A @ before) * root, rcond=None)[0]
    return np.asarray(before + change)
