"""The default fit on every labelled set: agreement, spread over seeds and over orders, error.

python benchmarks/all_sets.py [--orders 4] [--seeds 5] [sets ...]

The answer may depend on chance in two ways: by the seed, and by the order of the samples, which
decides which of them share a half. The first order is that of the file.
"""

from __future__ import annotations

import argparse

import numpy as np

from common import FILES, README_SETS, SINGLE_CELL, WIDE, load, timed
from ksparse import KSparse
from ksparse.metrics import adjusted_rand_score, clustering_accuracy


def fit(name, X, classes, k, seed, order):
    """Return ARI, error and seconds of the default fit."""
    n_features = "auto" if name in WIDE else 100
    model = KSparse(k, n_features=n_features, random_state=seed)
    model, seconds = timed(lambda: model.fit(X[order]))
    ari = adjusted_rand_score(classes[order], model.labels_)
    return ari, 1 - clustering_accuracy(classes[order], model.labels_), seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--orders", type=int, default=4)
    parser.add_argument("sets", nargs="*", default=list(FILES))
    options = parser.parse_args()
    print("| data | ARI | spread over seeds | over orders | error | seconds |")
    print("|---|---|---|---|---|---|", flush=True)
    table = {}
    for name in options.sets:
        X, classes, k, _ = load(name)
        given = np.arange(X.shape[0])
        seeds = [fit(name, X, classes, k, seed, given) for seed in range(options.seeds)]
        orders = [seeds[0]] + [
            fit(name, X, classes, k, 0, np.random.RandomState(i).permutation(given))
            for i in range(options.orders)
        ]
        ari, error, seconds = np.mean(seeds, axis=0)
        spreads = [np.ptp([run[0] for run in runs]) for runs in (seeds, orders)]
        table[name] = np.array([ari, *spreads, error, seconds])
        print(
            f"| {name} | {ari:.3f} | {spreads[0]:.3f} | {spreads[1]:.3f} | {error:.1%} "
            f"| {seconds:.1f} |",
            flush=True,
        )
    for title, group in (("README's sets", README_SETS), ("single cells", SINGLE_CELL)):
        rows = [table[name] for name in group if name in table]
        if rows:
            mean = np.mean(rows, axis=0)
            print(f"| mean of {len(rows)} {title} | {mean[0]:.3f} | {mean[1]:.3f} "
                  f"| {mean[2]:.3f} | {mean[3]:.1%} | {mean[4]:.1f} |")  # fmt: skip


if __name__ == "__main__":
    main()
