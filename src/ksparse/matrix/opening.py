"""Open data that are in files or on a cluster as blocks of rows."""

from __future__ import annotations

import re
from numbers import Real
from typing import Any

import numpy as np

from ksparse._errors import InputError, Term
from ksparse.matrix.blocks import Blocks

__all__ = ["is_dask", "is_sparse_file", "memory_bytes", "open_blocks", "top_module"]

DEFAULT_MEMORY_LIMIT = 2**30
UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
         "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}  # fmt: skip


def memory_bytes(memory_limit: Any) -> int:
    """Return a limit such as "2GB", 2e9 or None in bytes."""
    if memory_limit is None:
        return DEFAULT_MEMORY_LIMIT
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
        raise InputError(
            Term("memory_limit", memory_limit),
            " must be a number of bytes, such as 2_000_000_000 or '2GB'.",
        )
    return int(value)


def top_module(X: Any) -> str:
    """Return the name of the package that the type of X comes from."""
    return type(X).__module__.split(".")[0]


def is_dask(X: Any) -> bool:
    """Return whether X is a dask array, or AnnData's view of one."""
    return any(kind.__module__.split(".")[0] == "dask" for kind in type(X).__mro__)


def is_sparse_file(X: Any) -> bool:
    """Return whether X is AnnData's view of a sparse matrix in a file."""
    return top_module(X) == "anndata" and hasattr(X, "group") and hasattr(X, "format")


def open_blocks(X: Any, memory_limit: Any) -> Blocks:
    """Return blocks of rows of what is in a file or on a cluster."""
    limit = memory_bytes(memory_limit)
    if is_dask(X):
        from ksparse.matrix.chunked import DaskBlocks

        return _not_empty(DaskBlocks(X))
    from ksparse.matrix.stored import StoredBlocks

    if is_sparse_file(X):
        _check_stored_by_rows(X.format)
        return _not_empty(StoredBlocks(X.group, X.shape, limit))
    if hasattr(X, "dtype"):
        if len(X.shape) != 2:
            raise InputError(f"X has {len(X.shape)} dimensions, but must have 2.")
        return _not_empty(StoredBlocks(X, X.shape, limit))
    kind = str(X.attrs.get("encoding-type", ""))
    if kind not in ("csr_matrix", "csc_matrix"):
        raise InputError("X is a group of a file that holds no sparse matrix: give the matrix.")
    _check_stored_by_rows(kind[:3])
    return _not_empty(StoredBlocks(X, tuple(X.attrs["shape"]), limit))


def _check_stored_by_rows(kind: str) -> None:
    if kind != "csr":
        raise InputError(
            "X is stored by columns (CSC), and cannot be read in blocks of rows: write it as CSR, "
            "or read it into memory."
        )


def _not_empty(blocks: Blocks) -> Blocks:
    if 0 in blocks.shape:
        raise InputError(
            f"X has {blocks.shape[0]} sample(s) and {blocks.shape[1]} feature(s), while a minimum "
            "of 1 is required."
        )
    return blocks
