"""Loom files: HDF5 with genes in rows, and attributes of rows and columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from ksparse._errors import InputError, warn
from ksparse.readers._blocks import BLOCK, sparse_or_dense, stacked
from ksparse.readers._format import Format, ReadOptions, has_suffix
from ksparse.readers._hdf5 import check_hdf5, decoded_text
from ksparse.readers._stored import check_numbers

__all__ = ["LOOM"]

# Attributes that hold names, in the order in which they are looked for.
GENE_NAMES = ("Gene", "gene", "gene_names", "var_names", "Accession")
CELL_NAMES = ("CellID", "cell_id", "obs_names", "Barcode")


def _read_loom(path: Path, options: ReadOptions) -> Any:
    """Return AnnData with the matrix, the layers, and all attributes with one value each."""
    import h5py
    import pandas
    from anndata import AnnData

    with h5py.File(path, "r") as file:
        if "matrix" not in file or not isinstance(file["matrix"], h5py.Dataset):
            raise InputError(f"{path} has no matrix: it is not a loom file.")
        matrix = file["matrix"]
        n_genes, n_cells = matrix.shape
        X = _transposed(path, matrix, n_genes, n_cells)
        layers = {
            name: _transposed(path, layer, n_genes, n_cells)
            for name, layer in file.get("layers", {}).items()
        }
        var = _attributes(file, "row_attrs", n_genes)
        obs = _attributes(file, "col_attrs", n_cells)
    frames = {
        "obs": pandas.DataFrame(obs, index=_names(obs, CELL_NAMES, n_cells)),
        "var": pandas.DataFrame(var, index=_names(var, GENE_NAMES, n_genes)),
    }
    return AnnData(X, layers=layers, **frames)


def _transposed(path: Path, matrix: Any, n_genes: int, n_cells: int) -> Any:
    """Return a matrix of genes x cells as cells x genes, read a few genes at a time."""
    if matrix.shape != (n_genes, n_cells) or not n_genes:
        raise InputError(f"{path} holds a matrix of shape {matrix.shape}: it is not a loom file.")
    check_numbers(path, matrix.name, matrix.dtype)
    step = max(1, BLOCK // max(1, n_cells))
    blocks = (matrix[i : i + step].astype(np.float32) for i in range(0, n_genes, step))
    X = stacked([sparse_or_dense(block) for block in blocks]).T
    return X.tocsr() if sp.issparse(X) else np.ascontiguousarray(X)


def _attributes(file: Any, name: str, size: int) -> dict[str, Any]:
    """Return the attributes with one value for each row or column; warn if there are others."""
    out = {}
    n_skipped = 0
    for key, item in file.get(name, {}).items():
        if getattr(item, "shape", None) == (size,):
            values = item[...]
            out[key] = decoded_text(item) if values.dtype.kind in "SO" else values
        else:
            n_skipped += 1
    if n_skipped:
        warn(f"{n_skipped} of the {name} are not one value each, and are left out.")
    return out


def _names(attributes: dict[str, Any], known: tuple[str, ...], size: int) -> Any:
    """Return the first attribute of those that hold names, or numbers from 0."""
    for name in known:
        if name in attributes:
            return np.array([str(value) for value in attributes[name]], dtype=object)
    return np.array([str(i) for i in range(size)], dtype=object)


LOOM = Format(
    name="loom",
    description=".loom",
    recognises=has_suffix(".loom"),
    read=_read_loom,
    check=check_hdf5,
)
