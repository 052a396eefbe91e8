"""The methods that ksparse is compared with: right by themselves, and good estimators."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.neighbors import NearestNeighbors
from sklearn.utils.estimator_checks import parametrize_with_checks

from conftest import make_clusters, thorough_params
from ksparse.baselines import SIMLR, PCAKMeans, SparseKMeans, Spectral
from ksparse.baselines._simlr_steps import diffuse, on_simplex, row_normalised
from ksparse.metrics import clustering_accuracy

ALL = {
    "pca": PCAKMeans,
    "spectral": Spectral,
    "sparse": SparseKMeans,
    "simlr": SIMLR,
}


@pytest.mark.filterwarnings("ignore:Number of distinct clusters")
@parametrize_with_checks([method(n_clusters=2, n_init=3) for method in ALL.values()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ALL)
def test_clear_clusters_are_found(name, seed):
    X, truth, _ = make_clusters(seed)
    found = ALL[name](3, random_state=seed).fit_predict(X)
    assert adjusted_rand_score(truth, found) > 0.9


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ALL)
def test_sparse_data_give_the_same_as_dense(name, dtype, array_kind):
    X, _, _ = make_clusters(1, zeros=0.5)
    dense = ALL[name](3, random_state=0).fit(X.astype(dtype))
    other = ALL[name](3, random_state=0).fit(array_kind(X.astype(dtype)))
    assert adjusted_rand_score(dense.labels_, other.labels_) > 0.99
    if name == "sparse":
        np.testing.assert_allclose(dense.weights_, other.weights_, atol=1e-4)


@pytest.mark.parametrize("name", ALL)
def test_a_seed_gives_the_same_twice(name):
    X, _, _ = make_clusters(2, shift=1.5)
    once, again = (ALL[name](4, random_state=3).fit_predict(X) for _ in range(2))
    np.testing.assert_array_equal(once, again)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(
    ("X", "options", "error", "part"),
    [
        (np.eye(3), {"n_clusters": 5}, ValueError, "n_samples=3 should be >= n_clusters=5"),
        (np.ones((9, 2)), {"n_clusters": 2}, ValueError, "1 distinct samples"),
        (np.eye(9), {"n_clusters": 0}, ValueError, "n_clusters=0 must be at least 1"),
        (np.eye(9), {"n_clusters": "2"}, TypeError, "n_clusters='2' must be an integer"),
        (np.eye(9), {"n_clusters": 2, "n_init": 0}, ValueError, "n_init=0 must be at least 1"),
        (np.diag([np.nan] * 9), {"n_clusters": 2}, ValueError, "NaN .9 in all"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(name, X, options, error, part):
    with pytest.raises(error, match=part) as caught:
        ALL[name](**options).fit(X)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(("n", "k"), [(1, 1), (5, 1), (5, 5), (7, 2), (12, 3)])
def test_few_samples_and_few_or_many_clusters(name, n, k):
    X = np.random.default_rng(0).normal(size=(n, 3))
    found = ALL[name](k, random_state=0).fit_predict(X)
    assert found.shape == (n,)
    assert set(found) <= set(range(k))


# Sparse k-means


@pytest.fixture(scope="module")
def reference(data_folder):
    folder = data_folder.parent / "reference"
    if not folder.is_dir():
        pytest.skip("the reference results are not here")
    return folder


@pytest.mark.parametrize("bound", [3, 4, 5])
@pytest.mark.parametrize("seed", range(3))
def test_sparse_kmeans_gives_the_weights_and_labels_of_r(reference, bound, seed):
    folder = reference / "sparcl_small"
    X = np.loadtxt(folder / "x.csv", delimiter=",")
    model = SparseKMeans(3, wbound=bound, random_state=seed).fit(X)
    np.testing.assert_allclose(
        model.weights_, np.loadtxt(folder / f"weights_s{bound}.csv"), atol=1e-6
    )
    assert adjusted_rand_score(model.labels_, np.loadtxt(folder / f"labels_s{bound}.csv")) == 1.0


@pytest.mark.parametrize("bound", [1.0, 1.5, 3.0, 6.0, 50.0])
def test_weights_are_of_unit_length_and_within_the_bound(bound):
    X, _, markers = make_clusters(0)
    model = SparseKMeans(3, wbound=bound, random_state=0).fit(X)
    assert np.linalg.norm(model.weights_) == pytest.approx(1)
    assert model.weights_.min() >= 0
    assert model.weights_.sum() <= bound + 0.01
    if bound <= 3:
        assert markers[model.weights_ > 0].all()


def test_larger_bounds_select_more_features():
    X, _, _ = make_clusters(0)
    fits = [SparseKMeans(3, wbound=s, random_state=0).fit(X) for s in (1, 2, 3, 5, 7)]
    assert (np.diff([np.count_nonzero(fit.weights_) for fit in fits]) >= 0).all()
    assert (np.diff([fit.objective_ for fit in fits]) >= -1e-9).all()


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_the_gap_prefers_bounds_that_find_the_features(kind):
    X, _, markers = make_clusters(0, n_features=200)
    choice = SparseKMeans(3, random_state=0).choose_bound(
        kind(X), [1.2, 2, 3, 4, 8, 13], n_permutations=5
    )
    assert choice.best >= 3
    best = int(np.flatnonzero(choice.bounds == choice.best)[0])
    assert choice.gaps[best] == choice.gaps.max()
    assert choice.gaps[best] > choice.gaps[0] + 0.3  # one feature is not enough
    assert choice.n_features[best] > markers.sum() / 2
    assert (choice.gap_spreads >= 0).all()


@pytest.mark.parametrize(
    ("wbound", "error", "part"),
    [(0.5, ValueError, "wbound=0.5 must be at least 1"), ("2", TypeError, "must be a number"),
     (np.inf, ValueError, "wbound=inf"), (True, TypeError, "wbound=True")],
)  # fmt: skip
def test_bounds_that_cannot_be_are_refused(wbound, error, part):
    X, _, _ = make_clusters(0)
    with pytest.raises(error, match=part):
        SparseKMeans(3, wbound=wbound).fit(X)
    with pytest.raises(error, match=part):
        SparseKMeans(3).choose_bound(X, [wbound])


def test_choosing_a_bound_needs_bounds_and_permutations():
    X, _, _ = make_clusters(0)
    with pytest.raises(ValueError, match="n_permutations=0"):
        SparseKMeans(3).choose_bound(X, n_permutations=0)
    with pytest.raises(ValueError, match="wbounds is empty"):
        SparseKMeans(3).choose_bound(X, [])


# SIMLR


def test_simlr_on_the_data_of_its_authors(reference):
    anndata = pytest.importorskip("anndata")
    adata = anndata.read_h5ad(reference / "pollen249_simlr.h5ad")
    truth = adata.obs["label"].to_numpy()
    found = SIMLR(len(set(truth)), random_state=0).fit_predict(adata.X)
    assert normalized_mutual_info_score(truth, found) >= 0.93
    r = adata.obs["simlr_r"].to_numpy()  # what the R program found
    assert adjusted_rand_score(r, found) > 0.95


@pytest.mark.thorough
def test_simlr_on_simulated_cells(data_folder):
    anndata = pytest.importorskip("anndata")
    adata = anndata.read_h5ad(data_folder / "scsim1_seed1.h5ad")
    found = SIMLR(4, random_state=0).fit_predict(adata.X)
    assert clustering_accuracy(adata.obs["label"].to_numpy(), found) >= 0.95


def test_the_learned_similarity_has_a_part_for_each_cluster():
    X, truth, _ = make_clusters(0)
    model = SIMLR(3, random_state=0).fit(X)
    S = model.similarity_
    np.testing.assert_allclose(S, S.T)
    assert S.min() >= 0
    same = truth[:, None] == truth
    assert S[same].sum() > 0.95 * S.sum()
    assert model.kernel_weights_.sum() == pytest.approx(1)
    assert model.kernel_weights_.size == 55


class ExactNeighbours:
    """Stands in for pynndescent.NNDescent, which takes a minute to compile."""

    def __init__(self, X, n_neighbors, **_):
        distance, found = NearestNeighbors(n_neighbors=n_neighbors).fit(X).kneighbors(X)
        self.neighbor_graph = found, distance


@pytest.mark.parametrize("neighbours", thorough_params(["exact"], ["pynndescent"]))
def test_the_large_variant_finds_clusters_in_linear_memory(neighbours, monkeypatch):
    if neighbours == "exact":
        stand_in = types.SimpleNamespace(NNDescent=ExactNeighbours)
        monkeypatch.setitem(sys.modules, "pynndescent", stand_in)
    else:
        pytest.importorskip("pynndescent")
    X, truth, _ = make_clusters(0, sizes=(150, 120, 80))
    for data in (X, sp.csr_matrix(X)):
        model = SIMLR(3, large=True, random_state=0).fit(data)
        assert adjusted_rand_score(truth, model.labels_) > 0.9
        assert sp.issparse(model.similarity_)
        assert model.similarity_.nnz < 0.5 * len(X) ** 2


def test_too_many_samples_for_all_kernels_are_refused(monkeypatch):
    from ksparse.baselines import _simlr

    monkeypatch.setattr(_simlr, "MAX_SAMPLES", 50)
    X, _, _ = make_clusters(0)
    with pytest.raises(ValueError, match="n_samples=90 should be <= 50.*large=True"):
        SIMLR(3).fit(X)


@pytest.mark.parametrize("seed", range(5))
def test_rows_are_projected_on_the_simplex(seed):
    rng = np.random.default_rng(seed)
    V = rng.normal(size=(20, 7)) * 3
    P = on_simplex(V)
    np.testing.assert_allclose(P.sum(axis=1), 1)
    assert P.min() >= 0
    for _ in range(50):  # no other point of the simplex is nearer
        other = rng.dirichlet(np.ones(7), size=20)
        assert (((V - P) ** 2).sum(axis=1) <= ((V - other) ** 2).sum(axis=1) + 1e-12).all()


@pytest.mark.parametrize("seed", range(3))
def test_diffusion_by_a_solve_equals_that_by_eigenvectors(seed):
    rng = np.random.default_rng(seed)
    S = rng.random((30, 30))
    S = (S + S.T) / 2
    A = S.copy()
    np.fill_diagonal(A, 0)
    order = np.argsort(-A, axis=1)[:, :5]
    P = np.zeros_like(A)
    np.put_along_axis(P, order, np.take_along_axis(A, order, 1), 1)
    P = (P + P.T) / 2
    degree = P.sum(axis=1)
    P = row_normalised(P + np.diag(degree + 1))
    P = P / np.sqrt(P.sum(axis=0))
    values, vectors = np.linalg.eigh(P @ P.T)
    W = (vectors * (0.2 * values / (1 - 0.8 * values**2))) @ vectors.T
    own = np.diag(W).copy()
    W = degree[:, None] * (W - np.diag(own)) / (1 - own)[:, None]
    W = np.maximum(W, 0)
    np.testing.assert_allclose(diffuse(S, 5), (W + W.T) / 2, atol=1e-10)


def test_a_missing_neighbour_library_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynndescent", None)
    X, _, _ = make_clusters(0)
    with pytest.raises(ImportError, match=r"pip install 'ksparse\[baselines\]'"):
        SIMLR(3, large=True).fit(X)
