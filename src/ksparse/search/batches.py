"""Batches of samples: what users give, checked; and folds that leave batches out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ksparse._errors import InputError, Term, warn
from ksparse._labels import missing_labels, read_labels
from ksparse._names import listed
from ksparse.matrix import Floats, Ints
from ksparse.matrix.batches import BatchMatrix

__all__ = ["Batches", "batch_codes", "batch_folds", "read_groups", "with_groups"]

# The means of all batches are stored, batches x features.
MAX_BATCHES = 1_000
# Batches are left out one by one, or, if they are more or smaller than this, several together.
MAX_FOLDS, MIN_FOLD = 10, 10
# What is left to fit without a fold, as a share of all samples: with less, the score of that fold
# is that of a fit of too few samples, and says nothing of the labels or the number of features.
MIN_REST = 0.1


class Batches(NamedTuple):
    """Batches as numbers, in the order of their names.

    Attributes
    ----------
    names : tuple
        The batches, as they were given.
    every : ndarray of int
        The batch of each of all samples.
    fitted : ndarray of int
        The batch of each sample that takes part in the fit.
    """

    names: tuple[Any, ...]
    every: Ints
    fitted: Ints


def with_groups(inputs: Any, groups: Any, *, center: bool) -> Any:
    """Return inputs whose features are centred within batches.

    Raises InputError for batches that leave nothing to cluster, and warns about batches of one
    sample.

    Parameters
    ----------
    inputs : Inputs
        Checked data and settings (see `ksparse.params`).
    groups : array-like
        The batch of each sample.
    center : bool
        The parameter of that name.
    """
    if not center:
        raise InputError(
            Term("groups"), " subtracts the means of batches, and ", Term("center", False),
            " subtracts none: leave one of them out.",
        )  # fmt: skip
    names, every = _read(groups, inputs.X.shape[0])
    rows, n = inputs.fitted, len(names)
    fitted = every if rows is None else every[rows]
    lost = np.flatnonzero(np.bincount(fitted, minlength=n) == 0)
    if lost.size:
        raise InputError(
            f"{lost.size} of {n} batches of ", Term("groups"), " have no sample with a positive ",
            Term("sample_weight"), f": {listed([repr(names[b]) for b in lost])}. Give one sample "
            "of each a weight, or leave the batch out.",
        )  # fmt: skip
    batches = Batches(names, every, fitted)
    if n == 1:  # the mean of the batch is that of all samples
        return replace(inputs, batches=batches)
    if n > min(MAX_BATCHES, fitted.size // 2):
        most = f"more than {MAX_BATCHES:,}" if n > MAX_BATCHES else "fewer than 2 for each"
        samples = "" if n > MAX_BATCHES else f" for {fitted.size} samples"
        raise InputError(
            Term("groups"), f" has {n:,} batches{samples}, {most}: give coarser batches.",
        )  # fmt: skip
    matrix = BatchMatrix(inputs.matrix, fitted, n, every)
    if matrix.constant.all():
        raise InputError(
            f"No feature of X varies within the {n} batches of ", Term("groups"), ": give other "
            "batches, or leave it out.",
        )  # fmt: skip
    _warn_single(batches)
    return replace(inputs, matrix=matrix, batches=batches)


def _warn_single(batches: Batches) -> None:
    """Warn about batches of one sample, to be called from four functions below the user's."""
    single = np.flatnonzero(np.bincount(batches.fitted) == 1)
    if single.size:
        names = listed([repr(batches.names[b]) for b in single])
        warn(
            f"{single.size} of {len(batches.names)} batches of ", Term("groups"), " have one "
            f"sample: {names}. Nothing is left of it when the mean of its batch is subtracted, so "
            "its cluster means nothing.", stacklevel=6,
        )  # fmt: skip


def _read(groups: Any, n_samples: int) -> tuple[tuple[Any, ...], Ints]:
    """Return the names of the batches in their order, and the number of that of each sample."""
    values, missing = read_groups(groups, n_samples)
    if missing.any():
        raise InputError(
            Term("groups"), f" is missing for {int(missing.sum())} of {n_samples} samples: give "
            "the batch of every sample.",
        )  # fmt: skip
    names = list(dict.fromkeys(values))
    try:
        names.sort()
    except TypeError:  # of several kinds: in the order in which they appear
        names = list(dict.fromkeys(values))
    place = {name: number for number, name in enumerate(names)}
    return tuple(names), np.array([place[value] for value in values], dtype=np.intp)


def read_groups(groups: Any, n_samples: int) -> tuple[list[Any], Any]:
    """Return the batch of each sample as a value of Python, and where it is missing."""
    labels = read_labels(groups)
    if labels.shape != (n_samples,):
        raise InputError(
            Term("groups"), f" has shape {labels.shape}, but X has {n_samples} samples: give one "
            "batch per sample.",
        )  # fmt: skip
    missing = missing_labels(labels)
    values = [one.item() if isinstance(one, np.generic) else one for one in labels.tolist()]
    try:
        set(values)
    except TypeError:
        raise InputError(
            Term("groups"), " holds batches that are no names or numbers (such as lists): give one "
            "batch per sample.",
        ) from None  # fmt: skip
    return values, missing


def batch_codes(groups: Any, names: Sequence[Any], n_samples: int) -> tuple[Ints, list[str]]:
    """Return the number of the batch of each sample, and the batches that are not known.

    Samples of a batch that is not known, or missing, have the number -1.
    """
    values, missing = read_groups(groups, n_samples)
    place = {name: number for number, name in enumerate(names)}
    codes = np.array(
        [-1 if gone else place.get(value, -1)
         for value, gone in zip(values, missing, strict=True)], dtype=np.intp,
    )  # fmt: skip
    unknown = [value for value, code, gone in zip(values, codes, missing, strict=True)
               if code < 0 and not gone]  # fmt: skip
    out = [repr(value) for value in dict.fromkeys(unknown)]
    return codes, out + ["missing"] * bool(missing.any())


def batch_folds(batches: Ints, weight: Floats | None = None) -> Ints:
    """Return the fold of each sample: each batch by itself, if that is no more than ten folds.

    Of more batches, and of batches of fewer than ten samples, the smallest share a fold, as long
    as there are two folds. There is one fold only if nearly all samples are of one batch, such
    that too few are left to fit without it.
    """
    present, codes = np.unique(batches, return_inverse=True)
    size = np.bincount(codes, weights=weight).tolist()
    members = [[b] for b in range(present.size)]
    while len(members) > 2 and (len(members) > MAX_FOLDS or min(size) < MIN_FOLD):
        first, second = np.argsort(size, kind="stable")[:2]
        keep, gone = sorted((int(first), int(second)))
        size[keep] += size.pop(gone)
        members[keep] += members.pop(gone)
    if sum(size) - max(size) < max(MIN_FOLD, MIN_REST * sum(size)):
        return np.zeros(codes.size, dtype=np.intp)
    fold = np.empty(present.size, dtype=np.intp)
    for f, some in enumerate(members):
        fold[some] = f
    return fold[codes]
