"""The tree of clusters, laid out for a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ksparse._plotting import cluster_colours
from ksparse.scverse.trees import holds_tree, read_tree
from ksparse.selection.tree_plot import lay_out

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = ["tree_content"]

# Genes in the tip of a branch.
MAX_GENES = 20


def tree_content(adata: AnnData, key: str) -> dict[str, Any] | None:
    """Return the branches of a tree, lengths in letters, or None if there is no tree."""
    if not holds_tree(adata, key):
        return None
    nodes = read_tree(adata, key)
    layout = lay_out(nodes)
    return {
        "sentence": nodes.sentence,
        "width": round(layout.width, 2),
        "height": round(layout.height, 2),
        "names": layout.names,
        "colours": cluster_colours(len(layout.names)),
        "branches": [
            {
                "parent": branch.parent,
                "node": branch.node,
                "left": round(branch.left, 2),
                "right": round(branch.right, 2),
                "y": round(branch.y, 2),
                "above": branch.above,
                "text": branch.text,
                "genes": list(nodes.up[branch.node][:MAX_GENES]),
                "cluster": branch.cluster,
                "note": branch.note,
                "size": branch.size,
            }
            for branch in layout.branches
        ],
    }
