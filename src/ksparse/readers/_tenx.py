"""What the files and the folders of 10x Genomics share."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ksparse._errors import warn

__all__ = ["csr_float32", "only_genes"]


def csr_float32(X: Any) -> Any:
    """Return a sparse matrix as CSR of float32."""
    return sp.csr_matrix(X, dtype=np.float32)


def only_genes(adata: Any) -> Any:
    """Return the gene expression alone; warn if there are other features, such as antibodies."""
    kinds = adata.var.get("feature_types")
    if kinds is None:
        return adata
    is_gene = np.asarray(kinds.astype(str).isin(["Gene Expression"]))
    if is_gene.all() or not is_gene.any():
        return adata
    warn(
        f"{int((~is_gene).sum())} of {is_gene.size} features are not gene expression, and are "
        "left out."
    )
    return adata[:, is_gene].copy()
