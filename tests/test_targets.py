"""Where the projection aims."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ortho_group

from ksparse import KSparse
from ksparse.core.targets import EmbeddingTargets
from ksparse.matrix import as_matrix

embedded_targets = EmbeddingTargets().targets


def embedded(seed, n_components=7, k=4, weighted=False):
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(k), rng.integers(0, k, 60 - k)])
    weight = rng.integers(1, 4, 60).astype(float) if weighted else None
    matrix = as_matrix(rng.normal(size=(60, 5)), sample_weight=weight)
    return matrix, rng.normal(size=(60, n_components)), labels


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_targets_keep_the_distances_of_the_centroids_and_have_mean_zero(seed, weighted):
    matrix, points, labels = embedded(seed, weighted=weighted)
    weight = np.ones(60) if matrix.sample_weight is None else matrix.sample_weight
    targets = embedded_targets(matrix, points, labels, 4)
    centres = np.array(
        [np.average(points[labels == c], axis=0, weights=weight[labels == c]) for c in range(4)]
    )
    for a in range(4):
        for b in range(a):
            assert np.linalg.norm(targets[a] - targets[b]) == pytest.approx(
                np.linalg.norm(centres[a] - centres[b])
            )
    np.testing.assert_allclose(weight @ targets[labels], 0, atol=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_targets_do_not_depend_on_the_axes_of_the_embedding(seed):
    matrix, points, labels = embedded(seed)
    turned = points @ ortho_group(7, seed=seed).rvs()
    np.testing.assert_allclose(
        embedded_targets(matrix, turned, labels, 4),
        embedded_targets(matrix, points, labels, 4),
        atol=1e-10,
    )


@pytest.mark.parametrize("seed", range(3))
def test_every_cluster_has_an_axis_of_its_own(seed):
    matrix, points, labels = embedded(seed)
    targets = embedded_targets(matrix, points, labels, 4)
    assert targets.shape == (4, 7)
    assert not targets[:, 4:].any()
    np.testing.assert_allclose(targets[:, :4], targets[:, :4].T, atol=1e-10)
    assert (np.linalg.eigvalsh(targets[:, :4]) > -1e-10).all()


def test_fewer_components_than_clusters_keep_the_axes_of_the_embedding():
    matrix, points, labels = embedded(0, n_components=2)
    targets = embedded_targets(matrix, points, labels, 4)
    centres = np.array([points[labels == c].mean(axis=0) for c in range(4)])
    np.testing.assert_allclose(targets - targets[0], centres - centres[0], atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_equal_clusters_get_equal_shares_of_the_features(seed):
    # All clusters are alike, so singular vectors are an arbitrary basis; features used to
    # go to the clusters that happened to lie along an axis, and others got none.
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(8), 250)
    X = rng.normal(size=(2000, 200))
    for cluster in range(8):
        X[labels == cluster, 20 * cluster : 20 * cluster + 20] += 1.5
    model = KSparse(8, n_features=40, init=labels, max_loops=1, random_state=0).fit(X)
    share = np.bincount(np.flatnonzero(model.get_support()) // 20, minlength=8)
    assert share.sum() == 40
    assert share.min() >= 2
    assert share.max() <= 8
