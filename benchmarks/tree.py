"""Trees of clusters: beside flat fits, where they stop, one population, and what they cost.

python benchmarks/tree.py [sets] [population] [cost]
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
from sklearn.metrics import adjusted_rand_score

from common import load, timed
from ksparse import KSparse, tree
from ksparse.simulate import log_normalise, simulate_counts

SETS = ("5 cell lines", "usoskin", "klein", "scsim1", "scsim2", "authors' simulation", "pollen",
        "pbmc68k", "zeisel", "baron mouse", "mouse bladder")  # fmt: skip
RUNS = 20


def sets():
    """The tree cut at the true number of clusters, beside a flat fit of 100 features."""
    print("| data | true k | flat ARI | tree ARI, true k | clusters | ARI of these | cost |")
    print("|---|---|---|---|---|---|---|")
    rows = []
    for name in SETS:
        X, classes, k, _ = load(name)
        flat, one = timed(lambda X=X, k=k: KSparse(k, n_features=100, random_state=0).fit(X))
        grown, seconds = timed(lambda X=X, k=k: tree(X, n_clusters=k, random_state=0))
        labels = (flat.labels_, grown.cut(k), grown.labels)
        rows.append([100 * adjusted_rand_score(classes, found) for found in labels])
        a, b, c = rows[-1]
        print(f"| {name} | {k} | {a:.1f} | {b:.1f} | {grown.n_clusters} | {c:.1f} "
              f"| {seconds / one:.1f} fits |", flush=True)  # fmt: skip
    a, b, c = np.mean(rows, axis=0)
    print(f"| mean | | {a:.1f} | {b:.1f} | | {c:.1f} | |")


def one_population(kind, seed):
    """Samples of one population."""
    rng = np.random.default_rng(seed)
    if kind == "noise, 200 x 2,000":
        return rng.normal(size=(200, 2000))
    if kind == "two Gaussian factors, 300 x 1,000":
        loadings = np.zeros((2, 1000))
        loadings[0, :40] = loadings[1, 40:80] = 1.5
        return rng.normal(size=(300, 2)) @ loadings + rng.normal(size=(300, 1000))
    return log_normalise(simulate_counts(300, 500, 1, random_state=seed).counts)


def population():
    print("\n| one population | runs | more than one cluster |\n|---|---|---|")
    for kind in ("noise, 200 x 2,000", "two Gaussian factors, 300 x 1,000",
                 "simulated cells, 300 x 500"):  # fmt: skip
        split = [tree(one_population(kind, seed)).n_clusters > 1 for seed in range(RUNS)]
        print(f"| {kind} | {RUNS} | {np.mean(split):.1%} |", flush=True)
    X, lines, _, _ = load("5 cell lines")
    found = [tree(X[np.flatnonzero(lines == line)]).n_clusters for line in np.unique(lines)]
    print(f"\nClusters of each cell line: {', '.join(map(str, found))}.")


def cost():
    data = simulate_counts(1000, 1000, 5, random_state=0)
    X = log_normalise(data.counts)
    KSparse(5).fit(X)
    _, one = timed(lambda: KSparse(5).fit(X))
    for init in ("auto", "graph"):
        found, seconds = timed(lambda init=init: tree(X, init=init))
        print(f"\n1,000 x 1,000, starts {init!r}: {seconds / one:.1f} default fits "
              f"({seconds:.1f} s); {found.n_clusters} clusters of 5")  # fmt: skip


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for part in sys.argv[1:] or ("sets", "population", "cost"):
        {"sets": sets, "population": population, "cost": cost}[part]()
