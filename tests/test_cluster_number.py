"""choose_k: how many clusters."""

from __future__ import annotations

import matplotlib
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from conftest import make_clusters, seeds, thorough_params
from ksparse import choose_k
from ksparse.search.fit import fit_prepared
from ksparse.selection.cluster_number import ClusterNumber
from ksparse.selection.gap import first_max, gap_statistic, tibshirani

matplotlib.use("Agg")


def clear(seed, k):
    sizes = (60, 55, 50, 45, 40, 40)[:k]
    return make_clusters(seed, sizes=sizes, n_features=100, n_markers=6, shift=3.0)[0]


@pytest.mark.parametrize(
    ("numbers", "n_seeds", "least", "most"),
    thorough_params([((3,), 1, 1, 5)], [((3, 4, 6), 5, 14, 7)]),
)
def test_clear_clusters_are_counted_right(numbers, n_seeds, least, most):
    methods = ("gap", "silhouette", "agreement")
    right = dict.fromkeys(methods, 0)
    for k in numbers:
        for seed in range(n_seeds):
            found = choose_k(
                clear(seed, k), range(1, most + 1), methods=methods, n_halvings=4,
                n_references=10, random_state=seed,
            )  # fmt: skip
            for method in methods:
                right[method] += found.choices[method] == k
    assert min(right.values()) >= least, right  # 14 of 15 are more than 9 of 10


@pytest.mark.parametrize("seed", seeds(1, 3))
def test_stability_counts_clear_clusters_right(seed):
    found = choose_k(clear(seed, 4), [2, 3, 4, 5], methods=["stability"], random_state=seed)
    assert found.choices == {"stability": 4}
    assert found.columns["stability"][2] > 0.95


@pytest.mark.parametrize("seed", seeds(1, 4))
def test_noise_is_one_cluster_by_the_gap(seed):
    X = np.random.default_rng(seed).normal(size=(150, 80))
    found = choose_k(X, range(1, 5), methods=["gap", "agreement"], random_state=seed)
    assert found.choices["gap"] == 1
    assert (found.columns["agreement"][1:] < 0.3).all()


@pytest.fixture(scope="module")
def found():
    return choose_k(clear(0, 3), [1, 2, 3, 4], n_halvings=2, n_subsamples=3, random_state=0)


def test_the_table_has_all_methods_with_their_errors(found):
    table = found.table
    assert isinstance(table, pd.DataFrame)
    assert list(table) == [
        "k", "n_features", "gap", "gap_se", "silhouette", "agreement", "agreement_se",
        "stability", "stability_se",
    ]  # fmt: skip
    assert list(table["k"]) == [1, 2, 3, 4]
    assert table.loc[0, ["silhouette", "agreement", "stability"]].isna().all()
    assert table.loc[1:].notna().all().all()
    assert found.choices == dict.fromkeys(("gap", "silhouette", "agreement", "stability"), 3)
    assert found.sentence == "All methods agree on k = 3."
    assert str(found).endswith(found.sentence)
    np.testing.assert_array_equal(np.bincount(found.labels[3]), [60, 55, 50])


def test_the_result_does_not_depend_on_the_number_of_processes(found):
    again = choose_k(
        clear(0, 3), [1, 2, 3, 4], n_halvings=2, n_subsamples=3, random_state=0, n_jobs=2
    )
    pd.testing.assert_frame_equal(found.table, again.table)


def test_sparse_data_give_the_same_table(found):
    again = choose_k(
        sp.csr_array(clear(0, 3)), [1, 2, 3, 4], n_halvings=2, n_subsamples=3, random_state=0
    )
    pd.testing.assert_frame_equal(found.table, again.table, rtol=1e-6)


def test_the_picture_has_a_panel_for_each_method(found):
    axes = found.plot()
    assert [ax.get_title() for ax in axes] == [
        f"{method}: k = 3" for method in ("gap", "silhouette", "agreement", "stability")
    ]
    with pytest.raises(ValueError, match="axes has 1 entries"):
        found.plot(axes=axes[:1])


@pytest.mark.parametrize(
    ("choices", "sentence"),
    [
        ({"gap": 3}, "Gap chooses k = 3."),
        (
            {"gap": 2, "agreement": 3, "stability": 3},
            "The methods disagree: agreement and stability choose k = 3; gap chooses k = 2.",
        ),
        (
            {"gap": 4, "agreement": 4},
            "All methods agree on k = 4. k = 4 is the largest tried: try larger ones too.",
        ),
        ({}, "No method could choose a number of clusters."),
    ],
)
def test_the_sentence_says_who_chooses_what(choices, sentence):
    assert ClusterNumber({"k": np.arange(1, 5)}, choices, {}).sentence == sentence


def test_the_gap_of_clusters_is_largest_at_their_number():
    rng = np.random.default_rng(0)
    points = np.repeat(np.eye(4) * 10, 50, axis=0) + rng.normal(size=(200, 4))
    gap, error = gap_statistic(points, range(1, 8), np.random.RandomState(0))
    assert gap.argmax() == 3
    assert (error > 0).all()
    assert first_max(gap, error) == 3


def test_labels_may_be_the_start_of_a_single_number():
    X, truth, _ = make_clusters(0)
    found = choose_k(X, [3], init=truth, n_halvings=2, n_subsamples=2, random_state=0)
    assert found.sentence == "Only k = 3 was tried."
    assert found.columns["agreement"][0] > 0.9


def test_points_that_coincide_have_no_gap():
    gap, error = gap_statistic(np.ones((20, 3)), [1, 2], np.random.RandomState(0))
    assert not gap.any()
    assert not error.any()


def test_the_gap_does_not_depend_on_the_axes_or_the_unit():
    rng = np.random.default_rng(1)
    points = rng.normal(size=(80, 3)) * (5, 2, 1)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    first, _ = gap_statistic(points, [1, 2, 3], np.random.RandomState(0))
    second, _ = gap_statistic(1e3 * points @ turn, [1, 2, 3], np.random.RandomState(0))
    np.testing.assert_allclose(first, second, atol=0.1)


@pytest.mark.parametrize(
    ("gap", "error", "by_tibshirani", "by_first_max"),
    [
        ([0.1, 0.5, 0.9, 0.8], [0.1] * 4, 2, 2),
        ([0.50, 0.52, 0.9, 0.8], [0.05] * 4, 0, 2),  # flat at first: clusters equally far
        ([0.8, 0.7, 0.9, 0.5], [0.05] * 4, 0, 0),
        ([0.1, 0.2, 0.3], [0.01] * 3, 2, 2),  # rising to the end
        ([0.1, 0.88, 0.9, 0.5], [0.05] * 4, 1, 1),  # within one error of the maximum
        ([0.3], [0.1], 0, 0),
    ],
)
def test_the_rules_of_the_gap_by_hand(gap, error, by_tibshirani, by_first_max):
    assert tibshirani(np.array(gap), np.array(error)) == by_tibshirani
    assert first_max(np.array(gap), np.array(error)) == by_first_max


@pytest.mark.parametrize(
    ("ks", "options", "error", "part"),
    [
        ([], {}, ValueError, "ks is empty"),
        (3, {}, TypeError, "ks=3 must be a sequence"),
        ([0, 2], {}, ValueError, "ks contains 0"),
        ([2.5], {}, ValueError, "ks contains 2.5"),
        ([1], {}, ValueError, "ks contains only 1"),
        ("23", {}, TypeError, "ks='23' must be a sequence"),
        ([2], {"methods": None}, TypeError, "methods=None must be a sequence"),
        ([2], {"n_jobs": 0}, ValueError, "n_jobs=0"),
        ([2, 3], {"init": [0, 1, 2] * 30}, ValueError, "init holds labels"),
        ([2, 60], {"methods": ["gap"]}, ValueError, "ks contains 60, which should be <= 45"),
        ([2, 91], {}, ValueError, "n_clusters=91"),
        ([2, 60], {}, ValueError, "ks contains 60, which should be <= 45"),
        ([2], {"methods": "gap"}, TypeError, "methods='gap' must be a sequence"),
        ([2], {"methods": ["elbow"]}, ValueError, "methods contains 'elbow'"),
        ([2], {"methods": []}, ValueError, "methods contains nothing"),
        ([2], {"gap_rule": "last"}, ValueError, "gap_rule='last' is unknown"),
        ([2], {"n_references": 1}, ValueError, "n_references=1 must be at least 2"),
        ([2], {"n_halvings": 0}, ValueError, "n_halvings=0"),
        ([2], {"n_features": 100}, ValueError, "n_features=100 should be <= 60"),
    ],
)
def test_bad_requests_get_one_clear_sentence(clusters, ks, options, error, part):
    X, _, _ = clusters
    with pytest.raises(error, match=part):
        choose_k(X, ks, **options)


@pytest.mark.parametrize("n_done", [1, 2])
def test_an_interrupt_keeps_the_numbers_that_are_done(monkeypatch, n_done):
    fitted = []

    def stopping(*arguments):
        if len(fitted) == n_done:
            raise KeyboardInterrupt
        fitted.append(fit_prepared(*arguments))
        return fitted[-1]

    monkeypatch.setattr("ksparse.selection.cluster_number.fit_prepared", stopping)
    with pytest.warns(UserWarning, match=f"{n_done} of 3 fits"):
        found = choose_k(clear(0, 3), [1, 2, 3], keep_partial=True, random_state=0)
    assert list(found.columns["k"]) == [1, 2][:n_done]
    assert np.isnan(found.columns["agreement"]).all()
    assert ("silhouette" in found.choices) == (n_done == 2)


@pytest.mark.thorough
def test_an_interrupt_of_one_method_keeps_the_others(monkeypatch):
    def stopping(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("ksparse.selection.cluster_scores.run_all", lambda *a: map(stopping, [0]))
    with pytest.raises(KeyboardInterrupt):
        choose_k(clear(0, 3), [1, 2, 3, 4], random_state=0)
    with pytest.warns(UserWarning, match="there is no agreement"):
        found = choose_k(clear(0, 3), [1, 2, 3, 4], keep_partial=True, random_state=0)
    assert found.choices == {"gap": 3, "silhouette": 3}
    assert np.isnan(found.columns["stability"]).all()
