"""Samples with more than one label."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from conftest import make_clusters, seeds
from ksparse import KSparse
from ksparse.core import memberships as memberships_module
from ksparse.core.memberships import assign_several


def with_doublets(seed, n_doublets=12, shift=5.0):
    """Clusters, and samples that are means of two samples of different clusters."""
    X, truth, _ = make_clusters(seed, sizes=(60, 50, 40, 30), n_features=80, shift=shift)
    rng = np.random.default_rng(seed)
    pairs, doublets = [], []
    while len(pairs) < n_doublets:
        a, b = rng.integers(0, len(X), 2)
        if truth[a] != truth[b]:
            pairs.append({int(truth[a]), int(truth[b])})
            doublets.append((X[a] + X[b]) / 2)
    return np.vstack([X, doublets]), truth, pairs


@pytest.mark.parametrize("seed", seeds(1, 4))
def test_doublets_get_the_labels_of_both_their_clusters_and_singlets_one(seed):
    X, truth, pairs = with_doublets(seed)
    model = KSparse(4, n_features=25, max_labels=2, random_state=seed).fit(X)
    member = model.memberships_
    assert member.shape == (len(X), 4)
    assert set(np.unique(member)) == {0, 1}
    n = len(truth)
    assert (member[:n].sum(axis=1) == 1).mean() > 0.97
    found = [set(np.flatnonzero(row)) for row in member[n:]]
    assert np.mean([f == p for f, p in zip(found, pairs, strict=True)]) > 0.8
    doublet = np.arange(len(X)) >= n
    assert roc_auc_score(doublet, model.membership_log_odds_) > 0.97


@pytest.mark.parametrize("max_labels", [2, 3])
def test_the_primary_label_is_always_among_the_labels_and_stays_as_it_is(max_labels):
    X, _, _ = with_doublets(0)
    plain = KSparse(4, n_features=25, random_state=0).fit(X)
    several = KSparse(4, n_features=25, max_labels=max_labels, random_state=0).fit(X)
    np.testing.assert_array_equal(plain.labels_, several.labels_)
    assert (several.memberships_[np.arange(len(X)), several.labels_] == 1).all()
    assert several.memberships_.sum(axis=1).min() == 1
    assert several.memberships_.sum(axis=1).max() <= max_labels
    assert several.membership_centroids_.shape == several.centroids_.shape
    assert not hasattr(plain, "memberships_")


def test_the_odds_are_positive_exactly_where_there_are_several_labels():
    X, _, _ = with_doublets(1)
    model = KSparse(4, n_features=25, max_labels=2, random_state=0).fit(X)
    np.testing.assert_array_equal(
        model.membership_log_odds_ > 0, model.memberships_.sum(axis=1) > 1
    )


def test_triplets_can_have_three_labels():
    rng = np.random.default_rng(0)
    centres = 20 * np.eye(4)
    labels = np.repeat(np.arange(4), 50)
    P = centres[labels] + rng.normal(size=(200, 4))
    P = np.vstack([P, centres[:3].mean(axis=0) + 0.3 * rng.normal(size=(5, 4))])
    nearest = ((P[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
    found = assign_several(P, nearest, centres, 3)
    np.testing.assert_array_equal(found.sets[200:], np.tile([1, 1, 1, 0], (5, 1)))
    assert (found.sets[:200].sum(axis=1) == 1).all()


@pytest.mark.parametrize("seed", seeds(1, 3))
def test_centroids_are_the_least_squares_fit_to_the_sets(seed):
    X, _, _ = with_doublets(seed)
    model = KSparse(4, n_features=25, max_labels=2, random_state=seed).fit(X)
    A = model.memberships_ / model.memberships_.sum(axis=1, keepdims=True)
    P = model.project(X)
    expected = np.linalg.lstsq(A, P, rcond=None)[0]
    np.testing.assert_allclose(model.membership_centroids_, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("seed", seeds(1, 3))
def test_growing_sets_agrees_with_searching_all_pairs(seed, monkeypatch):
    X, _, _ = with_doublets(seed)
    exact = KSparse(4, n_features=25, max_labels=2, random_state=0).fit(X)
    monkeypatch.setattr(memberships_module, "MAX_SETS", 0)
    grown = KSparse(4, n_features=25, max_labels=2, random_state=0).fit(X)
    np.testing.assert_array_equal(exact.memberships_, grown.memberships_)
    np.testing.assert_allclose(exact.membership_log_odds_, grown.membership_log_odds_)


@pytest.mark.parametrize("seed", seeds(1, 3))
def test_weighted_samples_are_repeated_samples(seed):
    rng = np.random.default_rng(seed)
    centres = 6 * np.eye(3)
    labels = rng.integers(0, 3, 60)
    P = centres[labels] + rng.normal(size=(60, 3))
    weight = rng.integers(1, 4, 60)
    weighted = assign_several(P, labels, centres, 2, weight.astype(float))
    repeated = assign_several(np.repeat(P, weight, axis=0), np.repeat(labels, weight), centres, 2)
    np.testing.assert_array_equal(np.repeat(weighted.sets, weight, axis=0), repeated.sets)
    np.testing.assert_allclose(weighted.centroids, repeated.centroids)


@pytest.mark.filterwarnings("ignore:n_clusters=1 has nothing to tell apart")
def test_one_cluster_and_few_samples_do_no_harm(clusters):
    X, _, _ = clusters
    model = KSparse(1, n_features=3, max_labels=2, random_state=0).fit(X)
    assert (model.memberships_ == 1).all()
    tiny = KSparse(3, n_features=2, max_labels=5, random_state=0).fit(X[:6])
    assert tiny.memberships_.shape == (6, 3)


@pytest.mark.parametrize(
    ("value", "error"), [(0, ValueError), (1.5, TypeError), ("two", TypeError)]
)
def test_a_wrong_number_of_labels_is_refused(clusters, value, error):
    X, _, _ = clusters
    with pytest.raises(error, match="max_labels="):
        KSparse(3, max_labels=value).fit(X)
