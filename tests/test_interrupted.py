"""Runs that are stopped, killed, or meet a full disk: nothing partial, nothing lost."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("anndata")
if not hasattr(os, "fork"):
    pytest.skip("there is no fork here", allow_module_level=True)

import ksparse as ks
from conftest import crossed, seeds, thorough_params
from ksparse.cli import main

RESULTS = ["clusters.csv", "genes.csv", "report.html", "result.h5ad", "run.json"]


def run(*words):
    return main([str(word) for word in words])


def names(folder):
    return sorted(path.name for path in folder.rglob("*"))


@pytest.fixture(scope="module")
def cells(simulated, tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "cells.h5ad"
    simulated.write_h5ad(path)
    return path


pytestmark = pytest.mark.usefixtures("interruptible")


@pytest.mark.parametrize(
    ("names", "count"),
    thorough_params(
        [("SIGINT,SIGTERM,SIGKILL", 6)],
        [("SIGINT,SIGTERM,SIGKILL", 12), ("SIGINT", 50), ("SIGTERM", 50), ("SIGKILL", 50)],
    ),
)
@pytest.mark.thorough
def test_random_moments(names, count):
    # One thread of OpenMP: its threads do not survive the fork by which the runs are started.
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    program = Path(__file__).with_name("interrupting.py")
    words = [sys.executable, program, names, str(count), "1"]
    done = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=500)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["wrong"] == []
    # Most are stopped before they end.
    codes = {"SIGINT": "130", "SIGTERM": "143", "SIGKILL": "-9"}
    stopped = [found["codes"].get(codes[name], 0) for name in names.split(",")]
    assert sum(stopped) >= count // 2
    assert min(stopped) >= 1
    assert sum(found["codes"].values()) == count


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("seed", seeds(1, 3))
@pytest.mark.thorough
def test_a_process_is_stopped_while_it_starts(cells, tmp_path, number, code, seed):
    words = [sys.executable, "-m", "ksparse", "run", str(cells), "-k", "3", "--genes", "5"]
    process = subprocess.Popen([*words, "-o", str(tmp_path / "out")], stderr=subprocess.PIPE)
    time.sleep(np.random.default_rng([seed, code]).uniform(0.05, 2.0))
    process.send_signal(number)
    error = process.communicate(timeout=60)[1].decode()
    # Before our first line is reached, Python ends as it always does: by the signal.
    assert process.returncode in (code, -number)
    if process.returncode == code:
        assert error.strip() == f"ksparse: {'interrupted' if code == 130 else 'terminated'}"
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("number", "where"),
    crossed(
        [signal.SIGINT, signal.SIGTERM],
        ["ksparse.fitting.fit_prepared", "ksparse.cli._jobs.write_json"],
    ),
)
def test_a_signal_is_not_lost_where_its_exception_is(
    cells, tmp_path, monkeypatch, capsys, number, where
):
    code = 128 + number
    # Libraries have finalizers, callbacks and bare excepts that swallow any exception.
    module, name = where.rsplit(".", 1)
    real = getattr(importlib.import_module(module), name)

    def swallow(*values, **options):
        with suppress(BaseException):
            signal.raise_signal(number)
        return real(*values, **options)

    monkeypatch.setattr(where, swallow)
    assert run("run", cells, "-k", "3", "--genes", "5", "-o", tmp_path / "out") == code
    word = "interrupted" if code == 130 else "terminated"
    assert capsys.readouterr().err.strip() == f"ksparse: {word}"
    assert names(tmp_path) == []
    monkeypatch.undo()
    assert run("run", cells, "-k", "3", "--genes", "5", "-o", tmp_path / "out") == 0


@pytest.mark.thorough
def test_an_interrupt_that_is_ignored_in_the_background_stays_ignored(cells, tmp_path):
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # what a process inherits from such a shell
    words = [sys.executable, "-m", "ksparse", "run", str(cells), "-k", "3", "--genes", "5"]
    process = subprocess.Popen([*words, "-o", str(tmp_path / "out")])
    while process.poll() is None:
        process.send_signal(signal.SIGINT)
        time.sleep(0.05)
    assert process.returncode == 0
    assert names(tmp_path / "out") == RESULTS


# Places that cannot be written to ---------------------------------------------------------


@contextmanager
def small_disk(folder, size="300k"):
    """A disk of its own, which only root can make."""
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(words, capture_output=True).returncode:
        pytest.skip("a small disk cannot be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


def told(capsys, part):
    error = capsys.readouterr().err
    lines = [line for line in error.splitlines() if "warning" not in line]
    assert len(lines) == 1, error
    assert lines[0].startswith("ksparse: ")
    assert part in lines[0]


def test_a_full_disk_keeps_older_results(cells, tmp_path, capsys):
    with small_disk(tmp_path / "disk", "2m") as disk:
        out = disk / "out"
        assert run("run", cells, "-k", 3, "--genes", 5, "-o", out) == 0
        before = {name: (out / name).read_bytes() for name in RESULTS}
        free = shutil.disk_usage(disk).free
        (disk / "other").write_bytes(b"x" * max(0, free - 40_000))
        capsys.readouterr()
        assert run("run", cells, "-k", 2, "--genes", 5, "-o", out, "--force") == 2
        told(capsys, "no space left on the disk; nothing was written")
        assert {path.name: path.read_bytes() for path in out.iterdir()} == before


@pytest.mark.parametrize("command", ["model", "simulate", "report", "checkpoint"])
def test_a_full_disk_stops_other_files_too(cells, clustered, tmp_path, capsys, command):
    X = np.random.default_rng(0).normal(size=(60, 3000))
    model = ks.KSparse(2, n_features=2, init=np.arange(60) % 2, random_state=0)
    with small_disk(tmp_path / "disk", "20k") as disk:
        if command == "simulate":
            assert run("simulate", "-o", disk / "a.h5ad") == 2
            told(capsys, "no space left")
        elif command == "report":
            clustered.write_h5ad(tmp_path / "result.h5ad")
            assert run("report", tmp_path / "result.h5ad", "-o", disk / "a.html") == 2
            told(capsys, "no space left")
        elif command == "model":
            model.fit(X)
            model.weights_ = np.random.default_rng(0).normal(size=model.weights_.shape)
            with pytest.raises(OSError, match="No space left"):
                model.save(disk / "a.ksparse")
        else:
            with pytest.raises(OSError, match="No space left"):
                model.set_params(checkpoint=disk / "steps").fit(X)
            assert all(name.endswith((".npz", "run.json", "steps")) for name in names(disk))
            assert not [name for name in names(disk) if name.startswith(".")]
            words = ["run", cells, "-k", 3, "--genes", 5, "--checkpoint", disk / "more"]
            assert run(*words, "-o", tmp_path / "out") == 2
            told(capsys, f"no results were written. Finished steps are kept in {disk / 'more'}.")
            return
        assert names(disk) == []


def test_a_full_disk_keeps_the_runs_and_the_older_summary_of_a_comparison(
    cells, tmp_path, monkeypatch, capsys
):
    from ksparse.compare import _run as running

    monkeypatch.setattr(running, "_run_in_process", lambda *given: {"failed": "on purpose"})
    words = ["compare", cells, "--methods", "pca", "--preparations", "raw", "--replicates", 1]
    with small_disk(tmp_path / "disk", "200k") as disk:
        words += ["--no-figures", "-o", disk / "out"]
        assert run(*words) == 0
        before = {path: path.read_bytes() for path in disk.rglob("*") if path.is_file()}
        (disk / "other").write_bytes(b"x" * (shutil.disk_usage(disk).free - 12_000))
        capsys.readouterr()
        monkeypatch.setattr(running, "_recorded", lambda path: {"failed": "x"} | running.Plan(
            [str(cells)], ["pca"], ["raw"], 1).runs()[0])  # fmt: skip
        monkeypatch.setattr("ksparse.compare._pages.TITLE", "Another " + "word " * 5000)
        assert run(*words) == 2
        kept = f"there is no new summary. Runs that are done are kept in {disk / 'out' / 'runs'}."
        told(capsys, f"no space left on the disk; {kept}")
        assert (disk / "other").exists()
        after = {path: path.read_bytes() for path in before}
        assert after == before
        assert names(disk / "out") == sorted(["runs", *(path.name for path in before)])


def test_a_folder_that_may_not_be_written_to(cells, clustered, tmp_path, capsys):
    with small_disk(tmp_path / "disk", "2m") as disk:
        (disk / "mine").write_text("mine")
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        assert run("run", cells, "-k", 3, "--genes", 5, "-o", disk / "out") == 2
        told(capsys, "Read-only file system")
        assert run("run", cells, "-k", 3, "--genes", 5, "-o", disk) == 2
        told(capsys, "Read-only file system")
        assert run("simulate", "-o", disk / "a.h5ad") == 2
        told(capsys, "Read-only file system")
        with pytest.raises(OSError, match="Read-only"):
            ks.load(Path(__file__).parent / "files" / "model_v1.ksparse").save(disk / "m")
        assert names(disk) == ["mine"]


def test_a_folder_without_permission():
    from ksparse.cli._outputs import new_folder
    from ksparse.io.files import new_file

    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    place = Path(tempfile.mkdtemp())
    place.chmod(0o755)
    try:
        os.seteuid(65534)
        with pytest.raises(PermissionError), new_file(place / "a.csv"):
            pytest.fail("written where it may not be")
        with pytest.raises(PermissionError), new_folder(place / "out", RESULTS, False):
            pytest.fail("written where it may not be")
    finally:
        os.seteuid(0)
    assert names(place) == []
    place.rmdir()


@pytest.mark.parametrize("command", ["run", "path", "choose-k"])
def test_a_file_in_the_place_of_the_folder(cells, tmp_path, capsys, command):
    place = tmp_path / "out"
    place.write_text("mine")
    words = {"run": ["-k", 3], "path": ["-k", 3], "choose-k": ["-k", "2-3"]}[command]
    assert run(command, cells, *words, "-o", place, "--force") == 2
    told(capsys, "out is a file: give a folder")
    assert run(command, cells, *words, "-o", place / "deeper") == 2
    told(capsys, "out")
    assert place.read_text() == "mine"


@pytest.mark.parametrize("kind", ["h5ad", "csv", "10x"])
def test_input_that_vanishes_while_it_is_read(
    cells, simulated, tmp_path, monkeypatch, capsys, kind
):
    import fuzzing
    from ksparse.readers import _hdf5, _table, _tenx_folder

    if kind == "h5ad":
        path = shutil.copy(cells, tmp_path / "a.h5ad")
        module, name, gone = _hdf5, "probe", path
    elif kind == "csv":
        path = tmp_path / "a.csv"
        simulated.to_df().to_csv(path)
        module, name, gone = _table, "_head", path
    else:
        path = tmp_path / "a"
        fuzzing._mtx(path)
        module, name, gone = _tenx_folder, "_names", path / "matrix.mtx"
    plain = getattr(module, name)

    def then_gone(*given, **options):
        try:
            return plain(*given, **options)
        finally:
            gone.unlink(missing_ok=True)

    monkeypatch.setattr(module, name, then_gone)
    assert run("run", path, "-k", 3, "--genes", 5, "-o", tmp_path / "out") == 2
    told(capsys, gone.name)
    assert not (tmp_path / "out").exists()
