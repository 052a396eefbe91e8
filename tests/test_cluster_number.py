"""choose_k: how many clusters."""

from __future__ import annotations

import matplotlib
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import ksparse as ks
from conftest import make_clusters, seeds, thorough_params
from ksparse import choose_k
from ksparse.search.fit import fit_prepared
from ksparse.selection.gap import first_max, gap_statistic, tibshirani
from ksparse.selection.recommend import recommend
from ksparse.simulate import log_normalise, simulate_counts

matplotlib.use("Agg")


def clear(seed, k):
    sizes = (60, 55, 50, 45, 40, 40)[:k]
    return make_clusters(seed, sizes=sizes, n_features=100, n_markers=6, shift=3.0)[0]


ALL = ("gap", "silhouette", "agreement", "stability")


@pytest.mark.parametrize(
    ("numbers", "n_seeds", "least"), thorough_params([((3,), 1, 1)], [((3, 4, 6), 5, 14)])
)
def test_clear_clusters_are_counted_right(numbers, n_seeds, least):
    right = 0
    for k in numbers:
        for seed in range(n_seeds):
            right += choose_k(clear(seed, k), range(1, 8), init="graph").recommended == k
    assert right >= least  # 14 of 15 are more than 9 of 10


@pytest.mark.thorough
@pytest.mark.parametrize("k", [1, 3, 6, 9])
def test_simulated_clusters_are_counted_right(k):
    data = simulate_counts(800, 1000, k, random_state=0)
    assert choose_k(log_normalise(data.counts)).recommended == k


@pytest.mark.thorough
def test_other_measures_count_clear_clusters_right():
    for seed in range(3):
        found = choose_k(clear(seed, 4), [2, 3, 4, 5], methods=ALL, n_halvings=4, init="graph")
        assert {found.choices[measure] for measure in ALL[:3]} == {4}


@pytest.mark.parametrize("seed", seeds(1, 4))
def test_noise_is_one_cluster(seed):
    X = np.random.default_rng(seed).normal(size=(150, 80))
    found = choose_k(X, range(1, 5), methods=["gap"], init="graph", random_state=seed)
    assert found.recommended == 1
    assert found.choices["gap"] == 1
    assert found.sentence.startswith("One cluster (k = 1); with 2, ")


def test_continuous_variation_is_one_cluster():
    rng = np.random.default_rng(0)
    loadings = np.zeros((2, 100))
    loadings[0, :20] = loadings[1, 20:40] = 2.0
    X = rng.normal(size=(200, 2)) @ loadings + rng.normal(size=(200, 100))
    assert choose_k(X, [2, 3, 4], init="graph").recommended == 1


SOME = {"methods": ALL, "n_halvings": 2, "n_subsamples": 3, "init": "graph", "random_state": 0}


@pytest.fixture(scope="module")
def found():
    return choose_k(clear(0, 3), [1, 2, 3, 4], **SOME)


def test_the_table_has_all_methods_with_their_errors(found):
    table = found.table
    assert isinstance(table, pd.DataFrame)
    assert list(table) == [
        "k", "n_features", "p_separation", "least_separated", "n_separated", "gap", "gap_se",
        "silhouette", "agreement", "agreement_se", "stability", "stability_se",
    ]  # fmt: skip
    assert list(table["k"]) == [1, 2, 3, 4]
    nothing = ["p_separation", "silhouette", "agreement", "stability"]
    assert table.loc[0, nothing].isna().all()
    assert table.loc[1:].notna().all().all()
    assert {found.choices[measure] for measure in ALL[:3]} == {3}
    assert found.recommended == 3
    assert found.interval == (3, 3)
    assert found.sentence.startswith("k = 3: all 3 pairs of clusters are separated (p <= ")
    assert found.sentence in str(found)
    assert found.next_step == "KSparse(3, init='graph', random_state=0).fit(X)"
    assert found.separations[3].sentence == "All 3 clusters are separated from each other."
    assert "\n" not in repr(found)
    assert "<table" in found._repr_html_()
    np.testing.assert_array_equal(np.bincount(found.labels[3]), [60, 55, 50])


def test_larger_numbers_make_no_difference(found):
    few = choose_k(clear(0, 3), [2, 3, 4], init="graph", random_state=0)
    many = choose_k(clear(0, 3), range(2, 8), init="graph", random_state=0)
    assert few.recommended == many.recommended == found.recommended
    pd.testing.assert_frame_equal(few.table, many.table[:3])


@pytest.mark.parametrize("init", thorough_params(["spectral"], ["graph", "graph+dense"]))
@pytest.mark.thorough
def test_no_number_depends_on_which_others_are_tried(init):
    X = np.random.default_rng(5).normal(size=(70, 40))  # nothing is clear: chance decides
    options = {"init": init, "n_features": 10, "random_state": 0}
    many = choose_k(X, range(2, 16), **options)
    for ks_ in ([4], [3, 4, 7], [14], range(2, 8)):
        few = choose_k(X, ks_, **options)
        same = many.table[many.table["k"].isin(ks_)].reset_index(drop=True)
        pd.testing.assert_frame_equal(few.table, same)
        for k in ks_:
            np.testing.assert_array_equal(few.labels[k], many.labels[k])


def test_without_numbers_all_usual_ones_are_tried():
    found = choose_k(clear(0, 2), init="graph", n_features=12)
    assert list(found.columns["k"]) == list(range(2, 13))
    assert found.recommended == 2


def test_the_result_does_not_depend_on_the_number_of_processes(found):
    again = choose_k(clear(0, 3), [1, 2, 3, 4], **SOME, n_jobs=2)
    pd.testing.assert_frame_equal(found.table, again.table)


def test_sparse_data_give_the_same_table(found):
    again = choose_k(sp.csr_array(clear(0, 3)), [1, 2, 3, 4], **SOME)
    pd.testing.assert_frame_equal(found.table, again.table, rtol=1e-6)


def test_the_picture_has_a_panel_for_each_measure(found):
    axes = found.plot()
    assert [ax.get_title() for ax in axes] == ["least separated pair: k = 3", *ALL]
    with pytest.raises(ValueError, match="axes has 1 entries"):
        found.plot(axes=axes[:1])


@pytest.mark.parametrize(
    ("ks", "p_values", "answer"),
    [
        ([2, 3, 4, 5], [1e-9, 1e-4, 0.4, 0.9], (3, 3, 3)),
        ([2, 3, 4], [0.3, 0.2, 0.4], (1, 1, 1)),
        ([1, 2, 3], [np.nan, 0.3, 0.2], (1, 1, 1)),
        ([5, 6], [0.3, 0.2], (None, None, None)),
        ([2, 3, 4, 5], [1e-9, 0.002, 0.03, 0.2], (3, 2, 4)),  # 4 only adds a doubtful pair
        ([2, 3, 4, 5], [1e-9, 0.6, 0.03, 0.2], (4, 2, 4)),  # 3 is worse: it cuts one of 4 in two
        ([2, 4, 5], [1e-9, 0.03, 0.2], (2, 2, 4)),  # 3 was not tried
    ],
)
def test_the_rule_by_hand(ks, p_values, answer):
    assert tuple(recommend(ks, p_values)) == answer


def test_the_gap_of_clusters_is_largest_at_their_number():
    rng = np.random.default_rng(0)
    points = np.repeat(np.eye(4) * 10, 50, axis=0) + rng.normal(size=(200, 4))
    gap, error = gap_statistic(points, range(1, 8), np.random.RandomState(0))
    assert gap.argmax() == 3
    assert (error > 0).all()
    assert first_max(gap, error) == 3


def test_the_next_step_has_what_was_given_and_no_arrays():
    X = clear(0, 2)
    costs = np.ones(X.shape[1])
    found = choose_k(X, [2], init=["graph"], feature_weights=costs, scale=True)
    assert found.next_step == "KSparse(2, init=['graph'], scale=True).fit(X)"
    assert choose_k(X, [9, 10], init="graph").next_step == "choose_k(X, init='graph')"
    assert choose_k(np.ones((20, 3))).next_step == "nothing to cluster"


def test_labels_may_be_the_start_of_a_single_number():
    X, truth, _ = make_clusters(0)
    found = choose_k(
        X, [3], init=truth, methods=["agreement"], n_halvings=2, n_subsamples=2, random_state=0
    )
    assert found.sentence.endswith(
        "That is the largest number tried: try larger ones, from 4 on, too."
    )
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
        ([2], {"n_clusters": 3}, ValueError, "can be given here; choose from n_features"),
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
    options = {"methods": ALL, "init": "graph", "random_state": 0}
    with pytest.raises(KeyboardInterrupt):
        choose_k(clear(0, 3), [1, 2, 3], **options)
    fitted.clear()
    with pytest.warns(UserWarning, match=f"{n_done} numbers of clusters were tried"):
        found = choose_k(clear(0, 3), [1, 2, 3], keep_partial=True, **options)
    assert list(found.columns["k"]) == [1, 2][:n_done]
    assert ("silhouette" in found.choices) == (n_done == 2)
    assert "agreement" not in found.choices


@pytest.mark.thorough
def test_an_interrupt_of_one_method_keeps_the_others(monkeypatch):
    def stopping(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("ksparse.selection.cluster_scores.run_all", lambda *a: map(stopping, [0]))
    options = {"methods": ALL, "init": "graph", "random_state": 0}
    with pytest.raises(KeyboardInterrupt):
        choose_k(clear(0, 3), [1, 2, 3, 4], **options)
    with pytest.warns(UserWarning, match="there is no agreement"):
        found = choose_k(clear(0, 3), [1, 2, 3, 4], keep_partial=True, **options)
    assert found.choices == {"gap": 3, "silhouette": 3}
    assert np.isnan(found.columns["stability"]).all()


def test_numbers_for_anndata_are_those_of_the_array():
    adata = simulate_counts(200, 200, 3, random_state=0).to_anndata()
    options = {"init": "graph", "n_features": 20, "random_state": 0}
    number = ks.tl.choose_k(adata, [2, 3, 4], normalize="log1p", **options)
    again = choose_k(log_normalise(adata.X), [2, 3, 4], **options)
    pd.testing.assert_frame_equal(number.table, again.table)
    assert adata.uns["ksparse_choose_k"]["recommended"] == number.recommended == 3
    assert adata.uns["ksparse_choose_k"]["sentence"] == number.sentence
    before, *words = number.next_step.removesuffix(")").split(", ")
    assert before == "ksparse.tl.ksparse(adata"
    assert {"3", "n_features=20", "init='graph'", "normalize='log1p'", "random_state=0"} == {*words}
    eval(number.next_step, {"ksparse": ks, "adata": adata})  # it can be called as it is
    assert adata.obs["ksparse"].nunique() == 3
