"""What all files that store matrices in groups of arrays share: HDF5 and zarr."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ksparse._errors import InputError
from ksparse.io.archives import one_line

__all__ = ["check_matrices", "check_matrix", "check_numbers"]

# Groups of AnnData whose members may be sparse matrices.
PARTS = ("layers", "obsm", "varm", "obsp", "varp")


def check_matrices(path: Path, root: Any) -> None:
    """Raise InputError if a sparse matrix of AnnData has places that are not whole numbers."""
    for place in _places(root):
        if place in root:
            check_matrix(path, place, root[place])


def _places(root: Any) -> Iterator[str]:
    yield from ("X", "raw/X", "raw.X")
    for part in PARTS:
        if part in root and hasattr(root[part], "keys"):
            yield from (f"{part}/{name}" for name in root[part].keys())  # noqa: SIM118


def check_matrix(path: Path, place: str, item: Any) -> None:
    """Raise InputError if the places of values are not whole numbers: scipy would round them."""
    if not hasattr(item, "keys"):
        return
    for name in ("indices", "indptr"):
        dtype = getattr(item[name], "dtype", None) if name in item else None
        if dtype is not None and dtype.kind not in "iu":
            raise InputError(
                f"{path} is damaged: {one_line(place)}/{name} must be whole numbers, got {dtype}."
            )


def check_numbers(path: Path, place: str, dtype: Any) -> None:
    """Raise InputError if the values of a matrix are not real numbers: numpy would convert them."""
    if dtype.kind not in "biuf":
        raise InputError(
            f"{path} holds {dtype} values in {one_line(place)}, which must be real numbers."
        )
