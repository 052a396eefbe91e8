"""The lasso path on a Gram matrix: the inner problem of the l1 selector and solver.

On the ball all components share one multiplier (here `penalty`), and given the
multiplier they are independent lasso problems. As the penalty falls from where all
weights are zero, the weights of a component move along straight lines, which bend only
where a feature enters or leaves (Osborne, Presnell and Turlach 2000; Efron, Hastie,
Johnstone and Tibshirani 2004). Following these lines is exact: no tolerance, no
iterations that strong correlations could slow down; and it tells at which penalty there
are how many features, and how large the norm is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ksparse._compile import compiled
from ksparse._threads import map_parts
from ksparse.matrix import Floats, Ints

__all__ = ["LassoPaths"]

# Relative to its variance, what the features in use must leave of a feature that enters.
COLLINEAR = 1e-10
# Events after which weights are computed afresh, so that rounding does not add up.
REFRESH = 32
# The path is followed in stages; each goes to this share of the last one's penalty.
STAGE = 0.7
# Relative to the largest penalty: below this, whatever can enter has entered.
SMALLEST_PENALTY = 1e-9
# Events within this relative range of penalties are one event.
TIE = 1e-9

# Why `_follow` returned.
DONE, FULL = 0, 1

Array = NDArray[Any]


@compiled
def _solve_lower(L: Floats, n: int, x: Floats) -> None:
    """Solve L x = b in place, for the leading n x n block."""
    for i in range(n):
        total = x[i]
        for j in range(i):
            total -= L[i, j] * x[j]
        x[i] = total / L[i, i]


@compiled
def _solve_both(L: Floats, n: int, x: Floats) -> None:
    """Solve L L' x = b in place."""
    _solve_lower(L, n, x)
    for i in range(n - 1, -1, -1):
        x[i] /= L[i, i]
        for j in range(i):
            x[j] -= L[i, j] * x[i]


@compiled
def _append(G: Floats, active: Ints, L: Floats, n: int, j: int) -> bool:
    """Extend the Cholesky factor by feature j, unless the others determine it."""
    row = np.empty(n)
    for i in range(n):
        row[i] = G[active[i], j]
    _solve_lower(L, n, row)
    left = G[j, j]
    for i in range(n):
        left -= row[i] * row[i]
    if left <= COLLINEAR * G[j, j]:
        return False
    L[n, :n] = row
    L[n, n] = np.sqrt(left)
    active[n] = j
    return True


@compiled
def _remove(active: Ints, L: Floats, n: int, at: int) -> None:
    """Take the feature at a place out of the Cholesky factor (by Givens rotations)."""
    for i in range(at, n - 1):
        active[i] = active[i + 1]
        for j in range(i + 2):
            L[i, j] = L[i + 1, j]
    for k in range(at, n - 1):
        a, b = L[k, k], L[k, k + 1]
        length = np.hypot(a, b)
        cosine, sine = a / length, b / length
        for i in range(k, n - 1):
            x, y = L[i, k], L[i, k + 1]
            L[i, k] = cosine * x + sine * y
            L[i, k + 1] = cosine * y - sine * x
        L[k, k + 1] = 0.0


@compiled
def _refresh(
    G: Floats, c: Floats, costs: Floats, penalty: float, w: Floats, r: Floats,
    active: Ints, sign: Floats, L: Floats, n: int,
) -> None:  # fmt: skip
    """Compute weights and gradient from the optimality conditions of the features in use."""
    x = np.empty(n)
    for i in range(n):
        j = active[i]
        x[i] = c[j] - penalty * sign[j] * costs[j]
    _solve_both(L, n, x)
    r[:] = c
    for i in range(n):
        j = active[i]
        w[j] = x[i]
        for q in range(r.size):
            r[q] -= G[j, q] * x[i]


@compiled
def _direction(
    G: Floats, costs: Floats, active: Ints, sign: Floats, L: Floats, n: int
) -> tuple[Floats, Floats]:
    """Return how the weights in use, and -r, move as the penalty falls by one."""
    step = np.empty(n)
    for i in range(n):
        step[i] = sign[active[i]] * costs[active[i]]
    _solve_both(L, n, step)
    slope = np.zeros(costs.size)  # made here: the compiler then knows that it is no part of G
    for i in range(n):
        x = step[i]
        row = G[active[i]]
        for q in range(slope.size):
            slope[q] += x * row[q]
    return step, slope


@compiled
def _next_event(
    costs: Floats, penalty: float, stop: float, w: Floats, r: Floats, active: Ints,
    sign: Floats, shut: Array, n: int, left_last: int, step: Floats, slope: Floats,
) -> tuple[float, int, int, float]:  # fmt: skip
    """Return how far the penalty falls to the next event, or to `stop`, and what happens there.

    That is the place in `active` of the feature that leaves, the feature that enters (-1: none
    does), and the sign with which it enters.
    """
    length, leaving, entering, side = penalty - stop, -1, -1, 0.0
    for i in range(n):
        j = active[i]
        if costs[j] > 0.0 and step[i] * sign[j] < 0.0:
            until = max(-w[j] / step[i], 0.0)
            if until < length:
                length, leaving, entering = until, i, -1
    for j in range(w.size):
        if sign[j] != 0.0 or shut[j]:
            continue
        bound = penalty * costs[j]
        if costs[j] > slope[j] and left_last != 1 + j:
            until = max((bound - r[j]) / (costs[j] - slope[j]), 0.0)
            if until < length:
                length, leaving, entering, side = until, -1, j, 1.0
        if costs[j] > -slope[j] and left_last != -1 - j:
            until = max((bound + r[j]) / (costs[j] + slope[j]), 0.0)
            if until < length:
                length, leaving, entering, side = until, -1, j, -1.0
    return length, leaving, entering, side


@compiled
def _follow(
    G: Floats, c: Floats, costs: Floats, stop: float, w: Floats, r: Floats, active: Ints,
    sign: Floats, shut: Array, L: Floats, numbers: Ints, where: Floats,
    event_penalty: Floats, event_feature: Ints, event_norm: Floats,
) -> tuple[int, int]:  # fmt: skip
    """Follow the path of one component down to the penalty `stop`.

    `numbers` holds the number of features in use and the feature that has just left (1 + j
    from the positive side, -1 - j from the negative: it cannot enter there again before
    something else happens), `where` the penalty. Features that are combinations of those in
    use are shut out until one leaves: their gradient stays in proportion to the penalty.
    Events are a feature j that enters (j) or leaves (-1 - j). Returns why it stopped, and
    the number of events.
    """
    n, left_last = numbers[0], numbers[1]
    penalty, n_events = where[0], 0
    while penalty > stop:
        if n == L.shape[0] or n_events == event_penalty.size:
            numbers[0], numbers[1], where[0] = n, left_last, penalty
            return FULL, n_events
        step, slope = _direction(G, costs, active, sign, L, n)
        length, leaving, entering, side = _next_event(
            costs, penalty, stop, w, r, active, sign, shut, n, left_last, step, slope
        )
        for i in range(n):
            w[active[i]] += length * step[i]
        for q in range(r.size):
            r[q] -= length * slope[q]
        if leaving < 0 and entering < 0:
            penalty = stop
            break
        penalty -= length
        left_last = 0
        if leaving >= 0:
            j = active[leaving]
            left_last = 1 + j if sign[j] > 0.0 else -1 - j
            _remove(active, L, n, leaving)
            n -= 1
            w[j] = sign[j] = 0.0
            shut[:] = False
            event_feature[n_events] = -1 - j
        elif _append(G, active, L, n, entering):
            n += 1
            sign[entering] = side
            event_feature[n_events] = entering
        else:
            shut[entering] = True
            continue
        norm = 0.0
        for i in range(n):
            norm += costs[active[i]] * abs(w[active[i]])
        event_penalty[n_events], event_norm[n_events] = penalty, norm
        n_events += 1
        if n_events % REFRESH == 0:
            _refresh(G, c, costs, penalty, w, r, active, sign, L, n)
    _refresh(G, c, costs, penalty, w, r, active, sign, L, n)
    numbers[0], numbers[1], where[0] = n, left_last, penalty
    return DONE, n_events


class Events(NamedTuple):
    """What happened along a part of a path, in order."""

    penalty: Floats
    feature: Ints
    norm: Floats


class _Component:
    """One column of the targets, and where its path has come to."""

    def __init__(self, G: Floats, c: Floats, costs: Floats) -> None:
        p = c.size
        self.G, self.c, self.costs = G, np.ascontiguousarray(c), costs
        self.w, self.r, self.sign = np.zeros(p), self.c.copy(), np.zeros(p)
        self.shut = ~((np.diag(G) > 0) & np.isfinite(costs))
        self.free = np.flatnonzero((costs == 0) & ~self.shut)
        size = min(p, self.free.size + 32)
        self.active, self.L = np.zeros(p, dtype=np.intp), np.zeros((size + 1, size + 1))
        self.numbers, self.where = np.zeros(2, dtype=np.intp), np.array([np.inf])
        for j in self.free:
            if _append(G, self.active, self.L, int(self.numbers[0]), int(j)):
                self.numbers[0] += 1
                self.sign[j] = 1.0
            else:
                self.shut[j] = True
        _refresh(
            G, self.c, np.where(costs > 0, np.nan, 0.0), 0.0, self.w, self.r, self.active,
            self.sign, self.L, int(self.numbers[0]),
        )  # fmt: skip
        paid = (costs > 0) & ~self.shut
        self.top = float((np.abs(self.r[paid]) / costs[paid]).max(initial=0.0))

    def follow(self, stop: float) -> Events:
        """Go on to the penalty `stop`; return what happened on the way."""
        pieces: list[tuple[Array, Array, Array]] = []
        if self.where[0] > self.top:
            self.where[0] = max(self.top, stop)
        status = FULL
        while status == FULL:
            if self.numbers[0] == self.L.shape[0]:
                self.L = np.pad(self.L, (0, self.L.shape[0]))
            size = 256
            events = np.empty(size), np.empty(size, dtype=np.intp), np.empty(size)
            status, n = _follow(
                self.G, self.c, self.costs, stop, self.w, self.r, self.active, self.sign,
                self.shut, self.L, self.numbers, self.where, *events,
            )  # fmt: skip
            pieces.append((events[0][:n], events[1][:n], events[2][:n]))
        return Events(*(np.concatenate(column) for column in zip(*pieces, strict=True)))

    def norm(self) -> float:
        used = np.flatnonzero(self.w)
        return float(self.costs[used] @ np.abs(self.w[used]))

    def state(self) -> tuple[Array, ...]:
        names = (self.w, self.r, self.sign, self.shut, self.active, self.L)
        return tuple(x.copy() for x in (*names, self.numbers, self.where))

    def restore(self, state: tuple[Array, ...]) -> None:
        self.w, self.r, self.sign, self.shut, self.active, self.L = state[:6]
        self.numbers, self.where = state[6:]


class Reached(NamedTuple):
    """A penalty, and whether the solution there is what was asked for."""

    penalty: float
    reached: bool


class LassoPaths:
    """min_W 1/2 <W, G W> - <C, W> + penalty * sum(costs * abs(W)) for falling penalties.

    Parameters
    ----------
    G : ndarray
        Gram matrix of the features.
    C : ndarray, features x components
        Their correlation with the targets.
    costs : ndarray
        Cost of each feature: 0 is free (always in use), infinity shuts it out.
    """

    def __init__(self, G: Floats, C: Floats, costs: Floats) -> None:
        G = np.ascontiguousarray(G)
        self.parts = [_Component(G, column, costs) for column in C.T]
        self.top = max((part.top for part in self.parts), default=0.0)
        self.penalty = np.inf

    @property
    def weights(self) -> Floats:
        """The solution at the penalty to which the paths have been followed."""
        return np.column_stack([part.w for part in self.parts])

    def _follow(self, stop: float) -> list[Events]:
        self.penalty = stop
        return map_parts(lambda part: part.follow(stop), self.parts)

    def _return_to(self, states: list[tuple[Array, ...]], penalty: float) -> None:
        """Go back to an earlier state, and on from there."""
        for part, state in zip(self.parts, states, strict=True):
            part.restore(state)
        self._follow(penalty)

    def go_to_penalty(self, penalty: float) -> None:
        """Go on to a penalty below the present one."""
        self._follow(penalty)

    def go_to_count(self, n: int) -> Reached:
        """Go on to the next penalty at which exactly `n` features are in use.

        Where more than one enters at the same penalty and the number is passed over, go
        to where there are more; if so many never enter, to (nearly) the end of the path.
        """
        uses = np.sum([part.sign != 0 for part in self.parts], axis=0)
        count = int(np.count_nonzero(uses))
        if count >= n:
            self._follow(min(self.penalty, 1.001 * self.top))
            return Reached(self.penalty, count == n)
        stop = min(self.penalty, self.top)
        while stop > SMALLEST_PENALTY * self.top:
            stop *= STAGE
            states = [part.state() for part in self.parts]
            events = self._follow(stop)
            at = np.concatenate([e.penalty for e in events])
            what = np.concatenate([e.feature for e in events])
            order = np.argsort(-at, kind="stable")
            at, what = np.append(at[order], stop), what[order]
            for e, feature in enumerate(what):
                if feature >= 0:
                    count += uses[feature] == 0
                    uses[feature] += 1
                else:
                    uses[-1 - feature] -= 1
                    count -= uses[-1 - feature] == 0
                if count >= n and at[e + 1] < at[e] * (1 - TIE):
                    # Near the end of the interval, where the newest weights are largest.
                    penalty = float(at[e + 1] + 0.1 * (at[e] - at[e + 1]))
                    self._return_to(states, penalty)
                    return Reached(penalty, count == n)
        # Not to 0: there, features enter that have nothing but rounding to give.
        return Reached(min(self.penalty, self.top), False)

    def go_to_norm(self, radius: float) -> Reached:
        """Go on to the penalty at which the weighted l1 norm is `radius`.

        If even the end of the path has a smaller norm, go there: the ball does not bind.
        """
        stop = min(self.penalty, self.top)
        while stop > SMALLEST_PENALTY * self.top:
            start, stop = stop, stop * STAGE
            states = [part.state() for part in self.parts]
            first = [part.norm() for part in self.parts]
            events = self._follow(stop)
            if sum(part.norm() for part in self.parts) < radius:
                continue
            # Norms are linear between the events of a component: so is their sum between all.
            at = np.unique(np.concatenate([e.penalty for e in events] + [np.array([start, stop])]))
            norm = np.zeros(at.size)
            for part, norm_first, bend in zip(self.parts, first, events, strict=True):
                bends = np.concatenate([[start], bend.penalty, [stop]])
                values = np.concatenate([[norm_first], bend.norm, [part.norm()]])
                norm += np.interp(at, bends[::-1], values[::-1])
            last = int(np.flatnonzero(norm >= radius)[-1])
            penalty = float(at[last])
            if last + 1 < at.size:
                share = (norm[last] - radius) / max(norm[last] - norm[last + 1], 1e-300)
                penalty += share * float(at[last + 1] - at[last])
            self._return_to(states, penalty)
            return Reached(penalty, True)
        self._follow(0.0)
        return Reached(0.0, False)
