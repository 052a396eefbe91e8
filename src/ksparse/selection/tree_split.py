"""Where to split some samples: fits, their test, and the features of both sides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from ksparse.core.forward import balanced_problem, forward_path
from ksparse.core.y_step import order_by_size
from ksparse.matrix import Floats, Ints, Matrix, as_matrix
from ksparse.matrix.data import take_rows
from ksparse.matrix.sources import count_distinct_rows, is_stored, select_rows
from ksparse.search.fit import fit_prepared, prepare
from ksparse.search.settings import Settings
from ksparse.selection.separation import tested
from ksparse.selection.tree_nodes import EQUAL, FEW, NOT_SEPARATED
from ksparse.selection.valley import N_FOLDS

__all__ = [
    "Examined",
    "Groups",
    "Growth",
    "Joined",
    "examine",
    "join",
    "telling_features",
    "two_parts",
]

# Numbers of clusters that are tried at a node, until so many in a row are not supported.
MAX_PARTS, MISSES = 6, 3
# Features with which clusters are found: one for so many samples, within these bounds.
SAMPLES_EACH, LEAST_FEATURES, MOST_FEATURES = 5, 20, 100
# Groups with a smaller p-value are clearly separated, how clearly is a matter of their sizes.
CLEAR = 1e-4
# The ridge with which features are selected for a split, as in the test; and the least share of
# them that are higher on each side.
RIDGE, OF_EACH = 1.0, 0.3
# Of data in files, parts with so many values are read into memory.
IN_MEMORY = 5e7


@dataclass(frozen=True)
class Growth:
    """What all nodes share: the data, how they are fitted and tested, and random numbers."""

    X: Any
    settings: Settings
    standardize: bool
    level: float
    n_features: int
    seed: int
    on_fit: Callable[[], object]

    def part(self, rows: Ints) -> Matrix:
        """Return a view of some of the samples, with means and a scale of their own."""
        X = self.X
        if rows.size < X.shape[0]:
            small = is_stored(X) and rows.size * float(X.shape[1]) <= IN_MEMORY
            X = take_rows(X, rows, _same) if small else select_rows(X, rows)
        return as_matrix(X, standardize=self.standardize)

    def correction(self, n_samples: int, n_fits: int) -> float:
        """Return what the p-values of a node are multiplied with.

        Nodes that are not within each other share the level by their samples (Meinshausen 2008),
        and the fits of one node share what it has.
        """
        return self.X.shape[0] / n_samples * n_fits


class Groups(NamedTuple):
    """Groups of the samples of a node.

    Attributes
    ----------
    labels : ndarray of int
        The group of each sample.
    p_values : ndarray, groups x groups
        The corrected p-value of each two groups.
    centres : ndarray, groups x components
        Their mean principal component scores, in the units of the data.
    """

    labels: Ints
    p_values: Floats
    centres: Floats


class Examined(NamedTuple):
    """What was found at a node.

    Attributes
    ----------
    p_value : float
        The corrected p-value; NaN where nothing was tested.
    why : str
        Why it is not split; empty if it is.
    groups : Groups, optional
        Its supported groups; if there are none, two parts that are not supported.
    """

    p_value: float
    why: str
    groups: Groups | None


class _Fitted(NamedTuple):
    """The clusters of one fit, and the p-values of their pairs (as they are, and by Holm)."""

    labels: Ints
    p_values: Floats
    adjusted: Floats


def _same(rows: Any) -> Any:
    return rows


def examine(growth: Growth, matrix: Matrix) -> Examined:
    """Cluster the samples of a node in two and more, and test the clusters.

    The groups are those of the largest number of clusters of which all pairs are separated; where
    there is no such number, those of the smallest that are left when clusters that are not
    separated are joined.
    """
    m = matrix.shape[0]
    ks = [k for k in range(2, MAX_PARTS + 1) if m >= N_FOLDS * k]
    correction = growth.correction(m, len(ks))
    # A window has about half of a cluster: not even an empty valley would be significant.
    if not ks or m < 4 * np.log2(correction / growth.level):
        return Examined(np.nan, FEW, None)
    n_distinct = count_distinct_rows(matrix.X, ks[-1])
    if n_distinct < 2 or matrix.constant.all():
        return Examined(np.nan, EQUAL, None)
    bound = growth.level / correction
    fitter = _Fitter(growth, matrix, [k for k in ks if k <= n_distinct])
    fits = _fits(fitter, bound)
    whole = [fit for fit in fits if _worst(fit.p_values) <= bound]
    if whole:
        return fitter.examined(whole[-1].labels, whole[-1].p_values, correction, "")
    for fit in fits:
        n_groups, group = _linked(fit.adjusted > bound)
        if n_groups > 1:
            between = _between(fit.adjusted, group)
            return fitter.examined(group[fit.labels], between, correction, "")
    best = min(_worst(fit.p_values) for fit in fits)
    pair = fitter.examined(fits[0].labels, fits[0].p_values, correction, NOT_SEPARATED)
    return Examined(min(best * correction, 1.0), pair.why, pair.groups)


def _fits(fitter: _Fitter, bound: float) -> list[_Fitted]:
    fits: list[_Fitted] = []
    misses = 0
    for k in fitter.ks:
        fits.append(fitter.fit(k))
        misses = 0 if _worst(fits[-1].p_values) <= bound else misses + 1
        if misses == MISSES:
            break
    return fits


def two_parts(growth: Growth, matrix: Matrix) -> Groups | None:
    """Return two parts of a node, whether they are separated or not; None if there are none."""
    if count_distinct_rows(matrix.X, 2) < 2:
        return None
    fitter = _Fitter(growth, matrix, [2])
    fit = fitter.fit(2)
    correction = growth.correction(matrix.shape[0], MAX_PARTS - 1)
    return fitter.examined(fit.labels, fit.p_values, correction, "").groups


class _Fitter:
    """Clusters the samples of a node, in several numbers of clusters."""

    def __init__(self, growth: Growth, matrix: Matrix, ks: list[int]) -> None:
        self.growth, self.ks = growth, ks
        settings = growth.settings
        self.extra = settings.n_components - settings.n_clusters
        self.rng = np.random.RandomState(growth.seed)
        most = max(1, ks[-1] + self.extra)
        self.prepared = prepare(matrix, most, self.rng, starts=settings.starts)
        allowed = int(np.count_nonzero(np.isfinite(settings.costs) & ~matrix.constant))
        wanted = min(max(matrix.shape[0] // SAMPLES_EACH, LEAST_FEATURES), MOST_FEATURES)
        self.n_features = max(min(wanted, allowed), int(np.count_nonzero(settings.costs == 0)), 1)
        # Data are divided by their largest singular value.
        self.norm = float(matrix.factor.max() / self.prepared.matrix.factor.max())

    def fit(self, k: int) -> _Fitted:
        """Cluster and test."""
        growth, prepared = self.growth, self.prepared
        settings = replace(
            growth.settings, n_clusters=k, n_components=max(1, k + self.extra),
            n_features=self.n_features, few=None, always=False,
        )  # fmt: skip
        fit = fit_prepared(prepared, settings, self.rng).fit
        labels = order_by_size(fit.labels, k)[fit.labels]
        found = tested(
            prepared.matrix.X, labels, [str(cluster) for cluster in range(k)], settings.costs,
            level=growth.level, standardize=growth.standardize, until_clear=True,
        )  # fmt: skip
        growth.on_fit()
        return _Fitted(labels, found.p_values, found.adjusted)

    def examined(self, labels: Ints, p_values: Floats, correction: float, why: str) -> Examined:
        """Return groups with their means and corrected p-values."""
        scores = self.prepared.embedding(max(1, self.ks[-1] + self.extra)).scores * self.norm
        centres = np.array([scores[labels == group].mean(axis=0) for group in range(len(p_values))])
        corrected = np.minimum(p_values * correction, 1.0)
        return Examined(_worst(corrected), why, Groups(labels, corrected, centres))


def _worst(p_values: Floats) -> float:
    return float(p_values[np.triu_indices(len(p_values), 1)].max())


def _linked(links: NDArray[np.bool_]) -> tuple[int, Ints]:
    """Return the number of groups of clusters that are linked, and the group of each."""
    n_groups, group = connected_components(csr_array(links), directed=False)
    return int(n_groups), group.astype(np.intp)


def _between(p_values: Floats, group: Ints) -> Floats:
    """Return the largest p-value of a cluster of one group and one of another."""
    groups = range(int(group.max()) + 1)
    out = np.ones((len(groups), len(groups)))
    for a in groups:
        for b in groups:
            if a != b:
                out[a, b] = p_values[np.ix_(group == a, group == b)].max()
    return out


class Joined(NamedTuple):
    """A group (without sides), or two sides that were joined.

    Attributes
    ----------
    groups : list of int
        The groups in it.
    sides : tuple of Joined
        The two sides; none of a group.
    strength : float
        How far the sides are apart: by how much less squares there are within the two than within
        both as one, and not less than for those that were joined before.
    """

    groups: list[int]
    sides: tuple[Joined, ...]
    strength: float


def join(found: Groups) -> Joined:
    """Join groups, two at a time, until all are one.

    Those that are least separated are joined first; of those that are clearly separated, those
    with the least squares between them.
    """
    k, size = len(found.centres), np.bincount(found.labels, minlength=len(found.centres))
    parts = [Joined([group], (), 0.0) for group in range(k)]
    highest = 0.0
    while len(parts) > 1:
        pairs = [(parts[i].groups, parts[j].groups) for j in range(len(parts)) for i in range(j)]
        apart = [_squares(one, other, size, found.centres) for one, other in pairs]
        doubt = [max(found.p_values[np.ix_(*pair)].max(), CLEAR) for pair in pairs]
        best = min(range(len(pairs)), key=lambda n: (-doubt[n], apart[n], n))
        highest = max(highest, apart[best])
        one, other = pairs[best]
        sides = tuple(part for part in parts if part.groups in (one, other))
        parts = [part for part in parts if part not in sides]
        parts.append(Joined(one + other, sides, highest))
    return parts[0]


def _squares(first: list[int], second: list[int], size: Ints, centres: Floats) -> float:
    """Return by how much less squares there are within two sides than within both as one."""
    n, other = float(size[first].sum()), float(size[second].sum())
    apart = size[first] @ centres[first] / n - size[second] @ centres[second] / other
    return n * other / (n + other) * float(apart @ apart)


def telling_features(
    growth: Growth, matrix: Matrix, second: NDArray[np.bool_]
) -> tuple[Ints, Ints]:
    """Return the features that tell two sides apart, those higher in each, the best first.

    Some are of each side, so that both can be recognised.
    """
    sides, n = second.astype(np.intp), growth.n_features
    problem = balanced_problem(
        matrix, sides, matrix.cluster_sums(sides, 2), growth.settings.costs,
        n_features=n, ridge=RIDGE, per_cluster=n,
    )  # fmt: skip
    higher = problem.correlation[:, 1] > 0
    most = n - int(n * OF_EACH)

    def allowed(chosen: list[int]) -> NDArray[np.bool_] | None:
        n_second = int(np.count_nonzero(higher[chosen]))
        if max(n_second, len(chosen) - n_second) < most:
            return None
        return higher if n_second < most else ~higher

    places = forward_path(problem, n, allowed=allowed).places
    chosen = problem.features[places]
    return chosen[~higher[places]], chosen[higher[places]]
