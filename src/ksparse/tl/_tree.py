"""Clusters within clusters, for AnnData."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ksparse.scverse.expression import (
    check_gene_names,
    check_writable,
    read_expression,
    selected_columns,
)
from ksparse.scverse.schema import check_adata, check_key
from ksparse.scverse.trees import check_tree_key, write_tree
from ksparse.selection.tree import tree as grow_tree
from ksparse.selection.tree_result import ClusterTree

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = ["tree"]


def tree(
    adata: AnnData,
    *,
    level: float = 0.05,
    n_clusters: int | None = None,
    n_features: int = 10,
    init: Any = "auto",
    layer: str | None = None,
    mask_var: Any = None,
    normalize: str | None = None,
    scale: bool = False,
    memory_limit: int | str | None = None,
    key_added: str = "tree",
    random_state: int | np.random.RandomState | None = None,
    verbose: int = 0,
) -> ClusterTree:
    """Split the cells again and again, as long as the two sides are separated.

    See `ksparse.tree` for how nodes are split and tested.

    Parameters
    ----------
    adata : AnnData
        Cells x genes.
    level : float, default=0.05
        Level of the test, for all splits together.
    n_clusters : int, optional
        Grow the tree until it can be cut in so many clusters, by splits that are not supported
        where the others are not enough.
    n_features : int, default=10
        Number of genes that are named for each split.
    init : str or list, default="auto"
        Where fits start, as in `ksparse.KSparse`. "graph" takes a third of the time.
    layer, mask_var, normalize
        As in `ksparse.tl.ksparse`.
    scale : bool, default=False
        Whether to divide every gene by its standard deviation.
    memory_limit : int or str, optional
        As in `ksparse.KSparse`.
    key_added : str, default="tree"
        Under which name to write the results.
    random_state : int, RandomState or None
        Seed.
    verbose : int
        1 shows a progress bar on a terminal.

    Returns
    -------
    ClusterTree
        `.table` has the nodes, `.sentence` says what was found. These fields are written:

    `.obs[key_added]` : categorical
        The supported clusters, "0", "1", ... by decreasing size.
    `.uns[key_added]` : dict
        For every node its parent, size, p_separation, strength, supported and why, the features
        of the branches and the feature_node that each of them leads to, level and sentence (see
        `ksparse.ClusterTree`). `ksparse.pl.tree` draws it, and the report shows it.

    Examples
    --------
    >>> import ksparse as ks
    >>> adata = ks.simulate.simulate_counts(200, 300, 3, random_state=0).to_anndata()
    >>> tree = ks.tl.tree(adata, init="graph", normalize="log1p", random_state=0)
    >>> tree.n_clusters, adata.obs["tree"].cat.categories.tolist()
    (3, ['0', '1', '2'])
    """
    check_adata(adata)
    check_key("key_added", key_added)
    check_writable(adata)
    check_gene_names(adata)
    check_tree_key(adata, key_added)
    columns = selected_columns(adata, mask_var)
    X, _ = read_expression(adata, layer, normalize, columns=columns, memory_limit=memory_limit)
    names = np.asarray(adata.var_names, dtype=object)
    result = grow_tree(
        X, level=level, n_clusters=n_clusters, n_features=n_features, init=init, scale=scale,
        feature_names=(names if columns is None else names[columns]).astype(str),
        memory_limit=memory_limit, random_state=random_state, verbose=verbose,
    )  # fmt: skip
    write_tree(adata, key_added, result)
    return result
