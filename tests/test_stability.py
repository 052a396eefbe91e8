"""Stability selection."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from conftest import make_clusters, thorough_params
from ksparse import stability_selection
from ksparse.selection import jobs as jobs_module
from ksparse.selection.stability import false_selection_bounds


@pytest.fixture(scope="module")
def data():
    return make_clusters(0, n_features=150)


@pytest.fixture(scope="module")
def found(data):
    return stability_selection(data[0], 3, 20, n_subsamples=20, random_state=0)


def test_stable_features_are_the_markers(data, found):
    _, _, markers = data
    np.testing.assert_array_equal(found.selected, markers)
    assert found.frequencies.sum() == pytest.approx(20)
    assert found.frequencies[~markers].max() < found.threshold


def test_clear_clusters_are_found_in_every_half(data, found):
    _, truth, _ = data
    np.testing.assert_array_equal(found.labels, truth)
    np.testing.assert_allclose(found.co_clustering, np.eye(3), atol=0.03)
    assert (found.confidence > 0.8).mean() > 0.97
    assert found.confidence.mean() > 0.99


def test_vague_clusters_show_in_the_summary():
    X, _, _ = make_clusters(0, shift=1.0)
    vague = stability_selection(X, 3, 15, n_subsamples=10, random_state=0)
    assert np.diag(vague.co_clustering).mean() < 0.9
    assert np.nanmean(vague.confidence) < 0.9
    np.testing.assert_allclose(vague.co_clustering, vague.co_clustering.T)


def test_the_table_lists_features_by_frequency(data, found):
    assert isinstance(found.table, pd.DataFrame)
    assert (np.diff(found.table["frequency"]) <= 0).all()
    assert found.table["stable"].sum() == 15
    frame = pd.DataFrame(data[0]).add_prefix("gene")
    named = stability_selection(frame, 3, 20, n_subsamples=4, random_state=0)
    assert named.table["feature"].iloc[0].startswith("gene")
    assert "15 features selected in at least 90%" in str(found)
    assert "expected to be false" in str(found)
    loose = stability_selection(data[0], 3, 100, n_subsamples=2, threshold=0.55, random_state=0)
    assert "cannot tell" in str(loose)


@pytest.mark.parametrize("n_subsamples", thorough_params([4], [20]))
@pytest.mark.thorough
def test_the_result_does_not_depend_on_the_number_of_processes(data, n_subsamples):
    found, again = (
        stability_selection(
            data[0], 3, 20, n_subsamples=n_subsamples, random_state=0, n_jobs=n_jobs
        )
        for n_jobs in (1, 2)
    )
    np.testing.assert_array_equal(again.frequencies, found.frequencies)
    np.testing.assert_array_equal(again.confidence, found.confidence)
    np.testing.assert_array_equal(again.co_clustering, found.co_clustering)


def test_noise_is_hardly_ever_stable():
    X = np.random.default_rng(0).normal(size=(100, 200))
    found = stability_selection(X, 3, 10, n_subsamples=20, random_state=0)
    assert found.selected.sum() <= 1


def test_given_labels_may_be_the_start(data):
    X, truth, markers = data
    found = stability_selection(X, 3, 20, n_subsamples=4, init=truth, random_state=0)
    assert found.selected[markers].mean() > 0.9


def test_samples_without_weight_have_no_confidence(data):
    X, _, _ = data
    weight = np.r_[np.zeros(5), np.ones(len(X) - 5)]
    found = stability_selection(X, 3, 20, n_subsamples=4, sample_weight=weight, random_state=0)
    assert np.isnan(found.confidence[:5]).all()
    assert np.isfinite(found.confidence[5:]).all()
    assert found.labels.shape == (len(X),)


def test_an_interrupt_stops_unless_partial_results_are_asked_for(data, monkeypatch):
    def stopping(function, tasks, n_jobs):
        yield from (function(*task) for task in tasks[:3])
        raise KeyboardInterrupt

    monkeypatch.setattr("ksparse.selection.stability.run_all", stopping)
    given = {"n_subsamples": 10, "random_state": 0}
    with pytest.raises(KeyboardInterrupt):
        stability_selection(data[0], 3, 20, **given)
    with pytest.warns(UserWarning, match="3 of 10 fits of the subsamples are done"):
        found = stability_selection(data[0], 3, 20, keep_partial=True, **given)
    assert found.n_subsamples == 3
    assert set(np.round(3 * found.frequencies)) <= {0, 1, 2, 3}


def test_an_interrupt_before_anything_is_done_is_an_interrupt():
    def nothing():
        raise KeyboardInterrupt
        yield

    with pytest.raises(KeyboardInterrupt):
        jobs_module.collect(nothing(), 3, "fits", 0, keep_partial=True)


@pytest.mark.parametrize("threshold", [0.55, 0.6, 0.75, 0.8, 0.9, 1.0])
@pytest.mark.parametrize("n_pairs", [5, 25, 50])
def test_bounds_fall_with_the_threshold_and_the_unimodal_one_is_no_larger(threshold, n_pairs):
    bounds = false_selection_bounds(50, 1000, threshold, n_pairs)
    assert bounds["general"] == pytest.approx(2.5 / (2 * threshold - 1))
    assert 0 < bounds["unimodal"] <= bounds["general"]
    if threshold < 1:
        higher = false_selection_bounds(50, 1000, min(1.0, threshold + 0.05), n_pairs)
        assert higher["general"] < bounds["general"]


def test_the_unimodal_bound_by_hand():
    # 4 (1 - 0.9 + 1/100) / (1 + 1/50) * 10^2 / 1000
    bound = false_selection_bounds(10, 1000, 0.9, 50)["unimodal"]
    assert bound == pytest.approx(4 * 0.11 / 1.02 * 0.1)
    # 1 / (2 (1.4 - 1 - 1/100)) * 10^2 / 1000
    bound = false_selection_bounds(10, 1000, 0.7, 50)["unimodal"]
    assert bound == pytest.approx(0.1 / 0.78)


@pytest.mark.parametrize(
    ("k", "n_features", "options", "error", "part"),
    [
        (3, 20, {"n_subsamples": 5}, ValueError, "n_subsamples=5 must be even"),
        (3, 20, {"n_subsamples": 0}, ValueError, "n_subsamples=0 must be at least 2"),
        (3, 20, {"threshold": 0.5}, ValueError, "threshold=0.5 must be above 0.5"),
        (3, 200, {}, ValueError, "n_features=200 should be <= 150"),
        (3, 0, {}, ValueError, "n_features=0 must be at least 1"),
        (3, "auto", {}, TypeError, "n_features='auto' must be an integer"),
        (1, 20, {}, ValueError, "n_clusters=1 should be >= 2"),
        (3, 20, {"n_jobs": "all"}, ValueError, "n_jobs='all'"),
        (46, 20, {}, ValueError, "n_clusters=46 should be <= 45"),
    ],
)
def test_bad_requests_get_one_clear_sentence(data, k, n_features, options, error, part):
    with pytest.raises(error, match=part):
        stability_selection(data[0], k, n_features, **options)
