"""Held-out scores of lists of features: how well classifiers tell groups apart by them alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import confusion_matrix
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_array

from ksparse._errors import InputError, Term, warn
from ksparse._names import listed
from ksparse._threads import blas_threads, openmp_threads
from ksparse.matrix import Floats, Ints, as_matrix
from ksparse.matrix.data import dense
from ksparse.matrix.sources import (
    check_data,
    check_stored_values,
    columns_in_memory,
    is_stored,
)
from ksparse.search.judge import mean_and_error

__all__ = [
    "CLASSIFIERS",
    "Fold",
    "Groups",
    "PanelScores",
    "halves",
    "held_out_mask",
    "held_out_ratio",
    "make_folds",
    "read_data",
    "read_groups",
    "sample_cells",
    "score_panel",
    "score_rows",
    "split_groups",
]

CLASSIFIERS = ("logistic", "5nn")
N_NEIGHBORS = 5
# A sample of the cells keeps at least so many of each group, where there are so many.
LEAST_SAMPLED = 50

Fold = tuple[Ints, Ints]


class Groups(NamedTuple):
    """The samples that have a group that can be evaluated.

    Attributes
    ----------
    rows : ndarray of int
        These samples, in increasing order.
    codes : ndarray of int
        The group of each of them.
    names : list of str
        Names of the groups: in the order of categories, else sorted.
    """

    rows: Ints
    codes: Ints
    names: list[str]

    @property
    def sizes(self) -> Ints:
        """Number of samples of each group."""
        return np.bincount(self.codes, minlength=len(self.names))

    def take(self, places: Ints) -> Groups:
        """Return the groups of some of these samples (all groups should be among them)."""
        return Groups(self.rows[places], self.codes[places], self.names)


class PanelScores(NamedTuple):
    """Scores of a list of features by classifier: recall (folds x groups) and held-out counts."""

    recall: dict[str, Floats]
    confusion: dict[str, Ints]


def read_data(X: Any) -> Any:
    """Return checked data: in memory, or in blocks if they are in a file or a dask array."""
    X = check_data(X, None, check_array).X
    if is_stored(X):
        check_stored_values(X, as_matrix(X))
    return X


def read_groups(
    y: Any, n_samples: int, held_out: Any = None, *, least: int = 2, stacklevel: int = 2
) -> Groups:
    """Return the groups that can be evaluated; warn about samples that are left out.

    Parameters
    ----------
    y : array-like
        Group of each sample; missing ones (None, NaN) are left out.
    n_samples : int
        Number of samples.
    held_out : array of bool, optional
        Only these samples take part.
    least : int
        Groups with fewer samples are left out.
    stacklevel : int
        Where warnings point to, as in `warnings.warn`.
    """
    import pandas

    values = y if hasattr(y, "dtype") else np.asarray(y, dtype=object)
    if np.ndim(values) != 1 or len(values) != n_samples:
        raise InputError(
            f"y has shape {np.shape(values)}, but X has {n_samples} samples: give one group per "
            "sample.",
        )  # fmt: skip
    labels = pandas.Categorical(values)
    taken = (
        np.ones(n_samples, dtype=bool) if held_out is None else held_out_mask(held_out, n_samples)
    )
    codes = np.asarray(labels.codes, dtype=np.intp)
    if missing := int((taken & (codes < 0)).sum()):
        warn(
            f"{missing} of {int(taken.sum())} cells have no group, and are left out.",
            stacklevel=stacklevel + 1,
        )
    taken &= codes >= 0
    sizes = np.bincount(codes[taken], minlength=len(labels.categories))
    names = [str(name) for name in labels.categories]
    if small := [
        f"{names[g]!r} ({sizes[g]})" for g in np.flatnonzero((sizes > 0) & (sizes < least))
    ]:
        warn(
            f"{len(small)} groups with fewer than {least} cells are left out: {listed(small)}.",
            stacklevel=stacklevel + 1,
        )
    kept = np.flatnonzero(sizes >= least)
    if kept.size < 2:
        raise InputError(
            f"There are {kept.size} groups with at least {least} cells, and 2 are needed: give "
            "groups that can be told apart.",
        )  # fmt: skip
    rows = np.flatnonzero(taken & np.isin(codes, kept))
    return Groups(rows, np.searchsorted(kept, codes[rows]), [names[g] for g in kept])


def held_out_mask(held_out: Any, n_samples: int) -> Any:
    """Return a mask of samples; raise InputError if it is none."""
    mask = np.asarray(held_out)
    if mask.dtype != bool or mask.shape != (n_samples,):
        raise InputError(
            Term("held_out"), f" must be True or False for each of the {n_samples} cells, got "
            f"shape {mask.shape} and dtype {mask.dtype}.",
        )  # fmt: skip
    return mask.copy()


def halves(groups: Groups, rng: np.random.RandomState) -> tuple[Groups, Groups]:
    """Return samples to choose features with, and samples to score: half of every group each."""
    order = rng.permutation(groups.codes.size)
    first = np.zeros(groups.codes.size, dtype=bool)
    for group in range(len(groups.names)):
        here: Ints = order[groups.codes[order] == group]
        first[here[: here.size // 2]] = True
    return groups.take(np.flatnonzero(first)), groups.take(np.flatnonzero(~first))


def split_groups(groups: Groups, held_out: Any, n_samples: int) -> tuple[Groups, Groups]:
    """Return the samples that are not held out, and those that are.

    Raises InputError unless every group has at least two samples in either part.
    """
    inside = held_out_mask(held_out, n_samples)[groups.rows]
    parts = groups.take(np.flatnonzero(~inside)), groups.take(np.flatnonzero(inside))
    for part, where in zip(parts, ("that are not", "that are"), strict=True):
        if small := [f"{groups.names[g]!r} ({part.sizes[g]})"
                     for g in np.flatnonzero(part.sizes < 2)]:  # fmt: skip
            raise InputError(
                Term("held_out"), f" leaves fewer than 2 cells {where} held out to {len(small)} of "
                f"{len(groups.names)} groups: {listed(small)}. Hold out some cells of every group, "
                "not all.",
            )  # fmt: skip
    return parts


def sample_cells(groups: Groups, max_cells: int | None, rng: np.random.RandomState) -> Groups:
    """Return a random sample of the cells, if there are more than `max_cells`.

    Rare groups keep up to 50 cells, so that each can be scored.
    """
    n = groups.codes.size
    order = rng.permutation(n)
    if max_cells is None or n <= max_cells:
        return groups
    shuffled = groups.codes[order]
    place = np.empty(n, dtype=np.intp)  # of each cell within its group
    for group in range(len(groups.names)):
        here = shuffled == group
        place[here] = np.arange(int(here.sum()))
    chosen = (place < LEAST_SAMPLED) | (np.arange(n) < max_cells)
    return groups.take(np.sort(order[chosen]))


def make_folds(
    groups: Groups, n_splits: int, rng: np.random.RandomState, *, stacklevel: int = 2
) -> list[Fold]:
    """Return stratified folds, as many as the smallest group has cells if these are fewer."""
    sizes = groups.sizes
    smallest = int(sizes.argmin())
    if sizes[smallest] < n_splits:
        warn(
            f"The group {groups.names[smallest]!r} has {sizes[smallest]} cells: ",
            Term("n_splits", n_splits), f" becomes {sizes[smallest]}.", stacklevel=stacklevel + 1,
        )  # fmt: skip
        n_splits = int(sizes[smallest])
    folds = StratifiedKFold(n_splits, shuffle=True, random_state=rng)
    return list(folds.split(np.zeros(groups.codes.size), groups.codes))


def _classifier(name: str, n_fitted: int) -> Any:
    """Return a pipeline, so that the scale of the features comes from the cells that are fitted."""
    from sklearn.linear_model import LogisticRegression

    if name == "logistic":
        return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    return make_pipeline(StandardScaler(), KNeighborsClassifier(min(N_NEIGHBORS, n_fitted)))


def score_panel(
    X: Any, groups: Groups, folds: Sequence[Fold], features: Sequence[Ints]
) -> PanelScores:
    """Return held-out scores of features, which may be others in every fold.

    Parameters
    ----------
    X : array, sparse matrix or blocks
        The samples of `groups`, in their order.
    groups : Groups
        What is to be told apart.
    folds : sequence of (fitted, held out)
        Samples of each fold.
    features : sequence of ndarray of int
        The features of each fold, or one list for all.
    """
    if len(features) == 1:
        features = [features[0]] * len(folds)
    union = np.unique(np.concatenate(features))
    values = dense(columns_in_memory(X, union)).astype(np.float64)
    k, codes = len(groups.names), groups.codes
    recall: dict[str, Any] = {name: [] for name in CLASSIFIERS}
    confusion = {name: np.zeros((k, k), dtype=np.intp) for name in CLASSIFIERS}
    for (fitted, held_out), chosen in zip(folds, features, strict=True):
        columns = np.searchsorted(union, chosen)
        known, new = values[np.ix_(fitted, columns)], values[np.ix_(held_out, columns)]
        for name in CLASSIFIERS:
            with blas_threads(float(known.size) * k):
                model = _classifier(name, fitted.size).fit(known, codes[fitted])
            with openmp_threads(fitted.size * held_out.size):
                predicted = model.predict(new)
            table = confusion_matrix(codes[held_out], predicted, labels=np.arange(k))
            confusion[name] += table
            # Folds are stratified: every group has cells in each.
            recall[name].append(np.diag(table) / table.sum(axis=1))
    return PanelScores({name: np.array(rows) for name, rows in recall.items()}, confusion)


def score_rows(
    method: str, n_genes: int, scores: Sequence[PanelScores], folds: Sequence[Fold]
) -> list[dict[str, Any]]:
    """Return one row of a table per classifier: mean held-out balanced accuracy and its error.

    Parameters
    ----------
    method : str
        Who chose the features.
    n_genes : int
        How many there are.
    scores : sequence of PanelScores
        One, or one for each random draw of features: then the mean is shown, with the
        standard deviation `sd` between draws, which is part of its error, too.
    folds : sequence of (fitted, held out)
        The folds of the scores.
    """
    rows = []
    for name in CLASSIFIERS:
        by_draw = np.array([one.recall[name].mean(axis=1) for one in scores])  # draws x folds
        mean, error = mean_and_error(by_draw.mean(axis=0), held_out_ratio(folds))
        sd = np.nan
        if len(scores) > 1:
            sd = float(by_draw.mean(axis=1).std(ddof=1))
            error = float(np.hypot(error, sd / np.sqrt(len(scores))))
        rows.append({"method": method, "n_genes": n_genes, "classifier": name,
                     "balanced_accuracy": mean, "se": error, "sd": sd})  # fmt: skip
    return rows


def held_out_ratio(folds: Sequence[Fold]) -> float:
    """Return the mean number of held-out samples per fitted sample."""
    return float(np.mean([held_out.size / fitted.size for fitted, held_out in folds]))
