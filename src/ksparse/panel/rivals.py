"""Other ways to choose features for groups, and our own, all on the samples that they are given."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ksparse._errors import InputError, InputWarning, Term
from ksparse.matrix import Ints, as_matrix
from ksparse.matrix.data import take_rows
from ksparse.panel.selector import PanelSelector

__all__ = ["OURS", "RIVALS", "check_rivals", "choose_features", "usable_features"]

OURS = "ksparse"
RIVALS = ("wilcoxon", "hvg", "random")


def check_rivals(rivals: Any) -> list[str]:
    """Return the names of rivals; raise InputError for one that is unknown."""
    names = [rivals] if isinstance(rivals, str) else list(rivals)
    for name in names:
        if name not in RIVALS:
            raise InputError(
                Term("rivals"), f" contains {name!r}, which is unknown; choose from "
                f"{', '.join(RIVALS)}.",
            )  # fmt: skip
    return list(dict.fromkeys(names))


def usable_features(X: Any) -> Ints:
    """Return the features that are not constant; raise InputError if there is none."""
    usable = np.flatnonzero(~as_matrix(X).constant)
    if not usable.size:
        raise InputError(f"All {X.shape[1]} features are constant: nothing tells groups apart.")
    return usable


def choose_features(
    method: str, X: Any, codes: Ints, n_features: int, rng: np.random.RandomState
) -> Ints:
    """Return up to `n_features` features, the best ones first.

    Parameters
    ----------
    method : {"ksparse", "wilcoxon", "hvg", "random"}
        How to choose.
    X : array, sparse matrix or blocks, samples x features
        The samples that may be used.
    codes : ndarray of int
        Their groups.
    n_features : int
        How many features are wanted.
    rng : RandomState
        Random numbers.
    """
    if method == OURS:
        return _ours(X, codes, n_features, rng.randint(2**31 - 1))
    if method == "wilcoxon":
        return _wilcoxon(X, codes, n_features)
    usable = usable_features(X)
    if method == "hvg":
        return usable[np.argsort(-as_matrix(X).variance[usable], kind="stable")][:n_features]
    return rng.permutation(usable)[:n_features]


def _ours(X: Any, codes: Ints, n_features: int, seed: int) -> Ints:
    """Return the features of `PanelSelector`, in the order of selection."""
    n = min(n_features, usable_features(X).size)
    with warnings.catch_warnings():
        # That a fold has fewer features for a choice beside the list is no news about the list.
        warnings.simplefilter("ignore", InputWarning)
        chosen = PanelSelector(n, random_state=seed).fit(X, codes).features_
    return np.asarray(chosen, dtype=np.intp)


def _wilcoxon(X: Any, codes: Ints, n_features: int) -> Ints:
    """Return the best genes of scanpy's rank-sum test, one of each group in turn."""
    try:
        import scanpy as sc
        from anndata import AnnData
    except ImportError:
        raise ImportError(
            "rivals='wilcoxon' needs scanpy: install it with  pip install 'ksparse[anndata]'"
        ) from None
    import scipy.sparse as sp

    n = min(n_features, X.shape[1])
    rows = take_rows(X, None, lambda block: block)
    adata = AnnData(X=sp.csr_matrix(rows))  # scanpy takes no sparse arrays
    adata.obs["group"] = [str(code) for code in codes]
    adata.obs["group"] = adata.obs["group"].astype("category")
    adata.var_names = [str(j) for j in range(X.shape[1])]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it wants to know that the data are logarithms
        sc.tl.rank_genes_groups(adata, "group", method="wilcoxon", n_genes=n, use_raw=False)
    names = adata.uns["rank_genes_groups"]["names"]
    ranked = [[int(j) for j in names[str(code)]] for code in np.unique(codes)]
    return np.array(_in_turn(ranked, n), dtype=np.intp)


def _in_turn(ranked: list[list[int]], n: int) -> list[int]:
    """Return n entries: of each list in turn the first that was not taken yet."""
    left = [iter(entries) for entries in ranked]
    taken: dict[int, None] = {}
    while len(taken) < n:
        for entries in left:
            new = next((j for j in entries if j not in taken), None)
            if new is not None and len(taken) < n:
                taken[new] = None
    return list(taken)
