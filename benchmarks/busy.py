"""How much slower a fit is while other processes keep all cores busy.

python benchmarks/busy.py [--samples 600] [--features 8000]
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time

import numpy as np

from ksparse import KSparse


def spin(stop):
    while not stop.is_set():
        sum(range(10_000))


def seconds(X, repeats):
    times = []
    for seed in range(repeats):
        start = time.perf_counter()
        KSparse(4, n_features=50, random_state=seed).fit(X)
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=600)
    parser.add_argument("--features", type=int, default=8000)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    X = rng.normal(size=(options.samples, options.features))
    for cluster in range(3):
        X[cluster::4, 10 * cluster : 10 * cluster + 10] += 2
    seconds(X, 1)  # compiles
    idle = seconds(X, options.repeats)
    stop = multiprocessing.get_context("spawn").Event()
    spinning = [
        multiprocessing.get_context("spawn").Process(target=spin, args=(stop,), daemon=True)
        for _ in range(os.cpu_count() or 1)
    ]
    for process in spinning:
        process.start()
    time.sleep(1)
    try:
        busy = seconds(X, options.repeats)
    finally:
        stop.set()
    print(f"{X.shape[0]} x {X.shape[1]}: idle {idle:.2f} s, all cores busy {busy:.2f} s, "
          f"ratio {busy / idle:.2f}")  # fmt: skip


if __name__ == "__main__":
    main()
