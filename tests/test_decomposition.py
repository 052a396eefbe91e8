"""Singular vectors, spectral norms, embeddings and graph communities against plain numpy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from conftest import make_clusters
from ksparse.matrix import as_matrix
from ksparse.starts import graph
from ksparse.starts.graph import graph_communities
from ksparse.starts.kernel import kernel_embedding
from ksparse.starts.spectral import decompose, leading_svd, spectral_embedding

SEEDS = range(4)
# More or fewer samples than features, few and many of both.
SHAPES = [(50, 20), (20, 50), (12, 100), (300, 40), (40, 300), (30, 8), (8, 30), (60, 400)]


def rng_of(seed):
    return np.random.RandomState(seed)


def make_data(seed, shape, *, low_rank=None):
    """Random data with a decaying spectrum and a mean; exactly of a low rank if asked for."""
    rng = np.random.default_rng([seed, *shape])
    rank = min(shape) if low_rank is None else low_rank
    left, right = rng.normal(size=(shape[0], rank)), rng.normal(size=(rank, shape[1]))
    decay = 0.8 ** np.arange(rank)
    noise = 0.0 if low_rank else 0.1 * rng.normal(size=shape)
    return (left * decay) @ right + noise + rng.normal(size=shape[1])


def make_weights(seed, m):
    return np.random.default_rng([seed, m]).uniform(0.1, 3.0, m)


def plain_svd(X, weight=None):
    """SVD of the centred data, samples weighted: U orthonormal under the weights."""
    weight = np.ones(X.shape[0]) if weight is None else weight
    root = np.sqrt(weight)[:, None]
    U, s, Vt = np.linalg.svd(
        (X - np.average(X, axis=0, weights=weight)) * root, full_matrices=False
    )
    return U / root, s, Vt.T


# Singular vectors --------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rank", [1, 4, 10])
@pytest.mark.parametrize("seed", range(2))
def test_singular_values_and_vectors_are_those_of_numpy(seed, rank, shape, weighted):
    X = make_data(seed, shape)
    weight = make_weights(seed, shape[0]) if weighted else None
    U, s, V = leading_svd(as_matrix(X, sample_weight=weight), rank, rng_of(seed), tol=1e-9)
    _, expected, right = plain_svd(X, weight)
    rank = min(rank, *shape)
    assert (U.shape, s.shape, V.shape) == ((shape[0], rank), (rank,), (shape[1], rank))
    np.testing.assert_allclose(s, expected[:rank], atol=1e-6 * expected[0])
    # The spaces agree wherever they are told apart from what follows.
    after = np.append(expected, 0.0)
    for r in range(1, rank + 1):
        if after[r] < 0.9 * after[r - 1] and after[r - 1] > 1e-3 * after[0]:
            cosines = np.linalg.svd(V[:, :r].T @ right[:, :r])[1]
            assert cosines.min() > 1 - 1e-5


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("tol", [1e-3, 1e-5])
def test_left_and_right_vectors_are_orthonormal_at_any_tolerance(shape, weighted, tol):
    X = make_data(0, shape)
    weight = make_weights(0, shape[0]) if weighted else np.ones(shape[0])
    matrix = as_matrix(X, sample_weight=weight if weighted else None)
    U, s, V = leading_svd(matrix, 5, rng_of(0), tol=tol)
    np.testing.assert_allclose(V.T @ V, np.eye(5), atol=1e-10)
    np.testing.assert_allclose(U.T @ (weight[:, None] * U), np.eye(5), atol=1e-8)
    assert (np.diff(s) <= 0).all()
    assert (s <= plain_svd(X, weight)[1][:5] * (1 + 1e-9)).all()  # Ritz values are below


@pytest.mark.parametrize("seed", SEEDS)
def test_the_default_tolerance_gives_values_to_a_millionth(seed):
    X = make_data(seed, (200, 60))
    _, s, _ = leading_svd(as_matrix(X), 6, rng_of(seed))
    np.testing.assert_allclose(s, plain_svd(X)[1][:6], rtol=1e-6)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_triplets_multiply_to_the_centred_data(seed):
    X = make_data(seed, (40, 9))
    U, s, V = leading_svd(as_matrix(X), 9, rng_of(seed))
    np.testing.assert_allclose((U * s) @ V.T, X - X.mean(axis=0), atol=1e-9 * s[0])


@pytest.mark.parametrize("shape", [(6, 20), (20, 6), (6, 6), (2, 5), (1, 4), (5, 1)])
def test_a_rank_beyond_the_shape_gives_all_there_is(shape):
    X = make_data(1, shape)
    U, s, V = leading_svd(as_matrix(X), 50, rng_of(1))
    rank = min(shape)
    assert (U.shape[1], s.size, V.shape[1]) == (rank, rank, rank)
    expected = plain_svd(X)[1]
    np.testing.assert_allclose(s, expected, atol=1e-6 * max(expected[0], 1))
    np.testing.assert_allclose((U * s) @ V.T, X - X.mean(axis=0), atol=1e-6 * max(s[0], 1))


@pytest.mark.parametrize("shape", [(50, 30), (30, 200), (200, 100), (25, 40)])
@pytest.mark.parametrize("low_rank", [1, 2, 5])
@pytest.mark.parametrize("seed", SEEDS)
def test_data_of_low_rank_have_no_more_singular_values(seed, low_rank, shape):
    X = make_data(seed, shape, low_rank=low_rank)
    U, s, V = leading_svd(as_matrix(X), 8, rng_of(seed))
    expected = plain_svd(X)[1]
    np.testing.assert_allclose(s[:low_rank], expected[:low_rank], rtol=1e-9)
    assert s[low_rank:].max() < 1e-6 * s[0]
    np.testing.assert_allclose(V.T @ V, np.eye(8), atol=1e-10)
    # Directions in which the data do not vary add nothing but rounding to the embedding.
    gram = U.T @ U
    np.testing.assert_allclose(gram[:low_rank, :low_rank], np.eye(low_rank), atol=1e-9)
    assert np.abs(gram[low_rank:, low_rank:]).max() < 1e-6


@pytest.mark.parametrize("shape", [(10, 5), (5, 10), (40, 40)])
def test_data_without_variance_have_zero_values_and_finite_vectors(array_kind, shape):
    X = np.zeros(shape)
    X[:, 0] = 2.5
    U, s, V = leading_svd(as_matrix(array_kind(X)), 3, rng_of(0))
    assert (s == 0).all()
    assert (U == 0).all()
    assert np.isfinite(V).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_the_entry_of_largest_magnitude_of_a_right_vector_is_positive(seed):
    V = leading_svd(as_matrix(make_data(seed, (60, 30))), 5, rng_of(seed))[2]
    assert (V[np.abs(V).argmax(axis=0), np.arange(5)] > 0).all()


def test_the_random_start_hardly_matters(array_kind):
    X, _, _ = make_clusters(2, n_features=80)
    matrix = as_matrix(array_kind(X))
    one, other = (leading_svd(matrix, 2, rng_of(seed)) for seed in (0, 1))
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-3 * np.abs(a).max())


@pytest.mark.parametrize("seed", SEEDS)
def test_weighted_samples_are_repeated_samples(seed):
    X = make_data(seed, (40, 12))
    weight = np.random.default_rng(seed).integers(0, 4, 40)
    often = np.repeat(np.arange(40), weight)
    weighted = as_matrix(X, sample_weight=weight.astype(float))
    U, s, V = leading_svd(weighted, 3, rng_of(seed), tol=1e-9)
    U2, s2, V2 = leading_svd(as_matrix(X[often]), 3, rng_of(seed), tol=1e-9)
    np.testing.assert_allclose(s, s2, rtol=1e-8)
    np.testing.assert_allclose(V, V2, atol=1e-4)
    np.testing.assert_allclose(U[often], U2, atol=1e-4)
    assert spectral_norm(weighted) == pytest.approx(spectral_norm(as_matrix(X[often])), rel=1e-6)


# The spectral norm -------------------------------------------------------------------


def spectral_norm(matrix, rank=1, seed=0):
    return decompose(matrix, rank, rng_of(seed)).norm


@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("offset", [0.0, 0.1, 5.0])
def test_the_spectral_norm_is_that_of_the_data_with_their_mean(
    shape, offset, weighted, standardize
):
    rng = np.random.default_rng([3, *shape])
    X = rng.normal(size=shape) + offset
    weight = make_weights(3, shape[0]) if weighted else np.ones(shape[0])
    matrix = as_matrix(X, sample_weight=weight if weighted else None, standardize=standardize)
    expected = np.linalg.norm(X * matrix.factor * np.sqrt(weight)[:, None], 2)
    assert spectral_norm(matrix) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_spectral_norm_of_counts_and_of_centred_data_is_right(array_kind, seed):
    counts = np.random.default_rng(seed).poisson(0.5, size=(80, 30)).astype(float)
    assert spectral_norm(as_matrix(array_kind(counts))) == pytest.approx(
        np.linalg.norm(counts, 2), rel=1e-6
    )
    centred = counts - counts.mean(axis=0)
    assert spectral_norm(as_matrix(array_kind(centred))) == pytest.approx(
        np.linalg.norm(centred, 2), rel=1e-5
    )


def test_a_mean_that_says_nothing_about_the_largest_direction_does_not_mislead():
    # The mean lies in the first feature, all the variance in the second, uncorrelated with it.
    X = np.array([[2.0, 10.0], [0.0, 10.0], [2.0, -10.0], [0.0, -10.0]])
    assert spectral_norm(as_matrix(X)) == pytest.approx(np.linalg.norm(X, 2))


def test_a_factorial_design_has_the_norm_of_its_largest_factor():
    levels = np.array([-1.0, 1.0])
    A, B, C = (grid.ravel() for grid in np.meshgrid(levels, levels, levels))
    X = np.column_stack([A + 1, 5 * B, 20 * C])
    assert spectral_norm(as_matrix(X)) == pytest.approx(np.linalg.norm(X, 2))


@pytest.mark.parametrize("value", [0.0, 2.0])
def test_data_without_variance_have_norm_one_and_no_singular_values(array_kind, value):
    norm, U, s = decompose(as_matrix(array_kind(np.full((7, 3), value))), 2, rng_of(0))
    assert norm == 1.0  # nothing is divided by zero
    assert (s == 0).all()
    assert (U == 0).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_rescaled_by_it_the_data_have_norm_one(seed):
    X = np.random.default_rng(seed).normal(0.3, 1, size=(60, 40))
    matrix = as_matrix(X, standardize=True)
    matrix = matrix.scaled(spectral_norm(matrix))
    assert spectral_norm(matrix) == pytest.approx(1.0, rel=1e-5)
    assert np.linalg.norm(matrix.columns(np.arange(40)), 2) <= 1 + 1e-5


# The embedding -----------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_components", [1, 2, 3, 8])
def test_rows_of_the_embedding_have_unit_length(array_kind, n_components, weighted):
    X, labels, _ = make_clusters(0, zeros=0.3)
    weight = make_weights(0, labels.size) if weighted else None
    matrix = as_matrix(array_kind(X), sample_weight=weight)
    embedding = spectral_embedding(matrix, n_components, rng_of(0))
    assert embedding.coordinates.shape == (labels.size, n_components)
    assert embedding.scores.shape == (labels.size, max(n_components - 1, 1))
    np.testing.assert_allclose(np.linalg.norm(embedding.coordinates, axis=1), 1.0, rtol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_scores_are_the_principal_component_scores(seed):
    X, _, _ = make_clusters(seed)
    scores = spectral_embedding(as_matrix(X), 3, rng_of(0)).scores
    U, s, _ = plain_svd(X)
    for j in range(2):
        expected = U[:, j] * s[j]
        sign = np.sign(expected @ scores[:, j])
        np.testing.assert_allclose(scores[:, j], sign * expected, atol=1e-3 * s[j])


@pytest.mark.parametrize("sizes", [(40, 30, 20), (60, 15, 15, 10), (25, 25)])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_linear_embedding_agrees_with_the_kernel_of_the_paper(seed, sizes, weighted):
    X, labels, _ = make_clusters(seed, sizes=sizes)
    k = len(sizes)
    weight = make_weights(seed, labels.size) if weighted else None
    matrix = as_matrix(X, sample_weight=weight)
    found = [
        KMeans(k, n_init=10, random_state=0).fit(rows, sample_weight=weight).labels_
        for rows in (
            spectral_embedding(matrix, k, rng_of(seed)).coordinates,
            kernel_embedding(matrix, k, sigma=150.0),
        )
    ]
    assert adjusted_rand_score(*found) > 0.95
    assert adjusted_rand_score(found[0], labels) > 0.95


@pytest.mark.parametrize("seed", SEEDS)
def test_a_very_wide_kernel_has_the_same_rows_up_to_rotation(seed):
    X, _, _ = make_clusters(seed)
    rows = spectral_embedding(as_matrix(X), 3, rng_of(0)).coordinates
    kernel = kernel_embedding(as_matrix(X), 3, sigma=1e3)
    np.testing.assert_allclose(rows @ rows.T, kernel @ kernel.T, atol=1e-3)


@pytest.mark.parametrize("n_components", [1, 2, 3])
def test_rows_of_the_kernel_embedding_have_unit_length(array_kind, n_components):
    X, labels, _ = make_clusters(1, zeros=0.3)
    rows = kernel_embedding(as_matrix(array_kind(X)), n_components, sigma=150.0)
    assert rows.shape == (labels.size, n_components)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, rtol=1e-12)


def test_the_kernel_embedding_is_that_of_the_normalised_kernel():
    X = make_data(0, (25, 600))  # more features than one block holds
    square = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    affinity = np.exp(-square / (2 * 40.0**2))
    degree = affinity.sum(axis=1)
    vectors = np.linalg.eigh(affinity / np.sqrt(np.outer(degree, degree)))[1][:, -3:]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    rows = kernel_embedding(as_matrix(X), 3, sigma=40.0)
    np.testing.assert_allclose(rows @ rows.T, vectors @ vectors.T, atol=1e-8)


@pytest.mark.parametrize("name", ["spectral", "kernel"])
@pytest.mark.parametrize("seed", SEEDS)
def test_an_embedding_of_weighted_samples_is_that_of_repeated_samples(name, seed):
    X, labels, _ = make_clusters(seed)
    weight = np.random.default_rng(seed).integers(1, 5, labels.size)
    often = np.repeat(np.arange(labels.size), weight)
    weighted, repeated = as_matrix(X, sample_weight=weight.astype(float)), as_matrix(X[often])
    if name == "spectral":
        one, other = (spectral_embedding(m, 3, rng_of(0)).coordinates for m in (weighted, repeated))
    else:
        one, other = (kernel_embedding(m, 3, sigma=150.0) for m in (weighted, repeated))
    # Rows are determined up to a rotation, which their products do not see.
    np.testing.assert_allclose(one[often] @ one[often].T, other @ other.T, atol=1e-4)


def test_one_component_tells_two_clusters_apart():
    X, labels, _ = make_clusters(0, sizes=(40, 40))
    rows = spectral_embedding(as_matrix(X), 1, rng_of(0)).coordinates
    assert set(np.unique(rows)) == {-1.0, 1.0}
    assert adjusted_rand_score(labels, rows[:, 0] > 0) > 0.95


@pytest.mark.parametrize("n_components", [1, 3, 6, 20])
def test_more_components_than_the_data_have_are_filled_with_zeros(n_components):
    X = make_data(0, (5, 4))
    embedding = spectral_embedding(as_matrix(X), n_components, rng_of(0))
    assert embedding.coordinates.shape == (5, n_components)
    assert np.isfinite(embedding.coordinates).all()
    assert not embedding.coordinates[:, 5:].any()
    assert kernel_embedding(as_matrix(X), n_components, sigma=10.0).shape == (5, n_components)


def test_data_without_variance_have_a_finite_embedding():
    embedding = spectral_embedding(as_matrix(np.ones((6, 3))), 3, rng_of(0))
    np.testing.assert_allclose(np.linalg.norm(embedding.coordinates, axis=1), 1.0)
    assert not embedding.scores.any()


def test_a_kernel_of_too_many_samples_is_refused_and_the_cure_is_named():
    X = sp.csr_array((20_001, 2), dtype=float)
    with pytest.raises(ValueError, match=r"20001.*init='spectral'"):
        kernel_embedding(as_matrix(X), 2, sigma=1.0)


# Communities of a graph --------------------------------------------------------------


def make_points(seed, k, size, distance, dimension=4):
    """Round clusters at least `distance` standard deviations apart."""
    rng = np.random.default_rng([seed, k, size])
    centres = np.zeros((k, dimension))
    centres[:, 0] = distance * np.arange(k)
    labels = rng.permutation(np.repeat(np.arange(k), size))
    return centres[labels] + rng.normal(size=(labels.size, dimension)), labels


def n_groups(labels):
    return np.unique(labels).size


@pytest.mark.parametrize("distance", [4, 6, 8])
@pytest.mark.parametrize("k", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("size", [20, 100])
def test_clustered_points_fall_in_exactly_as_many_groups_as_asked_for(k, size, distance):
    points, _ = make_points(0, k, size, distance)
    labels = graph_communities(points, k, rng_of(0))
    assert labels.shape == (k * size,)
    assert np.array_equal(np.unique(labels), np.arange(k))


@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize("size", [25, 60, 150])
@pytest.mark.parametrize("seed", SEEDS)
def test_separated_clusters_are_the_groups(seed, size, k):
    points, labels = make_points(seed, k, size, 9)
    assert adjusted_rand_score(graph_communities(points, k, rng_of(0)), labels) > 0.98


@pytest.mark.parametrize("distance", [30, 1e3, 1e6])
@pytest.mark.parametrize("k", [2, 4, 8])
@pytest.mark.parametrize("size", [20, 80, 200])
@pytest.mark.parametrize("seed", range(3))
def test_the_components_of_a_disconnected_graph_are_the_groups(seed, size, k, distance):
    points, labels = make_points(seed, k, size, distance)
    assert adjusted_rand_score(graph_communities(points, k, rng_of(0)), labels) == 1.0


@pytest.mark.parametrize("size", [20, 80])
@pytest.mark.parametrize("k", [2, 3, 5])
def test_fewer_groups_than_components_keep_every_component_whole(size, k):
    points, parts = make_points(0, 6, size, 1e3)
    labels = graph_communities(points, k, rng_of(0))
    assert n_groups(labels) == k
    assert all(n_groups(labels[parts == part]) == 1 for part in range(6))


@pytest.mark.parametrize("largest_dense", [2_000, 0])
@pytest.mark.parametrize("k", [2, 3])
def test_many_components_whose_eigenvalues_lanczos_cannot_tell_apart(monkeypatch, k, largest_dense):
    monkeypatch.setattr(graph, "DENSE_FALLBACK", largest_dense)
    rng = np.random.default_rng(0)
    points = np.repeat(50 * rng.normal(size=(40, 12)), 15, axis=0) + rng.normal(size=(600, 12))
    labels = graph_communities(points, k, rng_of(0)).reshape(40, 15)
    assert n_groups(labels) == k
    assert (labels == labels[:, :1]).all()


@pytest.mark.parametrize("size", [20, 80])
def test_more_groups_than_components_never_straddle_two_of_them(size):
    points, parts = make_points(0, 3, size, 1e3)
    labels = graph_communities(points, 5, rng_of(0))
    assert all(n_groups(parts[labels == group]) == 1 for group in np.unique(labels))


@pytest.mark.parametrize("m", range(1, 16))
def test_a_handful_of_points_serves(m):
    points = np.random.default_rng(m).normal(size=(m, 2))
    for k in range(1, m + 3):
        labels = graph_communities(points, k, rng_of(0))
        assert labels.shape == (m,)
        assert labels.min() >= 0
        assert labels.max() < k
        if k >= m:
            assert n_groups(labels) == m


@pytest.mark.parametrize("sizes", [(30, 20, 10, 40), (100, 100, 100, 100), (16, 18, 25, 20)])
def test_points_that_coincide_stay_together(sizes):
    points = np.repeat(5 * np.eye(4), sizes, axis=0)
    labels = graph_communities(points, 4, rng_of(0))
    assert adjusted_rand_score(labels, points.argmax(axis=1)) == 1.0


@pytest.mark.parametrize("m", [10, 50, 300])
def test_points_that_all_coincide_are_labelled_without_complaint(m):
    labels = graph_communities(np.zeros((m, 2)), 3, rng_of(0))
    assert labels.shape == (m,)
    assert set(labels) <= {0, 1, 2}


@pytest.mark.parametrize("m", [150, 600])
def test_the_groups_do_not_depend_on_chance(m):
    points = np.random.default_rng(0).normal(size=(m, 3))
    labels = graph_communities(points, 5, rng_of(0))
    for seed in (1, 2):
        assert np.array_equal(graph_communities(points, 5, rng_of(seed)), labels)


def test_points_beyond_the_sample_join_their_neighbours(monkeypatch):
    points, labels = make_points(0, 3, 100, 9)
    monkeypatch.setattr(graph, "MAX_NODES", 90)
    found = graph_communities(points, 3, rng_of(0))
    assert found.shape == labels.shape
    assert adjusted_rand_score(found, labels) > 0.98


@pytest.mark.parametrize("rank", [1, 3, 7])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("offset", [0.0, 0.3, 20.0])
def test_one_krylov_run_gives_the_norm_and_the_vectors(shape, rank, weighted, offset):
    X = make_data(5, shape) + offset
    weight = make_weights(5, shape[0]) if weighted else np.ones(shape[0])
    matrix = as_matrix(X, sample_weight=weight if weighted else None)
    norm, U, s = decompose(matrix, rank, rng_of(1))
    assert norm == pytest.approx(np.linalg.norm(X * np.sqrt(weight)[:, None], 2), rel=1e-5)
    _, alone, _ = leading_svd(matrix.scaled(norm), rank, rng_of(2))
    np.testing.assert_allclose(s, alone, rtol=1e-5, atol=1e-9)
    gram = U.T @ (weight[:, None] * U)
    np.testing.assert_allclose(gram, np.eye(len(s)), atol=1e-7)


@pytest.mark.parametrize("unit", [1e-50, 1e-12, 1e12, 1e50])
def test_the_unit_of_the_data_does_not_matter_to_the_decomposition(unit):
    X = make_data(3, (50, 30)) + 1.0
    one, other = (decompose(as_matrix(Z), 4, rng_of(0)) for Z in (X, X * unit))
    assert other.norm == pytest.approx(unit * one.norm, rel=1e-9)
    np.testing.assert_allclose(other.s, one.s, rtol=1e-9)
    np.testing.assert_allclose(other.U, one.U, atol=1e-7)


def test_the_start_of_the_eigenvectors_of_a_graph_is_not_their_leading_one():
    points, _, _ = make_clusters(0, sizes=(150, 120, 90), n_features=6, n_markers=2, shift=1.0)
    weighted = graph._shared_neighbours(points, 3)
    vectors = graph._leading_eigenvectors(weighted, 4)
    root = np.sqrt(np.asarray(weighted.sum(axis=0)).ravel())
    dense = weighted.toarray() / np.outer(root, root)
    _, expected = np.linalg.eigh(dense)
    cosines = np.linalg.svd((vectors * root[:, None]).T @ expected[:, -4:])[1]
    assert cosines.min() > 1 - 1e-8
