"""One run of a method on a data set with a seed, as a script.

``python -m ksparse.compare._cell`` reads the run as a line of JSON from standard input, and
writes the measurements as JSON to standard output. It ends when standard input is closed.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np

from ksparse._errors import InputError
from ksparse._processes import end_at_eof

try:
    import resource
except ImportError:  # Windows has none
    resource = None  # type: ignore[assignment]

__all__ = ["measure", "peak_bytes"]


def peak_bytes() -> int | None:
    """Return the largest memory of this process until now, or None if it is not known."""
    status = Path("/proc/self/status")
    if status.exists():  # getrusage would include what the parent process had
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    if resource is None:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak) * (1 if sys.platform == "darwin" else 1024)


def _megabytes(n_bytes: int | None) -> float | None:
    return None if n_bytes is None else n_bytes / 1e6


def measure(run: dict[str, Any]) -> dict[str, Any]:
    """Run a method; return scores, seconds and memory (None where it is not known).

    `run` has the keys data, preparation, method, seed and label_column; and may have asked_eta,
    file (the path of the data, if `data` is only a name) and picture (the path to which
    coordinates are written).
    """
    from ksparse.compare._data import load, prepared
    from ksparse.compare._methods import Task, run_method, warm_up
    from ksparse.metrics import summary

    X, truth, markers = load(run.get("file", run["data"]), run["label_column"], run["seed"])
    k = len(np.unique(truth))
    if k < 2:
        raise InputError(f"{run['data']} has {k} class in {run['label_column']!r}: give 2 or more.")
    X = prepared(X, run["preparation"])
    task = Task(X, k, run["seed"], run["data"], run["preparation"], run.get("asked_eta"))
    warm_up(run["method"])
    before = peak_bytes()
    start = time.perf_counter()
    result = run_method(run["method"], task)
    seconds = time.perf_counter() - start
    after = peak_bytes()
    scores = summary(truth, result.labels, selected=result.selected,
                     relevant=markers if result.selected is not None else None)  # fmt: skip
    if "picture" in run:
        _write_picture(Path(run["picture"]), truth, result)
    return result.extra | scores | {
        "seconds": seconds,
        "peak_mb": _megabytes(after),
        "before_mb": _megabytes(before),
        "n_samples": X.shape[0],
        "n_genes": X.shape[1],
        "k": k,
    }  # fmt: skip


def _write_picture(path: Path, truth: Any, result: Any) -> None:
    """Write t-SNE coordinates of the space in which a method clustered."""
    from ksparse.io.files import new_file
    from ksparse.metrics import correctly_placed
    from ksparse.scverse.layout import layout

    names, codes = np.unique(np.asarray(truth).astype(str), return_inverse=True)
    points = layout(np.asarray(result.embedding()), random_state=0)
    right = correctly_placed(truth, result.labels)
    with new_file(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, points=points, classes=codes, names=names, right=right)


def main() -> None:
    """Read a run, do it, and write the measurements."""
    import warnings

    run = json.loads(sys.stdin.readline())
    end_at_eof(sys.stdin.fileno())
    # What libraries print must not get into the output.
    with warnings.catch_warnings(), redirect_stdout(sys.stderr):
        warnings.simplefilter("ignore")
        result = measure(run)
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
