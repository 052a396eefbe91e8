"""HDF5 files: .h5ad, 10x Genomics' .h5 and .loom."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from ksparse.promises import check_promise
from ksparse.readers._mtx import only_genes, sparse_float32
from ksparse.readers._table import BLOCK, _block, assemble
from ksparse.readers._watched import probe

__all__ = ["read_h5", "read_loom"]


def _check(path: Path) -> None:
    """Refuse a file that is damaged, promises too much, or refers to others."""
    size = path.stat().st_size
    found = probe(path, "hdf5", size)
    if found["outside"]:
        raise ValueError(
            f"{path} refers to another file in {found['outside'][0]}, which is not followed: copy "
            "the data into one file."
        )
    check_promise(path, found["promised"], size)


def read_h5(path: Path) -> Any:
    """Read .h5ad or 10x .h5, whichever it is."""
    import anndata
    import h5py

    _check(path)
    with h5py.File(path, "r") as file:
        kind = set(file)
        if "matrix" in kind and isinstance(file["matrix"], h5py.Group):
            return only_genes(_read_10x(path, file["matrix"], 3))
        if not kind & {"X", "obs", "var"}:
            genomes = [
                name for name in file if {"barcodes", "gene_names"} <= set(_keys(file[name]))
            ]
            if len(genomes) == 1:
                return _read_10x(path, file[genomes[0]], 2)
            if genomes:
                raise ValueError(f"{path} holds {len(genomes)} genomes, but one is needed.")
            raise ValueError(f"{path} is neither an .h5ad file nor one of 10x Genomics.")
    return anndata.read_h5ad(path)


def _keys(item: Any) -> Any:
    return item.keys() if hasattr(item, "keys") else ()


def _text(values: Any) -> Any:
    return np.array([v.decode() if isinstance(v, bytes) else str(v) for v in values[...]], object)


def _read_10x(path: Path, group: Any, version: int) -> Any:
    """Read the matrix: compressed columns are cells, of genes in rows."""
    import pandas
    from anndata import AnnData

    parts = {"data", "indices", "indptr", "shape", "barcodes"}
    if not parts <= set(group):
        raise ValueError(f"{path} lacks {', '.join(sorted(parts - set(group)))} of a 10x matrix.")
    n_genes, n_cells = (int(n) for n in group["shape"][...])
    X = sp.csr_matrix(
        (group["data"][...], group["indices"][...], group["indptr"][...]), shape=(n_cells, n_genes)
    )
    X.check_format(full_check=True)
    if version == 3:
        features = group["features"]
        var = {"gene_ids": _text(features["id"])}
        names = _text(features["name"])
        if "feature_type" in features:
            var["feature_types"] = _text(features["feature_type"])
    else:
        var, names = {"gene_ids": _text(group["genes"])}, _text(group["gene_names"])
    obs = pandas.DataFrame(index=_text(group["barcodes"]))
    return AnnData(sparse_float32(X), obs=obs, var=pandas.DataFrame(var, index=names))


def read_loom(path: Path) -> Any:
    """Read a loom file: genes in rows, attributes of rows and columns beside them."""
    import h5py
    import pandas
    from anndata import AnnData

    _check(path)
    with h5py.File(path, "r") as file:
        if "matrix" not in file or not isinstance(file["matrix"], h5py.Dataset):
            raise ValueError(f"{path} has no matrix: it is not a loom file.")
        matrix = file["matrix"]
        n_genes, n_cells = matrix.shape
        X = _transposed(path, matrix, n_genes, n_cells)
        layers = {
            name: _transposed(path, layer, n_genes, n_cells)
            for name, layer in file.get("layers", {}).items()
        }
        var = _attributes(file, "row_attrs", n_genes)
        obs = _attributes(file, "col_attrs", n_cells)
    genes = _names(var, ("Gene", "gene", "gene_names", "var_names", "Accession"), n_genes)
    cells = _names(obs, ("CellID", "cell_id", "obs_names", "Barcode"), n_cells)
    frames = {
        "obs": pandas.DataFrame(obs, index=cells),
        "var": pandas.DataFrame(var, index=genes),
    }
    return AnnData(X, layers=layers, **frames)


def _transposed(path: Path, matrix: Any, n_genes: int, n_cells: int) -> Any:
    """A matrix of genes x cells as cells x genes, read a few genes at a time."""
    if matrix.shape != (n_genes, n_cells) or not n_genes:
        raise ValueError(f"{path} holds a matrix of shape {matrix.shape}: it is not a loom file.")
    step = max(1, BLOCK // max(1, n_cells))
    blocks = [_block(matrix[i : i + step].astype(np.float32)) for i in range(0, n_genes, step)]
    X = assemble(blocks).T
    return X.tocsr() if sp.issparse(X) else np.ascontiguousarray(X)


def _attributes(file: Any, name: str, size: int) -> dict[str, Any]:
    out = {}
    skipped = 0
    for key, item in file.get(name, {}).items():
        if getattr(item, "shape", None) == (size,):
            values = item[...]
            out[key] = _text(item) if values.dtype.kind in "SO" else values
        else:
            skipped += 1
    if skipped:
        warnings.warn(
            f"{skipped} of the {name} are not one value each, and are left out.",
            UserWarning,
            stacklevel=2,
        )
    return out


def _names(attributes: dict[str, Any], known: tuple[str, ...], size: int) -> Any:
    for name in known:
        if name in attributes:
            return np.array([str(value) for value in attributes[name]], dtype=object)
    return np.array([str(i) for i in range(size)], dtype=object)
