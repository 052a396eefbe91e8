"""Thresholds of single features for every group, found on the samples of a training part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ksparse._compile import compiled
from ksparse.matrix.data import column_blocks

__all__ = ["SIGNS", "Condition", "Cuts", "find_cuts", "fulfils"]

Floats = NDArray[np.float64]

# "+": above the threshold, "-": not above it; in the order of the axes of `Cuts`.
SIGNS = ("+", "-")
# Columns that are sorted at once.
WIDTH = 64


class Condition(NamedTuple):
    """A feature above its threshold ("+"), or not above it ("-")."""

    feature: int
    sign: str
    threshold: float


class Cuts(NamedTuple):
    """Thresholds of all features.

    Attributes
    ----------
    thresholds : ndarray, features x groups x signs x 2
        The cuts with the largest J of Youden and the largest F; NaN where no cut separates the
        group at all (J <= 0).
    values : ndarray, features x groups
        The largest F of the feature alone, with either sign.
    """

    thresholds: Floats
    values: Floats

    def conditions(self, group: int, features: Sequence[int]) -> list[Condition]:
        """Return the conditions of some features for a group, each once."""
        out: dict[Condition, None] = {}
        for feature in features:
            for s, sign in enumerate(SIGNS):
                for threshold in self.thresholds[feature, group, s]:
                    if not np.isnan(threshold):
                        out[Condition(int(feature), sign, float(threshold))] = None
        return list(out)


def fulfils(values: Floats, condition: Condition) -> NDArray[np.bool_]:
    """Return which values of the feature of a condition fulfil it."""
    above = values > condition.threshold
    return above if condition.sign == "+" else ~above


def find_cuts(X: Any, codes: NDArray[np.int64], members: NDArray[np.int64], beta: float) -> Cuts:
    """Return the best cuts of every feature for every group against all other samples.

    Parameters
    ----------
    X : array or sparse matrix, samples x features
        Samples in memory.
    codes : ndarray of int
        The group of each sample.
    members : ndarray of int
        The size of each group for F; larger than that in `codes` if some of its samples were
        left out before.
    beta : float
        Of F.
    """
    n_groups = members.size
    thresholds = np.full((X.shape[1], n_groups, 2, 2), np.nan)
    values = np.zeros((X.shape[1], n_groups))
    for columns, block in column_blocks(X, WIDTH):
        order = np.argsort(block, axis=0, kind="stable").T
        ordered = np.take_along_axis(block.T, order, axis=1)
        _cut(ordered, codes[order], members, beta**2, thresholds[columns], values[columns])
    return Cuts(thresholds, values)


@compiled
def _cut(
    ordered: Floats,
    codes: NDArray[np.int64],
    members: NDArray[np.int64],
    weight: float,
    thresholds: NDArray[Any],
    values: NDArray[Any],
) -> None:
    """Fill in the thresholds and values of columns whose values are in increasing order."""
    n_columns, n = ordered.shape
    n_groups = members.size
    for column in range(n_columns):
        x = ordered[column]
        sizes, below = np.zeros(n_groups), np.zeros(n_groups)
        best = np.zeros((n_groups, 2, 2))
        for i in range(n):
            sizes[codes[column, i]] += 1
        for i in range(n - 1):
            below[codes[column, i]] += 1
            if not x[i + 1] > x[i]:
                continue
            # Halfway to the next value; but above 0 is "detected", however low.
            cut = 0.5 * x[i] + 0.5 * x[i + 1]
            if (x[i] == 0 and x[0] == 0) or not x[i] <= cut < x[i + 1]:
                cut = x[i]
            for g in range(n_groups):
                others = n - sizes[g]
                if sizes[g] == 0 or others == 0:
                    continue
                fp = i + 1 - below[g]
                gain = below[g] / sizes[g] - fp / others  # J of "-"
                low = below[g] / (weight * members[g] + i + 1)
                high = (sizes[g] - below[g]) / (weight * members[g] + n - i - 1)
                for sign in range(2):
                    j, f = (gain, low) if sign == 1 else (-gain, high)
                    if j <= 0:
                        continue
                    if j > best[g, sign, 0]:
                        best[g, sign, 0] = j
                        thresholds[column, g, sign, 0] = cut
                    if f > best[g, sign, 1]:
                        best[g, sign, 1] = f
                        thresholds[column, g, sign, 1] = cut
        for g in range(n_groups):
            values[column, g] = (1 + weight) * max(best[g, 0, 1], best[g, 1, 1])
