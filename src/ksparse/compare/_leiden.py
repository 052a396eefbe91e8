"""The usual steps of scanpy: variable genes, PCA, neighbours, Leiden."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

__all__ = ["leiden"]

N_GENES, N_COMPONENTS, N_NEIGHBOURS = 2000, 50, 15
# Resolutions between which the one that gives k clusters is searched, and number of trials.
LOWEST, HIGHEST, N_TRIALS = 1e-3, 20.0, 25


def leiden(
    X: Any, k: int, seed: int, *, logged: bool
) -> tuple[NDArray[Any], NDArray[np.bool_], NDArray[Any]]:
    """Return clusters, a mask of the variable genes, and principal components.

    The resolution is bisected until there are k clusters; if no resolution gives k, the one
    whose number of clusters is nearest is taken. `logged` says whether X holds logarithms.
    """
    try:
        import igraph  # noqa: F401
        import scanpy as sc
        from anndata import AnnData
    except ImportError:
        raise ImportError(
            "Leiden clustering needs scanpy and igraph: install them with  "
            "pip install 'ksparse[anndata,baselines]'"
        ) from None
    adata = AnnData(X=sp.csr_matrix(X))  # scanpy takes no sparse arrays
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # What the next function expects.
        logarithms = adata if logged else sc.pp.log1p(adata, copy=True)
        sc.pp.highly_variable_genes(logarithms, n_top_genes=min(N_GENES, X.shape[1]))
        selected = logarithms.var["highly_variable"].to_numpy(dtype=bool)
        adata.var["highly_variable"] = selected
        n = min(N_COMPONENTS, X.shape[0] - 1, int(selected.sum()) - 1)
        sc.pp.pca(adata, n_comps=n, random_state=seed)
        sc.pp.neighbors(adata, n_neighbors=min(N_NEIGHBOURS, X.shape[0] - 1), random_state=seed)
        labels = _with_k_clusters(sc, adata, k, seed)
    return labels, selected, np.asarray(adata.obsm["X_pca"])


def _with_k_clusters(sc: Any, adata: Any, k: int, seed: int) -> NDArray[Any]:
    """Return the clusters of Leiden whose number is nearest to k."""
    low, high = LOWEST, HIGHEST
    best: NDArray[Any] | None = None
    for attempt in range(N_TRIALS):
        resolution = 1.0 if attempt == 0 else float(np.sqrt(low * high))
        sc.tl.leiden(
            adata, resolution=resolution, random_state=seed, flavor="igraph", n_iterations=2,
            directed=False,
        )  # fmt: skip
        labels = adata.obs["leiden"].cat.codes.to_numpy()
        n = int(labels.max()) + 1
        if best is None or abs(n - k) < abs(int(best.max()) + 1 - k):
            best = labels.copy()
        if n == k:
            break
        low, high = (resolution, high) if n < k else (low, resolution)
    assert best is not None
    return best
