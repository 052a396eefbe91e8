"""numpy's and scipy's .npz files; nothing pickled is ever read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from ksparse.promises import check_archive, check_promise

__all__ = ["read_npz"]

NAMES = {"obs_names": ("obs_names", "cells", "samples"), "var_names": ("var_names", "genes")}


def read_npz(path: Path, transpose: bool) -> Any:
    """Read a sparse matrix of scipy, or arrays X and perhaps obs_names and var_names."""
    import pandas
    from anndata import AnnData

    names: dict[str, Any] = {}
    check_archive(path)
    with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
        keys = set(file.files)
        if {"indices", "indptr", "shape", "data"} <= keys or "format" in keys:
            X: Any = None
        else:
            arrays = sorted(k for k in keys if k == "X" or np.ndim(file[k]) == 2)
            if "X" not in keys and len(arrays) != 1:
                raise ValueError(
                    f"{path} must hold one matrix named X; it holds {', '.join(sorted(keys))}."
                )
            X = file["X" if "X" in keys else arrays[0]]
            for what, known in NAMES.items():
                for name in known:
                    if name in keys:
                        names[what] = np.array([str(v) for v in file[name]], dtype=object)
    if X is None:
        with path.open("rb") as stream:
            X = sp.load_npz(stream)
        if hasattr(X, "check_format"):
            X.check_format(full_check=True)  # before anything walks along its indices
        # A row takes this much, its name included, however few values there are.
        check_promise(path, 100 * max(X.shape), path.stat().st_size)
        X = X.tocsr()
    if X.ndim != 2 or X.dtype.kind not in "fiub":
        raise ValueError(f"{path}: X must be a matrix of numbers, got {X.dtype} {X.shape}.")
    if X.dtype.kind != "f" or X.dtype.itemsize not in (4, 8):
        X = X.astype(np.float32)
    if transpose:
        X = X.T.tocsr() if sp.issparse(X) else np.ascontiguousarray(X.T)
    frames = {}
    for axis, what in enumerate(("obs_names", "var_names")):
        index = names.get(what, np.arange(X.shape[axis]).astype(str).astype(object))
        if len(index) != X.shape[axis]:
            raise ValueError(
                f"{path} has {len(index)} {what}, but X has {X.shape[axis]} of them"
                + (" after transposing." if transpose else ".")
            )
        frames[what[:3]] = pandas.DataFrame(index=index)
    return AnnData(sp.csr_matrix(X) if sp.issparse(X) else X, obs=frames["obs"], var=frames["var"])
