"""The start that splits in two again and again."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import adjusted_rand_score

from conftest import make_clusters, seeds
from ksparse import KSparse
from ksparse.matrix import as_matrix
from ksparse.starts import STARTS, StartData
from ksparse.starts.divisive import MAX_SAMPLES
from ksparse.starts.spectral import decompose, embedding_of

SIZES = (150, 100, 60, 12, 8)


def start(matrix, k, seed=0):
    """The labels that the start proposes."""
    rng = np.random.RandomState(seed)
    _, U, s = decompose(matrix, k + 3, rng, k + 3)
    embedding = embedding_of(U, s, k + 4, matrix.total_weight)
    data = StartData(matrix, embedding, k, 1.0, U, s)
    return STARTS["divisive"].labels(data, rng)


@pytest.mark.parametrize("seed", seeds(2, 6))
def test_clusters_of_a_few_samples_are_found_beside_large_ones(seed):
    X, labels, _ = make_clusters(seed, sizes=SIZES, n_features=400, n_markers=15, shift=3.0)
    found = start(as_matrix(X), 5, seed)
    assert adjusted_rand_score(labels, found) > 0.98
    for cluster in (3, 4):  # of twelve and eight samples
        own = np.bincount(found[labels == cluster]).argmax()
        assert (found[labels == cluster] == own).mean() > 0.5
        assert (labels[found == own] == cluster).mean() > 0.5


@pytest.mark.parametrize("seed", seeds(1, 4))
def test_sparse_and_dense_data_are_split_alike(seed):
    X, _, _ = make_clusters(seed, sizes=SIZES, n_features=100, zeros=0.5)
    found = start(as_matrix(X), 5)
    assert np.array_equal(start(as_matrix(sp.csr_array(X)), 5), found)
    assert np.array_equal(start(as_matrix(sp.csc_array(X)), 5), found)


def test_samples_that_were_not_looked_at_follow_the_rules_of_the_splits():
    sizes = tuple(size * (MAX_SAMPLES // 200) for size in SIZES)
    X, labels, _ = make_clusters(0, sizes=sizes, n_features=120, n_markers=20, shift=3.0)
    assert labels.size > MAX_SAMPLES
    assert adjusted_rand_score(labels, start(as_matrix(X), 5)) > 0.99


def test_a_large_cluster_is_not_cut_in_two():
    X, labels, _ = make_clusters(3, sizes=(400, 30, 30), n_features=200)
    assert adjusted_rand_score(labels, start(as_matrix(X), 3)) == 1.0


@pytest.mark.parametrize("weighted", [False, True])
def test_weights_count_as_repeated_samples(weighted):
    X, labels, _ = make_clusters(1, sizes=(40, 30, 20), n_features=60)
    times = np.tile([1, 2, 3], 30)
    if weighted:
        found = start(as_matrix(X, sample_weight=times.astype(float)), 3)
    else:
        found = start(as_matrix(np.repeat(X, times, axis=0)), 3)[np.cumsum(times) - 1]
    assert adjusted_rand_score(labels, found) == 1.0


@pytest.mark.parametrize(
    "X",
    [np.ones((30, 4)), np.eye(12), np.arange(20.0)[:, None], np.zeros((6, 3))],
    ids=["equal rows", "identity", "one feature", "zeros"],
)
@pytest.mark.parametrize("k", [2, 5])
def test_data_that_cannot_be_split_have_labels_all_the_same(X, k):
    labels = start(as_matrix(X), k)
    assert labels.shape == (len(X),)
    assert labels.min() >= 0
    assert labels.max() < k


@pytest.mark.parametrize("seed", seeds(1, 3))
def test_it_can_be_asked_for_by_name(seed):
    X, labels, _ = make_clusters(seed, sizes=(60, 40, 30, 12), n_features=150, n_markers=10)
    model = KSparse(4, n_features=30, init="divisive", random_state=seed).fit(X)
    assert model.starts_["start"] == ["divisive"]
    assert adjusted_rand_score(labels, model.labels_) > 0.98
