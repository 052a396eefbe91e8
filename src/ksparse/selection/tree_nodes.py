"""The nodes of a tree of clusters: what each split is based on, and how the tree is cut."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ksparse._errors import InputError, Term
from ksparse.matrix import Floats, Ints
from ksparse.params import check_integer

__all__ = ["EQUAL", "FEW", "NOT_SEPARATED", "TreeNodes", "short_p"]

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
