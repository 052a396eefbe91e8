"""Samples that would be a cluster for themselves, and clusters that no feature marks."""

from __future__ import annotations

import csv
import json

import anndata
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import adjusted_rand_score

import ksparse as ks
from conftest import make_clusters, page_content, seeds
from ksparse import KSparse
from ksparse._errors import InputWarning
from ksparse.cli import main
from ksparse.report import write_report

OUTLYING = [20, 90]
# The default start takes no cluster of fewer than five samples; this one does.
FIT = {"n_features": 15, "init": "pca", "random_state": 0}


def with_outlying_samples(seed=0, far=200.0):
    """Three clusters, and two samples that are far from them and from each other."""
    X, labels, _ = make_clusters(seed, n_features=80)
    X[OUTLYING[0], 30:40] += far
    X = np.vstack([X, np.zeros(80)])
    X[OUTLYING[1], 60:70] = far
    return X, np.append(labels, 2)


def apart(X, **options):
    model = KSparse(3, **(FIT | options))
    with pytest.warns(InputWarning, match=r"far from the others .* min_cluster_size=5"):
        model.fit(X)
    return model


@pytest.mark.parametrize("seed", seeds(1, 4))
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_outlying_samples_are_no_clusters(seed, kind):
    X, labels = with_outlying_samples(seed)
    model = apart(kind(X))
    assert model.outlying_.tolist() == OUTLYING
    rest = np.setdiff1d(np.arange(labels.size), OUTLYING)
    assert adjusted_rand_score(labels[rest], model.labels_[rest]) == 1.0
    assert model.labels_.shape == labels.shape
    # As if they were not there.
    without = KSparse(3, **FIT).fit(X[rest])
    assert np.array_equal(without.get_support(), model.get_support())
    np.testing.assert_allclose(without.weights_, model.weights_, atol=1e-5 * abs(X).max())
    assert np.array_equal(without.labels_, model.labels_[rest])
    assert without.outlying_.size == 0


def test_they_may_be_clusters_if_that_is_asked_for():
    X, labels = with_outlying_samples()
    labels[OUTLYING] = [3, 4]
    model = KSparse(5, min_cluster_size=1, **(FIT | {"init": labels, "max_loops": 1})).fit(X)
    assert model.outlying_.size == 0
    assert np.bincount(model.labels_).min() == 1


def test_a_small_cluster_is_kept_where_all_are_small():
    # Two samples are a quarter of the mean size or more.
    X, labels, _ = make_clusters(0, sizes=(4, 4, 2), n_features=20)
    model = KSparse(3, n_features=6, init=labels, random_state=0).fit(X)
    assert adjusted_rand_score(labels, model.labels_) == 1.0
    assert model.outlying_.size == 0


def test_weights_count():
    X, labels = with_outlying_samples()
    weight = np.ones(labels.size)
    weight[OUTLYING] = 10.0  # each is as good as ten samples
    labels[OUTLYING] = [3, 4]
    model = KSparse(5, **(FIT | {"init": labels, "max_loops": 1})).fit(X, sample_weight=weight)
    assert model.outlying_.size == 0
    assert sorted(np.bincount(model.labels_))[:2] == [1, 1]
    with pytest.warns(InputWarning, match="2 samples are so far"):
        KSparse(5, **(FIT | {"init": labels, "max_loops": 1})).fit(X)


def test_samples_of_known_labels_are_not_set_apart():
    X, labels = with_outlying_samples()
    X, labels = X[:-1], labels[:-1]
    labels[OUTLYING[0]] = 3
    model = KSparse(4, **(FIT | {"init": labels, "max_loops": 1}))
    with pytest.warns(InputWarning, match="1 sample is so far"):
        model.fit(X)
    known = np.full(labels.size, None, dtype=object)
    known[[0, 45, 75, OUTLYING[0]]] = ["a", "b", "c", "d"]
    model.fit(X, known_labels=known)
    assert model.outlying_.size == 0
    assert model.known_classes_[model.labels_[OUTLYING[0]]] == "d"


def test_the_same_with_a_checkpoint(tmp_path):
    X, _ = with_outlying_samples()
    model = apart(X)
    for _ in range(2):  # the second continues from the first
        again = apart(X, checkpoint=tmp_path)
        assert again.outlying_.tolist() == OUTLYING
        assert np.array_equal(again.labels_, model.labels_)
        assert np.array_equal(again.weights_, model.weights_)


def test_batches_and_outlying_samples():
    X, labels = with_outlying_samples()
    groups = np.where(np.arange(labels.size) % 2, "a", "b")
    X[groups == "a"] += 3.0
    model = KSparse(3, **FIT)
    with pytest.warns(InputWarning, match="far from the others"):
        model.fit(X, groups=groups)
    assert model.outlying_.tolist() == OUTLYING


def test_a_model_that_was_saved_has_them(tmp_path):
    X, _ = with_outlying_samples()
    model = apart(X)
    model.save(tmp_path / "model.ksparse")
    again = ks.load(tmp_path / "model.ksparse")
    assert again.outlying_.tolist() == OUTLYING
    assert again.unmarked_.tolist() == model.unmarked_.tolist()


@pytest.mark.parametrize("seed", seeds(2, 5))
def test_a_cluster_that_no_selected_feature_marks_is_named(seed):
    # Three features can mark three of four clusters, and the fourth has the mean of others in each.
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(4), 60)
    X = rng.normal(size=(240, 30))
    X[labels == 1, 0] += 8
    X[labels == 2, 1] += 8
    X[labels == 3, 2] += 8
    model = KSparse(4, n_features=3, init=labels, random_state=0).fit(X)
    assert adjusted_rand_score(labels, model.labels_) == 1.0
    (unmarked,) = model.unmarked_
    assert (model.labels_[labels == 0] == unmarked).all()
    X[labels == 0, 3] += 8
    assert KSparse(4, n_features=4, random_state=0).fit(X).unmarked_.size == 0


def test_one_cluster_needs_no_marks():
    X, _, _ = make_clusters(0)
    model = KSparse(1, n_features="auto", random_state=0).fit(X)
    assert model.unmarked_.size == model.outlying_.size == 0


def test_results_in_anndata_tell_of_them(tmp_path):
    X, labels = with_outlying_samples()
    adata = anndata.AnnData(X)
    with pytest.warns(InputWarning, match="far from the others"):
        ks.tl.ksparse(adata, 3, **FIT)
    assert np.flatnonzero(adata.obs["ksparse_outlying"]).tolist() == OUTLYING
    assert adata.uns["ksparse"]["clusters"]["marked"].tolist() == [True] * 3
    adata.write_h5ad(tmp_path / "cells.h5ad")
    again = anndata.read_h5ad(tmp_path / "cells.h5ad")
    assert np.flatnonzero(again.obs["ksparse_outlying"]).tolist() == OUTLYING
    write_report(again, tmp_path / "report.html")
    assert "2 cells were set apart" in page_content(tmp_path / "report.html")["story"]
    # A fit without such cells leaves no column of an earlier one.
    ks.tl.ksparse(adata, 3, **(FIT | {"init": np.minimum(labels, 2)}))
    assert "ksparse_outlying" not in adata.obs


def test_anndata_results_name_clusters_that_no_gene_marks(tmp_path):
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(4), 60)
    adata = anndata.AnnData(rng.normal(size=(240, 30)))
    for cluster in (1, 2, 3):
        adata.X[labels == cluster, cluster] += 8
    with pytest.warns(InputWarning, match="Cluster '.' is marked by none of the 3 selected genes"):
        ks.tl.ksparse(adata, 4, n_features=3, init=labels, random_state=0)
    marked = adata.uns["ksparse"]["clusters"]["marked"]
    assert (~marked).tolist() == [str(c) == adata.obs["ksparse"].iloc[0] for c in range(4)]
    write_report(adata, tmp_path / "report.html")
    assert (
        "marked by none of the 3 selected genes"
        in (page_content(tmp_path / "report.html")["story"])
    )


def test_the_shell_sets_cells_apart_and_says_so(tmp_path, capsys):
    X, _, _ = make_clusters(0, sizes=(60, 40, 6), n_features=80, n_markers=10)
    counts = np.round(np.abs(X) * 3)
    anndata.AnnData(counts).write_h5ad(tmp_path / "cells.h5ad")
    words = [str(tmp_path / "cells.h5ad"), "-k", "3", "--genes", "15", "--normalize", "none"]
    assert main(["run", *words, "--min-cluster-size", "60", "-o", str(tmp_path / "out")]) == 0
    assert "--min-cluster-size 60" in capsys.readouterr().err
    run = json.loads((tmp_path / "out" / "run.json").read_text())
    assert run["results"]["n_outlying"] > 0
    assert "--min-cluster-size 60" in run["command"]
    with (tmp_path / "out" / "clusters.csv").open() as file:
        rows = list(csv.DictReader(file))
    n = sum(row["outlying"] == "True" for row in rows)
    assert n == run["results"]["n_outlying"]
