"""Several starts, compared on held-out samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ksparse.core.alternation import Alternation, Fit
from ksparse.matrix import Floats, Ints
from ksparse.search.judge import Judge, Scores, mean_and_error

__all__ = ["Candidate", "search"]

# By how many standard errors a later start must be better.
ERRORS = 1.0


class Candidate(NamedTuple):
    """A fit that is compared with others.

    Attributes
    ----------
    name : str
        The start.
    given : ndarray of int
        The labels that its projection was fitted to.
    fit : Fit
        The fit; its labels are those that are judged, and returned if it is chosen.
    scores : Scores or None
        Held-out scores; None if there is nothing to compare with.
    """

    name: str
    given: Ints
    fit: Fit
    scores: Scores | None


def search(
    problem: Alternation,
    names: Sequence[str],
    start_labels: Callable[[int], Ints],
    converge: Callable[[Alternation, Ints], Fit],
    fit_labels: Callable[..., Fit],
    judge: Judge,
    *,
    on_step: Callable[[str], object],
    once: Callable[[str, Callable[[], Any]], Any],
) -> tuple[Fit, list[Candidate], int]:
    """Fit from every start, and keep the best by scores on held-out samples.

    From every start there are two fits: one loop, which stays close to the labels of the start,
    and loops until labels and features have converged, in which k-means may lead away from
    clusters that are no balls. The latter represents the start, unless the labels of the former
    are explained better by the features on held-out samples, and their margins are no smaller.
    Starts are compared in their order: a later one is taken only if its held-out margins are
    larger by more than one standard error of the difference, which is corrected for the overlap
    of the halves, and its clusters are explained no worse. Where the two do not agree, the order
    decides and not chance.

    The fit that is returned is the one that was judged, with a certified W-step.

    Parameters
    ----------
    problem : Alternation
        What all fits share.
    names : sequence of str
        Names of the starts.
    start_labels : callable
        ``start_labels(i)`` returns the labels of the i-th start.
    converge : callable
        ``converge(problem, labels)`` returns a fit whose loops have converged.
    fit_labels : callable
        ``fit_labels(problem, labels, last=..., certify=...)`` returns the fit of one loop, in
        which every sample joins the nearest centroid.
    judge : Judge
        Scores labels.
    on_step : callable
        Is told the name of every step.
    once : callable
        ``once(name, compute)`` returns what a step computes, or computed before.

    Returns
    -------
    Fit
        The best one, certified.
    list of Candidate
        One for each start.
    int
        Which of them is the best.
    """
    # From the labels of a start: other runs of k-means would only add chance.
    warm = replace(problem, n_init=0)
    scored: dict[bytes, Scores] = {}  # of clear clusters, many candidates are the same
    fitted: dict[bytes, Candidate] = {}

    def judged(name: str, given: Ints, before: Fit | None) -> Candidate:
        last = None if before is None else before.projection
        fit = fit_labels(warm, given, last=last, certify=False)
        if before is not None:
            fit = replace(fit, history=before.history, converged=before.converged)
        n_selected = fit.projection.selected.size
        key = _in_order(fit.labels).tobytes()
        if key not in scored:
            values = once("score", lambda: tuple(judge(fit.labels, problem.w_step, n_selected)))
            scored[key] = Scores(*values)
        return Candidate(name, given, fit, scored[key])

    def from_start(name: str, labels: Ints) -> Candidate:
        first = judged(name, labels, None)
        loops = converge(warm, labels)
        last = judged(name, loops.labels, loops)
        margin = _margins(first).mean() - _margins(last).mean()
        return first if _explained(first) > _explained(last) and margin >= 0 else last

    tried: list[Candidate] = []
    best = 0
    for i, name in enumerate(names):
        on_step(name)
        labels = start_labels(i)
        key = _in_order(labels).tobytes()
        if key not in fitted:
            fitted[key] = from_start(name, labels)
        tried.append(Candidate(name, *fitted[key][1:]))
        if _better(tried[-1], tried[best], judge.ratio):
            best = i
    on_step("certificate")
    chosen = tried[best]
    fit = fit_labels(warm, chosen.given, last=chosen.fit.projection, certify=True)
    return _joined(chosen.fit, fit), tried, best


def _in_order(labels: Ints) -> Ints:
    """Return the labels with clusters numbered as they appear: equal for equal clusters."""
    _, first, number = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[number]


def _explained(candidate: Candidate) -> float:
    assert candidate.scores is not None
    return float(candidate.scores.explained.mean())


def _margins(candidate: Candidate) -> Floats:
    assert candidate.scores is not None
    return candidate.scores.margin


def _better(candidate: Candidate, than: Candidate, ratio: float) -> bool:
    """Return whether a candidate is explained no worse, with larger margins on the same halves."""
    if _explained(candidate) < _explained(than):
        return False
    difference, error = mean_and_error(_margins(candidate) - _margins(than), ratio)
    return bool(np.isfinite(error) and difference > ERRORS * error)


def _joined(loops: Fit, last: Fit) -> Fit:
    """Return the certified fit with the history of the loops that led to its labels.

    What the last loop has done is what the certified W-step says.
    """
    history = {
        name: values if name == "labels_changed" else [*values[:-1], last.history[name][-1]]
        for name, values in loops.history.items()
    }
    return replace(last, history=history, converged=loops.converged)
