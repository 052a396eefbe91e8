"""What `tree` returns: clusters within clusters, and what each split is based on."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ksparse._errors import InputError, Term
from ksparse._tables import as_table, render
from ksparse.matrix import Floats, Ints
from ksparse.params import check_integer

__all__ = ["EQUAL", "FEW", "NOT_SEPARATED", "ClusterTree", "TreeNodes", "short_p"]

# Why a node is not split.
NOT_SEPARATED, FEW, EQUAL = "not separated", "too few samples", "all samples are equal"
# Features in a cell of the table.
LISTED = 5


def short_p(p: float) -> str:
    """Return "p = 0.02", "p < 1e-99", or nothing where there is no p-value."""
    if np.isnan(p):
        return ""
    if p < 1e-99:
        return "p < 1e-99"
    return f"p = {p:.1g}" if p < 0.995 else "p = 1"


@dataclass(frozen=True)
class TreeNodes:
    """The nodes of a tree of clusters; the first is the root, and parents come before children.

    Attributes
    ----------
    parent : ndarray of int
        The node that each is a part of; -1 for the root.
    size : ndarray of int
        Samples of each.
    p_separation : ndarray
        The p-value of "this node is one population", corrected; NaN where nothing was tested.
    strength : ndarray
        How far its two children are apart: the order in which `cut` takes splits.
    supported : ndarray of bool
        Whether it falls in two by a split that the test supports.
    why : tuple of str
        Why it is not split: "not separated", "too few samples", "all samples are equal".
    up : tuple of tuple of str
        The features that are higher in it than in its sibling, the most telling first.
    level : float
        The level of the test.
    """

    parent: Ints
    size: Ints
    p_separation: Floats
    strength: Floats
    supported: NDArray[np.bool_]
    why: tuple[str, ...]
    up: tuple[tuple[str, ...], ...]
    level: float

    def children(self, node: int) -> list[int]:
        """Return the two parts of a node, or nothing if it has none."""
        return [int(child) for child in np.flatnonzero(self.parent == node)]

    @cached_property
    def depth(self) -> Ints:
        """The number of splits above each node."""
        out = np.zeros(self.parent.size, dtype=np.intp)
        for node in range(1, out.size):
            out[node] = out[self.parent[node]] + 1
        return out

    @property
    def n_clusters(self) -> int:
        """The number of clusters that are supported."""
        return 1 + int(self.supported.sum())

    @property
    def most(self) -> int:
        """The largest number of clusters that the tree can be cut in."""
        return 1 + (self.parent.size - 1) // 2

    def cut(self, n_clusters: int) -> list[int]:
        """Return the nodes that are the clusters, by decreasing size.

        From the root on, the split whose sides are farthest apart is taken first; splits that are
        not supported come after all others.
        """
        n_clusters = check_integer("n_clusters", n_clusters, 1)
        if n_clusters > self.most:
            raise InputError(
                Term("n_clusters", n_clusters), f" should be <= {self.most}, all splits of this "
                "tree taken, supported or not: grow the tree with ",
                Term("n_clusters", n_clusters), " to have more.",
            )  # fmt: skip
        parts = [0]
        while len(parts) < n_clusters:
            inner = [node for node in parts if self.children(node)]
            split = min(inner, key=self._rank)
            parts.remove(split)
            parts += self.children(split)
        return sorted(parts, key=lambda node: (-self.size[node], node))

    def _rank(self, node: int) -> tuple[bool, float, int]:
        return not self.supported[node], -float(self.strength[node]), node

    def clusters(self, n_clusters: int | None = None) -> Ints:
        """Return the cluster that each node is, or is a part of (-1: it has several)."""
        out = np.full(self.parent.size, -1, dtype=np.intp)
        parts = self.cut(self.n_clusters if n_clusters is None else n_clusters)
        out[parts] = np.arange(len(parts))
        for node in range(1, out.size):
            if out[node] < 0:
                out[node] = out[self.parent[node]]
        return out

    @property
    def columns(self) -> dict[str, NDArray[Any]]:
        """One entry per node: node, parent, size, depth, its cluster and split, features, why."""
        nodes = np.arange(self.parent.size)
        clusters = self.clusters()
        whole = np.isin(nodes, self.cut(self.n_clusters))
        up = [", ".join(names[:LISTED]) for names in self.up]
        return {
            "node": nodes, "parent": self.parent, "size": self.size, "depth": self.depth,
            "cluster": np.where(whole, clusters, -1), "p_separation": self.p_separation,
            "supported": self.supported, "up": np.array(up, dtype=object),
            "why": np.array(self.why, dtype=object),
        }  # fmt: skip

    @property
    def sentence(self) -> str:
        """What was found, in plain words."""
        n = self.n_clusters
        ends = [self.why[node] for node in self.cut(n)]
        if n == 1:
            p = short_p(self.p_separation[0])
            reason = {NOT_SEPARATED: f"no split of it is supported ({p})",
                      FEW: "it has too few samples to tell"}.get(ends[0], ends[0])  # fmt: skip
            return f"One cluster: {reason}."
        p = short_p(float(self.p_separation[self.supported].max())).replace("=", "<=")
        splits = "one split is" if n == 2 else f"{n - 1} splits are"
        text = f"{n} clusters: {splits} supported ({p})"
        few = ends.count(FEW)
        if few:
            which = "one cluster has" if few == 1 else f"{few} clusters have"
            text += f"; {which} too few samples to tell whether there are more"
        return text + "."


@dataclass(frozen=True)
class ClusterTree:
    """Clusters within clusters, each split with its features and its p-value.

    Attributes
    ----------
    nodes : TreeNodes
        The nodes: their parents, sizes, p-values and features.
    node_of : ndarray of int
        The last node that each sample is in, splits that are not supported taken, too.
    """

    nodes: TreeNodes
    node_of: Ints = field(repr=False)

    @property
    def labels(self) -> NDArray[np.int32]:
        """The supported clusters, numbered by decreasing size."""
        return self.cut(self.n_clusters)

    @property
    def n_clusters(self) -> int:
        """The number of clusters that are supported."""
        return self.nodes.n_clusters

    def cut(self, n_clusters: int) -> NDArray[np.int32]:
        """Return labels with exactly so many clusters, numbered by decreasing size.

        Up to `.n_clusters` of them, all splits are supported, and those whose sides are farthest
        apart are taken first. Beyond, splits are taken that are not supported (`.table` tells
        which these are): there is one for each cluster that has enough samples. To have more,
        grow the tree with `n_clusters`.

        Parameters
        ----------
        n_clusters : int
            Number of clusters.

        Returns
        -------
        ndarray of int
        """
        return self.nodes.clusters(n_clusters)[self.node_of].astype(np.int32)

    @property
    def columns(self) -> dict[str, NDArray[Any]]:
        """One entry per node.

        node, parent (-1: none), size, depth, cluster (its label, -1 if it is none), p_separation
        (of its split, corrected), supported (whether it is split), up (the features that are
        higher in it than in its sibling) and why (it is not split).
        """
        return self.nodes.columns

    @property
    def table(self) -> Any:
        """The nodes as a data frame."""
        return as_table(self.columns)

    @property
    def sentence(self) -> str:
        """What was found, in plain words."""
        return self.nodes.sentence

    def __str__(self) -> str:
        return f"{render(self.columns)}\n{self.sentence}"

    def __repr__(self) -> str:
        return f"ClusterTree({self.sentence})"

    def _repr_html_(self) -> str:
        from html import escape

        table = self.table.to_html(
            index=False, na_rep="-", float_format="{:.3g}".format, max_rows=20
        )
        return f"<p>{escape(self.sentence)}</p>{table}"

    def plot(self, axes: Any = None, *, n_clusters: int | None = None) -> Any:
        """Draw the tree from left to right, with features on its branches.

        Parameters
        ----------
        axes : matplotlib Axes, optional
            Where to draw; a new figure of the size that the tree needs by default.
        n_clusters : int, optional
            Where to cut; the supported clusters by default. Splits that are not supported are
            dashed.

        Returns
        -------
        Axes
        """
        from ksparse.selection.tree_plot import draw

        return draw(self.nodes, axes, n_clusters=n_clusters)
