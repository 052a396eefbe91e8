"""All file formats: a new one is a file beside this one, and an entry here."""

from __future__ import annotations

from pathlib import Path

from ksparse._errors import InputError
from ksparse.readers._format import Format
from ksparse.readers._h5ad import H5AD
from ksparse.readers._loom import LOOM
from ksparse.readers._npz import NPZ
from ksparse.readers._table import TABLE
from ksparse.readers._tenx_folder import TENX_FOLDER
from ksparse.readers._tenx_h5 import TENX_H5
from ksparse.readers._zarr import ZARR

__all__ = ["FORMATS", "candidates"]

# In the order in which errors list them. If several recognise a path, the first one whose
# `read` does not return None has it.
FORMATS: dict[str, Format] = {
    "h5ad": H5AD,
    "zarr": ZARR,
    "10x h5": TENX_H5,
    "10x folder": TENX_FOLDER,
    "loom": LOOM,
    "table": TABLE,
    "npz": NPZ,
}


def candidates(path: Path) -> list[Format]:
    """Return the formats that recognise a path; raise InputError if there is none."""
    formats = [each for each in FORMATS.values() if each.recognises(path)]
    if formats:
        return formats
    known = ", ".join(each.description for each in FORMATS.values())
    if path.is_dir():
        raise InputError(f"{path} is a folder without matrix.mtx, and no .zarr: give {known}.")
    raise InputError(f"{path} is of no kind that can be read: give {known}.")
