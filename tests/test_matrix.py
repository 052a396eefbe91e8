"""The matrix protocol says the same as numpy on explicitly centred and scaled data."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
import tracemalloc

import numba
import numpy as np
import pytest
import scipy.sparse as sp

from conftest import ARRAY_KINDS
from ksparse._threads import limited_threads, map_parts, split
from ksparse.matrix import GramCache, as_matrix, base, sparse

SPARSE_KINDS = {name: kind for name, kind in ARRAY_KINDS.items() if name.startswith("cs")}
DENSE_KINDS = {name: kind for name, kind in ARRAY_KINDS.items() if name.startswith("dense")}
CONSTANT, ZERO = 3, 5  # features of the shared data that do not vary


def make_data(seed=0, m=37, d=13, dtype=np.float64):
    """Counts and negative numbers, many zeros, one constant and one empty feature."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, d)) * rng.uniform(0.1, 10, d) + rng.normal(size=d)
    X[rng.random((m, d)) < 0.6] = 0.0
    X[:, CONSTANT], X[:, ZERO] = 1.7, 0.0
    return X.astype(dtype)


def make_weights(seed, m):
    weight = np.random.default_rng([seed, 1]).uniform(0.2, 3, m)
    weight[2] = 0.0
    return weight


class Plain:
    """What a matrix stands for, in plain numpy and float64."""

    def __init__(self, X, weight=None, standardize=False, center=True):
        X = np.asarray(X, dtype=np.float64)
        self.weight = np.ones(X.shape[0]) if weight is None else weight
        self.mean = np.average(X, axis=0, weights=self.weight)
        self.variance = np.average((X - self.mean) ** 2, axis=0, weights=self.weight)
        self.varies = np.ptp(X[self.weight > 0], axis=0) > 0
        deviation = np.sqrt(self.variance, where=self.varies, out=np.ones(X.shape[1]))
        self.factor = self.varies / (deviation if standardize else 1.0)
        self.Xc = (X - center * self.mean) * self.factor
        self.weighted = self.Xc * self.weight[:, None]

    def sums(self, labels, n_clusters):
        return np.array([self.weighted[labels == g].sum(axis=0) for g in range(n_clusters)])


def assert_close(actual, expected, tol=1e-10):
    assert np.shape(actual) == np.shape(expected)
    assert np.asarray(actual).dtype == np.float64
    scale = max(1e-300, float(np.abs(expected).max(initial=0.0)))
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tol * scale)


def operations(matrix, seed=0):
    """Everything a matrix can be asked for, on random arguments."""
    rng = np.random.default_rng([seed, 2])
    m, d = matrix.shape
    columns, others = rng.permutation(d)[: d // 2], rng.permutation(d)[: d // 3]
    labels = rng.integers(0, 3, m)
    sparse_weights = np.zeros((d, 2))
    sparse_weights[rng.integers(0, d, 2)] = rng.normal(size=(2, 2))
    W, T = rng.normal(size=(d, 3)), rng.normal(size=(m, 2))
    return {
        "mean": matrix.mean,
        "variance": matrix.variance,
        "factor": matrix.factor,
        "project": matrix.project(W),
        "project few": matrix.project(sparse_weights),
        "correlate": matrix.correlate(T),
        "normal": matrix.normal(W),
        "cluster_sums": matrix.cluster_sums(labels, 4),
        "gram": matrix.gram(columns),
        "gram others": matrix.gram(columns, others),
        "columns": matrix.columns(columns),
    }


@pytest.fixture(
    params=itertools.product(ARRAY_KINDS, ("float32", "float64"), (False, True), (False, True)),
    ids=lambda p: f"{p[0]}-{p[1]}{'-weighted' * p[2]}{'-standardized' * p[3]}",
)
def pair(request):
    """A matrix of every kind, and the plain array it stands for."""
    kind, dtype, weighted, standardize = request.param
    X = make_data(dtype=dtype)
    weight = make_weights(0, X.shape[0]) if weighted else None
    matrix = as_matrix(ARRAY_KINDS[kind](X), sample_weight=weight, standardize=standardize)
    return matrix, Plain(X, weight, standardize)


# Every kind of storage against numpy -------------------------------------------------


def test_moments_and_factors_are_those_of_numpy(pair):
    matrix, plain = pair
    assert_close(matrix.mean, plain.mean)
    assert_close(matrix.variance, plain.variance)
    assert_close(matrix.factor, plain.factor)
    assert matrix.total_weight == pytest.approx(plain.weight.sum(), rel=1e-14)


def test_features_that_do_not_vary_have_factor_zero(pair):
    matrix, _ = pair
    assert np.flatnonzero(matrix.factor == 0).tolist() == [CONSTANT, ZERO]
    assert np.flatnonzero(matrix.constant).tolist() == [CONSTANT, ZERO]


@pytest.mark.parametrize("n_rows", [0, 1, 2, 3, 6, 13])
def test_project_is_the_product_with_any_number_of_nonzero_rows(pair, n_rows):
    matrix, plain = pair
    rng = np.random.default_rng(n_rows)
    W = np.zeros((matrix.shape[1], 2))
    W[rng.permutation(matrix.shape[1])[:n_rows]] = rng.normal(size=(n_rows, 2))
    assert_close(matrix.project(W), plain.Xc @ W)


def test_a_row_with_one_zero_weight_still_counts_in_project(pair):
    matrix, plain = pair
    W = np.zeros((matrix.shape[1], 3))
    W[[1, 7, 7], [0, 1, 2]] = 2.0, -1.0, 0.5
    assert_close(matrix.project(W), plain.Xc @ W)


@pytest.mark.parametrize("width", [1, 4])
def test_correlate_is_the_weighted_product(pair, width):
    matrix, plain = pair
    T = np.random.default_rng(width).normal(size=(matrix.shape[0], width)) + 1
    assert_close(matrix.correlate(T), plain.weighted.T @ T)


@pytest.mark.parametrize("n_rows", [1, 13])
def test_normal_is_the_weighted_product_twice(pair, n_rows):
    matrix, plain = pair
    W = np.zeros((matrix.shape[1], 3))
    W[:n_rows] = np.random.default_rng(4).normal(size=(n_rows, 3))
    assert_close(matrix.normal(W), plain.weighted.T @ (plain.Xc @ W))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("share", [0.1, 0.5])
def test_dense_blocks_and_stored_entries_give_the_same_product(monkeypatch, share, weighted):
    X = sp.random(900, 40, share, format="csr", dtype=np.float32, random_state=0)
    weight = make_weights(0, 900) if weighted else None
    matrix = as_matrix(sp.csr_array(X), sample_weight=weight)
    W = np.random.default_rng(5).normal(size=(40, 7))
    found = {}
    for least in (0.0, 2.0):
        monkeypatch.setattr(sparse, "DENSE_SHARE", least)
        monkeypatch.setattr(sparse, "BLOCK_ENTRIES", 4000)  # several blocks in each part
        for threads in (1, 2):
            with limited_threads(threads):
                found[least, threads] = matrix.normal(W)
        assert np.array_equal(found[least, 1], found[least, 2])
    assert_close(found[0.0, 1], found[2.0, 1])


def test_cluster_sums_are_sums_of_centred_rows_and_zero_for_an_empty_cluster(pair):
    matrix, plain = pair
    labels = np.random.default_rng(5).integers(0, 4, matrix.shape[0])
    sums = matrix.cluster_sums(labels, 5)
    assert_close(sums, plain.sums(labels, 5))
    assert (sums[4] == 0).all()


@pytest.mark.parametrize("columns", [[4], [9, 2, 0], [CONSTANT, 1, ZERO], range(13), []])
def test_gram_is_the_weighted_product_of_the_columns(pair, columns):
    matrix, plain = pair
    columns = np.array(columns, dtype=np.intp)
    expected = plain.weighted[:, columns].T @ plain.Xc[:, columns]
    assert_close(matrix.gram(columns), expected)


@pytest.mark.parametrize("columns, others", [([0], [1, 2]), ([6, 2, 9], [2, 11]), ([3, 1], [8])])
def test_gram_with_others_is_the_weighted_product_of_both(pair, columns, others):
    matrix, plain = pair
    expected = plain.weighted[:, columns].T @ plain.Xc[:, others]
    assert_close(matrix.gram(np.array(columns), np.array(others)), expected)


def test_columns_are_centred_and_scaled_in_the_order_asked_for(pair):
    matrix, plain = pair
    index = np.array([7, 0, CONSTANT, 12])
    assert_close(matrix.columns(index), plain.Xc[:, index])


def test_rows_are_centred_anew_with_the_factors_of_the_whole(pair):
    matrix, plain = pair
    index = np.array([30, 1, 8, 9, 14, 22, 3])
    part = matrix.rows(index)
    again = Plain(np.asarray(plain_array(matrix))[index], plain.weight[index])
    assert_close(part.mean, again.mean)
    assert_close(part.variance, again.variance)
    factor = np.where(again.varies, plain.factor, 0.0)
    assert_close(part.factor, factor)
    centred = again.Xc * plain.factor  # again.Xc is zero where the part does not vary
    W = np.random.default_rng(6).normal(size=(matrix.shape[1], 2))
    assert_close(part.project(W), centred @ W)
    assert_close(part.normal(W), centred.T @ (again.weight[:, None] * (centred @ W)))


def test_rows_that_agree_in_a_feature_have_factor_zero_there(pair):
    matrix, _ = pair
    X = plain_array(matrix)
    feature = next(j for j in range(13) if j != ZERO and (X[:, j] == 0).sum() > 3)
    part = matrix.rows(np.flatnonzero(X[:, feature] == 0))
    assert part.factor[feature] == 0


def test_a_scaled_view_divides_every_product_and_leaves_the_mean(pair):
    matrix, plain = pair
    mean = matrix.mean.copy()
    matrix = matrix.scaled(5.0).scaled(0.5)
    plain.Xc, plain.weighted = plain.Xc / 2.5, plain.weighted / 2.5
    assert np.array_equal(matrix.mean, mean)
    assert_close(matrix.factor, plain.factor / 2.5)
    columns, W = np.arange(13), np.random.default_rng(7).normal(size=(13, 2))
    labels = np.arange(matrix.shape[0]) % 3
    assert_close(matrix.columns(columns), plain.Xc)
    assert_close(matrix.project(W), plain.Xc @ W)
    assert_close(matrix.normal(W), plain.weighted.T @ plain.Xc @ W)
    assert_close(matrix.gram(columns), plain.weighted.T @ plain.Xc)
    assert_close(matrix.cluster_sums(labels, 3), plain.sums(labels, 3))
    child = matrix.rows(np.arange(20))
    assert_close(child.factor, matrix.factor)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_a_view_that_is_not_centred_subtracts_nothing(array_kind, weighted, standardize, offset):
    X = make_data() + offset
    weight = make_weights(0, X.shape[0]) if weighted else None
    given = {"sample_weight": weight, "standardize": standardize}
    matrix = as_matrix(array_kind(X), center=False, **given)
    plain = Plain(X, weight, standardize, center=False)
    assert not matrix.mean.any()
    assert_close(matrix.variance, plain.variance, tol=1e-6 if offset else 1e-10)
    assert np.flatnonzero(matrix.factor == 0).tolist() == [CONSTANT, ZERO]
    factor = matrix.factor  # next to a large offset, variances have few digits
    plain.Xc, plain.weighted = X * factor, X * factor * plain.weight[:, None]
    columns, W = np.array([4, 0, 7]), np.random.default_rng(7).normal(size=(13, 2))
    labels = np.arange(X.shape[0]) % 3
    T = W[labels]
    assert_close(matrix.columns(columns), plain.Xc[:, columns])
    assert_close(matrix.project(W), plain.Xc @ W)
    assert_close(matrix.correlate(T), plain.weighted.T @ T)
    assert_close(matrix.normal(W), plain.weighted.T @ plain.Xc @ W)
    assert_close(matrix.gram(columns), plain.weighted[:, columns].T @ plain.Xc[:, columns])
    assert_close(matrix.cluster_sums(labels, 3), plain.sums(labels, 3))
    part = matrix.rows(np.arange(5, 30))
    assert_close(part.project(W), X[5:30] * part.factor @ W)
    assert_close(matrix.scaled(2.0).project(W), plain.Xc @ W / 2)
    again, centred = matrix.with_center(True), as_matrix(array_kind(X), **given)
    assert_close(again.project(W), centred.project(W))


def plain_array(matrix):
    return matrix.X.toarray() if sp.issparse(matrix.X) else np.asarray(matrix.X)


# Blocks, threads and storage do not change the answer --------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_small_blocks_give_the_same_as_one_block(monkeypatch, array_kind, dtype, weighted, offset):
    X = make_data(3, dtype=np.float64) if offset == 0 else np.round(make_data(3) * 16) / 16
    weight = make_weights(3, X.shape[0]) if weighted else None
    plain = Plain(X, weight)
    if offset and sp.issparse(array_kind(X)):
        offset = 0.0  # offsets are the matter of dense data
    matrix = as_matrix(array_kind((X + offset).astype(dtype)), sample_weight=weight)
    whole = operations(matrix)
    monkeypatch.setattr(base, "BLOCK_ENTRIES", 40)
    monkeypatch.setattr(sparse, "BLOCK_ENTRIES", 40)
    monkeypatch.setattr(sparse, "SCATTER_LIMIT", 1)
    blocks = operations(as_matrix(array_kind((X + offset).astype(dtype)), sample_weight=weight))
    for name, expected in whole.items():
        assert_close(blocks[name], expected, tol=1e-9)
    if dtype == np.float64:
        assert_close(blocks["columns"].T @ blocks["columns"], whole["columns"].T @ whole["columns"])
    assert_close(matrix.factor, plain.factor)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", SPARSE_KINDS)
def test_sparse_results_are_the_same_to_the_bit_for_any_number_of_threads(monkeypatch, kind, dtype):
    rng = np.random.default_rng(8)
    X = sp.random_array((3001, 211), density=0.05, rng=rng, dtype=np.float64).astype(dtype)
    X = SPARSE_KINDS[kind](X)
    results = []
    for threads in (1, 2, 3):
        monkeypatch.setattr(numba.config, "NUMBA_NUM_THREADS", threads)
        results.append(operations(as_matrix(X, sample_weight=make_weights(8, 3001))))
    for name, expected in results[0].items():
        assert np.array_equal(results[1][name], expected), name
        assert np.array_equal(results[2][name], expected), name


SCRIPT = """
import hashlib
import numpy as np, scipy.sparse as sp
from ksparse.matrix import as_matrix
rng = np.random.default_rng(0)
X = sp.random_array((2000, 150), density=0.1, rng=rng).tocsr()
digest = hashlib.sha256()
W, T = rng.normal(size=(150, 3)), rng.normal(size=(2000, 3))
for data in (X, X.tocsc()):
    matrix = as_matrix(data, standardize=True)
    for a in (matrix.mean, matrix.variance, matrix.project(W), matrix.correlate(T),
              matrix.normal(W), matrix.cluster_sums(np.arange(2000) % 7, 7)):
        digest.update(np.ascontiguousarray(a).tobytes())
print(digest.hexdigest())
"""


@pytest.mark.thorough
def test_the_environment_variable_for_threads_does_not_change_a_bit():
    digests = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env=os.environ | {"NUMBA_NUM_THREADS": threads},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        ).stdout
        for threads in ("1", "2")
    }
    assert len(digests) == 1


FORK = """
import os, warnings
import numpy as np, scipy.sparse as sp
import numba
numba.config.NUMBA_NUM_THREADS = 2
from ksparse.matrix import as_matrix
X = sp.random_array((500, 40), density=0.2, rng=np.random.default_rng(0)).tocsr()
expected = as_matrix(X).mean
warnings.simplefilter("ignore")
child = os.fork()
if child == 0:
    os._exit(0 if np.array_equal(as_matrix(X).mean, expected) else 1)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_the_threads_work_in_a_forked_process():
    run = subprocess.run([sys.executable, "-c", FORK], timeout=60, check=False)
    assert run.returncode == 0


def test_parts_run_in_as_many_threads_as_numba_has(monkeypatch):
    barrier = threading.Barrier(2, timeout=20)  # passes only if two run at once

    def meet(part):
        barrier.wait()
        return threading.current_thread().name

    monkeypatch.setattr(numba.config, "NUMBA_NUM_THREADS", 2)
    assert len(set(map_parts(meet, range(2)))) == 2
    monkeypatch.setattr(numba.config, "NUMBA_NUM_THREADS", 1)
    here = threading.current_thread().name
    assert map_parts(lambda _: threading.current_thread().name, range(3)) == [here] * 3


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_come_in_the_order_of_the_parts_and_errors_come_through(monkeypatch, threads):
    monkeypatch.setattr(numba.config, "NUMBA_NUM_THREADS", threads)
    assert map_parts(lambda i: i * i, range(50)) == [i * i for i in range(50)]
    assert map_parts(lambda i: i, []) == []
    with pytest.raises(ZeroDivisionError):
        map_parts(lambda i: 1 // i, range(4))


@pytest.mark.parametrize("n", [0, 1, 3, 4, 17, 1000])
@pytest.mark.parametrize("parts", [1, 4, 16])
def test_a_split_covers_the_range_once_in_nearly_equal_runs(n, parts):
    runs = split(n, parts)
    assert [i for i0, i1 in runs for i in range(i0, i1)] == list(range(n))
    assert len(runs) <= parts
    lengths = [i1 - i0 for i0, i1 in runs]
    assert max(lengths) - min(lengths) <= 1


# Weights ----------------------------------------------------------------------------


@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_an_integer_weight_is_a_row_repeated_that_often(array_kind, standardize, seed):
    X = make_data(seed)
    rng = np.random.default_rng(seed)
    weight = rng.integers(0, 4, X.shape[0])
    often = np.repeat(np.arange(X.shape[0]), weight)
    weighted = as_matrix(array_kind(X), sample_weight=weight.astype(float), standardize=standardize)
    repeated = as_matrix(array_kind(X[often]), standardize=standardize)
    T, W = rng.normal(size=(X.shape[0], 2)), rng.normal(size=(X.shape[1], 2))
    labels, columns = rng.integers(0, 3, X.shape[0]), np.array([8, 1, 6])
    assert_close(weighted.mean, repeated.mean)
    assert_close(weighted.variance, repeated.variance)
    assert_close(weighted.factor, repeated.factor)
    assert_close(weighted.project(W)[often], repeated.project(W))
    assert_close(weighted.correlate(T), repeated.correlate(T[often]))
    assert_close(weighted.normal(W), repeated.normal(W))
    assert_close(weighted.cluster_sums(labels, 3), repeated.cluster_sums(labels[often], 3))
    assert_close(weighted.gram(columns), repeated.gram(columns))


def test_weights_of_one_are_no_weights(array_kind):
    X = array_kind(make_data())
    plain, ones = as_matrix(X), as_matrix(X, sample_weight=np.ones(X.shape[0]))
    for name, expected in operations(plain).items():
        assert_close(operations(ones)[name], expected, tol=1e-12)


# Numbers that are hard to add --------------------------------------------------------


@pytest.mark.parametrize("value", [0.1, 1 / 3, -1e6, 12345.678, 1e-30, 0.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_constant_feature_is_recognised_whatever_rounding_does(
    array_kind, value, dtype, weighted
):
    X = np.random.default_rng(0).normal(size=(1003, 3)).astype(dtype)
    X[:, 1] = value
    weight = make_weights(1, 1003) if weighted else None
    matrix = as_matrix(array_kind(X), sample_weight=weight, standardize=True)
    assert (matrix.factor == 0).tolist() == [False, True, False]
    assert (matrix.columns(np.array([1])) == 0).all()


def test_a_feature_that_varies_little_around_a_large_mean_is_not_constant(array_kind):
    X = np.random.default_rng(0).normal(size=(1003, 2)) * [1, 1e-3] + [0, 1e6]
    matrix = as_matrix(array_kind(X), standardize=True)
    assert matrix.factor[1] == pytest.approx(1 / X[:, 1].std(), rel=1e-6)


def test_a_single_sample_has_no_variance(array_kind):
    matrix = as_matrix(array_kind(np.array([[1.0, 0.0, 3.0]])), standardize=True)
    assert (matrix.factor == 0).all()
    assert (matrix.normal(np.ones((3, 1))) == 0).all()


@pytest.mark.parametrize("columns", [[2], [0, 1, 2, 3, 4, 5]], ids=["one feature", "all features"])
@pytest.mark.parametrize("offset, tol", [(900.0, 1e-10), (1e6, 1e-12)])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", DENSE_KINDS)
def test_a_large_offset_in_dense_data_loses_no_digits(kind, dtype, weighted, offset, tol, columns):
    # Sixteenths, and weights that add up to a power of two: the shift is exact in float32
    # too, and so is the mean in float64. Any difference is the doing of the products.
    rng = np.random.default_rng(9)
    Z = np.round(rng.normal(size=(256, 6)) * 16) / 16
    X = Z.copy()
    X[:, columns] += offset
    weight = rng.permutation(np.tile([0.5, 1.5], 128)) if weighted else None
    shifted = as_matrix(DENSE_KINDS[kind](X.astype(dtype)), sample_weight=weight)
    exact = as_matrix(Z, sample_weight=weight)
    mean = shifted.mean.copy()
    mean[columns] -= offset
    assert np.array_equal(mean, exact.mean)
    expected = operations(exact)
    for name, value in operations(shifted).items():
        if name != "mean":
            assert_close(value, expected[name], tol=tol)


@pytest.mark.parametrize("kind", DENSE_KINDS)
def test_an_offset_of_a_billion_leaves_what_the_data_hold(kind):
    rng = np.random.default_rng(9)
    Z = rng.normal(size=(300, 6))
    X = Z + 1e9  # rounds the data themselves to 1e-7
    shifted, exact = as_matrix(DENSE_KINDS[kind](X)), as_matrix(X - 1e9)
    expected = operations(exact)
    for name, value in operations(shifted).items():
        if name != "mean":
            assert_close(value, expected[name], tol=1e-5)


@pytest.mark.parametrize("kind", ARRAY_KINDS)
def test_sums_of_float32_run_in_float64(kind):
    x = np.random.default_rng(10).normal(1000.0, 1.0, size=(1_200_000, 1)).astype(np.float32)
    exact = x.astype(np.float64)
    matrix = as_matrix(ARRAY_KINDS[kind](x))
    assert matrix.mean[0] == pytest.approx(exact.mean(), rel=1e-12)
    assert matrix.variance[0] == pytest.approx(exact.var(), rel=1e-9)
    assert matrix.gram(np.array([0]))[0, 0] == pytest.approx(exact.var() * exact.size, rel=1e-9)
    ones = np.ones((exact.size, 1))
    assert abs(matrix.correlate(ones)[0, 0]) < 1e-3  # of a sum of 1.2e9


# Sparse input as it comes ------------------------------------------------------------


def untidy(kind, seed=11, m=30, d=12):
    """A sparse matrix with unsorted, repeated, cancelling and explicitly zero entries."""
    rng = np.random.default_rng(seed)
    major, minor = (m, d) if "csr" in kind else (d, m)
    counts = rng.integers(0, 9, major)
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    indices = rng.integers(0, minor, counts.sum()).astype(np.int32)
    data = rng.integers(-2, 3, counts.sum()).astype(np.float64)  # zeros, and pairs that cancel
    make = {"csr_matrix": sp.csr_matrix, "csr_array": sp.csr_array}.get(kind)
    make = make or {"csc_matrix": sp.csc_matrix, "csc_array": sp.csc_array}[kind]
    return make((data, indices, indptr), shape=(m, d))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", SPARSE_KINDS)
def test_unsorted_repeated_and_zero_entries_mean_the_matrix_they_add_up_to(kind, seed, weighted):
    X = untidy(kind, seed)
    assert not X.has_canonical_format
    weight = make_weights(seed, X.shape[0]) if weighted else None
    expected = operations(as_matrix(untidy(kind, seed).toarray(), sample_weight=weight))
    for name, value in operations(as_matrix(X, sample_weight=weight)).items():
        assert_close(value, expected[name])


@pytest.mark.parametrize("kind", SPARSE_KINDS)
def test_indices_of_64_bits_are_as_good_as_32(kind):
    X = SPARSE_KINDS[kind](make_data())
    wide = X.copy()
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    expected = operations(as_matrix(X))
    for name, value in operations(as_matrix(wide)).items():
        assert np.array_equal(value, expected[name]), name


@pytest.mark.parametrize("kind", SPARSE_KINDS)
def test_a_sparse_matrix_without_entries_is_all_zero(kind):
    matrix = as_matrix(SPARSE_KINDS[kind](np.zeros((6, 4))), standardize=True)
    for name, value in operations(matrix).items():
        assert (value == 0).all(), name


def frozen(X):
    """The same data, which cannot be written to."""
    for array in (X.data, X.indices, X.indptr) if sp.issparse(X) else (X,):
        array.flags.writeable = False
    return X


@pytest.mark.parametrize("standardize", [False, True])
def test_input_that_cannot_be_written_to_serves(array_kind, standardize):
    X = array_kind(make_data(12))
    weight = make_weights(12, X.shape[0])
    expected = operations(as_matrix(X, sample_weight=weight, standardize=standardize))
    matrix = as_matrix(frozen(X), sample_weight=frozen(weight), standardize=standardize)
    for name, value in operations(matrix).items():
        assert np.array_equal(value, expected[name]), name
    matrix.rows(np.arange(10))


@pytest.mark.parametrize("offset", [0.0, 1e7])
def test_input_is_never_modified(array_kind, offset):
    X = array_kind(make_data(13) + offset)
    weight, before = make_weights(13, X.shape[0]), X.copy()
    kept = weight.copy()
    matrix = as_matrix(X, sample_weight=weight, standardize=True)
    operations(matrix)
    matrix = matrix.scaled(3.0)
    operations(matrix.rows(np.arange(5)))
    assert np.array_equal(weight, kept)
    arrays = ("data", "indices", "indptr") if sp.issparse(X) else ("T",)
    for name in arrays:
        assert np.array_equal(getattr(X, name), getattr(before, name))


@pytest.mark.parametrize("kind", SPARSE_KINDS)
def test_untidy_input_is_never_modified(kind):
    X, before = untidy(kind), untidy(kind)
    operations(as_matrix(X))
    for name in ("data", "indices", "indptr"):
        assert np.array_equal(getattr(X, name), getattr(before, name))


def test_arguments_are_never_modified(array_kind):
    matrix = as_matrix(array_kind(make_data()), sample_weight=make_weights(0, 37))
    rng = np.random.default_rng(14)
    W, T, labels = frozen(rng.normal(size=(13, 2))), frozen(rng.normal(size=(37, 2))), np.arange(37)
    columns = frozen(np.array([4, 2]))
    matrix.project(W), matrix.normal(W), matrix.correlate(T)
    matrix.cluster_sums(frozen(labels), 37), matrix.gram(columns), matrix.columns(columns)


# Memory ------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["csr", "csc"])
def test_sparse_data_are_never_made_dense_as_a_whole(form):
    m, d = 200_000, 2_000
    rng = np.random.default_rng(15)
    places = rng.integers(0, m, m * d // 10_000), rng.integers(0, d, m * d // 10_000)
    X = sp.coo_array((rng.normal(size=places[0].size), places), shape=(m, d)).asformat(form)
    weight = rng.uniform(0.5, 2, m)
    columns, W = rng.permutation(d)[:100], rng.normal(size=(d, 2))

    def use_all_of_it(X, weight):
        matrix = as_matrix(X, sample_weight=weight, standardize=True)
        n = X.shape[0]
        matrix.correlate(matrix.project(W)), matrix.normal(W)
        matrix.cluster_sums(np.arange(n) % 5, 5)
        matrix.gram(columns), matrix.gram(columns[:50], columns[50:])
        matrix.columns(columns[:3])
        matrix.rows(np.arange(0, n, 2)).normal(W)

    use_all_of_it(X[:100], weight[:100])  # compiled before memory is watched
    tracemalloc.start()
    try:
        use_all_of_it(X, weight)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * m * d / 15


@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("kind", DENSE_KINDS)
def test_float32_data_are_never_converted_as_a_whole(kind, offset):
    X = DENSE_KINDS[kind](
        np.random.default_rng(18).normal(offset, 1, size=(60_000, 300)).astype(np.float32)
    )
    W, T = np.ones((300, 2)), np.ones((60_000, 2))
    tracemalloc.start()
    try:
        matrix = as_matrix(X, standardize=True)
        matrix.project(W), matrix.correlate(T), matrix.normal(W)
        matrix.cluster_sums(np.arange(60_000) % 3, 3), matrix.gram(np.arange(20))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 0.6 * 8 * X.size


# The Gram cache ----------------------------------------------------------------------


class Counting:
    """A matrix that counts the columns whose products it is asked for."""

    def __init__(self, matrix):
        self.matrix, self.shape, self.asked = matrix, matrix.shape, 0

    def gram(self, columns, others=None):
        self.asked += columns.size * (columns.size if others is None else others.size)
        return self.matrix.gram(columns, others)


REQUESTS = [[1, 2, 3], [3, 0, 2], [5], [12, 1, 0, 7], [7, 12], range(13), [4, 3]]


@pytest.mark.parametrize("limit", [1, 4, 7, 2000])
def test_cached_grams_are_those_computed_directly(array_kind, limit):
    matrix = as_matrix(array_kind(make_data()), sample_weight=make_weights(0, 37))
    cache = GramCache(matrix, max_columns=limit)
    for request in REQUESTS:
        columns = np.array(request)
        assert_close(cache(columns), matrix.gram(columns), tol=1e-13)


def test_what_is_cached_is_not_computed_again():
    matrix = Counting(as_matrix(make_data()))
    cache = GramCache(matrix)
    cache(np.arange(10))
    assert matrix.asked == 100
    cache(np.array([9, 0, 4]))
    assert matrix.asked == 100
    cache(np.array([4, 10]))
    assert matrix.asked == 100 + 10 + 1


@pytest.mark.parametrize("limit", [3, 6])
def test_the_cache_keeps_at_most_its_limit_or_one_request(limit):
    rng = np.random.default_rng(19)
    cache = GramCache(as_matrix(make_data()), max_columns=limit)
    largest = 0
    for _ in range(30):
        columns = rng.permutation(13)[: rng.integers(1, 9)]
        largest = max(largest, columns.size)
        cache(columns)
        assert cache._gram.shape[0] <= max(limit, largest)


def test_what_the_cache_returned_may_be_written_to():
    matrix = as_matrix(make_data())
    cache = GramCache(matrix)
    columns = np.arange(5)
    cache(columns)[:] = -1.0
    assert_close(cache(columns), matrix.gram(columns))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("standardize", [False, True])
def test_gram_of_few_entries(weighted, standardize, monkeypatch):
    """Products of the entries alone are those of centred data, in any order of features."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 30)) * (rng.random((90, 30)) < 0.1)
    X[:, CONSTANT] = 0.0
    weight = make_weights(0, 90) if weighted else None
    columns = np.append(rng.permutation(30)[:20], [4, 4])
    matrix = as_matrix(sp.csr_array(X), sample_weight=weight, standardize=standardize)
    plain = Plain(X, weight, standardize)
    expected = plain.weighted[:, columns].T @ plain.Xc[:, columns]
    assert matrix._sparse_gram(np.unique(columns)) is not None
    assert_close(matrix.gram(columns), expected)
    monkeypatch.setattr(sparse, "SPARSE_SHARE", 0.0)
    assert_close(matrix.gram(columns), expected)


def test_gram_of_few_entries_and_a_large_mean():
    """A feature whose mean is far above its deviation is centred before the product."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 30)) * (rng.random((90, 30)) < 0.1)
    X[:, 7] = 1e6 + rng.normal(size=90)
    matrix = as_matrix(sp.csr_array(X))
    every = np.arange(30)
    assert matrix._sparse_gram(every) is None
    plain = Plain(X)
    assert_close(matrix.gram(every), plain.weighted.T @ plain.Xc)
