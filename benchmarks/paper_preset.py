"""What each deviation of `KSparse.paper` from the paper's text is worth, one at a time.

    python benchmarks/paper_preset.py --seeds 3

prints a table: a row for every setting that is changed in the preset, a column for every data set.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from sklearn.metrics import adjusted_rand_score

from common import load, timed
from ksparse import KSparse
from ksparse.core.solvers import SOLVERS
from ksparse.core.solvers.fista import solve_fista
from ksparse.core.w_step import Solver
from ksparse.core.y_step import assign
from ksparse.metrics import clustering_accuracy
from ksparse.starts import register_start
from ksparse.starts.kernel import kernel_embedding

# Data, radius, and whether they are counts per million (else log1p of counts per 10,000).
DATA = {
    "zeisel, 16000": ("zeisel", 16000, False),
    "authors' simulation, 3000": ("authors' simulation", 3000, True),
    "authors' simulation, 1000": ("authors' simulation", 1000, True),
    "scsim1, 1000": ("scsim1", 1000, True),
    "scsim2, 3000": ("scsim2", 3000, True),
}


class InertiaStart:
    """The best of 40 k-means runs by inertia, in the linear embedding or that of the kernel."""

    def __init__(self, *, kernel: bool) -> None:
        self.kernel = kernel

    def labels(self, data, rng):
        points = data.embedding.coordinates
        if self.kernel:
            points = kernel_embedding(data.matrix, points.shape[1], data.sigma)
        weight = data.matrix.sample_weight
        return assign(
            points, data.n_clusters, rng, n_init=40, sample_weight=weight, criterion="inertia"
        ).labels


def fresh_kmeans() -> AbstractContextManager[Any]:
    """Let k-means forget the current labels in every loop, and the cost rise if it will."""

    def without_current(P, k, rng, *, n_init, sample_weight, **ignored):
        return assign(P, k, rng, n_init=n_init, sample_weight=sample_weight, criterion="inertia")

    return patch("ksparse.core.alternation.assign", without_current)


register_start("linear, 40 by inertia", InertiaStart(kernel=False))
register_start("kernel, 40 by inertia", InertiaStart(kernel=True))
SOLVERS["step 1"] = Solver(partial(solve_fista, step=1.0), options=("threshold",))
SOLVERS["last point"] = Solver(partial(solve_fista, last=True), options=("threshold",))


class Variant(NamedTuple):
    """A name, what it sets otherwise, and what it needs while it runs."""

    name: str
    overrides: dict[str, Any]
    context: Callable[[], AbstractContextManager[Any]] = nullcontext


TEXT = {"solver": "fista_paper", "threshold": 0.0, "center": False,
        "init": "kernel, 40 by inertia"}  # fmt: skip
VARIANTS = [
    Variant("KSparse.paper", {}),
    Variant("k-means of the loops by inertia", {"kmeans_criterion": "inertia"}),
    Variant("k-means of the start: 40 runs, by inertia", {"init": "linear, 40 by inertia"}),
    Variant(
        "k-means of both by inertia",
        {"init": "linear, 40 by inertia", "kmeans_criterion": "inertia"},
    ),
    Variant("k-means of the loops by inertia, afresh", {}, fresh_kmeans),
    Variant("start from the full kernel", {"init": "spectral_kernel"}),
    Variant("data not centred", {"center": False}),
    Variant("no threshold", {"threshold": 0.0}),
    Variant("step 1", {"solver": "step 1"}),
    Variant("last iterate", {"solver": "last point"}),
    Variant("FISTA update as printed", {"solver": "fista_paper"}),
    Variant("stop when converged", {"tol": 0.01}),
    Variant("everything as in the text", TEXT, fresh_kmeans),
    Variant("the same, data centred", TEXT | {"center": True}, fresh_kmeans),
]


def measure(variant: Variant, data: tuple[Any, ...], eta: float, seed: int) -> list[float]:
    """Return accuracy, ARI (per cent), genes, gap and seconds of a fit."""
    X, classes, k, _ = data
    with variant.context():
        model = KSparse.paper(k, eta, random_state=seed, **variant.overrides)
        _, seconds = timed(lambda: model.fit(X))
    return [
        100 * clustering_accuracy(classes, model.labels_),
        100 * adjusted_rand_score(classes, model.labels_),
        float(model.n_features_selected_),
        model.gap_,
        seconds,
    ]


def text_of(values: np.ndarray) -> str:
    """Return mean accuracy and ARI (with their ranges over seeds) and genes as text."""
    mean, low, high = values.mean(axis=0), values.min(axis=0), values.max(axis=0)
    both = []
    for i in (0, 1):
        spread = f" ({low[i]:.1f}-{high[i]:.1f})" if high[i] - low[i] >= 0.1 else ""
        both.append(f"{mean[i]:.1f}{spread}")
    return f"{' / '.join(both)}, {mean[2]:,.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--data", nargs="*", default=list(DATA), choices=list(DATA))
    parser.add_argument("--variants", nargs="*", help="names; all by default")
    options = parser.parse_args()
    variants = [v for v in VARIANTS if not options.variants or v.name in options.variants]
    found: dict[tuple[str, str], list[list[float]]] = {}
    for seed in range(options.seeds):
        for column in options.data:
            name, eta, cpm = DATA[column]
            X, *rest = load(name, cpm=cpm)
            data = (X.toarray().astype(np.float64), *rest)
            for variant in variants:
                values = measure(variant, data, eta, seed)
                found.setdefault((variant.name, column), []).append(values)
                print(f"{column} | {variant.name} | {seed} | {values}", flush=True)
    print("\n| accuracy / ARI, genes | " + " | ".join(options.data) + " |")
    print("|---|" + "---|" * len(options.data))
    for variant in variants:
        cells = [text_of(np.array(found[variant.name, column])) for column in options.data]
        print(f"| {variant.name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
