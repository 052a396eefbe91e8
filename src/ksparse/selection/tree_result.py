"""What `tree` returns: clusters within clusters, with labels for the samples."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ksparse._tables import as_table, render
from ksparse.matrix import Ints
from ksparse.selection.tree_nodes import TreeNodes

__all__ = ["ClusterTree"]


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
