"""How many clusters: what choose_k recommends, what it costs, and what the test of separation sees.

python benchmarks/cluster_numbers.py [sets] [simulated] [power] [cost]
"""

from __future__ import annotations

import sys
import warnings
from functools import partial

import numpy as np

from common import load, timed
from ksparse import KSparse, choose_k, separation
from ksparse.simulate import log_normalise, simulate_counts

# Sets of which it is known how many kinds of cells there are.
SETS = ("5 cell lines", "usoskin", "klein", "scsim1", "scsim2", "authors' simulation", "pollen")
RUNS = 40


def sets():
    print("| data | true k | recommended | at 0.001 to 0.05 | p-values from k = 2 on | fits |")
    print("|---|---|---|---|---|---|")
    for name in SETS:
        X, _, k, _ = load(name)
        _, one = timed(partial(KSparse(k).fit, X))
        number, seconds = timed(partial(choose_k, X))
        p = ", ".join(f"{value:.1g}" for value in number.columns["p_separation"])
        low, high = number.interval
        row = (name, k, number.recommended, f"{low} to {high}", p, f"{seconds / one:.1f}")
        print("|", " | ".join(map(str, row)), "|", flush=True)


def simulated():
    print("\n| true k | recommended, three seeds |\n|---|---|")
    for k in (1, 3, 4, 6, 9):
        found = []
        for seed in range(3):
            data = simulate_counts(800, 1000, k, random_state=seed)
            found.append(choose_k(log_normalise(data.counts)).recommended)
        print(f"| {k} | {', '.join(map(str, found))} |", flush=True)


def power():
    """How often two Gaussian clusters in ten of 200 features are separated (p <= 0.05)."""
    distances = (2, 3, 4, 5, 6, 8)
    print("\n| sizes | " + " | ".join(f"distance {d}" for d in distances) + " |")
    print("|---|" + "---|" * len(distances))
    for sizes in ((15, 15), (30, 30), (100, 100), (300, 300), (300, 30), (1000, 15)):
        rates = []
        for distance in distances:
            hits = 0
            for seed in range(RUNS):
                rng = np.random.default_rng(seed)
                labels = np.repeat([0, 1], sizes)
                X = rng.normal(size=(labels.size, 200))
                X[labels == 1, :10] += distance / np.sqrt(10)
                hits += separation(X, labels).p_values[0, 1] <= 0.05
            rates.append(hits / RUNS)
        row = " | ".join(f"{rate:.0%}" for rate in rates)
        print(f"| {sizes[0]} and {sizes[1]} | {row} |", flush=True)


def cost():
    data = simulate_counts(1000, 1000, 5, random_state=0)
    X = log_normalise(data.counts)
    KSparse(5).fit(X)
    _, one = timed(lambda: KSparse(5).fit(X))
    for most in (10, 12):
        number, seconds = timed(lambda most=most: choose_k(X, range(2, most + 1)))
        print(f"\n1,000 x 1,000, k = 2 to {most}: {seconds / one:.1f} fits ({seconds:.1f} s); "
              f"k = {number.recommended} of 5")  # fmt: skip


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for part in sys.argv[1:] or ("sets", "simulated", "power", "cost"):
        {"sets": sets, "simulated": simulated, "power": power, "cost": cost}[part]()
