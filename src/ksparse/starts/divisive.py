"""A start that finds rare clusters: splits in two, each in features of its own.

Principal components of all samples are those of large clusters. Among the samples of one part of
them, other features vary, and a cluster that was too small to be seen is a larger share.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ksparse.core.y_step import assign, fill_empty
from ksparse.matrix import Floats, Ints, Matrix
from ksparse.starts.base import StartData

__all__ = ["DivisiveStart"]

# Splits are found among so many samples, and the others follow.
MAX_SAMPLES = 5_000
# Within a part the features of largest variance are used.
N_FEATURES = 500
# k-means runs in so many principal components of a part.
RANKS = (5, 10, 20)
N_INIT = 10
# The smallest part.
MIN_SIZE = 5
# There are so many times as many parts as clusters, before splits are undone (1.5 to 3 give the
# same results on all labelled sets).
MORE = 2
# Held-out margins: features of the rule, and halvings.
RULE_FEATURES, N_HALVINGS = 30, 2


class _Rule(NamedTuple):
    """Where a sample is between the two sides of a split: 0 at the mean of the first, 1 at the
    second, as a weighted sum of a few features minus an offset.
    """

    features: Ints
    weights: Floats
    offset: float


class _Part(NamedTuple):
    """Samples, and the best split of them that was found (None: there is none)."""

    rows: Ints
    score: float
    second: NDArray[np.bool_] | None
    rule: _Rule | None


class _Node(NamedTuple):
    """A split of one of the parts: samples of `part` that follow the rule become part `new`."""

    part: int
    new: int
    rule: _Rule
    score: float


class DivisiveStart:
    """Split the samples in two, again and again, where the sides are farthest apart.

    A split is found by k-means in the principal components of the features that vary most among
    the samples of a part. Splits are compared by the margins that samples have when features and
    centroids are those of the other half of the part, by side first. So a rare cluster counts as
    much as a large one, and a large cluster is not cut in two, as its halves have no margin.
    """

    def labels(self, data: StartData, rng: np.random.RandomState) -> Ints:
        """Return the parts; if there are too few, samples far from their centroids are more."""
        matrix, k = data.matrix, data.n_clusters
        m = matrix.shape[0]
        rows = np.arange(m)
        if m > MAX_SAMPLES:
            rows = np.sort(rng.choice(m, MAX_SAMPLES, replace=False))
            matrix = matrix.rows(rows)
        labels, nodes = _split_up(matrix, k)
        if rows.size < m:
            every = _follow(data.matrix, nodes)
            every[rows] = labels
            labels = every
        labels = np.unique(labels, return_inverse=True)[1]
        return fill_empty(data.embedding.scores, labels, k)


def _split_up(matrix: Matrix, k: int) -> tuple[Ints, list[_Node]]:
    """Return the part of each sample, numbered with gaps, and the splits that lead to it.

    A good split may be below a poor one. So there are more splits than are needed, and of them
    those remain whose scores have the largest sum.
    """
    parts, nodes = [_examined(matrix, np.arange(matrix.shape[0]))], list[_Node]()
    while len(parts) < MORE * k:
        best = max(range(len(parts)), key=lambda i: (parts[i].score, -i))
        part = parts[best]
        if part.second is None or part.rule is None:
            break
        nodes.append(_Node(best, len(parts), part.rule, part.score))
        parts[best] = _examined(matrix, part.rows[~part.second])
        parts.append(_examined(matrix, part.rows[part.second]))
    labels = np.empty(matrix.shape[0], dtype=np.intp)
    for number, part in enumerate(parts):
        labels[part.rows] = number
    kept = _best_splits(nodes, k - 1)
    for i in reversed(range(len(nodes))):
        if i not in kept:
            labels[labels == nodes[i].new] = nodes[i].part
    nodes = [node for i, node in enumerate(nodes) if i in kept]
    return labels, nodes


def _best_splits(nodes: list[_Node], n: int) -> set[int]:
    """Return which `n` splits, each with those above it, have the largest sum of scores."""

    @cache
    def best(i: int | None, n: int) -> tuple[float, frozenset[int]]:
        """Return the largest sum of `n` splits from the i-th down, and which they are."""
        if n == 0 or i is None:
            return (-np.inf if n else 0.0), frozenset()
        below = [next((j for j in range(i + 1, len(nodes)) if nodes[j].part == side), None)
                 for side in (nodes[i].part, nodes[i].new)]  # fmt: skip
        options = []
        for m in range(n):
            (one, ones), (other, others) = best(below[0], m), best(below[1], n - 1 - m)
            options.append((nodes[i].score + one + other, ones | others | {i}))
        return max(options, key=lambda option: option[0])

    return set(best(0 if nodes else None, min(n, len(nodes)))[1])


def _follow(matrix: Matrix, nodes: list[_Node]) -> Ints:
    """Return the part of every sample, by the rules of the splits, in one pass over the data."""
    W = np.zeros((matrix.shape[1], max(len(nodes), 1)))
    for column, (_, _, rule, _) in enumerate(nodes):
        W[rule.features, column] = rule.weights
    places = matrix.project(W) + matrix.mean @ (matrix.factor[:, None] * W)
    labels = np.zeros(matrix.shape[0], dtype=np.intp)
    for column, (part, new, rule, _) in enumerate(nodes):
        labels[(labels == part) & (places[:, column] - rule.offset > 0.5)] = new
    return labels


def _examined(matrix: Matrix, rows: Ints) -> _Part:
    """Return a part with its best split."""
    nothing = _Part(rows, -np.inf, None, None)
    if rows.size < 2 * MIN_SIZE:
        return nothing
    part = matrix.rows(rows)
    spread = part.variance * part.factor**2
    features = np.sort(np.argsort(-spread, kind="stable")[:N_FEATURES])
    features = features[spread[features] > 0]
    if features.size == 0:
        return nothing
    X, weight = part.columns(features), part.sample_weight
    best = nothing
    for second in _proposals(X, weight):
        score = _held_out_margin(X, second, weight)
        if score > best.score:
            best = _Part(rows, score, second, None)
    if best.second is None:
        return nothing
    rule = _discriminant(X, best.second, weight)
    where = features[rule.features]
    offset = rule.offset + float((part.mean * part.factor)[where] @ rule.weights)
    return _Part(rows, best.score, best.second, _Rule(where, rule.weights, offset))


def _proposals(X: Floats, weight: Floats | None) -> Iterator[NDArray[np.bool_]]:
    """Yield splits in two sides of at least `MIN_SIZE` samples each."""
    A = X if weight is None else X * np.sqrt(weight)[:, None]
    if A.shape[0] < A.shape[1]:
        values, U = np.linalg.eigh(A @ A.T)
        P = U[:, ::-1] * np.sqrt(np.maximum(values[::-1], 0.0))
        if weight is not None:
            P = P / np.sqrt(np.where(weight > 0, weight, np.inf))[:, None]
    else:
        P = X @ np.linalg.eigh(A.T @ A)[1][:, ::-1]
    seen = set()
    for rank in RANKS:
        points = np.ascontiguousarray(P[:, :rank])
        for criterion in ("margin", "inertia"):
            labels = assign(
                points, 2, np.random.RandomState(0), n_init=N_INIT, sample_weight=weight,
                criterion=criterion,
            ).labels  # fmt: skip
            second = labels != labels[0]
            key = second.tobytes()
            if key not in seen and MIN_SIZE <= second.sum() <= second.size - MIN_SIZE:
                seen.add(key)
                yield second


def _held_out_margin(X: Floats, second: NDArray[np.bool_], weight: Floats | None) -> float:
    """Return the mean margin of samples between centroids of other samples, by side first."""
    rng, margins = np.random.RandomState(0), []
    w = np.ones(second.size) if weight is None else weight
    for _ in range(N_HALVINGS):
        half = np.zeros(second.size, dtype=bool)
        for side in (~second, second):
            members = rng.permutation(np.flatnonzero(side))
            half[members[: (members.size + rng.randint(2)) // 2]] = True
        for train in (half, ~half):
            features, weights, offset = _discriminant(X[train], second[train], w[train])
            places = X[np.ix_(~train, features)] @ weights - offset
            own = np.abs(places - second[~train])
            other = np.abs(places - ~second[~train])
            margin = (other - own) / np.maximum(np.maximum(own, other), np.finfo(float).tiny)
            for side in (~second[~train], second[~train]):
                margins.append(float(np.average(margin[side], weights=w[~train][side])))
    return float(np.mean(margins))


def _discriminant(X: Floats, second: NDArray[np.bool_], weight: Floats | None) -> _Rule:
    """Return the rule of the features that tell two sides apart best, each by itself."""
    w = np.ones(second.size) if weight is None else weight
    means, variances = [], []
    for side in (~second, second):
        share = w[side] / w[side].sum()
        means.append(share @ X[side])
        variances.append(share @ (X[side] - means[-1]) ** 2)
    difference, noise = means[1] - means[0], (variances[0] + variances[1]) / 2
    noise = noise + max(float(noise.mean()), np.finfo(float).tiny)
    chosen = np.argsort(-(difference**2 / noise), kind="stable")[:RULE_FEATURES]
    weights = difference[chosen] / noise[chosen]
    length = float(weights @ difference[chosen])
    weights /= length if length > 0 else 1.0
    return _Rule(chosen, weights, float(weights @ means[0][chosen]))
