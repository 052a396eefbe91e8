"""Known labels of some samples: what users give, checked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ksparse._errors import InputError, Term
from ksparse._labels import missing_labels, read_labels
from ksparse._names import listed
from ksparse.matrix import Ints
from ksparse.matrix.sources import count_distinct_rows, select_rows

__all__ = ["Known", "with_known"]


class Known(NamedTuple):
    """Known labels as numbers, in the order in which the classes appear; -1: not known.

    Attributes
    ----------
    classes : tuple
        The classes, as they were given.
    every : ndarray of int
        The class of each of all samples.
    fitted : ndarray of int
        The class of each sample that takes part in the fit.
    """

    classes: tuple[Any, ...]
    every: Ints
    fitted: Ints

    def of_clusters(self, order: Ints) -> NDArray[np.object_]:
        """Return the class of each cluster (None: it is new), given its number in the fit."""
        names = [*self.classes, *[None] * (order.size - len(self.classes))]
        out = np.empty(order.size, dtype=object)
        out[:] = [names[c] for c in order]
        return out


def with_known(inputs: Any, known_labels: Any, n_clusters: int) -> Any:
    """Return inputs with known labels; raise InputError for those that cannot be kept.

    Parameters
    ----------
    inputs : Inputs
        Checked data and settings (see `ksparse.params`).
    known_labels : array-like
        One label per sample, missing where it is not known.
    n_clusters : int
        The number of clusters that was asked for.
    """
    known = _checked(known_labels, inputs.X, inputs.fitted, n_clusters, inputs.n_distinct)
    return replace(inputs, settings=replace(inputs.settings, known=known))


def _checked(
    known_labels: Any, X: Any, rows: Ints | None, n_clusters: int, n_distinct: int
) -> Known:
    """Return known labels that can be kept; `rows` are the samples that are fitted (None: all)."""
    classes, every = _read(known_labels, X.shape[0])
    fitted = every if rows is None else every[rows]
    m, n_new = len(classes), n_clusters - len(classes)
    if n_new < 0:
        raise InputError(
            Term("known_labels"), f" has {m} classes, more than ", Term("n_clusters", n_clusters),
            ": ask for more clusters, or leave classes out.",
        )  # fmt: skip
    lost = np.flatnonzero(np.bincount(fitted[fitted >= 0], minlength=m) == 0)
    if lost.size:
        raise InputError(
            f"{lost.size} of {m} classes of ", Term("known_labels"), " are known only for samples "
            "without ", Term("sample_weight"), f": {listed([repr(classes[c]) for c in lost])}. "
            "Give one sample of each a weight, or leave the class out.",
        )  # fmt: skip
    if n_distinct < n_clusters:
        raise InputError(
            f"X has {n_distinct} distinct samples, fewer than ",
            Term("n_clusters", n_clusters), ", which leaves no cluster for some classes of ",
            Term("known_labels"), ": ask for fewer clusters.",
        )  # fmt: skip
    unknown = np.flatnonzero(fitted < 0) if rows is None else rows[fitted < 0]
    n_free = unknown.size
    if 0 < n_new <= n_free:
        n_free = count_distinct_rows(select_rows(X, unknown), n_new)
    if n_free < n_new:
        distinct = "distinct " if unknown.size >= n_new else ""
        raise InputError(
            Term("n_clusters", n_clusters), f" is {n_new} more than the {m} classes of ",
            Term("known_labels"), f", but {n_free} {distinct}samples have no known label: ask for "
            f"at most {m + n_free} clusters, or leave labels out.",
        )  # fmt: skip
    return Known(classes, every, fitted)


def _read(known_labels: Any, n_samples: int) -> tuple[tuple[Any, ...], Ints]:
    """Return the classes in their order of appearance, and that of each sample (-1: unknown)."""
    labels = read_labels(known_labels)
    if labels.shape != (n_samples,):
        raise InputError(
            Term("known_labels"), f" has shape {labels.shape}, but X has {n_samples} samples: give "
            "one label per sample, None where it is not known.",
        )  # fmt: skip
    missing = missing_labels(labels)
    if missing.all():
        raise InputError(
            Term("known_labels"), f" has labels for 0 of {n_samples} samples: label at least 1, or "
            "leave it out.",
        )  # fmt: skip
    codes = np.full(n_samples, -1, dtype=np.intp)
    number: dict[Any, int] = {}
    values = labels[~missing].tolist()
    try:
        codes[~missing] = [number.setdefault(value, len(number)) for value in values]
    except TypeError:
        raise InputError(
            Term("known_labels"), " holds labels that are no names or numbers (such as lists): "
            "give one label per sample.",
        ) from None  # fmt: skip
    plain = (one.item() if isinstance(one, np.generic) else one for one in number)
    return tuple(plain), codes
