"""The comparison: every run recorded, kept, and told in a table."""

from __future__ import annotations

import functools
import json
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from conftest import thorough_params
from ksparse.cli import main
from ksparse.compare import METHODS, Plan, compare, write_summary
from ksparse.compare import _run as running
from ksparse.compare._cell import measure
from ksparse.compare._data import load, prepared
from ksparse.compare._methods import Task, run_method
from ksparse.compare._pages import markdown
from ksparse.compare._paper import PAPER, paper_name
from ksparse.compare._tables import sections
from ksparse.normalise import counts_per_million, log_normalise

pytest.importorskip("anndata")


@pytest.fixture(scope="module")
def cells(simulated, tmp_path_factory):
    path = tmp_path_factory.mktemp("compare") / "cells.h5ad"
    simulated.write_h5ad(path)
    return path


@pytest.fixture(scope="module", params=thorough_params([1], [2]))
def done(request, cells, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    plan = Plan([str(cells)], ["pca", "ksparse"], ["log1p"], request.param, figures=False)
    return plan, folder, compare(plan, folder)


def in_this_process(run, time_limit):
    """Do a run here; a process of its own takes seconds to start."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return json.loads(json.dumps(measure(run)))


PROCESSES = thorough_params(["this process"], ["processes of their own"])


@pytest.fixture(params=PROCESSES)
def processes(request, monkeypatch):
    if request.param == "this process":
        monkeypatch.setattr(running, "_run_in_process", in_this_process)


@pytest.fixture(scope="module", params=PROCESSES)
def drawn(request, cells, tmp_path_factory):
    """Two methods with all that figures need."""
    folder = tmp_path_factory.mktemp("drawn")
    patch = pytest.MonkeyPatch()
    if request.param == "this process":
        patch.setattr(running, "_run_in_process", in_this_process)
    patch.setattr(running, "FACTORS", (1 / 8, 2.0))
    results = compare(Plan([str(cells)], ["pca", "ksparse-paper"], ["log1p"], 2), folder)
    patch.undo()
    return folder, results


def test_every_run_is_scored_and_recorded(done):
    plan, folder, results = done
    assert len(results) == 2 * plan.replicates == len(list(folder.iterdir()))
    for result in results:
        assert 0.8 < result["accuracy"] <= 1
        assert result["seconds"] > 0
        assert 50 < result["peak_mb"] < 5000
        assert (result["k"], result["n_samples"], result["n_genes"]) == (3, 240, 300)
        if result["method"] == "ksparse":
            assert result["n_features"] < 300
            assert result["precision"] > 0.5
        else:
            assert "n_features" not in result


def test_a_run_in_a_process_of_its_own_gives_what_this_one_gives(done):
    _, _, results = done
    run = next(r for r in results if r["method"] == "ksparse")
    here = measure({name: run[name] for name in
                    ("data", "preparation", "method", "seed", "label_column")})  # fmt: skip
    for name in ("accuracy", "ari", "nmi", "n_features", "precision"):
        assert here[name] == pytest.approx(run[name])


def test_figures_need_coordinates_and_other_radii_of_the_first_seed(drawn):
    folder, results = drawn
    swept = [run for run in results if "asked_eta" in run]
    base = next(r for r in results if r["method"] == "ksparse-paper" and r["seed"] == 0)
    assert [run["asked_eta"] for run in swept] == [base["eta"] / 8, base["eta"] * 2]
    assert all(run["eta"] == run["asked_eta"] and run["seed"] == 0 for run in swept)
    assert swept[0]["n_features"] < base["n_features"] <= 75  # a quarter of 300
    assert len(base["cost"]) == 10
    assert np.all(np.diff(base["cost"]) < 0)
    pictures = sorted(folder.glob("*.npz"))
    assert len(pictures) == 2
    with np.load(pictures[0], allow_pickle=False) as picture:
        assert picture["points"].shape == (240, 2)
        assert picture["right"].mean() == pytest.approx(base["accuracy"])
        assert list(picture["names"]) == ["type 0", "type 1", "type 2"]


def test_the_summary_has_tables_and_figures_as_markdown_and_html(drawn, tmp_path):
    folder, results = drawn
    text = write_summary(results, folder, tmp_path, command="ksparse compare <me>")
    assert "### cells: log1p" in text
    page = (tmp_path / "summary.md").read_text()
    links = re.findall(r"\]\((figures/[^)]+)\)", page)
    assert links == ["figures/decay.png", "figures/cells-radius.png",
                     "figures/cells-log1p-tsne.png"]  # fmt: skip
    for link in links:
        assert (tmp_path / link).read_bytes().startswith(b"\x89PNG")
    html = (tmp_path / "summary.html").read_text()
    assert html.count("data:image/png;base64,") == 3
    assert "<code>ksparse compare &lt;me&gt;</code>" in html
    assert "http" not in html.replace("http-equiv", "")  # one file that loads nothing
    assert "<script" not in html


def test_other_radii_do_not_count_in_the_tables(drawn):
    _, results = drawn
    usual = [run for run in results if "asked_eta" not in run]
    assert markdown(sections(results)) == markdown(sections(usual))


# The large variant of SIMLR is compiled for half a minute, and has tests of its own.
@pytest.mark.parametrize(
    ("method", "preparation", "neighbours"),
    thorough_params(
        [(name, "log1p", "gauss") for name in METHODS if name != "simlr-large"],
        [("scanpy", "log1p", "umap"), ("scanpy", "raw", "umap"), ("simlr-large", "log1p", "-")],
    ),
)
def test_every_method_finds_clusters_and_coordinates(
    simulated, method, preparation, neighbours, monkeypatch
):
    if method == "scanpy":
        pytest.importorskip("igraph")
        sc = pytest.importorskip("scanpy")
        # The weights of neighbours are those of UMAP, which is compiled when it is imported.
        weigh = functools.partial(sc.pp.neighbors, method=neighbours)
        monkeypatch.setattr(sc.pp, "neighbors", weigh)
    truth = simulated.obs["label"].to_numpy()
    task = Task(prepared(simulated.X, preparation), 3, 0, "mine", preparation)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = run_method(method, task)
        embedding = np.asarray(found.embedding())
    assert found.labels.shape == truth.shape
    assert len(np.unique(found.labels)) == 3
    assert embedding.shape[0] == 240
    assert np.isfinite(embedding).all()
    if found.selected is not None:
        assert found.selected.shape == (300,)


@pytest.mark.thorough
def test_a_data_set_with_one_class_is_refused(simulated, tmp_path):
    alone = simulated[simulated.obs["label"] == simulated.obs["label"].iloc[0]].copy()
    alone.write_h5ad(tmp_path / "alone.h5ad")
    (result,) = compare(Plan([str(tmp_path / "alone.h5ad")], ["pca"], ["raw"], 1), tmp_path)
    assert "has 1 class in 'label': give 2 or more" in result["failed"]


def test_what_is_done_is_not_done_again(done):
    plan, folder, results = done
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    again = compare(plan, folder)
    assert again == results
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_what_failed_is_tried_again(processes, cells, tmp_path):
    plan = Plan([str(cells)], ["pca"], ["raw"], 1, figures=False)
    compare(plan, tmp_path)
    (record,) = tmp_path.iterdir()
    record.write_text(json.dumps(json.loads(record.read_text()) | {"failed": "the disk was full"}))
    (result,) = compare(plan, tmp_path)
    assert "failed" not in result


def test_a_damaged_record_is_made_anew(processes, cells, tmp_path):
    plan = Plan([str(cells)], ["pca"], ["log1p"], 1, figures=False)
    compare(plan, tmp_path)
    (record,) = tmp_path.iterdir()
    record.write_text("{half")
    (result,) = compare(plan, tmp_path)
    assert result["accuracy"] > 0.5
    assert json.loads(record.read_text()) == result


def test_a_run_that_takes_too_long_is_told_and_the_rest_goes_on(cells, tmp_path):
    results = compare(Plan([str(cells)], ["pca"], ["raw", "cpm"], 1, time_limit=0.05), tmp_path)
    assert [r["failed"] for r in results] == ["took more than 0.05 s"] * 2
    text = write_summary(results, tmp_path, tmp_path)
    assert text.count("Not done: pca, seed 0: took more than 0.05 s") == 2
    assert "](figures/" not in (tmp_path / "summary.md").read_text()


def test_the_table_has_means_spreads_and_the_papers_figures():
    runs = [
        {"data": "scsim1", "preparation": "raw", "method": "pca", "seed": seed, "accuracy": value,
         "ari": value, "nmi": value, "seconds": 1.0, "peak_mb": 100.0, "k": 4, "n_samples": 600,
         "n_genes": 5000}
        for seed, value in enumerate((0.6, 0.7))
    ]  # fmt: skip
    runs += [{"data": "scsim1", "preparation": "raw", "method": "simlr", "seed": seed,
              "failed": "bad | <b>\nthing"} for seed in (0, 1)]  # fmt: skip
    runs.append(runs[0] | {"method": "scanpy", "accuracy": 0.9, "n_clusters_found": 5})
    text = markdown(sections(runs))
    assert "## Simulation 1\n\n4 clusters, 600 cells, 5,000 genes." in text
    assert "|  | pca | simlr | scanpy |" in text
    assert "| Accuracy (%) | 65.0 ± 5.0 | - | **90.0** |" in text
    assert "| in the paper | 62.33 | 97.33 | - |" in text
    assert "| NMI | **0.65 ± 0.05** | - | 0.60 |" in text
    assert "| Time (s) | 1.0 ± 0.0 | - | 1.0 |" in text
    assert "| Runs | 2 of 2 | 0 of 2 | 1 of 1 |" in text
    assert "- Not done: simlr, seed 0, 1: bad \\| &lt;b> thing" in text
    assert "- scanpy, seed 0: found 5 clusters, not 4." in text


def test_the_papers_tables_of_large_data():
    runs = [
        {"data": "klein", "preparation": "cpm", "method": method, "seed": 0, "accuracy": 0.9,
         "ari": ari, "nmi": 0.9, "seconds": seconds, "k": 4, "n_samples": 2717, "n_genes": 10322}
        for method, ari, seconds in (("simlr", 0.98, 300.0), ("simlr-large", 0.6, 5.0),
                                     ("ksparse-paper", 0.99, 80.0))
    ]  # fmt: skip
    text = markdown(sections(runs))
    assert "| Klein | cpm | 98.0 | 60.0 | 99.0 |" in text
    assert "| Klein | in the paper | 98.34 | 61.49 | 98.77 |" in text
    assert "| Klein | in the paper | 511 | 8.64 | 97.1 |" in text


def test_names_of_files_stand_for_the_papers_data():
    assert paper_name("/x/zeisel_3005x4000.h5ad") == "zeisel"
    assert paper_name("mine.h5ad") is None
    assert paper_name("/home/klein/pbmc.h5ad") is None
    assert paper_name("scsim10.h5ad") is None
    assert paper_name("scsim1_seed1.h5ad") == "scsim1"
    assert set(PAPER) == {"scsim1", "scsim2", "usoskin", "klein", "zeisel"}
    assert all(set(rows) <= set(METHODS) for rows in PAPER.values())


def test_two_files_of_one_name_are_refused(simulated, tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        simulated.write_h5ad(tmp_path / folder / "cells.h5ad")
    files = [str(tmp_path / folder / "cells.h5ad") for folder in ("a", "b")]
    with pytest.raises(ValueError, match="could not be told apart: rename one"):
        Plan(files).check()
    Plan([files[0], files[0]]).check()


@pytest.mark.filterwarnings("ignore:Writing zarr v2 data")
def test_data_that_changed_are_run_again(simulated, tmp_path):
    path = tmp_path / "cells.zarr"
    simulated.write_zarr(path)
    run = Plan([str(path)], figures=False).runs()[0]
    before = running._key(run)
    assert running._key(run) == before
    (path / "more").write_text("changed")
    assert running._key(run) != before


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
@pytest.mark.parametrize("size", thorough_params([], [10**8, 5 * 10**7]))
def test_memory_is_that_of_the_run_itself(size):
    """Importing the libraries alone takes some 300 MB: compare with what the child has."""
    program = (
        "from ksparse.compare._cell import peak_bytes; import pathlib, resource;"
        "pages = int(pathlib.Path('/proc/self/statm').read_text().split()[1]);"
        "print(pages * resource.getpagesize(), peak_bytes())"
    )
    large = np.ones(size)  # memory that the child must not be charged for
    n_bytes = large.nbytes
    del large
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    now, peak = map(int, out.stdout.split())
    assert 0.99 * now <= peak < now + n_bytes / 2


def test_memory_is_not_told_where_it_is_not_known(done, monkeypatch):
    """As on Windows, which has neither `resource` nor /proc."""
    import builtins
    import importlib

    from ksparse.compare import _cell

    imported = builtins.__import__

    def without_resource(name, *given, **more):
        if name == "resource":
            raise ImportError(name)
        return imported(name, *given, **more)

    exists = Path.exists
    try:
        with monkeypatch.context() as patch:
            patch.delitem(sys.modules, "resource", raising=False)
            patch.setattr(builtins, "__import__", without_resource)
            importlib.reload(_cell)
        monkeypatch.setattr(
            Path, "exists", lambda path: path != Path("/proc/self/status") and exists(path)
        )
        assert _cell.peak_bytes() is None
        run = done[2][0]
        names = ("data", "preparation", "method", "seed", "label_column")
        result = _cell.measure({name: run[name] for name in names})
    finally:
        monkeypatch.undo()
        importlib.reload(_cell)
    assert result["peak_mb"] is None
    assert result["accuracy"] == run["accuracy"]
    assert "Peak memory" not in markdown(sections([run | result]))
    assert "Peak memory" in markdown(sections([run]))
    assert _cell.peak_bytes() > 0


def test_simulations_are_others_for_each_seed():
    one, truth, markers = load("scsim1", "label", 0)
    other, _, _ = load("scsim1", "label", 1)
    assert one.shape == (600, 5000)
    assert len(np.unique(truth)) == 4
    assert markers.sum() == 650
    assert abs(one - other).sum() > 0


def test_preparations(simulated):
    X = simulated.X
    assert abs(prepared(X, "raw") - X).sum() == 0
    np.testing.assert_allclose(prepared(X, "cpm").sum(axis=1), 1e6, rtol=1e-4)
    assert abs(prepared(X, "cpm") - counts_per_million(X)).sum() == 0
    assert abs(prepared(X, "log1p") - log_normalise(X)).sum() == 0


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"methods": ["magic"]}, "methods contains 'magic'; choose from pca"),
        ({"methods": []}, "methods contains nothing"),
        ({"preparations": ["log2"]}, "preparations contains 'log2'"),
        ({"replicates": 0}, "replicates=0"),
        ({"time_limit": 0}, "time_limit=0"),
    ],
)
def test_plans_that_cannot_be_are_refused(options, part, tmp_path):
    with pytest.raises(ValueError, match=part):
        compare(Plan(["scsim1"], **options), tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_command_writes_a_summary_and_goes_on_where_it_was(processes, cells, tmp_path, capsys):
    words = ["compare", str(cells), "--methods", "pca,ksparse", "--preparations", "log1p"]
    words += ["--replicates", "1", "-o", str(tmp_path / "out")]
    assert main(words) == 0
    text = capsys.readouterr().out
    assert "| pca | ksparse |" in text
    assert f"Summary: {tmp_path / 'out' / 'summary.html'}" in text
    assert (tmp_path / "out" / "summary.html").is_file()
    summary = (tmp_path / "out" / "summary.md").read_text()
    assert "--methods pca,ksparse --preparations log1p --replicates 1 -o " in summary
    assert "](figures/cells-log1p-tsne.png)" in summary
    assert main(words) == 0
    assert (tmp_path / "out" / "summary.md").read_text() == summary  # seconds, too: kept


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["compare", "gone.h5ad"], "gone.h5ad does not exist; give files, or scsim1, scsim2"),
        (["compare", "scsim1", "--methods", "magic"], "methods contains 'magic'"),
        (["compare", "scsim1", "--replicates", "0"], "0 is not in the range"),
    ],
)
def test_bad_use_is_one_line(words, part, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    error = capsys.readouterr().err
    assert part in error
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_wrong_column_is_told_before_anything_is_run(cells, tmp_path, capsys):
    words = ["compare", str(cells), "--label-column", "nothing", "-o", str(tmp_path / "out")]
    assert main(words) == 2
    error = capsys.readouterr().err
    assert "'nothing'" in error
    assert "'label'" in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_any_name_of_a_file_reaches_the_summary(cells, tmp_path, monkeypatch, capsys):
    import os
    import shlex

    monkeypatch.setattr(running, "_run_in_process", in_this_process)
    monkeypatch.chdir(tmp_path)
    name = os.fsdecode(b"-$^ \xff \x1b[2J<i>.h5ad")
    (tmp_path / name).write_bytes(cells.read_bytes())
    words = ["--methods", "ksparse-paper", "--preparations", "raw", "--replicates", "1"]
    monkeypatch.setattr(running, "FACTORS", (2.0,))
    assert main(["compare", *words, "-o", "out", "--", name]) == 0
    assert "\x1b" not in capsys.readouterr().out
    summary = (tmp_path / "out" / "summary.md").read_bytes()
    line = next(line for line in summary.splitlines() if line.startswith(b"Made by `"))
    assert shlex.split(line[9:-2].decode())[-4:-1] == ["-o", "out", "--"]
    assert b"<i>" not in (tmp_path / "out" / "summary.html").read_bytes()
    assert len(list((tmp_path / "out" / "figures").iterdir())) == 3


def test_the_command_in_the_summary_has_every_option(cells, tmp_path, monkeypatch, capsys):
    import shlex

    monkeypatch.setattr(running, "_run_in_process", lambda *given: {"failed": "on purpose"})
    words = ["compare", str(cells), "--methods", "pca", "--preparations", "raw", "--replicates",
             "2", "--label-column", "label2", "--time-limit", "9.5", "--no-figures", "-o",
             str(tmp_path / "out")]  # fmt: skip
    monkeypatch.setattr(running, "load", lambda *given: None)
    assert main(words) == 0
    text = (tmp_path / "out" / "summary.md").read_text()
    assert f"Made by `ksparse {shlex.join(words)}`." in text
