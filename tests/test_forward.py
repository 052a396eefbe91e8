"""Forward selection: exact steps, exact numbers, every cluster counting the same."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import ksparse
from conftest import ARRAY_KINDS, crossed, examples, make_clusters, seeds, thorough_params
from ksparse import KSparse, feature_path
from ksparse._errors import InputError
from ksparse.core.forward import BalancedProblem, balanced_problem, forward_path
from ksparse.matrix import as_matrix


def random_problem(seed, n=12, k=3, ridge=0.3, costs=None):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, n)) @ rng.normal(size=(n, n))
    T = rng.normal(size=(40, k))
    G = X.T @ X
    G[np.diag_indices(n)] += ridge * np.trace(G) / n
    total = 2 * float((T**2).sum())
    return BalancedProblem(np.arange(n), G, X.T @ T, np.ones(n) if costs is None else costs, total)


@settings(max_examples=examples(25, 200), deadline=None, derandomize=True)
@given(st.integers(0, 10_000), st.integers(1, 12), st.integers(1, 4))
def test_every_step_takes_what_explains_most(seed, n_features, k):
    problem = random_problem(seed, k=k)
    path = forward_path(problem, n_features)
    chosen = []
    for place, gain in zip(path.places, path.gains, strict=True):
        before = problem.explained(np.array(chosen, dtype=int))
        gains = [problem.explained(np.array([*chosen, j])) - before if j not in chosen else -1.0
                 for j in range(12)]  # fmt: skip
        assert gains[place] == pytest.approx(max(gains), rel=1e-6, abs=1e-12)
        assert gain == pytest.approx(gains[place], rel=1e-6, abs=1e-12)
        chosen.append(place)
    assert problem.explained(path.places) <= problem.explained() * (1 + 1e-9)


def test_costs_divide_gains_and_free_features_come_first():
    costs = np.ones(12)
    first = forward_path(random_problem(0), 1).places[0]
    costs[first] = 1e6
    costs[[7, 9]] = 0
    path = forward_path(random_problem(0, costs=costs), 11)
    assert set(path.places[:2]) == {7, 9}
    assert first not in path.places
    assert forward_path(random_problem(0, costs=costs), 12).places[-1] == first


@pytest.mark.parametrize("seed", seeds(2, 6))
def test_the_problem_is_that_of_samples_repeated_until_clusters_are_equal(seed, array_kind):
    X, labels, _ = make_clusters(seed, sizes=(40, 20, 10), zeros=0.3)
    times = np.array([1, 2, 4])[labels]
    again = np.repeat(np.arange(labels.size), times)

    def problem(data, labels, weight=None):
        matrix = as_matrix(data, sample_weight=weight)
        return balanced_problem(
            matrix, labels, matrix.cluster_sums(labels, 3), np.ones(60), n_features=5, ridge=0.3
        )

    reference = problem(X[again], labels[again])
    weight = np.random.default_rng(seed).uniform(0.5, 2, 3)[labels] * times
    for found in (problem(array_kind(X), labels), problem(array_kind(X), labels, weight)):
        np.testing.assert_allclose(found.gram, reference.gram, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found.correlation, reference.correlation, atol=1e-12)
        assert found.total == reference.total


@pytest.mark.parametrize(
    ("n_features", "array_kind"),
    crossed([1, 6, 59, 2, 15, 30, 60], list(ARRAY_KINDS)),
    indirect=["array_kind"],
)
def test_the_number_is_exact(n_features, array_kind):
    X, _, _ = make_clusters(1)
    model = KSparse(3, n_features=n_features, selector="forward", random_state=0)
    model.fit(array_kind(X))
    assert model.n_features_selected_ == n_features
    assert 0 < model.explained_ <= model.explained_bound_ * (1 + 1e-9) <= 1
    assert np.isnan(model.gap_)
    assert model.converged_
    np.testing.assert_array_equal(model.predict(array_kind(X)), model.labels_)


@pytest.mark.parametrize("seed", seeds(1, 10))
def test_storage_type_and_weights_do_not_matter(seed):
    X, _, _ = make_clusters(seed, zeros=0.4)
    model = KSparse(3, n_features=4, selector="forward", random_state=0)
    reference = model.fit(X)
    labels, features = reference.labels_, np.flatnonzero(reference.get_support())
    for other in (sp.csr_array(X), sp.csc_array(X), X.astype(np.float32), np.asfortranarray(X)):
        found = KSparse(3, n_features=4, selector="forward", random_state=0).fit(other)
        np.testing.assert_array_equal(found.labels_, labels)
        np.testing.assert_array_equal(np.flatnonzero(found.get_support()), features)


@pytest.mark.parametrize("seed", seeds(3, 10))
def test_a_rare_cluster_has_a_feature_of_its_own(seed):
    sizes = (200, 150, 100, 15)
    X, truth, _ = make_clusters(seed, sizes=sizes, n_features=200, shift=6.0)
    model = KSparse(4, n_features=4, selector="forward", init=truth, random_state=0).fit(X)
    chosen = np.flatnonzero(model.get_support())
    assert sorted(chosen // 5) == [0, 1, 2, 3]  # a marker of each
    assert ksparse.metrics.adjusted_rand_score(truth, model.labels_) > 0.95


def test_of_equal_features_the_first_is_taken():
    X, _, _ = make_clusters(2)
    twice = np.hstack([X, X])
    model = KSparse(3, n_features=3, selector="forward", random_state=0).fit(twice)
    assert (np.flatnonzero(model.get_support()) < X.shape[1]).all()


@pytest.mark.parametrize(("sizes", "least"), [((300, 250, 200), 100), ((80, 60, 40), 36)])
def test_clusters_for_few_features_are_found_with_many(sizes, least):
    """At least 100, but no more than one for five samples: few samples allow no more."""
    X, _, _ = make_clusters(0, sizes=sizes, n_features=200, shift=5.0)
    model = KSparse(3, n_features=2, random_state=0).fit(X)
    assert model.n_features_selected_ == 2
    others = [n for n, chosen in zip(model.starts_["n_features"], model.starts_["chosen"],
                                     strict=True) if not chosen]  # fmt: skip
    assert others and set(others) == {least}
    few = KSparse(3, n_features=2, random_state=0).fit(X[:, :30])  # as many as there are
    assert few.n_features_selected_ == 2


def test_auto_selects_forward_only_below_what_the_clusters_need():
    X, _, _ = make_clusters(3, shift=1.5, sizes=(80, 60, 40), n_markers=10, n_features=100)
    few = KSparse(3, n_features=3, selector="auto", random_state=0).fit(X)
    assert np.isnan(few.gap_) and few.explained_ > 0
    many = KSparse(3, n_features=60, selector="auto", random_state=0).fit(X)
    same = KSparse(3, n_features=60, selector="l1", random_state=0).fit(X)
    assert many.gap_ <= 1e-4 and np.isnan(many.explained_)
    np.testing.assert_array_equal(many.labels_, same.labels_)
    np.testing.assert_array_equal(many.weights_, same.weights_)


def test_a_radius_and_a_selector_of_numbers_exclude_each_other():
    X, _, _ = make_clusters(0)
    told = "eta=20.0 is a radius, and selector='forward' selects a number of features: give n_feat"
    with pytest.raises(InputError, match=told):
        KSparse(3, eta=20.0, selector="forward").fit(X)


def test_features_without_cost_are_kept_and_forbidden_ones_never_taken():
    X, _, _ = make_clusters(0)
    cost = np.ones(60)
    cost[:5], cost[[40, 41]] = np.inf, 0
    model = KSparse(3, n_features=6, selector="forward", feature_weights=cost, random_state=0)
    support = model.fit(X).get_support()
    assert support[[40, 41]].all() and not support[:5].any() and support.sum() == 6


def test_fewer_usable_features_than_asked_for_are_all_taken():
    X, _, _ = make_clusters(0)
    X[:, 10:] = 1.0
    with pytest.warns(UserWarning, match="10"):
        model = KSparse(3, n_features=12, selector="forward", random_state=0).fit(X)
    assert model.n_features_selected_ == 10


@pytest.mark.parametrize("selector", thorough_params(["auto"], ["forward"]))
def test_a_path_is_nested_below_what_the_clusters_need(selector):
    X, truth, _ = make_clusters(4, shift=1.5, sizes=(80, 60, 40), n_markers=10, n_features=100)
    path = feature_path(
        X, 3, n_features=[2, 4, 8, 80], selector=selector, labels=truth, random_state=0
    )
    assert list(path.columns["n_features"]) == [2, 4, 8, 80]
    for fewer, more in zip(path.features[:2], path.features[1:3], strict=True):
        assert set(fewer) <= set(more)
    assert np.isnan(path.columns["gap"][:3]).all()
    assert np.isnan(path.columns["gap"][3]) == (selector == "forward")


@pytest.mark.thorough
def test_noise_is_not_explained_on_other_samples():
    X = np.random.default_rng(0).normal(size=(100, 3000))
    path = feature_path(X, 3, n_features=[5, 20], selector="forward", random_state=0)
    assert (path.columns["explained"] <= 0.05).all()
    with pytest.warns(UserWarning, match="There is no plateau"):
        path.best()


def test_the_share_survives_a_file(tmp_path):
    X, _, _ = make_clusters(0)
    model = KSparse(3, n_features=4, selector="forward", random_state=0).fit(X)
    model.save(tmp_path / "m.ksparse")
    again = ksparse.load(tmp_path / "m.ksparse")
    assert again.explained_ == model.explained_
    assert again.explained_bound_ == model.explained_bound_


def test_what_few_genes_explain_is_recorded_and_reported(tmp_path):
    anndata = pytest.importorskip("anndata")
    adata = ksparse.simulate.simulate_counts(200, 300, 3, random_state=0).to_anndata()
    ksparse.tl.ksparse(adata, 3, n_features=5, normalize="log1p", random_state=0)
    ksparse.tl.ksparse(adata, 3, n_features=200, normalize="log1p", key_added="many",
                       random_state=0)  # fmt: skip
    adata.write_h5ad(tmp_path / "cells.h5ad")
    adata = anndata.read_h5ad(tmp_path / "cells.h5ad")
    results = adata.uns["ksparse"]["results"]
    assert 0 < results["explained"] < results["explained_bound"] < 1
    assert "explained" not in adata.uns["many"]["results"]  # it has a certificate instead
    ksparse.report.write_report(adata, tmp_path / "page.html")
    share = f"they explain {results['explained']:.1%} of the clusters"
    assert share in (tmp_path / "page.html").read_text()


def test_a_path_of_few_genes_is_kept_and_drawn(tmp_path):
    anndata = pytest.importorskip("anndata")
    pytest.importorskip("matplotlib").use("Agg")
    X, _, _ = make_clusters(0)
    adata = anndata.AnnData(X)
    options = {"n_features": [2, 4], "selector": "forward", "init": "pca", "random_state": 0}
    ksparse.tl.path(adata, 3, **options)
    adata.write_h5ad(tmp_path / "a.h5ad")
    axes = ksparse.pl.path(anndata.read_h5ad(tmp_path / "a.h5ad"))
    assert len(np.ravel(axes)) == 2
