"""The comparison: every run recorded, kept, and told in a table."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ksparse.cli import main
from ksparse.compare import METHODS, Plan, compare, summarise
from ksparse.compare._cell import load, measure, prepared
from ksparse.compare._paper import PAPER, paper_name
from ksparse.normalise import log_normalise

pytest.importorskip("anndata")


@pytest.fixture(scope="module")
def cells(simulated, tmp_path_factory):
    path = tmp_path_factory.mktemp("compare") / "cells.h5ad"
    simulated.write_h5ad(path)
    return path


@pytest.fixture(scope="module")
def done(cells, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    plan = Plan([str(cells)], ["pca", "ksparse", "ksparse-paper"], ["cpm", "log1p"], 2)
    return plan, folder, compare(plan, folder)


def test_every_run_is_scored_and_recorded(done):
    _, folder, results = done
    assert len(results) == 3 * 2 * 2 == len(list(folder.iterdir()))
    for result in results:
        if result["method"] == "ksparse-paper":
            assert "gives no radius eta" in result["failed"]
            continue
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


def test_what_is_done_is_not_done_again(done):
    plan, folder, results = done
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    again = compare(plan, folder)
    assert again == results
    after = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {name for name in after if "ksparse-paper" in name}  # failed: tried again


def test_a_damaged_record_is_made_anew(cells, tmp_path):
    plan = Plan([str(cells)], ["pca"], ["log1p"], 1)
    compare(plan, tmp_path)
    (record,) = tmp_path.iterdir()
    record.write_text("{half")
    (result,) = compare(plan, tmp_path)
    assert result["accuracy"] > 0.5
    assert json.loads(record.read_text()) == result


def test_a_run_that_takes_too_long_is_told_and_the_rest_goes_on(cells, tmp_path):
    results = compare(Plan([str(cells)], ["pca"], ["raw", "cpm"], 1, time_limit=0.05), tmp_path)
    assert [r["failed"] for r in results] == ["took more than 0.05 s"] * 2
    assert "took more than 0.05 s" in summarise(results)


def test_the_table_has_means_spreads_and_the_papers_figures():
    runs = [
        {"data": "scsim1", "preparation": "raw", "method": "pca", "seed": seed, "accuracy": value,
         "ari": value, "nmi": value, "seconds": 1.0, "peak_mb": 100.0, "k": 4, "n_samples": 600,
         "n_genes": 5000}
        for seed, value in enumerate((0.6, 0.7))
    ]  # fmt: skip
    runs.append({"data": "scsim1", "preparation": "raw", "method": "simlr", "seed": 0,
                 "failed": "bad | <b>\nthing"})  # fmt: skip
    text = summarise(runs)
    assert "## scsim1, raw (4 clusters, 600 cells, 5,000 genes)" in text
    assert "| pca | 65.0 ± 5.0 | 65.0 ± 5.0 | 0.65 ± 0.05 | - | - | 1.0 ± 0.0 |" in text
    assert "2/2 | 62.33 / 37.21 / 0.5 / 0.36 |" in text
    assert "0/1" in text
    assert "- simlr, seed 0: bad \\| &lt;b> thing" in text


def test_names_of_files_stand_for_the_papers_data():
    assert paper_name("/x/zeisel_3005x4000.h5ad") == "zeisel"
    assert paper_name("mine.h5ad") is None
    assert set(PAPER) == {"scsim1", "scsim2", "usoskin", "klein", "zeisel"}
    assert all(set(rows) <= set(METHODS) for rows in PAPER.values())


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


def test_the_command_writes_a_summary_and_goes_on_where_it_was(cells, tmp_path, capsys):
    words = ["compare", str(cells), "--methods", "pca,ksparse", "--preparations", "log1p"]
    words += ["--replicates", "1", "-o", str(tmp_path / "out")]
    assert main(words) == 0
    text = capsys.readouterr().out
    assert "| ksparse |" in text
    assert f"Summary: {tmp_path / 'out' / 'summary.md'}" in text
    summary = (tmp_path / "out" / "summary.md").read_text()
    assert "| pca |" in summary
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
