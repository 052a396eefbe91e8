"""feature_path: how many features."""

from __future__ import annotations

import matplotlib
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from conftest import make_clusters, seeds, thorough_params
from ksparse import KSparse, feature_path
from ksparse.selection import jobs as jobs_module

matplotlib.use("Agg")

COUNTS = [2, 4, 8, 15, 30, 50]


@pytest.fixture(scope="module")
def path():
    X, truth, _ = make_clusters(0)
    return feature_path(X, 3, n_features=COUNTS, labels=truth, random_state=0)


def test_the_table_has_a_row_for_every_number(path):
    table = path.table
    assert isinstance(table, pd.DataFrame)
    assert list(table["n_features"]) == COUNTS
    assert list(table) == [
        "eta", "n_features", "cost", "gap", "silhouette", "agreement", "agreement_se",
        "explained", "explained_se", "accuracy", "ari", "nmi",
    ]  # fmt: skip
    assert table.drop(columns="gap").notna().all().all()
    certified = table["gap"].notna()  # few features are selected forward
    assert list(certified) == sorted(certified)
    assert certified.any()
    assert (table["gap"][certified] < 1e-4).all()
    assert [f.size for f in path.features] == COUNTS
    assert path.labels.shape == (len(COUNTS), 90)


def test_clear_clusters_are_found_with_enough_features(path):
    enough = path.table["n_features"] >= 8
    assert (path.table["ari"][enough] > 0.95).all()
    assert (path.table["agreement"][enough] > 0.9).all()
    assert (np.diff(path.table["explained"][:4]) > 0).all()


@pytest.mark.parametrize("seed", seeds(1, 4))
def test_best_is_about_the_number_of_markers_and_auto_agrees_within_a_factor_of_two(seed):
    X, _, markers = make_clusters(seed, n_features=200, n_markers=6, shift=3.0)
    best = feature_path(X, 3, random_state=seed).best()
    auto = KSparse(3, random_state=seed).fit(X).n_features_selected_
    assert markers.sum() / 2 <= best <= 2 * markers.sum()
    assert best / 2 <= auto <= best * 2


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("seed", seeds(1, 4))
def test_more_radius_never_means_fewer_features_for_fixed_labels(seed, kind):
    X, truth, _ = make_clusters(seed, shift=2.0)
    options = {"init": truth, "max_loops": 1, "fixed_labels": True, "random_state": 0}
    by_count = feature_path(kind(X), 3, n_features=range(1, 60, 3), selector="l1", **options)
    assert (np.diff(by_count.columns["eta"]) > 0).all()
    etas = np.geomspace(1.0, by_count.columns["eta"].max(), 12)
    by_radius = feature_path(kind(X), 3, etas=etas, **options)
    np.testing.assert_allclose(by_radius.columns["eta"], etas)
    assert (np.diff(by_radius.columns["n_features"]) >= 0).all()
    assert (by_radius.labels == by_radius.labels[0]).all()


def test_a_point_of_the_path_is_the_fit_that_ksparse_gives_for_the_same_labels():
    X, _, _ = make_clusters(1)
    path = feature_path(X, 3, n_features=[6, 12, 24], random_state=0)
    for point in range(3):
        n = int(path.columns["n_features"][point])
        model = KSparse(3, n_features=n, init=path.labels[point], max_loops=1).fit(X)
        np.testing.assert_array_equal(np.flatnonzero(model.get_support()), path.features[point])
        assert model.eta_ == pytest.approx(path.columns["eta"][point], rel=1e-6)


def test_the_same_seed_gives_the_same_path(path):
    X, truth, _ = make_clusters(0)
    again = feature_path(X, 3, n_features=COUNTS, labels=truth, random_state=0)
    pd.testing.assert_frame_equal(path.table, again.table)
    np.testing.assert_array_equal(path.labels, again.labels)


def test_true_labels_have_no_part_in_the_fits(path):
    X, _, _ = make_clusters(0)
    blind = feature_path(X, 3, n_features=COUNTS, random_state=0)
    np.testing.assert_array_equal(blind.labels, path.labels)
    assert "ari" not in blind.columns


@pytest.mark.parametrize("n_features", thorough_params([[8]], [[5, 15]]), ids=str)
def test_samples_without_weight_are_labelled_but_have_no_part(n_features):
    X, _, _ = make_clusters(0)
    wild = np.vstack([X, 100 + X[:3]])
    weight = np.r_[np.ones(len(X)), np.zeros(3)]
    path = feature_path(wild, 3, n_features=n_features, sample_weight=weight, random_state=0)
    plain = feature_path(X, 3, n_features=n_features, random_state=0)
    np.testing.assert_array_equal(path.labels[:, : len(X)], plain.labels)


def test_the_pictures_show_eta_quality_and_the_best_number(path):
    left, right = path.plot()
    assert left.get_xlabel() == "radius eta"
    assert {text.get_text() for text in right.get_legend().get_texts()} >= {"accuracy", "ARI"}
    assert f"best: {path.best()}" in right.get_title()
    again = path.plot(axes=(left, right))
    assert again[0] is left
    with pytest.raises(ValueError, match="axes has 1 entries"):
        path.plot(axes=[left])


def test_text_and_length(path):
    assert len(path) == len(COUNTS)
    lines = str(path).splitlines()
    assert "n_features" in lines[0]
    assert lines[-1] == f"best: {path.best()} features"


@pytest.mark.thorough
def test_an_interrupt_stops_the_path_unless_partial_results_are_asked_for(monkeypatch):
    X, _, _ = make_clusters(0)

    class Bar:
        def __init__(self):
            self.n = 0

        def __enter__(self):
            return self

        def __exit__(self, *_):
            return False

        def update(self):
            self.n += 1
            if self.n == 3:
                raise KeyboardInterrupt

    monkeypatch.setattr(jobs_module, "progress_bar", lambda *_: Bar())
    with pytest.raises(KeyboardInterrupt):
        feature_path(X, 3, n_features=COUNTS, random_state=0)
    with pytest.warns(UserWarning, match="3 of 6 fits of the path are done"):
        path = feature_path(X, 3, n_features=COUNTS, keep_partial=True, random_state=0)
    assert list(path.columns["n_features"]) == COUNTS[:3]
    with pytest.warns(UserWarning, match="3 of 6 fits of the path are done"):
        path = feature_path(
            X, 3, n_features=COUNTS, selector="l1", keep_partial=True, random_state=0
        )
    assert list(path.columns["n_features"]) == COUNTS[3:]


@pytest.mark.parametrize(
    ("options", "error", "part"),
    [
        ({"n_features": []}, ValueError, "n_features is empty"),
        ({"n_features": 10}, TypeError, "n_features=10 must be a sequence"),
        ({"n_features": [5, 61]}, ValueError, "n_features=61 should be <= 60"),
        ({"n_features": [0]}, ValueError, "n_features=0 must be at least 1"),
        ({"n_features": [2.5]}, TypeError, "n_features=2.5 must be an integer"),
        ({"etas": [1.0, -2.0]}, ValueError, "etas contains -2.0"),
        ({"etas": []}, ValueError, "etas is empty"),
        ({"n_features": "auto"}, TypeError, "n_features='auto' must be a sequence"),
        ({"labels": [None] * 90}, ValueError, "labels has missing values"),
        ({"eta": 3.0}, TypeError, "give etas"),
        ({"etas": ["wide"]}, TypeError, "etas must be numbers"),
        ({"etas": [1.0], "n_features": [5]}, ValueError, "exclude each other"),
        ({"labels": [0, 1]}, ValueError, r"labels has shape \(2,\), but X has 90 samples"),
    ],
)
def test_bad_requests_get_one_clear_sentence(clusters, options, error, part):
    X, _, _ = clusters
    with pytest.raises(error, match=part):
        feature_path(X, 3, **options)


def test_more_clusters_than_samples_are_refused(clusters):
    X, _, _ = clusters
    with pytest.raises(ValueError, match="n_samples=90 should be >= n_clusters=91"):
        feature_path(X, 91)


def test_one_cluster_is_refused(clusters):
    X, _, _ = clusters
    with pytest.raises(ValueError, match="n_clusters=1 should be >= 2"):
        feature_path(X, 1)


def test_the_table_is_a_data_frame(path):
    pandas = pytest.importorskip("pandas")
    assert isinstance(path.table, pandas.DataFrame)
    assert list(path.table.columns) == list(path.columns)
