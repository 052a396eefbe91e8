"""What can be wrong with data: indices out of range, values that are missing or not finite."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ksparse._errors import InputError

__all__ = ["BadValues", "bad_values", "check_indices", "check_unmasked"]


def check_indices(X: Any) -> None:
    """Raise InputError if X is a sparse matrix with indices or pointers out of range.

    Compiled code follows them wherever they lead. One pass, without a copy.
    """
    if not sp.issparse(X):
        return
    if X.format == "coo":
        for axis, places in enumerate((X.row, X.col)):
            _check_range(places, X.shape[axis])
        _check_sizes(X.data.shape[0] == X.row.size == X.col.size)
    elif X.format in ("csr", "csc", "bsr"):
        blocks = X.blocksize if X.format == "bsr" else (1, 1)
        n_rows, n_columns = (n // size for n, size in zip(X.shape, blocks, strict=True))
        n_major, n_minor = (n_columns, n_rows) if X.format == "csc" else (n_rows, n_columns)
        _check_pointers(X.indptr, n_major, min(X.indices.size, X.data.shape[0]))
        _check_sizes(X.data.shape[0] == X.indices.size)
        _check_range(X.indices, n_minor)


def _check_range(indices: Any, n: int) -> None:
    """Raise InputError unless 0 <= indices < n."""
    if indices.dtype.kind not in "iu":
        raise InputError(f"X is damaged: its indices are {indices.dtype}, which must be integers.")
    if not indices.size:
        return
    # As unsigned numbers, negative ones are the largest.
    unsigned = indices.view(f"u{indices.dtype.itemsize}")
    place = int(unsigned.argmax()) if int(unsigned.max()) >= n else -1
    if place >= 0:
        raise InputError(
            f"X is damaged: an index of the sparse matrix is {int(indices[place])}, which should "
            f"be between 0 and {n - 1}."
        )


def _check_pointers(indptr: Any, n_major: int, n_stored: int) -> None:
    """Raise InputError unless pointers increase from 0 to at most the number of values."""
    sound = indptr.dtype.kind in "iu" and indptr.shape == (n_major + 1,)
    if sound:
        sound = indptr[0] == 0 and int(indptr[-1]) <= n_stored
        sound = bool(sound and (indptr[1:] >= indptr[:-1]).all())
    if not sound:
        raise InputError(
            "X is damaged: the index pointer of the sparse matrix does not increase from 0 to the "
            f"number of stored values, {n_stored}."
        )


def _check_sizes(equal: bool) -> None:
    if not equal:
        raise InputError("X is damaged: the sparse matrix has more values than indices, or fewer.")


def check_unmasked(name: str, values: Any) -> None:
    """Raise InputError if an array has masked entries: what they hold was not meant to be used."""
    if isinstance(values, np.ma.MaskedArray) and (n := int(np.ma.getmaskarray(values).sum())):
        raise InputError(
            f"{name} is a masked array with {n} masked values: remove them, or fill them with "
            f"{name}.filled(value)."
        )


class BadValues(NamedTuple):
    """Values that are not finite: how many, of which kinds, and where the first one is."""

    number: int
    kinds: frozenset[str]
    first: tuple[int, int] | None

    def message(self) -> str:
        """Return a sentence for the user."""
        assert self.first is not None
        return (
            f"X contains {' and '.join(sorted(self.kinds))} ({self.number} in all, the first in "
            f"row {self.first[0]}, column {self.first[1]}): remove or impute them before "
            "clustering."
        )


def bad_values(X: Any) -> BadValues:
    """Return how many values are NaN or infinite, and where the first one is."""
    out = BadValues(0, frozenset(), None)
    step = max(1, 2**20 // max(1, X.shape[1]))
    rows = X.tocsr() if sp.issparse(X) else X
    for start in range(0, X.shape[0], step):
        block = rows[start : start + step]
        block = block.toarray() if sp.issparse(block) else block
        wrong = np.argwhere(~np.isfinite(block))
        if wrong.size:
            kinds = {"NaN" if np.isnan(block[i, j]) else "infinity" for i, j in wrong}
            first = (start + int(wrong[0][0]), int(wrong[0][1]))
            out = BadValues(out.number + len(wrong), out.kinds | kinds, out.first or first)
    return out
