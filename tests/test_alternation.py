"""Algorithm 3 as a generator of states, and what consumes them."""

from __future__ import annotations

import inspect
from itertools import islice

import numpy as np
import pytest
import scipy.sparse as sp

from conftest import make_clusters, seeds
from ksparse import KSparse, choose_k, feature_path, stability_selection
from ksparse.core.alternation import State, alternate
from ksparse.params import DEFAULTS, read_inputs
from ksparse.search.fit import converge, fit_prepared, prepare, w_step_for
from ksparse.selection.checks import with_defaults


def make_problem(seed=0, **options):
    X, truth, _ = make_clusters(seed, shift=2.0)
    inputs = read_inputs(with_defaults({"n_features": 12, "n_clusters": 3} | options), X)
    settings = inputs.settings
    prepared = prepare(inputs.matrix, settings.n_components, np.random.RandomState(0))
    problem = prepared.alternation(settings, w_step_for(settings, 12))
    labels = np.where(np.random.default_rng(seed).random(truth.size) < 0.7, truth, (truth + 1) % 3)
    return problem, labels, settings


@pytest.mark.parametrize("targets", ["embedding", "projection"])
@pytest.mark.parametrize("seed", seeds(2, 6))
@pytest.mark.parametrize("at", [1, 3])
def test_the_states_go_on_from_any_of_them(targets, seed, at):
    problem, labels, _ = make_problem(seed, targets=targets)
    rng = np.random.RandomState(seed)
    states, numbers = [], []
    for state in islice(alternate(problem, State(labels), rng), 5):
        states.append(state)
        numbers.append(rng.get_state())
    rng.set_state(numbers[at - 1])
    again = list(islice(alternate(problem, states[at - 1], rng), 5 - at))
    for one, other in zip(states[at:], again, strict=True):
        assert one.n_loops == other.n_loops
        np.testing.assert_array_equal(one.labels, other.labels)
        np.testing.assert_allclose(one.projected, other.projected, atol=1e-9)
        assert one.labels_changed == other.labels_changed


def test_a_state_says_what_its_loop_did():
    problem, labels, _ = make_problem()
    before = State(labels)
    for state in islice(alternate(problem, before, np.random.RandomState(0)), 4):
        assert state.n_loops == before.n_loops + 1
        np.testing.assert_allclose(
            state.projected, problem.matrix.project(state.projection.weights), atol=1e-12
        )
        rest = state.projected - state.centroids[state.labels]
        assert state.inertia == pytest.approx((rest**2).sum())
        assert (state.labels_changed == 0) == np.array_equal(before.labels, state.labels)
        before = state


def test_whoever_consumes_the_states_decides_which_are_certified():
    problem, labels, _ = make_problem()
    states = islice(
        alternate(
            problem, State(labels), np.random.RandomState(0), certify=lambda s: s.n_loops > 1
        ),
        4,
    )
    gaps = [state.projection.gap for state in states]
    assert np.isnan(gaps[:2]).all()
    assert (np.array(gaps[2:]) <= 1e-4).all()


def test_the_cost_of_the_papers_scheme_never_rises():
    problem, labels, settings = make_problem(targets="projection")
    fit = converge(problem, labels, settings.loop, np.random.RandomState(0))
    assert (np.diff(fit.history["cost"]) <= 1e-12).all()


def test_preparing_leaves_the_view_as_it_is():
    X, _, _ = make_clusters(0)
    inputs = read_inputs(with_defaults({"n_features": 10, "n_clusters": 3}), X)
    before = inputs.matrix.factor.copy()
    prepared = prepare(inputs.matrix, 7, np.random.RandomState(0))
    fit_prepared(prepared, inputs.settings, np.random.RandomState(0))
    np.testing.assert_array_equal(inputs.matrix.factor, before)
    assert not np.array_equal(prepared.matrix.factor, before)


# The result ------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", [np.array, sp.csr_array, sp.csc_array])
@pytest.mark.parametrize("seed", seeds(2, 8))
def test_a_model_predicts_the_labels_that_it_found(kind, dtype, seed):
    X, _, _ = make_clusters(seed, shift=1.0)  # many samples near a border
    data = kind(X.astype(dtype))
    model = KSparse(3, n_features=10, init="pca", random_state=seed)
    projected = model.fit_project(data)
    np.testing.assert_array_equal(model.predict(data), model.labels_)
    np.testing.assert_allclose(model.project(data), projected, rtol=1e-5, atol=1e-7)
    assert projected.dtype == model.weights_.dtype == dtype


def test_samples_without_weight_are_projected_too():
    X, _, _ = make_clusters(0)
    weight = np.arange(len(X)) % 3 > 0
    model = KSparse(3, n_features=10, random_state=0)
    projected = model.fit_project(X, sample_weight=weight)
    np.testing.assert_allclose(projected, model.project(X), atol=1e-12)
    np.testing.assert_array_equal(model.predict(X), model.labels_)


def test_data_are_projected_once_for_the_result(monkeypatch):
    from ksparse.matrix import base

    X, _, _ = make_clusters(0)
    projections = []
    project = base.project_dense

    def counted(X, mean, factor, W):
        projections.append(W.any(axis=1).sum())
        return project(X, mean, factor, W)

    monkeypatch.setattr(base, "project_dense", counted)
    model = KSparse(3, n_features=10, init="pca", random_state=0)
    model.fit_project(X)
    assert projections.count(10) == model.n_iter_  # one for each loop, and no other


# Parameters ------------------------------------------------------------------------------


def test_the_table_of_parameters_is_that_of_the_estimator():
    signature = inspect.signature(KSparse.__init__).parameters
    assert {name: p.default for name, p in signature.items() if name != "self"} == DEFAULTS


@pytest.mark.parametrize("function", [choose_k, feature_path, stability_selection])
def test_functions_refuse_what_is_no_parameter(function):
    X, _, _ = make_clusters(0)
    arguments = {choose_k: ([2, 3],), feature_path: (3,), stability_selection: (3, 5)}[function]
    with pytest.raises(TypeError, match=r"'max_loop' is no parameter.*did you mean max_loops\?"):
        function(X, *arguments, max_loop=3)
