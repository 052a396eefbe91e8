"""Clusters within clusters: splits of the samples, each with its own features and p-value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ksparse._errors import InputError, Term
from ksparse._names import repeated
from ksparse._progress import progress_bar
from ksparse.matrix import Ints
from ksparse.params import check_integer, check_seed, is_number
from ksparse.selection.checks import plain_starts, read_arguments
from ksparse.selection.jobs import draw_seeds
from ksparse.selection.tree_nodes import TreeNodes
from ksparse.selection.tree_result import ClusterTree
from ksparse.selection.tree_split import (
    Groups,
    Growth,
    examine,
    join,
    telling_features,
    two_parts,
)

__all__ = ["ClusterTree", "tree"]


def tree(
    X: Any,
    *,
    level: float = 0.05,
    n_clusters: int | None = None,
    n_features: int = 10,
    init: Any = "auto",
    feature_names: ArrayLike | None = None,
    feature_weights: ArrayLike | None = None,
    scale: bool = False,
    memory_limit: int | str | None = None,
    random_state: int | np.random.RandomState | None = None,
    verbose: int = 0,
) -> ClusterTree:
    """Split the samples again and again, as long as the two sides are separated.

    At every node its samples are clustered by themselves, as `KSparse` would, in two to six
    clusters, and every pair of clusters is tested for a valley between them on samples that had no
    part in finding the features that tell them apart (see `ksparse.separation`). The largest number
    of which all pairs are separated is taken (if there is none, clusters that are not separated are
    joined). Of these groups two at a time are joined, those first that are least separated, and
    then those whose means are nearest; read from its end, this is one split in two after the other.
    Then each group is a node of its own. The features of a split are selected forward, to tell its
    two sides apart among the samples of its node; some are higher on either side.

    The p-value of a split is the largest of a cluster on the one side and one on the other. It is
    multiplied by the share of the samples that are in the node, inverted, and by the number of fits
    there: so the level holds for the whole tree, as nodes that are not within each other have
    disjoint samples (Meinshausen 2008), and a node is tested only if those above it were split.
    What that takes for granted: a population that a split above has cut still is one population.

    Parameters
    ----------
    X : array-like, sparse matrix, AnnData, stored matrix or dask array
        The data, samples x features; single cells as logarithms.
    level : float, default=0.05
        Level of the test, for all splits together.
    n_clusters : int, optional
        Grow the tree until it can be cut in so many clusters, by splits that are not supported
        where the others are not enough. The supported clusters do not depend on it.
    n_features : int, default=10
        Number of features that are named for each split, at most. The clusters of a node are found
        with 20 to 100, one for five samples.
    init : str or list, default="auto"
        Where fits start, as in `KSparse`; but "auto" tries "graph+dense", "spectral+dense" and
        "graph" here, which do not look for gaps. "graph" takes a third of the time.
    feature_names : sequence of str, optional
        Names of the features; by default those of a data frame or of AnnData, or their numbers.
    feature_weights : array-like, optional
        Cost of each feature, as in `KSparse`; infinity: never used.
    scale : bool, default=False
        Whether to divide every feature by its standard deviation among the samples of a node.
    memory_limit : int or str, optional
        As in `KSparse`.
    random_state : int, RandomState or None
        Seed.
    verbose : int
        1 shows a progress bar on a terminal.

    Returns
    -------
    ClusterTree
        `.labels` are the supported clusters, `.cut` gives any number of them, `.table` has the
        nodes, `.sentence` says what was found, and `.plot()` draws the tree.

    Examples
    --------
    >>> import numpy as np
    >>> from ksparse import tree
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(180, 60))
    >>> X[:120, :5] += 4  # two thirds of the samples, which fall in two halves
    >>> X[:60, 5:10] += 4
    >>> found = tree(X, init="graph", random_state=0)
    >>> found.n_clusters, np.bincount(found.labels)
    (3, array([60, 60, 60]))
    >>> np.unique(found.cut(2), return_counts=True)[1]
    array([120,  60])
    """
    if not is_number(level) or not 0 < level < 1:
        raise InputError(Term("level", level), " must be a number between 0 and 1.")
    if n_clusters is not None:
        n_clusters = check_integer("n_clusters", n_clusters, 1)
    _check_starts(init)
    rng = check_seed(random_state)
    options = {"feature_weights": feature_weights, "scale": scale, "memory_limit": memory_limit}
    inputs, known_names = read_arguments(
        X, None, options, n_clusters=1, n_features="auto", init=plain_starts(init)
    )
    settings = inputs.settings
    m, d = inputs.X.shape
    n_features = min(check_integer("n_features", n_features, 1), d)
    if n_clusters is not None and n_clusters > m:
        raise InputError(
            Term("n_clusters", n_clusters), f" should be <= {m}, the number of samples."
        )
    names = _names(feature_names if feature_names is not None else known_names, d)
    with progress_bar(None, "fits", verbose) as bar:
        growth = Growth(inputs.X, settings, inputs.matrix.standardize, level, n_features,
                        draw_seeds(rng, 1)[0], bar.update)  # fmt: skip
        grown = _Grown(growth, names)
        grown.grow(np.arange(m))
        grown.add_unsupported(n_clusters)
    return grown.result()


def _check_starts(init: Any) -> None:
    starts = [init] if isinstance(init, str) else init
    if not isinstance(starts, list | tuple) or not all(isinstance(one, str) for one in starts):
        raise InputError(
            Term("init"), " must be the name of a start, or a list of names: every node is "
            "clustered by itself.",
        )  # fmt: skip


def _names(names: Any, n_features: int) -> NDArray[np.str_]:
    """Return the names of all features; raise InputError if they do not fit."""
    if names is None:
        return np.arange(n_features).astype(str)
    given = np.array([str(name) for name in np.ravel(np.asarray(names, dtype=object))], dtype=str)
    if given.size != n_features:
        raise InputError(
            Term("feature_names"), f" has {given.size} names, but X has {n_features} features: "
            "give one name per feature.",
        )  # fmt: skip
    if again := repeated(given):
        raise InputError(
            Term("feature_names"), f" has repeated names (the first is {str(again[0])!r}): make "
            "them unique.",
        )  # fmt: skip
    return given


@dataclass
class _Grown:
    """The nodes that there are so far; children stand after their parents."""

    growth: Growth
    names: NDArray[np.str_]
    parent: list[int] = field(default_factory=list)
    rows: list[Ints] = field(default_factory=list)
    p_value: list[float] = field(default_factory=list)
    strength: list[float] = field(default_factory=list)
    supported: list[bool] = field(default_factory=list)
    why: list[str] = field(default_factory=list)
    up: list[tuple[str, ...]] = field(default_factory=list)
    pairs: dict[int, Groups] = field(default_factory=dict)  # parts that are not supported

    def grow(self, rows: Ints) -> None:
        """Split all samples, and then their parts, as far as the test supports it."""
        pending = [self._add(-1, rows, ())]
        while pending:
            node = pending.pop(0)
            found = examine(self.growth, self.growth.part(self.rows[node]))
            self.p_value[node], self.why[node] = found.p_value, found.why
            if found.groups is not None and found.why:
                self.pairs[node] = found.groups
            elif found.groups is not None:
                pending += self._split(node, found.groups)

    def add_unsupported(self, n_clusters: int | None) -> None:
        """Split every cluster in the two parts that were tried, and go on if more are asked for."""
        for node, groups in sorted(self.pairs.items()):
            self._split(node, groups, supported=False)
        inner = set(self.parent)
        ends = [node for node in range(len(self.parent)) if node not in inner]
        single = 0  # nodes that cannot be split
        while n_clusters is not None and len(ends) + single < n_clusters:
            if not ends:
                raise InputError(
                    Term("n_clusters", n_clusters), f" should be <= {single}: there are no more "
                    "samples that differ.",
                )  # fmt: skip
            node = max(ends, key=lambda node: (self.rows[node].size, -node))
            ends.remove(node)
            parts = two_parts(self.growth, self.growth.part(self.rows[node]))
            if parts is None:
                single += 1
                continue
            self.p_value[node] = float(parts.p_values[0, 1])
            ends += self._split(node, parts, supported=False)

    def _add(self, parent: int, rows: Ints, up: tuple[str, ...]) -> int:
        self.parent.append(parent)
        self.rows.append(rows)
        self.up.append(up)
        self.p_value.append(np.nan)
        self.strength.append(0.0)
        self.supported.append(False)
        self.why.append("")
        return len(self.parent) - 1

    def _split(self, node: int, groups: Groups, supported: bool = True) -> list[int]:
        """Split a node in two sides, and these, down to its groups; return the nodes of these."""
        ends, pending = [], [(node, groups.labels, join(groups))]
        while pending:
            node, labels, joined = pending.pop(0)
            if not joined.sides:
                ends.append(node)
                continue
            rows = self.rows[node]
            sides = [(side, np.isin(labels, side.groups)) for side in joined.sides]
            sides.sort(key=lambda side: -np.count_nonzero(side[1]))  # the larger one first
            up = telling_features(self.growth, self.growth.part(rows), sides[1][1])
            self.supported[node] = supported
            if supported:
                between = np.ix_(*(side.groups for side, _ in sides))
                self.p_value[node] = float(groups.p_values[between].max())
            self.strength[node] = joined.strength
            for (side, inside), features in zip(sides, up, strict=True):
                child = self._add(node, rows[inside], tuple(self.names[features].tolist()))
                pending.append((child, labels[inside], side))
        return ends

    def result(self) -> ClusterTree:
        """Return the finished tree."""
        node_of = np.empty(self.rows[0].size, dtype=np.intp)
        for node, rows in enumerate(self.rows):  # parts come after what they are parts of
            node_of[rows] = node
        nodes = TreeNodes(
            np.array(self.parent, dtype=np.intp),
            np.array([rows.size for rows in self.rows], dtype=np.intp), np.array(self.p_value),
            np.array(self.strength), np.array(self.supported), tuple(self.why), tuple(self.up),
            self.growth.level,
        )  # fmt: skip
        return ClusterTree(nodes, node_of)
