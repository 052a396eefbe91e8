"""The steps of SCsim: genes of the populations, fold changes, counts, doublets, dropout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksparse._compile import compiled

__all__ = [
    "STRENGTHS",
    "Genes",
    "draw_batches",
    "draw_counts",
    "draw_doublets",
    "drop_out",
    "expressed_folds",
    "fold_changes",
    "population_labels",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

# Negative binomial (mean, size) of ten times the size of a log2 fold change.
STRENGTHS = {
    "small": ((8, 20), (8, 22)),
    "medium": ((12, 24), (12, 26)),
    "high": ((16, 28), (16, 30)),
}
TYPES = ("DE", "DM", "DP", "DC")
# log2 fold change of a gene that is switched off.
OFF = -10.0
# Cells whose means are in memory together, and size of the negative binomial counts.
BLOCK, DISPERSION = 500, 50.0
# Sweeps over the genes of a cell after which no more counts are set to zero (two are usual).
MAX_SWEEPS = 200


def population_labels(n_cells: int, sizes: Sequence[float]) -> Ints:
    """Return the population of each cell, in increasing order."""
    ends = np.rint(np.cumsum(sizes) / 100 * n_cells).astype(int)
    ends = np.maximum(ends, np.arange(1, ends.size + 1))  # no population is empty
    ends = np.minimum(ends, n_cells - np.arange(ends.size)[::-1])
    return np.searchsorted(ends, np.arange(n_cells), side="right").astype(np.intp)


@dataclass(frozen=True)
class Genes:
    """The population and type of each gene; genes that belong to a population come first."""

    types: NDArray[np.str_]
    population: Ints
    up: NDArray[np.bool_]

    @classmethod
    def draw(cls, n_genes: int, marker_shares: Any, shares: Any, up_shares: Any) -> Genes:
        """Return genes with the given shares."""
        types = np.full(n_genes, "NDE")
        population = np.full(n_genes, -1, dtype=np.intp)
        up = np.zeros(n_genes, dtype=bool)
        start = 0
        for k, share in enumerate(marker_shares):
            size = int(np.floor(n_genes * share / 100 + 1e-9))
            stop, at = start + size, start
            population[start:stop] = k
            for name in TYPES:
                count = int(np.ceil(size * shares[name][k] / 100 - 1e-9))
                end = min(stop, at + count)
                types[at:end] = name
                up[at : min(end, at + int(np.ceil((end - at) * up_shares[k] / 100 - 1e-9)))] = True
                at = end
            types[at:stop] = TYPES[-1]  # rounding may leave one
            start = stop
        return cls(types, population, up)

    def of(self, k: int, name: str) -> Ints:
        """Return the genes of a type that belong to population `k`."""
        return np.flatnonzero((self.population == k) & (self.types == name))


def _negative_binomial(mean: float, size: float, n: int, rng: np.random.Generator) -> Floats:
    return rng.negative_binomial(size, size / (size + mean), n).astype(np.float64)


def _take(pool: Floats, n: int, rng: np.random.Generator) -> Floats:
    return rng.choice(pool, n, replace=n > pool.size)


def fold_changes(
    genes: Genes, trajectories: Sequence[Sequence[int]], strength: str, rng: np.random.Generator
) -> Floats:
    """Return the log2 fold change of each gene in each population."""
    is_marker = genes.population >= 0
    (up_mean, up_size), (down_mean, down_size) = STRENGTHS[strength]
    n_up = max(1, int((is_marker & genes.up).sum()))
    n_down = max(1, int((is_marker & ~genes.up).sum()))
    ups = _negative_binomial(up_mean, up_size, n_up, rng) / 10
    downs = -_negative_binomial(down_mean, down_size, n_down, rng) / 10
    k = int(genes.population.max(initial=-1)) + 1
    n_populations = max(k, 1 + max((max(path) for path in trajectories), default=0))
    folds = np.zeros((genes.types.size, n_populations))
    for p in range(k):
        paths = [path for path in trajectories if p in path]
        alone = ("DE", "DM", "DP") if paths else TYPES
        mine = np.flatnonzero((genes.population == p) & np.isin(genes.types, alone))
        for rising, pool in ((True, ups), (False, downs)):
            some = mine[genes.up[mine] == rising]
            folds[some, p] = _take(pool, some.size, rng)
        if paths:
            for path, part in zip(
                paths, np.array_split(genes.of(p, "DC"), len(paths)), strict=True
            ):
                _along(folds, part, path, ups, downs, rng)
    return folds


def _along(
    folds: Floats, genes: Ints, path: Sequence[int], ups: Floats, downs: Floats,
    rng: np.random.Generator,
) -> None:  # fmt: skip
    """Set the fold changes of genes along a trajectory: half of them rise, half of them fall."""
    half = len(path) // 2
    off = np.setdiff1d(np.arange(folds.shape[1]), path)
    for i, gene in enumerate(genes):
        rising = i < genes.size // 2
        early, late = (downs, ups) if rising else (ups, downs)
        first, last = (_different(_take(pool, n, rng)) for pool, n in
                       ((early, half), (late, len(path) - half - 1)))  # fmt: skip
        sign = 1 if rising else -1
        folds[gene, list(path[:half])] = sign * np.sort(sign * first)
        folds[gene, list(path[half + 1 :])] = sign * np.sort(sign * last)
        folds[gene, off] = OFF


def _different(draws: Floats) -> Floats:
    """Return draws, with those doubled that equal an earlier one."""
    out = draws.copy()
    for i in range(1, out.size):
        if out[i] in out[:i]:
            out[i] *= 2
    return out


def _subsets(n_rows: int, members: Ints, n: int, rng: np.random.Generator) -> Ints:
    """Return `n` random members for each row."""
    if n == 0:
        return np.empty((n_rows, 0), dtype=np.intp)
    order = np.argpartition(rng.random((n_rows, members.size)), n - 1, axis=1)[:, :n]
    return members[order]


def expressed_folds(
    genes: Genes, folds: Floats, labels: Ints, trajectories: Sequence[Sequence[int]],
    mixing: float, rng: np.random.Generator,
) -> NDArray[np.float32]:  # fmt: skip
    """Return the log2 fold change of each cell, for the genes that belong to a population."""
    n_markers = int((genes.population >= 0).sum())
    out = np.zeros((labels.size, n_markers), dtype=np.float32)
    for p in range(int(genes.population.max(initial=-1)) + 1):
        cells = np.flatnonzero(labels == p)
        q = int(np.rint(mixing * cells.size))
        paths = [path for path in trajectories if p in path]
        plain = (
            genes.of(p, "DE") if paths else np.concatenate([genes.of(p, t) for t in ("DE", "DC")])
        )
        out[np.ix_(cells, plain)] = folds[plain, p]
        if paths:
            along = genes.of(p, "DC")
            out[:, along] = folds[along][:, labels].T
        for name in ("DM", "DP"):
            mine = genes.of(p, name)
            out[np.ix_(cells, mine)] = folds[mine, p]
            inside = rng.permutation(cells)
            if name == "DM":
                fixed, others = inside[:q], inside[q:]
                lost = np.hstack([_subsets(mine.size, others, min(-(-q // 2), others.size), rng),
                                  _subsets(mine.size, fixed, q // 2, rng)])  # fmt: skip
            else:
                fixed = inside[: int(np.rint((1 - mixing) * cells.size))]
                lost = np.hstack([_subsets(mine.size, fixed, min(-(-q // 2), fixed.size), rng),
                                  _subsets(mine.size, cells, q // 2, rng)])  # fmt: skip
                for partner in _partners(p, paths):
                    theirs = rng.permutation(np.flatnonzero(labels == partner))
                    n_fixed = int(np.rint(mixing * theirs.size))
                    n_half = int(np.rint(n_fixed / 2))
                    gained = np.hstack([
                        _subsets(mine.size, theirs[:n_fixed], min(n_half, n_fixed), rng),
                        _subsets(mine.size, theirs[n_fixed:], n_half, rng),
                    ])  # fmt: skip
                    out[gained, mine[:, None]] = folds[mine, p][:, None]
            out[lost, mine[:, None]] = 0
    return out


def _partners(p: int, paths: Sequence[Sequence[int]]) -> list[int]:
    """Return the next population on each trajectory; at its end the one before."""
    out = set()
    for path in paths:
        at = list(path).index(p)
        out.add(path[at + 1] if at + 1 < len(path) else path[at - 1])
    return sorted(out)


def draw_batches(
    n_cells: int, batches: Sequence[float], rng: np.random.Generator
) -> tuple[Ints, Floats]:
    """Return the batch of each cell, and its factor."""
    if len(batches) == 1:
        return np.zeros(n_cells, dtype=np.intp), np.ones(n_cells)
    levels = [1.0]
    while len(levels) < len(batches):
        new = rng.uniform(0.2, 0.8) if rng.random() < 0.5 else rng.uniform(1.2, 3.05)
        if abs(new - levels[-1]) > 0.5:
            levels.append(float(new))
    batch = rng.permutation(population_labels(n_cells, batches))
    return batch, np.abs(rng.normal(np.array(levels)[batch], 0.25))


def draw_doublets(
    n_cells: int, share: float, rng: np.random.Generator
) -> tuple[NDArray[np.bool_], list[Ints]]:
    """Return a mask of the doublets, and the donors of each."""
    n = min(int(np.floor(share * n_cells + 1e-9)), n_cells // 4)
    order = rng.permutation(n_cells)
    chosen, pool = np.sort(order[:n]), order[n : 4 * n]
    numbers = rng.integers(2, 4, size=n)
    ends = np.cumsum(numbers)
    is_doublet = np.zeros(n_cells, dtype=bool)
    is_doublet[chosen] = True
    return is_doublet, [pool[end - r : end] for end, r in zip(ends, numbers, strict=True)]


def draw_counts(
    means: Any, n_cells: int, is_doublet: NDArray[np.bool_], donors: list[Ints],
    rng: np.random.Generator,
) -> list[NDArray[Any]]:  # fmt: skip
    """Return negative binomial counts in blocks of cells."""
    which = dict(zip(np.flatnonzero(is_doublet).tolist(), donors, strict=True))
    blocks = []
    for start in range(0, n_cells, BLOCK):
        cells = np.arange(start, min(start + BLOCK, n_cells))
        mu = means(cells)
        for c in cells[is_doublet[cells]]:
            mu[c - start] = means(which[int(c)]).mean(axis=0)
        counts = rng.poisson(mu * rng.standard_gamma(DISPERSION, mu.shape) / DISPERSION)
        blocks.append(counts.astype(np.uint16 if counts.max(initial=0) < 2**16 else np.uint32))
    return blocks


def drop_out(blocks: list[NDArray[Any]], target: float, rng: np.random.Generator) -> Any:
    """Set counts to zero until each cell has its share of zeros; return all as CSR."""
    n_genes = blocks[0].shape[1]
    zeros = np.concatenate([(block == 0).mean(axis=1) for block in blocks])
    if np.median(zeros) < target:
        total = np.concatenate([block.sum(axis=1, dtype=np.int64) for block in blocks])
        wanted = np.empty(total.size)
        wanted[np.argsort(-total, kind="stable")] = np.sort(rng.normal(target, 0.05, total.size))
        wanted = np.clip(np.ceil(wanted * n_genes), 0, n_genes)
        mean = sum(block.sum(axis=0, dtype=np.float64) for block in blocks) / total.size
        chance = _chances(np.asarray(mean), rng)
        for i, block in enumerate(blocks):
            goal = wanted[i * BLOCK : i * BLOCK + len(block)].astype(np.int64)
            _zero_out(block, goal, chance, int(rng.integers(2**31)))
    rows = [sp.csr_array(block.astype(np.float32)) for block in blocks]
    return sp.csr_array(sp.vstack(rows, format="csr"))


def _chances(mean: Floats, rng: np.random.Generator) -> Floats:
    """Return the probability that the count of a gene is set to zero at one visit."""
    weight = 0.4 * np.exp(-0.4 * mean)
    chance = weight / (weight.max() + 0.025)
    kind = rng.random(chance.size)
    chance += np.where(kind < 0.2, rng.uniform(0, 0.2, chance.size), 0.0)
    chance -= np.where(kind > 0.8, rng.uniform(0, 0.1, chance.size), 0.0)
    return np.abs(np.where(chance >= 1, 2 - chance, chance))


@compiled
def _zero_out(block: Any, goal: Any, chance: Any, seed: int) -> None:
    """Set counts to zero with the chance of their gene, in sweeps over the genes of each cell.

    Genes come in random order. After a count that is set to zero, the next gene is skipped in
    that sweep, as in SCsim.
    """
    np.random.seed(seed)
    n_genes = block.shape[1]
    for c in range(block.shape[0]):
        zeros = 0
        for g in range(n_genes):
            zeros += block[c, g] == 0
        order = np.random.permutation(n_genes)
        left = n_genes
        for _ in range(MAX_SWEEPS):
            if zeros >= goal[c] or left == 0:
                break
            n_left = 0
            i = 0
            while i < left:
                gene = order[i]
                if zeros < goal[c] and np.random.random() < chance[gene]:
                    if block[c, gene] != 0:
                        block[c, gene] = 0
                        zeros += 1
                    i += 1
                    if i < left:  # skipped
                        order[n_left] = order[i]
                        n_left += 1
                else:
                    order[n_left] = gene
                    n_left += 1
                i += 1
            left = n_left
            np.random.shuffle(order[:left])
