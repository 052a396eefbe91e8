"""How long the selection of a panel takes, in seconds and in products with the data.

python benchmarks/panel_speed.py [--features 50] [--repeat 3]

Simulated data with ten classes: 3,000 x 4,000 (CSR and dense, a quarter of the entries), and
100,000 x 2,000 (CSR, 10 % of the entries). One pass is scipy's product of the same sparse matrix
with ten dense columns, `X @ W`, in the same process; the figures are medians. The passes depend
less than the seconds on the machine and on what else it does.
"""

from __future__ import annotations

import argparse
from functools import partial

import numpy as np
import scipy.sparse as sp

from common import timed
from ksparse.panel.selector import PanelSelector

CLASSES = 10


def data(n, d, density, seed=0):
    """Sparse values in which 20 features of each class are twice as large there."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(CLASSES, size=n)
    X = sp.random_array((n, d), density=density, format="csr", dtype=np.float32, rng=rng)
    rows = np.repeat(np.arange(n), np.diff(X.indptr))
    X.data[X.indices // 20 == labels[rows]] *= 2
    return X, labels


def seconds(function, repeat):
    """Return the median time of a call."""
    return np.median([timed(function)[1] for _ in range(repeat)])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--features", type=int, default=50)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    PanelSelector(5).fit(*data(200, 50, 0.1))  # compiled before it is timed
    print("| data | seconds | one pass | passes |\n|---|---|---|---|")
    for n, d, density, kinds in (
        (3000, 4000, 0.25, ("CSR", "dense")),
        (100_000, 2000, 0.1, ("CSR",)),
    ):
        X, labels = data(n, d, density)
        W = np.random.default_rng(0).normal(size=(d, CLASSES)).astype(X.dtype)
        one = seconds(partial(X.__matmul__, W), 5)
        for kind in kinds:
            values = X if kind == "CSR" else X.toarray()
            fit = partial(PanelSelector(options.features).fit, values, labels)
            taken = seconds(fit, options.repeat)
            cells = f"{n} x {d}, {kind}", f"{taken:.2f}", f"{one:.3f}", f"{taken / one:.1f}"
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
