"""What `PanelSelector` is asked for: features to keep and to leave out, costs, and classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ksparse._errors import InputError, Term, warn
from ksparse._labels import missing_labels, read_labels
from ksparse._names import listed
from ksparse.matrix import Floats, Ints
from ksparse.matrix.sources import check_costs
from ksparse.metrics import label_codes

__all__ = ["CLASSES", "FEATURES", "Wishes", "read_classes", "read_wishes"]


# What others, such as the tools for AnnData, call by other names.
CLASSES, FEATURES = Term("classes"), Term("features")


@dataclass(frozen=True)
class Wishes:
    """How many features, and which.

    Attributes
    ----------
    n_features : int
        Their number, with those that are kept.
    costs : ndarray
        Cost of each feature of X: 0 for those that are kept, infinity for those left out.
    min_per_class : int
        So many features have their largest mean in each class.
    balance, ridge : float
        As in `balanced_problem`.
    """

    n_features: int
    costs: Floats
    min_per_class: int
    balance: float
    ridge: float

    @property
    def kept(self) -> Ints:
        """The features that are kept."""
        return np.flatnonzero(self.costs == 0)

    def minimum(self, classes: list[str], kept: Ints, available: Ints) -> Ints:
        """Return how many features every class must have; warn where there are too few.

        `kept` and `available` are the numbers of kept features and of all candidates whose
        largest mean is in each class.
        """
        least = np.minimum(self.min_per_class, available)
        if lacking := {int(c): int(available[c])
                       for c in np.flatnonzero(available < self.min_per_class)}:  # fmt: skip
            shown = listed([f"{classes[c]!r} ({n})" for c, n in lacking.items()])
            warn(
                f"{len(lacking)} ", CLASSES, " have fewer ", FEATURES, " with their largest mean "
                "in them than ",
                Term("min_per_class", self.min_per_class), ": ",
                Term("classes_", lacking, text=shown), ".", stacklevel=4,
            )  # fmt: skip
        needed = int(np.maximum(least - kept, 0).sum())
        places = self.n_features - self.kept.size
        if needed > places:
            raise InputError(
                Term("min_per_class", self.min_per_class), f" asks for {needed} ", FEATURES,
                f" for {len(classes)} ", CLASSES, f" besides the {self.kept.size} that are kept, "
                "but ", Term("n_features", self.n_features), f" leaves {places}: ask for more ",
                FEATURES, ", or for fewer of each ", Term("class"), ".",
            )  # fmt: skip
        return least


def read_wishes(
    keep: Any, exclude: Any, costs: Any, names: Any, n_columns: int, **numbers: Any
) -> Wishes:
    """Return checked wishes; raise InputError for those that contradict each other.

    `names` are those of the `n_columns` features (None: they have none); `numbers` are the other
    attributes of `Wishes`.
    """
    cost = check_costs(costs, n_columns, "costs")
    kept = _places("keep", keep, names, n_columns)
    excluded = _places("exclude", exclude, names, n_columns)
    both = np.intersect1d(np.union1d(kept, np.flatnonzero(cost == 0)),
                          np.union1d(excluded, np.flatnonzero(np.isinf(cost))))  # fmt: skip
    if both.size:
        raise InputError(
            f"{both.size} features are in ", Term("keep"), " and in ", Term("exclude"),
            f" (or have the cost 0 or infinity): {_named(both, names)}. Leave them out of one.",
        )  # fmt: skip
    cost = cost.copy()
    cost[kept], cost[excluded] = 0.0, np.inf
    wishes = Wishes(costs=cost, **numbers)
    if wishes.kept.size > wishes.n_features:
        free = np.setdiff1d(wishes.kept, kept).size
        raise InputError(
            *((Term("keep"), f" has {kept.size} ") if not free else
              (Term("keep"), " and ", Term("costs"), f" of 0 keep {wishes.kept.size} ")),
            FEATURES, ", more than ", Term("n_features", wishes.n_features), ": ask for more, or "
            "keep fewer.",
        )  # fmt: skip
    return wishes


def _named(places: Ints, names: Any) -> str:
    return listed([str(j) if names is None else repr(str(names[j])) for j in places])


def _places(name: str, values: Any, names: Any, n_columns: int) -> Ints:
    """Return features as indices, from indices, a mask or names."""
    if values is None:
        return np.empty(0, dtype=np.intp)
    given = np.atleast_1d(np.asarray(values))
    if given.ndim == 1 and not given.size:
        return np.empty(0, dtype=np.intp)
    if given.ndim == 1 and given.dtype.kind in "UO":
        return _by_name(name, [str(value) for value in given.tolist()], names)
    if given.dtype == bool and given.shape == (n_columns,):
        return np.flatnonzero(given)
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise InputError(
            Term(name), " must be indices of features, True or False for each of the "
            f"{n_columns} features, or names, got shape {given.shape} and dtype {given.dtype}.",
        )  # fmt: skip
    wrong = given[(given < 0) | (given >= n_columns)]
    if wrong.size:
        raise InputError(
            Term(name), f" has the index {wrong[0]}, but X has {n_columns} features: give indices "
            f"from 0 to {n_columns - 1}.",
        )  # fmt: skip
    return np.unique(given).astype(np.intp)


def _by_name(name: str, values: list[str], names: Any) -> Ints:
    if names is None:
        raise InputError(
            Term(name), f" has names such as {values[0]!r}, but the features of X have none: give "
            "indices, or a data frame.",
        )  # fmt: skip
    place = {str(known): j for j, known in enumerate(names)}
    if unknown := [repr(value) for value in dict.fromkeys(values) if value not in place]:
        raise InputError(
            f"{len(unknown)} names in ", Term(name), f" are no features of X: {listed(unknown)}."
        )
    return np.unique([place[value] for value in values])


def read_classes(y: Any, n_samples: int, rows: Ints | None) -> tuple[NDArray[Any], Ints]:
    """Return the classes, sorted, and the number of each sample's class (-1: it has none).

    Of `rows` only, where they are given.
    """
    labels = read_labels(y)
    if labels.shape != (n_samples,):
        raise InputError(
            f"y has shape {labels.shape}, but X has {n_samples} samples: give one class per sample."
        )
    labels = labels if rows is None else labels[rows]
    missing = missing_labels(labels)
    if labels.dtype.kind == "f" and (labels[~missing] % 1 != 0).any():
        raise InputError("Unknown label type: y is continuous: give one class per sample.")
    known = labels[~missing]
    codes = np.full(labels.size, -1, dtype=np.intp)
    codes[~missing] = label_codes("y", known)
    classes = np.array(np.unique(known).tolist())
    if classes.size < 2:
        raise InputError(
            f"y has {classes.size} class{'' if classes.size == 1 else 'es'}, which should be >= 2: "
            "a panel tells classes apart."
        )
    return classes, codes
