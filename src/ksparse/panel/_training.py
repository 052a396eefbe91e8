"""Gates of every group from training samples: candidates, search, and how many conditions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ksparse._errors import InputError
from ksparse._threads import map_parts
from ksparse.matrix.data import column_blocks, take_rows
from ksparse.matrix.sources import columns_in_memory
from ksparse.panel._bits import best_conjunctions, f_score, pack
from ksparse.panel._cuts import Condition, Cuts, find_cuts, fulfils

__all__ = ["Conditions", "Part", "Rules", "choose_lengths", "f_influence", "found", "halve"]

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
Conditions = tuple[Condition, ...]

# Columns that are made dense at once.
WIDTH = 64


@dataclass(frozen=True)
class Rules:
    """What is searched for: at most so many conditions, F_beta, candidates (None: all)."""

    max_genes: int
    beta: float
    n_candidates: int | None


def halve(
    codes: Ints, n_groups: int, rng: np.random.RandomState, most: int | None = None
) -> tuple[Ints, Ints]:
    """Return two parts of the samples, with the same shares of every group.

    The first has half of each group, rounded down; but if that would be more than `most`
    samples, so much less of each group, and at least two of it where it has four.
    """
    share = 0.5 if most is None else min(0.5, most / max(1, codes.size))
    first: list[NDArray[Any]] = []
    second: list[NDArray[Any]] = []
    for group in range(n_groups):
        places = rng.permutation(np.flatnonzero(codes == group))
        n = max(int(share * places.size), min(2, places.size // 2))
        first.append(places[:n])
        second.append(places[n:])
    return np.sort(np.concatenate(first)), np.sort(np.concatenate(second))


@dataclass(frozen=True)
class Part:
    """Samples, and their groups."""

    X: Any
    codes: Ints
    n_groups: int

    def rows(self, rows: Ints) -> Part:
        """Return some of the samples, in memory."""
        return Part(take_rows(self.X, rows, lambda block: block), self.codes[rows], self.n_groups)

    @property
    def sizes(self) -> Ints:
        """The number of samples of each group."""
        return np.bincount(self.codes, minlength=self.n_groups)

    def columns(self, features: Iterable[int]) -> dict[int, NDArray[np.float64]]:
        """Return the values of some features."""
        places = np.array(sorted(set(features)), dtype=np.intp)
        out: dict[int, NDArray[np.float64]] = {}
        for where, block in column_blocks(columns_in_memory(self.X, places), WIDTH):
            if not np.isfinite(block).all():
                raise InputError("X contains NaN or infinity: remove or impute them.")
            out |= {int(f): block[:, i] for i, f in enumerate(places[where])}
        return out

    def inside(self, gates: Sequence[Conditions]) -> list[Flags]:
        """Return which samples fulfil all conditions of each gate; none if there are none."""
        columns = self.columns(condition.feature for gate in gates for condition in gate)
        out = []
        for gate in gates:
            flags = np.full(self.codes.size, bool(gate))
            for condition in gate:
                flags &= fulfils(columns[condition.feature], condition)
            out.append(flags)
        return out


def found(
    part: Part, groups: Sequence[int], lengths: Sequence[int], rules: Rules
) -> list[list[Conditions]]:
    """Return for each group the best gates of at most 1, 2, ... conditions on these samples."""
    cuts = find_cuts(part.X, part.codes, part.sizes, rules.beta)

    def search(task: tuple[int, int]) -> list[Conditions]:
        group, length = task
        features = _candidates(part, cuts, group, rules)
        return _search(part, cuts.conditions(group, features), group, length, rules.beta)

    return map_parts(search, list(zip(groups, lengths, strict=True)))


def _candidates(part: Part, cuts: Cuts, group: int, rules: Rules) -> Sequence[int]:
    """Return the features that take part in the search for the gate of a group.

    Half of them are the best alone, and the others the best together with the best one: what
    only tells the group from its neighbours is never among the best alone.
    """
    values = cuts.values[:, group]
    if rules.n_candidates is None or rules.n_candidates >= values.size:
        return range(values.size)
    order = np.argsort(-values, kind="stable")
    n_alone = -(-rules.n_candidates // 2) if rules.max_genes > 1 else rules.n_candidates
    alone = [int(f) for f in order[:n_alone]]
    (first,) = _search(part, cuts.conditions(group, alone[:1]), group, 1, rules.beta)[:1] or [()]
    rows = np.flatnonzero(part.inside([first])[0])
    inner = part.rows(rows)
    if rules.n_candidates == n_alone or rows.size < 2:
        return [int(f) for f in order[: rules.n_candidates]]
    codes = (inner.codes != group).astype(np.int64)  # 0: the group, 1: all others
    members = np.array([part.sizes[group], 1])
    together = find_cuts(inner.X, codes, members, rules.beta).values[:, 0]
    together[alone] = -1
    partners = np.argsort(-together, kind="stable")[: rules.n_candidates - n_alone]
    return sorted([*alone, *(int(f) for f in partners)])


def _search(
    part: Part, conditions: list[Condition], group: int, length: int, beta: float
) -> list[Conditions]:
    """Return the best gates of at most 1, ..., `length` of these conditions; [] without any."""
    if not conditions:
        return []
    columns = part.columns(condition.feature for condition in conditions)
    member = part.codes == group
    flags = np.array([fulfils(columns[c.feature], c) for c in conditions])
    inside, others = flags[:, member], flags[:, ~member]
    n_members = int(member.sum())
    # What is there before what is not, and the best alone first: these are preferred among
    # equals, and good gates are found early.
    tp = inside.sum(axis=1)
    value = f_score(tp, tp + others.sum(axis=1), n_members, beta)
    order = np.lexsort((-value, [c.sign == "-" for c in conditions]))
    features = np.array([conditions[i].feature for i in order], dtype=np.int64)
    best = best_conjunctions(
        pack(inside[order]), pack(others[order]), features, n_members, beta=beta,
        max_length=min(length, np.unique(features).size),
    )  # fmt: skip
    gates = [tuple(conditions[order[c]] for c in gate.conditions) for gate in best]
    return gates + gates[-1:] * (length - len(gates))


def f_influence(inside: Flags, member: Flags, beta: float) -> tuple[float, NDArray[np.float64]]:
    """Return F, and by how much each sample moves it (the delta method; the mean is 0)."""
    weight = beta**2
    above = (1 + weight) * (inside & member)
    below = weight * member + inside.astype(np.float64)
    value = float(above.sum() / below.sum())
    return value, (above - value * below) / below.mean()


def choose_lengths(
    part: Part, groups: Sequence[int], rules: Rules, rng: np.random.RandomState
) -> list[int]:
    """Return how many conditions the gate of each group should have at most.

    The samples are halved, the gates of every length are found on one half, and tell about the
    other. The shortest length is chosen whose F is not worse than that of the best length by
    more than the standard error of the difference.
    """
    if rules.max_genes == 1:
        return [1] * len(groups)
    halves = halve(part.codes, part.n_groups, rng)
    inside = np.zeros((len(groups), rules.max_genes, part.codes.size), dtype=bool)
    for here, there in (halves, halves[::-1]):
        lengths = [rules.max_genes] * len(groups)
        gates = found(part.rows(here), groups, lengths, rules)
        other = part.rows(there)
        for i, of_group in enumerate(gates):
            for length, flags in enumerate(other.inside(of_group)):
                inside[i, length, there] = flags
    return [_shortest(inside[i], part.codes == group, rules.beta) for i, group in enumerate(groups)]


def _shortest(inside: Flags, member: Flags, beta: float) -> int:
    """Return the shortest length whose F is within one standard error of the best."""
    scored = [f_influence(flags, member, beta) for flags in inside]
    best = int(np.argmax([value for value, _ in scored]))
    for length, (value, influence) in enumerate(scored[:best]):
        error = float(np.std(scored[best][1] - influence)) / np.sqrt(member.size)
        if scored[best][0] - value <= error:
            return length + 1
    return best + 1
