"""What KSparse refuses, with one clear sentence, and what it takes as it is."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.linalg import hadamard
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import adjusted_rand_score

from conftest import ARRAY_KINDS, make_clusters, seeds
from ksparse import KSparse, choose_k, feature_path, stability_selection
from ksparse._errors import InputError
from ksparse.normalise import log_normalise
from ksparse.simulate import simulate_counts

SEEDS = seeds(1, 2)
INF, NAN = math.inf, math.nan
METHODS = ["predict", "predict_proba", "project", "score"]
STORAGE = [np.array, sp.csr_array, sp.csc_array]


def small(seed=0):
    """30 samples in 3 clusters, 12 features of which 6 are markers."""
    X, labels, _ = make_clusters(seed, sizes=(12, 10, 8), n_features=12, n_markers=2)
    return X, labels


X, LABELS = small()


def model(n_clusters=3, **settings):
    """A fast fit from given labels, unless the settings say otherwise."""
    defaults = {"n_features": 4, "init": LABELS, "n_init": 1, "random_state": 0}
    defaults |= {"max_loops": 2, "tol": None}
    if "eta" in settings:
        defaults.pop("n_features")
    return KSparse(n_clusters, **(defaults | settings))


@pytest.fixture(scope="module")
def fitted():
    return model().fit(X)


def ones_but(value, n):
    """Ones, except for one entry in the middle."""
    out = np.ones(n)
    out[n // 2] = value
    return out


def assert_refused(error, parts, estimator, data=X, **fit_options):
    """Fitting is refused with one sentence that contains all the parts."""
    with pytest.raises(error) as caught:
        estimator.fit(data, **fit_options)
    text = str(caught.value)
    for part in parts:
        assert part in text
    assert "\n" not in text
    assert text.endswith(".")


def assert_same_fit(first, second):
    np.testing.assert_array_equal(first.labels_, second.labels_)
    np.testing.assert_array_equal(first.get_support(), second.get_support())
    np.testing.assert_allclose(first.weights_, second.weights_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(first.centroids_, second.centroids_, rtol=1e-6, atol=1e-9)


# Data ----------------------------------------------------------------------------------

CONTAINERS = {**ARRAY_KINDS, "float32": np.float32, "list": np.ndarray.tolist}
FORMATS = list(CONTAINERS.values())


@pytest.mark.parametrize("container", FORMATS, ids=list(CONTAINERS))
@pytest.mark.parametrize(("bad", "name"), [(NAN, "NaN"), (INF, "infinity"), (-INF, "infinity")])
@pytest.mark.parametrize("place", [(0, 0), (7, 5), (29, 11)])
def test_the_place_of_a_value_that_is_not_finite_is_named(container, bad, name, place):
    data = np.where(np.abs(X) < 0.5, 0.0, X)
    data[place] = bad
    parts = [f"X contains {name} (1 in all", f"row {place[0]}, column {place[1]})"]
    assert_refused(ValueError, parts, model(), container(data))


@pytest.mark.parametrize("container", FORMATS, ids=list(CONTAINERS))
def test_all_values_that_are_not_finite_are_counted(container):
    data = X.copy()
    data[20, 1], data[3, 8], data[3, 2], data[9] = NAN, INF, NAN, -INF
    parts = ["X contains NaN and infinity (15 in all", "row 3, column 2)"]
    assert_refused(ValueError, parts, model(), container(data))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("container", STORAGE)
def test_new_samples_that_are_not_finite_are_refused_with_their_place(fitted, method, container):
    data = X.copy()
    data[4, 6] = NAN
    with pytest.raises(ValueError, match=r"^X contains NaN \(1 in all, .* row 4, column 6\): "):
        getattr(fitted, method)(container(data))


@pytest.mark.parametrize("unit", [1e-300, 1e-200, 1e-100, 1e-30, 1e30, 1e100, 1e160, 1e300])
def test_the_unit_of_the_data_does_not_matter_unless_it_is_refused_by_name(unit):
    expected = model().fit(X)
    try:
        found = model().fit(X * unit)
    except ValueError as error:
        assert "X" in str(error)
    else:
        np.testing.assert_array_equal(found.labels_, expected.labels_)
        np.testing.assert_array_equal(found.get_support(), expected.get_support())


@pytest.mark.parametrize("container", STORAGE)
@pytest.mark.parametrize("k", [31, 100])
def test_more_clusters_than_samples_are_refused(container, k):
    parts = ["n_samples=30", f"n_clusters={k}"]
    assert_refused(ValueError, parts, model(k, init="auto"), container(X))


@pytest.mark.parametrize("container", ARRAY_KINDS.values(), ids=list(ARRAY_KINDS))
@pytest.mark.parametrize("n_distinct", [1, 2])
def test_every_distinct_sample_is_a_cluster_where_there_are_fewer_than_clusters(
    container, n_distinct
):
    data = np.resize(X[:n_distinct], X.shape)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted = model().fit(container(data))
    told = [warning for warning in caught if issubclass(warning.category, ConvergenceWarning)]
    assert len(told) == 1
    assert f"{n_distinct} distinct samples, fewer than n_clusters=3" in str(told[0].message)
    assert told[0].filename == __file__
    assert len(fitted.centroids_) == n_distinct
    assert len(set(fitted.labels_)) == n_distinct
    for sample in range(n_distinct):  # equal samples are in one cluster
        assert len(set(fitted.labels_[sample::n_distinct])) == 1
    np.testing.assert_array_equal(fitted.predict(container(data)), fitted.labels_)
    assert fitted.predict_proba(container(data)).shape == (30, n_distinct)
    assert all(np.isfinite(value).all() for value in vars(fitted).values()
               if isinstance(value, np.ndarray) and value.dtype.kind == "f")  # fmt: skip


@pytest.mark.filterwarnings("ignore:n_features=2 could not be met")
def test_labels_to_start_from_do_not_matter_where_samples_are_too_few():
    data = np.resize(X[:2], X.shape)
    with pytest.warns(ConvergenceWarning, match="2 distinct samples"):
        fitted = KSparse(3, n_features=2, init=LABELS, random_state=0).fit(data)
    assert len(fitted.centroids_) == 2


@pytest.mark.parametrize("function", [feature_path, stability_selection])
def test_functions_of_many_fits_refuse_more_clusters_than_distinct_samples(function):
    data = np.resize(X[:2], X.shape)
    given = {"n_features": [1, 2]} if function is feature_path else {"n_features": 2}
    with pytest.raises(ValueError, match=r"2 distinct samples, which should be >= n_clusters=3"):
        function(data, 3, **given)


@pytest.mark.filterwarnings("ignore:n_features=2 could not be met")
@pytest.mark.filterwarnings("ignore:.*nothing to tell apart")
def test_zeros_of_either_sign_are_not_distinct():
    data = np.where(np.arange(30)[:, None] < 15, 0.0, -0.0) * np.ones(4)
    for container in (np.array, sp.csr_array):
        with pytest.warns(ConvergenceWarning, match="X has 1 distinct samples"):
            fitted = model(n_features=2).fit(container(data))
        assert not fitted.labels_.any()


@pytest.mark.parametrize("method", ["fit", *METHODS])
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (X[0], "Expected 2D array, got 1D array"),
        (X[None], r"Found array with dim 3"),
        (X[0, 0], "Expected 2D array, got scalar"),
        (X[:0], r"Found array with 0 sample\(s\) \(shape=\(0, 12\)\)"),
        (X[:, :0], r"Found array with 0 feature\(s\) \(shape=\(30, 0\)\)"),
        (X + 1j, "Complex data not supported"),
    ],
    ids=["1d", "3d", "0d", "no samples", "no features", "complex"],
)
def test_data_that_are_no_real_table_are_refused_in_one_line(fitted, method, data, message):
    estimator = model() if method == "fit" else fitted
    with pytest.raises(InputError, match=message) as caught:
        getattr(estimator, method)(data)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("data", [X[0], X + 1j, [[1, 2], [3]]], ids=["1d", "complex", "ragged"])
@pytest.mark.parametrize("function", [feature_path, choose_k, log_normalise])
def test_functions_refuse_what_is_no_table_in_one_line(function, data):
    arguments = {feature_path: (3,), choose_k: ([2, 3],)}.get(function, ())
    with pytest.raises(InputError) as caught:
        function(data, *arguments)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("method", ["fit", "predict"])
@pytest.mark.parametrize(
    "data",
    [np.full((30, 12), "a"), np.full((30, 12), "a", dtype=object), "text"],
    ids=["text", "objects", "word"],
)
def test_text_is_refused_by_the_name_of_the_argument(fitted, method, data):
    estimator = model() if method == "fit" else fitted
    with pytest.raises((TypeError, ValueError), match=r"\bX\b"):
        getattr(estimator, method)(data)


@pytest.mark.parametrize("seed", ["x", -1, 1.5, 2**32, b"x"], ids=repr)
@pytest.mark.parametrize(
    "run",
    [
        lambda seed: model(random_state=seed).fit(X),
        lambda seed: choose_k(X, [2], random_state=seed),
        lambda seed: feature_path(X, 3, n_features=[2], random_state=seed),
        lambda seed: stability_selection(X, 3, n_features=2, random_state=seed),
        lambda seed: simulate_counts(30, 200, 2, random_state=seed),
    ],
    ids=["fit", "choose_k", "feature_path", "stability_selection", "simulate"],
)
def test_what_is_no_seed_is_refused(run, seed):
    with pytest.raises(InputError, match="random_state=.* must be an integer from 0 to") as caught:
        run(seed)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("checkpoint", [5, True, b"folder"])
def test_a_checkpoint_that_is_no_path_is_refused(checkpoint):
    assert_refused(InputError, [f"checkpoint={checkpoint!r} must be the path"],
                   model(checkpoint=checkpoint))  # fmt: skip


# Number of features and radius ---------------------------------------------------------


@pytest.mark.parametrize(
    ("n_features", "error", "parts"),
    [
        (13, ValueError, ["n_features=13", "12, the number of features in X"]),
        (10**9, ValueError, ["n_features=1000000000", "12"]),
        (0, ValueError, ["n_features=0", "at least 1"]),
        (-3, ValueError, ["n_features=-3", "at least 1"]),
        (np.int64(13), ValueError, ["n_features=13", "12"]),
        (0.0, ValueError, ["n_features=0.0", "between 0 and 1"]),
        (-0.5, ValueError, ["n_features=-0.5", "between 0 and 1"]),
        (1.5, ValueError, ["n_features=1.5", "between 0 and 1"]),
        (12.0, ValueError, ["n_features=12.0", "between 0 and 1"]),
        (NAN, ValueError, ["n_features=nan", "between 0 and 1"]),
        (INF, ValueError, ["n_features=inf", "between 0 and 1"]),
        (True, TypeError, ["n_features=True", "'auto'"]),
        (np.True_, TypeError, ["n_features=", "True", "'auto'"]),
        (None, TypeError, ["n_features=None", "'auto'"]),
        ([4], TypeError, ["n_features=[4]", "'auto'"]),
        (4 + 0j, TypeError, ["n_features=(4+0j)", "'auto'"]),
        ("ten", ValueError, ["n_features='ten'", "'auto'"]),
        ("4", ValueError, ["n_features='4'", "'auto'"]),
    ],
)
def test_a_wrong_number_of_features_is_refused(n_features, error, parts):
    assert_refused(error, parts, model(n_features=n_features))


@pytest.mark.parametrize("eta", [0, 0.0, -1, -INF, NAN, "big", True, [1.0]])
def test_a_radius_that_is_not_positive_is_refused(eta):
    assert_refused(ValueError, [f"eta={eta!r}", "> 0"], model(eta=eta))


@pytest.mark.parametrize("n_features", [5, 0.5, None])
def test_a_number_of_features_and_a_radius_exclude_each_other(n_features):
    parts = [f"n_features={n_features}", "eta=2.5"]
    assert_refused(ValueError, parts, model(n_features=n_features, eta=2.5))


def test_an_unknown_word_for_the_number_of_features_is_refused_next_to_a_radius():
    parts = ["n_features='ten'"]
    assert_refused(ValueError, parts, model(n_features="ten", eta=2.5))


def test_an_infinite_radius_is_refused():
    assert_refused(ValueError, ["eta=inf", "finite"], model(eta=INF))


# Starts --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("init", "parts"),
    [
        ("kmeans", ["init='kmeans'", "spectral", "graph"]),
        ("dense", ["init='dense'", "spectral", "graph"]),
        (["pca", "kmeans"], ["init='kmeans'", "spectral", "graph"]),
        (LABELS[:-1], ["init has shape (29,)", "30 samples"]),
        (np.append(LABELS, 0), ["init has shape (31,)", "30 samples"]),
        (LABELS[:, None], ["init has shape (30, 1)", "30 samples"]),
        (["pca", LABELS[:-1]], ["init has shape (29,)", "30 samples"]),
        ([], ["init has shape (0,)", "30 samples"]),
        (None, ["init=None is unknown", "spectral", "labels"]),
        (3, ["init has shape ()", "30 samples"]),
        (np.zeros(30), ["init has 1 distinct labels", "n_clusters=3"]),
        (LABELS % 2, ["init has 2 distinct labels", "n_clusters=3"]),
        (np.arange(30) % 4, ["init has 4 distinct labels", "n_clusters=3"]),
        (np.where(LABELS == 0, NAN, LABELS), ["init contains NaN", "one label per sample"]),
        (np.where(LABELS == 0, INF, LABELS), ["init contains", "one label per sample"]),
    ],
)
def test_a_wrong_start_is_refused(init, parts):
    assert_refused(ValueError, parts, model(init=init))


def test_missing_labels_of_a_start_are_refused_by_name():
    labels = np.where(LABELS == 0, None, LABELS.astype(str).astype(object))
    assert_refused((TypeError, ValueError), ["init"], model(init=labels))


@pytest.mark.parametrize("names", [np.array(["a", "b", "c"]), np.array([-5.0, 0.5, 1e9])])
def test_labels_of_a_start_may_have_any_names(names):
    assert_same_fit(model(init=names[LABELS]).fit(X), model().fit(X))


# Other settings ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_clusters", 0),
        ("n_clusters", -2),
        ("n_init", 0),
        ("n_init", -1),
        ("max_loops", 0),
        ("max_loops", -1),
        ("n_components", 0),
        ("n_components", -1),
        ("n_components", 2.5),
        ("n_components", "two"),
        ("n_components", True),
        ("solver", "newton"),
        ("solver", None),
        ("solver", ["fista"]),
        ("targets", "centroids"),
        ("targets", None),
        ("tol", -0.1),
        ("tol", NAN),
        ("tol", "small"),
        ("tol", True),
        ("ridge", -0.1),
        ("ridge", NAN),
        ("ridge", INF),
        ("ridge", "small"),
        ("ridge", None),
        ("sigma", 0),
        ("sigma", -1.0),
        ("sigma", NAN),
        ("sigma", "wide"),
        ("sigma", None),
        ("solver_tol", -1e-4),
        ("solver_tol", NAN),
        ("solver_tol", "small"),
        ("solver_max_iter", 0),
        ("solver_max_iter", 1.5),
        ("solver_max_iter", "many"),
        ("threshold", -0.01),
        ("threshold", NAN),
        ("threshold", "small"),
    ],
)
def test_a_setting_of_wrong_value_is_refused_with_its_name_and_value(name, value):
    assert_refused(ValueError, [f"{name}={value!r}"], model().set_params(**{name: value}))


@pytest.mark.parametrize("name", ["n_clusters", "n_init", "max_loops"])
@pytest.mark.parametrize("value", [2.0, 2.5, NAN, "two", None, True, [2]])
def test_a_count_that_is_no_integer_is_refused_with_its_name_and_value(name, value):
    parts = [f"{name}={value!r}", "integer"]
    assert_refused(TypeError, parts, model().set_params(**{name: value}))


# Weights of features -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weights", "error", "parts"),
    [
        (np.ones(11), ValueError, ["feature_weights has shape (11,)", "12 features"]),
        (np.ones(13), ValueError, ["feature_weights has shape (13,)", "12 features"]),
        (np.ones((1, 12)), ValueError, ["feature_weights has shape (1, 12)", "12 features"]),
        (1.0, ValueError, ["feature_weights has shape ()", "12 features"]),
        ([], ValueError, ["feature_weights has shape (0,)", "12 features"]),
        (ones_but(-1.0, 12), ValueError, ["feature_weights", ">= 0"]),
        (ones_but(-INF, 12), ValueError, ["feature_weights", ">= 0"]),
        (ones_but(NAN, 12), ValueError, ["feature_weights", ">= 0"]),
        (np.full(12, INF), ValueError, ["feature_weights", "infinite for all"]),
        (["a"] * 12, TypeError, ["feature_weights", "numbers"]),
        ("auto", TypeError, ["feature_weights", "numbers"]),
        (np.full(12, 1j), TypeError, ["feature_weights", "numbers"]),
        ([[1.0], 2.0], TypeError, ["feature_weights", "numbers"]),
    ],
)
def test_wrong_weights_of_features_are_refused(weights, error, parts):
    assert_refused(error, parts, model(feature_weights=weights))


def test_fewer_features_than_free_ones_are_refused():
    weights = np.append(np.zeros(5), np.ones(7))
    parts = ["n_features=4", "5, the number of features with weight 0"]
    assert_refused(ValueError, parts, model(feature_weights=weights))


def test_more_features_than_allowed_ones_are_refused():
    weights = np.append(np.full(9, INF), np.ones(3))
    parts = ["n_features=4", "3, the number of features with a finite"]
    assert_refused(ValueError, parts, model(feature_weights=weights))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("value", [0.0, INF])
def test_exactly_as_many_features_as_free_or_as_allowed_can_be_asked_for(seed, value):
    data, labels = small(seed)
    weights = np.ones(12)
    weights[:4] = value
    expected = weights == 0 if value == 0 else weights == 1
    found = model(feature_weights=weights, n_features=np.count_nonzero(expected), init=labels).fit(
        data
    )
    np.testing.assert_array_equal(found.get_support(), expected)


# Weights of samples --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weights", "parts"),
    [
        (np.ones(29), ["sample_weight", "(29,)", "30 samples"]),
        (np.ones(31), ["sample_weight", "(31,)", "30 samples"]),
        (ones_but(-1.0, 30), ["sample_weight", "egative"]),
        (-1.0, ["sample_weight", "egative"]),
        (ones_but(NAN, 30), ["sample_weight", "NaN"]),
        (ones_but(INF, 30), ["sample_weight", "infinity"]),
        (np.zeros(30), ["sample_weight"]),
        (0.0, ["sample_weight"]),
        (np.append(np.ones(2), np.zeros(28)), ["2 samples", "sample_weight", "n_clusters=3"]),
        (["a"] * 30, ["sample_weight"]),
    ],
)
def test_wrong_weights_of_samples_are_refused(weights, parts):
    with pytest.raises((TypeError, ValueError)) as caught:
        model().fit(X, sample_weight=weights)
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.filterwarnings("ignore:n_features=4 could not be met")
def test_samples_without_weight_do_not_count_as_distinct():
    data = X.copy()
    data[:20] = data[0]
    weights = np.append(np.ones(21), np.zeros(9))
    with pytest.warns(ConvergenceWarning, match="X has 2 distinct samples"):
        fitted = model(min_cluster_size=1).fit(data, sample_weight=weights)
    assert len(fitted.centroids_) == 2
    assert fitted.labels_.shape == (30,)


# Before and after the fit --------------------------------------------------------------


@pytest.mark.parametrize("method", [*METHODS, "transform"])
def test_nothing_can_be_said_before_the_fit(method):
    with pytest.raises(NotFittedError, match="KSparse instance is not fitted yet"):
        getattr(model(), method)(X)
    with pytest.raises(NotFittedError, match="KSparse instance is not fitted yet"):
        model().get_support()


@pytest.mark.parametrize("method", METHODS)
def test_a_fit_that_was_refused_is_no_fit(method):
    estimator = model(n_features=13)
    with pytest.raises(ValueError, match="n_features=13"):
        estimator.fit(X)
    with pytest.raises(NotFittedError, match="KSparse instance is not fitted yet"):
        getattr(estimator, method)(X)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("container", STORAGE)
@pytest.mark.parametrize("n_features", [5, 13])
def test_another_number_of_features_than_fitted_is_refused(fitted, method, container, n_features):
    data = np.resize(X, (30, n_features))
    with pytest.raises(ValueError, match=rf"^X has {n_features} features, .* 12 features"):
        getattr(fitted, method)(container(data))


# What is no error: features ------------------------------------------------------------

CONSTANTS = [7.0, 0.0, 1e8, 0.1]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    "settings",
    [
        {"n_features": 8},
        {"n_features": 3},
        {"n_features": 8, "scale": True},
        {"n_features": 8, "relax": False},
        {"n_features": "auto"},
        {"eta": 1e6},
        {"eta": 1e6, "solver": "fista", "solver_max_iter": 50, "solver_tol": 0.0},
        {"n_features": 6, "feature_weights": np.append(np.zeros(4), np.ones(8))},
    ],
)
@pytest.mark.parametrize("container", STORAGE)
def test_constant_features_are_never_selected(container, settings, seed):
    data, labels = small(seed)
    data[:, :4] = CONSTANTS
    found = model(init=labels, **settings).fit(container(data))
    assert not found.get_support()[:4].any()
    assert not found.weights_[:4].any()
    assert found.n_features_selected_ >= 3
    np.testing.assert_array_equal(found.predict(container(data)), found.labels_)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("constant", [0.1, -1e5 / 3, 1e-5])
@pytest.mark.parametrize("container", STORAGE)
def test_rounding_does_not_make_a_constant_feature_vary(container, dtype, constant):
    data = X.astype(dtype)
    data[:, 0] = constant
    found = model(n_features=11, scale=True).fit(container(data))
    np.testing.assert_array_equal(np.flatnonzero(~found.get_support()), [0])


def test_features_that_vary_only_in_samples_without_weight_are_never_selected(array_kind):
    data, weights = X.copy(), np.append(np.zeros(3), np.ones(27))
    data[:, :2] = np.where(weights == 0, 9.0, 1.0)[:, None]
    found = model(n_features=10).fit(array_kind(data), sample_weight=weights)
    np.testing.assert_array_equal(np.flatnonzero(~found.get_support()), [0, 1])


@pytest.mark.parametrize("n_features", [9, 12])
def test_a_number_of_features_that_only_constants_could_fill_is_met_as_far_as_possible(
    array_kind, n_features
):
    data = X.copy()
    data[:, :4] = CONSTANTS
    message = rf"^n_features={n_features} could not be met: only 8 features "
    with pytest.warns(UserWarning, match=message):
        found = model(n_features=n_features).fit(array_kind(data))
    np.testing.assert_array_equal(np.flatnonzero(found.get_support()), np.arange(4, 12))
    assert found.n_features_selected_ == 8


@pytest.mark.parametrize("n_features", [1, 1.0, "auto"])
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("container", STORAGE)
def test_one_feature_is_enough(container, n_features, seed):
    labels = np.repeat([0, 1, 2], 10)
    data = 10.0 * labels + np.random.default_rng(seed).normal(size=30)
    found = model(n_features=n_features, init=labels).fit(container(data[:, None]))
    assert found.n_features_selected_ == 1
    assert adjusted_rand_score(found.labels_, labels) == 1.0


@pytest.mark.parametrize("n_features", [1, 2, 3, 4, 7, 15])
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("copies", [(1, 1), (1, -1), (1, 1, 1)])
def test_of_duplicated_features_exactly_as_many_as_asked_are_selected(n_features, seed, copies):
    data, labels = small(seed)
    data = np.hstack([factor * data for factor in copies])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = model(n_features=n_features, init=labels).fit(data)
    assert found.n_features_selected_ == n_features
    for warning in caught:
        assert issubclass(warning.category, UserWarning)
        assert f"exactly n_features={n_features} features" in str(warning.message)


def equals(strength=5.0):
    """Two clusters and six features with the same part in telling them apart."""
    signs = np.tile(hadamard(8), (4, 1)).astype(float)
    return strength * signs[:, [1]] + signs[:, 2:], signs[:, 1]


@pytest.mark.parametrize("n_features", [1, 3, 5])
@pytest.mark.parametrize("strength", [2.0, 5.0])
@pytest.mark.parametrize("container", STORAGE)
def test_features_that_enter_together_are_cut_to_the_number_with_a_warning(
    container, strength, n_features
):
    data, labels = equals(strength)
    message = rf"^No radius selects exactly n_features={n_features} features"
    with pytest.warns(UserWarning, match=message):
        found = model(2, n_features=n_features, init=labels, selector="l1").fit(container(data))
    assert found.n_features_selected_ == n_features
    assert found.gap_ > found.solver_tol  # of what was cut
    assert not found.converged_
    forward = model(2, n_features=n_features, init=labels, selector="forward").fit(container(data))
    assert forward.n_features_selected_ == n_features  # without a warning


@pytest.mark.parametrize("n_features", [1, 2])
@pytest.mark.parametrize("relax", [True, False])
def test_of_two_features_that_enter_together_one_is_cut_with_a_warning(
    array_kind, n_features, relax
):
    labels, noise = np.repeat([1.0, -1.0], 16), np.tile([1.0, -1.0], 16)
    data = np.column_stack([5 * labels + noise, 5 * labels - noise])
    estimator = model(2, n_features=n_features, init=labels, relax=relax, selector="l1")
    if n_features == 1:
        with pytest.warns(UserWarning, match="^No radius selects exactly n_features=1 features"):
            estimator.fit(array_kind(data))
    else:
        estimator.fit(array_kind(data))
    assert estimator.n_features_selected_ == n_features


def test_features_that_enter_together_can_all_be_selected(array_kind):
    data, labels = equals()
    found = model(2, n_features=6, init=labels).fit(array_kind(data))
    assert found.n_features_selected_ == 6
    assert adjusted_rand_score(found.labels_, labels) == 1.0


# What is no error: samples and clusters ------------------------------------------------


@pytest.mark.filterwarnings("ignore:n_clusters=1 has nothing to tell apart")
@pytest.mark.parametrize("settings", [{}, {"n_features": "auto"}, {"eta": 1.0}])
def test_one_cluster_holds_all_samples(array_kind, settings):
    data = array_kind(X)
    found = model(1, init="auto", **settings).fit(data)
    np.testing.assert_array_equal(found.labels_, np.zeros(30))
    np.testing.assert_array_equal(found.predict(data), np.zeros(30))
    np.testing.assert_array_equal(found.predict_proba(data), np.ones((30, 1)))
    assert found.score(data) == 0.0


@pytest.mark.parametrize("data", [X[:1], np.ones((5, 3)), np.zeros((1, 1))])
def test_one_cluster_can_be_had_of_anything(data):
    with pytest.warns(UserWarning, match="0 of n_features=1 features are selected"):
        found = model(1, n_features=1, init="auto").fit(data)
    np.testing.assert_array_equal(found.labels_, np.zeros(len(data)))


def test_every_sample_can_be_a_cluster(array_kind):
    found = model(6, init=np.arange(6)).fit(array_kind(X[:6]))
    assert sorted(found.labels_) == list(range(6))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("container", STORAGE)
def test_samples_of_zero_weight_have_no_part_in_the_fit(container, seed):
    data, labels = small(seed)
    rng = np.random.default_rng(seed)
    weights = rng.integers(1, 4, size=30).astype(float)
    weights[rng.choice(30, 8, replace=False)] = 0.0
    kept = weights > 0
    found = model(init=labels).fit(container(data), sample_weight=weights)
    alone = model(init=labels[kept]).fit(container(data[kept]), sample_weight=weights[kept])
    np.testing.assert_allclose(found.weights_, alone.weights_, rtol=1e-6, atol=1e-9)
    assert adjusted_rand_score(found.labels_[kept], alone.labels_) == 1.0
    np.testing.assert_array_equal(found.labels_, found.predict(container(data)))
    data[~kept] = 1e3 * rng.normal(size=(8, 12))
    moved = model(init=labels).fit(container(data), sample_weight=weights)
    np.testing.assert_allclose(moved.weights_, found.weights_, rtol=1e-6, atol=1e-9)


def test_a_cluster_of_the_start_may_lose_all_its_weight():
    found = model().fit(X, sample_weight=np.where(LABELS == 2, 0.0, 1.0))
    assert set(found.labels_[LABELS != 2]) == {0, 1, 2}


# What is no error: storage -------------------------------------------------------------


def untidy(data, flaw):
    """Arrays of a CSR matrix equal to `data`, but stored in an unusual way."""
    clean = sp.csr_array(data)
    values, columns, starts = clean.data, clean.indices, clean.indptr
    if flaw == "explicit zeros":
        columns = np.tile(np.arange(data.shape[1], dtype=np.int32), data.shape[0])
        values, starts = data.ravel(), np.arange(len(data) + 1, dtype=np.int32) * data.shape[1]
    elif flaw == "unsorted":
        order = np.lexsort((-columns, np.repeat(np.arange(len(data)), np.diff(starts))))
        values, columns = values[order], columns[order]
    elif flaw == "duplicates":
        values = np.column_stack([2.0 * values, -values]).ravel()
        columns, starts = np.repeat(columns, 2), 2 * starts
    return np.array(values), np.array(columns), np.array(starts)


@pytest.mark.parametrize("flaw", ["explicit zeros", "unsorted", "duplicates"])
@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csr_array, sp.csc_array])
@pytest.mark.parametrize("settings", [{}, {"scale": True}])
@pytest.mark.parametrize("seed", SEEDS)
def test_untidy_sparse_data_give_the_result_of_tidy_ones(flaw, kind, settings, seed):
    data, labels = small(seed)
    data[np.abs(data) < 0.7] = 0.0
    by_rows = kind in (sp.csr_matrix, sp.csr_array)
    arrays = untidy(data if by_rows else data.T.copy(), flaw)
    given, kept = kind(arrays, shape=data.shape), [array.copy() for array in arrays]
    clean = kind(data)
    expected = model(init=labels, **settings).fit(clean)
    found = model(init=labels, **settings).fit(given)
    assert_same_fit(found, expected)
    np.testing.assert_array_equal(found.predict(given), expected.predict(clean))
    np.testing.assert_allclose(found.project(given), expected.project(clean), atol=1e-9)
    assert found.score(given) == pytest.approx(expected.score(clean))
    for array, before in zip((given.data, given.indices, given.indptr), kept, strict=True):
        np.testing.assert_array_equal(array, before)


@pytest.mark.filterwarnings("ignore:n_features=4 could not be met")
@pytest.mark.parametrize("flaw", ["explicit zeros", "unsorted", "duplicates"])
def test_rows_that_differ_only_in_their_storage_are_not_distinct(flaw):
    data = np.resize(np.where(np.abs(X[:2]) < 0.5, 0.0, X[:2]), (15, 12))
    arrays = untidy(data, flaw)
    untidy_half = sp.csr_array(arrays, shape=data.shape)
    both = sp.vstack([sp.csr_array(data), untidy_half], format="csr")
    with pytest.warns(ConvergenceWarning, match="X has 2 distinct samples"):
        fitted = model().fit(both)
    np.testing.assert_array_equal(fitted.labels_[:15], fitted.labels_[15:])


@pytest.mark.parametrize("container", STORAGE)
@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int8, np.int64])
@pytest.mark.parametrize("seed", SEEDS)
def test_whole_numbers_give_the_result_of_the_same_floats(container, dtype, seed):
    data, labels = small(seed)
    whole = data > 1.5 if dtype is bool else np.clip(20 * data, 0, 127).astype(dtype)
    assert_same_fit(
        model(init=labels).fit(container(whole)),
        model(init=labels).fit(container(whole.astype(np.float64))),
    )


@pytest.mark.parametrize("settings", [{"scale": True}, {"eta": 3.0, "solver": "fista"}])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_data_are_never_modified(array_kind, settings, dtype):
    given, before = (array_kind(X.astype(dtype)) for _ in range(2))
    weights, labels = np.arange(30) % 4.0, LABELS.copy()
    found = model(init=labels, **settings).fit(given, sample_weight=weights)
    for method in METHODS:
        getattr(found, method)(given)
    assert given.dtype == dtype
    if sp.issparse(given):
        for name in ("data", "indices", "indptr"):
            np.testing.assert_array_equal(getattr(given, name), getattr(before, name))
    else:
        np.testing.assert_array_equal(given, before)
    np.testing.assert_array_equal(weights, np.arange(30) % 4.0)
    np.testing.assert_array_equal(labels, LABELS)


def buffers(data):
    return [data.data, data.indices, data.indptr] if sp.issparse(data) else [data]


def test_read_only_data_are_taken(array_kind):
    given, expected = array_kind(X.copy()), model().fit(array_kind(X))
    weights, labels = np.ones(12), LABELS.copy()
    for array in (*buffers(given), weights, labels):
        array.flags.writeable = False
    found = model(init=labels, feature_weights=weights).fit(given)
    assert_same_fit(found, expected)
    np.testing.assert_array_equal(found.predict(given), expected.labels_)
    assert found.score(given) == pytest.approx(expected.score(X))


def test_memory_mapped_data_are_taken(array_kind, tmp_path):
    data = array_kind(X)
    mapped = []
    for i, array in enumerate(buffers(data)):
        np.save(tmp_path / f"{i}.npy", array)
        mapped.append(np.load(tmp_path / f"{i}.npy", mmap_mode="r"))
    given = type(data)(tuple(mapped), shape=data.shape) if sp.issparse(data) else mapped[0]
    found, expected = model().fit(given), model().fit(data)
    assert_same_fit(found, expected)
    np.testing.assert_array_equal(found.predict(given), expected.labels_)
    assert found.score(given) == pytest.approx(expected.score(data))


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"verbose": "a"}, TypeError),
        ({"relax": "no"}, TypeError),
        ({"scale": "no"}, TypeError),
        ({"targets": np.array(["embedding", "x"])}, ValueError),
        ({"init": None}, ValueError),
    ],
)
def test_options_of_the_wrong_kind_are_named(clusters, options, error):
    X, _, _ = clusters
    with pytest.raises(error, match=next(iter(options))):
        KSparse(3, **options).fit(X)


def test_repeated_column_names_are_refused(clusters):
    X, _, _ = clusters
    frame = pd.DataFrame(X[:, :4], columns=["a", "b", "a", "a"])
    with pytest.raises(ValueError, match="2 repeated column names"):
        KSparse(3).fit(frame)


@pytest.mark.parametrize("low", [1e-300, 1e-13])
def test_weights_too_far_apart_are_refused(clusters, low):
    X, _, _ = clusters
    weight = np.r_[1.0, np.full(len(X) - 1, low)]
    with pytest.raises(ValueError, match="sample_weight ranges from"):
        KSparse(3).fit(X, sample_weight=weight)


def test_complex_weights_are_refused(clusters):
    X, _, _ = clusters
    with pytest.raises(TypeError, match="sample_weight must be real numbers"):
        KSparse(3).fit(X, sample_weight=np.full(len(X), 1 + 1j))
