"""One run: a method on a data set with a seed, in a process of its own.

Called as ``python -m ksparse.compare._cell`` with the run as JSON on standard input; writes
what it measured as JSON to standard output.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from typing import Any

import numpy as np
import scipy.sparse as sp

__all__ = ["PREPARATIONS", "SIMULATIONS", "load", "measure", "prepared"]

SIMULATIONS = {"scsim1": "paper1", "scsim2": "paper2"}
PREPARATIONS = ("raw", "cpm", "log1p")


def load(data: str, label_column: str, seed: int) -> tuple[Any, Any, Any]:
    """Counts, classes and (where known) markers; simulations are another one for each seed."""
    if data in SIMULATIONS:
        from ksparse.simulate import scsim

        cells = scsim(preset=SIMULATIONS[data], random_state=seed)
        return cells.counts, cells.labels, cells.markers
    from ksparse.readers import read
    from ksparse.tl._data import known_labels

    adata = read(data, unique_names=True)
    truth, known = known_labels(adata, label_column)
    X = adata.X[known] if not known.all() else adata.X
    markers = adata.var["is_marker"].to_numpy() if "is_marker" in adata.var else None
    return X, truth[known], markers


def prepared(X: Any, how: str) -> Any:
    """Counts as they are, per million, or log(1 + counts per 10,000)."""
    from ksparse.normalise import log_normalise

    if how == "log1p":
        return log_normalise(X)
    X = sp.csr_array(X, dtype=np.float32)
    if how == "raw":
        return X
    depth = np.asarray(X.sum(axis=1, dtype=np.float64)).ravel()
    scaled = sp.diags_array(1e6 / np.where(depth > 0, depth, 1.0)) @ X
    return sp.csr_array(scaled).astype(np.float32)


def peak_bytes() -> int:
    """The most memory that this process has had."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(most) * (1 if sys.platform == "darwin" else 1024)


def measure(run: dict[str, Any]) -> dict[str, Any]:
    """Run a method; return scores, seconds and memory."""
    from ksparse.compare._methods import run_method
    from ksparse.metrics import summary

    X, truth, markers = load(run["data"], run["label_column"], run["seed"])
    X = prepared(X, run["preparation"])
    k = len(np.unique(truth))
    before = peak_bytes()
    start = time.perf_counter()
    labels, selected = run_method(run["method"], X, k, run["seed"], run["data"])
    seconds = time.perf_counter() - start
    scores = summary(truth, labels, selected=selected,
                     relevant=markers if selected is not None else None)  # fmt: skip
    return scores | {
        "seconds": seconds,
        "peak_mb": peak_bytes() / 1e6,
        "before_mb": before / 1e6,
        "n_samples": X.shape[0],
        "n_genes": X.shape[1],
        "k": k,
    }


def main() -> None:
    """Read a run, do it, write the result."""
    import warnings

    run = json.load(sys.stdin)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = measure(run)
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
