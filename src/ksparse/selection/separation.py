"""Is each cluster real? For any labels: which clusters are separated from which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from sklearn.utils import check_array

from ksparse._errors import InputError, Term, warn
from ksparse._labels import missing_labels, read_labels
from ksparse._names import repeated
from ksparse._progress import progress_bar
from ksparse._tables import as_table, render
from ksparse.matrix import Floats, Ints
from ksparse.matrix.sources import check_costs, check_data
from ksparse.metrics import label_codes
from ksparse.params import check_integer, is_number
from ksparse.selection.valley import N_FOLDS, ValleyCounts, log_tail, valley_counts

__all__ = [
    "SEPARATE",
    "TOO_FEW",
    "UNSEPARATED",
    "Separation",
    "separation",
    "tested",
    "verdicts_of",
]

# Splits depend on the data alone.
SEED = 0
# Few samples are split more often, until so many have been counted.
MIN_SPLITS, MAX_SPLITS, SPLIT_SAMPLES = 2, 10, 4_000
# Between these p-values more splits could change the answer at the usual levels.
UNCLEAR = 1e-5, 0.3
SEPARATE, UNSEPARATED, TOO_FEW = "separate", "not separate", "too few samples"


@dataclass(frozen=True)
class Separation:
    """Which clusters are separated from which.

    Attributes
    ----------
    clusters : tuple of str
        Names of the clusters.
    sizes : ndarray of int
        Samples of each cluster.
    p_values : ndarray, clusters x clusters
        For every pair: the p-value of "there is no valley between them", not corrected for the
        number of pairs. 1 where a cluster has too few samples to be tested.
    adjusted : ndarray, clusters x clusters
        The same, corrected for the number of pairs that were tested (Holm).
    depth : ndarray, clusters x clusters
        1: the valley is empty; 0: it is no emptier than the emptier of its ends. NaN where
        nothing was tested.
    counts : ndarray, clusters x clusters x 3
        Samples in the windows around the first cluster, around the second, and between them:
        means over the splits.
    verdicts : ndarray of str, clusters x clusters
        "separate": the adjusted p-value is at most `level`. "too few samples": it is not, and
        could hardly be with clusters of this size. "not separate" otherwise, and on the diagonal.
    level : float
        The level of the test.
    """

    clusters: tuple[str, ...]
    sizes: NDArray[np.intp]
    p_values: Floats
    adjusted: Floats
    depth: Floats
    counts: Floats
    verdicts: NDArray[np.str_]
    level: float

    @property
    def columns(self) -> dict[str, NDArray[Any]]:
        """One entry per pair, the least separated first."""
        a, b = np.triu_indices(len(self.clusters), 1)
        order = np.lexsort((b, a, -self.p_values[a, b]))
        a, b = a[order], b[order]
        names = np.array(self.clusters, dtype=object)
        return {
            "first": names[a], "second": names[b],
            "p_value": self.p_values[a, b], "p_adjusted": self.adjusted[a, b],
            "depth": self.depth[a, b],
            "n_first": self.counts[a, b, 0], "n_valley": self.counts[a, b, 2],
            "n_second": self.counts[a, b, 1], "verdict": self.verdicts[a, b].astype(object),
        }  # fmt: skip

    @property
    def table(self) -> Any:
        """The pairs as a data frame, the least separated first."""
        return as_table(self.columns)

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """Clusters that are linked by pairs that are not separate; most groups have one."""
        number = self._linked()
        names = np.array(self.clusters, dtype=object)
        return tuple(tuple(names[number == one]) for one in dict.fromkeys(number.tolist()))

    def renamed(self, names: Sequence[str]) -> Separation:
        """Return the same with other names of the clusters, in their order."""
        return replace(self, clusters=tuple(names))

    def _linked(self) -> Ints:
        return connected_components(csr_array(self.verdicts == UNSEPARATED), directed=False)[1]

    @property
    def too_few(self) -> tuple[str, ...]:
        """Clusters with a pair about which too few samples say nothing, the smaller of the two."""
        unclear = self.verdicts == TOO_FEW
        smaller = self.sizes[:, None] <= self.sizes
        return tuple(np.array(self.clusters, dtype=object)[(unclear & smaller).any(axis=1)])

    @property
    def n_separated(self) -> int:
        """The number of groups, those not counted whose clusters have too few samples to tell."""
        few = set(self.too_few)
        return max(sum(not few.issuperset(group) for group in self.groups), 1)

    @property
    def sentence(self) -> str:
        """What was found, in plain words."""
        k, groups = len(self.clusters), [group for group in self.groups if len(group) > 1]
        few = [name for name in self.too_few if not any(name in group for group in groups)]
        alone = k - sum(map(len, groups)) - len(few)
        if alone == k:
            return f"All {k} clusters are separated from each other."
        parts = [f"{alone} of {k} clusters are separated from all others that can be tested"]
        parts += [f"{_listed(group)} are not separated" for group in groups]
        if few:
            verb = "has" if len(few) == 1 else "have"
            parts.append(f"{_listed(few)} {verb} too few samples to tell")
        return "; ".join(parts) + "."

    def __str__(self) -> str:
        return f"{render(self.columns)}\n{self.sentence}"

    def __repr__(self) -> str:
        return f"Separation({len(self.clusters)} clusters): {self.sentence}"

    def _repr_html_(self) -> str:
        from html import escape

        return f"<p>{escape(self.sentence)}</p>{self.table.to_html(index=False, max_rows=10)}"

    def plot(self, axes: Any = None) -> Any:
        """Draw a tree of the clusters by the depth of the valleys, and a heat map of all pairs.

        Parameters
        ----------
        axes : sequence of two matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        sequence of Axes
        """
        from ksparse.selection.separation_plot import draw

        return draw(self, axes)


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def separation(
    X: Any,
    labels: ArrayLike,
    *,
    level: float = 0.05,
    n_splits: int | None = None,
    feature_weights: ArrayLike | None = None,
    scale: bool = False,
    memory_limit: int | str | None = None,
    verbose: int = 0,
) -> Separation:
    """Test for every pair of clusters whether there is a valley between them.

    For labels of any origin. Where there is one population, the density of the samples along
    any line has one peak, so the middle between two clusters cannot be emptier than both of
    them, whatever the shape of the population: no distribution is assumed, and continuous
    variation is not taken for clusters. Features and the line from cluster to cluster are found
    on four fifths of the samples, the others are put on it without their labels, and those in
    three windows are counted; the p-value is the larger of the two exact binomial tails. Those of
    several splits into fifths are combined by e times their geometric mean, which is a p-value
    however they depend on each other (Vovk and Wang 2020).

    The labels were found with all samples, but only choose the line. A pair that is not separated
    may be one population, or two that overlap: the test cannot tell.
    Two clusters with a third between them are counted with the samples of the third in their
    middle.

    Parameters
    ----------
    X : array-like, sparse matrix, AnnData, stored matrix or dask array
        The data, samples x features; single cells as logarithms.
    labels : array-like
        The cluster of each sample, of any kind. Samples without one (None, NaN) are left out,
        with a warning.
    level : float, default=0.05
        Level of the test, for all pairs together (Holm's correction).
    n_splits : int, optional
        How many random splits into fifths are used: by default 2, and up to 10 for few samples,
        where chance has more part in which of them are in the same fifth.
    feature_weights : array-like, optional
        Cost of each feature, as in `KSparse`; infinity: never used.
    scale : bool, default=False
        Whether to divide every feature by its standard deviation.
    memory_limit : int or str, optional
        As in `KSparse`.
    verbose : int
        1 shows a progress bar on a terminal.

    Returns
    -------
    Separation

    Examples
    --------
    >>> import numpy as np
    >>> from ksparse import separation
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(150, 60))
    >>> X[:50, :5] += 4
    >>> labels = np.repeat(["a", "b", "c"], 50)  # b and c are one population
    >>> found = separation(X, labels)
    >>> found.sentence
    '1 of 3 clusters are separated from all others that can be tested; b and c are not separated.'
    >>> found.table["verdict"].tolist()
    ['not separate', 'separate', 'separate']
    """
    if not is_number(level) or not 0 < level < 1:
        raise InputError(Term("level", level), " must be a number between 0 and 1.")
    if n_splits is not None:
        n_splits = check_integer("n_splits", n_splits, 1)
    X = check_data(X, memory_limit, check_array).X
    costs = check_costs(feature_weights, X.shape[1])
    names, codes = _clusters(labels, X.shape[0])
    with progress_bar(None, "splits", verbose) as bar:
        return tested(X, codes, names, costs, level=level, n_splits=n_splits,
                      standardize=scale, on_split=bar.update)  # fmt: skip


def _clusters(labels: Any, n_samples: int) -> tuple[tuple[str, ...], Ints]:
    """Return the names of the clusters, and the cluster of each sample (-1: none)."""
    given = read_labels(labels)
    if given.shape != (n_samples,):
        raise InputError(
            Term("labels"), f" has shape {given.shape}, but X has {n_samples} samples: give one "
            "label per sample.",
        )  # fmt: skip
    missing = missing_labels(given)
    if missing.any():
        warn(
            f"{int(missing.sum())} of {n_samples} samples have no label, and are left out.",
            stacklevel=3,
        )
    codes = np.full(n_samples, -1, dtype=np.intp)
    rows = np.flatnonzero(~missing)
    codes[rows] = label_codes("labels", given[rows])
    k = int(codes.max(initial=-1)) + 1
    if k < 2:
        raise InputError(
            Term("labels"), f" has {k} cluster{'' if k == 1 else 's'}, which should be >= 2: pairs "
            "of clusters are compared.",
        )  # fmt: skip
    names = tuple(str(given[np.argmax(codes == c)]) for c in range(k))
    if again := repeated(names):
        raise InputError(
            Term("labels"), f" has different clusters with the same text {again[0]!r}: rename one."
        )
    return names, codes


def tested(
    X: Any,
    codes: Ints,
    names: Sequence[str],
    costs: Floats,
    *,
    level: float,
    n_splits: int | None = None,
    standardize: bool = False,
    until_clear: bool = False,
    on_split: Any = lambda: None,
) -> Separation:
    """Return what the test says of checked data and codes of clusters (-1: none).

    Clusters with fewer samples than there are folds are left out: not even an empty valley
    would be significant. With `until_clear`, two splits are enough where these say clearly of the
    least separated pair that it is separated, or that it is not.
    """
    k = len(names)
    if n_splits is None:
        n_splits = min(max(SPLIT_SAMPLES // codes.size, MIN_SPLITS), MAX_SPLITS)
    sizes = np.bincount(codes[codes >= 0], minlength=k)
    large = np.flatnonzero(sizes >= N_FOLDS)
    number = np.full(k + 1, -1, dtype=np.intp)  # the last one is for samples without a cluster
    number[large] = np.arange(large.size)
    splits: list[dict[tuple[int, int], ValleyCounts]] = []
    if large.size > 1:
        rng = np.random.RandomState(SEED)
        for _ in range(n_splits):
            splits.append(
                valley_counts(X, number[codes], large.size, costs, rng, standardize=standardize)
            )
            on_split()
            if until_clear and len(splits) >= MIN_SPLITS and _is_clear(splits):
                break
    p, counts = np.ones((k, k)), np.zeros((k, k, 3))
    for pair in splits[0] if splits else ():
        a, b = large[list(pair)]
        p[a, b] = p[b, a] = _combined([log_tail(split[pair]) for split in splits])
        counts[a, b] = np.mean([split[pair] for split in splits], axis=0)
        counts[b, a] = counts[a, b][[1, 0, 2]]
    pairs = np.ix_(large, large)
    adjusted = np.ones((k, k))
    adjusted[pairs] = _holm(p[pairs])
    ends = counts[..., :2].min(axis=2)
    depth = np.full((k, k), np.nan)
    np.divide(ends - counts[..., 2], ends, out=depth, where=ends > 0)
    depth = np.where(np.isnan(depth), depth, np.maximum(depth, 0.0))
    return Separation(
        tuple(names), sizes, p, adjusted, depth, counts, verdicts_of(adjusted, sizes, level), level
    )


def _is_clear(splits: Sequence[dict[tuple[int, int], ValleyCounts]]) -> bool:
    worst = max(_combined([log_tail(split[pair]) for split in splits]) for pair in splits[0])
    return not UNCLEAR[0] <= worst <= UNCLEAR[1]


def _combined(logs: Sequence[float]) -> float:
    """Return one p-value of those of several splits, which depend on each other.

    e times their geometric mean is one, however they depend on each other (Vovk and Wang 2020).
    """
    mean = float(np.exp(np.mean(logs)))
    return mean if len(logs) == 1 else min(float(np.exp(1.0)) * mean, 1.0)


def _holm(p_values: Floats) -> Floats:
    """Return p-values of all pairs (a symmetric table), corrected for their number by Holm."""
    adjusted = np.ones_like(p_values)
    a, b = np.triu_indices(len(p_values), 1)
    p = p_values[a, b]
    order = np.argsort(p, kind="stable")
    raised = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))
    adjusted[a[order], b[order]] = adjusted[b[order], a[order]] = np.minimum(raised, 1.0)
    return adjusted


def verdicts_of(adjusted: Floats, sizes: Ints, level: float) -> NDArray[np.str_]:
    """Return the verdict about each pair.

    A window has about half of a cluster's samples: where not even an empty valley beside so many
    would be significant in several splits, after the correction for the pairs that are tested,
    there are too few to tell.
    """
    k, n_tested = sizes.size, int(np.count_nonzero(sizes >= N_FOLDS))
    n_pairs = max(n_tested * (n_tested - 1) // 2, 1)
    enough = 2 * np.log2(np.exp(1.0) * n_pairs / level)
    verdicts = np.full((k, k), UNSEPARATED, dtype=f"<U{len(TOO_FEW)}")
    verdicts[np.minimum(sizes[:, None], sizes) < enough] = TOO_FEW
    verdicts[adjusted <= level] = SEPARATE
    np.fill_diagonal(verdicts, UNSEPARATED)
    return verdicts
