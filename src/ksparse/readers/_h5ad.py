"""AnnData's .h5ad files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ksparse.readers._format import Format, ReadOptions, has_suffix
from ksparse.readers._hdf5 import HDF5_SUFFIXES, check_hdf5
from ksparse.readers._stored import check_matrices

__all__ = ["H5AD"]


def _read_h5ad(path: Path, options: ReadOptions) -> Any:
    """Return AnnData, or None if the file has the layout of 10x Genomics or another one."""
    import anndata
    import h5py

    with h5py.File(path, "r") as file:
        is_tenx = "matrix" in file and isinstance(file["matrix"], h5py.Group)
        if is_tenx or not {"X", "obs", "var"} & set(file):
            return None
        check_matrices(path, file)
    return anndata.read_h5ad(path)


H5AD = Format(
    name="h5ad",
    description=".h5ad",
    recognises=has_suffix(*HDF5_SUFFIXES),
    read=_read_h5ad,
    check=check_hdf5,
)
