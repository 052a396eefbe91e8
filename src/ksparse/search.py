"""Several starts, one honest comparison, and a refinement of the winner."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score

from ksparse.alternation import Fit, Loop, alternate
from ksparse.embedding import Embedding
from ksparse.journal import NO_JOURNAL, Journal
from ksparse.judgement import Judge
from ksparse.matrix import Floats, GramCache, Ints, Matrix
from ksparse.projection import WStep
from ksparse.refinement import proposals
from ksparse.starts import journaled_start

__all__ = ["AUTO_STARTS", "SearchResult", "search"]

# The graph comes first, and wins ties: it involves no random choice.
AUTO_STARTS = ("graph", "spectral")
# Split and merge: moves tried at most, and loops of the alternation in each.
MAX_TRIALS = 6
TRIAL_LOOPS = 3
# A move that leads back to labels this close (ARI) to those it came from is no move.
SAME = 0.995


@dataclass(frozen=True)
class SearchResult:
    """The best fit and the table of all that were tried."""

    fit: Fit
    table: dict[str, list[Any]]


def search(
    matrix: Matrix,
    embedding: Embedding,
    starts: Sequence[str | Ints],
    n_clusters: int,
    how: WStep,
    loop: Loop,
    rng: np.random.RandomState,
    *,
    refine: bool,
    gram: GramCache,
    sigma: float = 150.0,
    first_weights: Floats | None = None,
    journal: Journal = NO_JOURNAL,
    on_step: Callable[[str], object] = lambda what: None,
) -> SearchResult:
    """Finish a fit from every start, keep the best by the held-out score, refine it.

    A later start or a move replaces what is there only if it is better by more than two
    standard errors: among equals, the order of the starts decides and not chance. A single
    start that is not to be refined needs no judging, and gets none.
    """
    table: dict[str, list[Any]] = {
        name: [] for name in ("start", "score", "score_se", "n_features", "n_loops", "chosen")
    }
    judged = len(starts) > 1 or refine
    judge = Judge(matrix, embedding.rows, n_clusters, rng) if judged else None

    def finish(labels: Ints, run: Loop, certify: bool) -> Fit:
        return alternate(
            matrix, embedding.rows, labels, n_clusters, how, run, rng,
            gram=gram, start=first_weights, certify=certify, journal=journal,
        )  # fmt: skip

    def record(name: str, fit: Fit) -> Floats:
        scores = np.array([np.nan])
        if judge is not None:
            n_selected = fit.projection.selected.size
            scores = journal.step(
                "score", rng, lambda: {"margin": judge(fit.labels, how, n_selected).margin}
            )["margin"]
        table["start"].append(name)
        table["score"].append(float(scores.mean()))
        error = scores.std(ddof=1) / np.sqrt(scores.size) if scores.size > 1 else np.nan
        table["score_se"].append(float(error))
        table["n_features"].append(int(fit.projection.selected.size))
        table["n_loops"].append(len(fit.history["cost"]))
        table["chosen"].append(False)
        return scores

    best: Fit | None = None
    best_scores, best_row = np.array([np.nan]), 0
    for start in starts:
        name = start if isinstance(start, str) else "labels"
        on_step(name)
        if isinstance(start, str):
            labels = journaled_start(
                start, matrix, embedding, n_clusters, rng, sigma=sigma, journal=journal
            )
        else:
            labels = start
        fit = finish(labels, loop, certify=not judged)
        scores = record(name, fit)
        if best is None or _better(scores, best_scores):
            best, best_scores, best_row = fit, scores, len(table["start"]) - 1
    assert best is not None

    trial = replace(loop, max_loops=min(TRIAL_LOOPS, loop.max_loops))
    origin = table["start"][best_row]
    n_trials, better = 0, refine
    while better:
        better = False
        for labels in proposals(best.projected, embedding.scores, best.labels, n_clusters, rng):
            if n_trials == MAX_TRIALS:
                break
            n_trials += 1
            on_step(f"split and merge {n_trials}")
            fit = finish(labels, trial, certify=False)
            if adjusted_rand_score(fit.labels, best.labels) > SAME:
                continue
            scores = record(f"{origin} > split-merge", fit)
            if _better(scores, best_scores):
                best, best_scores, best_row = fit, scores, len(table["start"]) - 1
                better = True
                break
    if judged:
        on_step("last loops")
        best = finish(best.labels, loop, certify=True)
    table["chosen"][best_row] = True
    return SearchResult(best, table)


def _better(scores: Floats, than: Floats) -> bool:
    """Whether scores on the same halves are larger by more than two standard errors."""
    difference = scores - than
    return bool(difference.mean() > 2 * difference.std(ddof=1) / np.sqrt(difference.size))
