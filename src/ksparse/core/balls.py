"""Convex balls: what bounds the weights of a projection.

A ball knows its norm, the dual norm (which gives the certificate of a solution), and the
exact Euclidean projection on it. The projection on the l1 ball is what makes the weights of
k-sparse sparse. It is computed by Condat's method (Mathematical Programming, 2016), extended
to a cost per entry: expected linear time, no sorting, exact up to rounding.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ksparse._compile import compiled
from ksparse._errors import InputError

__all__ = ["BALLS", "Ball", "L1Ball", "project_l1"]

Floats = NDArray[np.float64]


@compiled
def _threshold(values: NDArray[Any], costs: NDArray[Any], radius: float) -> float:
    """Return tau >= 0 such that sum(c * max(v - tau * c, 0)) = radius.

    `values` are non-negative, `costs` positive, and sum(costs * values) > radius >= 0.
    For every subset S of the entries, (sum_S c v - radius) / sum_S c^2 is a lower bound
    of tau, with equality on the final active set. The scan keeps such a subset and
    discards whatever lies below the bound; what it discarded too early waits in `later`.
    """
    n = values.size
    active = np.empty(n, dtype=np.int64)
    later = np.empty(n, dtype=np.int64)
    n_active = 0
    n_later = 0
    total = 0.0
    square = 0.0
    tau = -1.0  # below every ratio, so that the first entry is taken
    for i in range(n):
        c = costs[i]
        if values[i] <= tau * c:
            continue
        candidate = (total + c * values[i] - radius) / (square + c * c)
        alone = (c * values[i] - radius) / (c * c)
        if candidate > alone:
            active[n_active] = i
            n_active += 1
            total += c * values[i]
            square += c * c
            tau = candidate
        else:
            for j in range(n_active):
                later[n_later] = active[j]
                n_later += 1
            active[0] = i
            n_active = 1
            total = c * values[i]
            square = c * c
            tau = alone
    for j in range(n_later):
        i = later[j]
        if values[i] > tau * costs[i]:
            active[n_active] = i
            n_active += 1
            total += costs[i] * values[i]
            square += costs[i] * costs[i]
            tau = (total - radius) / square
    while True:
        n_above = 0
        total = 0.0
        square = 0.0
        for j in range(n_active):
            i = active[j]
            if values[i] > tau * costs[i]:
                active[n_above] = i
                n_above += 1
                total += costs[i] * values[i]
                square += costs[i] * costs[i]
        if n_above == 0:  # radius 0: nothing exceeds the largest ratio
            return tau
        # Every bound is a lower bound: rounding must not make it fall.
        tau = max(tau, (total - radius) / square)
        if n_above == n_active:
            return max(tau, 0.0)
        n_active = n_above


def _costs(weights: ArrayLike, shape: tuple[int, ...]) -> NDArray[np.float64]:
    given = np.asarray(weights)
    if given.dtype.kind not in "fiub":
        raise InputError(f"weights must be real numbers, got dtype {given.dtype}.")
    try:
        costs = np.broadcast_to(given.astype(np.float64), shape).ravel()
    except ValueError:
        raise InputError(
            f"weights of shape {given.shape} do not fit V of shape {shape}: "
            "give one weight per entry, or an array that broadcasts to V."
        ) from None
    if np.isnan(costs).any() or (costs < 0).any():
        raise InputError("weights must be >= 0 (0: free entry, infinity: entry set to 0).")
    return costs


def project_l1(V: ArrayLike, radius: float, weights: ArrayLike | None = None) -> NDArray[Any]:
    """Project an array on the l1 ball, exactly and in expected linear time.

    Returns the point W nearest to V (in Euclidean distance) with
    ``sum(weights * abs(W)) <= radius``. The array is treated as one long vector,
    whatever its shape, as in the paper.

    Parameters
    ----------
    V : array-like of any shape
        What to project. float32 stays float32; integers become float64.
    radius : float
        Radius of the ball, >= 0; infinity bounds nothing.
    weights : array-like, optional
        Cost of each entry in the norm, broadcast against V: 0 leaves the entry as it
        is, infinity sets it to zero. All ones by default.

    Returns
    -------
    ndarray
        A new array of the shape of V.

    Examples
    --------
    >>> import numpy as np
    >>> from ksparse.core.balls import project_l1
    >>> project_l1(np.array([3.0, -1.0, 0.5]), radius=2.0)
    array([ 2., -0.,  0.])
    >>> project_l1(np.array([3.0, -1.0, 0.5]), radius=2.0, weights=[0.0, 1.0, 1.0])
    array([ 3. , -1. ,  0.5])
    """
    array = np.asarray(V)
    if array.dtype not in (np.float32, np.float64):
        if array.dtype.kind not in "fiub":
            raise InputError(f"V must be a real array, got dtype {array.dtype}.")
        array = array.astype(np.float64)
    if not isinstance(radius, Real):
        raise InputError(f"radius={radius!r} must be a number.")
    radius = float(radius)
    if math.isnan(radius) or radius < 0:
        raise InputError(f"radius={radius} must be >= 0.")
    magnitude = np.abs(array, dtype=np.float64).ravel()
    largest = float(magnitude.max(initial=0.0))
    if not math.isfinite(largest):
        raise InputError("V must be finite, but it contains NaN or infinity.")

    costs = np.ones_like(magnitude) if weights is None else _costs(weights, array.shape)

    shrunk = magnitude.copy()
    shrunk[np.isinf(costs)] = 0.0
    bounded = np.isfinite(costs) & (costs > 0) & (magnitude > 0)
    if bounded.any():
        # Work in units of the largest value and the largest cost: no overflow, no underflow.
        unit = float(magnitude[bounded].max())
        cost_unit = float(costs[bounded].max())
        v, c = magnitude[bounded] / unit, costs[bounded] / cost_unit
        if c.min() < 1e-150:  # its square would underflow
            raise InputError(
                f"weights range from {c.min() * cost_unit:.3g} to {cost_unit:.3g}, too far apart "
                "to compute with; use 0 or infinity for the extreme ones."
            )
        r = radius / cost_unit / unit
        if radius == 0:
            shrunk[bounded] = 0.0
        elif float(np.dot(c, v)) > r:
            tau = _threshold(v, c, r)
            w = np.maximum(v - tau * c, 0.0)
            # Where the radius is far below the values, v - tau * c has lost digits.
            w *= min(1.0, r / max(float(np.dot(c, w)), np.finfo(np.float64).tiny))
            shrunk[bounded] = w * unit
    return np.asarray(np.copysign(shrunk.reshape(array.shape), array), dtype=array.dtype)


class Ball(ABC):
    """Weights W (features x components) with norm(W) <= radius.

    Every feature has a cost in the norm. Features of cost 0 are free: they add nothing to the
    norm and are not bounded. Features of infinite cost are excluded: their weights are zero.
    A new kind of ball is a subclass and an entry in `BALLS`.
    """

    @abstractmethod
    def project(self, V: Floats, radius: float, costs: Floats) -> Floats:
        """Return the point of the ball that is nearest to V."""

    @abstractmethod
    def norm(self, W: Floats, costs: Floats) -> float:
        """Return the norm of W, without the features that are free or excluded."""

    @abstractmethod
    def dual_norm(self, G: Floats, costs: Floats) -> float:
        """Return the largest inner product of G with a W of norm 1, over the same features."""

    def gap(self, gradient: Floats, W: Floats, radius: float, costs: Floats) -> float:
        """Return the Frank-Wolfe gap at W: how far the objective may be above its minimum."""
        bounded = _bounded(costs)
        linear = float(np.vdot(gradient[bounded], W[bounded]))
        largest = self.dual_norm(gradient, costs)
        # radius * 0 even if the radius is infinite: a zero gradient is optimal.
        return linear + (radius * largest if largest > 0 else 0.0)


def _bounded(costs: Floats) -> NDArray[np.bool_]:
    return (costs > 0) & np.isfinite(costs)


class L1Ball(Ball):
    """The ball of the paper: sum(costs * abs(W)) <= radius."""

    def project(self, V: Floats, radius: float, costs: Floats) -> Floats:
        """Return the point of the ball that is nearest to V."""
        return project_l1(V, radius, costs[:, None])

    def norm(self, W: Floats, costs: Floats) -> float:
        """Return the weighted l1 norm of W."""
        bounded = _bounded(costs)
        return float(costs[bounded] @ np.abs(W[bounded]).sum(axis=1))

    def dual_norm(self, G: Floats, costs: Floats) -> float:
        """Return the largest entry of G per unit of cost."""
        return float(self.ratios(G, costs).max(initial=0.0))

    def ratios(self, G: Floats, costs: Floats) -> Floats:
        """Return the largest |G| of each feature per unit of its cost (0: free or excluded)."""
        bounded = _bounded(costs)
        out = np.zeros(costs.size)
        out[bounded] = np.abs(G[bounded]).max(axis=1) / costs[bounded]
        return out


BALLS: dict[str, Ball] = {"l1": L1Ball()}
