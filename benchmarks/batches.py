"""Batches: clusters with and without `groups`, where batches differ and where they do not.

    python benchmarks/batches.py [set ...]

Samples of labelled sets are put in batches: at random, or so that one class is in one batch only,
or so that a class makes up most of one batch. Every gene has another level in every batch
(a normal shift of 0.5 standard deviations of all values that are not zero), or none.
"""

from __future__ import annotations

import sys
import warnings
from functools import partial

import numpy as np

from common import load, timed
from ksparse import KSparse
from ksparse.metrics import adjusted_rand_score

SETS = ("usoskin", "klein", "5 cell lines", "pollen")
N_BATCHES, SHIFT = 3, 0.5


def batches_of(classes, kind, rng):
    """The batch of each sample."""
    batch = rng.integers(0, N_BATCHES, classes.size)
    first = classes == np.unique(classes)[0]
    if kind == "a class in one batch":
        batch[first] = 0
    elif kind == "half of a batch one class":
        others = np.flatnonzero(~first)
        batch[first] = np.where(rng.random(first.sum()) < 0.9, 0, batch[first])
        few = others[batch[others] == 0]
        batch[few[int(first.sum()) :]] = 1
    return batch


def main(names):
    warnings.simplefilter("ignore")
    print("set, batches, shift: ARI without groups, with groups; seconds; clusters of one batch")
    for name in names:
        X, classes, k, _ = load(name)
        X = X.toarray() if hasattr(X, "toarray") else X
        for kind in ("random", "a class in one batch", "half of a batch one class"):
            for shift in (0.0, SHIFT):
                rng = np.random.default_rng(0)
                batch = batches_of(classes, kind, rng)
                size = shift * X[X != 0].std()
                Y = X + (size * rng.normal(size=(N_BATCHES, X.shape[1])))[batch].astype(X.dtype)
                plain, model = (KSparse(k, n_features=100) for _ in range(2))
                _, t0 = timed(partial(plain.fit, Y))
                _, t1 = timed(partial(model.fit, Y, groups=batch))
                score = [100 * adjusted_rand_score(classes, m.labels_) for m in (plain, model)]
                flagged = int(model.batch_mixing_["one_batch"].sum())
                genes = int(model.batch_support_["one_batch"].sum())
                print(f"{name}, {kind}, {shift}: {score[0]:.1f} {score[1]:.1f}; {t0:.1f} {t1:.1f}; "
                      f"{flagged} of {k}, {genes} of 100 genes", flush=True)  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1:] or SETS)
