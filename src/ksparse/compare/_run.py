"""All runs of a comparison; those that are done are kept."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ksparse.compare._cell import PREPARATIONS, SIMULATIONS
from ksparse.compare._methods import METHODS
from ksparse.files import new_file
from ksparse.progress import progress_bar
from ksparse.validation import check_at_least

__all__ = ["Plan", "compare"]


@dataclass(frozen=True)
class Plan:
    """What is compared.

    Attributes
    ----------
    data : sequence of str
        "scsim1", "scsim2" (simulated anew for each replicate), or files with labels.
    methods : sequence of str
        Names of `METHODS`.
    preparations : sequence of str
        "raw", "cpm" and "log1p": the same for every method.
    replicates : int
        Seeds 0, 1, ...
    label_column : str
        Column of the files with the classes.
    time_limit : float
        Seconds that a run may take.
    """

    data: Sequence[str]
    methods: Sequence[str] = tuple(METHODS)
    preparations: Sequence[str] = PREPARATIONS
    replicates: int = 5
    label_column: str = "label"
    time_limit: float = 1800.0

    def check(self) -> None:
        """Refuse what cannot be compared."""
        for name, given, known in (
            ("methods", self.methods, tuple(METHODS)),
            ("preparations", self.preparations, PREPARATIONS),
        ):
            unknown = [item for item in given if item not in known]
            if unknown or not given:
                what = repr(unknown[0]) if unknown else "nothing"
                raise ValueError(f"{name} contains {what}; choose from {', '.join(known)}.")
        check_at_least("replicates", self.replicates, 1)
        if not self.time_limit > 0:
            raise ValueError(f"time_limit={self.time_limit} must be a number of seconds > 0.")
        for data in self.data:
            if data not in SIMULATIONS and not Path(data).exists():
                raise FileNotFoundError(
                    f"{data} does not exist; give files, or {', '.join(SIMULATIONS)}."
                )

    def runs(self) -> list[dict[str, Any]]:
        """Every single run."""
        return [
            {"data": data, "preparation": preparation, "method": method, "seed": seed,
             "label_column": self.label_column}
            for data in self.data
            for preparation in self.preparations
            for method in self.methods
            for seed in range(self.replicates)
        ]  # fmt: skip


def compare(plan: Plan, folder: Path, *, verbose: int = 0) -> list[dict[str, Any]]:
    """Do all runs of a plan that are not done yet, each in a fresh process.

    A run that fails or takes too long is recorded as such, and the rest goes on.

    Parameters
    ----------
    plan : Plan
        What is compared.
    folder : Path
        Where each run is recorded; what is there already is not done again (but for runs
        that failed or took too long).
    verbose : int
        1 shows a progress bar on a terminal.

    Returns
    -------
    list of dict
        The runs with their scores, or with "failed" and the reason.
    """
    plan.check()
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    runs = plan.runs()
    results = []
    with progress_bar(len(runs), "compare", verbose) as bar:
        for run in runs:
            bar.set_postfix_str(f"{Path(run['data']).stem} {run['method']}")
            path = folder / f"{_key(run)}.json"
            done = _recorded(path)
            if done is None or "failed" in done:
                done = run | _one(run, plan.time_limit)
                with new_file(path) as temporary:
                    temporary.write_text(json.dumps(done, indent=1), encoding="utf-8")
            results.append(done)
            bar.update()
    return results


def _key(run: dict[str, Any]) -> str:
    """A file name for a run; a file that was changed since is another one."""
    marks = dict(run)
    path = Path(run["data"])
    if path.is_file():
        marks["size"], marks["changed"] = path.stat().st_size, path.stat().st_mtime_ns
    text = json.dumps(marks, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    return f"{path.stem}-{run['preparation']}-{run['method']}-{run['seed']}-{digest}"


def _recorded(path: Path) -> dict[str, Any] | None:
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError):
        return None


def _one(run: dict[str, Any], time_limit: float) -> dict[str, Any]:
    process = subprocess.Popen(
        [sys.executable, "-m", "ksparse.compare._cell"], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        out, error = process.communicate(json.dumps(run), timeout=time_limit)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return {"failed": f"took more than {time_limit:g} s"}
    except BaseException:  # an interrupt: let no process run on
        process.kill()
        process.communicate()
        raise
    if process.returncode:
        lines = [line for line in error.strip().splitlines() if line.strip()]
        return {"failed": lines[-1].strip() if lines else f"exit code {process.returncode}"}
    return dict(json.loads(out))
