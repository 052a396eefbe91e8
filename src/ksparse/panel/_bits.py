"""The best conjunction of a given length: an exhaustive search with sets of bits.

A condition (a feature above or below a threshold) is the set of samples that fulfil it, 64 to
a word. Samples of the group and all others are kept apart, so that true and false positives of
a conjunction are counted by AND and a count of bits. Branches are left out only if a bound
proves that they hold nothing better, so the result is that of trying every combination.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ksparse._compile import compiled

__all__ = ["Conjunction", "best_conjunctions", "f_score", "pack"]

Words = NDArray[np.uint64]

M1, M2, M4 = (np.uint64(mask) for mask in (0x5555555555555555, 0x3333333333333333,
                                           0x0F0F0F0F0F0F0F0F))  # fmt: skip
H1 = np.uint64(0x0101010101010101)
S1, S2, S4, S56 = (np.uint64(shift) for shift in (1, 2, 4, 56))


class Conjunction(NamedTuple):
    """Conditions (as places in the list that was searched), and what they hold."""

    conditions: tuple[int, ...]
    true_positives: int
    false_positives: int


def pack(inside: NDArray[np.bool_]) -> Words:
    """Return rows of True and False as rows of words, filled up with zeros."""
    n_rows, n = inside.shape
    n_words = max(1, -(-n // 64))
    packed = np.zeros((n_rows, 8 * n_words), dtype=np.uint8)
    packed[:, : -(-n // 8)] = np.packbits(inside, axis=1, bitorder="little")
    return packed.view(np.uint64)


def f_score(true_positives: Any, inside: Any, positives: Any, beta: float) -> Any:
    """Return F_beta from numbers of samples; 0 where nothing is found."""
    return (1 + beta**2) * true_positives / (beta**2 * positives + inside)


def best_conjunctions(
    members: Words,
    others: Words,
    features: NDArray[np.int64],
    n_members: int,
    *,
    beta: float,
    max_length: int,
) -> list[Conjunction]:
    """Return the best conjunction of at most 1, 2, ..., `max_length` conditions.

    Parameters
    ----------
    members, others : ndarray of uint64, conditions x words
        Which samples of the group, and which others, fulfil each condition.
    features : ndarray of int
        The feature of each condition: a conjunction uses a feature once.
    n_members : int
        Number of samples of the group.
    beta : float
        Of F_beta, which is maximised. Among equals, the conjunction with fewer conditions is
        returned, then the one with the larger precision, then the one whose conditions come
        first in the list.
    max_length : int
        The largest number of conditions.

    Returns
    -------
    list of Conjunction
        One for each length; where no longer one is better, the shorter one again. Empty if
        there are no conditions.
    """
    if not features.size:
        return []
    weight = float(beta) ** 2
    counts = _count_alone(members, others)
    best = Conjunction((), 0, 0)
    out: list[Conjunction] = []
    for length in range(1, max_length + 1):
        tp, fp = best.true_positives, best.false_positives
        floor = tp / (weight * n_members + tp + fp)
        if length == 1:
            chosen, left = _best_alone(counts, n_members, weight)
        else:
            # What the best shorter one makes with one more condition is a good start: whatever
            # is worse need not be looked at. It is found again, or something that is better.
            used = np.array(best.conditions, dtype=np.int64)
            greedy = _extend(members, others, features, used, n_members, weight)
            floor = max(floor, float(np.nextafter(greedy, 0.0)))
            chosen, left = _search(
                members, others, counts, features, n_members, weight, length, floor
            )
        if left[0] > 0:
            best = Conjunction(tuple(int(c) for c in chosen), int(left[0]), int(left[1]))
        if not best.conditions:
            break
        out.append(best)
    return out


@compiled
def _count_both(a: Words, b: Words) -> int:
    """Return the number of bits in a AND b (a form that LLVM knows, and makes fast)."""
    total = np.uint64(0)
    for i in range(a.size):
        x = a[i] & b[i]
        x = x - ((x >> S1) & M1)
        x = (x & M2) + ((x >> S2) & M2)
        x = (x + (x >> S4)) & M4
        total += (x * H1) >> S56
    return int(total)


@compiled
def _value(tp: int, fp: int, n_members: int, weight: float) -> float:
    """Return F_beta but for its constant factor: it is exact for beta = 1."""
    return tp / (weight * n_members + tp + fp)


@compiled
def _extend(
    members: Words, others: Words, features: NDArray[Any], used: NDArray[Any], n: int, weight: float
) -> float:
    """Return the best value of a conjunction with one more condition."""
    inside, outside = members[used[0]].copy(), others[used[0]].copy()
    for c in used[1:]:
        inside &= members[c]
        outside &= others[c]
    best = 0.0
    for c in range(features.size):
        if np.any(features[used] == features[c]):
            continue
        tp = _count_both(inside, members[c])
        best = max(best, _value(tp, _count_both(outside, others[c]), n, weight))
    return best


@compiled
def _better(tp: int, fp: int, n: int, weight: float, best: float, precision: float) -> bool:
    """Return whether these counts have a larger value, or an equal one and more precision.

    Of bounds it is exact, too: the value rises with tp and falls with fp, so that something in
    a branch equals the bound only if it has its very counts.
    """
    value = _value(tp, fp, n, weight)
    return tp > 0 and (value > best or (value == best and tp / (tp + fp) > precision))


@compiled
def _record(counts: NDArray[Any], n: int, weight: float) -> tuple[float, float]:
    """Return value and precision of the counts of what is best so far."""
    return _value(counts[0], counts[1], n, weight), counts[0] / (counts[0] + counts[1])


@compiled
def _largest_sums(fps: NDArray[Any], n: int, fp: int, most: int, sums: NDArray[Any]) -> None:
    """Write how many false positives the `most` (at most 3) next conditions may remove.

    That is at most the sum of what each removes alone, of the largest from each place on.
    """
    a, b, c = 0, 0, 0
    sums[n] = 0
    for i in range(n - 1, -1, -1):
        x = fp - fps[i]
        if x > a:
            a, b, c = x, a, b
        elif x > b:
            b, c = x, b
        elif x > c:
            c = x
        sums[i] = a + (b if most > 1 else 0) + (c if most > 2 else 0)


@compiled
def _count_alone(members: Words, others: Words) -> NDArray[Any]:
    """Return true and false positives of every condition alone, 2 x conditions."""
    counts = np.empty((2, members.shape[0]), np.int64)
    for c in range(members.shape[0]):
        counts[0, c] = _count_both(members[c], members[c])
        counts[1, c] = _count_both(others[c], others[c])
    return counts


@compiled
def _best_alone(counts: NDArray[Any], n: int, weight: float) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the best single condition, and its counts."""
    chosen, left = np.zeros(1, np.int64), np.zeros(2, np.int64)
    best, precision = 0.0, 1.0
    for c in range(counts.shape[1]):
        if _better(counts[0, c], counts[1, c], n, weight, best, precision):
            chosen[0] = c
            left[:] = counts[:, c]
            best, precision = _record(left, n, weight)
    return chosen, left


@compiled
def _search(
    members: Words, others: Words, alone: NDArray[Any], features: NDArray[Any],
    n: int, weight: float, length: int, floor: float,
) -> tuple[NDArray[Any], NDArray[Any]]:  # fmt: skip
    """Return the best conjunction of exactly this length (>= 2) above a floor, and its counts.

    Depth d holds a conjunction of d conditions, and the list of those that may come next with
    the counts that they would leave. Conditions are taken in their order, so that of equals the
    first is found and kept.
    """
    n_all = features.size
    inside = np.full((length, members.shape[1]), ~np.uint64(0))
    outside = np.full((length, others.shape[1]), ~np.uint64(0))
    listed = np.empty((length, n_all), np.int64)
    tps, fps = np.empty_like(listed), np.empty_like(listed)
    sums = np.zeros((length, n_all + 1), np.int64)
    n_listed, place = np.zeros(length, np.int64), np.zeros(length, np.int64)
    path, chosen, counts = (
        np.zeros(length, np.int64),
        np.zeros(length, np.int64),
        np.zeros(2, np.int64),
    )
    best, precision = floor, 1.0  # no equal of the floor is looked for

    listed[0], tps[0], fps[0] = np.arange(n_all), alone[0], alone[1]
    n_listed[0] = n_all
    fp_here = np.zeros(length, np.int64)  # of the conjunction at each depth
    fp_here[0] = others.shape[1] * 64
    _largest_sums(fps[0], n_all, fp_here[0], length - 1, sums[0])
    depth = 0
    while depth >= 0:
        i = place[depth]
        if i >= n_listed[depth]:
            depth -= 1
            continue
        place[depth] += 1
        tp, fp = tps[depth, i], fps[depth, i]
        if not _better(tp, max(0, fp - sums[depth, i + 1]), n, weight, best, precision):
            continue
        path[depth] = c = listed[depth, i]
        below = depth + 1
        inside[below] = inside[depth] & members[c]
        outside[below] = outside[depth] & others[c]
        last = below == length - 1
        found = 0
        for j in range(i + 1, n_listed[depth]):
            m = listed[depth, j]
            if features[m] == features[c]:
                continue
            # Both conditions together leave at least what neither of them removes.
            least = max(0, fp + fps[depth, j] - fp_here[depth]) if last else 0
            most = min(tp, tps[depth, j])
            if not _better(most, least, n, weight, best, precision):
                continue
            tp_m = _count_both(inside[below], members[m])
            if not _better(tp_m, least, n, weight, best, precision):
                continue
            fp_m = _count_both(outside[below], others[m])
            if not last:
                listed[below, found], tps[below, found], fps[below, found] = m, tp_m, fp_m
                found += 1
            elif _better(tp_m, fp_m, n, weight, best, precision):
                chosen[:] = path
                chosen[below], counts[0], counts[1] = m, tp_m, fp_m
                best, precision = _record(counts, n, weight)
        if not last:
            n_listed[below], place[below], fp_here[below] = found, 0, fp
            _largest_sums(fps[below], found, fp, length - 1 - below, sums[below])
            depth = below
    return chosen, counts
