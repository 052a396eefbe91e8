"""dask arrays: the same answer as in memory, on any scheduler, with workers that die."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest
import scipy.sparse as sp

import ksparse as ks
from conftest import thorough_params
from ksparse import KSparse
from test_blocks import make, same

da = pytest.importorskip("dask.array")
dask = pytest.importorskip("dask")


def chunked(X, sizes, kind):
    """A dask array whose chunks are dense or CSR."""
    array = da.from_array(X.toarray(), chunks=(sizes, X.shape[1]))
    return array if kind == "dense" else array.map_blocks(sp.csr_matrix, dtype=X.dtype)


@pytest.mark.parametrize(
    ("kind", "dtype", "seed", "m", "chunks"),
    thorough_params(
        [
            ("dense", np.float32, 0, 600, [(1, 250, 349)]),
            ("csr", np.float64, 1, 600, [175]),
        ],
        [
            ("dense", np.float32, 0, 1200, [350, (1, 500, 699)]),
            ("csr", np.float64, 1, 1200, [350, (1, 500, 699)]),
            *(
                (kind, dtype, seed, 2500, [700, (1, 1000, 1499)])
                for kind in ("dense", "csr")
                for dtype, seed in ((np.float32, 0), (np.float64, 1))
            ),
        ],
    ),
)
def test_threads_give_the_same_as_memory(kind, dtype, seed, m, chunks):
    X = make(seed, m, dtype=dtype)
    reference = KSparse(4, n_features=20, random_state=seed).fit(X)
    for sizes in chunks:
        array = chunked(X, sizes, kind)
        model = KSparse(4, n_features=20, random_state=seed).fit(array)
        same(model, reference)
        assert model.n_passes_ > 0
    np.testing.assert_array_equal(model.predict(array), reference.labels_)


@pytest.mark.parametrize("kind", thorough_params(["csr"], ["dense"]))
def test_data_that_are_not_centred_give_the_same_as_memory(kind):
    X = make(m=600)
    given = {"n_features": 12, "init": "spectral", "center": False, "random_state": 0}
    model = KSparse(4, **given).fit(chunked(X, 250, kind))
    same(model, KSparse(4, **given).fit(X))
    assert not model.mean_.any()


@pytest.mark.parametrize("m", thorough_params([500], [1000, 1500]))
def test_the_number_of_threads_does_not_matter(m):
    X = chunked(make(m=m), 200, "csr")
    fits = []
    for n in (1, 2):
        with dask.config.set(scheduler="threads", num_workers=n):
            fits.append(KSparse(4, n_features=20, random_state=0).fit(X))
    np.testing.assert_array_equal(fits[0].weights_, fits[1].weights_)
    np.testing.assert_array_equal(fits[0].labels_, fits[1].labels_)


@pytest.mark.parametrize("m", thorough_params([500], [800]))
def test_weights_and_anndata(m):
    anndata = pytest.importorskip("anndata")
    X = make(m=m)
    weight = np.random.default_rng(0).integers(0, 3, m).astype(float)
    common = {"n_features": 12, "random_state": 0}
    same(KSparse(4, **common).fit(chunked(X, 150, "csr"), sample_weight=weight),
         KSparse(4, **common).fit(X, sample_weight=weight))  # fmt: skip
    whole, lazy = anndata.AnnData(X), anndata.AnnData(chunked(X, 150, "csr"))
    for adata in (whole, lazy):
        ks.tl.ksparse(adata, 4, **common)
    assert list(whole.obs["ksparse"]) == list(lazy.obs["ksparse"])
    assert isinstance(lazy.X, da.Array)


@pytest.mark.parametrize("kind", thorough_params(["dense"], ["csr"]))
def test_views_of_anndata_stay_lazy(kind):
    anndata = pytest.importorskip("anndata")
    X = make(m=600)
    view = anndata.AnnData(chunked(X, 150, kind))[50:550]
    model = KSparse(4, n_features=12, random_state=0).fit(view)
    assert model.n_passes_ > 0
    same(model, KSparse(4, n_features=12, random_state=0).fit(X[50:550]))


def test_chunks_along_features_are_put_together_with_a_word():
    X = make(m=500)
    array = da.from_array(X.toarray(), chunks=(200, 70))
    with pytest.warns(UserWarning, match="X has 3 chunks along its features, which are put tog"):
        model = KSparse(4, n_features=10, random_state=0).fit(array)
    same(model, KSparse(4, n_features=10, random_state=0).fit(X))


def test_chunks_of_unknown_size_are_refused():
    array = da.from_array(make(m=300).toarray(), chunks=(100, 200))
    with pytest.raises(ValueError, match="unknown sizes: call X.compute_chunk_sizes.. first"):
        KSparse(3).fit(array[array[:, 0] >= 0])


def test_mixed_chunks_are_worked_on_with_a_word():
    X = make(m=400)

    def every_other(block, block_id=None):
        return sp.csr_matrix(block) if block_id[0] % 2 else block

    array = da.from_array(X.toarray(), chunks=(100, 200)).map_blocks(every_other, dtype=X.dtype)
    with pytest.warns(UserWarning, match="Some chunks of X are sparse and some are dense"):
        model = KSparse(4, n_features=10, random_state=0).fit(array)
    same(model, KSparse(4, n_features=10, random_state=0).fit(X))


def test_bad_values_and_shapes():
    X = make(m=300).toarray()
    X[250, 3] = np.nan
    with pytest.raises(ValueError, match="NaN .1 in all, the first in row 250, column 3"):
        KSparse(3).fit(da.from_array(X, chunks=(100, 200)))
    with pytest.raises(ValueError, match="X has 1 dimensions"):
        KSparse(3).fit(da.zeros(5))


@pytest.fixture(scope="module")
def cluster():
    distributed = pytest.importorskip("distributed")
    with (
        dask.config.set({"distributed.worker.daemon": False}),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True,
                                 dashboard_address=None) as made,
        distributed.Client(made) as client,
    ):  # fmt: skip
        yield client


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("kind", "dtype", "seed", "m"),
    thorough_params(
        [("csr", np.float32, 1, 600)],
        [("dense", np.float64, 0, 1500), ("csr", np.float32, 1, 1500)],
    ),
)
def test_a_cluster_gives_the_same_as_memory(cluster, kind, dtype, seed, m):
    X = make(seed, m, dtype=dtype)
    reference = KSparse(4, n_features=20, random_state=seed).fit(X)
    same(KSparse(4, n_features=20, random_state=seed).fit(chunked(X, 300, kind)), reference)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("m", thorough_params([900], [1500]))
@pytest.mark.thorough
def test_a_worker_that_is_killed_changes_nothing(cluster, m):
    X = make(0, m=m)
    reference = KSparse(4, n_features=20, random_state=0).fit(X)
    pids = list(cluster.run(os.getpid).values())
    killed = threading.Event()

    def kill():
        time.sleep(1.0)
        os.kill(pids[0], signal.SIGKILL)
        killed.set()

    def slowly(block):
        time.sleep(0.02)  # so that there is a middle in which to die
        return sp.csr_matrix(block)

    array = da.from_array(X.toarray(), chunks=(300, 200)).map_blocks(slowly, dtype=X.dtype)
    thread = threading.Thread(target=kill)
    thread.start()
    model = KSparse(4, n_features=20, random_state=0).fit(array)
    assert killed.is_set()  # before the fit was over
    thread.join()
    same(model, reference)
    assert pids[0] not in cluster.run(os.getpid).values()
