"""Several starts, compared on held-out samples, and a refinement of the winner."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import adjusted_rand_score

from ksparse.core.alternation import Alternation, Fit
from ksparse.matrix import Floats, Ints
from ksparse.search.judge import Judge
from ksparse.search.refine import proposals

__all__ = ["Candidate", "search"]

# Split and merge: moves tried at most, and loops of the alternation in each.
MAX_TRIALS = 6
TRIAL_LOOPS = 3
# A move that leads back to labels this close (ARI) to those it came from is no move.
SAME_LABELS = 0.995

# More loops than any fit runs: its own limit applies.
ALL_LOOPS = 2**31


class Candidate(NamedTuple):
    """A finished fit, where it came from, and its held-out scores (one for each half)."""

    name: str
    scores: Floats
    fit: Fit


def search(
    problem: Alternation,
    scores: Floats,
    names: Sequence[str],
    start_labels: Callable[[int], Ints],
    finish: Callable[[Ints, int, bool], Fit],
    rng: np.random.RandomState,
    *,
    refine: bool,
    on_step: Callable[[str], object],
    once: Callable[[str, Callable[[], Any]], Any],
) -> tuple[Fit, list[Candidate], int]:
    """Finish a fit from every start, keep the best by the held-out score, refine it.

    A later start or a move replaces the best one so far only if it is better by more than two
    standard errors: among equals, the order of the starts decides and not chance.

    Parameters
    ----------
    problem : Alternation
        What all fits share.
    scores : ndarray
        Principal component scores, in which splits are sought.
    names : sequence of str
        Names of the starts.
    start_labels : callable
        ``start_labels(i)`` returns the labels of the i-th start.
    finish : callable
        ``finish(labels, max_loops, certify)`` returns a finished fit.
    rng : RandomState
        Seeds the halvings and the splits.
    refine : bool
        Whether to split and merge clusters of the best fit.
    on_step : callable
        Is told the name of every step.
    once : callable
        ``once(name, compute)`` returns what a step computes, or computed before.

    Returns
    -------
    Fit
        The certified fit from the labels of the best candidate.
    list of Candidate
        All that were tried.
    int
        Which of them is the best.
    """
    k, w_step = problem.n_clusters, problem.w_step
    judge = Judge(problem.matrix, problem.embedding, k, rng)

    def judged(name: str, fit: Fit) -> Candidate:
        n_selected = fit.projection.selected.size
        margin = once("score", lambda: judge(fit.labels, w_step, n_selected).margin)
        return Candidate(name, margin, fit)

    tried: list[Candidate] = []
    best = 0
    for i, name in enumerate(names):
        on_step(name)
        tried.append(judged(name, finish(start_labels(i), ALL_LOOPS, False)))
        if _better(tried[-1], tried[best]):
            best = len(tried) - 1

    origin = tried[best].name
    n_trials, improved = 0, refine
    while improved:
        improved = False
        fit = tried[best].fit
        for labels in proposals(fit.projected, scores, fit.labels, k, rng):
            if n_trials == MAX_TRIALS:
                break
            n_trials += 1
            on_step(f"split and merge {n_trials}")
            trial = finish(labels, TRIAL_LOOPS, False)
            if adjusted_rand_score(trial.labels, fit.labels) > SAME_LABELS:
                continue
            tried.append(judged(f"{origin} > split-merge", trial))
            if _better(tried[-1], tried[best]):
                best, improved = len(tried) - 1, True
                break
    on_step("last loops")
    return finish(tried[best].fit.labels, ALL_LOOPS, True), tried, best


def _better(candidate: Candidate, than: Candidate) -> bool:
    """Whether scores on the same halves are larger by more than two standard errors."""
    difference = candidate.scores - than.scores
    return bool(difference.mean() > 2 * difference.std(ddof=1) / np.sqrt(difference.size))
