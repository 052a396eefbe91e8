"""PanelSelector: features for classes, one after the other."""

from __future__ import annotations

import numpy as np
import pandas
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.utils.estimator_checks import parametrize_with_checks

import ksparse as ks
from conftest import ARRAY_KINDS, crossed, examples, make_clusters, seeds
from ksparse._errors import InputError, InputWarning
from ksparse.core.forward import BalancedProblem, balanced_problem, forward_path
from ksparse.matrix import as_matrix
from ksparse.matrix.data import dense
from ksparse.panel import PanelSelector


@pytest.mark.filterwarnings("ignore:X has . features that can be selected")
@parametrize_with_checks(
    [
        PanelSelector(2),
        PanelSelector(1, min_per_class=0, balance=0.5),
        PanelSelector(2, n_clusters=2, random_state=0),
    ],
    expected_failed_checks=lambda estimator: {},
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def fitted(X, y=None, n_features=10, sample_weight=None, **options):
    return PanelSelector(n_features, **options).fit(X, y, sample_weight)


# What is selected ---------------------------------------------------------------------------


@pytest.mark.parametrize("seed", seeds(3, 10))
def test_planted_markers_are_found(seed):
    X, y, markers = make_clusters(seed)
    panel = fitted(X, y, 9)
    assert markers[panel.features_].all()
    assert (panel.best_class_ == panel.features_ // 5).all()
    assert (panel.direction_ == 1).all()
    np.testing.assert_allclose(panel.class_means_[1], X[y == 1][:, panel.features_].mean(axis=0))
    np.testing.assert_array_equal(panel.transform(X), X[:, np.sort(panel.features_)])


@pytest.mark.parametrize(("kind", "dtype"), crossed(list(ARRAY_KINDS), [np.float64, np.float32]))
def test_every_storage_gives_the_same_panel(kind, dtype):
    X, y, _ = make_clusters(1, zeros=0.5)
    expected, found = fitted(X, y), fitted(ARRAY_KINDS[kind](X.astype(dtype)), y)
    assert found.features_.tolist() == expected.features_.tolist()
    np.testing.assert_allclose(found.gains_, expected.gains_, rtol=1e-4)
    assert found.class_means_.dtype == dtype
    assert sp.issparse(found.transform(ARRAY_KINDS[kind](X))) == ("cs" in kind)


@pytest.mark.parametrize("sparse", [False, True])
def test_data_in_files_give_the_same_panel(tmp_path, sparse):
    anndata = pytest.importorskip("anndata")
    X, y, _ = make_clusters(1, zeros=0.5)
    anndata.AnnData(sp.csr_matrix(X) if sparse else X).write_h5ad(tmp_path / "data.h5ad")
    backed = anndata.read_h5ad(tmp_path / "data.h5ad", backed="r")
    y = y.astype(object)
    y[::5] = None
    expected = fitted(X, y)
    found = fitted(backed, y, memory_limit=2**16)
    assert found.features_.tolist() == expected.features_.tolist()
    np.testing.assert_allclose(found.gains_, expected.gains_)
    np.testing.assert_allclose(dense(found.transform(backed)), expected.transform(X))
    assert found.feature_names_in_[0] == "0"


def test_dask_arrays_give_the_same_panel():
    array = pytest.importorskip("dask.array")
    X, y, _ = make_clusters(1)
    some = np.where(np.arange(y.size) % 4, y, np.nan)
    found = fitted(array.from_array(X, chunks=(20, -1)), some)
    assert found.features_.tolist() == fitted(X, some).features_.tolist()


def test_a_weight_of_two_is_a_sample_given_twice():
    X, y, _ = make_clusters(2)
    weight = np.random.default_rng(0).integers(0, 4, y.size)
    a = fitted(X, y, sample_weight=weight, balance=0.5)
    b = fitted(np.repeat(X, weight, axis=0), np.repeat(y, weight), balance=0.5)
    assert a.features_.tolist() == b.features_.tolist()
    np.testing.assert_allclose(a.gains_, b.gains_)
    np.testing.assert_allclose(a.class_means_, b.class_means_)


@pytest.mark.parametrize("n_features", [1, 7, 60])
def test_the_number_is_exact_and_small_panels_begin_large_ones(n_features):
    X, y, _ = make_clusters()
    panel = fitted(X, y, n_features)
    assert panel.features_.size == np.unique(panel.features_).size == n_features
    assert fitted(X, y, 60).features_[:n_features].tolist() == panel.features_.tolist()
    assert (panel.gains_ > 0).all()
    np.testing.assert_allclose(panel.explained_, np.cumsum(panel.gains_))
    assert panel.explained_[-1] <= panel.explained_bound_ + 1e-12


def test_of_equal_features_the_first_is_taken():
    X, y, _ = make_clusters()
    twice = np.hstack([X, X])
    panel = fitted(twice, y, 12)
    assert panel.features_[:3].tolist() == fitted(X, y, 12).features_[:3].tolist()
    assert fitted(twice, y, 12, ridge=0.0).features_.max() < 60


def test_constant_features_are_never_selected_and_too_few_are_told():
    X, y, _ = make_clusters(n_features=20)
    X[:, [0, 7]] = 3.0
    told = r"X has 18 features .* fewer than n_features=19"
    with pytest.warns(InputWarning, match=told) as caught:
        panel = PanelSelector(19).fit(X, y)
    assert caught[0].filename == __file__
    assert not np.isin([0, 7], panel.features_).any() and panel.features_.size == 18
    with pytest.raises(InputError, match="None of the 20 features"):
        fitted(np.ones_like(X), y, 3)


def test_a_rare_class_gets_a_marker_if_classes_count_the_same():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], [1200, 790, 10])
    X = rng.normal(size=(2000, 100))
    X[y == 0, :20] += 1.5
    X[y == 1, 20:40] += 1.5
    X[y == 2, 40:43] += 3.0
    equal, by_size = fitted(X, y, 5), fitted(X, y, 5, balance=0.0)
    assert 2 in equal.best_class_[:2]
    assert 2 not in by_size.best_class_


@settings(max_examples=examples(25, 200), deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 7), k=st.integers(1, 4))
def test_forward_gains_are_those_of_trying_every_feature(seed, n, k):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(12, 7))
    G = A.T @ A + 0.1 * np.eye(7)
    C = rng.normal(size=(7, k))
    costs = rng.choice([1.0, 2.0], 7)
    total = 2 * float(np.vdot(C, np.linalg.solve(G, C)))
    problem = BalancedProblem(np.arange(7), G, C, costs, total)
    path = forward_path(problem, n)
    chosen: list[int] = []
    for place, gain in zip(path.places, path.gains, strict=True):
        before = problem.explained(np.array(chosen, dtype=int))
        gains = np.array([
            -np.inf if j in chosen else problem.explained(np.array([*chosen, j])) - before
            for j in range(7)
        ])  # fmt: skip
        assert place == np.argmax(gains / costs)
        assert gain == pytest.approx(gains[place])
        chosen.append(int(place))
    assert path.gains.sum() <= problem.explained() + 1e-9


@pytest.mark.parametrize("balance", [0.0, 0.5, 1.0])
def test_the_problem_is_weighted_least_squares_on_centred_indicators(balance):
    X, y, _ = make_clusters(3, n_features=12)
    k = 3
    sizes = np.bincount(y)
    weight = (sizes ** (1 - balance) / (sizes ** (1 - balance)).sum() / sizes)[y]
    T = np.eye(k)[y] - weight @ np.eye(k)[y]
    centred = X - weight @ X
    matrix = as_matrix(X)
    problem = balanced_problem(
        matrix, y, matrix.cluster_sums(y, k), np.ones(12), n_features=3, ridge=0.0, balance=balance
    )
    np.testing.assert_allclose(problem.gram, centred.T @ (weight[:, None] * centred), atol=1e-12)
    np.testing.assert_allclose(problem.correlation, centred.T @ (weight[:, None] * T), atol=1e-12)
    assert problem.total == pytest.approx((weight[:, None] * T**2).sum())


# Wishes -------------------------------------------------------------------------------------


def test_kept_features_come_first_and_excluded_ones_never():
    X, y, _ = make_clusters()
    X[:, 59] = 1.0  # kept, although it is constant
    panel = fitted(X, y, 8, keep=[59, 30, 0], exclude=np.arange(60) == 5)
    assert panel.features_[:3].tolist() == [0, 30, 59] and panel.features_.size == 8
    assert panel.gains_[2] == 0 and 5 not in panel.features_
    frame = pandas.DataFrame(X, columns=[f"g{j}" for j in range(60)])
    named = fitted(frame, y, 8, keep=["g59", "g30", "g0"], exclude=["g5"])
    assert named.features_.tolist() == panel.features_.tolist()
    costs = np.ones(60)
    costs[[59, 30, 0]], costs[5] = 0, np.inf
    assert fitted(X, y, 8, costs=costs).features_.tolist() == panel.features_.tolist()


def test_costs_divide_gains():
    X, y, _ = make_clusters()
    costs = np.ones(60)
    costs[:5] = 1000.0
    assert not (fitted(X, y, 10, costs=costs).features_ < 5).any()
    # A common factor changes nothing.
    assert (
        fitted(X, y, costs=np.full(60, 3.0)).features_.tolist() == fitted(X, y).features_.tolist()
    )


def test_every_class_gets_its_minimum():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(4), 100)
    X = rng.normal(size=(400, 1200))
    X[y == 0, :600] += 3.0  # more than there are candidates
    X[y == 1, 600:620] += 0.4
    X[y == 2, 620:640] += 0.4
    X[y == 3, 640:660] += 0.4
    free, minimum = fitted(X, y, 9), fitted(X, y, 9, min_per_class=2)
    assert (np.bincount(free.class_means_.argmax(axis=0), minlength=4) < 2).any()
    highest = minimum.class_means_.argmax(axis=0)
    assert minimum.features_.size == 9 and (np.bincount(highest, minlength=4) >= 2).all()
    # Kept features count: only three classes need features.
    kept = fitted(X, y, 8, min_per_class=2, keep=[0, 1])
    assert (np.bincount(kept.class_means_.argmax(axis=0), minlength=4) == 2).all()


def test_a_class_without_features_of_its_own_is_told():
    rng = np.random.default_rng(0)
    y = np.repeat(["a", "b", "low"], 50)
    X = rng.normal(size=(150, 10)) * 0.1
    X[y != "low"] += 3.0
    told = r"1 classes have fewer .* min_per_class=1: 'low' \(0\)"
    with pytest.warns(InputWarning, match=told) as caught:
        panel = PanelSelector(4, min_per_class=1).fit(X, y)
    assert caught[0].filename == __file__
    assert (panel.best_class_ == "low").all() and (panel.direction_ == -1).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"keep": [0, 1], "exclude": [1]}, r"1 features are in keep and in exclude .*: 1\. "),
        ({"keep": range(11)}, "keep has 11 features, more than n_features=10"),
        ({"min_per_class": 4}, "min_per_class=4 asks for 12 features for 3 classes .* leaves 10"),
        ({"min_per_class": 3, "keep": [0, 1, 2, 3, 4]}, "asks for 6 .* the 5 that .* leaves 5"),
        ({"keep": ["g1"]}, "keep has names such as 'g1', but the features of X have none"),
        ({"keep": [60]}, "keep has the index 60, but X has 60 features"),
        ({"exclude": [True, False]}, r"exclude must be indices .* got shape \(2,\)"),
        ({"costs": [1, 2]}, r"costs has shape \(2,\), but X has 60 features"),
        ({"costs": np.full(60, -1.0)}, "costs must be >= 0"),
        ({"n_features": 0}, "n_features=0 must be at least 1"),
        ({"balance": 2.0}, "balance=2.0 must be a number from 0 to 1"),
        ({"ridge": -1}, "ridge=-1 must be a number >= 0"),
    ],
)
def test_contradictions_are_told(options, message):
    X, y, _ = make_clusters()
    with pytest.raises(InputError, match=message):
        fitted(X, y, **options)


def test_unknown_names_are_listed():
    X, y, _ = make_clusters(n_features=20)
    frame = pandas.DataFrame(X, columns=[f"g{j}" for j in range(20)])
    with pytest.raises(InputError, match="2 names in keep are no features of X: 'x', 'y'"):
        fitted(frame, y, 5, keep=["g1", "x", "y"])


# Classes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", [None, np.nan, pandas.NA])
@pytest.mark.parametrize("seed", seeds(1, 4))
def test_samples_without_a_class_help(seed, missing):
    X, y, markers = make_clusters(seed, sizes=(100, 80, 60), n_features=300, shift=2.5)
    labels = np.array(["a", "b", "c"], dtype=object)[y]
    labels[np.random.default_rng(seed).random(y.size) > 0.08] = missing
    known = np.array([isinstance(label, str) for label in labels])
    few = fitted(X[known], labels[known], 15)
    all_ = fitted(X, labels, 15)
    assert list(all_.classes_) == ["a", "b", "c"]
    assert markers[all_.features_].sum() >= max(markers[few.features_].sum(), 14)


def test_numbers_without_a_class_are_nan_and_minus_one_is_a_class():
    X, y, _ = make_clusters()
    some = np.where(np.arange(y.size) % 4, y, np.nan)
    assert fitted(X, some).classes_.tolist() == [0, 1, 2]
    assert fitted(X, y - 1).classes_.tolist() == [-1, 0, 1]


def test_clusters_are_found_without_classes():
    X, _, markers = make_clusters()
    panel = fitted(X, n_features=9, n_clusters=3, random_state=0)
    assert markers[panel.features_].all() and panel.classes_.tolist() == [0, 1, 2]
    with pytest.raises(InputError, match="requires y .* or n_clusters to find clusters"):
        fitted(X)
    with pytest.raises(InputError, match="n_clusters=1 must be at least 2"):
        PanelSelector(3, n_clusters=1).fit(X)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.zeros(90), "y has 1 class, which should be >= 2"),
        (np.full(90, np.nan), "y has 0 classes"),
        (np.zeros(5), r"y has shape \(5,\), but X has 90 samples"),
        (np.linspace(0, 1, 90), "y is continuous"),
        (np.array(["a", 1] * 45, dtype=object), "y mixes labels"),
    ],
)
def test_bad_classes_are_told(y, message):
    with pytest.raises(InputError, match=message):
        fitted(make_clusters()[0], y)


def test_the_names_of_the_package():
    assert ks.panel.PanelSelector is ks.PanelSelector is PanelSelector
    assert {"evaluate_panel", "panel_curve", "find_gates"} <= set(ks.panel.__all__)
