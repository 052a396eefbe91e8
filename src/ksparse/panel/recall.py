"""How well each group is found on cells that had no part in choosing the features."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ksparse._tables import as_table
from ksparse.matrix import Ints
from ksparse.matrix.sources import select_rows
from ksparse.panel._training import halve
from ksparse.panel.scoring import CLASSIFIERS, Groups, sample_cells, score_panel, split_groups

__all__ = ["held_out_recall", "lost_groups"]

# Cells that are used at most, drawn at random: half to choose with, half to score.
MAX_CELLS = 10_000
# What is larger than chance is so by so many standard errors.
ERRORS = 2.0


def held_out_recall(
    X: Any,
    groups: Groups,
    choose: Callable[[Any, Ints], Ints],
    rng: np.random.RandomState,
    held_out: Any = None,
) -> Any:
    """Return the recall of each group by features that are chosen without the cells scored.

    Features are chosen, and classifiers fitted, on half of the cells of every group; the other
    half is scored. So the features are not those of a panel that is chosen with all cells: the
    figures are for panels that are chosen in the same way, with half as many cells.

    Parameters
    ----------
    X : array, sparse matrix or blocks, samples x features
        The data.
    groups : Groups
        What is to be told apart; every group has at least 4 samples.
    choose : callable
        ``choose(X, codes)`` returns the features for some samples and their groups.
    rng : RandomState
        Random numbers for the halves.
    held_out : array of bool, optional
        Score these samples, and choose with all others, instead of halves.

    Returns
    -------
    DataFrame
        One row for each group: n_cells that were scored, chance (its share of the cells: the
        recall of guesses in proportion to the sizes), and the recall of each classifier;
        confused_with, the group (of those at least as large) whose cells are most often taken
        for it; told_apart, False if no classifier finds it better than guesses would, or if each
        takes as many cells of another group for it (both by two standard errors).
    """
    if held_out is None:
        groups = sample_cells(groups, MAX_CELLS, rng)
        fitted, scored = halve(groups.codes, len(groups.names), rng)
    else:
        parts = split_groups(groups, held_out, X.shape[0])
        rows = [sample_cells(part, MAX_CELLS // 2, rng).rows for part in parts]
        groups = groups.take(np.flatnonzero(np.isin(groups.rows, np.concatenate(rows))))
        fitted, scored = (np.searchsorted(groups.rows, part) for part in rows)
    data = X if groups.rows.size == X.shape[0] else select_rows(X, groups.rows)
    features = choose(select_rows(data, fitted), groups.codes[fitted])
    scores = score_panel(data, groups, [(fitted, scored)], [features])
    table = as_table(
        {
            "n_cells": np.bincount(groups.codes[scored], minlength=len(groups.names)),
            "chance": groups.sizes / groups.codes.size,
            **{name: scores.recall[name][0] for name in CLASSIFIERS},
        }
    )
    worst, apart = _told_apart([scores.confusion[name] for name in CLASSIFIERS])
    table["confused_with"] = np.array(groups.names, dtype=object)[worst]
    table["told_apart"] = apart & _above_chance(table)
    return table.set_axis(groups.names).rename_axis("group")


def lost_groups(recall: Any) -> list[str]:
    """Return the groups that are not told apart, as in `held_out_recall`."""
    return [str(name) for name in recall.index[~recall["told_apart"]]]


def _told_apart(confusion: list[Ints]) -> tuple[Ints, Any]:
    """Return which other group is taken for each most often, and whether some classifier can tell.

    One that is confused with a group that is at least as large is not told apart; of a smaller one
    there may be too few cells to say.
    """
    k = len(confusion[0])
    n = confusion[0].sum(axis=1)
    others = (n >= n[:, None]) & ~np.eye(k, dtype=bool)  # groups x others
    others[~others.any(axis=1)] = True
    np.fill_diagonal(others, False)
    taken = np.zeros((len(confusion), k, k))
    alike = np.zeros((len(confusion), k), dtype=bool)
    for i, counts in enumerate(confusion):
        taken[i] = (counts / n[:, None]).T  # shares of the others' cells
        own = np.diag(taken[i])[:, None]
        pooled = (np.diag(counts)[:, None] + counts.T) / (n[:, None] + n)
        error = np.sqrt(pooled * (1 - pooled) * (1 / n[:, None] + 1 / n))
        unsure = (own - taken[i] <= ERRORS * error) & (taken[i] > own / 2)
        alike[i] = (unsure & others & (n >= n[:, None])).any(axis=1)
    # Of equal ones the largest.
    share = np.where(others, taken.mean(axis=0) + 1e-9 * n / n.sum(), -1.0)
    worst: Ints = share.argmax(axis=1)
    return worst, ~alike.all(axis=0)


def _above_chance(recall: Any) -> Any:
    """Return which groups some classifier finds better than guesses would."""
    best = np.max([recall[name] for name in CLASSIFIERS], axis=0)
    chance = recall["chance"].to_numpy()
    error = np.sqrt(chance * (1 - chance) / recall["n_cells"].to_numpy())
    return best > chance + ERRORS * error
