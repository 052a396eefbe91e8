"""HDF5 files: the check that all formats stored in HDF5 share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ksparse._errors import InputError
from ksparse.io.archives import check_declared_size, one_line
from ksparse.readers._probe import walk_hdf5
from ksparse.readers._watched import probe

__all__ = ["HDF5_SUFFIXES", "check_hdf5", "decoded_text"]

# Of .h5ad files and of those of 10x Genomics: which it is, only the content tells.
HDF5_SUFFIXES = (".h5ad", ".h5", ".hdf5")


def check_hdf5(path: Path, watched: bool) -> None:
    """Raise if a file is damaged, declares too much data, or refers to other files.

    If not `watched`, no process is started, and only sizes and links are looked at.
    """
    size = path.stat().st_size
    answer = probe(path, "hdf5", size) if watched else walk_hdf5(str(path), values=False)
    if answer["outside"]:
        place = one_line(answer["outside"][0])
        raise InputError(
            f"{path} refers to another file in {place}, which is not followed: copy the data into "
            "one file."
        )
    check_declared_size(path, answer["declared"], size)


def decoded_text(dataset: Any) -> Any:
    """Return the entries of an HDF5 dataset as an array of str."""
    values = (value.decode() if isinstance(value, bytes) else str(value) for value in dataset[...])
    return np.array(list(values), dtype=object)
