"""Only some groups of cells are clustered: `restrict_to`, and all that is made from its result."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
import scipy.sparse as sp

import ksparse as ks
from conftest import crossed, thorough_params
from ksparse.cli import main
from ksparse.report import write_report
from ksparse.scverse.fields import clustered_cells
from ksparse.scverse.labels import clusters_of
from ksparse.scverse.schema import read_record

anndata = pytest.importorskip("anndata")

FIT = {"n_features": 12, "normalize": "log1p", "random_state": 0}
GROUPS = ("group", ["b", "c"])


@pytest.fixture(scope="module")
def grouped(simulated):
    """Cells in groups a to d, which are no clusters; some cells have no group."""
    adata = simulated.copy()
    values = np.array(list("abcd"), dtype=object)[np.arange(adata.n_obs) % 4]
    values[:8:4] = None
    adata.obs["group"] = values
    adata.obs["group"] = adata.obs["group"].astype("category")
    return adata


@pytest.fixture(scope="module")
def refined(grouped):
    """The groups b and c in 2 clusters; use a copy to change it."""
    return ks.tl.ksparse(grouped, 2, restrict_to=GROUPS, copy=True, **FIT)


@pytest.fixture(scope="module")
def alone(grouped):
    """The same cells as an object of their own."""
    part = grouped[grouped.obs["group"].isin(["b", "c"])].copy()
    return ks.tl.ksparse(part, 2, copy=True, **FIT)


def check_like_alone(refined, alone):
    chosen = refined.obs["ksparse_R_clustered"].to_numpy()
    names = [f"b-c,{label}" for label in alone.obs["ksparse"]]
    assert refined.obs["ksparse_R"][chosen].tolist() == names
    assert refined.var["ksparse_R_selected"].tolist() == alone.var["ksparse_selected"].tolist()
    np.testing.assert_allclose(refined.varm["ksparse_R"], alone.varm["ksparse"], atol=1e-4)
    np.testing.assert_allclose(
        refined.obsm["ksparse_R"][chosen], alone.obsm["ksparse"], rtol=1e-3, atol=1e-3
    )
    np.testing.assert_allclose(
        refined.obs["ksparse_R_margin"][chosen], alone.obs["ksparse_margin"], atol=1e-3
    )


def test_the_clusters_are_those_of_the_cells_alone(refined, alone, grouped):
    check_like_alone(refined, alone)
    chosen = refined.obs["ksparse_R_clustered"].to_numpy()
    assert chosen.tolist() == grouped.obs["group"].isin(["b", "c"]).tolist()
    for part in ("results", "model", "clusters", "history"):
        for name, value in alone.uns["ksparse"][part].items():
            np.testing.assert_array_equal(refined.uns["ksparse_R"][part][name], value)
    assert refined.uns["ksparse_R"]["params"]["restrict_to"].tolist() == ["group", "b", "c"]


def test_other_cells_keep_their_group_and_are_projected(refined, alone, grouped):
    chosen = refined.obs["ksparse_R_clustered"].to_numpy()
    kept, before = refined.obs["ksparse_R"][~chosen], grouped.obs["group"][~chosen]
    assert before.isna().sum() == 2
    assert kept.isna().tolist() == before.isna().tolist()
    assert kept.dropna().tolist() == before.dropna().tolist()
    assert refined.obs["ksparse_R"].cat.categories.tolist() == ["a", "b-c,0", "b-c,1", "d"]
    assert refined.obs["ksparse_R_margin"][~chosen].isna().all()
    others = grouped[~chosen].copy()
    ks.tl.predict(alone, others)
    np.testing.assert_allclose(
        refined.obsm["ksparse_R"][~chosen], others.obsm["ksparse"], rtol=1e-3, atol=1e-3
    )
    assert refined.obs["group"].equals(grouped.obs["group"])


@pytest.mark.parametrize("kind", thorough_params([np.asarray, sp.csc_array], [sp.csr_matrix]))
def test_every_kind_of_matrix_gives_the_same(grouped, alone, kind):
    adata = anndata.AnnData(kind(grouped.X.toarray()), obs=grouped.obs.copy(), var=grouped.var)
    ks.tl.ksparse(adata, 2, restrict_to=GROUPS, **FIT)
    check_like_alone(adata, alone)


@pytest.mark.parametrize(
    ("kind", "memory_limit"), crossed([np.asarray, sp.csr_matrix], ["100kB", None])
)
@pytest.mark.parametrize("mask", thorough_params([None], ["even"]))
def test_cells_in_a_file_give_the_same(grouped, alone, tmp_path, kind, memory_limit, mask):
    adata = anndata.AnnData(kind(grouped.X.toarray()), obs=grouped.obs, var=grouped.var.copy())
    adata.var["even"] = np.arange(adata.n_vars) % 2 == 0
    # All cells of the groups come last: there are blocks without any.
    adata = adata[np.argsort(adata.obs["group"].isin(["b", "c"]), kind="stable")].copy()
    adata.write_h5ad(tmp_path / "cells.h5ad")
    backed = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    options = {"mask_var": mask, "memory_limit": memory_limit}
    ks.tl.ksparse(backed, 2, restrict_to=GROUPS, **FIT, **options)
    if mask is None:
        check_like_alone(backed, alone)
    in_memory = ks.tl.ksparse(adata, 2, restrict_to=GROUPS, copy=True, mask_var=mask, **FIT)
    assert backed.obs["ksparse_R"].equals(in_memory.obs["ksparse_R"])
    np.testing.assert_allclose(
        backed.obsm["ksparse_R"], in_memory.obsm["ksparse_R"], rtol=1e-3, atol=1e-3
    )
    ks.pl.heatmap(backed, key="ksparse_R")
    backed.file.close()


def test_cells_in_a_dask_array_give_the_same(grouped, alone):
    dask = pytest.importorskip("dask.array")
    adata = grouped.copy()
    adata.X = dask.from_array(grouped.X.toarray(), chunks=(40, adata.n_vars))
    ks.tl.ksparse(adata, 2, restrict_to=GROUPS, **FIT)
    check_like_alone(adata, alone)


def test_one_group_and_numbers_and_all_groups(grouped):
    adata = grouped.copy()
    adata.obs["number"] = np.arange(adata.n_obs) % 2
    ks.tl.ksparse(adata, 2, restrict_to=("number", "1"), **FIT)
    assert adata.obs["ksparse_R"].cat.categories.tolist() == ["0", "1,0", "1,1"]
    whole = ks.tl.ksparse(adata, 3, restrict_to=("number", [1, 0, 1]), copy=True, **FIT)
    plain = ks.tl.ksparse(adata, 3, copy=True, **FIT)
    assert whole.obs["ksparse_R"].tolist() == [f"1-0,{c}" for c in plain.obs["ksparse"]]


def test_a_result_can_be_refined_again_and_in_its_place(clustered):
    adata = clustered.copy()
    ks.tl.ksparse(adata, 2, restrict_to=("ksparse", "0"), key_added="ksparse", **FIT)
    assert adata.obs["ksparse"].cat.categories.tolist() == ["0,0", "0,1", "1", "2"]
    assert "ksparse_tsne" not in adata.obsm  # of the result that was replaced
    ks.tl.ksparse(adata, 2, restrict_to=("ksparse", ["0,1", "2"]), **FIT)
    assert adata.obs["ksparse_R"].cat.categories.tolist() == ["0,0", "0,1-2,0", "0,1-2,1", "1"]
    ks.tl.ksparse(adata, 3, key_added="ksparse_R", **FIT)
    assert "ksparse_R_clustered" not in adata.obs


def test_several_labels_are_those_of_the_clustered_cells(grouped):
    adata = ks.tl.ksparse(grouped, 2, restrict_to=GROUPS, max_labels=2, copy=True, **FIT)
    chosen = adata.obs["ksparse_R_clustered"].to_numpy()
    memberships = adata.obsm["ksparse_R_memberships"]
    assert memberships.shape == (adata.n_obs, 2)
    assert memberships[chosen].any(axis=1).all()
    assert not memberships[~chosen].any()
    assert np.isnan(adata.obs["ksparse_R_log_odds"][~chosen]).all()


@pytest.mark.parametrize("kind", thorough_params(["h5ad"], ["zarr"]))
@pytest.mark.filterwarnings("ignore:Writing zarr v2 data")
def test_results_survive_files(refined, tmp_path, kind):
    adata = refined.copy()
    ks.tl.path(adata, 2, n_features=[5, 10], normalize="log1p", restrict_to=GROUPS, random_state=0)
    path = tmp_path / f"cells.{kind}"
    getattr(adata, f"write_{kind}")(path)
    again = getattr(anndata, f"read_{kind}")(path)
    assert again.obs["ksparse_R"].equals(adata.obs["ksparse_R"])
    np.testing.assert_array_equal(again.obsm["ksparse_R"], adata.obsm["ksparse_R"])
    record = read_record(again, "ksparse_R")
    assert record.restriction == read_record(adata, "ksparse_R").restriction
    assert record.cluster_names == ["b-c,0", "b-c,1"]
    ks.tl.rank_genes(again, key="ksparse_R")
    ks.pl.embedding(again, key="ksparse_R")
    write_report(again, tmp_path / "report.html", key="ksparse_R")


# What is made from a result


def test_pictures_are_of_the_clustered_cells(refined, tmp_path):
    adata = refined.copy()
    n = int(adata.obs["ksparse_R_clustered"].sum())
    options = {"key": "ksparse_R"}
    ax = ks.pl.embedding(adata, **options)
    assert ax.get_title() == f"{n} of {adata.n_obs} cells, 2 clusters"
    ks.tl.embed(adata, key="ksparse_R")
    for more in ({}, {"labels": "label"}, {"gene": adata.var_names[0]}):
        ax = ks.pl.embedding(adata, **options, **more)
        assert sum(len(dots.get_offsets()) for dots in ax.collections[:2]) == n or "gene" in more
    ax = ks.pl.clusters_vs_labels(adata, "label", **options)
    assert sum(int(text.get_text()) for text in ax.texts) == n
    assert [text.get_text() for text in ax.get_xticklabels()] == ["b-c,0", "b-c,1"]
    ks.pl.genes(adata, **options)
    ks.pl.dotplot(adata, **options)
    ks.pl.convergence(adata, **options)
    ax = ks.pl.heatmap(adata, **options)
    assert ax.images[0].get_array().shape[1] == n


def test_genes_are_ranked_for_the_new_clusters(refined):
    adata = refined.copy()
    ks.tl.rank_genes(adata, key="ksparse_R")
    assert adata.uns["rank_genes_groups"]["names"].dtype.names == ("b-c,0", "b-c,1")
    assert adata.varm["ksparse_R_contribution"].shape == (adata.n_vars, 2)
    sc = pytest.importorskip("scanpy")
    table = sc.get.rank_genes_groups_df(adata, group="b-c,1")
    assert len(table) == 12


def page_data(path):
    text = path.read_text(encoding="utf-8")
    start = text.index(">", text.index('type="application/json"')) + 1
    return json.loads(text[start : text.index("</script>", start)])


@pytest.mark.thorough
def test_the_report_is_about_the_clustered_cells(refined, tmp_path):
    adata = refined.copy()
    ks.tl.path(adata, 2, n_features=[5, 10], normalize="log1p", random_state=0)
    data = page_data(write_report(adata, tmp_path / "all.html", key="ksparse_R", labels="label"))
    n = int(adata.obs["ksparse_R_clustered"].sum())
    assert data["n_cells"] == data["cells"]["shown"] == n
    assert [group["name"] for group in data["clusters"]] == ["b-c,0", "b-c,1"]
    assert sum(map(sum, data["confusion"]["counts"])) == n
    assert "whose group was b or c were clustered" in data["story"]
    assert f"{adata.n_obs - n} other cells kept their group" in data["story"]
    assert "restrict_to=('group', ['b', 'c'])" in data["command"]
    assert data["path"] is None  # it is of all cells
    ks.tl.path(adata, 2, n_features=[5, 10], normalize="log1p", restrict_to=GROUPS, random_state=0)
    data = page_data(write_report(adata, tmp_path / "part.html", key="ksparse_R"))
    assert data["path"]["n_features"] == [5, 10]


@pytest.mark.thorough
def test_the_path_is_that_of_the_cells_alone(grouped, alone):
    options = {"n_features": [5, 10], "normalize": "log1p", "labels": "label", "random_state": 0}
    path = ks.tl.path(grouped.copy(), 2, restrict_to=GROUPS, **options)
    expected = ks.tl.path(alone.copy(), 2, **options)
    np.testing.assert_array_equal(path.labels, expected.labels)
    np.testing.assert_array_equal(path.columns["ari"], expected.columns["ari"])


def test_renamed_clusters_and_fewer_cells_are_understood(refined):
    adata = refined.copy()
    expected = clusters_of(adata, "ksparse_R")[0]
    adata.obs["ksparse_R"] = adata.obs["ksparse_R"].cat.rename_categories(
        {"b-c,0": "naive", "b-c,1": "memory"}
    )
    codes, names = clusters_of(adata, "ksparse_R")
    assert names == ["naive", "memory"]
    np.testing.assert_array_equal(codes, expected)
    half = adata[::2].copy()
    assert clustered_cells(half, "ksparse_R").size == half.obs["ksparse_R_clustered"].sum()
    ks.pl.embedding(half, key="ksparse_R")
    none = adata[~adata.obs["ksparse_R_clustered"].to_numpy()].copy()
    with pytest.raises(ValueError, match="none of the cells that were clustered for 'ksparse_R'"):
        ks.pl.embedding(none, key="ksparse_R")
    del adata.obs["ksparse_R_clustered"]
    with pytest.raises(ValueError, match="obs\\['ksparse_R_clustered'\\] is missing"):
        ks.pl.heatmap(adata, key="ksparse_R")


def test_new_cells_of_the_groups_are_placed_and_others_keep_theirs(refined, grouped):
    new = grouped[::-1].copy()
    ks.tl.predict(refined, new, key="ksparse_R")
    assert new.obs["ksparse_R"][::-1].equals(refined.obs["ksparse_R"])
    assert new.obs["ksparse_R_clustered"][::-1].equals(refined.obs["ksparse_R_clustered"])
    only_b = grouped[grouped.obs["group"] == "b"].copy()
    ks.tl.predict(refined, only_b, key="ksparse_R")
    assert only_b.obs["ksparse_R"].cat.categories.tolist() == ["b-c,0", "b-c,1"]
    del only_b.obs["group"]
    with pytest.raises(ValueError, match="obs\\['group'\\] is one of 'b', 'c', and new_adata does"):
        ks.tl.predict(refined, only_b, key="ksparse_R")
    neither = grouped[grouped.obs["group"] == "a"].copy()
    with pytest.raises(ValueError, match="names 'b', 'c', which no cell has"):
        ks.tl.predict(refined, neither, key="ksparse_R")


# What cannot be


@pytest.mark.parametrize(
    ("restrict_to", "part"),
    [
        (("no", "b"), "restrict_to='no' is not a column of adata.obs: choose from .*'group'"),
        (("group", ["b", "x", "y"]), "names 'x', 'y', which no cell has in adata.obs\\['group'\\]: "
         "choose from 'a', 'b', 'c', 'd'"),
        ("group", "must be a pair \\(column, groups\\), got 'group'"),
        (("group",), "must be a pair"),
        ((3, "b"), "must be a pair"),
        (("group", []), "at least one group of 'group', got \\[\\]"),
        (("group", None), "at least one group of 'group', got None"),
        (("clash", "b"), "obs\\['clash'\\] has the group 'b,1', which would be the name"),
        (("rare", "x"), "n_samples=1 should be >= n_clusters=2"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_in_one_sentence(grouped, restrict_to, part):
    adata = grouped.copy()
    adata.obs["clash"] = np.where(np.arange(adata.n_obs) < 100, "b", "b,1")
    adata.obs["rare"] = np.where(np.arange(adata.n_obs) < 1, "x", "y")
    before = list(adata.obs)
    with pytest.raises(ValueError, match=part) as caught:
        ks.tl.ksparse(adata, 2, restrict_to=restrict_to, **FIT)
    assert "\n" not in str(caught.value)
    assert list(adata.obs) == before


def test_bad_values_in_other_cells_are_told(grouped):
    adata = grouped.copy()
    adata.X = np.log1p(adata.X.toarray().astype(np.float64))
    adata.X[2, 5] = np.nan
    other = adata.obs["group"].iloc[2]
    with pytest.raises(ValueError, match="NaN"):
        ks.tl.ksparse(adata, 2, restrict_to=("group", list(set("abcd") - {other})), random_state=0)


def test_damaged_restrictions_are_refused(refined):
    for damaged in (np.array(["group"]), 3.0, np.array([["group", "b"]])):
        adata = refined.copy()
        adata.uns["ksparse_R"]["params"]["restrict_to"] = damaged
        with pytest.raises(ValueError, match="params.restrict_to"):
            read_record(adata, "ksparse_R")
    adata = refined.copy()
    adata.obs["ksparse_R_clustered"] = "yes"
    with pytest.raises(ValueError, match="must be True or False"):
        clustered_cells(adata, "ksparse_R")


# The command line


def run(*words):
    return main([str(word) for word in words])


def table(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.thorough
def test_the_shell_clusters_some_groups(grouped, alone, tmp_path, capsys):
    grouped.write_h5ad(tmp_path / "cells.h5ad")
    words = ["run", tmp_path / "cells.h5ad", "-k", 2, "--genes", 12, "--path", "--min-cells", 1]
    words += ["--label-column", "label", "--restrict-to", "group=b,c"]
    assert run(*words, "-o", tmp_path / "out") == 0
    out = capsys.readouterr().out
    n = alone.n_obs
    assert f"{n} cells in 2 clusters" in out
    assert f"{grouped.n_obs - n} other cells keep their group of 'group'." in out
    rows = table(tmp_path / "out" / "clusters.csv")
    chosen = grouped.obs["group"].isin(["b", "c"]).to_numpy()
    named = [f"b-c,{label}" for label in alone.obs["ksparse"]]
    assert [row["cluster"] for row, here in zip(rows, chosen, strict=True) if here] == named
    kept = grouped.obs["group"][~chosen].astype(object).fillna("").tolist()
    assert [row["cluster"] for row, here in zip(rows, chosen, strict=True) if not here] == kept
    assert {row["margin"] == "" for row in rows} == {True, False}
    genes = table(tmp_path / "out" / "genes.csv")
    assert {row["cluster"] for row in genes} <= {"b-c,0", "b-c,1"}
    assert "mean_b-c,1" in genes[0]
    data = json.loads((tmp_path / "out" / "run.json").read_text())
    assert "--restrict-to group=b,c" in data["command"].replace("'", "")
    assert data["input"]["cells clustered"] == n
    assert page_data(tmp_path / "out" / "report.html")["path"] is not None
    # Other commands read the result, and it can be refined again, where names hold commas.
    result = tmp_path / "out" / "result.h5ad"
    assert run("report", result, "-o", tmp_path / "again.html") == 0
    placing = ["predict", result, tmp_path / "cells.h5ad", "--label-column", "label"]
    assert run(*placing, "-o", tmp_path / "placed") == 0
    placed = [row["cluster"] for row in table(tmp_path / "placed" / "clusters.csv")]
    assert placed == [row["cluster"] for row in rows]
    words = ["run", result, "-k", 2, "--genes", 5, "--restrict-to", "ksparse=b-c,0,a"]
    assert run(*words, "-o", tmp_path / "finer") == 0
    finer = anndata.read_h5ad(tmp_path / "finer" / "result.h5ad")
    names = ["b-c,0-a,0", "b-c,0-a,1", "b-c,1", "d"]
    assert sorted(finer.obs["ksparse"].cat.categories) == names
    notes = json.loads((tmp_path / "finer" / "run.json").read_text())["notes"]
    assert "The clusters of INPUT are refined; its own genes are left out." in notes


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ("group", "'group' must be a column and groups, such as type=T,NK."),
        ("group=", "must be a column and groups"),
        ("group=b,x", "--restrict-to names 'x', which no cell has in obs['group']: choose from"),
        ("group=b", "--label-column 'partly' is empty for all 60 cells of --restrict-to 'group=b'"),
        ("no=b", "--restrict-to 'no' is not a column of obs: choose from 'label'"),
    ],
)
def test_the_shell_tells_what_cannot_be(grouped, tmp_path, capsys, given, part):
    adata = grouped.copy()
    adata.obs["partly"] = adata.obs["label"].where(adata.obs["group"] != "b")
    adata.write_h5ad(tmp_path / "cells.h5ad")
    words = ["run", tmp_path / "cells.h5ad", "-k", 2, "--restrict-to", given]
    words += ["--label-column", "partly"]
    assert run(*words, "-o", tmp_path / "out") == 2
    assert part in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
