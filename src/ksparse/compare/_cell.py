"""One run: a method on a data set with a seed, in a process of its own.

Called as ``python -m ksparse.compare._cell`` with the run as JSON on standard input; writes
what it measured as JSON to standard output.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["measure"]


def peak_bytes() -> int:
    """The most memory that this process has had."""
    status = Path("/proc/self/status")
    if status.exists():  # getrusage would include what the parent process had
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(most) * (1 if sys.platform == "darwin" else 1024)


def measure(run: dict[str, Any]) -> dict[str, Any]:
    """Run a method; return scores, seconds and memory.

    `run` has data, preparation, method, seed and label_column; and may have asked_eta, file (where
    the data are, if `data` is only a name) and picture (where to write coordinates).
    """
    from ksparse.compare._data import load, prepared
    from ksparse.compare._methods import Task, run_method, warm_up
    from ksparse.metrics import summary

    X, truth, markers = load(run.get("file", run["data"]), run["label_column"], run["seed"])
    k = len(np.unique(truth))
    if k < 2:
        raise ValueError(f"{run['data']} has {k} class in {run['label_column']!r}: give 2 or more.")
    X = prepared(X, run["preparation"])
    task = Task(X, k, run["seed"], run["data"], run["preparation"], run.get("asked_eta"))
    warm_up(run["method"])
    before = peak_bytes()
    start = time.perf_counter()
    found = run_method(run["method"], task)
    seconds = time.perf_counter() - start
    after = peak_bytes()
    scores = summary(truth, found.labels, selected=found.selected,
                     relevant=markers if found.selected is not None else None)  # fmt: skip
    if "picture" in run:
        _write_picture(Path(run["picture"]), truth, found)
    return found.more | scores | {
        "seconds": seconds,
        "peak_mb": after / 1e6,
        "before_mb": before / 1e6,
        "n_samples": X.shape[0],
        "n_genes": X.shape[1],
        "k": k,
    }  # fmt: skip


def _write_picture(path: Path, truth: Any, found: Any) -> None:
    """Coordinates by t-SNE of the space in which a method found its clusters."""
    from ksparse.files import new_file
    from ksparse.layout import layout
    from ksparse.metrics import correctly_placed

    names, codes = np.unique(np.asarray(truth).astype(str), return_inverse=True)
    points = layout(np.asarray(found.embedding()), random_state=0)
    right = correctly_placed(truth, found.labels)
    with new_file(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, points=points, classes=codes, names=names, right=right)


def main() -> None:
    """Read a run, do it, write the result."""
    import warnings

    run = json.load(sys.stdin)
    # What libraries print must not get into the answer.
    with warnings.catch_warnings(), redirect_stdout(sys.stderr):
        warnings.simplefilter("ignore")
        result = measure(run)
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
