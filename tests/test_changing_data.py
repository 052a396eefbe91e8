"""Data that change while they are read are refused; data that stay the same never are."""

from __future__ import annotations

import itertools
import os
import pickle
import re
import shutil
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp

import ksparse as ks
from conftest import crossed, make_clusters, thorough_params
from ksparse import KSparse
from ksparse.matrix import as_matrix
from ksparse.matrix.blocks import SomeRows
from ksparse.matrix.marks import block_mark
from ksparse.matrix.opening import open_blocks
from test_blocks import LIMIT, make, store

anndata = pytest.importorskip("anndata")
da = pytest.importorskip("dask.array")
dask = pytest.importorskip("dask")
h5py = pytest.importorskip("h5py")
zarr = pytest.importorskip("zarr")

pytestmark = pytest.mark.filterwarnings("ignore:Writing zarr v2 data")
CHANGED = r"X changed while it was read: rows \d+ to \d+ have .* when they are read again"


def refused(call, message=CHANGED):
    """Check that a call raises one line."""
    with pytest.raises(ks._errors.InputError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


# dask arrays ---------------------------------------------------------------------------------


class Source:
    """Chunks of a dask array that are others from some pass on."""

    def __init__(self, X, change, after):
        self.X, self.change, self.after = X, change, after
        self.counts = {}

    def chunk(self, start, stop):
        """Return the rows; the same the first few times."""
        count = self.counts[start] = self.counts.get(start, 0) + 1
        rows = self.X[start:stop]
        return rows if count <= self.after or start == 0 else self.change(rows)

    def array(self, step, kind):
        """Return the dask array: its functions are called in every pass."""
        n, d = self.X.shape
        parts = []
        for start in range(0, n, step):
            stop = min(start + step, n)
            chunk = dask.delayed(self.chunk, pure=False)(start, stop)
            parts.append(da.from_delayed(chunk, (stop - start, d), dtype=self.X.dtype))
        array = da.concatenate(parts)
        return array if kind == "dense" else array.map_blocks(sp.csr_matrix, dtype=self.X.dtype)


def one_value(rows):
    """Change the last bit of a single value."""
    rows = rows.copy()
    rows[3, 5] = np.nextafter(rows[3, 5], np.inf)
    return rows


CHANGES = {
    "one value": one_value,
    "two rows exchanged": lambda rows: rows[[1, 0, *range(2, len(rows))]],
    "two columns exchanged": lambda rows: rows[:, [1, 0, *range(2, rows.shape[1])]],
    "other random numbers": lambda rows: np.random.default_rng().random(rows.shape),
}


@pytest.fixture(scope="module")
def dense():
    X, _, _ = make_clusters(0, sizes=(50, 50, 50, 50))
    return X


@pytest.mark.parametrize(
    ("change", "kind", "after"), crossed(list(CHANGES), ["dense", "csr"], [1, 4])
)
def test_chunks_that_differ_between_passes_are_refused(dense, change, kind, after):
    array = Source(dense, CHANGES[change], after).array(50, kind)
    model = KSparse(4, n_features=10, random_state=0)
    with dask.config.set(scheduler="threads", num_workers=2):
        text = refused(lambda: model.fit(array))
    assert "a dask array that is persisted" in text
    model.fit(array.persist())


def test_chunks_of_other_shapes_are_refused(dense):
    for change in (lambda rows: rows[:-1], lambda rows: rows[:, :-1]):
        array = Source(dense, change, 2).array(50, "dense")
        refused(lambda array=array: KSparse(4, n_features=10, random_state=0).fit(array),
                r"A block of X has shape \(\d+, \d+\), which should be \(50, 60\)")  # fmt: skip


def test_changes_are_seen_by_every_view_of_the_data(dense):
    """Some rows, some columns, and rows in memory are read from the same blocks."""
    rows = np.arange(0, 200, 3)
    for use in (
        lambda blocks: as_matrix(SomeRows(blocks, rows)),
        lambda blocks: blocks.pick(np.arange(5)).take(rows),
        lambda blocks: as_matrix(blocks).rows(rows),
        lambda blocks: ks.tl.ksparse(anndata.AnnData(Source(dense, one_value, 9).array(50, "csr")),
                                     4, n_features=10, random_state=0),
    ):  # fmt: skip
        blocks = open_blocks(Source(dense, one_value, 1).array(50, "dense"), None)
        as_matrix(blocks)
        refused(partial(use, blocks))


def test_a_changed_first_block_is_seen():
    counts = itertools.count()
    chunk = dask.delayed(lambda: np.full((50, 3), float(next(counts))), pure=False)()
    blocks = open_blocks(da.from_delayed(chunk, (50, 3), dtype=float), None)
    blocks.first()
    refused(blocks.first)


@pytest.mark.thorough
def test_workers_of_a_cluster_tell_of_changes(dense, tmp_path):
    distributed = pytest.importorskip("distributed")

    def chunk(start):  # a file, for the count is in another process
        file = tmp_path / str(start)
        with file.open("a") as out:
            out.write("x")
        return dense[start : start + 50] + (len(file.read_text()) > 3) * (start == 100)

    parts = [da.from_delayed(dask.delayed(chunk, pure=False)(start), (50, 60), dtype=float)
             for start in range(0, 200, 50)]  # fmt: skip
    options = {"dashboard_address": None, "local_directory": str(tmp_path)}
    with distributed.Client(n_workers=1, threads_per_worker=1, **options):
        refused(lambda: KSparse(4, n_features=10, random_state=0).fit(da.concatenate(parts)),
                "rows 100 to 149 have other values")  # fmt: skip


# Files ---------------------------------------------------------------------------------------


def contiguous(X, folder, kind):
    """Write X without chunks, so that it is known where its bytes are."""
    with h5py.File(folder / "cells.h5ad", "w") as file:
        if kind == "dense":
            file["X"] = X.toarray()
        else:
            group = file.create_group("X")
            group.attrs.update({"encoding-type": "csr_matrix", "shape": X.shape})
            for name in ("data", "indices", "indptr"):
                group[name] = getattr(X, name)
    return h5py.File(folder / "cells.h5ad")["X"]


def fit_and_disturb(monkeypatch, X, disturb, at_pass=3, **options):
    """Fit a matrix in a file, and call `disturb` at the beginning of one of the passes."""
    from ksparse.matrix.stored import StoredBlocks

    results = StoredBlocks.results

    def disturbed(self, *arguments):
        if self.n_passes + 1 == at_pass:
            disturb()
        yield from results(self, *arguments)

    monkeypatch.setattr(StoredBlocks, "results", disturbed)
    KSparse(4, n_features=20, random_state=0, memory_limit=LIMIT, **options).fit(X)


def overwrite(path, place):
    """Change a few bytes of a file in place, as another program would."""
    with path.open("r+b") as file:
        file.seek(place)
        old = file.read(4)
        file.seek(place)
        file.write(bytes([old[0] ^ 1, *old[1:]]))


@pytest.mark.parametrize("part", ["X", "X/data", "X/indices"])
def test_a_file_that_is_overwritten_is_refused(monkeypatch, tmp_path, part):
    X = make(m=600, dtype=np.float64)
    stored = contiguous(X, tmp_path, "dense" if part == "X" else "csr")
    values = stored.file[part]
    # The middle of the values; an index stays in range when its lowest bit changes.
    place = values.id.get_offset() + values.size // 2 * values.dtype.itemsize
    disturb = partial(overwrite, tmp_path / "cells.h5ad", place)
    refused(lambda: fit_and_disturb(monkeypatch, stored, disturb))


def test_rows_that_begin_elsewhere_are_refused(monkeypatch, tmp_path):
    stored = store(make(m=600), tmp_path, "zarr-csr")

    def move():
        pointers = zarr.open(str(tmp_path / "cells.zarr"), mode="r+")["X/indptr"]
        pointers[300] = pointers[300] + 1

    refused(lambda: fit_and_disturb(monkeypatch, stored, move),
            "X changed while it was read: the indptr of")  # fmt: skip


@pytest.mark.parametrize("at_pass", thorough_params([1, 3], [2, 4, 5]))
@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_a_file_that_is_cut_off_is_refused(monkeypatch, tmp_path, kind, at_pass):
    stored = contiguous(make(m=600), tmp_path, kind)
    path = tmp_path / "cells.h5ad"
    values = stored if kind == "dense" else stored["data"]
    length = values.id.get_offset() + values.size * values.dtype.itemsize - 100
    cut = partial(os.truncate, path, length)
    refused(lambda: fit_and_disturb(monkeypatch, stored, cut, at_pass),
            "X changed while it was read|of X cannot be read")  # fmt: skip


def test_a_compressed_file_that_is_cut_off_is_refused(monkeypatch, tmp_path):
    path = tmp_path / "cells.h5ad"
    with h5py.File(path, "w") as file:
        file.create_dataset("X", data=make(m=600).toarray(), compression="gzip", chunks=(50, 200))
    with h5py.File(path, rdcc_nbytes=0) as file:
        refused(lambda: fit_and_disturb(monkeypatch, file["X"], lambda: os.truncate(path, 20_000)),
                r"Rows \d+ to \d+ of X cannot be read .*: the file is damaged, or was")  # fmt: skip


@pytest.mark.parametrize("kind", ["zarr-csr", "zarr-dense"])
def test_zarr_chunks_that_vanish_are_refused(monkeypatch, tmp_path, kind):
    """They are zeros for zarr."""
    stored = store(make(m=600), tmp_path, kind)
    folder = tmp_path / "cells.zarr" / "X" / ("data" if kind == "zarr-csr" else "")

    def remove():
        for file in folder.rglob("*"):
            if file.is_file() and re.fullmatch(r"[0-9.]+", file.name):
                file.unlink()

    refused(lambda: fit_and_disturb(monkeypatch, stored, remove))


def test_a_file_that_is_replaced_is_read_on(monkeypatch, tmp_path):
    """What is opened stays open: a new file under the same name changes nothing."""
    stored = store(make(m=600), tmp_path, "h5ad-csr")
    path, new = tmp_path / "cells.h5ad", tmp_path / "new.h5ad"
    new.write_bytes(b"short")
    fit_and_disturb(monkeypatch, stored, lambda: new.replace(path))
    assert path.read_bytes() == b"short"


@pytest.fixture
def replaced(tmp_path):
    """A matrix in a file, and a function that puts another file in its place."""
    stored = contiguous(make(m=600, dtype=np.float64), tmp_path, "csr")
    path, new = tmp_path / "cells.h5ad", tmp_path / "new.h5ad"
    shutil.copy(path, new)
    overwrite(new, stored["data"].id.get_offset())
    return stored, partial(new.replace, path)


def test_blocks_that_are_opened_again_are_compared(replaced):
    stored, replace = replaced
    blocks = open_blocks(stored, LIMIT)
    as_matrix(blocks)
    as_matrix(pickle.loads(pickle.dumps(blocks)))
    replace()
    refused(lambda: as_matrix(pickle.loads(pickle.dumps(blocks))))


@pytest.mark.thorough
def test_processes_that_open_a_changed_file_refuse_it(monkeypatch, replaced):
    """They compare with what the first process has read."""
    from ksparse.selection import stability

    stored, replace = replaced
    run_all = stability.run_all

    def disturbed(*arguments):
        replace()
        return run_all(*arguments)

    monkeypatch.setattr(stability, "run_all", disturbed)
    refused(lambda: ks.stability_selection(stored, 4, n_features=20, n_subsamples=2, n_jobs=2,
                                           memory_limit=LIMIT, random_state=0))  # fmt: skip


def test_a_checkpointed_run_with_changed_data_is_refused(tmp_path):
    stored = contiguous(make(m=600, dtype=np.float64), tmp_path, "csr")
    model = KSparse(4, n_features=20, init="spectral", random_state=0, memory_limit=LIMIT,
                    checkpoint=tmp_path / "steps")  # fmt: skip
    model.fit(stored)
    model.fit(stored)
    place = stored["data"].id.get_offset()
    stored.file.close()
    overwrite(tmp_path / "cells.h5ad", place)
    with h5py.File(tmp_path / "cells.h5ad") as file:
        refused(lambda: model.fit(file["X"]), "checkpoint")


@pytest.mark.parametrize("disturb", ["cut off", "overwritten", "a new file"])
def test_the_command_line_refuses_a_file_that_changes(monkeypatch, tmp_path, capsys, disturb):
    from ksparse.cli import main

    path = tmp_path / "cells.h5ad"
    store(make(m=200), tmp_path, "h5ad-dense").file.close()
    read = anndata.read_h5ad

    def disturbed(file):
        adata = read(file)
        if disturb == "cut off":
            os.truncate(path, path.stat().st_size - 10)
        elif disturb == "overwritten":
            overwrite(path, 5000)
        else:
            (tmp_path / "new").write_bytes(b"short")
            (tmp_path / "new").replace(path)
        return adata

    monkeypatch.setattr(anndata, "read_h5ad", disturbed)
    assert main(["run", str(path), "-k", "3", "--no-check", "-o", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"ksparse: {path} changed while it was read: wait until it is written, and start again."
    )
    assert not (tmp_path / "out").exists()


# Data that stay the same ---------------------------------------------------------------------


def unsorted(rows):
    """CSR with unsorted indices, and an entry in two parts."""
    rows = sp.coo_matrix(rows)
    order = np.random.default_rng(0).permutation(rows.nnz)
    data = rows.data[order]
    row, column = rows.row[order], rows.col[order]
    row, column = np.append(row, row[0]), np.append(column, column[0])
    data = np.append(data, data[0] / 2)
    data[0] /= 2
    counts = np.bincount(row, minlength=rows.shape[0])
    by_row = np.argsort(row, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(counts)])
    return sp.csr_matrix((data[by_row], column[by_row], indptr), shape=rows.shape)


KINDS_OF_CHUNKS = {
    "C order": np.ascontiguousarray,
    "Fortran order": np.asfortranarray,
    "every second": lambda rows: np.repeat(rows, 2, axis=1)[:, ::2],
    "CSR": sp.csr_matrix,
    "CSC": sp.csc_matrix,
    "unsorted CSR": unsorted,
}


@pytest.fixture(scope="module")
def labels_of_dense(dense):
    return KSparse(4, n_features=10, init="spectral", random_state=0).fit(dense).labels_


@pytest.mark.parametrize(("kind", "step"), crossed(list(KINDS_OF_CHUNKS), [37, 200]))
def test_data_that_stay_the_same_are_read(dense, labels_of_dense, kind, step):
    array = da.from_array(dense, chunks=(step, 60)).map_blocks(KINDS_OF_CHUNKS[kind], dtype=float)
    model = KSparse(4, n_features=10, init="spectral", random_state=0)
    for n in (1, 2):
        with dask.config.set(scheduler="threads", num_workers=n):
            np.testing.assert_array_equal(model.fit(array).labels_, labels_of_dense)


def test_random_arrays_with_a_seed_are_read():
    array = da.random.default_rng(0).normal(size=(300, 20), chunks=(100, 20))
    KSparse(2, n_features=5, random_state=0).fit(array)


def test_nan_is_refused_as_before(dense):
    dense = dense.copy()
    dense[7, 3] = np.nan
    array = da.from_array(dense, chunks=(50, 60))
    refused(lambda: KSparse(4).fit(array), "NaN")


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "g", "i1", "u2", "i4", "i8", "bool"])
def test_marks_depend_on_values_and_places_alone(dtype):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (1000, 300)).astype(dtype)
    mark = block_mark(X)
    assert block_mark(np.asfortranarray(X)) == mark
    assert block_mark(np.repeat(X, 2, axis=0)[::2]) == mark
    for i, j in rng.integers(0, (1000, 300), (20, 2)):
        changed = X.copy()
        changed[i, j] = not changed[i, j]
        assert block_mark(changed) != mark
        assert block_mark(changed).n_stored == mark.n_stored
    assert block_mark(X[::-1]) != mark
    assert block_mark(X[:, ::-1]) != mark


def test_marks_of_sparse_blocks_see_places():
    X = sp.random(200, 50, 0.1, format="csr", random_state=0)
    mark = block_mark(X)
    assert block_mark(X.copy()) == mark
    moved = X.tolil()
    i, j = (part[0] for part in X.nonzero())
    free = int(np.flatnonzero(X[i].toarray()[0] == 0)[0])
    moved[i, free], moved[i, j] = moved[i, j], 0
    assert block_mark(moved.tocsr()) != mark
    wide = sp.csr_matrix((X.data, X.indices.astype(np.int64), X.indptr.astype(np.int64)), X.shape)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    assert block_mark(wide) == mark
