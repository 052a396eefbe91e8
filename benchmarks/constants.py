"""What the constants of the search are worth: each halved and doubled, on every labelled set.

python benchmarks/constants.py [--jobs 2] [--sets ...] [constants ...]
"""

from __future__ import annotations

import argparse
import importlib

import numpy as np
from joblib import Parallel, delayed

from common import FILES, SINGLE_CELL, WIDE, load
from ksparse import KSparse
from ksparse.metrics import adjusted_rand_score

# Name -> module, attribute, the value as it is, halved and doubled. A module of None is a
# parameter of KSparse, "Class.name" a default of a class. Shares near 1 are halved and doubled
# in what they lack.
CONSTANTS = {
    "ridge of the refit": (None, "ridge", (0.3, 0.15, 0.6)),
    "good enough (auto)": ("search.feature_count", "PLATEAU", (0.95, 0.975, 0.9)),
    "growth of the grid (auto)": ("search.feature_count", "GROWTH", (1.35, 1.16, 1.82)),
    "candidates per feature (judge)": ("search.judge", "POOL", (5, 2, 10)),
    "other candidates (judge)": ("search.judge", "MAX_POOL", (500, 250)),
    "features judged": ("search.judge", "Judge.max_features", (100, 50)),
    "halvings, least": ("search.judge", "MIN_HALVINGS", (2, 1, 4)),
    "samples held out": ("search.judge", "HELD_OUT", (1_000, 500, 2_000)),
    "standard errors": ("search.search", "ERRORS", (1.0, 0.5, 2.0)),
    "tolerance of features": ("search.fit", "FEATURE_TOL", (5, 2.5, 10)),
    "ridge (dense start)": ("starts.dense", "RIDGE", (0.15, 0.075, 0.3)),
    "rank (dense start)": ("starts.dense", "RANK", (30, 15, 60)),
    "k-means runs (dense start)": ("starts.dense", "N_INIT", (10, 5, 20)),
    "neighbours (graph start)": ("starts.graph", "N_NEIGHBORS", (15, 8, 30)),
    "features (divisive start)": ("starts.divisive", "N_FEATURES", (500, 250, 1_000)),
    "k-means runs (divisive start)": ("starts.divisive", "N_INIT", (10, 5, 20)),
    "features of a rule (divisive start)": ("starts.divisive", "RULE_FEATURES", (30, 15, 60)),
    "halvings (divisive start)": ("starts.divisive", "N_HALVINGS", (2, 1, 4)),
    "ranks (divisive start)": ("starts.divisive", "RANKS", ((5, 10, 20), (5, 10), (5, 10, 20, 40))),
    "smallest part (divisive start)": ("starts.divisive", "MIN_SIZE", (5, 3, 10)),
    "part of the mean size": ("fitting", "PART_OF_MEAN", (0.25, 0.125, 0.5)),
}  # fmt: skip


def score(constant, value, name):
    """Return ARI and number of features of the default fit with a constant set otherwise."""
    place, attribute, (usual, *_) = CONSTANTS[constant]
    options = {"n_features": "auto" if name in WIDE else 100, "random_state": 0}
    X, classes, k, _ = load(name)
    if place is None:
        fit = KSparse(k, **options, **{attribute: value}).fit(X)
    else:
        values = vars(importlib.import_module(f"ksparse.{place}"))
        *owner, attribute = attribute.split(".")
        if owner:
            values = values[owner[0]].__init__.__kwdefaults__
        assert values[attribute] == usual, f"{constant} is {values[attribute]}, not {usual}"
        values[attribute] = value
        try:
            fit = KSparse(k, **options).fit(X)
        finally:
            values[attribute] = usual
    return adjusted_rand_score(classes, fit.labels_), fit.n_features_selected_


def means(found):
    """Return mean ARI of single cells and of wide data, and mean number of features of these."""
    single = np.mean([found[name][0] for name in found if name in SINGLE_CELL])
    wide = np.mean([found[name] for name in found if name in WIDE], axis=0)
    return f"{single:.3f} | {wide[0]:.3f} | {wide[1]:.0f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--sets", nargs="+", default=list(FILES))
    parser.add_argument("constants", nargs="*", default=list(CONSTANTS))
    options = parser.parse_args()
    run = Parallel(n_jobs=options.jobs)
    print("| constant | value | ARI, single cells | ARI, wide | features, wide "
          "| largest change of a set |")  # fmt: skip
    print("|---" * 6 + "|", flush=True)
    first = next(iter(CONSTANTS))
    asked = [(first, CONSTANTS[first][2][0])]
    asked += [(name, value) for name in options.constants for value in CONSTANTS[name][2][1:]]
    usual = None
    for constant, value in asked:
        scores = run(delayed(score)(constant, value, name) for name in options.sets)
        found = dict(zip(options.sets, scores, strict=True))
        if usual is None:
            usual = found
            print(f"| all as they are | | {means(found)} | |", flush=True)
            continue
        change = {name: found[name][0] - usual[name][0] for name in found}
        worst = max(change, key=lambda name: abs(change[name]))
        row = f"| {constant} | {value} | {means(found)} | {worst} {change[worst]:+.3f} |"
        print(row, flush=True)


if __name__ == "__main__":
    main()
