"""Functions of data in any storage give what numpy gives."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp

from conftest import ARRAY_KINDS
from ksparse.matrix import data
from ksparse.matrix.opening import open_blocks
from ksparse.matrix.sources import columns_in_memory, select_rows
from ksparse.normalise import count_empty, log_normalise, log_rows, summarise_values

h5py = pytest.importorskip("h5py")
STORED = ("stored_dense", "stored_csr")


def counts(dtype=np.float32):
    X = np.random.default_rng(0).poisson(0.7, size=(5000, 12)).astype(dtype)
    X[:, 0] += X.sum(axis=1) == 0
    X[[3, 4700]] = 0
    return X


@pytest.fixture(params=[*ARRAY_KINDS, *STORED])
def store(request, tmp_path):
    """A function that puts a dense array in one kind of storage."""
    if request.param in ARRAY_KINDS:
        return ARRAY_KINDS[request.param]

    def to_file(X):
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.h5"
        with h5py.File(path, "w") as file:
            if request.param == "stored_dense":
                file["X"] = X
            else:
                rows = sp.csr_matrix(X)
                group = file.create_group("X")
                group.attrs["encoding-type"], group.attrs["shape"] = "csr_matrix", X.shape
                for name in ("data", "indices", "indptr"):
                    group[name] = getattr(rows, name)
        blocks = open_blocks(h5py.File(path)["X"], 2**10)
        assert len(blocks.bounds) > 1
        return blocks

    return to_file


def whole(X):
    return data.dense(data.take_rows(X, None, lambda block: block))


def test_some_rows_of_some_rows_are_data_like_others(store):
    dense, columns = counts(), np.array([7, 0, 3])
    rows, fewer = np.arange(5, 4900, 3), np.arange(1, 1600, 7)
    some = select_rows(select_rows(store(dense), rows), fewer)
    expected = dense[rows][fewer]
    np.testing.assert_array_equal(whole(some), expected)
    np.testing.assert_array_equal(data.dense(columns_in_memory(some, columns)),
                                  expected[:, columns])  # fmt: skip
    logged = data.map_rows(some, partial(log_rows, columns=columns), n_columns=3, dtype=np.float32)
    np.testing.assert_allclose(
        whole(select_rows(logged, np.arange(9))), log_rows(expected[:9], columns=columns)
    )


def test_columns_and_rows_are_taken(store):
    dense, columns, rows = counts(), np.array([7, 0, 3]), np.array([4850, 2, 2, 5])
    np.testing.assert_array_equal(
        whole(data.pick_columns(store(dense), columns)), dense[:, columns]
    )
    step = partial(data.pick_columns, columns=columns)
    taken = data.take_rows(store(dense), rows, step, n_columns=3)
    np.testing.assert_array_equal(data.dense(taken), dense[rows][:, columns])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_rows_are_normalised_alike_in_memory_and_in_blocks(store, dtype):
    dense, columns = counts(dtype), np.array([7, 0, 3])
    with pytest.warns(UserWarning, match="2 of 5000 samples have no counts"):
        expected = log_normalise(dense)
    X = store(dense)
    np.testing.assert_array_equal(whole(data.map_rows(X, log_rows, dtype=np.float32)), expected)
    few = data.map_rows(X, partial(log_rows, columns=columns), n_columns=3, dtype=np.float32)
    np.testing.assert_array_equal(whole(few), expected[:, columns])
    assert whole(few).dtype == np.float32


def test_sums_and_counts_by_group(store):
    dense = counts()
    groups = np.arange(len(dense)) % 4
    for work, values in ((data.group_sums, dense), (data.group_counts, dense != 0)):
        found = data.reduce_rows(store(dense), work, (4,), groups)
        expected = [values[groups == group].sum(axis=0) for group in range(4)]
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    np.testing.assert_array_equal(data.count_nonzero(store(dense)), (dense != 0).sum(axis=0))


def test_stored_zeros_are_not_counted():
    X = sp.csr_matrix(counts())
    X.data[::3] = 0
    np.testing.assert_array_equal(data.count_nonzero(X), (X.toarray() != 0).sum(axis=0))


def test_values_are_summarised(store):
    dense = counts(np.float64)
    assert summarise_values(store(dense)).are_counts
    assert count_empty(store(dense)) == 2
    dense[4850, 3] = 0.5  # in the last block
    assert not summarise_values(store(dense)).are_counts
    dense[4851, 3] = 60.5
    assert summarise_values(store(dense)).too_large_for_logs
    dense[2, 3] = -1
    assert summarise_values(store(dense)).negative


def test_a_matrix_that_a_file_stores_by_columns_is_read(tmp_path):
    anndata = pytest.importorskip("anndata")
    X = sp.csc_matrix(counts())
    anndata.AnnData(X).write_h5ad(tmp_path / "c.h5ad")
    backed = anndata.read_h5ad(tmp_path / "c.h5ad", backed="r")
    assert abs(data.open_matrix(backed.X) - X).sum() == 0
    backed.file.close()
