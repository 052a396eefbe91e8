"""The command line: what it writes, says and refuses."""

from __future__ import annotations

import csv
import errno
import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import ksparse as ks
from conftest import thorough_params
from ksparse._errors import InputError, Term
from ksparse.cli import _jobs as jobs
from ksparse.cli import main
from ksparse.cli._words import shell_text
from ksparse.metrics import clustering_accuracy

anndata = pytest.importorskip("anndata")

RESULTS = ["clusters.csv", "genes.csv", "report.html", "result.h5ad", "run.json"]


@pytest.fixture(scope="module")
def cells(simulated, tmp_path_factory):
    path = tmp_path_factory.mktemp("in") / "cells.h5ad"
    adata = simulated.copy()
    adata.obs["number"] = np.arange(adata.n_obs) / 7
    adata.write_h5ad(path)
    return path


@pytest.fixture(scope="module")
def results(cells, tmp_path_factory):
    folder = tmp_path_factory.mktemp("out") / "new" / "folder"
    words = ["run", cells, "-k", 3, "--genes", 12, "-o", folder, "--label-column", "label"]
    assert run(*words, "--min-cells", 5) == 0
    return folder


def run(*words):
    return main([str(word) for word in words])


def table(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def one_line(capsys):
    error = capsys.readouterr().err
    assert error.startswith("ksparse: ")
    assert error.count("\n") == 1
    return error


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_run_writes_what_python_finds(results, simulated):
    assert names(results) == RESULTS
    adata = simulated.copy()
    adata.var["kept"] = np.asarray((adata.X != 0).sum(axis=0)).ravel() >= 5
    ks.tl.ksparse(adata, 3, n_features=12, normalize="log1p", mask_var="kept", random_state=0)
    ks.tl.rank_genes(adata)
    clusters = table(results / "clusters.csv")
    assert [row["cell"] for row in clusters] == adata.obs_names.tolist()
    assert [row["cluster"] for row in clusters] == adata.obs["ksparse"].tolist()
    assert [row["label"] for row in clusters] == adata.obs["label"].tolist()
    margins = [float(row["margin"]) for row in clusters]
    np.testing.assert_allclose(margins, adata.obs["ksparse_margin"], atol=1e-4)

    genes = table(results / "genes.csv")
    weights = adata.var["ksparse_weight"].sort_values(ascending=False, kind="stable")
    assert [row["gene"] for row in genes] == weights.index[:12].tolist()
    assert [int(row["rank"]) for row in genes] == list(range(1, 13))
    for row in genes:
        j = adata.var_names.get_loc(row["gene"])
        assert float(row["weight"]) == pytest.approx(adata.var["ksparse_weight"].iloc[j], rel=1e-4)
        for c in range(3):
            share = adata.varm["ksparse_contribution"][j, c]
            assert float(row[f"contribution_{c}"]) == pytest.approx(share, rel=1e-4)
            here = (adata.obs["ksparse"] == str(c)).to_numpy()
            values = ks.simulate.log_normalise(adata.X)[here][:, [j]].toarray()
            assert float(row[f"mean_{c}"]) == pytest.approx(values.mean(), rel=1e-4)
            assert float(row[f"fraction_{c}"]) == pytest.approx((values > 0).mean(), rel=1e-4)

    written = anndata.read_h5ad(results / "result.h5ad")
    assert written.obs["ksparse"].tolist() == adata.obs["ksparse"].tolist()
    assert abs(written.X - simulated.X).sum() == 0  # the data are as they were
    assert {"rank_genes_groups", "ksparse"} <= set(written.uns)
    assert "ksparse_tsne" in written.obsm


def test_run_json_tells_how_it_was_done(results, cells):
    import hashlib

    about = json.loads((results / "run.json").read_text(encoding="utf-8"))
    assert about["input"]["sha256"] == hashlib.sha256(cells.read_bytes()).hexdigest()
    assert about["input"]["path"] == str(cells)
    assert about["options"]["seed"] == 0
    assert about["parameters"]["n_clusters"] == 3
    assert about["results"]["n_features"] == 12
    assert sum(about["results"]["cluster_sizes"]) == 240
    assert about["versions"]["ksparse"] == ks.__version__
    assert 0.9 < about["scores"]["accuracy"] <= 1
    assert {"read", "fit", "layout", "write"} <= set(about["seconds"])


def test_the_command_in_run_json_gives_the_same_again(results, tmp_path, monkeypatch):
    import shlex

    about = json.loads((results / "run.json").read_text(encoding="utf-8"))
    words = shlex.split(about["command"])
    assert words[0] == "ksparse"
    words[words.index("-o") + 1] = str(tmp_path / "again")
    assert run(*words[1:]) == 0
    for name in ("clusters.csv", "genes.csv"):
        assert (tmp_path / "again" / name).read_bytes() == (results / name).read_bytes()


def test_the_number_of_threads_changes_nothing(cells, results, tmp_path):
    words = ["run", cells, "-k", 3, "--genes", 12, "--label-column", "label", "--min-cells", 5]
    assert run(*words, "--threads", 1, "-o", tmp_path / "one") == 0
    for name in ("clusters.csv", "genes.csv"):
        assert (tmp_path / "one" / name).read_bytes() == (results / name).read_bytes()


def test_results_are_not_overwritten_unless_asked(cells, results, tmp_path, capsys):
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "mine.txt").write_text("mine")
    (folder / "genes.csv").write_text("older")
    words = ["run", cells, "-k", 3, "--genes", 5, "-o", folder]
    assert run(*words) == 2
    assert "genes.csv exists: give --force" in one_line(capsys)
    assert (folder / "genes.csv").read_text() == "older"
    assert run(*words, "--force") == 0
    assert len(table(folder / "genes.csv")) == 5
    assert (folder / "mine.txt").read_text() == "mine"
    assert names(folder) == sorted([*RESULTS, "mine.txt"])


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["run", "gone.h5ad", "-k", "3", "-o", "out"], "gone.h5ad does not exist"),
        (["run", "CELLS", "-k", "300", "-o", "out"], "240 cells should be >= -k 300"),
        (["run", "CELLS", "-k", "3", "--genes", "999", "-o", "out"], "--genes 999 .* 300"),
        (["run", "CELLS", "-k", "3", "--label-column", "no", "-o", "out"], "'no' is not .*'label'"),
        (["run", "CELLS", "-k", "3", "--layer", "no", "-o", "out"], "--layer 'no' is not"),
        (["run", "CELLS", "-k", "3", "--min-cells", "9999", "-o", "out"], "No genes .*9999"),
        (["run", "CELLS", "-k", "1", "-o", "out"], "'-k'.*1 is not in the range"),
        (["run", "CELLS", "-k", "3", "--label-column", "ksparse", "-o", "out"], "rename it"),
        (["run", "CELLS", "-k", "3", "--label-column", "number", "-o", "out"], "240 distinct"),
        (["predict", "bad.csv", "CELLS", "-o", "out"], "is no result of `ksparse run`"),
        (["simulate", "-o", "no/such/sim.h5ad"], "there is no folder no/such"),
        (["path", "CELLS", "-k", "3", "--genes", "9-5", "-o", "out"], "'9-5' runs backwards"),
        (["run", "CELLS", "-k", "x", "-o", "out"], "'x' is not a valid integer"),
        (["run", "CELLS", "-k", "auto", "--known-column", "label", "-o", "out"], "auto knows no"),
        (["run", "CELLS", "-k", "3", "--genes", "few", "-o", "out"], "'few' is neither"),
        (["run", "CELLS", "-k", "3"], "Missing option '-o'"),
        (["run", "CELLS", "-o", "out"], "Missing option '-k'"),
        (["run", "CELLS", "-k", "3", "-o", "CELLS"], "is a file: give a folder"),
        (["run", "CELLS", "-k", "3", "-o", "out", "--what"], "No such option.*--what"),
        (["walk"], "No such command 'walk'"),
        (["run", "bad.csv", "-k", "2", "-o", "out"], "'oops' is not a number.*line 3, column 'b'"),
        (["run", "twice.csv", "-k", "2", "-o", "out"], "repeated gene names .*'a'.*--unique-names"),
        (["path", "CELLS", "-k", "3", "--genes", "5-x", "-o", "out"], "numbers such as 2-8"),
        (["choose-k", "CELLS", "-k", "0-3", "-o", "out"], ": -k contains 0: give integers >= 1"),
        (["choose-k", "CELLS", "-k", "2,150", "-o", "out"], ": -k contains 150, .*<= 120, half"),
        (["choose-k", "CELLS", "-k", "2", "--jobs", "0", "-o", "out"],
         ": --jobs 0 must be a number of processes"),
        (["predict", "CELLS", "CELLS", "-o", "out"], "no result of `ksparse run`"),
        (["report", "CELLS", "-o", "out.html"], "no result of `ksparse run`"),
        (["simulate", "-o", "sim.csv"], "must end with .h5ad"),
        (["simulate", "--cells", "2", "-o", "sim.h5ad"], "--cells 2 should be >= -k 4"),
    ],
)  # fmt: skip
def test_errors_are_one_line_and_exit_code_2(words, part, cells, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.csv").write_text("c,a,b\nx,1,2\ny,3,oops\n")
    (tmp_path / "twice.csv").write_text("c,a,a\nx,1,2\ny,3,4\n")
    before = names(tmp_path)
    assert run(*(cells if word == "CELLS" else word for word in words)) == 2
    assert re.search(part, one_line(capsys))
    assert names(tmp_path) == before  # nothing was left behind


def test_debug_shows_where(tmp_path):
    with pytest.raises(FileNotFoundError):
        run("run", "gone.h5ad", "-k", 3, "-o", tmp_path / "out", "--debug")


def test_a_fault_of_ours_is_told_as_such(monkeypatch, tmp_path, cells, capsys):
    monkeypatch.setattr(ks.tl, "ksparse", lambda *a, **b: 1 / 0)
    assert run("run", cells, "-k", 3, "-o", tmp_path / "out") == 1
    assert "a fault in ksparse, ZeroDivisionError" in one_line(capsys)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "command", ["run", "path", "choose-k", "predict", "report", "simulate", "demo"]
)
def test_help_shows_examples(command, capsys):
    assert run(command, "--help") == 0
    text = capsys.readouterr().out
    assert "Examples:" in text
    assert f"ksparse {command}" in text


def test_the_version_is_told(capsys):
    assert run("--version") == 0
    assert capsys.readouterr().out.strip() == f"ksparse {ks.__version__}"


def test_without_a_command_there_is_help(capsys):
    assert run() == 2
    assert "choose-k" in capsys.readouterr().err


def test_a_table_with_labels_and_genes_in_columns(simulated, tmp_path, capsys):
    frame = simulated.to_df()
    frame.insert(3, "kind of cell", simulated.obs["label"].to_numpy())
    frame.to_csv(tmp_path / "t.csv.gz")
    words = ["run", tmp_path / "t.csv.gz", "-k", 3, "--genes", 12, "-o", tmp_path / "out"]
    assert run(*words, "--label-column", "kind of cell") == 0
    assert "Against kind of cell: accuracy" in capsys.readouterr().out
    rows = table(tmp_path / "out" / "clusters.csv")
    truth = [row["kind of cell"] for row in rows]
    assert clustering_accuracy(truth, [row["cluster"] for row in rows]) > 0.9


def test_normalisation_can_be_turned_off_with_a_word(cells, tmp_path, capsys):
    words = ["run", cells, "-k", 3, "--genes", 12, "--normalize", "none", "-o", tmp_path / "out"]
    assert run(*words) == 0
    warned = capsys.readouterr().err
    assert "ksparse: warning: X looks like raw counts" in warned
    assert "give --normalize log1p" in warned
    about = json.loads((tmp_path / "out" / "run.json").read_text())
    assert about["results"]["normalized"] == "no"
    assert "raw counts" in about["notes"][0]


def test_verbose_tells_the_steps_and_silence_is_the_default(cells, tmp_path, capsys):
    words = ["run", cells, "-k", 3, "--genes", 5, "-o", tmp_path / "out"]
    assert run(*words) == 0
    assert capsys.readouterr().err == ""
    assert run(*words, "--force", "-v") == 0
    error = capsys.readouterr().err
    for step in ("reading cells.h5ad", "clustering", "laying out cells", "writing"):
        assert f"ksparse: {step}: " in error


@pytest.mark.parametrize("command", thorough_params(["run"], ["path"]))
def test_the_number_of_filtered_genes_is_told(cells, simulated, tmp_path, capsys, command):
    words = [command, cells, "-k", 3, "--genes", 5, "--min-cells", 100, "-o", tmp_path / "out"]
    assert run(*words) == 0
    lost = int((np.asarray((simulated.X != 0).sum(axis=0)).ravel() < 100).sum())
    assert lost > 0
    assert f"{lost} of 300 genes were found in fewer than 100 cells" in capsys.readouterr().out


def test_a_ranking_that_was_there_is_kept(simulated, tmp_path):
    adata = simulated.copy()
    adata.uns["rank_genes_groups"] = {"params": {"method": "wilcoxon"}}
    adata.write_h5ad(tmp_path / "c.h5ad")
    assert run("run", tmp_path / "c.h5ad", "-k", 3, "--genes", 5, "-o", tmp_path / "out") == 0
    written = anndata.read_h5ad(tmp_path / "out" / "result.h5ad")
    assert written.uns["rank_genes_groups"]["params"]["method"] == "wilcoxon"
    assert "names" in written.uns["rank_genes_ksparse"]


@pytest.mark.parametrize("more", thorough_params([[]], [["--path"]]), ids=str)
def test_missing_labels_are_not_scored(simulated, tmp_path, capsys, more):
    adata = simulated.copy()
    adata.obs["some"] = adata.obs["label"].where(np.arange(adata.n_obs) % 4 > 0)
    adata.write_h5ad(tmp_path / "c.h5ad")
    words = ["run", tmp_path / "c.h5ad", "-k", 3, "--genes", 5, "--label-column", "some"]
    assert run(*words, *more, "-o", tmp_path / "out") == 0
    assert "60 of 240 cells have no some" in capsys.readouterr().err
    assert "60 of 240 cells have no some" in (tmp_path / "out" / "report.html").read_text()
    assert "of the labelled cells" in (tmp_path / "out" / "report.html").read_text()
    assert table(tmp_path / "out" / "clusters.csv")[0]["some"] == ""


def test_path_prints_and_writes_its_table(cells, tmp_path, capsys):
    words = ["path", cells, "-k", 3, "--genes", "5,10,20", "--label-column", "label"]
    assert run(*words, "-o", tmp_path / "out") == 0
    text = capsys.readouterr().out
    assert "best: " in text
    assert names(tmp_path / "out") == ["path.csv", "path.png", "run.json"]
    rows = table(tmp_path / "out" / "path.csv")
    assert [row["n_features"] for row in rows] == ["5", "10", "20"]
    assert float(rows[1]["accuracy"]) > 0.8


@pytest.mark.parametrize(
    ("asked", "tried"), thorough_params([("2,3", ["2", "3"])], [("2-4", ["2", "3", "4"])])
)
def test_choose_k_recommends_a_number_and_the_next_command(cells, tmp_path, capsys, asked, tried):
    words = ["choose-k", cells, "-k", asked, "--genes", 12, "-o", tmp_path / "out"]
    assert run(*words) == 0
    printed = capsys.readouterr().out
    account = json.loads((tmp_path / "out" / "run.json").read_text())["results"]
    assert account["sentence"] in printed
    assert account["recommended"] in (2, 3)
    assert "Next: ksparse run " in printed
    assert f"-k {account['recommended']} --genes 12 " in printed
    assert names(tmp_path / "out") == ["choose_k.csv", "choose_k.png", "run.json"]
    assert [row["k"] for row in table(tmp_path / "out" / "choose_k.csv")] == tried


@pytest.mark.thorough
def test_too_large_numbers_have_a_next_command(cells, tmp_path, capsys):
    words = ["choose-k", cells, "-k", "9,10", "--genes", 12, "-o", tmp_path / "out"]
    assert run(*words) == 0
    printed = capsys.readouterr().out
    assert "k = 9 is too many" in printed
    assert f"Next: ksparse choose-k {cells} --genes 12 " in printed


@pytest.mark.thorough
def test_run_takes_the_number_that_choose_k_recommends(cells, tmp_path, capsys):
    assert run("run", cells, "-k", "auto", "--genes", 12, "-o", tmp_path / "out") == 0
    account = json.loads((tmp_path / "out" / "run.json").read_text())
    k = account["parameters"]["n_clusters"]
    assert k > 1
    printed = capsys.readouterr().out
    assert f"in {k} clusters of " in printed
    assert account["notes"][0].startswith(f"k = {k}: ")
    assert printed.startswith(account["notes"][0])
    assert "-k auto" in account["command"]


@pytest.mark.thorough
def test_run_says_that_there_is_one_cluster(tmp_path, capsys):
    one = ks.simulate.simulate_counts(150, 100, 1, random_state=0).to_anndata()
    one.write_h5ad(tmp_path / "one.h5ad")
    assert run("run", tmp_path / "one.h5ad", "-k", "auto", "-o", tmp_path / "out") == 2
    assert "give a number with -k to cluster these cells" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.thorough
def test_choose_k_of_filtered_genes_works_on_data_that_stay_in_a_file(cells, tmp_path, monkeypatch):
    words = ["choose-k", cells, "-k", "2-4", "--genes", 12, "--min-cells", 100]
    words += ["--measure", "silhouette"]
    assert run(*words, "-o", tmp_path / "memory") == 0
    monkeypatch.setattr(jobs, "read", lambda path, **options: anndata.read_h5ad(path, backed="r"))
    assert run(*words, "-o", tmp_path / "file") == 0
    for one, other in zip(
        table(tmp_path / "memory" / "choose_k.csv"),
        table(tmp_path / "file" / "choose_k.csv"),
        strict=True,
    ):
        assert one["k"] == other["k"]
        assert float(one["silhouette"]) == pytest.approx(float(other["silhouette"]), rel=1e-4)


def test_files_are_read_without_a_check_if_asked_to(cells, tmp_path, monkeypatch):
    import shlex

    given = []

    def read(path, **options):
        given.append(options.pop("check", True))
        return ks.readers.read(path, **options)

    monkeypatch.setattr(jobs, "read", read)
    assert run("run", cells, "-k", 3, "--genes", 5, "--no-check", "-o", tmp_path / "out") == 0
    command = json.loads((tmp_path / "out" / "run.json").read_text())["command"]
    assert "--no-check" in shlex.split(command)
    result = tmp_path / "out" / "result.h5ad"
    assert run("report", result, "--no-check", "-o", tmp_path / "r.html") == 0
    assert run("predict", result, cells, "-o", tmp_path / "placed") == 0
    assert given == [False, False, True, True]


def test_predict_places_new_cells(results, simulated, tmp_path, capsys):
    simulated[:80, ::-1].copy().write_h5ad(tmp_path / "new.h5ad")
    words = ["predict", results / "result.h5ad", tmp_path / "new.h5ad", "--label-column", "label"]
    assert run(*words, "-o", tmp_path / "out") == 0
    out = capsys.readouterr().out
    assert "Against label" in out
    assert names(tmp_path / "out") == ["clusters.csv", "result.h5ad", "run.json"]
    expected = [row["cluster"] for row in table(results / "clusters.csv")][:80]
    sizes = [line.split() for line in out.splitlines()[:4]]
    assert sizes == [["cluster", "cells"], *([c, str(expected.count(c))] for c in "012")]
    assert [row["cluster"] for row in table(tmp_path / "out" / "clusters.csv")] == expected


# UMAP takes a minute to compile.
@pytest.mark.parametrize("stand_in", thorough_params([True], [False]))
def test_a_file_with_results_can_be_clustered_and_placed_again(
    results, tmp_path, monkeypatch, stand_in
):
    if stand_in:
        monkeypatch.setattr("ksparse.scverse.layout._umap", lambda P, seed: P[:, [0, -1]])
    else:
        pytest.importorskip("umap")
    old = results / "result.h5ad"
    words = ["run", old, "-k", 2, "--genes", 8, "--layout", "umap", "-o", tmp_path / "two"]
    assert run(*words, "--label-column", "label") == 0
    again = anndata.read_h5ad(tmp_path / "two" / "result.h5ad")
    assert "ksparse_umap" in again.obsm
    assert "ksparse_tsne" not in again.obsm
    assert set(again.uns["rank_genes_groups"]["names"].dtype.names) == {"0", "1"}
    assert run("predict", tmp_path / "two" / "result.h5ad", old, "-o", tmp_path / "placed") == 0
    placed = anndata.read_h5ad(tmp_path / "placed" / "result.h5ad")
    assert "ksparse" not in placed.uns
    assert "ksparse_selected" not in placed.var
    assert "its own" in (tmp_path / "placed" / "run.json").read_text()


@pytest.mark.parametrize("normalize", ["model", "auto"])
def test_the_command_of_predict_says_how_cells_were_normalised(results, cells, tmp_path, normalize):
    words = ["predict", results / "result.h5ad", cells, "--normalize", normalize]
    assert run(*words, "-o", tmp_path / "out") == 0
    about = json.loads((tmp_path / "out" / "run.json").read_text())
    assert f"--normalize {normalize}" in about["command"]


def test_a_folder_in_the_place_of_a_result_is_refused(cells, tmp_path, capsys):
    (tmp_path / "out" / "genes.csv").mkdir(parents=True)
    (tmp_path / "out" / "run.json").write_text("older")
    assert run("run", cells, "-k", 3, "--genes", 5, "-o", tmp_path / "out", "--force") == 2
    assert "genes.csv is a folder" in one_line(capsys)
    assert (tmp_path / "out" / "run.json").read_text() == "older"


def test_report_can_be_written_again(results, tmp_path, capsys):
    path = tmp_path / "again.html"
    assert run("report", results / "result.h5ad", "-o", path) == 0
    text = path.read_text(encoding="utf-8")
    assert "ksparse run" in text
    assert run("report", results / "result.h5ad", "-o", path) == 2
    assert "exists: give --force" in capsys.readouterr().err
    assert run("report", results / "result.h5ad", "-o", path, "--force", "--title", "T <b>") == 0
    assert "<title>T &lt;b&gt;</title>" in path.read_text(encoding="utf-8")


def test_simulate(tmp_path):
    assert (
        run("simulate", "--cells", 50, "--genes", 200, "--clusters", 2, "-o", tmp_path / "s.h5ad")
        == 0
    )
    assert anndata.read_h5ad(tmp_path / "s.h5ad").shape == (50, 200)
    assert run("simulate", "-o", tmp_path / "s.h5ad") == 2


@pytest.mark.thorough
def test_demo(tmp_path, capsys):
    folder = tmp_path / "demo"
    assert run("demo", "-o", folder) == 0
    lines = capsys.readouterr().out.strip().splitlines()
    assert lines[-1] == f"Report: {folder / 'report.html'}"
    assert "accuracy 9" in " ".join(lines)
    assert names(folder) == sorted([*RESULTS, "simulated.h5ad"])
    about = json.loads((folder / "run.json").read_text())
    assert about["input"]["path"] == str(folder / "simulated.h5ad")


def start(*words, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "ksparse", *(str(word) for word in words)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("number", "code", "moment", "delay", "m"),
    thorough_params(
        [(signal.SIGINT, 130, "laying out", 0.0, 600)],
        [
            (signal.SIGINT, 130, "laying out", 0.0, 1500),
            (signal.SIGTERM, 143, "laying out", 0.0, 1500),
            (signal.SIGINT, 130, "checksum", 0.5, 1500),
            (signal.SIGTERM, 143, "checksum", 0.5, 1500),
        ],
    ),
)
def test_a_run_that_is_stopped_leaves_nothing(
    interruptible, tmp_path, number, code, moment, delay, m
):
    path = tmp_path / "big.h5ad"
    ks.simulate.simulate_counts(m, 1000, 6, random_state=0).to_anndata().write_h5ad(path)
    process = start("run", path, "-k", 6, "-o", tmp_path / "deep" / "out", "-v")
    for line in process.stderr:  # until it has come so far
        if moment in line:
            break
    time.sleep(delay)
    process.send_signal(number)
    _, error = process.communicate(timeout=60)
    assert process.returncode == code
    assert (
        error.strip().splitlines()[-1]
        == f"ksparse: {'interrupted' if code == 130 else 'terminated'}"
    )
    assert names(tmp_path) == ["big.h5ad"]


def test_an_interrupted_path_is_not_taken_for_a_whole_one(cells, tmp_path, monkeypatch):
    from ksparse.selection import path as module

    real, calls = module.converge, []

    def stop_later(*words, **options):
        calls.append(1)
        if len(calls) > 2:
            raise KeyboardInterrupt
        return real(*words, **options)

    monkeypatch.setattr(module, "converge", stop_later)
    words = ["path", cells, "-k", 3, "--genes", "5,8,10,15,20", "-o", tmp_path / "out"]
    assert run(*words) == 130
    assert len(calls) > 2
    assert not (tmp_path / "out").exists()


@pytest.mark.thorough  # test_interrupted.py has one that is faster
def test_a_full_disk_is_told_in_one_line(cells, tmp_path):
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        pytest.skip("only root can make a small disk")
    disk = tmp_path / "disk"
    disk.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", disk], capture_output=True
    )
    if done.returncode:
        pytest.skip("a small disk cannot be mounted here")
    try:
        (disk / "before.txt").write_text("mine")
        process = start("run", cells, "-k", 3, "--genes", 5, "-o", disk / "out")
        _, error = process.communicate(timeout=120)
        assert process.returncode == 2
        assert error == "ksparse: no space left on the disk; nothing was written\n"
        assert names(disk) == ["before.txt"]
    finally:
        subprocess.run(["umount", disk], check=True)


def _full_disk(wrapped):
    error = OSError(errno.ENOSPC, "No space left on device", "x")
    if wrapped is None:
        raise error
    try:
        raise error
    except OSError as cause:
        raise ValueError("it failed") from (cause if wrapped == "cause" else None)


@pytest.mark.parametrize("wrapped", thorough_params([None, "context"], ["cause"]))
def test_a_disk_that_fills_while_writing_is_told(cells, tmp_path, monkeypatch, capsys, wrapped):
    monkeypatch.setattr(jobs, "write_h5ad", lambda *words: _full_disk(wrapped))
    assert run("run", cells, "-k", 3, "--genes", 5, "-o", tmp_path / "out") == 2
    assert "no space left on the disk" in one_line(capsys)
    assert not (tmp_path / "out").exists()


def test_the_text_of_an_error_decides_nothing(cells, tmp_path, monkeypatch, capsys):
    def fail(*words):
        raise ValueError("No space left on device: n_clusters=3")

    monkeypatch.setattr(jobs, "write_h5ad", fail)
    assert run("run", cells, "-k", 3, "--genes", 5, "-o", tmp_path / "out") == 2
    assert one_line(capsys) == "ksparse: No space left on device: n_clusters=3\n"


# The words of the shell ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("term", "python", "shell"),
    [
        (Term("n_clusters", 5), "n_clusters=5", "-k 5"),
        (Term("n_features", 20), "n_features=20", "--genes 20"),
        (Term("n_features"), "n_features", "--genes"),
        (Term("n_samples", 3), "n_samples=3", "3 cells"),
        (Term("n_samples"), "n_samples", "cells"),
        (Term("normalize", "log1p"), "normalize='log1p'", "--normalize log1p"),
        (Term("normalize", None), "normalize=None", "--normalize none"),
        (Term("layer", "a b"), "layer='a b'", "--layer 'a b'"),
        (Term("layer", text="layer="), "layer=", "--layer"),
        (Term("label_column", "type"), "label_column='type'", "--label-column 'type'"),
        (Term("labels", "type"), "labels='type'", "--label-column 'type'"),
        (Term("unique_names", True), "unique_names=True", "--unique-names"),
        (Term("transpose", True), "transpose=True", "--transpose"),
        (Term("check", False), "check=False", "--no-check"),
        (Term("min_share", 0.8), "min_share=0.8", "--min-share 0.8"),
        (Term("new_adata"), "new_adata", "INPUT"),
        (Term("adata.X"), "adata.X", "X"),
        (Term("ridge", 0.3), "ridge=0.3", "ridge=0.3"),  # which the shell has no option for
    ],
)
def test_terms_are_rendered_in_the_words_of_the_shell(term, python, shell):
    error = InputError("Here ", term, "\nis wrong.")
    assert str(error) == f"Here {python}\nis wrong."
    assert shell_text(error) == f"Here {shell} is wrong."


def test_every_option_of_the_words_exists():
    from ksparse.cli._app import app
    from ksparse.cli._words import WORDS

    assert run("--help") == 0  # which loads the commands
    options = {name for command in app.commands.values() for option in command.params
               for name in (*option.opts, *option.secondary_opts)}  # fmt: skip
    assert {word for word in WORDS.values() if word.startswith("-")} <= options


@pytest.fixture(scope="module")
def odd_files(simulated, results, tmp_path_factory):
    """A folder of files that are warned of or refused; they are only read."""
    folder = tmp_path_factory.mktemp("odd")
    selected = anndata.read_h5ad(results / "result.h5ad").var["ksparse_selected"].to_numpy()
    few = simulated[:, ~selected | (np.cumsum(selected) > 6)].copy()
    few.write_h5ad(folder / "few.h5ad")
    adata = simulated.copy()
    adata.layers["counts"], adata.X = adata.X, None
    adata.write_h5ad(folder / "layers.h5ad")
    adata.X = ks.normalise.log_normalise(adata.layers["counts"])
    adata.write_h5ad(folder / "logged.h5ad")
    anndata.AnnData(simulated.X[np.arange(60) % 4]).write_h5ad(folder / "same.h5ad")
    adata.obs["ksparse"] = "mine"
    adata.write_h5ad(folder / "column.h5ad")
    adata = anndata.read_h5ad(results / "result.h5ad")
    del adata.obs["ksparse"], adata.uns["ksparse"]["results"]
    adata.write_h5ad(folder / "cut.h5ad")
    return folder


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["predict", "MODEL", "few.h5ad"],
         "INPUT has 6 of the 12 selected genes, fewer than --min-share 0.8 of them; missing"),
        (["run", "logged.h5ad", "-k", "3", "--normalize", "log1p"],
         "warning: X does not look like counts, but --normalize log1p was asked for: if it is "
         "logarithms already, give --normalize none."),
        (["run", "layers.h5ad", "-k", "3", "--normalize", "none", "--layer", "counts"],
         "warning: --layer 'counts' looks like raw counts (whole numbers): give --normalize log1p"),
        (["choose-k", "layers.h5ad", "-k", "2", "--normalize", "none", "--layer", "counts"],
         "warning: --layer 'counts' looks like raw counts (whole numbers): give --normalize log1p"),
        (["run", "layers.h5ad", "-k", "3"], "INPUT has no X: give --layer, the name of a layer."),
        (["run", "CELLS", "-k", "3", "--layer", "no"],
         "--layer 'no' is not in the file: there is none."),
        (["report", "CELLS"],
         "There is no result in the file: it is no result of `ksparse run`."),
        (["run", "column.h5ad", "-k", "3"],
         "obs['ksparse'] exists and was not written by ksparse: rename it."),
        (["run", "same.h5ad", "-k", "6"],
         "warning: X has 4 distinct samples, fewer than -k 6: each of them is a cluster"),
        (["predict", "MODEL", "column.h5ad"],
         "obs['ksparse'] exists and was not written by ksparse: rename it."),
        (["report", "column.h5ad"],
         "There is no result in the file: it is no result of `ksparse run`."),
        (["report", "cut.h5ad"],
         "uns['ksparse'] is not complete (results is missing): run `ksparse run` again."),
    ],
)  # fmt: skip
def test_messages_are_in_the_words_of_the_shell(
    words, part, cells, results, odd_files, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(odd_files)
    places = {"CELLS": cells, "MODEL": results / "result.h5ad"}
    words = [places.get(word, word) for word in words]
    genes = ["--genes", 5] if words[0] in ("run", "choose-k") else []
    run(*words, *genes, "-o", tmp_path / "out")
    error = capsys.readouterr().err
    assert f"ksparse: {part}" in error
    assert not re.search("adata|key_added|n_clusters|None", error)


@pytest.mark.parametrize(
    "words", thorough_params([["run", "--genes", "5"]], [["path", "--genes", "5,6"]]), ids=" ".join
)
@pytest.mark.thorough
def test_output_to_a_closed_pipe_is_no_fault(cells, tmp_path, words):
    command, *options = words
    process = start(command, cells, "-k", 3, *options, "-o", tmp_path / "out")
    process.stdout.close()  # before anything is written
    error = process.stderr.read()
    process.stderr.close()
    assert process.wait() == 141
    assert error == ""
    done = subprocess.run(
        f"{sys.executable} -m ksparse run --help | head -1",
        shell=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.startswith("Usage: ksparse run")
    assert "Traceback" not in done.stderr


@pytest.mark.thorough
def test_a_bar_is_shown_on_a_terminal_only(cells, tmp_path, capfd):
    pty = pytest.importorskip("pty")
    import fcntl
    import struct
    import termios

    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    words = ["run", str(cells), "-k", "3", "--genes", "5"]
    process = subprocess.Popen(
        [sys.executable, "-m", "ksparse", *words, "-o", str(tmp_path / "a")],
        stderr=follower, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(follower)
    shown = b""
    try:
        while block := os.read(leader, 10_000):
            shown += block
    except OSError:  # how a terminal says that its other end is closed
        pass
    os.close(leader)
    assert process.wait() == 0
    assert b"ksparse:" in shown
    assert b"%" in shown
    assert run(*words, "-o", tmp_path / "b") == 0  # here, where no terminal is
    assert capfd.readouterr().err == ""


# Names of files ------------------------------------------------------------------------------

NOT_UTF8 = os.fsdecode(b"caf\xe9 \xff")


@pytest.fixture
def table_file(simulated, tmp_path, monkeypatch):
    """A small table with a name to be changed, in the current folder."""
    monkeypatch.chdir(tmp_path)
    simulated[::3, ::5].to_df().to_csv("cells.csv")
    return tmp_path / "cells.csv"


@pytest.mark.thorough
def test_names_that_are_not_utf8_lose_nothing(table_file, results, tmp_path, capsys):
    data, out = table_file.rename(f"{NOT_UTF8}.csv"), f"{NOT_UTF8}-out"
    model = f"{NOT_UTF8}.h5ad"
    (tmp_path / model).write_bytes((results / "result.h5ad").read_bytes())
    assert run("run", data, "-k", 3, "--genes", 5, "-o", out) == 0
    assert names(tmp_path / out) == RESULTS
    about = json.loads((tmp_path / out / "run.json").read_text(encoding="utf-8"))
    assert about["input"]["name"] == data.name  # every byte of it
    assert run("path", data, "-k", 3, "--genes", "5,6", "-o", f"{out}2") == 0
    assert run("predict", model, model, "-o", f"{out}3") == 0
    assert run("report", f"{out}/result.h5ad", "-o", f"{NOT_UTF8}.html", "--title", NOT_UTF8) == 0
    assert run("simulate", "--cells", 20, "--genes", 30, "-o", f"{out}4.h5ad") == 0
    for line in capsys.readouterr().err.splitlines():  # six genes of few cells
        assert line.startswith("ksparse: warning: There is no plateau")
    assert run("run", f"{NOT_UTF8}-gone.csv", "-k", 3, "-o", out, "--force") == 2
    assert "gone.csv does not exist" in one_line(capsys)


@pytest.mark.thorough
def test_choose_k_and_folders_take_names_that_are_not_utf8(table_file, tmp_path):
    import fuzzing

    data, out = table_file.rename(f"{NOT_UTF8}.csv"), f"{NOT_UTF8}-out"
    assert run("choose-k", data, "-k", "2,3", "--genes", 5, "-o", out) == 0
    assert names(tmp_path / out) == ["choose_k.csv", "choose_k.png", "run.json"]
    fuzzing._mtx(tmp_path / "folder")
    (tmp_path / "folder").rename(NOT_UTF8)
    (tmp_path / NOT_UTF8 / NOT_UTF8).write_text("something else")
    assert run("run", NOT_UTF8, "-k", 2, "--genes", 2, "-o", f"{out}2") == 0


ALL_AT_ONCE = '-k it\'s "$(touch pwned)"\n`x`.csv'


@pytest.mark.parametrize(
    ("name", "shell"),
    thorough_params(
        [(ALL_AT_ONCE, False)],
        [(ALL_AT_ONCE, True), (f"{NOT_UTF8}.csv", True),
         *((f"{name}.csv", False) for name in
           ("-k", "--debug", "a b", "'", "a\\b", "new\nline", "*", "é", "#", "~"))],
    ),
)  # fmt: skip
def test_the_recorded_command_can_be_pasted(table_file, tmp_path, name, shell):
    import shlex

    table_file.rename(name)
    assert run("run", "-k", 3, "--genes", 5, "-o", f"out {name}", "--", name) == 0
    out = (tmp_path / f"out {name}").rename(tmp_path / "before")
    command = json.loads((out / "run.json").read_text(encoding="utf-8"))["command"]
    if shell:
        words = ["sh", "-c", f"{sys.executable} -m {command}"]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    else:
        assert run(*shlex.split(command)[1:]) == 0
    again = tmp_path / f"out {name}" / "clusters.csv"
    assert again.read_bytes() == (out / "clusters.csv").read_bytes()
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize("command", ["path", "predict", "compare"])
def test_every_recorded_command_takes_names_with_dashes(
    table_file, results, cells, tmp_path, command
):
    from ksparse.cli._steps import command_line

    words = {"path": ["-k", 3], "predict": ["--min-share", 0.5], "compare": ["--methods", "pca"]}
    paths = ["-a.h5ad", "--b.h5ad"][: 2 if command == "predict" else 1]
    line = command_line(command, paths, [*words[command], "-o", "-out"])
    assert line.endswith(f" -o -out -- {' '.join(paths)}")
    import shlex

    assert run(*shlex.split(line)[1:]) == 2  # they are not there, which is all that is wrong


ESCAPES = "\x1b]0;title\x07\x1b[2J\x9b31m\u202e\u2066\r"


def controls(text):
    """The characters of a text that act on a terminal."""
    import unicodedata

    return [c for c in text if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Cs")]


def test_names_do_not_control_the_terminal(table_file, tmp_path, capsys):
    assert len(controls(ESCAPES)) == 7
    data = table_file.rename(f"{ESCAPES}.csv")
    assert run("run", data, "-k", 3, "--genes", 5, "-o", f"o{ESCAPES}", "-v") == 0
    said = capsys.readouterr()
    assert "reading \\x1b]0;title\\x07\\x1b[2J\\x9b31m\\u202e\\u2066\\r.csv: " in said.err
    assert "Report: o\\x1b]0;title" in said.out
    assert controls(said.err) == controls(said.out) == []
    for words in (
        ["run", f"{ESCAPES}gone", "-k", 3, "-o", "x"],
        ["run", data, "-k", 3, "-o", "x", "--label-column", ESCAPES],
        ["run", data, "-k", 3, "-o", "x", f"--{ESCAPES}"],
        ["run", data, "-k", 3, "-o", data],
        [ESCAPES],
    ):
        assert run(*words) == 2
        assert controls(one_line(capsys)) == []


def test_everything_is_printed_by_one_function():
    import ast
    from pathlib import Path

    found = []
    for path in Path(jobs.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func)
                found += [path.name] if name in ("print", "click.echo", "click.secho") else []
    assert found == ["_words.py"]
