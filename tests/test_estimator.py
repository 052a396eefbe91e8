"""KSparse as users see it."""

from __future__ import annotations

import functools
import os
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

from conftest import ARRAY_KINDS, crossed, make_clusters, seeds, thorough_params
from ksparse import KSparse
from ksparse.matrix import as_matrix
from ksparse.starts import STARTS, StartData
from ksparse.starts.spectral import decompose, embedding_of, spectral_embedding

WEIGHT_CHECKS = dict.fromkeys(
    (
        "check_sample_weight_equivalence_on_dense_data",
        "check_sample_weight_equivalence_on_sparse_data",
    ),
    "k-means++ draws other samples when weights stand for repeated ones; "
    "test_weights_equal_repeated_samples covers what must hold",
)
SPARSE_CHECKS = dict.fromkeys(
    ("check_estimator_sparse_array", "check_estimator_sparse_matrix"),
    "predict_proba must have as many columns as the y of the check has classes, which is not "
    "what a clusterer looks at",
)


# One check asks for a single cluster, which no feature can tell from others; others have fewer
# distinct samples than clusters.
@pytest.mark.filterwarnings("ignore:No features were selected")
@pytest.mark.filterwarnings("ignore:X has . distinct samples")
@pytest.mark.filterwarnings("ignore:.*so far from the others")
@pytest.mark.filterwarnings("ignore:Cluster.* fewer samples than min_cluster_size")
@pytest.mark.filterwarnings("ignore:Labels and features did not converge")  # on noise
@parametrize_with_checks(
    [KSparse(n_clusters=2, init="pca", n_init=2, max_loops=5)],
    expected_failed_checks=lambda estimator: (
        WEIGHT_CHECKS | (SPARSE_CHECKS if estimator.n_clusters != 2 else {})
    ),
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore:X has . distinct samples")
@pytest.mark.filterwarnings("ignore:.*so far from the others")
@pytest.mark.filterwarnings("ignore:Cluster.* fewer samples than min_cluster_size")
@pytest.mark.parametrize(
    "check",
    [
        estimator_checks.check_sample_weights_pandas_series,
        estimator_checks.check_sample_weights_not_an_array,
        estimator_checks.check_sample_weights_list,
        estimator_checks.check_sample_weights_shape,
        estimator_checks.check_sample_weights_not_overwritten,
    ],
)
def test_the_default_passes_the_checks_of_weights(check):
    check("KSparse", KSparse())


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:No features were selected")
@pytest.mark.filterwarnings("ignore:X has . distinct samples")
@pytest.mark.filterwarnings("ignore:.*so far from the others")
@pytest.mark.filterwarnings("ignore:Cluster.* fewer samples than min_cluster_size")
@parametrize_with_checks(
    [
        KSparse(),
        KSparse(n_clusters=2),
        KSparse(n_clusters=3),
        KSparse(n_clusters=2, init="spectral", eta=5.0),
    ],
    expected_failed_checks=lambda estimator: (
        WEIGHT_CHECKS | (SPARSE_CHECKS if estimator.n_clusters != 2 else {})
    ),
)
def test_scikit_learn_checks_of_other_settings(estimator, check):
    check(estimator)


@pytest.mark.parametrize("seed", seeds(1, 4))
@pytest.mark.parametrize("n_features", [6, 15, 30])
def test_finds_clusters_with_exactly_the_number_of_features_asked_for(seed, n_features):
    X, truth, markers = make_clusters(seed)
    model = KSparse(3, n_features=n_features, random_state=seed).fit(X)
    assert model.n_features_selected_ == n_features == model.get_support().sum()
    assert adjusted_rand_score(truth, model.labels_) > 0.95
    assert markers[model.get_support()].sum() == min(n_features, markers.sum())
    assert np.isnan(model.gap_) or model.gap_ < 1e-4  # few features, selected forward, have none
    assert model.converged_


@pytest.mark.parametrize(("n_features", "relax"), crossed([1, 7, 60], [True, False]))
def test_the_number_is_exact_from_one_feature_to_all(n_features, relax):
    X, _, _ = make_clusters(1)
    model = KSparse(3, n_features=n_features, relax=relax, random_state=0).fit(X)
    assert model.n_features_selected_ == n_features
    assert np.count_nonzero(model.l1_weights_.any(axis=1)) == n_features


def test_a_fraction_is_a_share_of_all_features(clusters):
    X, _, _ = clusters
    assert KSparse(3, n_features=0.25, random_state=0).fit(X).n_features_selected_ == 15


@pytest.mark.parametrize("seed", seeds(1, 3))
def test_auto_finds_about_as_many_features_as_there_are_markers(seed):
    X, _, markers = make_clusters(seed, sizes=(80, 60, 60), n_features=300)
    first = KSparse(3, random_state=seed).fit(X)
    again = KSparse(3, random_state=seed).fit(X)
    assert first.n_features_selected_ == again.n_features_selected_
    assert 0.5 * markers.sum() <= first.n_features_selected_ <= 3 * markers.sum()


@pytest.mark.parametrize("solver", ["working_set", "fista", "fista_paper", "projected_gradient"])
def test_all_solvers_lead_to_the_same_features(clusters, solver):
    X, _, _ = clusters
    model = KSparse(3, eta=60.0, solver=solver, init="spectral", random_state=0).fit(X)
    exact = KSparse(3, eta=60.0, init="spectral", random_state=0, solver_tol=1e-8).fit(X)
    assert adjusted_rand_score(model.labels_, exact.labels_) == 1.0
    assert model.eta_ == 60.0
    assert np.abs(model.l1_weights_).sum() <= 60.0 * (1 + 1e-9)
    difference = np.linalg.norm(model.l1_weights_ - exact.l1_weights_)
    assert difference < 0.05 * np.linalg.norm(exact.l1_weights_)


@pytest.mark.parametrize("solver", ["fista", "fista_paper", "projected_gradient"])
def test_a_number_of_features_works_with_every_solver(clusters, solver):
    X, _, _ = clusters
    model = KSparse(3, n_features=12, solver=solver, random_state=0).fit(X)
    assert model.n_features_selected_ == 12
    assert model.gap_ <= 1e-4


@functools.cache
def dense_answer():
    """Return data with zeros, and the model that they give as a dense array of float64."""
    X, _, _ = make_clusters(2, zeros=0.4)
    X = X.astype(np.float32)  # the same numbers in both types
    return X, KSparse(3, n_features=15, random_state=0).fit(X.astype(np.float64))


@pytest.mark.parametrize(
    ("array_kind", "dtype"),
    crossed(list(ARRAY_KINDS), [np.float32, np.float64]),
    indirect=["array_kind"],
)
def test_every_container_gives_the_same_answer(array_kind, dtype):
    X, want = dense_answer()
    model = KSparse(3, n_features=15, random_state=0).fit(array_kind(X.astype(dtype)))
    np.testing.assert_array_equal(model.labels_, want.labels_)
    np.testing.assert_array_equal(model.get_support(), want.get_support())
    np.testing.assert_allclose(model.weights_, want.weights_, rtol=1e-4, atol=1e-4)
    assert model.weights_.dtype == model.centroids_.dtype == dtype
    assert model.project(array_kind(X.astype(dtype))).dtype == dtype


@pytest.mark.parametrize("seed", seeds(1, 3))
def test_the_same_seed_gives_the_same_result(seed):
    X, _, _ = make_clusters(seed, shift=1.5)
    one, two = (KSparse(3, n_features=10, random_state=seed).fit(X) for _ in range(2))
    np.testing.assert_array_equal(one.labels_, two.labels_)
    np.testing.assert_array_equal(one.weights_, two.weights_)


@pytest.mark.parametrize(
    "kinds", thorough_params(["X, sp.csr_array(X)"], ["X, sp.csr_array(X), sp.csc_array(X)"])
)
@pytest.mark.thorough
def test_one_and_two_threads_give_the_same_result(kinds):
    code = f"""
import sys; sys.path.insert(0, "tests")
import numpy as np, scipy.sparse as sp
from conftest import make_clusters
from ksparse import KSparse
X, _, _ = make_clusters(3, sizes=(150, 100, 50), n_features=200, shift=2.0, zeros=0.3)
for data in ({kinds}):
    model = KSparse(3, n_features=20, random_state=0).fit(data)
    print(model.labels_.tolist(), np.flatnonzero(model.get_support()).tolist())
    print(np.round(model.weights_[model.get_support()], 6).tolist())
"""
    texts = []
    for threads in ("1", "2"):
        limits = dict.fromkeys(
            ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), threads
        )
        run = subprocess.run(
            [sys.executable, "-c", code], env=os.environ | limits, capture_output=True, text=True,
            check=True,
        )  # fmt: skip
        texts.append(run.stdout)
    assert texts[0] == texts[1]
    assert len(texts[0]) > 1000


@pytest.mark.parametrize("seed", seeds(1, 3))
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_weights_equal_repeated_samples(seed, kind):
    X, _, _ = make_clusters(seed, sizes=(30, 25, 20))
    rng = np.random.default_rng(seed)
    weight = rng.integers(0, 4, size=len(X))
    weight[:3] = (1, 2, 3)
    weighted = KSparse(3, n_features=12, random_state=0).fit(kind(X), sample_weight=weight)
    repeated = KSparse(3, n_features=12, random_state=0).fit(kind(np.repeat(X, weight, axis=0)))
    np.testing.assert_array_equal(weighted.get_support(), repeated.get_support())
    np.testing.assert_array_equal(weighted.labels_, repeated.predict(kind(X)))
    np.testing.assert_allclose(weighted.weights_, repeated.weights_, rtol=1e-3, atol=1e-3)


def test_equal_weights_change_nothing(clusters):
    X, _, _ = clusters
    plain = KSparse(3, n_features=9, random_state=0).fit(X)
    equal = KSparse(3, n_features=9, random_state=0).fit(X, sample_weight=np.full(len(X), 2.5))
    np.testing.assert_array_equal(plain.weights_, equal.weights_)


def test_clusters_are_numbered_by_size(clusters):
    X, _, _ = clusters
    sizes = np.bincount(KSparse(3, n_features=15, random_state=1).fit(X).labels_)
    assert list(sizes) == sorted(sizes, reverse=True)


@pytest.mark.parametrize("seed", seeds(1, 3))
def test_every_cluster_has_a_column_of_weights_and_markers_of_its_own(seed):
    X, _, _ = make_clusters(seed)
    model = KSparse(3, n_features=15, random_state=seed).fit(X)
    assert model.weights_.shape == (60, 7)
    assert not model.weights_[:, 3:].any()
    for cluster in range(3):  # sizes fall, so cluster and class have the same number
        own = np.argsort(-model.weights_[:, cluster])[:5]
        np.testing.assert_array_equal(np.sort(own), np.arange(5 * cluster, 5 * cluster + 5))
    np.testing.assert_array_equal(model.centroids_.argmax(axis=1)[:3], np.arange(3))


def test_predict_agrees_with_labels_and_probabilities(array_kind):
    X, _, _ = make_clusters(4, shift=2.0)
    X = array_kind(X)
    model = KSparse(3, n_features=10, random_state=0).fit(X)
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    probability = model.predict_proba(X)
    np.testing.assert_allclose(probability.sum(axis=1), 1.0)
    np.testing.assert_array_equal(probability.argmax(axis=1), model.labels_)
    assert (probability >= 0).all()
    np.testing.assert_array_equal(
        KSparse(3, n_features=10, random_state=0).fit_predict(X), model.labels_
    )


@pytest.mark.parametrize("seed", seeds(1, 3))
def test_new_samples_are_placed_in_their_clusters(seed):
    X, truth, _ = make_clusters(seed, sizes=(80, 60, 40))
    model = KSparse(3, n_features=15, random_state=0).fit(X[::2])
    assert adjusted_rand_score(truth[1::2], model.predict(X[1::2])) > 0.9


def test_transform_gives_the_selected_columns_with_their_names(clusters):
    X, _, _ = clusters
    names = [f"gene {j}" for j in range(X.shape[1])]
    frame = pd.DataFrame(X, columns=names)
    model = KSparse(3, n_features=6, random_state=0).fit(frame)
    support = model.get_support()
    np.testing.assert_array_equal(model.transform(frame), X[:, support])
    chosen = [name for name, inside in zip(names, support, strict=True) if inside]
    assert list(model.get_feature_names_out()) == chosen
    assert list(model.feature_names_in_) == names
    assert list(model.set_output(transform="pandas").transform(frame).columns) == chosen
    polars = model.set_output(transform="polars").transform(frame)
    assert isinstance(polars, pl.DataFrame)
    assert polars.columns == chosen


def test_polars_frames_are_accepted(clusters):
    X, _, _ = clusters
    frame = pl.DataFrame({f"g{j}": X[:, j] for j in range(X.shape[1])})
    model = KSparse(3, n_features=6, random_state=0).fit(frame)
    np.testing.assert_array_equal(
        model.labels_, KSparse(3, n_features=6, random_state=0).fit(X).labels_
    )


def test_works_in_a_pipeline_a_grid_search_and_after_pickling(clusters):
    X, truth, _ = clusters
    pipeline = make_pipeline(StandardScaler(), KSparse(3, n_features=9, random_state=0))
    assert adjusted_rand_score(truth, pipeline.fit_predict(X)) > 0.9
    search = GridSearchCV(KSparse(3, random_state=0), {"n_features": [5, 15]}, cv=2).fit(X)
    assert search.best_params_["n_features"] in (5, 15)
    assert 0 < search.best_score_ <= 1
    model = KSparse(3, n_features=9, random_state=0).fit(X)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.labels_)
    assert clone(model).get_params() == model.get_params()


def test_feature_weights_forbid_and_keep_features(clusters):
    X, _, markers = clusters
    cost = np.ones(X.shape[1])
    forbidden, kept = np.flatnonzero(markers)[:3], np.flatnonzero(~markers)[:2]
    cost[forbidden], cost[kept] = np.inf, 0.0
    model = KSparse(3, n_features=10, feature_weights=cost, random_state=0).fit(X)
    assert model.n_features_selected_ == 10
    assert not model.get_support()[forbidden].any()
    assert model.get_support()[kept].all()
    dear = np.ones(X.shape[1])
    dear[forbidden] = 100.0
    model = KSparse(3, n_features=10, feature_weights=dear, random_state=0).fit(X)
    assert not model.get_support()[forbidden].any()


def test_scaling_makes_features_of_other_units_equal(clusters):
    X, _, _ = clusters
    units = np.logspace(-3, 3, X.shape[1])
    plain = KSparse(3, n_features=15, scale=True, random_state=0).fit(X)
    other = KSparse(3, n_features=15, scale=True, random_state=0).fit(X * units)
    np.testing.assert_array_equal(plain.get_support(), other.get_support())
    np.testing.assert_array_equal(plain.labels_, other.labels_)


@pytest.mark.parametrize(
    "init",
    [
        "spectral", "spectral_kernel", "pca", "graph", "spectral+dense", "pca+dense",
        "graph+dense", "spectral_kernel+dense", ["pca", "graph"], ["auto", "pca"],
    ],
)  # fmt: skip
def test_every_start_leads_to_the_clusters(clusters, init):
    X, truth, _ = clusters
    model = KSparse(3, n_features=15, init=init, random_state=0).fit(X)
    assert adjusted_rand_score(truth, model.labels_) > 0.95
    assert sum(model.starts_["chosen"]) == 1


def test_starts_may_be_labels_of_any_kind(clusters):
    X, truth, _ = clusters
    names = np.array(["b", "a", "c"])[truth]
    model = KSparse(3, n_features=15, init=names, random_state=0).fit(X)
    assert adjusted_rand_score(truth, model.labels_) > 0.95
    assert model.starts_["start"] == ["labels"]
    several = KSparse(3, n_features=15, init=["graph", truth, list(truth)], random_state=0).fit(X)
    assert several.starts_["start"] == ["graph", "labels", "labels"]
    assert np.isfinite(several.starts_["score"]).all()


def test_the_table_of_starts_has_one_row_for_each(clusters):
    X, _, _ = clusters
    table = pd.DataFrame(KSparse(3, n_features=15, random_state=0).fit(X).starts_)
    assert list(table["start"]) == ["divisive", "graph+dense", "spectral+dense"]
    assert table["score"].between(-1, 1).all()
    assert table["chosen"].sum() == 1
    assert np.isnan(KSparse(3, n_features=5, init="pca").fit(X).starts_["score"][0])


def test_history_tells_every_loop(clusters):
    X, _, _ = clusters
    model = KSparse(3, n_features=8, selector="l1", random_state=0).fit(X)
    assert set(model.history_) == {"cost", "labels_changed", "n_features", "eta", "gap"}
    assert {len(values) for values in model.history_.values()} == {model.n_iter_}
    assert (model.history_["n_features"] == 8).all()
    assert model.history_["gap"][-1] == model.gap_
    np.testing.assert_array_equal(model.cost_history_, model.history_["cost"])
    all_loops = KSparse(3, n_features=8, selector="l1", tol=None, max_loops=4)
    assert len(all_loops.fit(X).cost_history_) == 4


@pytest.mark.parametrize("seed", seeds(1, 3))
@pytest.mark.parametrize("eta", [20.0, 200.0])
def test_the_cost_never_rises_with_the_settings_of_the_paper(seed, eta):
    X, _, _ = make_clusters(seed, shift=1.5)
    cost = KSparse.paper(3, eta, random_state=seed).fit(X).cost_history_
    assert len(cost) == 10
    assert (np.diff(cost) <= 1e-9 * cost[0]).all()
    assert cost[-1] < 0.9 * cost[0]


def test_the_preset_of_the_paper_can_be_overridden():
    model = KSparse.paper(5, 100, n_init=3, random_state=2)
    assert (model.n_clusters, model.eta, model.n_init, model.random_state) == (5, 100, 3, 2)
    assert (model.solver, model.solver_max_iter, model.max_loops) == ("fista", 50, 10)
    assert (model.relax, model.threshold, model.targets) == (False, 0.01, "projection")
    assert (model.init, model.tol, KSparse.paper(5, 100).n_init) == ("spectral", None, 40)
    assert (model.center, model.kmeans_criterion) == (True, "margin")


def test_the_preset_of_the_paper_can_follow_its_text(clusters):
    X, truth, _ = clusters
    text = {"center": False, "threshold": 0.0, "solver": "fista_paper",
            "init": "spectral_kernel", "kmeans_criterion": "inertia"}  # fmt: skip
    model = KSparse.paper(3, 20.0, random_state=0, **text).fit(X)
    assert adjusted_rand_score(model.labels_, truth) == 1.0
    assert np.abs(model.l1_weights_).sum() <= 20.0 * (1 + 1e-9)
    preset = KSparse.paper(3, 20.0, random_state=0).fit(X)
    assert adjusted_rand_score(preset.labels_, truth) == 1.0
    assert model.n_features_selected_ > preset.n_features_selected_


# Data that are not centred -------------------------------------------------------------


NOT_CENTRED = [{"n_features": 9}, {"eta": 20.0, "relax": False}, {"n_features": 9, "scale": True}]


@pytest.mark.parametrize("options", NOT_CENTRED, ids=str)
def test_without_centring_nothing_is_subtracted(options):
    X, _, _ = make_clusters(0)
    X += 2.0
    model = KSparse(3, center=False, random_state=0, **options).fit(X)
    assert not model.mean_.any()
    np.testing.assert_allclose(model.project(X), X * model.scale_ @ model.weights_, atol=1e-8)
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    centred = KSparse(3, random_state=0, **options).fit(X)
    assert np.abs(model.l1_weights_ - centred.l1_weights_).max() > 1e-3


def test_without_centring_the_weights_are_the_optimum_for_the_data_as_they_are():
    X, truth, _ = make_clusters(0)
    X += 3.0
    given = {"eta": 15.0, "init": truth, "relax": False, "max_loops": 1, "targets": "projection"}
    model = KSparse(3, center=False, solver_tol=1e-9, random_state=0, **given).fit(X)
    # The scale is that of the paper, with the mean or without.
    np.testing.assert_allclose(model.scale_, 1 / np.linalg.norm(X, 2), rtol=1e-6)
    matrix = as_matrix(X * model.scale_)
    rows = spectral_embedding(matrix, 7, np.random.RandomState(0)).coordinates
    T = np.array([rows[truth == c].mean(axis=0) for c in range(3)])[truth]
    Z = X * model.scale_
    W = model.l1_weights_
    gradient = Z.T @ (Z @ W - T)
    gap = (gradient * W).sum() + 15.0 * np.abs(gradient).max()
    assert gap <= 1e-3 * (T**2).sum()


@pytest.mark.parametrize(
    ("options", "array_kind"),
    crossed(NOT_CENTRED, list(ARRAY_KINDS)),
    indirect=["array_kind"],
    ids=str,
)
def test_without_centring_storage_and_copies_do_not_matter(options, array_kind):
    X, _, _ = make_clusters(0, shift=6.0, zeros=0.3)
    X += 1.0 * (X != 0)
    # Copies are not in the same half as their sample: "auto" may decide otherwise.
    common = {"center": False, "random_state": 0, "init": "spectral", "selector": "l1", **options}
    expected = KSparse(3, **common).fit(X)
    model = KSparse(3, **common).fit(array_kind(X))
    np.testing.assert_array_equal(model.labels_, expected.labels_)
    np.testing.assert_allclose(model.weights_, expected.weights_, atol=1e-5)
    times = np.random.default_rng(0).integers(1, 3, len(X))
    weighted = KSparse(3, **common).fit(array_kind(X), sample_weight=times.astype(float))
    repeated = KSparse(3, **common).fit(array_kind(np.repeat(X, times, axis=0)))
    assert adjusted_rand_score(np.repeat(weighted.labels_, times), repeated.labels_) == 1.0
    assert np.array_equal(weighted.get_support(), repeated.get_support())


@pytest.mark.parametrize("init", ["spectral", "spectral_kernel", "pca", "graph"])
def test_starts_do_not_depend_on_centring(init):
    X, _, _ = make_clusters(0, shift=1.5)
    data = []
    for center in (True, False):
        matrix = as_matrix(X + 5.0, center=center)
        norm, U, s = decompose(matrix, 6, np.random.RandomState(0))
        data.append(StartData(matrix.scaled(norm), embedding_of(U, s, 7, float(len(X))), 3))
    one, other = (STARTS[init].labels(d, np.random.RandomState(0)) for d in data)
    assert adjusted_rand_score(one, other) == 1.0


def test_constant_features_are_not_selected_without_centring_either():
    X, _, _ = make_clusters(0)
    X[:, [3, 40]] = 7.0
    model = KSparse(3, n_features=58, center=False, random_state=0).fit(X)
    assert not model.get_support()[[3, 40]].any()


# k-means -------------------------------------------------------------------------------


def test_k_means_runs_can_be_compared_by_inertia():
    # A broad cluster and a few samples beside it: whole, it has the better margins; cut in
    # two, the lower inertia.
    line = np.concatenate([np.linspace(0, 10, 300), np.full(9, 18.0)])
    X = np.column_stack([line, 1e-3 * np.random.default_rng(0).normal(size=(309, 3))])
    whole = np.repeat([0, 1], [300, 9])
    for criterion, best in (("margin", 1.0), ("inertia", 0.0)):
        model = KSparse(2, n_features=1, init=whole, n_init=30, kmeans_criterion=criterion,
                        random_state=0).fit(X)  # fmt: skip
        assert adjusted_rand_score(model.labels_, whole) == pytest.approx(best, abs=0.05)
    with pytest.raises(ValueError, match=r"kmeans_criterion='size' is unknown; choose from margin"):
        KSparse(2, kmeans_criterion="size").fit(X)


def test_more_radius_selects_more_features(clusters):
    X, truth, _ = clusters
    counts = [
        KSparse(3, eta=eta, init=truth, max_loops=1).fit(X).n_features_selected_
        for eta in (5.0, 20.0, 60.0, 150.0)
    ]
    assert counts == sorted(counts)
    assert counts[0] < counts[-1]


def test_relaxing_undoes_the_shrinkage_of_the_ball(clusters):
    X, truth, _ = clusters
    bound = KSparse(3, n_features=5, relax=False, init=truth, max_loops=1).fit(X)
    relaxed = KSparse(3, n_features=5, selector="l1", init=truth, max_loops=1).fit(X)
    np.testing.assert_array_equal(bound.get_support(), relaxed.get_support())
    np.testing.assert_array_equal(bound.weights_, bound.l1_weights_)
    assert np.linalg.norm(relaxed.weights_) > 1.2 * np.linalg.norm(bound.weights_)


def test_the_score_is_scale_free_and_larger_for_clearer_clusters():
    clear, _, _ = make_clusters(0, shift=6.0)
    vague, _, _ = make_clusters(0, shift=1.5)
    score = [
        KSparse(3, n_features=15, random_state=0).fit(X).score(X)
        for X in (clear, 1e3 * clear, vague)
    ]
    assert score[0] == pytest.approx(score[1], rel=1e-6)
    assert score[2] < score[0] < 1


def test_progress_is_silent_unless_on_a_terminal(clusters, capfd):
    X, _, _ = clusters
    KSparse(3, n_features=5, verbose=2, random_state=0).fit(X)
    assert capfd.readouterr() == ("", "")
