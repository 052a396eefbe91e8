"""Checks of what `find_gates` is given."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ksparse._errors import InputError, Term, warn
from ksparse._labels import missing_labels, read_labels
from ksparse._names import repeated
from ksparse.metrics import label_codes
from ksparse.panel._training import Rules
from ksparse.params import check_integer, is_number

__all__ = ["check_rules", "feature_names", "read_groups"]

# Gates of more conditions than this are no sheet for a laboratory.
LONGEST = 4


def check_rules(max_genes: Any, beta: Any, n_candidates: Any) -> Rules:
    """Return what is searched for."""
    max_genes = check_integer("max_genes", max_genes, 1)
    if max_genes > LONGEST:
        raise InputError(Term("max_genes", max_genes), f" must be at most {LONGEST}.")
    if not is_number(beta) or not 0 < beta < np.inf:
        raise InputError(Term("beta", beta), " must be a finite number > 0.")
    if n_candidates is not None:
        n_candidates = check_integer("n_candidates", n_candidates, 1)
    return Rules(max_genes, float(beta), n_candidates)


def feature_names(names: Iterable[Any] | None, n_features: int) -> tuple[str, ...]:
    """Return one name for each feature, all different; their numbers if there are none."""
    if names is None:
        return tuple(str(i) for i in range(n_features))
    if isinstance(names, str):
        raise InputError(Term("names", names), " must be a sequence of names, one per feature.")
    out = tuple(str(name) for name in names)
    if len(out) != n_features:
        raise InputError(
            Term("names"), f" has {len(out)} names, but X has {n_features} features: give one per "
            "feature.",
        )  # fmt: skip
    if again := repeated(out):
        raise InputError(
            Term("names"), f" has {len(again)} repeated names (the first is {again[0]!r}): make "
            "them unique.",
        )  # fmt: skip
    return out


def read_groups(
    y: ArrayLike, n_samples: int
) -> tuple[list[str], NDArray[np.int64], NDArray[np.intp]]:
    """Return the groups in order, that of each sample that has one, and which samples have."""
    labels = read_labels(y)
    missing = missing_labels(labels)
    if labels.shape != (n_samples,):
        raise InputError(
            f"y has shape {labels.shape}, but X has {n_samples} samples: give one group per sample."
        )
    if missing.any():
        warn(
            f"{int(missing.sum())} of {n_samples} samples have no group, and are left out.",
            stacklevel=3,
        )
    rows = np.flatnonzero(~missing)
    codes = label_codes("y", labels[rows])
    groups = [str(labels[rows[np.argmax(codes == g)]]) for g in range(codes.max(initial=-1) + 1)]
    if len(groups) < 2:
        raise InputError(
            f"y has {len(groups)} group{'' if len(groups) == 1 else 's'}, which should be >= 2: a "
            "gate tells one from others."
        )
    if again := repeated(groups):
        raise InputError(f"y has different groups with the same text {again[0]!r}: rename one.")
    return groups, codes.astype(np.int64), rows
