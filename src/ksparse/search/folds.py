"""Calibrate the distances from clusters, on samples held out fold by fold.

The labels are those of the fit. Features, projection, means and covariances are found anew on
the other folds, with one W-step, so that a sample that is scored had no part in them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ksparse._threads import blas_threads
from ksparse.core.conformal import Calibration, fit_yardstick, stack
from ksparse.core.targets import indicator_targets
from ksparse.core.w_step import WStep, solve_w_step
from ksparse.matrix import Floats, Ints, Matrix, as_matrix
from ksparse.matrix.data import dense, pick_columns
from ksparse.search.feature_count import SEED

__all__ = ["calibrate"]

N_FOLDS = 5
# At most so many samples are used; of large clusters as many of each.
MAX_SAMPLES = 5_000


def calibrate(matrix: Matrix, labels: Ints, n_clusters: int, w_step: WStep) -> Calibration:
    """Return yardsticks of folds, and the scores of the samples held out from them.

    Parameters
    ----------
    matrix : Matrix
        The data.
    labels : ndarray of int
        Cluster of each sample.
    n_clusters : int
        Number of clusters.
    w_step : WStep
        How features are selected.
    """
    rng = np.random.RandomState(SEED)
    samples = _samples(labels, n_clusters, rng)
    weight = np.ones(labels.size) if matrix.sample_weight is None else matrix.sample_weight
    every = np.bincount(labels, weights=weight, minlength=n_clusters)
    labels, weight = labels[samples], weight[samples]
    # Those that were drawn stand for their cluster.
    some = np.bincount(labels, weights=weight, minlength=n_clusters)
    weight = weight * (every / np.where(some > 0, some, 1.0))[labels]
    X = matrix.rows(samples).X
    fold = _folds(labels, n_clusters, rng)
    scores, yardsticks = np.empty(labels.size), []
    w_step = replace(w_step, relax=True, eta=None)
    with blas_threads(float(samples.size) * X.shape[1]):
        for f in range(int(fold.max()) + 1):
            train, test = np.flatnonzero(fold != f), np.flatnonzero(fold == f)
            view = as_matrix(X[train], sample_weight=weight[train], standardize=matrix.standardize)
            selected, W = _project(view, labels[train], n_clusters, w_step)
            Z = _columns(X, selected)
            yardstick = fit_yardstick(
                Z[train], selected, W, labels[train], n_clusters, weight[train]
            )
            scores[test] = yardstick.scores(Z[test])[np.arange(test.size), labels[test]]
            yardsticks.append(yardstick)
    return stack(yardsticks, scores, fold, labels)


def _columns(X: object, columns: Ints) -> Floats:
    """Return some of the features of data in memory."""
    return dense(pick_columns(X, columns)).astype(np.float64)


def _project(view: Matrix, labels: Ints, n_clusters: int, w_step: WStep) -> tuple[Ints, Floats]:
    """Return the features that are selected, and their weights for data as they are."""
    norm = np.sqrt(view.total_weight * float((view.variance * view.factor**2).sum()))
    view = view.scaled(norm if norm > 0 else 1.0)
    aims = indicator_targets(labels, n_clusters, view.sample_weight)
    found = solve_w_step(view, labels, aims, w_step, certify=False)
    selected = found.selected
    return selected, found.weights[selected] * view.factor[selected, None]


def _samples(labels: Ints, n_clusters: int, rng: np.random.RandomState) -> Ints:
    """Return the samples that are used: all, or as many of each cluster that has more."""
    if labels.size <= MAX_SAMPLES:
        return np.arange(labels.size)
    sizes = np.sort(np.bincount(labels, minlength=n_clusters))
    left, most = MAX_SAMPLES, 0
    for i, size in enumerate(sizes):
        most = left // (n_clusters - i)
        if size > most:
            break
        left -= size
    drawn = []
    for c in range(n_clusters):
        members = np.flatnonzero(labels == c)
        drawn.append(rng.choice(members, most, replace=False) if members.size > most else members)
    return np.sort(np.concatenate(drawn))


def _folds(labels: Ints, n_clusters: int, rng: np.random.RandomState) -> Ints:
    """Return a fold for each sample; every cluster is spread over all of them."""
    fold, n_folds, start = np.empty(labels.size, dtype=np.intp), min(N_FOLDS, labels.size), 0
    for c in range(n_clusters):
        members = rng.permutation(np.flatnonzero(labels == c))
        fold[members] = (start + np.arange(members.size)) % n_folds
        start += members.size
    return fold
