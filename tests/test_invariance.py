"""What must not matter: order, units, origin, storage, copies; and extreme numbers."""

from __future__ import annotations

import functools
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score

from conftest import ARRAY_KINDS, crossed, examples, make_clusters, seeds
from ksparse import KSparse

# What is compared is the same, converged or not.
pytestmark = pytest.mark.filterwarnings("ignore:Labels and features did not converge")

# A smaller example would cost hundreds of fits.
PHASES = (Phase.explicit, Phase.generate)
sampled = settings(max_examples=examples(2, 10), deadline=None, derandomize=True, phases=PHASES)
storages = st.sampled_from(list(ARRAY_KINDS))


@st.composite
def problems(draw):
    """Clear clusters of several sizes, perhaps with zeros; and how many features."""
    sizes = draw(st.lists(st.integers(8, 30), min_size=2, max_size=4))
    n_features = draw(st.integers(6 * len(sizes), 60))
    X, _, _ = make_clusters(
        draw(st.integers(0, 10**6)), sizes=sizes, n_features=n_features, n_markers=3, shift=6.0
    )
    X[np.abs(X) < draw(st.sampled_from([0.0, 0.5]))] = 0.0
    return X, len(sizes), draw(st.integers(len(sizes), 3 * len(sizes)))


def fit(X, k, n_features, **options):
    return KSparse(k, n_features=n_features, random_state=0, **options).fit(X)


def assert_same(one, other, rows=None, columns=None):
    """The same clusters and features, with samples or features in another order."""
    labels = one.labels_ if rows is None else one.labels_[rows]
    assert adjusted_rand_score(labels, other.labels_) == 1
    chosen = one.get_support() if columns is None else one.get_support()[columns]
    assert np.flatnonzero(chosen).tolist() == np.flatnonzero(other.get_support()).tolist()


@sampled
@given(problems(), st.integers(0, 1000), storages)
def test_the_order_of_samples_does_not_matter(problem, seed, storage):
    X, k, n = problem
    order = np.random.default_rng(seed).permutation(len(X))
    pack = ARRAY_KINDS[storage]
    assert_same(fit(pack(X), k, n), fit(pack(X[order]), k, n), rows=order)


@sampled
@given(problems(), st.integers(0, 1000), storages)
def test_the_order_of_features_does_not_matter(problem, seed, storage):
    X, k, n = problem
    order = np.random.default_rng(seed).permutation(X.shape[1])
    pack = ARRAY_KINDS[storage]
    assert_same(fit(pack(X), k, n), fit(pack(X[:, order]), k, n), columns=order)


@sampled
@given(problems(), st.floats(-12, 12), storages, st.booleans())
def test_the_unit_does_not_matter(problem, exponent, storage, single):
    X, k, n = problem
    dtype = np.float32 if single else np.float64
    pack = ARRAY_KINDS[storage]
    one = fit(pack(X.astype(dtype)), k, n)
    other = fit(pack((X * 10.0**exponent).astype(dtype)), k, n)
    assert_same(one, other)
    assert np.array_equal(one.labels_, other.labels_)


@sampled
@given(problems(), st.integers(0, 1000), st.sampled_from([1.0, 100.0, 1e4]))
def test_the_origin_does_not_matter(problem, seed, far):
    X, k, n = problem
    shift = far * np.random.default_rng(seed).normal(size=X.shape[1])
    assert_same(fit(X, k, n), fit(X + shift, k, n))


@sampled
@given(problems(), st.integers(1, 20), st.sampled_from([0.0, 1.0, -3e5]), storages)
def test_constant_features_do_not_matter(problem, more, value, storage):
    X, k, n = problem
    pack = ARRAY_KINDS[storage]
    wider = np.hstack([X, np.full((len(X), more), value)])
    one, other = fit(pack(X), k, n), fit(pack(wider), k, n)
    assert adjusted_rand_score(one.labels_, other.labels_) == 1
    assert not other.get_support()[X.shape[1] :].any()
    assert np.array_equal(one.get_support(), other.get_support()[: X.shape[1]])


@sampled
@given(problems(), st.integers(0, 1000), storages)
def test_a_sample_twice_is_a_sample_of_weight_two(problem, seed, storage):
    X, k, n = problem
    times = np.random.default_rng(seed).integers(1, 3, size=len(X))
    pack = ARRAY_KINDS[storage]
    weighted = KSparse(k, n_features=n, random_state=0).fit(
        pack(X), sample_weight=times.astype(float)
    )
    repeated = fit(pack(np.repeat(X, times, axis=0)), k, n)
    assert adjusted_rand_score(np.repeat(weighted.labels_, times), repeated.labels_) == 1
    assert np.array_equal(weighted.get_support(), repeated.get_support())
    np.testing.assert_allclose(weighted.mean_, repeated.mean_, rtol=1e-9, atol=1e-12)


@sampled
@given(problems(), storages)
def test_float32_gives_the_clusters_of_float64(problem, storage):
    X, k, n = problem
    X = X.astype(np.float32)
    pack = ARRAY_KINDS[storage]
    one, other = fit(pack(X), k, n), fit(pack(X.astype(np.float64)), k, n)
    assert one.weights_.dtype == np.float32
    assert_same(one, other)
    np.testing.assert_allclose(one.weights_, other.weights_, rtol=1e-3, atol=1e-3)


# Storage -------------------------------------------------------------------------------


def explicit_zeros(X):
    out = sp.csr_matrix(np.where(X == 0, 7.0, X))
    out.data[(X == 0).ravel()] = 0.0
    return out


def unsorted(X):
    out = sp.csr_matrix(X)
    for i in range(out.shape[0]):
        part = slice(out.indptr[i], out.indptr[i + 1])
        out.indices[part] = out.indices[part][::-1].copy()
        out.data[part] = out.data[part][::-1].copy()
    out.has_sorted_indices = False
    return out


def duplicates(X):
    tidy = sp.csr_matrix(X)
    indices, data = np.repeat(tidy.indices, 2), np.repeat(tidy.data / 2, 2)
    return sp.csr_matrix((data, indices, tidy.indptr * 2), shape=X.shape)


def long_indices(X):
    out = sp.csr_matrix(X)
    out.indices, out.indptr = out.indices.astype(np.int64), out.indptr.astype(np.int64)
    return out


def memory_map(X, folder):
    np.save(folder / "X.npy", X)
    return np.load(folder / "X.npy", mmap_mode="r")


def read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


def read_only_sparse(X):
    out = sp.csr_matrix(X)
    for name in ("data", "indices", "indptr"):
        getattr(out, name).flags.writeable = False
    return out


UNTIDY = {
    "explicit zeros": explicit_zeros,
    "unsorted": unsorted,
    "duplicates": duplicates,
    "int64 indices": long_indices,
    "fortran": np.asfortranarray,
    "read-only": read_only,
    "read-only sparse": read_only_sparse,
    "strided": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "reversed": lambda X: np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1],
    "big-endian": lambda X: X.astype(">f8"),
    "coo": sp.coo_matrix,
    "lil": sp.lil_matrix,
}


def arrays_of(X):
    """The arrays that hold the data, whatever it is."""
    if isinstance(X, np.ndarray):
        return [X]
    names = ("data", "indices", "indptr", "row", "col", "rows")
    return [getattr(X, name) for name in names if isinstance(getattr(X, name, None), np.ndarray)]


@functools.cache
def tidy(seed):
    """Return data with zeros, and the model that they give as they are."""
    X = np.round(make_clusters(seed, shift=6.0, zeros=0.3)[0], 1)
    return X, fit(X, 3, 9)


@pytest.mark.parametrize("kind", [*UNTIDY, "memory map"])
@pytest.mark.parametrize("seed", seeds(1, 2))
def test_any_storage_gives_the_same_and_is_left_as_it_is(kind, seed, tmp_path):
    X, expected = tidy(seed)
    data = memory_map(X, tmp_path) if kind == "memory map" else UNTIDY[kind](X)
    before = [array.copy() for array in arrays_of(data)]
    model = fit(data, 3, 9)
    model.predict(data), model.predict_proba(data), model.transform(data), model.score(data)
    for array, old in zip(arrays_of(data), before, strict=True):
        assert array.dtype == old.dtype
        assert array.tolist() == old.tolist()
    assert_same(expected, model)


def whole_numbers(truth_values):
    X = np.round(make_clusters(0, shift=6.0)[0])
    return np.clip(X, 0, 1 if truth_values else 100)


@functools.cache
def floats(truth_values):
    """Return the model of whole numbers that are stored as floats."""
    return fit(whole_numbers(truth_values), 3, 9)


@pytest.mark.parametrize(
    ("dtype", "pack"),
    crossed(
        [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.int64, np.uint64, bool],
        [np.asarray, sp.csr_array, sp.csc_array],
    ),
)
def test_integers_and_truth_values_are_numbers(dtype, pack):
    data = pack(whole_numbers(dtype is bool).astype(dtype))
    before = data.toarray() if sp.issparse(data) else data.copy()
    model = fit(data, 3, 9)
    assert_same(floats(dtype is bool), model)
    after = data.toarray() if sp.issparse(data) else data
    assert after.dtype == dtype
    assert np.array_equal(before, after)


@pytest.mark.parametrize("kind", list(ARRAY_KINDS))
def test_what_is_given_besides_the_data_is_not_modified(kind):
    X, labels, _ = make_clusters(0)
    data = ARRAY_KINDS[kind](X)
    weight, costs = np.ones(len(X)), np.ones(X.shape[1])
    weight[::7] = 0
    given = [labels, weight, costs]
    before = [array.copy() for array in given]
    for array in given:
        array.flags.writeable = False
    model = KSparse(3, n_features=9, init=labels, feature_weights=costs, random_state=0)
    model.fit(data, sample_weight=weight)
    for array, old in zip(given, before, strict=True):
        assert np.array_equal(array, old)


# Extreme numbers -----------------------------------------------------------------------


@settings(max_examples=examples(20, 60), deadline=None, derandomize=True, phases=PHASES)
@given(
    st.integers(0, 10**6),
    st.integers(3, 25),
    st.integers(1, 15),
    st.sampled_from(["normal", "heavy", "counts", "ties", "one cell", "one feature", "low rank"]),
    st.floats(-150, 150),
    st.sampled_from([np.float64, np.float32]),
    storages,
)
def test_results_are_finite_or_the_data_are_refused(seed, n, d, what, exponent, dtype, storage):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    if what == "heavy":
        X = np.sign(X) * np.abs(X) ** rng.choice([1, 20, 80], size=(n, d))
    elif what == "counts":
        X = rng.poisson(0.3, size=(n, d)).astype(float)
    elif what == "ties":
        X = rng.integers(0, 2, size=(n, d)).astype(float)
    elif what == "one cell":
        X[0] *= 1e60
    elif what == "one feature":
        X[:, 0] *= 1e60
    elif what == "low rank":
        X = np.outer(X[:, 0], X[0])
    limit = 30 if dtype is np.float32 else 150
    with np.errstate(over="ignore", under="ignore"):
        X = np.clip(X * 10.0 ** np.clip(exponent, -limit, limit), *np.array([-1, 1]) * 1e300)
        X = np.clip(X, np.finfo(dtype).min, np.finfo(dtype).max).astype(dtype)
    k = int(rng.integers(1, 4))
    data = ARRAY_KINDS[storage](X)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=UserWarning)  # ties and the like are told
        try:
            model = fit(data, k, int(rng.integers(1, d + 1)), max_loops=4, max_labels=2)
        except ValueError as error:
            assert "X" in str(error) or "features" in str(error) or "samples" in str(error)
            return
        found = [model.predict_proba(data), model.project(data), np.array(model.score(data))]
    assert set(model.labels_) <= set(range(k))
    for name in ("weights_", "l1_weights_", "centroids_", "mean_", "scale_", "cost_history_"):
        found.append(getattr(model, name))
    for values in found:
        assert np.isfinite(values).all()
    # One of the two, whichever selector it was.
    assert np.isfinite([model.eta_, model.explained_ if np.isnan(model.gap_) else model.gap_]).all()
