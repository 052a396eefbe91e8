"""What users may pass besides arrays: AnnData, matrices in files, dask arrays."""

from __future__ import annotations

import re
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp

from ksparse.matrix import Blocks

__all__ = ["as_data", "bytes_of", "is_stored"]

DEFAULT_LIMIT = 2**30
UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
         "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}  # fmt: skip


def bytes_of(memory_limit: Any) -> int:
    """Return a limit such as "2GB", 2e9 or None in bytes."""
    if memory_limit is None:
        return DEFAULT_LIMIT
    value = np.nan
    if isinstance(memory_limit, str):
        match = re.fullmatch(r"\s*([0-9.]+(?:e[0-9]+)?)\s*([kmgt]?i?b?)\s*", memory_limit.lower())
        if match and match[2] in UNITS:
            try:
                value = float(match[1]) * UNITS[match[2]]
            except ValueError:
                value = np.nan
    elif isinstance(memory_limit, Real) and not isinstance(memory_limit, bool):
        value = float(memory_limit)
    if not 1 <= value < 2**62:
        raise ValueError(
            f"memory_limit={memory_limit!r} must be a number of bytes, such as 2_000_000_000 or "
            "'2GB'."
        )
    return int(value)


def _module(X: Any) -> str:
    return type(X).__module__.split(".")[0]


def _is_dask(X: Any) -> bool:
    """Whether X is a dask array, or AnnData's view of one."""
    return any(kind.__module__.split(".")[0] == "dask" for kind in type(X).__mro__)


def is_stored(X: Any) -> bool:
    """Whether X is in a file, or on a cluster, and not in memory."""
    if isinstance(X, np.ndarray) or sp.issparse(X):
        return False
    if isinstance(X, Blocks) or _is_dask(X):
        return True
    return _module(X) in ("h5py", "zarr") or _is_sparse_file(X)


def _is_sparse_file(X: Any) -> bool:
    return _module(X) == "anndata" and hasattr(X, "group") and hasattr(X, "format")


def as_data(X: Any, memory_limit: Any = None) -> tuple[Any, list[str] | None]:
    """Return what can be clustered, and the names of its features where X is AnnData.

    Matrices in files and dask arrays become `Blocks`; all else is returned as it is.
    """
    names = None
    if _module(X) == "anndata" and hasattr(X, "var_names"):
        names = [str(name) for name in X.var_names]
        if X.is_view and X.isbacked:
            raise ValueError("X is a view of a backed AnnData: give the whole, or X.to_memory().")
        X = X.X
        if X is None:
            raise ValueError("The AnnData object has no X: give one of its layers.")
    if isinstance(X, Blocks) or not is_stored(X):
        return X, names
    return as_blocks(X, bytes_of(memory_limit)), names


def as_blocks(X: Any, memory_limit: int) -> Blocks:
    """Return blocks of rows of what is in a file or on a cluster."""
    if _is_dask(X):
        from ksparse.matrix.chunked import DaskBlocks

        return _checked(DaskBlocks(X))
    from ksparse.matrix.stored import StoredBlocks

    if _is_sparse_file(X):
        _need_rows(X.format)
        return _checked(StoredBlocks(X.group, X.shape, memory_limit))
    if hasattr(X, "dtype"):
        if len(X.shape) != 2:
            raise ValueError(f"X has {len(X.shape)} dimensions, but must have 2.")
        return _checked(StoredBlocks(X, X.shape, memory_limit))
    kind = str(X.attrs.get("encoding-type", ""))
    if kind not in ("csr_matrix", "csc_matrix"):
        raise ValueError("X is a group of a file that holds no sparse matrix: give the matrix.")
    _need_rows(kind[:3])
    return _checked(StoredBlocks(X, tuple(X.attrs["shape"]), memory_limit))


def _need_rows(kind: str) -> None:
    if kind != "csr":
        raise ValueError(
            "X is stored by columns (CSC), and cannot be read in blocks of rows: write it as CSR, "
            "or read it into memory."
        )


def _checked(blocks: Blocks) -> Blocks:
    if 0 in blocks.shape:
        raise ValueError(
            f"X has {blocks.shape[0]} sample(s) and {blocks.shape[1]} feature(s), while a minimum "
            "of 1 is required."
        )
    return blocks
