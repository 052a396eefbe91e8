"""Scores on held-out samples: nothing where there is nothing, and of what is returned."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

import ksparse.search.judge as judge_module
import ksparse.search.search as search_module
from conftest import make_clusters, seeds, thorough_params
from ksparse import KSparse, feature_path
from ksparse.params import read_inputs
from ksparse.search.fit import w_step_for
from ksparse.search.judge import Judge, mean_and_error
from ksparse.selection.checks import with_defaults
from ksparse.selection.cluster_scores import _jackknife
from ksparse.simulate import log_normalise, simulate_counts

N_FEATURES = 5_000


def noise(seed, n_samples):
    return np.random.RandomState(seed).normal(size=(n_samples, N_FEATURES))


def three_clusters(seed, n_samples=120, shift=3.0):
    """Three clear clusters, told apart by 16 of 5,000 features."""
    X = noise(seed, n_samples)
    third = n_samples // 3
    X[:third, :8] += shift
    X[third : 2 * third, 8:16] += shift
    return X


def judged(X, labels, n_features=20, n_halvings=3, **options):
    k = int(labels.max()) + 1
    inputs = read_inputs(with_defaults(options, n_clusters=k, n_features=n_features), X)
    judge = Judge(inputs.matrix, k, np.random.RandomState(0), n_halvings=n_halvings)
    return judge(labels, w_step_for(inputs.settings, n_features), n_features)


# The judge --------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("n_samples", [100, 300])
def test_random_labels_of_noise_have_no_score(n_samples, scale):
    """With many more features than samples, and than the pool of candidates."""
    agreement, explained = [], []
    for seed in range(6):
        X = noise(seed, n_samples)
        labels = np.random.RandomState(seed).randint(3, size=n_samples)
        scores = judged(X, labels, scale=scale)
        agreement.append(scores.agreement.mean())
        explained.append(scores.explained.mean())
        assert scores.margin.mean() < 0
    error = np.std(agreement, ddof=1) / np.sqrt(len(agreement))  # data sets are independent
    assert abs(np.mean(agreement)) <= 3 * error
    assert max(explained) <= 0


def test_true_labels_have_a_high_score():
    X = three_clusters(0)
    truth = np.repeat([0, 1, 2], 40)
    scores = judged(X, truth)
    assert scores.agreement.mean() > 0.95
    assert scores.explained.mean() > 0.5
    assert scores.margin.mean() > 0.5


@pytest.mark.parametrize("part", ["X", "labels"])
def test_what_is_fitted_does_not_see_the_samples_held_out(part):
    """Other data or labels of the samples held out change no feature and no weight."""
    X, truth = three_clusters(0), np.repeat([0, 1, 2], 40)
    inputs = read_inputs(with_defaults({}, n_clusters=3, n_features=12), X)
    first = Judge(inputs.matrix, 3, np.random.RandomState(0), n_halvings=1)
    _, test = next(first.halves())
    other_X, other_labels = X.copy(), truth.copy()
    if part == "X":
        other_X[test] = np.random.RandomState(1).normal(size=(test.size, N_FEATURES))
    else:
        other_labels[test] = np.random.RandomState(1).permutation(other_labels[test])
    weights = []
    for data, labels in ((X, truth), (other_X, other_labels)):
        matrix = read_inputs(with_defaults({}, n_clusters=3, n_features=12), data).matrix
        judge = Judge(matrix, 3, np.random.RandomState(0), n_halvings=1)
        w_step = w_step_for(inputs.settings, 12)
        half, W = judge._fitted(labels, w_step, 12, lambda half, W: (half, W))[0]
        used = W.any(axis=1)
        weights.append((half.matrix.X[:, used] - half.matrix.mean[used]) @ W[used])
    np.testing.assert_allclose(weights[0], weights[1], atol=1e-8)


@pytest.mark.parametrize("kept", [2**24, 30_000, 0])
@pytest.mark.parametrize("scale", [False, True])
def test_what_a_judge_keeps_changes_no_score(monkeypatch, kept, scale):
    """Scores are those of a judge that has seen nothing before, whatever is kept of the data."""
    X, truth = three_clusters(0), np.repeat([0, 1, 2], 40)
    weight = np.random.RandomState(0).uniform(0.5, 2, 120)
    options = with_defaults({"scale": scale}, n_clusters=3, n_features=20)
    inputs = read_inputs(options, X, sample_weight=weight)
    w_step = w_step_for(inputs.settings, 20)
    rng = np.random.RandomState(1)
    labelings = [np.where(rng.random_sample(120) < 0.2, rng.randint(3, size=120), truth)
                 for _ in range(3)]  # fmt: skip

    def fresh():
        return Judge(inputs.matrix, 3, np.random.RandomState(0), n_halvings=2)

    expected = [fresh()(labels, w_step, 20) for labels in labelings]
    path = fresh().along(truth, w_step, [5, 40])
    monkeypatch.setattr(judge_module, "KEPT", kept)
    judge = fresh()
    np.testing.assert_allclose(judge.along(truth, w_step, [5, 40]), path, atol=1e-9)
    found = [judge(labels, w_step, 20) for labels in labelings]
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_a_cluster_that_a_half_does_not_contain_counts_against_the_labels():
    X, truth = three_clusters(0), np.repeat([0, 1, 2], 40)
    single = truth.copy()
    single[7] = 3  # in one half only
    whole, alone = judged(X, truth), judged(X, single)
    assert alone.margin.mean() < whole.margin.mean() - 0.1
    # In every halving, one half has not seen it: -1 is the worst that a cluster can have.
    assert (alone.margin.reshape(-1, 2).min(axis=1) < whole.margin.min() - 0.2).all()


@pytest.mark.parametrize("n_features", thorough_params([[5, 60]], [[5, 20, 60]]), ids=str)
def test_feature_path_on_noise_has_no_plateau(n_features):
    path = feature_path(noise(0, 120), 3, n_features=n_features, random_state=0)
    assert path.columns["explained"].max() <= 0
    assert np.abs(path.columns["agreement"]).max() < 0.1
    assert "there is no plateau" in str(path)
    with pytest.warns(UserWarning, match="There is no plateau: no number of features explains"):
        path.best()


@pytest.mark.thorough
@pytest.mark.parametrize("seed", seeds(5, 5))
@pytest.mark.parametrize("n_samples", [100, 300])
def test_feature_path_on_noise_has_no_plateau_for_any_seed(seed, n_samples):
    path = feature_path(noise(seed, n_samples), 3, n_features=[5, 10, 50, 100], random_state=seed)
    assert path.columns["explained"].max() <= 0
    assert np.abs(path.columns["agreement"]).max() < 0.1


@pytest.mark.parametrize("seed", seeds(1, 10))
def test_auto_selects_the_features_that_matter_and_no_others(seed):
    model = KSparse(3, random_state=seed).fit(three_clusters(seed))
    selected = np.flatnonzero(model.get_support())
    assert 1 <= selected.size <= 20
    assert (selected < 16).all()


# What is returned --------------------------------------------------------------------------


@pytest.mark.parametrize("shift", [1.5, 1.0, 0.0])
@pytest.mark.parametrize("seed", seeds(1, 8))
def test_what_was_judged_is_returned(monkeypatch, seed, shift):
    """On weak signals, too, where loops more or less make a difference."""
    tried = []

    def spied(*args, **options):
        fit, candidates, best = real(*args, **options)
        tried.append(candidates[best].fit.labels)
        return fit, candidates, best

    real = search_module.search
    monkeypatch.setattr("ksparse.search.fit.search", spied)
    X, _, _ = make_clusters(seed, shift=shift)
    model = KSparse(3, n_features=12, selector="l1", max_loops=30, tol=0.0, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X)
    assert adjusted_rand_score(tried[0], model.labels_) >= 0.99
    chosen = model.starts_["chosen"].index(True)
    assert model.n_iter_ == model.starts_["n_loops"][chosen]
    assert model.n_features_selected_ == model.starts_["n_features"][chosen]


@pytest.mark.parametrize("shift", [1.5, 0.0])
@pytest.mark.parametrize("seed", seeds(1, 8))
def test_few_features_selected_after_the_loops_are_judged(monkeypatch, seed, shift):
    scored = []
    real = Judge.__call__

    def spied(self, labels, w_step, n_selected):
        scores = real(self, labels, w_step, n_selected)
        scored.append((labels, scores.margin.mean(), n_selected))
        return scores

    monkeypatch.setattr(Judge, "__call__", spied)
    X, _, _ = make_clusters(seed, shift=shift)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = KSparse(3, n_features=6, selector="forward", random_state=seed).fit(X)
    labels, margin, n_selected = scored[-1]
    assert adjusted_rand_score(labels, model.labels_) >= 0.99
    chosen = model.starts_["chosen"].index(True)
    assert n_selected == model.starts_["n_features"][chosen] == 6
    assert model.starts_["score"][chosen] == margin
    assert model.n_iter_ == model.starts_["n_loops"][chosen]


# Errors -------------------------------------------------------------------------------------


def test_the_error_of_overlapping_halves_is_corrected():
    """The spread of means over other data sets is that of the error, not much above it."""
    mean, error = mean_and_error(np.array([0.1, 0.3, 0.2, 0.4]))
    assert mean == pytest.approx(0.25)
    assert error == pytest.approx(np.std([0.1, 0.3, 0.2, 0.4], ddof=1) * np.sqrt(1 / 4 + 1))
    assert np.isnan(mean_and_error(np.array([1.0]))[1])


@pytest.mark.thorough
def test_the_corrected_error_is_as_large_as_the_spread_over_data_sets():
    means, errors, naive = [], [], []
    for seed in range(40):
        X, truth, _ = make_clusters(seed, shift=1.0)
        scores = judged(X, truth, n_features=10).margin
        mean, error = mean_and_error(scores)
        means.append(mean)
        errors.append(error)
        naive.append(scores.std(ddof=1) / np.sqrt(scores.size))
    spread = np.std(means, ddof=1)
    assert np.mean(naive) < 0.7 * spread  # so that this test can fail
    assert 0.7 * spread < np.mean(errors) < 2.5 * spread


def test_the_jackknife_leaves_out_a_part_with_all_its_pairs():
    rng = np.random.RandomState(0)
    values = rng.normal(size=6)
    table = values[:, None] + values[None, :]  # pairs that depend on their parts alone
    np.fill_diagonal(table, 0.0)
    mean, error = _jackknife(table)
    assert mean == pytest.approx(2 * values.mean())
    assert error == pytest.approx(2 * values.std(ddof=1) / np.sqrt(6))
    assert np.isnan(_jackknife(table[:2, :2])[1])


# Certificates -------------------------------------------------------------------------------


def test_loops_that_do_not_converge_warn():
    X = noise(0, 90)[:, :60]
    with pytest.warns(ConvergenceWarning, match="did not converge in max_loops=2 loops"):
        model = KSparse(4, n_features=5, init="pca", max_loops=2, tol=0.0, random_state=0).fit(X)
    assert not model.converged_
    # All loops are wanted: nothing to warn of, and the attribute still tells.
    clear, _, _ = make_clusters(0)
    options = {"n_features": 8, "init": "pca", "random_state": 0}
    model = KSparse(3, selector="l1", tol=None, max_loops=4, **options).fit(clear)
    assert model.converged_
    assert model.n_iter_ == 4
    assert KSparse(3, selector="forward", tol=None, max_loops=4, **options).fit(clear).n_iter_ == 5
    model = KSparse(4, selector="l1", tol=None, max_loops=2, **options | {"n_features": 5}).fit(X)
    assert not model.converged_


def test_a_w_step_that_does_not_converge_warns():
    X, _, _ = make_clusters(0)
    options = {"eta": 20.0, "init": "spectral", "random_state": 0}
    with pytest.warns(ConvergenceWarning, match=r"The W-step did not converge: its gap is"):
        model = KSparse(3, solver="projected_gradient", solver_max_iter=2, **options).fit(X)
    assert not model.converged_
    assert model.gap_ > model.solver_tol
    assert KSparse(3, **options).fit(X).converged_


@pytest.mark.parametrize("seed", seeds(1, 5))
def test_several_starts_depend_on_the_data_alone(seed):
    X, _, _ = make_clusters(0, shift=1.0, n_features=200)
    one, other = (KSparse(3, n_features=12, random_state=s).fit(X) for s in (None, seed))
    np.testing.assert_array_equal(one.labels_, other.labels_)
    np.testing.assert_allclose(one.weights_, other.weights_, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("seed", seeds(1, 3))
def test_many_clusters_of_equal_strength_are_not_lost_in_the_dense_start(seed):
    data = simulate_counts(800, 1000, 9, random_state=seed)
    model = KSparse(9).fit(log_normalise(data.counts))
    assert adjusted_rand_score(data.labels, model.labels_) > 0.9
