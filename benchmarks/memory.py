"""Peak memory of a fit beyond its input, for sparse data, beside scikit-learn's TruncatedSVD.

python benchmarks/memory.py [--samples 100000] [--features 2000] [--density 0.1]
"""

from __future__ import annotations

import argparse
import threading
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.decomposition import TruncatedSVD

from ksparse import KSparse
from ksparse.metrics import adjusted_rand_score


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def peak_beyond_now(function):
    """Run, and return what the process grew by at its largest."""
    base, peak, done = resident(), [0], threading.Event()

    def watch():
        while not done.is_set():
            peak[0] = max(peak[0], resident())
            time.sleep(0.002)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        result = function()
    finally:
        done.set()
        watcher.join()
    return result, peak[0] - base


def generate(m, d, density, k=10, seed=0):
    """CSR data in k clusters, made in blocks; each cluster has its own 0.5 % of the features."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, k, m)
    n_raised = max(1, d // 200)
    blocks = []
    for start in range(0, m, 5000):
        part = labels[start : start + 5000]
        chance = np.full((part.size, d), density * 0.95, dtype=np.float32)
        columns = part[:, None] * n_raised + np.arange(n_raised)
        chance[np.arange(part.size)[:, None], columns] = min(1.0, density * 6)
        hit = rng.random(chance.shape, dtype=np.float32) < chance
        blocks.append(sp.csr_matrix(hit * rng.gamma(2.0, 0.5, chance.shape).astype(np.float32)))
    return sp.vstack(blocks, format="csr"), labels


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=100_000)
    parser.add_argument("--features", type=int, default=2_000)
    parser.add_argument("--density", type=float, default=0.1)
    options = parser.parse_args()
    small, _ = generate(300, 100, 0.3)
    KSparse(2, n_features=5, random_state=0).fit(small)  # compilation is not what is measured
    X, labels = generate(options.samples, options.features, options.density)
    size = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    print(f"input: {X.shape[0]} x {X.shape[1]} CSR, {size / 1e6:.0f} MB\n")
    print("| fit | peak beyond the input / input | ARI |\n|---|---|---|")
    for init in ("spectral", "auto"):
        model = KSparse(10, n_features=100, init=init, random_state=0)
        _, extra = peak_beyond_now(lambda model=model: model.fit(X))
        ari = adjusted_rand_score(labels, model.labels_)
        print(f"| KSparse, init={init!r} | {extra / size:.2f} | {ari:.3f} |", flush=True)
    _, extra = peak_beyond_now(lambda: TruncatedSVD(14, random_state=0).fit_transform(X))
    print(f"| scikit-learn TruncatedSVD(14) | {extra / size:.2f} | - |")


if __name__ == "__main__":
    main()
