"""Data in files: read in blocks, and the same answer as in memory."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

import ksparse as ks
from conftest import crossed, thorough_params
from ksparse import KSparse
from ksparse.matrix import as_matrix
from ksparse.matrix.blocks import BlockMatrix, SomeRows
from ksparse.matrix.opening import memory_bytes, open_blocks
from ksparse.matrix.stored import StoredBlocks

anndata = pytest.importorskip("anndata")
h5py = pytest.importorskip("h5py")
zarr = pytest.importorskip("zarr")

LIMIT = 12 * 2**16  # the smallest blocks
KINDS = ("h5ad-csr", "h5ad-dense", "zarr-csr", "zarr-dense")
pytestmark = [
    pytest.mark.filterwarnings("ignore:Writing zarr v2 data"),
    # What is compared is the same, converged or not.
    pytest.mark.filterwarnings("ignore:Labels and features did not converge"),
]


def make(seed=0, m=2500, d=200, k=4, dtype=np.float32):
    """Log counts of clusters, sparse."""
    cells = ks.simulate.simulate_counts(m, d, k, random_state=seed)
    X = ks.simulate.log_normalise(cells.counts)
    return sp.csr_matrix(X).astype(dtype)


def store(X, folder, kind):
    """Write X, and return it as it is in the file."""
    form, storage = kind.split("-")
    adata = anndata.AnnData(X if storage == "csr" else X.toarray())
    path = folder / f"cells.{form}"
    if form == "h5ad":
        adata.write_h5ad(path)
        return h5py.File(path)["X"]
    adata.write_zarr(path)
    return zarr.open(str(path), mode="r")["X"]


def same(model, reference, tol=1e-5):
    np.testing.assert_array_equal(model.labels_, reference.labels_)
    np.testing.assert_array_equal(model.get_support(), reference.get_support())
    scale = np.abs(reference.weights_).max()
    np.testing.assert_allclose(model.weights_, reference.weights_, atol=tol * scale, rtol=0)
    assert model.weights_.dtype == reference.weights_.dtype


@pytest.mark.parametrize(
    ("kind", "dtype", "seed", "m"),
    thorough_params(
        [
            ("h5ad-csr", np.float32, 0, 1200), ("zarr-dense", np.float64, 1, 1200),
        ],
        [
            ("h5ad-dense", np.float64, 0, 1200), ("zarr-csr", np.float64, 1, 1200),
            ("zarr-dense", np.float32, 0, 1200),
            *(
                (kind, dtype, seed, 2500)
                for kind in KINDS
                for dtype, seed in ((np.float32, 0), (np.float64, 1))
            ),
        ],
    ),
)  # fmt: skip
def test_files_give_the_same_as_memory(tmp_path, kind, dtype, seed, m):
    X = make(seed, m, dtype=dtype)
    reference = KSparse(4, n_features=20, random_state=seed).fit(X)
    stored = store(X, tmp_path, kind)
    assert len(open_blocks(stored, LIMIT).bounds) > 3
    model = KSparse(4, n_features=20, random_state=seed, memory_limit=LIMIT).fit(stored)
    same(model, reference)
    assert reference.n_passes_ is None
    assert model.n_passes_ > 0
    np.testing.assert_array_equal(model.predict(stored), reference.labels_)
    np.testing.assert_allclose(model.project(stored), reference.project(X), atol=1e-4)


@pytest.mark.parametrize("options", thorough_params(
    [{"n_features": "auto"}, {"n_features": 10, "max_labels": 2, "scale": True},
     {"n_features": 12, "center": False}, {"n_features": 5, "selector": "forward"}],
    [{"eta": 200.0}, {"scale": True, "n_features": 15}, {"n_features": 10, "max_labels": 2},
     {"n_features": 10, "init": "spectral+dense"},
     {"n_features": 10, "solver": "fista", "init": "pca"}],
), ids=str)  # fmt: skip
@pytest.mark.parametrize("m", thorough_params([600], [900]))
def test_every_setting_gives_the_same(tmp_path, options, m):
    X = make(m=m)
    stored = store(X, tmp_path, "h5ad-csr")
    common = {"random_state": 0, **options}
    same(KSparse(4, memory_limit=LIMIT, **common).fit(stored), KSparse(4, **common).fit(X))


@pytest.mark.thorough
def test_the_papers_preset_gives_the_same(tmp_path):
    X = make(m=250)
    stored = store(X, tmp_path, "zarr-csr")
    same(KSparse.paper(4, 200.0, random_state=0, memory_limit=LIMIT).fit(stored),
         KSparse.paper(4, 200.0, random_state=0).fit(X))  # fmt: skip


@pytest.mark.parametrize("zero", thorough_params([True], [False]))
@pytest.mark.parametrize("m", thorough_params([500], [900]))
def test_weights_count_as_in_memory(tmp_path, zero, m):
    X = make(m=m)
    weight = np.random.default_rng(0).integers(0 if zero else 1, 4, X.shape[0]).astype(float)
    stored = store(X, tmp_path, "h5ad-csr")
    model = KSparse(4, n_features=12, random_state=0, memory_limit=LIMIT)
    same(model.fit(stored, sample_weight=weight),
         KSparse(4, n_features=12, random_state=0).fit(X, sample_weight=weight))  # fmt: skip


@pytest.mark.parametrize("dtype", thorough_params([np.int32, bool], [np.uint8, np.float16]))
def test_other_numbers_become_float64_as_in_memory(tmp_path, dtype):
    X = (make(m=500).toarray() > 0.5).astype(dtype) * (1 if dtype is bool else 3)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["X"] = X
    stored = h5py.File(tmp_path / "x.h5")["X"]
    model = KSparse(3, n_features=10, random_state=0, memory_limit=LIMIT).fit(stored)
    same(model, KSparse(3, n_features=10, random_state=0).fit(X))
    assert model.weights_.dtype == np.float64


@pytest.mark.parametrize("n_loops", thorough_params([3], [1]))
def test_passes_are_few(tmp_path, n_loops):
    stored = store(make(m=1500), tmp_path, "h5ad-csr")
    options = {"n_features": 20, "init": "spectral", "max_loops": n_loops, "tol": None,
               "random_state": 0, "memory_limit": LIMIT}  # fmt: skip
    model = KSparse(4, selector="l1", **options).fit(stored)
    assert model.n_iter_ == n_loops
    # Moments, norm and singular vectors; each loop sums, projects, and adds to the Gram
    # matrix; the certificate; the last projection.
    assert model.n_passes_ <= 30 + 4 * n_loops
    # The number of features that the clusters need, and the selection of few.
    assert KSparse(4, selector="forward", **options).fit(stored).n_passes_ <= 40 + 4 * n_loops


def test_a_pass_reads_every_row_once_in_order(tmp_path):
    stored = store(make(m=800), tmp_path, "h5ad-dense")

    class Watched:
        dtype, shape, ndim = stored.dtype, stored.shape, 2

        def __init__(self):
            self.asked = []

        def __getitem__(self, rows):
            self.asked.append((rows.start, rows.stop))
            return stored[rows]

    watched = Watched()
    matrix = BlockMatrix(StoredBlocks(watched, stored.shape, LIMIT))
    watched.asked.clear()
    matrix.normal(np.ones((200, 2)))
    assert watched.asked == matrix.X.bounds
    assert matrix.X.bounds[0][0] == 0
    assert matrix.X.bounds[-1][1] == 800
    assert all(a[1] == b[0] for a, b in zip(matrix.X.bounds, matrix.X.bounds[1:], strict=False))


@pytest.mark.parametrize("kind", ["h5ad-csr", "h5ad-dense"])
@pytest.mark.parametrize("limit", [LIMIT, 4 * LIMIT])
def test_blocks_are_as_small_as_asked_for(tmp_path, kind, limit):
    blocks = open_blocks(store(make(m=3000), tmp_path, kind), limit)
    for place, (start, stop) in enumerate(blocks.bounds):
        block = blocks._read(place)
        size = block.data.nbytes + block.indices.nbytes if sp.issparse(block) else block.nbytes
        assert size <= limit / 12 or stop - start == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("center", [True, False])
def test_the_protocol_equals_memory(tmp_path, kind, weighted, center):
    X = make(m=700, dtype=np.float64)
    rng = np.random.default_rng(0)
    weight = rng.random(700) + 0.5 if weighted else None
    blocks = as_matrix(open_blocks(store(X, tmp_path, kind), LIMIT), sample_weight=weight,
                       standardize=True, center=center)  # fmt: skip
    whole = as_matrix(X, sample_weight=weight, standardize=True, center=center)
    W, T = rng.normal(size=(200, 3)), rng.normal(size=(700, 3))
    labels, columns = rng.integers(0, 4, 700), np.array([5, 3, 3, 100])
    np.testing.assert_allclose(blocks.mean, whole.mean, atol=1e-12)
    np.testing.assert_allclose(blocks.variance, whole.variance, atol=1e-12)
    for name, arguments in (
        ("project", (W,)), ("correlate", (T,)), ("normal", (W,)), ("gram", (columns,)),
        ("gram", (columns, np.array([3, 7]))), ("cluster_sums", (labels, 4)),
        ("columns", (columns,)),
    ):  # fmt: skip
        expected = getattr(whole, name)(*arguments)
        np.testing.assert_allclose(getattr(blocks, name)(*arguments), expected, atol=1e-8)
    rows = np.array([650, 3, 3, 20])
    part, same_part = blocks.rows(rows), whole.rows(rows)
    np.testing.assert_allclose(part.project(W), same_part.project(W), atol=1e-10)


def test_some_rows_of_blocks():
    X = make(m=300, dtype=np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        root = zarr.open(store=None, mode="w")
    stored = root.create_array("X", data=X.toarray()) if hasattr(root, "create_array") else None
    if stored is None:
        pytest.skip("this zarr has no create_array")
    rows = np.array([0, 5, 6, 150, 299])
    some = SomeRows(open_blocks(stored, LIMIT), rows)
    assert some.shape == (5, 200)
    np.testing.assert_array_equal(some.take(np.arange(5)), X.toarray()[rows])
    W = np.ones((200, 2))
    np.testing.assert_allclose(as_matrix(some).project(W), as_matrix(X[rows]).project(W))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [[3, 1], [5, 6, 7, 0, 1, 2], [2, 0, 1], [250, 250, 0], [4]])
def test_rows_come_in_the_order_asked_for(tmp_path, kind, rows):
    X = make(m=300)
    found = open_blocks(store(X, tmp_path, kind), LIMIT).take(np.array(rows))
    found = found.toarray() if sp.issparse(found) else found
    np.testing.assert_array_equal(found, X.toarray()[rows])


@pytest.mark.parametrize(
    ("kind", "normalize", "m"),
    thorough_params(
        [("h5ad-dense", None, 500), ("zarr-csr", "log1p", 500)],
        [("h5ad-csr", None, 500), ("h5ad-dense", "log1p", 500), ("zarr-dense", None, 500),
         *((kind, normalize, 900) for kind in KINDS for normalize in (None, "log1p"))],
    ),
)  # fmt: skip
def test_tl_works_on_files(tmp_path, kind, normalize, m):
    cells = ks.simulate.simulate_counts(m, 200, 4, random_state=0)
    counts = sp.csr_matrix(cells.counts).astype(np.float32)
    X = counts if normalize else sp.csr_matrix(ks.simulate.log_normalise(counts))
    whole = anndata.AnnData(X.copy())
    whole.var["some"] = np.arange(200) % 5 > 0
    stored = store(X, tmp_path, kind)
    if kind == "h5ad-csr":
        backed = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    else:
        on_disk = stored if kind.endswith("dense") else anndata.io.sparse_dataset(stored)
        backed = anndata.AnnData(on_disk)
    backed.var["some"] = whole.var["some"].to_numpy()
    for adata in (whole, backed):
        ks.tl.ksparse(adata, 4, n_features=15, normalize=normalize, mask_var="some",
                      random_state=0, memory_limit=LIMIT)  # fmt: skip
        ks.tl.rank_genes(adata)
    assert not isinstance(backed.X, np.ndarray)
    assert not sp.issparse(backed.X)
    assert list(backed.obs["ksparse"]) == list(whole.obs["ksparse"])
    assert list(backed.var["ksparse_selected"]) == list(whole.var["ksparse_selected"])
    for name in ("size", "mean", "fraction"):
        np.testing.assert_allclose(backed.uns["ksparse"]["clusters"][name],
                                   whole.uns["ksparse"]["clusters"][name], rtol=1e-4)  # fmt: skip
    ks.tl.predict(whole, backed, key_added="again")
    assert list(backed.obs["again"]) == list(whole.obs["ksparse"])


@pytest.mark.parametrize("m", thorough_params([150], [400]))
@pytest.mark.thorough
def test_paths_and_stability_work_on_files(tmp_path, m):
    X = make(m=m)
    stored = store(X, tmp_path, "h5ad-csr")
    common = {"random_state": 0, "memory_limit": LIMIT}
    paths = [ks.feature_path(data, 4, n_features=[8, 16], **common) for data in (X, stored)]
    for name in ("eta", "n_features", "silhouette", "explained"):
        np.testing.assert_allclose(paths[1].table[name], paths[0].table[name], rtol=1e-6)
    found = [ks.stability_selection(data, 4, 10, n_subsamples=4, **common) for data in (X, stored)]
    np.testing.assert_array_equal(found[1].selected, found[0].selected)


@pytest.mark.parametrize("kind", thorough_params(["h5ad-csr"], ["h5ad-dense", "zarr-csr"]))
@pytest.mark.thorough
def test_several_processes_open_the_file_themselves(tmp_path, kind):
    stored = store(make(m=300, d=200), tmp_path, kind)
    common = {"random_state": 0, "memory_limit": LIMIT}
    one, two = (
        ks.stability_selection(stored, 3, 10, n_subsamples=4, n_jobs=n, **common) for n in (1, 2)
    )
    np.testing.assert_array_equal(one.frequencies, two.frequencies)
    one, two = (
        ks.choose_k(
            stored, [2, 3], methods=("agreement",), n_features=8, n_halvings=2, n_jobs=n, **common
        )
        for n in (1, 2)
    )
    np.testing.assert_array_equal(one.table, two.table)


def test_a_file_that_other_processes_cannot_open_is_refused_before_any_starts(tmp_path):
    X = make(m=300, d=200).toarray()
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["X"] = X
    with h5py.File(tmp_path / "x.h5", "r+") as file:
        with pytest.raises(ValueError, match=r"open for writing.*backed='r', or give n_jobs=1"):
            ks.stability_selection(file["X"], 3, 10, n_subsamples=2, n_jobs=2, random_state=0)
        ks.stability_selection(file["X"], 3, 10, n_subsamples=2, n_jobs=1, random_state=0)
    with h5py.File("in memory", "w", driver="core", backing_store=False) as file:
        file["X"] = X
        with pytest.raises(ValueError, match=r"not on the disk.*give n_jobs=1"):
            ks.choose_k(
                file["X"], [2, 3], methods=["agreement"], init="graph", n_jobs=2, random_state=0
            )


def test_cells_without_counts_are_told_of(tmp_path):
    counts = sp.csr_matrix(
        ks.simulate.simulate_counts(600, 100, 3, n_markers=10, random_state=0).counts
    )
    counts = sp.vstack([counts, sp.csr_matrix((7, 100))], format="csr").astype(np.float32)
    adata = anndata.AnnData(anndata.io.sparse_dataset(store(counts, tmp_path, "zarr-csr")))
    with pytest.warns(UserWarning, match="7 of 607 samples have no counts"):
        ks.tl.ksparse(adata, 3, n_features=10, normalize="log1p", random_state=0,
                      memory_limit=LIMIT)  # fmt: skip


def test_raw_counts_in_files_are_warned_of(tmp_path):
    counts = sp.csr_matrix(
        ks.simulate.simulate_counts(300, 100, 3, n_markers=10, random_state=0).counts
    )
    adata = anndata.AnnData(anndata.io.sparse_dataset(store(counts.astype(np.float32), tmp_path,
                                                            "h5ad-csr")))  # fmt: skip
    with pytest.warns(UserWarning, match="looks like raw counts"):
        ks.tl.ksparse(adata, 3, n_features=10, random_state=0)


@pytest.fixture(scope="module")
def good():
    return KSparse(3, n_features=5, random_state=0, memory_limit=LIMIT).fit(make(m=900))


@pytest.mark.parametrize(("kind", "value"), crossed(KINDS, [np.nan, np.inf]))
def test_bad_values_are_found_where_they_are(tmp_path, kind, value, good):
    X = make(m=900).tolil()
    X[850, 17] = value
    stored = store(X.tocsr(), tmp_path, kind)
    what = "NaN" if np.isnan(value) else "infinity"
    with pytest.raises(ValueError, match=f"X contains {what} .1 in all, the first in row 850, col"):
        KSparse(3, memory_limit=LIMIT).fit(stored)
    with pytest.raises(ValueError, match="X contains NaN or infinity"):
        good.predict(stored)


def test_bad_values_of_samples_without_weight_are_found_at_once(tmp_path):
    X = make(m=900).toarray()
    X[855, 3] = np.nan
    weight = np.ones(900)
    weight[800:] = 0  # the one with NaN among them
    weight[:10] = 0
    stored = store(sp.csr_matrix(X), tmp_path, "h5ad-dense")
    for data in (X, stored):
        with pytest.raises(ValueError, match="X contains NaN .1 in all, the first in row 855, col"):
            KSparse(3, memory_limit=LIMIT).fit(data, sample_weight=weight)


def test_a_second_fit_forgets_the_names_of_the_first(tmp_path):
    pandas = pytest.importorskip("pandas")
    X = make(m=300)
    names = [f"gene{i}" for i in range(200)]
    model = KSparse(3, n_features=5, random_state=0).fit(
        pandas.DataFrame(X.toarray(), columns=names)
    )
    model.fit(store(X[:, :150], tmp_path, "h5ad-csr"))
    assert not hasattr(model, "feature_names_in_")
    assert len(model.get_feature_names_out()) == 5


def test_counts_are_recognised_wherever_they_are(tmp_path):
    counts = sp.csr_matrix(ks.simulate.simulate_counts(900, 150, 3, random_state=0).counts)
    counts = counts.astype(np.float32)
    shallow = counts[:500].copy()
    shallow.data[:] = 1  # nothing but 0 and 1 in the first blocks
    counts = sp.vstack([shallow, counts[500:]], format="csr")
    whole, stored = anndata.AnnData(counts), store(counts, tmp_path, "h5ad-csr")
    backed = anndata.AnnData(anndata.io.sparse_dataset(stored))
    for adata in (whole, backed):
        ks.tl.ksparse(adata, 3, n_features=10, normalize="auto", random_state=0,
                      memory_limit=LIMIT)  # fmt: skip
        assert adata.uns["ksparse"]["results"]["normalized"] == "log1p"
    assert list(whole.obs["ksparse"]) == list(backed.obs["ksparse"])


@pytest.mark.parametrize("dtype", [np.int32, np.float64])
def test_normalised_values_are_those_of_memory(tmp_path, dtype):
    from ksparse.scverse.expression import read_expression

    counts = sp.csr_matrix(ks.simulate.simulate_counts(300, 150, 3, random_state=0).counts)
    counts = counts.astype(dtype)
    backed = anndata.AnnData(anndata.io.sparse_dataset(store(counts, tmp_path, "zarr-csr")))
    blocks, _ = read_expression(backed, None, "log1p", memory_limit=LIMIT)
    whole, _ = read_expression(anndata.AnnData(counts), None, "log1p")
    assert abs(blocks.take(np.arange(300)) - whole).max() == 0


def damaged(folder, change):
    store(make(m=200), folder, "h5ad-csr").file.close()
    with h5py.File(folder / "cells.h5ad", "r+") as file:
        change(file["X"])
    return h5py.File(folder / "cells.h5ad")["X"]


def _set(name, place, value):
    def change(group):
        group[name][place] = value

    return change


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (_set("indices", 5, 10_000), "a column index is out of range"),
        (_set("indices", 5, -1), "a column index is out of range"),
        (_set("indptr", 3, 10**9), "its indptr is wrong"),
        (_set("indptr", 0, 1), "its indptr is wrong"),
    ],
)
def test_damaged_files_are_refused(tmp_path, change, part):
    with pytest.raises(ValueError, match=part):
        KSparse(3).fit(damaged(tmp_path, change))


def test_what_cannot_be_read_by_rows_is_refused(tmp_path):
    anndata.AnnData(sp.csc_matrix(make(m=100))).write_h5ad(tmp_path / "c.h5ad")
    backed = anndata.read_h5ad(tmp_path / "c.h5ad", backed="r")
    with pytest.raises(ValueError, match="stored by columns .CSC."):
        KSparse(3).fit(backed)
    with pytest.raises(ValueError, match="holds no sparse matrix"):
        KSparse(3).fit(h5py.File(tmp_path / "c.h5ad")["obs"])
    with h5py.File(tmp_path / "t.h5", "w") as file:
        file["cube"], file["text"] = np.zeros((2, 2, 2)), np.array([[b"a", b"b"]])
        file["none"] = np.zeros((0, 5))
    file = h5py.File(tmp_path / "t.h5")
    with pytest.raises(ValueError, match="X has 3 dimensions"):
        KSparse(3).fit(file["cube"])
    with pytest.raises(TypeError, match="must be real numbers"):
        KSparse(3).fit(file["text"])
    with pytest.raises(ValueError, match="X has 0 sample"):
        KSparse(3).fit(file["none"])


@pytest.mark.thorough
def test_every_distinct_sample_is_a_cluster_if_there_are_too_few(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["X"] = np.tile([[1.0, 2.0], [3.0, 4.0]], (5000, 1))
    with pytest.warns(ConvergenceWarning, match="X has 2 distinct samples, fewer than n_clust"):
        model = KSparse(3, memory_limit=LIMIT).fit(h5py.File(tmp_path / "x.h5")["X"])
    np.testing.assert_array_equal(np.bincount(model.labels_), [5000, 5000])


def test_other_features_are_refused(tmp_path):
    model = KSparse(3, n_features=5, random_state=0).fit(make(m=300))
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["X"] = np.zeros((5, 7))
    with pytest.raises(ValueError, match="X has 7 features, but KSparse is expecting 200"):
        model.predict(h5py.File(tmp_path / "x.h5")["X"])


@pytest.mark.parametrize("kind", KINDS)
def test_the_selected_features_of_a_file_are_taken_into_memory(tmp_path, kind, good):
    X = make(m=300)
    chosen = good.transform(store(X, tmp_path, kind))
    chosen = chosen.toarray() if sp.issparse(chosen) else chosen
    np.testing.assert_array_equal(chosen, X[:, good.get_support()].toarray())
    adata = anndata.AnnData(X)
    assert abs(good.transform(adata) - X[:, good.get_support()]).max() == 0


def test_anndata_brings_its_names(tmp_path):
    adata = anndata.AnnData(make(m=300))
    adata.var_names = [f"gene{i}" for i in range(200)]
    model = KSparse(3, n_features=5, random_state=0).fit(adata)
    assert list(model.feature_names_in_) == list(adata.var_names)
    np.testing.assert_array_equal(model.predict(adata), model.labels_)
    with pytest.raises(ValueError, match="not those that were fitted"):
        model.predict(adata[:, ::-1].copy())
    adata.var_names = ["same"] * 200
    with pytest.raises(ValueError, match="199 repeated feature names"):
        KSparse(3).fit(adata)


@pytest.mark.parametrize(
    ("text", "value"),
    [("2GB", 2 * 10**9), ("1.5 GiB", 3 * 2**29), ("64kb", 64_000), (5e8, 5 * 10**8), (None, 2**30),
     ("1000000", 10**6), ("1e6", 10**6)],
)  # fmt: skip
def test_limits_can_be_written_in_several_ways(text, value):
    assert memory_bytes(text) == value


@pytest.mark.parametrize("text", ["much", "-1GB", 0, -5, np.nan, "1..5GB", "2 parsecs", True])
def test_other_limits_are_refused(tmp_path, text):
    with pytest.raises(ValueError, match="memory_limit=.* must be a number of bytes"):
        memory_bytes(text)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["X"] = np.zeros((5, 7))
    with pytest.raises(ValueError, match="memory_limit"):
        KSparse(3, memory_limit=text).fit(h5py.File(tmp_path / "x.h5")["X"])
