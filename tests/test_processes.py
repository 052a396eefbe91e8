"""Processes: what they execute, when they end, and how two of them share a place."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import ksparse as ks
from conftest import make_clusters, thorough_params
from ksparse.cli import main
from ksparse.compare import _run as running
from ksparse.io.files import claimed

pytest.importorskip("anndata")


@pytest.fixture(scope="module")
def cells(simulated, tmp_path_factory):
    path = tmp_path_factory.mktemp("in") / "cells.h5ad"
    simulated.write_h5ad(path)
    return path


def run(*words):
    return main([str(word) for word in words])


def names(folder):
    return sorted(path.name for path in folder.rglob("*"))


def one_line(capsys):
    error = capsys.readouterr().err
    assert error.startswith("ksparse: ")
    assert error.count("\n") == 1, error
    return error


# Files in the current folder ---------------------------------------------------------------

# Modules that are imported by every command, by their children, or by libraries that start
# children. (Before `python -m` reaches us, it has itself imported contextlib and a few more.)
SHADOWED = ("anndata", "click", "h5py", "joblib", "json", "numba", "numpy", "pandas", "pickle",
            "scipy", "sitecustomize", "sklearn", "threadpoolctl", "typing", "usercustomize",
            "yaml")  # fmt: skip


@pytest.fixture
def hostile(tmp_path, monkeypatch):
    """The current folder has modules of well-known names, and settings of numba."""
    folder, marks = tmp_path / "here", tmp_path / "marks"
    folder.mkdir()
    marks.mkdir()
    for name in SHADOWED:
        mark = str(marks / name)
        (folder / f"{name}.py").write_text(f"open({mark!r}, 'w').close()\nraise SystemExit(9)\n")
    # What is in the cache of numba is executed.
    (folder / ".numba_config.yaml").write_text(f"cache_dir: {marks / 'numba_cache'}\n")
    monkeypatch.chdir(folder)
    for name in ("PYTHONSAFEPATH", "NUMBA_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    return marks


def test_such_a_file_would_be_executed(hostile):
    subprocess.run([sys.executable, "-c", "import numpy"], check=False)
    assert names(hostile) == ["numpy"]


@pytest.mark.parametrize(
    "words",
    thorough_params(
        [["simulate", "--cells", 20, "--genes", 30, "-k", 2]],
        [
            ["run", "CELLS", "-k", 3, "--genes", 5],
            ["choose-k", "CELLS", "-k", 2, "--genes", 5, "--jobs", 2],
            ["compare", "CELLS", "--methods", "pca", "--preparations", "raw", "--replicates", 1],
        ],
    ),
)
@pytest.mark.thorough
def test_a_command_executes_nothing_from_the_current_folder(hostile, cells, tmp_path, words):
    words = [str(cells if word == "CELLS" else word) for word in words]
    words += ["-o", str(tmp_path / "out.h5ad")]
    subprocess.run([sys.executable, "-m", "ksparse", *words], check=True, timeout=300)
    assert names(hostile) == []


@pytest.mark.thorough
def test_processes_of_a_comparison_execute_nothing_from_it(hostile, cells):
    run = {"data": str(cells), "preparation": "raw", "method": "pca", "seed": 0}
    done = running._run_in_process(run | {"label_column": "label"}, 300)
    assert "failed" not in done
    assert names(hostile) == []


LOOKS = """
import os, sys
from ksparse.selection.jobs import run_all
class Data:
    def check_shareable(self): pass
def path_of(data):
    return sys.path
if __name__ == "__main__":
    for path in run_all(path_of, [(Data(),)] * 2, 2):
        assert path == sys.path  # what is imported later comes from where it comes from here
    assert "PYTHONSAFEPATH" not in os.environ  # the user's own processes are not our business
"""


def test_workers_execute_nothing_from_it(hostile, tmp_path):
    (tmp_path / "program.py").write_text(LOOKS)
    subprocess.run([sys.executable, str(tmp_path / "program.py")], check=True, timeout=100)
    assert names(hostile) == []


# Processes whose parent is killed ----------------------------------------------------------

COMPARES = """
import sys, subprocess
from ksparse.compare import _run
class Loud(subprocess.Popen):
    def __init__(self, *given, **options):
        super().__init__(*given, **options)
        print(self.pid, flush=True)
subprocess.Popen = Loud
_run._run_in_process({"data": "slow", "label_column": "label", "seed": 0}, 300)
"""
# In the process of a run, data take a minute to load.
SLOW = """
import sys, time
if "ksparse.compare._cell" in sys.orig_argv:
    from ksparse.compare import _data
    _data.load = lambda *given: time.sleep(60)
"""
WORKS = """
import os, time
from ksparse.selection.jobs import run_all
class Data:
    def check_shareable(self): pass
def work(data):
    os.write(1, b"%d\\n" % os.getpid())
    time.sleep(60)
if __name__ == "__main__":
    list(run_all(work, [(Data(),)] * 8, 2))
"""


def runs(pid):
    """Whether a process is there, and is not one that has ended and that nobody asks for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
@pytest.mark.parametrize(("program", "count"), [(COMPARES, 1), (WORKS, 2)], ids=["run", "jobs"])
@pytest.mark.thorough
def test_children_end_when_their_parent_is_killed(tmp_path, program, count):
    (tmp_path / "program.py").write_text(program)
    (tmp_path / "sitecustomize.py").write_text(SLOW)
    places = [str(tmp_path), str(Path(ks.__file__).parents[1])]
    process = subprocess.Popen(
        [sys.executable, "program.py"], stdout=subprocess.PIPE, text=True, cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(places)},
    )  # fmt: skip
    children = [int(process.stdout.readline()) for _ in range(count)]
    try:
        assert all(runs(pid) for pid in children)
        process.kill()
        process.wait()
        end = time.monotonic() + 20
        while any(runs(pid) for pid in children) and time.monotonic() < end:
            time.sleep(0.05)
        assert not [pid for pid in children if runs(pid)]
    finally:
        process.stdout.close()
        for pid in children:
            if runs(pid):
                os.kill(pid, signal.SIGKILL)


def test_the_check_of_a_file_ends_with_the_process_that_asked(tmp_path):
    h5py = pytest.importorskip("h5py")
    from ksparse.readers import _probe

    path = tmp_path / "large.h5"
    with h5py.File(path, "w") as file:
        for i in range(200):
            group = file.create_group(str(i))
            for j in range(100):
                group.attrs[str(j)] = np.arange(50)
    process = subprocess.Popen([sys.executable, _probe.__file__], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)  # fmt: skip
    assert json.loads(process.stdout.readline()) == _probe.READY
    question = {"path": str(path), "kind": "hdf5", "cpu_seconds": 60, "bytes": 2**33}
    print(json.dumps(question), file=process.stdin, flush=True)
    process.stdin.close()
    process.wait(30)
    assert process.stdout.read() == ""  # without an answer, which takes longer
    process.stdout.close()


# Two processes, one place ------------------------------------------------------------------

HOLDS = """
import sys
from pathlib import Path
from ksparse.cli._outputs import new_folder, new_output
place = Path(sys.argv[2])
if sys.argv[1] == "folder":
    holding = new_folder(place, ["clusters.csv", "run.json"], False)
else:
    holding = new_output(place, False)
with holding as work:
    for path in [work / "clusters.csv", work / "run.json"] if work.is_dir() else [work]:
        path.write_text("of the other")
    print("ready", flush=True)
    sys.stdin.readline()
"""


def hold(kind, place):
    """Start a process that writes to a place, and waits for a line before it is done."""
    process = subprocess.Popen([sys.executable, "-c", HOLDS, kind, str(place)], text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip
    assert process.stdout.readline() == "ready\n"
    return process


def words_for(kind, cells, place):
    if kind == "folder":
        return ["run", cells, "-k", 3, "--genes", 5, "-o", place]
    return ["simulate", "--cells", 20, "--genes", 30, "-k", 2, "-o", place]


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_who_comes_second_is_told_at_once(kind, cells, tmp_path, capsys):
    place = tmp_path / "out.h5ad"
    other = hold(kind, place)
    for force in ([], ["--force"]):
        assert run(*words_for(kind, cells, place), *force) == 2
        assert f"{place} is in use by process {other.pid}: " in one_line(capsys)
    other.communicate("\n")
    assert other.returncode == 0
    written = place / "clusters.csv" if kind == "folder" else place
    assert written.read_text() == "of the other"
    assert names(tmp_path) == sorted(["out.h5ad", *(["clusters.csv", "run.json"] * place.is_dir())])
    assert run(*words_for(kind, cells, place)) == 2
    assert "exists: give --force" in one_line(capsys)


def test_a_process_that_is_killed_leaves_no_lock(tmp_path):
    for kind in ("folder", "file"):
        other = hold(kind, tmp_path / kind)
        other.kill()
        other.communicate()
        hold(kind, tmp_path / kind).communicate("\n")
    assert [name for name in names(tmp_path) if name.endswith(".lock")] == []
    assert {"file", "clusters.csv", "run.json"} <= set(names(tmp_path))


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_results_that_appear_during_a_run_are_kept(kind, cells, tmp_path, monkeypatch, capsys):
    """Of a program that takes no lock."""
    place = tmp_path / "out.h5ad"
    written = place / "genes.csv" if kind == "folder" else place
    module = "ksparse.cli._jobs" if kind == "folder" else "ksparse.cli._run"
    monkeypatch.setattr(f"{module}.write_h5ad", lambda *given: written.write_text("mine"))
    monkeypatch.setattr("ksparse.report.write_report", lambda *given, **options: None)
    assert run(*words_for(kind, cells, place)) == 2
    error = one_line(capsys)
    assert f"{written} exists: give --force" in error
    assert "Nothing was written" in error
    assert written.read_text() == "mine"
    assert names(tmp_path) == sorted({"out.h5ad", written.name})


@pytest.mark.parametrize("kind", thorough_params(["file"], ["folder"]))
@pytest.mark.thorough
def test_of_two_that_start_at_once_one_wins(kind, cells, tmp_path):
    place = tmp_path / "out.h5ad"
    words = [sys.executable, "-m", "ksparse", *map(str, words_for(kind, cells, place))]
    both = [subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            for _ in range(2)]  # fmt: skip
    errors = [process.communicate(timeout=300)[1] for process in both]
    assert sorted(process.returncode for process in both) == [0, 2]
    (error,) = filter(None, errors)
    assert error.startswith(f"ksparse: {place}")
    assert error.count("\n") == 1
    assert not [name for name in names(tmp_path) if name.startswith(".")]


def test_files_of_other_names_may_be_written_at_the_same_time(cells, tmp_path):
    other = hold("file", tmp_path / "one.h5ad")
    assert run(*words_for("file", cells, tmp_path / "two.h5ad")) == 0
    other.communicate("\n")
    assert names(tmp_path) == ["one.h5ad", "two.h5ad"]


def test_a_comparison_is_run_by_one_process(cells, tmp_path, monkeypatch):
    plan = ks.compare.Plan([str(cells)], ["pca"], ["raw"], 1, figures=False)

    def another(run, time_limit):
        with pytest.raises(ValueError, match=f"runs is in use by process {os.getpid()}: "):
            ks.compare.compare(plan, tmp_path / "runs")
        return {"failed": "on purpose"}

    monkeypatch.setattr(running, "_run_in_process", another)
    (done,) = ks.compare.compare(plan, tmp_path / "runs")
    assert done["failed"] == "on purpose"
    assert not (tmp_path / "runs" / ".ksparse.lock").exists()


def test_a_lock_follows_no_link(tmp_path):
    (tmp_path / "mine").write_text("mine")
    (tmp_path / ".lock").symlink_to(tmp_path / "mine")
    with pytest.raises(OSError), claimed(tmp_path / ".lock", "it"):
        pytest.fail("locked something else")
    assert (tmp_path / "mine").read_text() == "mine"


def test_where_there_are_no_locks_work_goes_on(tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")

    def flock(*given):
        raise OSError("no locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    with claimed(tmp_path / ".lock", "it"):
        assert names(tmp_path) == [".lock"]
    assert names(tmp_path) == []


# Checkpoints -------------------------------------------------------------------------------

FITS = """
import sys
import numpy as np
from ksparse import KSparse
from ksparse.io.checkpoint import Checkpoint
write = Checkpoint._write
def wait(self, file, arrays):
    if self.n_steps == 3:
        print("ready", flush=True)
        sys.stdin.readline()
    write(self, file, arrays)
Checkpoint._write = wait
model = KSparse(3, n_features=15, random_state=0, checkpoint=sys.argv[2]).fit(np.load(sys.argv[1]))
np.save(sys.argv[1], model.labels_)
"""


@pytest.mark.thorough
def test_a_checkpoint_is_used_by_one_process(tmp_path):
    X = make_clusters()[0]
    np.save(tmp_path / "X.npy", X)
    folder = tmp_path / "steps"
    other = subprocess.Popen([sys.executable, "-c", FITS, str(tmp_path / "X.npy"), str(folder)],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # fmt: skip
    assert other.stdout.readline() == "ready\n"
    half = folder / ".half.npz"
    half.write_bytes(b"what the other is writing")
    model = ks.KSparse(3, n_features=15, random_state=0, checkpoint=folder)
    with pytest.raises(ValueError, match=f"^checkpoint='.*' is in use by process {other.pid}: "):
        model.fit(X)
    assert half.exists()
    other.communicate("\n")
    assert other.returncode == 0
    np.testing.assert_array_equal(np.load(tmp_path / "X.npy"), model.fit(X).labels_)
    assert [name for name in names(folder) if name.startswith(".")] == []
