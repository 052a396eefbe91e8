"""numpy's and scipy's .npz files; nothing pickled is ever read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from ksparse._errors import InputError
from ksparse.io.archives import check_archive, check_declared_size, one_line
from ksparse.readers._format import Format, ReadOptions, has_suffix

__all__ = ["NPZ"]

# Arrays that hold names, in the order in which they are looked for.
NAMES = {"obs_names": ("obs_names", "cells", "samples"), "var_names": ("var_names", "genes")}
# Bytes that a row or column takes in memory, its name included, however few values it has.
BYTES_PER_ROW = 100
# Arrays of a sparse matrix that say where its values are.
PLACES = ("indices", "indptr", "row", "col", "offsets")


def _read_npz(path: Path, options: ReadOptions) -> Any:
    """Return AnnData of scipy's sparse matrix, or of X and perhaps obs_names and var_names."""
    import pandas
    from anndata import AnnData

    dtypes = check_archive(path)
    X, names = _arrays(path)
    if X is None:
        X = _scipy_matrix(path, dtypes)
    check_declared_size(path, BYTES_PER_ROW * max(X.shape, default=0), path.stat().st_size)
    if X.ndim != 2 or X.dtype.kind not in "fiub":
        raise InputError(f"{path}: X must be a matrix of numbers, got {X.dtype} {X.shape}.")
    if X.dtype.kind != "f" or X.dtype.itemsize not in (4, 8):
        check_declared_size(path, 4 * X.size, path.stat().st_size)
        X = X.astype(np.float32)
    if options.transpose:
        X = X.T.tocsr() if sp.issparse(X) else np.ascontiguousarray(X.T)
    frames = {}
    for axis, name in enumerate(NAMES):
        index = names.get(name, np.arange(X.shape[axis]).astype(str).astype(object))
        if len(index) != X.shape[axis]:
            raise InputError(
                f"{path} has {len(index)} {name}, but X has {X.shape[axis]} of them"
                + (" after transposing." if options.transpose else ".")
            )
        frames[name[:3]] = pandas.DataFrame(index=index)
    return AnnData(sp.csr_matrix(X) if sp.issparse(X) else X, **frames)


def _arrays(path: Path) -> tuple[Any, dict[str, Any]]:
    """Return X (None if the file is one of scipy's sparse matrices) and the names."""
    with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
        keys = set(file.files)
        if {"indices", "indptr", "shape", "data"} <= keys or "format" in keys:
            return None, {}
        matrices = sorted(key for key in keys if key == "X" or np.ndim(file[key]) == 2)
        if "X" not in keys and len(matrices) != 1:
            listed = one_line(", ".join(sorted(keys)))
            raise InputError(f"{path} must hold one matrix named X; it holds {listed}.")
        names = {
            axis: _text(path, file[name])
            for axis, known in NAMES.items()
            for name in known
            if name in keys
        }
        return file["X" if "X" in keys else matrices[0]], names


def _text(path: Path, values: Any) -> Any:
    """Return names as Python objects, which take more memory than what is stored."""
    check_declared_size(path, BYTES_PER_ROW * np.size(values), path.stat().st_size)
    return np.array([str(value) for value in values], dtype=object)


def _scipy_matrix(path: Path, dtypes: dict[str, Any]) -> Any:
    """Return what scipy.sparse.save_npz wrote, as CSR."""
    for name in PLACES:
        dtype = dtypes.get(f"{name}.npy")
        if dtype is not None and dtype.kind not in "iu":
            raise InputError(f"{path} is damaged: {name} must be whole numbers, got {dtype}.")
    with path.open("rb") as stream:
        X = sp.load_npz(stream)
    if hasattr(X, "check_format"):
        X.check_format(full_check=True)  # before anything walks along its indices
    check_declared_size(path, BYTES_PER_ROW * max(X.shape), path.stat().st_size)
    return X.tocsr()


NPZ = Format(
    name="npz",
    description=".npz",
    recognises=has_suffix(".npz"),
    read=_read_npz,
    takes_transpose=True,
)
