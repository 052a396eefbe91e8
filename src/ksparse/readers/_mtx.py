"""Folders of 10x Genomics: matrix.mtx, barcodes.tsv, features.tsv or genes.tsv."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

__all__ = ["is_mtx_folder", "read_mtx", "sparse_float32"]


def _find(folder: Path, *names: str) -> Path | None:
    """A file of that name, gzipped or not, perhaps with a prefix; refuse several."""
    for name in names:
        found = sorted({*folder.glob(f"*{name}"), *folder.glob(f"*{name}.gz")})
        exact = [path for path in found if path.name in (name, f"{name}.gz")]
        if (
            len(exact or found) > 1
            and len({p.name.removesuffix(".gz") for p in exact or found}) > 1
        ):
            raise ValueError(f"{folder} has several files *{name}: put each sample in its folder.")
        if found:
            return (exact or found)[0]
    return None


def is_mtx_folder(folder: Path) -> bool:
    """Whether there is a matrix in the folder."""
    return _find(folder, "matrix.mtx") is not None


def _lines(path: Path) -> Any:
    import pandas

    table = pandas.read_csv(
        path, sep="\t", header=None, dtype=str, keep_default_na=False, quoting=3, na_filter=False
    )
    return table


def read_mtx(folder: Path) -> Any:
    """Read such a folder; genes are in rows there."""
    import pandas
    from anndata import AnnData
    from scipy.io import mmread

    matrix = _find(folder, "matrix.mtx")
    barcodes = _find(folder, "barcodes.tsv")
    features = _find(folder, "features.tsv", "genes.tsv")
    if matrix is None or barcodes is None or features is None:
        raise ValueError(
            f"{folder} must hold matrix.mtx, barcodes.tsv, and features.tsv or genes.tsv "
            "(gzipped or not)."
        )
    X = sparse_float32(sp.coo_matrix(mmread(matrix)).T)
    cells, genes = _lines(barcodes), _lines(features)
    for path, table, size in ((barcodes, cells, X.shape[0]), (features, genes, X.shape[1])):
        if len(table) != size:
            raise ValueError(
                f"{path} has {len(table)} lines, but {matrix.name} has {size} of them."
            )
    names = genes[1 if genes.shape[1] > 1 else 0]
    var = pandas.DataFrame({"gene_ids": genes[0].to_numpy()}, index=names.to_numpy())
    if genes.shape[1] > 2:
        var["feature_types"] = genes[2].to_numpy()
    adata = AnnData(X, obs=pandas.DataFrame(index=cells[0].to_numpy()), var=var)
    return only_genes(adata)


def sparse_float32(X: Any) -> Any:
    """CSR of float32."""
    return sp.csr_matrix(X, dtype=np.float32)


def only_genes(adata: Any) -> Any:
    """Leave out features that are not gene expression, such as antibodies, with a word."""
    kinds = adata.var.get("feature_types")
    if kinds is None:
        return adata
    keep = np.asarray(kinds.astype(str).isin(["Gene Expression"]))
    if keep.all() or not keep.any():
        return adata
    warnings.warn(
        f"{int((~keep).sum())} of {keep.size} features are not gene expression, and are left out.",
        UserWarning,
        stacklevel=2,
    )
    return adata[:, keep].copy()
