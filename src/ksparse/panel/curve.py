"""Quality of panels against their number of features, ours beside other ways to choose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ksparse._errors import InputError, Term
from ksparse._tables import as_table
from ksparse.matrix.sources import select_rows
from ksparse.panel.rivals import OURS, check_rivals, choose_features, usable_features
from ksparse.panel.scoring import (
    halves,
    make_folds,
    read_data,
    read_groups,
    sample_cells,
    score_panel,
    score_rows,
    split_groups,
)
from ksparse.params import TRUE_OR_FALSE, check_integer, check_listed, check_seed

__all__ = ["panel_curve"]

# Two cells to choose features with, and two to score them.
LEAST_CELLS = 4


def panel_curve(
    X: Any,
    y: ArrayLike,
    counts: Sequence[int],
    *,
    held_out: ArrayLike | None = None,
    ours: bool = True,
    rivals: Sequence[str] = ("hvg", "random"),
    n_splits: int = 5,
    n_random: int = 5,
    max_cells: int | None = 5_000,
    random_state: int | np.random.RandomState | None = None,
) -> Any:
    """Score panels of several sizes, chosen in several ways.

    Every method chooses its features on one half of the cells (of every group), and
    classifiers are cross-validated on the other half: no cell that is scored had a part in a
    choice. The standard errors are those of the scores, for the features that were chosen;
    they do not tell how much another half would have changed the choice.

    Parameters
    ----------
    X : array, sparse matrix, data frame or stored matrix, cells x features
        The data, usually logarithms of normalised counts.
    y : array-like
        Group of each cell. Cells without one (None, NaN) and groups of fewer than 4 cells are
        left out, with a warning.
    counts : sequence of int
        Numbers of features.
    held_out : array-like of bool, optional
        Score these cells, and choose with all others. By default half of every group.
    ours : bool, default=True
        Whether to score `ksparse.panel.PanelSelector`: one path gives the panels of all sizes.
    rivals : sequence of {"wilcoxon", "hvg", "random"}, default=("hvg", "random")
        Other methods. "wilcoxon": the best genes of scanpy's rank-sum test, one of each group
        in turn (needs scanpy). "hvg": the features of largest variance. "random": the mean of
        `n_random` random orders.
    n_splits : int, default=5
        Folds; fewer if the smallest group has fewer cells, with a warning.
    n_random : int, default=5
        Random orders of features.
    max_cells : int or None, default=5000
        Classifiers use at most so many cells; see `evaluate_panel`.
    random_state : int, RandomState or None
        Seed.

    Returns
    -------
    DataFrame
        Columns: method ("ksparse" is ours), n_genes, classifier ("logistic", "5nn"),
        balanced_accuracy, se, sd (between random orders) and chance (1 / number of groups).

    Examples
    --------
    >>> import numpy as np
    >>> from ksparse.panel import panel_curve
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(["a", "b", "c"], 40)
    >>> X = rng.normal(size=(120, 50))
    >>> for j, group in enumerate("abc"):
    ...     X[y == group, j] += 6
    >>> curve = panel_curve(X, y, [1, 3], rivals=["hvg"], random_state=0)
    >>> curve[["method", "n_genes", "classifier", "balanced_accuracy"]].round(1)
        method  n_genes classifier  balanced_accuracy
    0  ksparse        1   logistic                0.7
    1  ksparse        1        5nn                0.7
    2  ksparse        3   logistic                1.0
    3  ksparse        3        5nn                1.0
    4      hvg        1   logistic                0.7
    5      hvg        1        5nn                0.6
    6      hvg        3   logistic                1.0
    7      hvg        3        5nn                1.0
    """
    n_splits = check_integer("n_splits", n_splits, 2)
    n_random = check_integer("n_random", n_random, 1)
    if max_cells is not None:
        max_cells = check_integer("max_cells", max_cells, 1)
    methods = [OURS] * TRUE_OR_FALSE.check("ours", ours) + check_rivals(rivals)
    if not methods:
        raise InputError(Term("rivals"), " is empty, and so is the curve: name a method.")
    rng = check_seed(random_state)
    X = read_data(X)
    groups = read_groups(y, X.shape[0], least=LEAST_CELLS)
    half, rest = (
        halves(groups, rng) if held_out is None else split_groups(groups, held_out, X.shape[0])
    )
    fitted = select_rows(X, half.rows)
    sizes = _check_counts(counts, usable_features(fitted).size)
    scored = sample_cells(rest, max_cells, rng)
    data = select_rows(X, scored.rows)
    folds = make_folds(scored, n_splits, rng)
    rows = []
    for method in methods:
        draws = [choose_features(method, fitted, half.codes, max(sizes), rng)
                 for _ in range(n_random if method == "random" else 1)]  # fmt: skip
        for n in sorted({min(n, draws[0].size) for n in sizes}):
            scores = [score_panel(data, scored, folds, [order[:n]]) for order in draws]
            rows += score_rows(method, n, scores, folds)
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    return as_table(columns | {"chance": 1 / len(groups.names)})


def _check_counts(counts: Any, most: int) -> list[int]:
    """Return numbers of features, increasing; raise InputError if there are not so many."""
    sizes = sorted({check_integer("n_genes", n, 1) for n in check_listed("n_genes", counts)})
    if sizes[-1] > most:
        raise InputError(
            Term("n_genes", sizes[-1]), f" is more than the {most} features that are not constant "
            "in the half of the cells that chooses: give smaller numbers.",
        )  # fmt: skip
    return sizes
