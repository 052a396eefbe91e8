"""All runs of a comparison; each is recorded, and not repeated."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ksparse._errors import InputError, Term, visible
from ksparse._processes import safe_children
from ksparse._progress import progress_bar
from ksparse.compare._data import PREPARATIONS, PUBLISHED, SIMULATIONS, load, store_published
from ksparse.compare._methods import METHODS
from ksparse.compare._paper import ETAS, paper_name
from ksparse.io.files import LOCK, claimed, new_file
from ksparse.params import check_integer

__all__ = ["SWEPT", "Plan", "compare", "is_sweep", "picture_of"]

# The method whose radius is varied for the figures, and the factors.
SWEPT = "ksparse-paper"
FACTORS = (1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 2.0, 4.0)


@dataclass(frozen=True)
class Plan:
    """The data, methods and settings of a comparison.

    Attributes
    ----------
    data : sequence of str
        "scsim1", "scsim2" (another simulation for each replicate), "usoskin", "klein", "zeisel"
        (published, see `ksparse.datasets`), or files with labels.
    methods : sequence of str
        Names of `METHODS`.
    preparations : sequence of str
        "raw", "cpm" and "log1p": the same for every method.
    replicates : int
        Number of seeds: 0, 1, ...
    label_column : str
        Column of the files with the classes.
    time_limit : float
        Seconds that a run may take.
    figures : bool
        Whether to compute what the figures need: coordinates of the cells for every method,
        and the paper's method with other radii (both for the first seed only).

    Examples
    --------
    >>> from ksparse.compare import Plan
    >>> plan = Plan(["scsim1"], ["pca", "ksparse"], ["log1p"], replicates=3)
    >>> len(plan.runs())
    6
    """

    data: Sequence[str]
    methods: Sequence[str] = tuple(METHODS)
    preparations: Sequence[str] = PREPARATIONS
    replicates: int = 5
    label_column: str = "label"
    time_limit: float = 1800.0
    figures: bool = True

    def check(self) -> None:
        """Raise InputError if the plan names unknown data, methods or preparations."""
        for name, given, known in (
            ("methods", self.methods, tuple(METHODS)),
            ("preparations", self.preparations, PREPARATIONS),
        ):
            unknown = [item for item in given if item not in known]
            if unknown or not given:
                item = repr(unknown[0]) if unknown else "nothing"
                raise InputError(Term(name), f" contains {item}; choose from {', '.join(known)}.")
        check_integer("replicates", self.replicates, 1)
        if not self.time_limit > 0:
            raise InputError(
                Term("time_limit", self.time_limit), " must be a number of seconds > 0."
            )
        if not self.data:
            raise InputError(Term("data"), " contains nothing; give files or names.")
        stems: dict[str, str] = {}
        for data in dict.fromkeys(self.data):
            other = stems.setdefault(Path(data).stem, data)
            if other != data:
                raise InputError(
                    Term("data"),
                    f" has {other} and {data}, which could not be told apart: rename one.",
                )
        names = (*SIMULATIONS, *PUBLISHED)
        for data in self.data:
            if data not in names and not Path(data).exists():
                raise FileNotFoundError(
                    f"{data} does not exist; give files, or {', '.join(names)}."
                )

    def runs(self) -> list[dict[str, Any]]:
        """Return every run, except those with other radii."""
        return [
            {"data": data, "preparation": preparation, "method": method, "seed": seed,
             "label_column": "label" if data in PUBLISHED else self.label_column}
            for data in dict.fromkeys(self.data)
            for preparation in dict.fromkeys(self.preparations)
            for method in dict.fromkeys(self.methods)
            for seed in range(self.replicates)
        ]  # fmt: skip

    def sweep(self, done: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Yield runs of the paper's method with other radii than those of finished runs."""
        if not self.figures:
            return
        for run in done:
            if run["method"] == SWEPT and run["seed"] == 0 and "failed" not in run:
                base = ETAS.get(paper_name(run["data"]) or "", run["eta"])
                plain = {name: run[name] for name in self.runs()[0]}
                yield from (plain | {"asked_eta": base * factor} for factor in FACTORS)


def compare(plan: Plan, folder: Path, *, verbose: int = 0) -> list[dict[str, Any]]:
    """Do all runs of a plan that are not recorded yet, each in a new process.

    A run that fails or takes too long is recorded as failed, and the others are done.

    Parameters
    ----------
    plan : Plan
        Data, methods and settings.
    folder : Path
        The folder in which runs are recorded. Runs that are recorded there are not repeated,
        unless they failed.
    verbose : int
        1 shows a progress bar on a terminal.

    Returns
    -------
    list of dict
        The runs with their scores, or with "failed" and the reason. Runs with another radius
        than the usual one have it as "asked_eta".

    Examples
    --------
    >>> from pathlib import Path
    >>> from ksparse.compare import Plan, compare
    >>> results = compare(Plan(["scsim1"]), Path("runs"))  # doctest: +SKIP
    """
    plan.check()
    for data in dict.fromkeys(plan.data):  # a wrong column would fail in every single run
        if data not in SIMULATIONS and data not in PUBLISHED:
            load(data, plan.label_column, 0)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with claimed(folder / LOCK, str(folder)):
        return _all_runs(plan, folder, verbose)


def _all_runs(plan: Plan, folder: Path, verbose: int) -> list[dict[str, Any]]:
    places = {}
    for name in dict.fromkeys(plan.data):
        if name in PUBLISHED:
            places[name] = folder / f"{name}.h5ad"
            if not places[name].exists():
                store_published(name, places[name], verbose=verbose)
    runs = plan.runs()
    n_sweep = len(FACTORS) * sum(r["method"] == SWEPT and r["seed"] == 0 for r in runs)
    with progress_bar(len(runs) + n_sweep * plan.figures, "compare", verbose) as bar:

        def do(run: dict[str, Any]) -> dict[str, Any]:
            name = visible(Path(run["data"]).stem)
            bar.set_postfix_str(f"{name} {run['preparation']} {run['method']}")
            done = _recorded_or_run(run, plan, folder, places.get(run["data"]))
            bar.update()
            return done

        results = [do(run) for run in runs]
        results += [do(run) for run in plan.sweep(results)]
    return results


def is_sweep(run: dict[str, Any]) -> bool:
    """Return whether a run has another radius than the usual one."""
    return "asked_eta" in run


def picture_of(run: dict[str, Any], folder: Path) -> Path:
    """Return the path of the coordinates of a run."""
    return folder / f"{_key(run)}.npz"


def _recorded_or_run(
    run: dict[str, Any], plan: Plan, folder: Path, place: Path | None
) -> dict[str, Any]:
    """Return the record of a run; do it first if there is none, or if it failed."""
    path = folder / f"{_key(run)}.json"
    done = _recorded(path)
    picture = picture_of(run, folder)
    wanted = plan.figures and run["seed"] == 0 and not is_sweep(run)
    if done is None or "failed" in done or (wanted and not picture.exists()):
        asked = run | ({} if place is None else {"file": str(place)})
        asked |= {"picture": str(picture)} if wanted else {}
        done = run | _run_in_process(asked, plan.time_limit)
        with new_file(path) as temporary:
            temporary.write_text(json.dumps(done, indent=1), encoding="utf-8")
    return done


def _key(run: dict[str, Any]) -> str:
    """Return a file name for a run; it changes if the data file changes."""
    names = ("data", "preparation", "method", "seed", "label_column", "asked_eta")
    marks = {name: run[name] for name in names if name in run}
    marks["version"] = version("ksparse")
    path = Path(run["data"])
    files = sorted(path.rglob("*")) if path.is_dir() else [path] if path.is_file() else []
    marks["files"] = [
        (str(file.relative_to(path)), file.stat().st_size, file.stat().st_mtime_ns)
        for file in files
    ]
    text = json.dumps(marks, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    return f"{path.stem}-{run['preparation']}-{run['method']}-{run['seed']}-{digest}"


def _recorded(path: Path) -> dict[str, Any] | None:
    """Return a record, or None if there is none that can be read."""
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError):
        return None


def _run_in_process(run: dict[str, Any], time_limit: float) -> dict[str, Any]:
    """Do a run in a new process; return its measurements, or "failed" and the reason."""
    with safe_children():
        process = subprocess.Popen(
            [sys.executable, "-m", "ksparse.compare._cell"], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
    try:
        out, error = _converse(process, json.dumps(run), time_limit)
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
    try:
        return dict(json.loads(out))
    except ValueError:
        return {"failed": "its process gave no answer that can be read"}


def _converse(process: subprocess.Popen[str], line: str, time_limit: float) -> tuple[str, str]:
    """Send a line to a process; return what it writes to its output and as errors.

    Its standard input stays open until it has ended: if this process is killed, it ends, too.
    """
    stdin, process.stdin = process.stdin, None  # which communicate() would close
    assert stdin is not None
    with suppress(BrokenPipeError):  # it has ended, and says why
        print(line, file=stdin, flush=True)
    try:
        return process.communicate(timeout=time_limit)
    finally:
        with suppress(BrokenPipeError):
            stdin.close()
