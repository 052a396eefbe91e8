"""The .h5 files of 10x Genomics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import scipy.sparse as sp

from ksparse._errors import InputError
from ksparse.readers._format import Format, ReadOptions, has_suffix
from ksparse.readers._hdf5 import HDF5_SUFFIXES, check_hdf5, decoded_text
from ksparse.readers._stored import check_matrix, check_numbers
from ksparse.readers._tenx import csr_float32, only_genes

__all__ = ["TENX_H5"]


def _read_tenx_h5(path: Path, options: ReadOptions) -> Any:
    """Return AnnData of a file of Cell Ranger 3 and later, or of one genome before that."""
    import h5py

    with h5py.File(path, "r") as file:
        if "matrix" in file and isinstance(file["matrix"], h5py.Group):
            return only_genes(_matrix(path, file["matrix"], 3))
        genomes = [name for name in file if {"barcodes", "gene_names"} <= _members(file[name])]
        if len(genomes) == 1:
            return _matrix(path, file[genomes[0]], 2)
        if genomes:
            raise InputError(f"{path} holds {len(genomes)} genomes, but one is needed.")
    raise InputError(f"{path} is neither an .h5ad file nor one of 10x Genomics.")


def _members(item: Any) -> set[str]:
    """Return the names in a group; of a dataset there are none."""
    return set(item.keys()) if hasattr(item, "keys") else set()


def _matrix(path: Path, group: Any, version: int) -> Any:
    """Return AnnData of a group whose compressed columns are cells, with genes in rows."""
    import pandas
    from anndata import AnnData

    parts = {"data", "indices", "indptr", "shape", "barcodes"}
    if not parts <= set(group):
        raise InputError(f"{path} lacks {', '.join(sorted(parts - set(group)))} of a 10x matrix.")
    check_matrix(path, group.name, group)
    check_numbers(path, f"{group.name}/data", group["data"].dtype)
    n_genes, n_cells = (int(n) for n in group["shape"][...])
    X = sp.csr_matrix(
        (group["data"][...], group["indices"][...], group["indptr"][...]), shape=(n_cells, n_genes)
    )
    X.check_format(full_check=True)
    if version == 3:
        features = group["features"]
        var = {"gene_ids": decoded_text(features["id"])}
        names = decoded_text(features["name"])
        if "feature_type" in features:
            var["feature_types"] = decoded_text(features["feature_type"])
    else:
        var, names = {"gene_ids": decoded_text(group["genes"])}, decoded_text(group["gene_names"])
    obs = pandas.DataFrame(index=decoded_text(group["barcodes"]))
    return AnnData(csr_float32(X), obs=obs, var=pandas.DataFrame(var, index=names))


TENX_H5 = Format(
    name="10x h5",
    description=".h5 (10x)",
    recognises=has_suffix(*HDF5_SUFFIXES),
    read=_read_tenx_h5,
    check=check_hdf5,
)
