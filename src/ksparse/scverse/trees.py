"""Trees of clusters, in `uns` and `obs`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ksparse._errors import InputError, Term
from ksparse.io.rules import Rule, UnsoundError, check_stored, is_text
from ksparse.scverse.schema import ANOTHER_KEY, check_adata, field_term, sound
from ksparse.selection.tree_nodes import TreeNodes
from ksparse.selection.tree_result import ClusterTree

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = ["check_tree_key", "holds_tree", "read_tree", "write_tree"]

ENCODING = "ksparse-tree"
RULES = {
    # The root is its own parent here.
    "parent": Rule("count", ("nodes",)),
    "size": Rule("count", ("nodes",)),
    "p_separation": Rule("number", ("nodes",), least=0, most=1, finite=False),
    "strength": Rule("number", ("nodes",), finite=False),
    "supported": Rule("flag", ("nodes",)),
    "why": Rule("text", ("nodes",)),
    # The features of all branches, and the node that each branch leads to.
    "features": Rule("text", ("features",)),
    "feature_node": Rule("count", ("features",)),
    "level": Rule("number", least=0, most=1),
}


def holds_tree(adata: AnnData, key: str) -> bool:
    """Return whether there is a tree in `uns[key]`."""
    stored = adata.uns.get(key)
    return isinstance(stored, Mapping) and is_text(stored.get("encoding"), ENCODING)


def check_tree_key(adata: AnnData, key: str) -> None:
    """Raise InputError if `uns[key]` or `obs[key]` holds something else."""
    for name in ("uns", "obs"):
        if key in getattr(adata, name) and not holds_tree(adata, key):
            raise InputError(field_term(name, key), " holds something else: ", ANOTHER_KEY, ".")


def write_tree(adata: AnnData, key: str, tree: ClusterTree) -> None:
    """Write the clusters ("0", "1", ...) to `obs[key]`, and the tree to `uns[key]`."""
    import pandas

    nodes = tree.nodes
    names = [str(cluster) for cluster in range(tree.n_clusters)]
    adata.obs[key] = pandas.Categorical.from_codes(tree.labels, categories=names)
    parent = nodes.parent.copy()
    parent[0] = 0
    adata.uns[key] = {
        "encoding": ENCODING,
        "version": 1,
        "parent": parent,
        "size": np.asarray(nodes.size),
        "p_separation": nodes.p_separation,
        "strength": nodes.strength,
        "supported": nodes.supported,
        "why": np.array(nodes.why, dtype=str),
        "features": np.array([name for names in nodes.up for name in names], dtype=str),
        "feature_node": np.repeat(np.arange(parent.size), [len(names) for names in nodes.up]),
        "level": nodes.level,
        "sentence": nodes.sentence,
    }


def read_tree(adata: AnnData, key: str) -> TreeNodes:
    """Return the nodes in `uns[key]`; raise InputError if there are none that are sound."""
    check_adata(adata)
    if not holds_tree(adata, key):
        raise InputError(
            field_term("uns", key), " holds no tree: ",
            Term("tree first", text=f"run ksparse.tl.tree(adata, key_added={key!r})"), " first.",
        )  # fmt: skip
    stored = adata.uns[key]
    with sound(f"adata.uns[{key!r}]", "run ksparse.tl.tree again"):
        check_stored(stored, RULES, {}, may_be_empty=("features",))
        parent = np.asarray(stored["parent"]).astype(np.intp)
        supported = np.asarray(stored["supported"])
        node = np.asarray(stored["feature_node"]).astype(np.intp)
        _check_nodes(parent, supported, node)
    parent[0] = -1
    names = [str(name) for name in np.asarray(stored["features"]).tolist()]
    up: list[list[str]] = [[] for _ in range(parent.size)]
    for name, place in zip(names, node.tolist(), strict=True):
        up[place].append(name)
    return TreeNodes(
        parent, np.asarray(stored["size"]).astype(np.intp), np.asarray(stored["p_separation"]),
        np.asarray(stored["strength"]), supported,
        tuple(str(why) for why in np.asarray(stored["why"]).tolist()),
        tuple(tuple(names) for names in up), float(stored["level"]),
    )  # fmt: skip


def _check_nodes(parent: Any, supported: Any, feature_node: Any) -> None:
    """Raise UnsoundError if these are no nodes of a tree whose nodes have two parts, or none."""
    n = parent.size
    if parent[0] != 0 or (parent[1:] >= np.arange(1, n)).any():
        raise UnsoundError("parent holds nodes that do not come before their parts")
    parts = np.bincount(parent[1:], minlength=n)
    if not np.isin(parts, (0, 2)).all():
        raise UnsoundError("parent has nodes that do not have two parts")
    if supported[parts == 0].any() or (supported[1:] & ~supported[parent[1:]]).any():
        raise UnsoundError("supported has nodes that are no splits of supported nodes")
    if (feature_node >= n).any():
        raise UnsoundError("feature_node holds nodes that are not there")
