"""The commands about gene panels: what they write, say and refuse."""

from __future__ import annotations

import csv
import json
import re
import shlex

import numpy as np
import pandas
import pytest

import ksparse as ks
from conftest import page_content
from ksparse.cli import main
from ksparse.cli._lists import gene_list
from ksparse.io.files import plain_text
from ksparse.scverse.panel_evaluation import held_out_half

anndata = pytest.importorskip("anndata")

PANEL = ["evaluation.csv", "gates.csv", "panel.csv", "report.html", "run.json"]
EVALUATION = ["confusion.csv", "evaluation.csv", "genes.csv", "run.json"]


@pytest.fixture(scope="module")
def cells(simulated, tmp_path_factory):
    path = tmp_path_factory.mktemp("in") / "cells.h5ad"
    adata = simulated.copy()
    adata.var["probe"] = np.arange(adata.n_vars) % 2 == 0
    adata.var["price"] = 1.0 + np.arange(adata.n_vars) % 3
    adata.obs["half"] = np.arange(adata.n_obs) % 2 == 0
    adata.obs["number"] = np.arange(adata.n_obs) / 7
    adata.write_h5ad(path)
    return path


@pytest.fixture(scope="module")
def results(cells, tmp_path_factory):
    folder = tmp_path_factory.mktemp("out") / "panel"
    assert run("panel", cells, "--genes", 8, "--group-column", "label", "-o", folder) == 0
    return folder


def run(*words):
    return main([str(word) for word in words])


def table(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def genes_of(folder):
    return [row["gene"] for row in table(folder / "panel.csv")]


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def one_line(capsys):
    error = capsys.readouterr().err
    assert error.startswith("ksparse: ") and error.count("\n") == 1
    return error


def test_a_panel_is_what_python_finds(results, simulated):
    assert names(results) == PANEL
    adata = simulated.copy()
    given = {"normalize": "log1p", "random_state": 0}
    ks.tl.panel(adata, 8, groupby="label", **given)
    expected = adata.uns["panel"]["genes"]
    rows = table(results / "panel.csv")
    assert list(rows[0])[:8] == [
        "rank", "gene", "gain", "explained", "group", "direction", "difference", "why",
    ]  # fmt: skip
    for name in ("gene", "group", "direction", "why"):
        assert [row[name] for row in rows] == expected[name].tolist()
    np.testing.assert_allclose([float(row["gain"]) for row in rows], expected["gain"], rtol=1e-4)
    X = ks.normalise.log_normalise(adata.X)
    for row in rows:
        values = X[:, [adata.var_names.get_loc(row["gene"])]].toarray().ravel()
        here = values[(adata.obs["label"] == "type 1").to_numpy()]
        assert float(row["mean_type 1"]) == pytest.approx(here.mean(), rel=1e-4)
        assert float(row["fraction_type 1"]) == pytest.approx((here > 0).mean(), rel=1e-4)
    assert [gene["name"] for gene in page_content(results / "report.html")["genes"]] == (
        genes_of(results)
    )


def test_figures_that_are_held_out_come_from_cells_that_chose_nothing(results, simulated):
    """The same by hand: half of the cells chooses, the other half is scored."""
    adata = simulated.copy()
    half = held_out_half(adata, "label", 0)
    assert 110 <= half.sum() <= 130
    given = {"held_out": half, "normalize": "log1p", "random_state": 0}
    ks.tl.panel(adata, 8, groupby="label", key_added="half", **given)
    others = simulated[~half].copy()
    ks.tl.panel(others, 8, groupby="label", normalize="log1p", random_state=0)
    chosen = adata.uns["half"]["genes"]["gene"].tolist()
    assert chosen == others.uns["panel"]["genes"]["gene"].tolist()
    ks.tl.evaluate_panel(adata, chosen, "label", compare=False, n_random=0, **given)
    stored = adata.uns["panel_evaluation"]
    rows = table(results / "evaluation.csv")
    panel = {(row["measure"], row["classifier"], row["group"]): row for row in rows
             if row["method"] == "panel"}  # fmt: skip
    for row in stored["scores"].itertuples():
        found = panel["balanced_accuracy", row.classifier, ""]
        assert float(found["value"]) == pytest.approx(row.balanced_accuracy, rel=1e-4)
        assert int(found["n_cells"]) == half.sum()
    for group in stored["recall"].index:
        found = panel["recall", "5nn", group]
        assert float(found["value"]) == pytest.approx(stored["recall"]["5nn"][group], rel=1e-4)
    for name in ("neighbour_overlap", "mean_abs_correlation", "max_abs_correlation"):
        found = panel[name, "", ""]
        assert float(found["value"]) == pytest.approx(stored["summary"][name], rel=1e-4)
        assert int(found["n_cells"]) == half.sum()
    ks.tl.gates(adata, "label", genes=chosen, **given)
    sheet = {row["group"]: row for row in table(results / "gates.csv")}
    for row in adata.uns["gates"].itertuples():
        assert sheet[row.group]["held_out_gate"] == row.gate
        assert float(sheet[row.group]["held_out_F"]) == pytest.approx(row.F, rel=1e-4)
    keys = [tuple(row[name] for name in ("measure", "method", "classifier", "group", "n_genes"))
            for row in rows]  # fmt: skip
    assert len(set(keys)) == len(keys)
    assert {row["method"] for row in rows} == {"panel", "ksparse", "wilcoxon", "hvg", "random"}
    assert {row["n_genes"] for row in rows} == {"2", "5", "8", "10"}


def test_the_sheet_of_gates_can_be_used(results, simulated):
    X = ks.normalise.log_normalise(simulated.X)
    genes = set(genes_of(results))
    for row in table(results / "gates.csv"):
        inside = np.ones(simulated.n_obs, dtype=bool)
        for i in range(1, int(row["n_genes"]) + 1):
            assert row[f"gene_{i}"] in genes
            values = X[:, [simulated.var_names.get_loc(row[f"gene_{i}"])]].toarray().ravel()
            above = values > float(row[f"threshold_{i}"])
            inside &= above if row[f"side_{i}"] == "above" else ~above
        member = (simulated.obs["label"] == row["group"]).to_numpy()
        f = 2 * (inside & member).sum() / (inside.sum() + member.sum())
        assert f == pytest.approx((float(row["F"]) + float(row["F_training"])) / 2, abs=0.05)


def test_run_json_tells_how_it_was_done_and_gives_the_same_again(results, cells, tmp_path):
    about = json.loads((results / "run.json").read_text(encoding="utf-8"))
    assert about["results"]["genes"] == genes_of(results)
    assert sum(about["results"]["group_sizes"].values()) == 240
    assert about["parameters"]["groupby"] == "label"
    assert about["options"]["genes"] == 8 and about["options"]["seed"] == 0
    assert about["input"]["path"] == str(cells) and about["versions"]["ksparse"] == ks.__version__
    assert {"read", "panel", "evaluation", "curve", "gates", "write"} <= set(about["seconds"])
    words = shlex.split(about["command"])
    words[words.index("-o") + 1] = str(tmp_path / "again")
    assert run(*words[1:]) == 0
    for name in ("panel.csv", "gates.csv", "evaluation.csv"):
        assert (tmp_path / "again" / name).read_bytes() == (results / name).read_bytes()


def test_wishes_are_heard_and_recorded(cells, simulated, tmp_path, capsys):
    (tmp_path / "old.txt").write_text("\ufeffgene_201\n\ngene_203\n", encoding="utf-8")
    words = ["panel", cells, "--genes", 9, "--group-column", "label", "--keep", "gene_200, gene_1",
             "--exclude", "gene_0,gene_2", "--exclude-pattern", "^gene_1[0-9]$", "--extend",
             tmp_path / "old.txt", "--costs", "price", "--balance", 0.5, "--min-per-group", 0,
             "--allowed", "probe", "--gate-genes", 0, "-o", tmp_path / "out"]  # fmt: skip
    assert run(*words) == 0
    genes = genes_of(tmp_path / "out")
    kept = {"gene_1", "gene_200", "gene_201", "gene_203"}
    assert set(genes[:4]) == kept and len(genes) == 9
    assert all(int(gene[5:]) % 2 == 0 for gene in genes[4:])
    assert not {"gene_0", "gene_2"} & set(genes)
    assert not any(re.search("^gene_1[0-9]$", gene) for gene in genes)
    assert names(tmp_path / "out") == [name for name in PANEL if name != "gates.csv"]
    assert page_content(tmp_path / "out" / "report.html")["gates"] == []
    said = capsys.readouterr()
    assert said.out.startswith("9 of 300 genes for 3 groups of 240 cells; they explain ")
    assert "Held-out cells: balanced accuracy" in said.out and "Wilcoxon" in said.out
    command = json.loads((tmp_path / "out" / "run.json").read_text())["command"]
    again = shlex.split(command)
    for word in map(str, words[:-2]):
        assert word in again


def test_an_allowed_list_and_the_panel_of_a_file(cells, results, tmp_path, capsys):
    (tmp_path / "probes.txt").write_text("\n".join(f"gene_{j}" for j in range(0, 320, 3)))
    words = ["panel", cells, "--genes", 10, "--group-column", "label", "--gate-genes", 0]
    assert run(*words, "--allowed", tmp_path / "probes.txt", "--extend", results / "panel.csv",
               "-o", tmp_path / "out") == 0  # fmt: skip
    genes = genes_of(tmp_path / "out")
    assert set(genes[:8]) == set(genes_of(results))
    assert all(int(gene[5:]) % 3 == 0 for gene in genes[8:])
    # It is said once, by whichever step, and noted.
    told = "7 of 107 --allowed genes are not in INPUT, and are not used."
    assert capsys.readouterr().err == f"ksparse: warning: {told}\n"
    assert json.loads((tmp_path / "out" / "run.json").read_text())["notes"] == [told]


def test_clusters_are_found_without_groups(cells, tmp_path, capsys):
    folder = tmp_path / "out"
    assert run("panel", cells, "--genes", 6, "-k", 3, "--gate-genes", 1, "-o", folder) == 0
    assert "Clusters of lowest recall: cluster " in capsys.readouterr().out
    assert names(folder) == sorted([*PANEL, "clusters.csv"])
    rows = table(folder / "clusters.csv")
    labels = anndata.read_h5ad(cells).obs["label"]
    assert [row["cell"] for row in rows] == labels.index.tolist()
    counts = pandas.crosstab([row["cluster"] for row in rows], labels.to_numpy())
    assert (counts.max(axis=1) > 0.9 * counts.sum(axis=1)).all()
    about = json.loads((folder / "run.json").read_text())
    assert "found again more easily" in about["notes"][-1]
    assert "-k 3" in about["command"] and "group-column" not in about["command"]
    # Older results that the new ones do not replace would not belong to them.
    words = ["panel", cells, "--genes", 6, "--group-column", "label", "--gate-genes", 0]
    (folder / "mine.txt").write_text("mine")
    assert run(*words, "-o", folder) == 2
    assert names(folder) == sorted([*PANEL, "clusters.csv", "mine.txt"])
    assert run(*words, "-o", folder, "--force") == 0
    assert names(folder) == sorted([*(n for n in PANEL if n != "gates.csv"), "mine.txt"])


def test_a_table_has_its_groups_in_a_column(simulated, tmp_path):
    frame = simulated[:, :60].to_df()
    frame.insert(3, "kind of cell", simulated.obs["label"].to_numpy())
    frame.to_csv(tmp_path / "t.csv")
    words = [tmp_path / "t.csv", "--group-column", "kind of cell", "-o"]
    assert run("panel", *words, tmp_path / "a", "--genes", 4, "--gate-genes", 0) == 0
    assert len(genes_of(tmp_path / "a")) == 4
    assert run("evaluate-panel", *words, tmp_path / "b", "--panel", "gene_1,gene_20") == 0
    assert names(tmp_path / "b") == EVALUATION


def test_an_evaluation_is_that_of_python(cells, simulated, tmp_path, capsys):
    chosen = [f"gene_{j}" for j in (0, 16, 31, 200)]
    (tmp_path / "genes.txt").write_text("\n".join(chosen))
    words = ["evaluate-panel", cells, "--group-column", "label", "-o"]
    assert run(*words, tmp_path / "out", "--panel", tmp_path / "genes.txt") == 0
    said = capsys.readouterr().out
    assert said.startswith("4 genes, 3 groups of 240 cells, 5 folds.\nBalanced accuracy ")
    assert "If the genes were chosen with these cells, their figures are too good" in said
    assert names(tmp_path / "out") == EVALUATION
    adata = simulated.copy()
    ks.tl.evaluate_panel(adata, chosen, "label", normalize="log1p", random_state=0)
    stored = adata.uns["panel_evaluation"]
    rows = table(tmp_path / "out" / "evaluation.csv")
    scores = [float(row["value"]) for row in rows if row["measure"] == "balanced_accuracy"]
    np.testing.assert_allclose(scores, stored["scores"]["balanced_accuracy"], rtol=1e-4)
    assert {row["method"] for row in rows} == {"panel", "random", "ksparse"}
    overlap = next(row for row in rows if row["measure"] == "neighbour_overlap")
    assert float(overlap["value"]) == pytest.approx(stored["summary"]["neighbour_overlap"], 1e-4)
    confusion = table(tmp_path / "out" / "confusion.csv")
    assert [int(r["n_cells"]) for r in confusion] == stored["confusion"]["n_cells"].tolist()
    genes = table(tmp_path / "out" / "genes.csv")
    assert [row["gene"] for row in genes] == chosen
    assert [row["partner"] for row in genes] == stored["genes"]["partner"].tolist()
    about = json.loads((tmp_path / "out" / "run.json").read_text())
    assert about["results"]["genes"] == chosen and "--panel" in about["command"]
    assert run(*words, tmp_path / "half", "--panel", ",".join(chosen), "--held-out", "half") == 0
    said = capsys.readouterr().out
    assert "3 groups of 120 cells" in said and "too good" not in said
    assert run(*words, tmp_path / "half", "--panel", "gene_0") == 2
    assert "exists: give --force" in one_line(capsys)


GROUPS = ["--group-column", "label"]


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["panel", "CELLS"], "Give --group-column or -k: one of both is needed"),
        (["panel", "CELLS", "-k", 3, *GROUPS], "Give --group-column or -k: not both"),
        (["panel", "CELLS", "--group-column", "no"], "--group-column 'no' is not a column of obs"),
        (["panel", "CELLS", "--group-column", "number"], "'number' has 240 different values"),
        (["panel", "CELLS", *GROUPS, "--keep", "gene_1,x,y"],
         "2 of the 3 names in --keep are not in INPUT: 'x', 'y'"),
        (["panel", "CELLS", *GROUPS, "--extend", "gone.txt"], "--extend: gone.txt does not exist"),
        (["panel", "CELLS", *GROUPS, "--extend", "bytes.txt"], "bytes.txt is no text in UTF-8"),
        (["panel", "CELLS", *GROUPS, "--extend", "empty.txt"], "'empty.txt' names no gene"),
        (["panel", "CELLS", *GROUPS, "--extend", "other.csv"], "other.csv has no column 'gene'"),
        (["panel", "CELLS", *GROUPS, "--exclude", "z"], "1 of the 1 names in --exclude"),
        (["panel", "CELLS", *GROUPS, "--keep", "gene_1", "--exclude", "gene_1"],
         "1 genes are in --keep or --extend and in --exclude: 'gene_1'"),
        (["panel", "CELLS", *GROUPS, "--exclude-pattern", "("],
         r"--exclude-pattern '\(' is no regular expression"),
        (["panel", "CELLS", *GROUPS, "--exclude-pattern", "."],
         "--exclude-pattern leaves 0 of 300 genes"),
        (["panel", "CELLS", *GROUPS, "--allowed", "no"], "--allowed 'no' is not a column of var"),
        (["panel", "CELLS", *GROUPS, "--allowed", "price"], "--allowed must be True or False"),
        (["panel", "CELLS", *GROUPS, "--costs", "no"], "--costs 'no' is not a column of var"),
        (["panel", "CELLS", *GROUPS, "--genes", 2], "--genes 2 is too small for 3 groups with "
         "--min-per-group 1"),
        (["panel", "CELLS", *GROUPS, "--gate-genes", 5], "5 is not in the range 0<=x<=4"),
        (["panel", "CELLS", *GROUPS, "--balance", 2], "2.* is not in the range 0<=x<=1"),
        (["panel", "gone.h5ad", *GROUPS], "gone.h5ad does not exist"),
        (["panel", "CELLS", *GROUPS, "--layer", "no"], "--layer 'no' is not in the file"),
        (["evaluate-panel", "CELLS", *GROUPS], "Missing option '--panel'"),
        (["evaluate-panel", "CELLS", "--panel", "gene_1"], "Missing option '--group-column'"),
        (["evaluate-panel", "CELLS", *GROUPS, "--panel", "gene_1,x,y"],
         "2 of the 3 names in --panel are not in INPUT: 'x', 'y'"),
        (["evaluate-panel", "CELLS", *GROUPS, "--panel", "gene_1,gene_1"],
         "--panel has 1 repeated names"),
        (["evaluate-panel", "CELLS", *GROUPS, "--panel", ","], "--panel ',' names no gene"),
        (["evaluate-panel", "CELLS", *GROUPS, "--panel", "gene_1", "--held-out", "no"],
         "--held-out 'no' is not a column of obs"),
        (["evaluate-panel", "CELLS", *GROUPS, "--panel", "gene_1", "--held-out", "label"],
         "--held-out must be True or False for each"),
    ],
)  # fmt: skip
def test_errors_are_one_line_and_exit_code_2(words, part, cells, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bytes.txt").write_bytes(b"gene_1\n\xff\xfe")
    (tmp_path / "empty.txt").write_text("\n \n")
    (tmp_path / "other.csv").write_text("name,rank\ngene_1,1\n")
    before = names(tmp_path)
    words = [cells if word == "CELLS" else word for word in words]
    assert run(*words, "-o", "out") == 2
    assert re.search(part, one_line(capsys))
    assert names(tmp_path) == before


def test_debug_shows_where(cells, tmp_path):
    with pytest.raises(ValueError, match="'x'"):
        run("panel", cells, *GROUPS, "--keep", "x", "-o", tmp_path / "out", "--debug")


@pytest.mark.parametrize("command", ["panel", "evaluate-panel"])
def test_help_shows_examples(command, capsys):
    assert run(command, "--help") == 0
    text = capsys.readouterr().out
    assert "Examples:" in text and f"ksparse {command}" in text


def test_lists_of_genes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert gene_list("--keep", None) is None
    assert gene_list("--keep", "a, b,,c ") == ["a", "b", "c"]
    (tmp_path / "list").write_text("a b\r\nc\n")
    assert gene_list("--keep", "list") == ["a b", "c"]
    (tmp_path / "one.csv").write_text("a\nb\n")
    assert gene_list("--keep", "one.csv") == ["a", "b"]
    odd = ["=1+1", "'x", "'=2", "a,b"]
    with (tmp_path / "panel.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["rank", "gene"], *([1, plain_text(name)] for name in odd)])
    assert gene_list("--keep", str(tmp_path / "panel.csv")) == odd
    assert gene_list("--keep", "x" * 5000) == ["x" * 5000]  # too long for a file


def test_verbose_tells_the_steps(cells, tmp_path, capsys):
    words = ["panel", cells, *GROUPS, "--genes", 4, "--gate-genes", 1, "-o", tmp_path / "out"]
    assert run(*words, "-v") == 0
    error = capsys.readouterr().err
    for step in ("reading cells.h5ad", "choosing genes", "scoring on held-out cells",
                 "other numbers of genes", "gates", "writing"):  # fmt: skip
        assert f"ksparse: {step}: " in error


def test_tiny_groups_and_cells_without_one_are_told_once(simulated, tmp_path, capsys):
    adata = simulated.copy()
    types = adata.obs["label"].astype(object).to_numpy()
    types[:10], types[10:13], types[13:18] = None, "tiny", "small"
    adata.obs["some"] = types
    adata.write_h5ad(tmp_path / "c.h5ad")
    words = ["panel", tmp_path / "c.h5ad", "--genes", 8, "--group-column", "some"]
    assert run(*words, "-o", tmp_path / "out") == 0
    error = capsys.readouterr().err
    assert error.count("10 of 240 cells have no group") == 1
    assert error.count("'tiny' (3)") == 1
    groups = {row["group"] for row in table(tmp_path / "out" / "evaluation.csv")} - {""}
    assert groups == {"type 0", "type 1", "type 2", "small"}
    sheet = {row["group"]: row for row in table(tmp_path / "out" / "gates.csv")}
    assert sheet["tiny"]["n_genes"] == "0" and sheet["tiny"]["F"] == ""


@pytest.mark.thorough
def test_data_that_stay_in_a_file_give_the_same(cells, results, tmp_path, monkeypatch):
    from ksparse.cli import _jobs as jobs

    monkeypatch.setattr(jobs, "read", lambda path, **options: anndata.read_h5ad(path, backed="r"))
    words = ["panel", cells, "--genes", 8, "--group-column", "label", "-o", tmp_path / "out"]
    assert run(*words) == 0
    assert genes_of(tmp_path / "out") == genes_of(results)


@pytest.mark.thorough
def test_more_genes_than_there_are(simulated, tmp_path, capsys):
    simulated[:, ::20].copy().write_h5ad(tmp_path / "few.h5ad")
    words = ["panel", tmp_path / "few.h5ad", *GROUPS, "--genes", 50, "-o", tmp_path / "out"]
    assert run(*words) == 0
    assert "fewer than --genes 50" in capsys.readouterr().err
    assert len(genes_of(tmp_path / "out")) == 15


def test_on_noise_held_out_figures_are_those_of_chance(tmp_path, capsys):
    """Genes that were chosen with all cells would look good on any of them."""
    rng = np.random.default_rng(0)
    adata = anndata.AnnData(np.abs(rng.normal(size=(200, 1500))).astype(np.float32))
    adata.obs["group"] = pandas.Categorical(rng.permutation(np.repeat(["a", "b"], 100)))
    adata.write_h5ad(tmp_path / "noise.h5ad")
    words = ["panel", tmp_path / "noise.h5ad", "--genes", 20, "--group-column", "group"]
    assert run(*words, "-o", tmp_path / "out") == 0
    assert "is that of chance" in capsys.readouterr().err
    rows = table(tmp_path / "out" / "evaluation.csv")
    values = [float(row["value"]) for row in rows if row["measure"] == "balanced_accuracy"]
    assert abs(np.mean(values) - 0.5) < 0.06
    panel = [float(row["value"]) for row in rows if row["method"] == "panel" and not row["group"]]
    assert np.max(panel) < 0.65
    again = tmp_path / "again"
    words = ["evaluate-panel", *words[1:2], "--group-column", "group", "--panel"]
    assert run(*words, tmp_path / "out" / "panel.csv", "-o", again) == 0
    biased = next(row for row in table(again / "evaluation.csv") if row["method"] == "panel")
    assert float(biased["value"]) > 0.75  # which is why it warns
    assert "too good" in capsys.readouterr().out
