"""Scores of several numbers of clusters: what each method of `choose_k` computes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ksparse.core.alternation import Fit
from ksparse.matrix import Floats, Ints
from ksparse.params import Inputs
from ksparse.search.fit import Prepared, label_all, w_step_for
from ksparse.search.judge import Judge, mean_and_error
from ksparse.search.settings import Settings
from ksparse.selection.gap import gap_statistic
from ksparse.selection.jobs import collect, draw_seeds, run_all
from ksparse.selection.resampling import common_agreement, fit_halves, labels_of_part
from ksparse.selection.scores import silhouette

__all__ = ["ClusterScores"]

# Share of the samples in a subsample, and how many samples such fits have at most.
SHARE, MAX_SAMPLES = 0.8, 20_000
# Points on which the gap statistic is computed at most.
GAP_SAMPLES = 1_000


@dataclass(frozen=True)
class ClusterScores:
    """What each method says of the fits for several numbers of clusters."""

    inputs: Inputs
    prepared: Prepared
    ks: list[int]
    settings: list[Settings]
    fits: list[Fit]
    rng: np.random.RandomState
    n_jobs: int | None
    verbose: int
    keep_partial: bool

    def labels(self, fit: Fit) -> NDArray[np.int32]:
        """Return the final labels of all samples."""
        inputs, matrix = self.inputs, self.prepared.matrix
        labelled = label_all(inputs.X, inputs.fitted, inputs.weight, matrix, fit)
        return labelled.labels.astype(np.int32)

    @cached_property
    def _held_out(self) -> tuple[Judge, list[Floats]]:
        """Return samples in the projection for the largest k that was fitted on others."""
        settings, fit = self.settings[-1], self.fits[-1]
        seeded = np.random.RandomState(draw_seeds(self.rng, 1)[0])
        judge = Judge(self.prepared.matrix, self.ks[-1], seeded, n_halvings=2, max_features=None)
        n = int(settings.n_features or 1)
        return judge, judge.held_out(fit.labels, w_step_for(settings, n), n)

    def gap(self, n_references: int) -> tuple[Floats, Floats]:
        """Return the gap statistic of held-out samples, and its standard errors."""
        _, projected = self._held_out
        gaps, errors = [], []
        for points in projected:
            gap, error = gap_statistic(
                points[:GAP_SAMPLES], self.ks, self.rng, n_references=n_references
            )
            gaps.append(gap)
            errors.append(error)
        return np.mean(gaps, axis=0), np.sqrt(np.mean(np.square(errors), axis=0))

    def silhouettes(self) -> Floats:
        """Return mean silhouettes of held-out samples."""
        judge, projected = self._held_out
        out = np.full(len(self.ks), np.nan)
        for i, fit in enumerate(self.fits):
            labels = fit.labels if judge.samples is None else fit.labels[judge.samples]
            values = [
                silhouette(points, labels[test], 0)
                for points, (_, test) in zip(projected, judge.halves(), strict=True)
            ]
            out[i] = np.mean(values) if self.ks[i] > 1 else np.nan
        return out

    def _several(self) -> list[Settings]:
        return [s for s in self.settings if s.n_clusters > 1]

    def _spread(self, summaries: list[tuple[float, float]]) -> tuple[Floats, Floats]:
        """Return means and standard errors for every k, NaN for k = 1."""
        means, errors = zip(*summaries, strict=True)
        front = [np.nan] * (len(self.ks) - len(summaries))
        return np.array([*front, *means]), np.array([*front, *errors])

    def agreement(self, n_halvings: int) -> dict[str, Floats]:
        """Return the agreement of halves that are clustered independently, with its error."""
        settings, matrix = self._several(), self.prepared.matrix
        seeds = draw_seeds(self.rng, n_halvings)
        tasks = [(matrix, self._draw(1.0), settings, seed) for seed in seeds]
        done = collect(
            run_all(fit_halves, tasks, self.n_jobs), n_halvings, "halvings", self.verbose,
            self.keep_partial,
        )  # fmt: skip
        # One value for each halving: its two directions share both fits.
        values = [np.array([np.mean(h[i]) for h in done]) for i in range(len(settings))]
        mean, error = self._spread([mean_and_error(value) for value in values])
        return {"agreement": mean, "agreement_se": error}

    def stability(self, n_subsamples: int) -> dict[str, Floats]:
        """Return the agreement of subsamples on the samples they share, with its error."""
        settings, matrix = self._several(), self.prepared.matrix
        seeds = draw_seeds(self.rng, n_subsamples)
        rows = [np.sort(self._draw(SHARE)) for _ in seeds]
        tasks = [(matrix, r, settings, seed) for r, seed in zip(rows, seeds, strict=True)]
        done = collect(
            run_all(labels_of_part, tasks, self.n_jobs), n_subsamples, "subsamples",
            self.verbose, self.keep_partial,
        )  # fmt: skip
        pairs = [_pairwise(rows, [labels[i] for labels in done]) for i in range(len(settings))]
        mean, error = self._spread([_jackknife(table) for table in pairs])
        return {"stability": mean, "stability_se": error}

    def _draw(self, share: float) -> Ints:
        """Return some of the samples, in random order."""
        m = self.prepared.matrix.shape[0]
        return self.rng.permutation(m)[: min(round(share * m), MAX_SAMPLES)]


def _pairwise(rows: list[Ints], labels: list[Ints]) -> Floats:
    """Return the agreement of every two subsamples on the samples they share."""
    n = len(labels)
    table = np.zeros((n, n))
    for a in range(n):
        for b in range(a):
            table[a, b] = table[b, a] = common_agreement(rows[a], labels[a], rows[b], labels[b])
    return table


def _jackknife(table: Floats) -> tuple[float, float]:
    """Return the mean of all pairs and its standard error (NaN for fewer than three parts).

    Pairs with a part in common are not independent: the error is that of leaving out one part
    with all its pairs.
    """
    n, total = len(table), table.sum()
    if n < 2:
        return np.nan, np.nan
    mean = float(total / (n * (n - 1)))
    if n < 3:
        return mean, np.nan
    without = (total - 2 * table.sum(axis=1)) / ((n - 1) * (n - 2))
    return mean, float(np.sqrt((n - 1) / n * ((without - without.mean()) ** 2).sum()))
