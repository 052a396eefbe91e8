"""ksparse.tl: results in AnnData objects, and what other tools make of them."""

from __future__ import annotations

import warnings

import numpy as np
import pandas
import pytest
import scipy.sparse as sp
from sklearn.decomposition import PCA

import ksparse as ks
from conftest import ARRAY_KINDS, crossed, seeds, thorough_params
from ksparse import KSparse
from ksparse.metrics import adjusted_rand_score, clustering_accuracy
from ksparse.normalise import log_normalise

anndata = pytest.importorskip("anndata")

FIT = {"n_features": 12, "random_state": 0}


def fitted(adata, n_clusters=3, **options):
    return ks.tl.ksparse(adata, n_clusters, **(FIT | {"normalize": "log1p"} | options), copy=True)


def same_result(a, b, key="ksparse"):
    assert a.obs[key].tolist() == b.obs[key].tolist()
    assert a.var[f"{key}_selected"].tolist() == b.var[f"{key}_selected"].tolist()
    np.testing.assert_allclose(a.varm[key], b.varm[key], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(a.obsm[key], b.obsm[key], rtol=1e-3, atol=1e-3)


def test_every_field_is_written_and_agrees_with_the_estimator(simulated, clustered):
    X = log_normalise(simulated.X)
    model = KSparse(3, n_features=12, random_state=0).fit(X)
    assert isinstance(clustered.obs["ksparse"].dtype, pandas.CategoricalDtype)
    assert clustered.obs["ksparse"].cat.categories.tolist() == ["0", "1", "2"]
    assert clustered.obs["ksparse"].astype(int).tolist() == model.labels_.tolist()
    np.testing.assert_array_equal(clustered.var["ksparse_selected"], model.get_support())
    np.testing.assert_array_equal(clustered.var["ksparse_weight"], model.feature_importances_)
    np.testing.assert_array_equal(clustered.varm["ksparse"], model.weights_)
    np.testing.assert_array_equal(clustered.obsm["ksparse"], model.project(X))
    entry = clustered.uns["ksparse"]
    assert entry["params"]["n_clusters"] == 3
    assert entry["params"]["random_state"] == 0
    assert entry["results"]["n_features"] == 12
    assert entry["results"]["normalized"] == "log1p"
    np.testing.assert_array_equal(entry["history"]["cost"], model.cost_history_)
    assert entry["versions"]["ksparse"] == ks.__version__
    chosen = model.get_support()
    names = simulated.var_names[chosen]
    assert entry["model"]["genes"].tolist() == names.tolist()
    dense = X.toarray()[:, chosen]
    for cluster in range(3):
        here = model.labels_ == cluster
        assert entry["clusters"]["size"][cluster] == here.sum()
        np.testing.assert_allclose(
            entry["clusters"]["mean"][cluster], dense[here].mean(axis=0), rtol=1e-5
        )
        np.testing.assert_allclose(
            entry["clusters"]["fraction"][cluster], (dense[here] > 0).mean(axis=0)
        )
    assert clustering_accuracy(simulated.obs["label"], clustered.obs["ksparse"]) > 0.9


@pytest.mark.parametrize(
    ("array_kind", "dtype"),
    crossed(list(ARRAY_KINDS), [np.float32, np.float64, np.int32]),
    indirect=["array_kind"],
)
def test_every_kind_of_matrix_gives_the_same(simulated, clustered, array_kind, dtype):
    counts = simulated.X.toarray().astype(dtype)
    adata = anndata.AnnData(array_kind(counts), obs=simulated.obs.copy(), var=simulated.var.copy())
    before = adata.X.copy()
    assert ks.tl.ksparse(adata, 3, normalize="log1p", **FIT) is None
    same_result(adata, clustered)
    assert abs(adata.X - before).sum() == 0
    assert adata.X.dtype == dtype


def test_layers_are_used_and_raw_is_never_read(simulated, clustered):
    adata = simulated.copy()
    adata.layers["log"] = log_normalise(adata.X)
    adata.X = sp.csr_matrix(np.random.default_rng(0).normal(size=adata.shape))
    adata.raw = adata.copy()
    assert ks.tl.ksparse(adata, 3, layer="log", **FIT) is None
    same_result(adata, clustered)
    assert adata.uns["ksparse"]["params"]["layer"] == "log"


@pytest.mark.parametrize("kind", thorough_params([sp.csr_matrix, np.asarray], [sp.csc_matrix]))
def test_backed_files_give_the_same_and_are_not_changed(simulated, clustered, tmp_path, kind):
    path = tmp_path / "cells.h5ad"
    values = simulated.X.toarray()
    anndata.AnnData(kind(values), obs=simulated.obs, var=simulated.var).write_h5ad(path)
    before = path.read_bytes()
    backed = anndata.read_h5ad(path, backed="r")
    assert ks.tl.ksparse(backed, 3, normalize="log1p", **FIT) is None
    assert backed.isbacked
    same_result(backed, clustered)
    copied = fitted(backed)
    assert not copied.isbacked
    same_result(copied, clustered)
    ks.tl.rank_genes(backed)
    backed.file.close()
    assert path.read_bytes() == before


@pytest.fixture(scope="module")
def with_all(with_path):
    """Two results and a path; use a copy to change it."""
    adata = with_path[0].copy()
    ks.tl.ksparse(adata, 3, n_features=9, normalize="log1p", random_state=np.random.RandomState(0),
                  init=["graph", "spectral"], max_labels=2, eta=None, mask_var="is_marker",
                  key_added="other")  # fmt: skip
    return adata


@pytest.mark.parametrize("kind", ["h5ad", "zarr"])
@pytest.mark.filterwarnings("ignore:Writing zarr v2 data")
def test_results_survive_files(with_all, simulated, tmp_path, kind):
    path = tmp_path / f"cells.{kind}"
    adata = with_all.copy()
    getattr(adata, f"write_{kind}")(path)
    again = getattr(anndata, f"read_{kind}")(path)
    same_result(adata, again)
    same_result(adata, again, "other")
    for part in ("params", "results", "model", "clusters", "history", "starts", "versions"):
        for name, value in adata.uns["ksparse"][part].items():
            np.testing.assert_array_equal(
                np.asarray(value), np.asarray(again.uns["ksparse"][part][name])
            )
    assert again.uns["other"]["params"]["init"].tolist() == ["graph", "spectral"]
    assert again.obsm["other_memberships"].shape == (240, 3)
    for name, values in adata.uns["ksparse_path"].items():
        np.testing.assert_array_equal(values, again.uns["ksparse_path"][name])
    # What was read from a file serves as the model does.
    new = simulated[:50].copy()
    ks.tl.predict(again, new)
    assert new.obs["ksparse"].tolist() == adata.obs["ksparse"][:50].tolist()
    ks.tl.rank_genes(again)
    assert again.uns["rank_genes_groups"]["names"]["1"].tolist() == list(
        adata.uns["rank_genes_groups"]["names"]["1"]
    )


@pytest.mark.parametrize("as_column", [True, False])
def test_only_genes_of_the_mask_take_part(simulated, as_column):
    adata = simulated.copy()
    mask = np.arange(adata.n_vars) % 2 == 0
    adata.var["even"] = mask
    ks.tl.ksparse(adata, 3, normalize="log1p", mask_var="even" if as_column else mask, **FIT)
    alone = KSparse(3, **FIT).fit(log_normalise(adata.X)[:, np.flatnonzero(mask)])
    np.testing.assert_array_equal(adata.obs["ksparse"].astype(int), alone.labels_)
    assert not adata.var["ksparse_selected"][~mask].any()
    assert not adata.varm["ksparse"][~mask].any()
    np.testing.assert_array_equal(adata.varm["ksparse"][mask], alone.weights_)
    assert adata.uns["ksparse"]["results"]["n_genes"] == mask.sum()


def test_raw_counts_are_told_and_auto_normalises_them(simulated, clustered):
    with pytest.warns(UserWarning, match="looks like raw counts.*normalize='log1p'"):
        fitted(simulated, normalize=None)
    same_result(fitted(simulated, normalize="auto"), clustered)
    logged = simulated.copy()
    logged.X = log_normalise(logged.X)
    same_result(fitted(logged, normalize="auto"), clustered)
    per_million = simulated.copy()
    per_million.X = sp.csr_matrix(np.expm1(logged.X.toarray()) * 100)
    with pytest.warns(UserWarning, match="too large for logarithms"):
        fitted(per_million, normalize="auto")


def test_a_copy_leaves_the_original_alone(simulated):
    before = simulated.copy()
    fitted(simulated)
    assert list(simulated.obs) == list(before.obs)
    assert not simulated.uns
    assert not simulated.obsm


def test_the_key_names_every_field(simulated):
    adata = fitted(simulated, key_added="mine")
    assert {"mine"} <= set(adata.obs)
    assert {"mine_selected", "mine_weight"} <= set(adata.var)
    assert "mine" in adata.varm
    assert "mine" in adata.obsm
    assert "ksparse" not in adata.uns


@pytest.mark.parametrize(
    ("change", "options", "error", "part"),
    [
        (None, {"layer": "no"}, ValueError, "layer='no' is not in adata.layers: there is none"),
        (None, {"mask_var": "no"}, ValueError, "mask_var='no'.*'is_marker'"),
        (None, {"mask_var": np.ones(3, bool)}, ValueError, "300 genes, got shape"),
        (None, {"mask_var": np.zeros(300, bool)}, ValueError, "0 of 300 genes"),
        (None, {"mask_var": np.ones(300)}, ValueError, "dtype float64"),
        (None, {"normalize": "yes"}, ValueError, "normalize='yes'"),
        (None, {"key_added": ""}, ValueError, "key_added=''"),
        (None, {"key_added": "a/b"}, ValueError, "key_added='a/b'"),
        (None, {"n_features": 1000}, ValueError, "n_features=1000 should be <= 300"),
        (None, {"wrong": 1}, TypeError, "wrong"),
        ("repeated", {}, ValueError, "1 repeated gene names .*'gene_0'.*var_names_make_unique"),
        ("no X", {}, ValueError, "adata has no X: give layer="),
        ("nan", {"normalize": None}, ValueError, "NaN"),
        ("negative", {}, ValueError, "negative"),
        ("array", {}, TypeError, "got ndarray.*KSparse"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_in_one_sentence(simulated, change, options, error, part):
    adata = simulated.copy()
    if change == "repeated":
        adata.var_names = ["gene_0", "gene_0", *adata.var_names[2:]]
    elif change == "no X":
        adata.X = None
    elif change in ("nan", "negative"):
        adata.X = adata.X.astype(np.float64)
        adata.X.data[3] = np.nan if change == "nan" else -1
    elif change == "array":
        adata = adata.X.toarray()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Variable names are not unique")
        with pytest.raises(error, match=part) as caught:
            ks.tl.ksparse(adata, 3, **({"normalize": "log1p", "n_features": 12} | options))
    assert "\n" not in str(caught.value)


def test_more_clusters_than_cells_are_refused(simulated):
    with pytest.raises(ValueError, match="n_samples=3 should be >= n_clusters=5"):
        ks.tl.ksparse(simulated[:3].copy(), 5, normalize="log1p")


def test_margins_tell_how_clear_a_cluster_is(clustered):
    P, centres = clustered.obsm["ksparse"], clustered.uns["ksparse"]["model"]["centroids"]
    away = np.sort(np.linalg.norm(P[:, None] - centres, axis=2), axis=1)
    expected = (away[:, 1] - away[:, 0]) / away[:, 1]
    np.testing.assert_allclose(clustered.obs["ksparse_margin"], expected, rtol=1e-3, atol=1e-4)
    truth = clustered.obs["label"].to_numpy()
    right = ks.metrics.correctly_placed(truth, clustered.obs["ksparse"])
    margin = clustered.obs["ksparse_margin"]
    assert margin[right].mean() > margin[~right].mean() + 0.2


def test_a_second_fit_leaves_nothing_of_the_first(simulated):
    adata = fitted(simulated, max_labels=2)
    ks.tl.rank_genes(adata)
    ks.tl.embed(adata)
    ks.tl.ksparse(adata, 2, normalize="log1p", **FIT)
    assert "ksparse_tsne" not in adata.obsm
    assert "ksparse_memberships" not in adata.obsm
    assert "ksparse_log_odds" not in adata.obs
    assert "ksparse_contribution" not in adata.varm
    assert "rank_genes_groups" not in adata.uns


def test_columns_of_the_user_are_not_overwritten(simulated, clustered):
    adata = simulated.copy()
    with pytest.raises(ValueError, match="adata.obs\\['label'\\] exists and was not written"):
        ks.tl.ksparse(adata, 3, normalize="log1p", key_added="label", **FIT)
    with pytest.raises(ValueError, match="exists and was not written by ksparse"):
        ks.tl.predict(clustered, adata, key_added="label")
    other = fitted(simulated, n_clusters=4)
    with pytest.raises(ValueError, match="has a result of its own under 'ksparse'"):
        ks.tl.predict(clustered, other)
    ks.tl.predict(clustered, other, key_added="placed")
    assert other.obs["placed"].tolist() == clustered.obs["ksparse"].tolist()
    ks.tl.predict(clustered, other, key_added="placed")  # its own column it may replace


@pytest.mark.parametrize("name", ["", "a/b", 3])
def test_names_of_fields_are_checked_everywhere(clustered, simulated, name):
    adata = clustered.copy()
    with pytest.raises(ValueError, match="key_added="):
        ks.tl.rank_genes(adata, key_added=name)
    with pytest.raises(ValueError, match="key_added="):
        ks.tl.predict(clustered, simulated.copy(), key_added=name)
    with pytest.raises(ValueError, match="key_added="):
        ks.tl.path(adata, 3, key_added=name, normalize="log1p")


def test_a_result_is_not_replaced_by_what_is_made_from_it(clustered):
    adata = clustered.copy()
    with pytest.raises(ValueError, match="key_added='ksparse' holds the result itself"):
        ks.tl.rank_genes(adata, key_added="ksparse")
    with pytest.raises(ValueError, match="key_added='ksparse' holds a result"):
        ks.tl.path(adata, 3, key_added="ksparse", normalize="log1p")


def test_logarithms_are_not_taken_twice_without_a_word(simulated, clustered):
    logged = simulated.copy()
    logged.X = log_normalise(logged.X)
    with pytest.warns(UserWarning, match="does not look like counts.*give normalize=None"):
        fitted(logged)
    with pytest.warns(UserWarning, match="does not look like counts"):
        ks.tl.predict(clustered, logged)


def test_a_view_of_a_backed_object_is_refused_before_the_fit(simulated, tmp_path):
    simulated.write_h5ad(tmp_path / "c.h5ad")
    backed = anndata.read_h5ad(tmp_path / "c.h5ad", backed="r")
    with pytest.raises(ValueError, match="view of a backed object"):
        ks.tl.ksparse(backed[:100], 3, normalize="log1p")
    backed.file.close()


# rank_genes


def test_contributions_are_signed_shares(clustered, simulated):
    shares = clustered.varm["ksparse_contribution"]
    chosen = clustered.var["ksparse_selected"].to_numpy()
    assert shares.shape == (300, 3)
    assert not shares[~chosen].any()
    X = log_normalise(simulated.X).toarray()[:, chosen]
    labels = clustered.obs["ksparse"].astype(int).to_numpy()
    model = clustered.uns["ksparse"]["model"]
    for cluster in range(3):
        centre = model["centroids"][cluster]
        difference = (X[labels == cluster].mean(axis=0) - X.mean(axis=0)) * model["scale"]
        part = difference * (model["weights"] @ centre) / (centre @ centre)
        # Their unsigned parts make up the cluster's distance from the middle.
        assert part.sum() == pytest.approx(1.0, abs=0.02)
        np.testing.assert_allclose(
            np.sign(difference) * np.abs(part), shares[chosen, cluster], rtol=1e-3, atol=1e-6
        )
        # The gene that contributes most to the cluster is high there.
        best = shares[chosen, cluster].argmax()
        assert difference[best] > 0


def test_the_ranking_is_in_scanpys_schema(clustered):
    sc = pytest.importorskip("scanpy")
    ranking = clustered.uns["rank_genes_groups"]
    assert ranking["params"]["groupby"] == "ksparse"
    assert ranking["params"]["method"] == "ksparse"
    for cluster in "012":
        table = sc.get.rank_genes_groups_df(clustered, cluster)
        assert len(table) == 12
        assert (np.diff(table["scores"]) <= 0).all()
        assert table["pvals"].isna().all()
        assert table["pvals_adj"].isna().all()
        assert table["logfoldchanges"].iloc[0] > 0
        where = clustered.var_names.get_indexer(table["names"])
        np.testing.assert_allclose(
            table["scores"],
            clustered.varm["ksparse_contribution"][where, int(cluster)],
            rtol=1e-5,
        )


def test_fold_changes_are_those_of_scanpy(clustered, simulated):
    sc = pytest.importorskip("scanpy")
    adata = clustered.copy()
    adata.X = sp.csr_matrix(log_normalise(simulated.X))
    sc.tl.rank_genes_groups(adata, "ksparse", method="t-test", key_added="theirs")
    for cluster in "012":
        ours = sc.get.rank_genes_groups_df(adata, cluster).set_index("names")["logfoldchanges"]
        theirs = sc.get.rank_genes_groups_df(adata, cluster, key="theirs").set_index("names")
        np.testing.assert_allclose(ours, theirs.loc[ours.index, "logfoldchanges"], rtol=1e-3)


@pytest.mark.filterwarnings("ignore")  # of scanpy and matplotlib
@pytest.mark.parametrize("kind", ["dotplot", "heatmap", "matrixplot", "stacked_violin"])
def test_scanpys_pictures_read_the_ranking(clustered, kind):
    sc = pytest.importorskip("scanpy")
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    adata = clustered.copy()
    getattr(sc.pl, f"rank_genes_groups_{kind}")(adata, n_genes=3, show=False, dendrogram=False)
    texts = {
        text.get_text()
        for ax in pyplot.gcf().axes
        for text in ax.get_xticklabels() + ax.get_yticklabels()
    }
    assert str(adata.uns["rank_genes_groups"]["names"]["0"][0]) in texts
    pyplot.close("all")


@pytest.mark.filterwarnings("ignore")
def test_scanpy_draws_the_coordinates(clustered):
    sc = pytest.importorskip("scanpy")
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    sc.pl.embedding(clustered, "ksparse_tsne", color="ksparse", show=False)
    pyplot.close("all")


@pytest.mark.parametrize("change", ["reordered", "renamed", "sorted"])
def test_genes_stay_with_their_cluster_whatever_its_name_or_place(clustered, change):
    adata = clustered.copy()
    column = adata.obs["ksparse"]
    new = {"0": "0", "1": "1", "2": "2"}
    if change == "reordered":
        adata.obs["ksparse"] = column.cat.reorder_categories(["2", "0", "1"])
    else:
        new = {"0": "zebra", "1": "ant", "2": "mole"}
        adata.obs["ksparse"] = column.cat.rename_categories(new)
        if change == "sorted":
            adata.obs["ksparse"] = adata.obs["ksparse"].astype(str).astype("category")
    ks.tl.rank_genes(adata)
    for cluster, name in new.items():
        ours = adata.uns["rank_genes_groups"]["names"][name].tolist()
        assert ours == clustered.uns["rank_genes_groups"]["names"][cluster].tolist()


@pytest.mark.parametrize(
    "new",
    [
        {"0": "a", "1": "a", "2": "b"},
        {"0": "0", "1": "0", "2": "2"},  # names that are still numbers
        {"0": "0", "1": "2", "2": "2"},
    ],
)
def test_merged_clusters_are_refused(clustered, new):
    adata = clustered.copy()
    adata.obs["ksparse"] = adata.obs["ksparse"].astype(str).map(new).astype("category")
    with pytest.raises(ValueError, match="not the 3 clusters of the result one to one"):
        ks.tl.rank_genes(adata)


def test_groups_that_cut_across_the_clusters_are_refused(clustered):
    adata = clustered.copy()
    groups = np.array(["x", "y", "z"])[np.arange(adata.n_obs) % 3]
    adata.obs["ksparse"] = pandas.Categorical(groups)
    with pytest.raises(ValueError, match="not the 3 clusters of the result one to one"):
        ks.tl.rank_genes(adata)


def test_markers_of_a_cluster_are_high_there(clustered):
    entry = clustered.uns["ksparse"]
    shares = clustered.varm["ksparse_contribution"][clustered.var["ksparse_selected"]]
    higher = entry["clusters"]["mean"] > entry["model"]["mean"]
    np.testing.assert_array_equal(shares.T > 0, higher)


def test_fewer_genes_can_be_listed_and_another_ranking_is_not_lost_silently(clustered):
    adata = clustered.copy()
    ks.tl.rank_genes(adata, n_genes=4, key_added="mine")
    assert len(adata.uns["mine"]["names"]) == 4
    adata.uns["rank_genes_groups"]["params"]["method"] = "wilcoxon"
    with pytest.warns(UserWarning, match="held a ranking by 'wilcoxon'.*another key_added"):
        ks.tl.rank_genes(adata)
    copied = ks.tl.rank_genes(clustered, key_added="new", copy=True)
    assert "new" in copied.uns
    assert "new" not in clustered.uns


def test_ranking_needs_a_result_and_its_genes(clustered, simulated):
    with pytest.raises(ValueError, match="run ksparse.tl.ksparse"):
        ks.tl.rank_genes(simulated)
    few = clustered[:, ~clustered.var["ksparse_selected"].to_numpy()].copy()
    with pytest.raises(ValueError, match="12 of 12 selected genes are not in adata"):
        ks.tl.rank_genes(few)


def test_one_cluster_has_no_genes_and_says_so(simulated):
    with pytest.warns(
        UserWarning, match="n_clusters=1 has nothing to tell apart: 0 of n_features=5"
    ):
        adata = fitted(simulated, n_features=5, n_clusters=1)
    assert not adata.var["ksparse_selected"].any()
    ks.tl.rank_genes(adata)
    assert len(adata.uns["rank_genes_groups"]["names"]) == 0
    with pytest.raises(ValueError, match="model selected no genes"):
        ks.tl.predict(adata, simulated.copy())


# predict


def test_known_cells_get_their_own_clusters_back(clustered, simulated):
    new = simulated.copy()
    assert ks.tl.predict(clustered, new) is None
    assert new.obs["ksparse"].tolist() == clustered.obs["ksparse"].tolist()
    np.testing.assert_allclose(new.obsm["ksparse"], clustered.obsm["ksparse"], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(
        new.obs["ksparse_margin"], clustered.obs["ksparse_margin"], atol=1e-4
    )


@pytest.mark.parametrize("seed", seeds(1, 3))
def test_genes_are_aligned_by_name(clustered, simulated, array_kind, seed):
    order = np.random.default_rng(seed).permutation(simulated.n_vars)
    logged = log_normalise(simulated.X).toarray()
    new = anndata.AnnData(
        array_kind(logged[:, order]), obs=simulated.obs.copy(), var=simulated.var.iloc[order].copy()
    )
    placed = ks.tl.predict(clustered, new, normalize=None, copy=True)
    assert placed.obs["ksparse"].tolist() == clustered.obs["ksparse"].tolist()
    assert "ksparse" not in new.obs


def test_missing_genes_are_named_and_too_many_are_refused(clustered, simulated):
    chosen = np.flatnonzero(clustered.var["ksparse_selected"])
    lost = chosen[:2]
    new = simulated[:, np.setdiff1d(np.arange(300), lost)].copy()
    names = ", ".join(repr(str(simulated.var_names[i])) for i in lost)
    with pytest.warns(UserWarning, match=f"lacks 2 of the 12 selected genes.*{names}"):
        ks.tl.predict(clustered, new)
    agreement = adjusted_rand_score(new.obs["ksparse"], clustered.obs["ksparse"])
    assert agreement > 0.8
    new = simulated[:, np.setdiff1d(np.arange(300), chosen[:7])].copy()
    with pytest.raises(
        ValueError, match="has 5 of the 12 selected genes, fewer than min_share=0.8.*and 2 more"
    ):
        ks.tl.predict(clustered, new)
    with pytest.warns(UserWarning, match="lacks 7"):
        ks.tl.predict(clustered, new, min_share=0.3)


def test_a_missing_gene_counts_as_its_mean(clustered, simulated):
    X = log_normalise(simulated.X).toarray()
    lost = int(np.flatnonzero(clustered.var["ksparse_selected"])[0])
    filled = anndata.AnnData(X.copy(), var=simulated.var.copy())
    filled.X[:, lost] = X[:, lost].mean()
    ks.tl.predict(clustered, filled, normalize=None)
    without = anndata.AnnData(
        np.delete(X, lost, axis=1), var=simulated.var.drop(index=f"gene_{lost}")
    )
    with pytest.warns(UserWarning, match="lacks 1"):
        ks.tl.predict(clustered, without, normalize=None)
    np.testing.assert_allclose(
        filled.obsm["ksparse"], without.obsm["ksparse"], rtol=1e-3, atol=1e-3
    )


def test_results_of_data_that_are_not_centred_say_so_and_place_cells(simulated):
    adata = ks.tl.ksparse(simulated, 3, **FIT, normalize="log1p", center=False, copy=True)
    record = adata.uns["ksparse"]
    assert not record["params"]["center"]
    assert not record["model"]["mean"].any()
    placed = ks.tl.predict(adata, simulated, copy=True)
    assert placed.obs["ksparse"].tolist() == adata.obs["ksparse"].tolist()
    # Contributions are still those to the distance from the middle of all cells.
    ks.tl.rank_genes(adata)
    chosen = adata.var["ksparse_selected"].to_numpy()
    X = log_normalise(simulated.X).toarray()[:, chosen]
    labels = adata.obs["ksparse"].astype(int).to_numpy()
    for cluster in range(3):
        shares = adata.varm["ksparse_contribution"][chosen, cluster]
        difference = X[labels == cluster].mean(axis=0) - X.mean(axis=0)
        assert (np.sign(shares) == np.sign(difference)).all()
        direction = record["model"]["weights"] @ (
            adata.obsm["ksparse"][labels == cluster].mean(axis=0)
            - adata.obsm["ksparse"].mean(axis=0)
        )
        signed = np.abs(shares) * np.sign(difference * direction)
        assert signed.sum() == pytest.approx(1.0, abs=0.02)
    lost = np.flatnonzero(chosen)[0]
    with pytest.warns(UserWarning, match="lacks 1 of the 12 selected genes.*replaced by zero"):
        ks.tl.predict(adata, simulated[:, np.arange(300) != lost].copy())


def test_a_model_of_a_data_frame_places_cells_too(simulated):
    frame = pandas.DataFrame(log_normalise(simulated.X).toarray(), columns=simulated.var_names)
    model = KSparse(3, **FIT).fit(frame)
    logged = anndata.AnnData(frame.to_numpy(), var=simulated.var.copy())
    ks.tl.predict(model, logged)
    assert logged.obs["ksparse"].astype(int).tolist() == model.labels_.tolist()
    nameless = KSparse(3, **FIT).fit(frame.to_numpy())
    with pytest.raises(ValueError, match="does not know the names of its features"):
        ks.tl.predict(nameless, logged)


def test_new_cells_are_read_from_the_layer_of_the_model(simulated):
    adata = simulated.copy()
    adata.layers["log"] = log_normalise(adata.X)
    model = ks.tl.ksparse(adata, 3, layer="log", copy=True, **FIT)
    new = adata.copy()
    ks.tl.predict(model, new)
    assert new.obs["ksparse"].tolist() == model.obs["ksparse"].tolist()
    with pytest.raises(ValueError, match="fitted on layer='log', which new_adata does not have"):
        ks.tl.predict(model, simulated.copy())
    logged = simulated.copy()
    logged.X = log_normalise(logged.X)
    ks.tl.predict(model, logged, layer="X")
    assert logged.obs["ksparse"].tolist() == model.obs["ksparse"].tolist()


def test_all_clusters_are_categories_even_if_no_cell_is_in_them(clustered, simulated):
    only = simulated[clustered.obs["ksparse"].to_numpy() == "2"].copy()
    ks.tl.predict(clustered, only)
    assert only.obs["ksparse"].cat.categories.tolist() == ["0", "1", "2"]
    assert set(only.obs["ksparse"]) == {"2"}


@pytest.mark.parametrize("share", [0, 1.5, "all", -1])
def test_impossible_shares_are_refused(clustered, simulated, share):
    with pytest.raises(ValueError, match="min_share"):
        ks.tl.predict(clustered, simulated.copy(), min_share=share)


@pytest.mark.filterwarnings("ignore:Layer 'deep' must be 2-dimensional")  # anndata 0.13
def test_a_layer_of_more_than_two_axes_is_refused_only_where_it_is_used(simulated):
    adata = simulated.copy()
    adata.layers["deep"] = np.ones((*adata.shape, 3), dtype=np.float32)
    with pytest.raises(ValueError, match=r"layer='deep' must be cells x genes, got .* 3\)\."):
        ks.tl.ksparse(adata, 3, layer="deep", **FIT)
    ks.tl.ksparse(adata, 3, normalize="log1p", **FIT)
    assert "ksparse" in adata.obs


# embed and path


def first_two(P, seed):
    """Principal components, where UMAP would take a minute to compile."""
    return PCA(2).fit_transform(P)


@pytest.mark.parametrize(
    ("method", "stand_in"), thorough_params([("tsne", False), ("umap", True)], [("umap", False)])
)
def test_coordinates_keep_clusters_apart_and_repeat(clustered, method, stand_in, monkeypatch):
    if stand_in:
        monkeypatch.setattr("ksparse.scverse.layout._umap", first_two)
    elif method == "umap":
        pytest.importorskip("umap")
    once = ks.tl.embed(clustered, method=method, random_state=1, copy=True).obsm[
        f"ksparse_{method}"
    ]
    again = ks.tl.embed(clustered, method=method, random_state=1, copy=True)
    np.testing.assert_array_equal(once, again.obsm[f"ksparse_{method}"])
    assert once.shape == (240, 2)
    assert np.isfinite(once).all()
    centres = [once[(clustered.obs["ksparse"] == c).to_numpy()].mean(axis=0) for c in "012"]
    nearest = np.argmin([((once - centre) ** 2).sum(axis=1) for centre in centres], axis=0)
    assert adjusted_rand_score(nearest, clustered.obs["ksparse"]) > 0.8


def test_cells_beyond_the_most_are_placed_among_their_nearest(monkeypatch):
    from ksparse.scverse import layout

    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], 100)
    P = rng.normal(size=(300, 4)) + 8 * np.eye(3, 4)[labels]
    monkeypatch.setattr(layout, "MAX_POINTS", 120)
    points = layout.layout(P, random_state=0)
    centres = [points[labels == c].mean(axis=0) for c in range(3)]
    nearest = np.argmin([((points - centre) ** 2).sum(axis=1) for centre in centres], axis=0)
    np.testing.assert_array_equal(nearest, labels)
    assert len(np.unique(points, axis=0)) == 300
    np.testing.assert_array_equal(points, layout.layout(P, random_state=0))


@pytest.mark.parametrize(("n", "columns"), [(1, 3), (3, 3), (6, 1), (40, 1)])
def test_few_cells_and_one_dimension_can_be_laid_out(n, columns):
    from ksparse.scverse.layout import layout

    P = np.random.default_rng(0).normal(size=(n, columns))
    assert np.isfinite(layout(P)).all()
    assert layout(np.zeros((n, columns))).shape == (n, 2)


def test_an_unknown_layout_is_refused(clustered):
    with pytest.raises(ValueError, match="method='pca' is unknown; choose from tsne, umap"):
        ks.tl.embed(clustered, method="pca")


def test_the_path_is_that_of_the_matrix(simulated, with_path):
    adata, path = with_path[0].copy(), with_path[1]
    alone = ks.feature_path(
        log_normalise(simulated.X),
        3,
        n_features=[5, 10, 20],
        labels=simulated.obs["label"],
        random_state=0,
    )
    for name, values in alone.columns.items():
        np.testing.assert_array_equal(path.columns[name], values)
        np.testing.assert_array_equal(adata.uns["ksparse_path"][name], values)
    assert adata.uns["ksparse_path"]["best"] == path.best()
    with pytest.raises(ValueError, match="labels='no' is not a column of adata.obs"):
        ks.tl.path(adata, 3, labels="no", normalize="log1p")
    adata.obs["partly"] = pandas.Categorical([None, *adata.obs["label"][1:]])
    with pytest.raises(ValueError, match="1 missing values"):
        ks.tl.path(adata, 3, labels="partly", normalize="log1p")


@pytest.fixture
def backed(simulated, tmp_path):
    adata = simulated.copy()
    adata.var["even"] = np.arange(adata.n_vars) % 2 == 0
    adata.write_h5ad(tmp_path / "cells.h5ad")
    adata = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    yield adata
    adata.file.close()


@pytest.mark.filterwarnings("ignore:There is no plateau")  # few genes of few cells
@pytest.mark.thorough
def test_the_path_of_a_mask_is_the_same_on_backed_data(backed):
    options = {"n_features": [5, 10], "mask_var": "even", "normalize": "log1p", "random_state": 0}
    paths = [ks.tl.path(adata, 3, **options) for adata in (backed, backed.to_memory())]
    np.testing.assert_array_equal(paths[0].labels, paths[1].labels)
    for name, values in paths[1].columns.items():
        np.testing.assert_allclose(paths[0].columns[name], values, rtol=1e-5)
    alone = log_normalise(backed.to_memory().X)[:, np.arange(0, backed.n_vars, 2)]
    alone = ks.feature_path(alone, 3, n_features=[5, 10], random_state=0)
    np.testing.assert_array_equal(paths[0].labels, alone.labels)


@pytest.fixture
def rows_read(monkeypatch):
    """The numbers of rows that are read from files, block by block."""
    from ksparse.matrix.stored import StoredBlocks

    read, real = [], StoredBlocks._stored_block

    def spied(self, start, stop):
        read.append(stop - start)
        return real(self, start, stop)

    monkeypatch.setattr(StoredBlocks, "_stored_block", spied)
    return read


def test_new_cells_in_a_file_are_placed_in_one_pass(clustered, backed, rows_read):
    ks.tl.predict(clustered, backed)
    # Two more look for counts, and for cells without any.
    assert sum(rows_read) == 3 * backed.n_obs
    assert backed.obs["ksparse"].tolist() == clustered.obs["ksparse"].tolist()
    np.testing.assert_allclose(backed.obsm["ksparse"], clustered.obsm["ksparse"], atol=1e-3)


@pytest.mark.parametrize("tool", thorough_params([ks.tl.ksparse], [ks.tl.path]))
def test_the_memory_limit_is_that_of_the_blocks_which_are_read(backed, rows_read, tool):
    n_features = 5 if tool is ks.tl.ksparse else [5, 10]
    options = {"n_features": n_features, "normalize": "log1p", "random_state": 0}
    tool(backed, 3, **options)
    assert max(rows_read) == backed.n_obs
    rows_read.clear()
    tool(backed, 3, memory_limit="100kB", **options)
    assert max(rows_read) < backed.n_obs / 2
    with pytest.raises(ValueError, match="memory_limit='much' must be"):
        tool(backed, 3, memory_limit="much", **options)
