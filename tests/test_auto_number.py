"""KSparse(n_clusters="auto"): as many clusters as choose_k recommends."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import ksparse as ks
from conftest import make_clusters, seeds
from ksparse import KSparse, choose_k
from ksparse.simulate import simulate_counts

SIZES = (16, 14, 13)


@pytest.fixture(scope="module")
def clear():
    X, labels = make_clusters(0, sizes=SIZES, n_features=60, n_markers=8, shift=5.0)[:2]
    return X, labels


@pytest.fixture(scope="module")
def fitted(clear):
    return KSparse("auto", init="graph", random_state=0).fit(clear[0])


def test_it_is_the_fit_with_the_recommended_number(clear, fitted):
    X, labels = clear
    given = KSparse(3, init="graph", random_state=0).fit(X)
    assert fitted.cluster_number_.recommended == 3
    np.testing.assert_array_equal(fitted.labels_, given.labels_)
    np.testing.assert_array_equal(fitted.weights_, given.weights_)
    assert ks.metrics.adjusted_rand_score(labels, fitted.labels_) > 0.99


def test_what_the_number_is_based_on_is_that_of_choose_k(clear, fitted):
    number = choose_k(sp.csr_array(clear[0]), init="graph", random_state=0)
    assert fitted.cluster_number_.sentence == number.sentence
    np.testing.assert_array_equal(fitted.cluster_number_.columns["k"], number.columns["k"])


@pytest.mark.thorough
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array, sp.csc_matrix])
@pytest.mark.parametrize("seed", range(4))
def test_clear_clusters_are_found_in_every_kind_of_data(kind, seed):
    X, labels = make_clusters(seed, sizes=(60, 50, 40), n_features=100, n_markers=6, shift=3.0)[:2]
    found = KSparse("auto", init="graph").fit_predict(kind(X))
    assert ks.metrics.adjusted_rand_score(labels, found) > 0.99


@pytest.mark.thorough
def test_samples_without_weight_have_no_part_in_the_number(clear):
    X, _ = clear
    weight = np.ones(len(X))
    weight[:3] = 0.0
    model = KSparse("auto", init="graph").fit(X, sample_weight=weight)
    same = KSparse(3, init="graph").fit(X, sample_weight=weight)
    np.testing.assert_array_equal(model.labels_, same.labels_)


@pytest.mark.parametrize("seed", seeds(1, 3))
def test_noise_is_one_cluster_of_no_features_and_a_warning_says_so(seed):
    X = np.random.default_rng(seed).normal(size=(30, 60))
    with pytest.warns(UserWarning, match=r"n_clusters='auto' found no clusters: One cluster"):
        model = KSparse("auto", init="graph").fit(X)
    assert model.n_features_selected_ == 0
    assert not model.labels_.any()
    assert not model.predict(X[:5]).any()


def test_a_later_fit_of_a_given_number_forgets_what_was_tried(clear, fitted):
    model = copy.copy(fitted).set_params(n_clusters=2).fit(clear[0])
    assert not hasattr(model, "cluster_number_")


def test_it_is_cloned_saved_and_calibrated(clear, fitted, tmp_path):
    X, model = clear[0], copy.copy(fitted)
    assert clone(model).n_clusters == "auto"
    model.calibrate(X)
    model.save(tmp_path / "model.ksparse")
    again = ks.load(tmp_path / "model.ksparse")
    assert again.n_clusters == "auto"
    np.testing.assert_array_equal(again.predict(X), model.labels_)
    assert model.predict_set(X).shape == (len(X), 3)


def test_known_labels_need_a_number(clear):
    X, labels = clear
    with pytest.raises(ValueError, match="knows no labels: give a number of clusters"):
        KSparse("auto").fit(X, known_labels=labels)


@pytest.mark.parametrize("n_samples", [1, 2, 3])
def test_very_few_samples_are_refused_in_one_sentence(n_samples):
    X = np.random.default_rng(0).normal(size=(n_samples, 5))
    with pytest.raises(ValueError, match=f"n_samples={n_samples} should be >= 4"):
        KSparse("auto").fit(X)


@pytest.mark.parametrize("n_distinct", [1, 2, 3])
@pytest.mark.filterwarnings("ignore:n_clusters='auto' found no clusters")
def test_few_distinct_samples_are_at_most_that_many_clusters(n_distinct):
    X = np.random.default_rng(0).normal(size=(n_distinct, 20))[np.arange(30) % n_distinct]
    model = KSparse("auto", init="graph").fit(X)
    assert len(model.centroids_) <= n_distinct
    assert np.unique(model.labels_).size == len(model.centroids_)


def test_other_texts_are_refused():
    with pytest.raises(ValueError, match="n_clusters='many' must be an integer"):
        KSparse("many").fit(np.eye(5))


def test_in_anndata_the_numbers_that_were_tried_are_written_beside_the_clusters(tmp_path):
    anndata = pytest.importorskip("anndata")
    adata = simulate_counts(24, 100, 2, fold_change=4.0, random_state=0).to_anndata()
    options = {"init": "graph", "normalize": "log1p", "random_state": 0}
    ks.tl.ksparse(adata, "auto", **options)
    number = ks.tl.choose_k(adata, [2, 3, 4], **options)
    adata.write_h5ad(tmp_path / "cells.h5ad")
    stored = anndata.read_h5ad(tmp_path / "cells.h5ad").uns
    assert stored["ksparse_choose_k"]["recommended"] == number.recommended == 2
    assert stored["ksparse"]["params"]["n_clusters"] == "auto"
    assert adata.obs["ksparse"].nunique() == 2
    adata.uns["other_choose_k"] = "mine"
    with pytest.raises(ValueError, match="holds something else"):
        ks.tl.ksparse(adata, "auto", key_added="other", **options)
