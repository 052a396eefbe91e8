"""Evaluate any list of features as a panel for given groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ksparse._errors import InputError
from ksparse._names import repeated
from ksparse._tables import as_table
from ksparse.matrix import Ints
from ksparse.matrix.sources import select_rows
from ksparse.panel.rivals import OURS, choose_features
from ksparse.panel.scoring import (
    CLASSIFIERS,
    Fold,
    Groups,
    PanelScores,
    held_out_ratio,
    make_folds,
    read_data,
    read_groups,
    sample_cells,
    score_panel,
    score_rows,
)
from ksparse.panel.structure import describe_features, mean_correlation, neighbour_overlap
from ksparse.params import TRUE_OR_FALSE, check_integer, check_seed
from ksparse.search.judge import mean_and_error

__all__ = ["PanelEvaluation", "evaluate_panel"]

PANEL = "panel"


@dataclass(frozen=True)
class PanelEvaluation:
    """How well a list of features tells groups apart, keeps neighbours, and repeats itself.

    Attributes
    ----------
    scores : DataFrame
        One row for each method ("panel": the list; "random": as many features at random;
        "ksparse": a panel of the same size that is chosen within the folds) and classifier
        ("logistic", "5nn"). Columns: method, n_genes, classifier, balanced_accuracy (the mean
        over folds), se (its standard error), sd (between random draws), difference (the panel
        minus the method, on the same folds) and difference_se.
    recall : DataFrame
        One row for each group: n_cells (that were scored) and, for each classifier, the share
        that is found when held out and its standard error: logistic, logistic_se, 5nn, 5nn_se.
    confusion : dict of DataFrame
        For each classifier the held-out counts, rows true groups, columns predicted ones.
    genes : DataFrame
        One row for each feature. Columns: feature; detected, the share of cells in which it
        is above zero; group, in which its mean is highest, and that mean, highest_mean; max;
        partner, the feature of the list with which it is most correlated (-1: none), and
        abs_correlation.
    neighbour_overlap : float
        Mean share of a cell's nearest neighbours by all features that are also its nearest
        ones by the panel.
    chance_overlap : float
        The same for neighbours drawn at random.
    mean_abs_correlation, max_abs_correlation : float
        Of all pairs of features that are not constant (NaN: there is no pair).
    n_cells : int
        Cells that were evaluated.
    n_splits : int
        Folds of the cross-validation.
    """

    scores: Any
    recall: Any
    confusion: dict[str, Any]
    genes: Any
    neighbour_overlap: float
    chance_overlap: float
    mean_abs_correlation: float
    max_abs_correlation: float
    n_cells: int
    n_splits: int


def evaluate_panel(
    X: Any,
    y: ArrayLike,
    features: ArrayLike,
    *,
    held_out: ArrayLike | None = None,
    n_splits: int = 5,
    n_random: int = 5,
    compare: bool = True,
    n_neighbors: int = 15,
    max_cells: int | None = 5_000,
    random_state: int | np.random.RandomState | None = None,
) -> PanelEvaluation:
    """Evaluate a list of features as a panel for given groups.

    Two classifiers, logistic regression and 5 nearest neighbours, both on features
    standardised with the cells that are fitted, are cross-validated in stratified folds. The
    standard errors are those of Nadeau and Bengio (2003), which allow for the overlap of the
    cells that are fitted.

    The classifiers never see the cells that are scored, but the list itself is fixed: if it
    was chosen with these cells, all figures of the panel are too good, and so is its
    difference to other methods. Choose the features with some of the cells, and give the
    others as `held_out`. The panel "ksparse" that is shown beside it is chosen anew in every
    fold, without the cells that are scored; it has only the fitted cells of the folds to
    choose from.

    Parameters
    ----------
    X : array, sparse matrix, data frame or stored matrix, cells x features
        The data, usually logarithms of normalised counts.
    y : array-like
        Group of each cell. Cells without one (None, NaN) and groups of a single cell are left
        out, with a warning.
    features : array-like of int, or of bool
        The panel: indices of features, or a mask of all features.
    held_out : array-like of bool, optional
        Evaluate these cells only: those that had no part in the choice of the panel.
    n_splits : int, default=5
        Folds; fewer if the smallest group has fewer cells, with a warning.
    n_random : int, default=5
        How many lists of random features of the same length to compare with; 0 for none.
    compare : bool, default=True
        Whether to compare with `ksparse.panel.PanelSelector` of the same size.
    n_neighbors : int, default=15
        Neighbours whose overlap is counted: by all features (30 principal components), and by
        the panel, among at most 2,000 cells drawn at random.
    max_cells : int or None, default=5000
        Classifiers use at most so many cells, drawn at random (and at least 50 of each group,
        where there are as many).
    random_state : int, RandomState or None
        Seed.

    Returns
    -------
    PanelEvaluation

    Examples
    --------
    >>> import numpy as np
    >>> from ksparse.panel import evaluate_panel
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(["a", "b", "c"], 40)
    >>> X = rng.normal(size=(120, 50))
    >>> for j, group in enumerate("abc"):
    ...     X[y == group, j] += 3
    >>> result = evaluate_panel(X, y, [0, 1, 2], random_state=0)
    >>> result.scores[["method", "classifier", "balanced_accuracy"]].round(1)
        method classifier  balanced_accuracy
    0    panel   logistic                1.0
    1    panel        5nn                1.0
    2   random   logistic                0.4
    3   random        5nn                0.4
    4  ksparse   logistic                1.0
    5  ksparse        5nn                1.0
    >>> result.genes["group"].tolist()
    ['a', 'b', 'c']
    """
    n_splits = check_integer("n_splits", n_splits, 2)
    n_random = check_integer("n_random", n_random, 0)
    n_neighbors = check_integer("n_neighbors", n_neighbors, 1)
    if max_cells is not None:
        max_cells = check_integer("max_cells", max_cells, 1)
    compare = TRUE_OR_FALSE.check("compare", compare)
    rng = check_seed(random_state)
    X = read_data(X)
    chosen = check_features(features, X.shape[1])
    groups = read_groups(y, X.shape[0], held_out)
    everyone = X if groups.rows.size == X.shape[0] else select_rows(X, groups.rows)
    overlap, by_chance = neighbour_overlap(everyone, chosen, n_neighbors, rng)
    scored = sample_cells(groups, max_cells, rng)
    data = X if scored.rows.size == X.shape[0] else select_rows(X, scored.rows)
    folds = make_folds(scored, n_splits, rng)
    panels = _panels(data, scored, folds, chosen, n_random, compare, rng)
    genes = describe_features(everyone, groups, chosen)
    own = panels[PANEL][0]
    return PanelEvaluation(
        scores=_score_table(panels, folds, chosen.size),
        recall=_recall_table(own, scored, folds),
        confusion={name: as_table(dict(zip(scored.names, own.confusion[name].T, strict=True)))
                   .set_axis(scored.names) for name in CLASSIFIERS},
        genes=genes,
        neighbour_overlap=overlap,
        chance_overlap=by_chance,
        mean_abs_correlation=mean_correlation(everyone, chosen),
        max_abs_correlation=float(genes["abs_correlation"].max()),
        n_cells=groups.rows.size,
        n_splits=len(folds),
    )  # fmt: skip


def check_features(features: Any, n_features: int) -> Ints:
    """Return a list of features as indices; raise InputError for one that cannot be a panel."""
    given = np.asarray(features)
    if given.dtype == bool and given.shape == (n_features,):
        given = np.flatnonzero(given)
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        raise InputError(
            "features must be a list of indices of features, or True or False for each of the "
            f"{n_features} features, got shape {given.shape} and dtype {given.dtype}."
        )
    if not given.size:
        raise InputError("features is empty: a panel has at least one feature.")
    if (given < 0).any() or (given >= n_features).any():
        wrong = given[(given < 0) | (given >= n_features)]
        raise InputError(
            f"features contains {wrong[0]}, but X has {n_features} features: give indices from 0 "
            f"to {n_features - 1}."
        )
    if again := repeated(given.tolist()):
        raise InputError(f"features contains {again[0]} more than once: give each index once.")
    return given.astype(np.intp)


def _panels(
    data: Any,
    groups: Groups,
    folds: Sequence[Fold],
    chosen: Ints,
    n_random: int,
    compare: bool,
    rng: np.random.RandomState,
) -> dict[str, list[PanelScores]]:
    """Return the scores of the list, of random lists and of our own panel, on the same folds."""
    panels = {PANEL: [score_panel(data, groups, folds, [chosen])]}
    draws = [choose_features("random", data, groups.codes, chosen.size, rng)
             for _ in range(n_random)]  # fmt: skip
    if draws:
        panels["random"] = [score_panel(data, groups, folds, [draw]) for draw in draws]
    if compare:
        # Never chosen with the cells that are scored.
        own = [
            choose_features(OURS, select_rows(data, fitted), groups.codes[fitted], chosen.size, rng)
            for fitted, _ in folds
        ]
        panels[OURS] = [score_panel(data, groups, folds, own)]
    return panels


def _score_table(panels: dict[str, list[PanelScores]], folds: Sequence[Fold], n: int) -> Any:
    rows = []
    for method, scores in panels.items():
        for row in score_rows(method, n, scores, folds):
            row |= {"difference": 0.0, "difference_se": 0.0}
            if method != PANEL:
                name = row["classifier"]
                by_fold = np.mean([one.recall[name].mean(axis=1) for one in scores], axis=0)
                gain = panels[PANEL][0].recall[name].mean(axis=1) - by_fold
                mean, error = mean_and_error(gain, held_out_ratio(folds))
                row |= {"difference": mean, "difference_se": error}
            rows.append(row)
    return as_table({name: [row[name] for row in rows] for name in rows[0]})


def _recall_table(scores: PanelScores, groups: Groups, folds: Sequence[Fold]) -> Any:
    columns: dict[str, Any] = {"n_cells": groups.sizes}
    for name in CLASSIFIERS:
        pairs = [mean_and_error(one, held_out_ratio(folds)) for one in scores.recall[name].T]
        columns[name], columns[f"{name}_se"] = np.array(pairs).T
    return as_table(columns).set_axis(groups.names).rename_axis("group")
