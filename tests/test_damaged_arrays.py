"""Arrays that would lead compiled code astray: refused in one line, wherever they come in."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import ksparse as ks
from conftest import make_clusters, thorough_params
from ksparse import KSparse, PanelSelector
from ksparse.baselines import PCAKMeans, SparseKMeans
from ksparse.matrix.sources import as_data
from ksparse.normalise import counts_per_million, log_normalise
from ksparse.panel import evaluate_panel, find_gates

X = np.maximum(make_clusters(sizes=(20, 15, 10), n_features=30)[0], 0.0)
GROUPS = np.repeat(["a", "b", "c"], [20, 15, 10])
DAMAGES = {
    "index too large": ("indices", -1, 10**6),
    "index one too large": ("indices", 3, None),
    "negative index": ("indices", 0, -5),
    "negative pointer": ("indptr", 2, -7),
    "pointer too large": ("indptr", 3, 10**6),
    "pointer that decreases": ("indptr", 4, 0),
    "first pointer": ("indptr", 0, 1),
    "last pointer": ("indptr", -1, 10**7),
}
KINDS = {
    "csr_matrix": sp.csr_matrix,
    "csr_array": sp.csr_array,
    "csc_matrix": sp.csc_matrix,
    "csc_array": sp.csc_array,
    "bsr_array": lambda values: sp.bsr_array(values, blocksize=(1, 1)),
}


def damaged(kind, damage):
    name, place, value = DAMAGES[damage]
    data = KINDS[kind](X)
    if value is None:
        value = data.shape[0] if kind.startswith("csc") else data.shape[1]
    getattr(data, name)[place] = value
    return data


@pytest.fixture(scope="module")
def fitted():
    return KSparse(3, n_features=5, random_state=0).fit(X)


USES = {
    "fit": lambda fitted, data: KSparse(3, n_features=5, random_state=0).fit(data),
    "predict": lambda fitted, data: fitted.predict(data),
    "transform": lambda fitted, data: fitted.transform(data),
    "feature_path": lambda fitted, data: ks.feature_path(data, 3, n_features=[5]),
    "choose_k": lambda fitted, data: ks.choose_k(data, [2, 3]),
    "stability_selection": lambda fitted, data: ks.stability_selection(data, 3, 5),
    "log_normalise": lambda fitted, data: log_normalise(data),
    "counts_per_million": lambda fitted, data: counts_per_million(data),
    "PCAKMeans": lambda fitted, data: PCAKMeans(3).fit(data),
    "SparseKMeans": lambda fitted, data: SparseKMeans(3).fit(data),
    "PanelSelector": lambda fitted, data: PanelSelector(5).fit(data, GROUPS),
    "PanelSelector.transform": lambda fitted, data: PanelSelector(5).fit(X, GROUPS).transform(data),
    "evaluate_panel": lambda fitted, data: evaluate_panel(data, GROUPS, [0, 1, 2]),
    "find_gates": lambda fitted, data: find_gates(data, GROUPS),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("kind", thorough_params(["csr_matrix", "csc_array"], [
    "csr_array", "csc_matrix", "bsr_array"]))  # fmt: skip
@pytest.mark.parametrize("use", USES)
def test_indices_out_of_range_are_refused(fitted, use, kind, damage):
    with pytest.raises(ValueError, match="X is damaged: .*(index|pointer)") as error:
        USES[use](fitted, damaged(kind, damage))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("axis", ["row", "col"])
@pytest.mark.parametrize("value", [-1, 10**6])
def test_places_out_of_range_are_refused(axis, value):
    data = sp.coo_array(X)
    getattr(data, axis)[7] = value
    with pytest.raises(ValueError, match=f"an index of the sparse matrix is {value}"):
        KSparse(3, n_features=5, random_state=0).fit(data)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32])
def test_sound_indices_of_any_kind_pass(dtype):
    data = sp.csr_matrix(X)
    data.indices, data.indptr = data.indices.astype(dtype), data.indptr.astype(dtype)
    as_data(data)


def test_indices_must_be_integers_and_as_many_as_values():
    data = sp.csr_matrix(X)
    data.indices = data.indices.astype(float)
    with pytest.raises(ValueError, match="indices are float64, which must be integers"):
        KSparse(3, n_features=5).fit(data)
    data = sp.csr_matrix(X)
    data.data = np.append(data.data, 1.0)
    with pytest.raises(ValueError, match="more values than indices"):
        KSparse(3, n_features=5).fit(data)


@pytest.mark.parametrize("damage", DAMAGES)
def test_layers_of_anndata_are_checked(damage):
    anndata = pytest.importorskip("anndata")
    adata = anndata.AnnData(sp.csr_matrix(X))
    data = damaged("csr_matrix", damage)
    adata.X.indices, adata.X.indptr = data.indices, data.indptr
    for layer, call in ((None, ks.tl.ksparse), (None, ks.tl.path)):
        with pytest.raises(ValueError, match="X is damaged"):
            call(adata, 3, layer=layer, normalize=None)
    with pytest.raises(ValueError, match="X is damaged"):
        KSparse(3, n_features=5).fit(adata)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("place", [0, 2])
def test_chunks_of_dask_are_checked(damage, place):
    da = pytest.importorskip("dask.array")
    from dask import delayed

    parts = [sp.csr_matrix(X[i : i + 15]) for i in range(0, 45, 15)]
    name, entry, value = DAMAGES[damage]
    getattr(parts[place], name)[entry] = X.shape[1] if value is None else value
    chunks = [da.from_delayed(delayed(part, traverse=False), (15, 30), meta=sp.csr_matrix((0, 0)))
              for part in parts]  # fmt: skip
    with pytest.raises(ValueError, match="X is damaged"):
        KSparse(3, n_features=5, random_state=0).fit(da.concatenate(chunks))


def test_masked_values_are_refused():
    masked = np.ma.masked_greater(X, X.max() - 1e-9)
    for call in (KSparse(3, n_features=5).fit, log_normalise, PCAKMeans(3).fit):
        with pytest.raises(ValueError, match="masked array with 1 masked values: remove them"):
            call(masked)
    weight = np.ma.masked_array(np.arange(1.0, 46.0), mask=np.arange(45) == 3)
    with pytest.raises(ValueError, match="sample_weight is a masked array with 1 masked"):
        KSparse(3, n_features=5).fit(X, sample_weight=weight)
    # Nothing is masked here.
    KSparse(3, n_features=5, random_state=0).fit(np.ma.masked_array(X))


@pytest.mark.parametrize("unit", [1e305, 1e-305, 1e61])
def test_weights_that_would_overflow_are_refused(unit):
    weight = np.linspace(1, 2, len(X)) * unit
    with pytest.raises(ValueError, match="largest sample_weight is .* multiply all by one number"):
        KSparse(3, n_features=5).fit(X, sample_weight=weight)


@pytest.mark.parametrize("unit", [1e-50, 1e50])
def test_the_unit_of_weights_does_not_matter(unit):
    weight = np.linspace(1, 2, len(X))
    one, other = (
        KSparse(3, n_features=5, random_state=0).fit(X, sample_weight=w)
        for w in (weight, weight * unit)
    )
    assert np.array_equal(one.labels_, other.labels_)
    assert np.array_equal(one.get_support(), other.get_support())


# Small types of integers ------------------------------------------------------------------

COUNTS = {
    "KSparse": lambda n: KSparse(
        n(3), n_features=n(6), n_components=n(7), n_init=n(3), max_loops=n(9), max_labels=n(2),
        solver_max_iter=n(100), random_state=0,
    ).fit(X).labels_,
    "many clusters": lambda n: KSparse(
        n(25), n_features=n(6), min_cluster_size=n(1), random_state=0,
    ).fit(np.vstack([X, X + 1, X + 2, X + 3])).labels_,
    "feature_path": lambda n: ks.feature_path(
        X, n(3), n_features=[n(4), n(8)], random_state=0).labels,
    "choose_k": lambda n: [*ks.choose_k(
        X, [n(2), n(3)], n_features=n(6), n_references=n(5), n_halvings=n(1), n_subsamples=n(4),
        random_state=0,
    ).choices.items()],
    "stability_selection": lambda n: ks.stability_selection(
        X, n(3), n(6), n_subsamples=n(4), random_state=0).frequencies,
    "scsim": lambda n: ks.simulate.scsim(
        n(100), n(120), n_clusters=n(3), random_state=0).counts.toarray(),
    "simulate_counts": lambda n: ks.simulate.simulate_counts(
        n(100), n(120), n(3), n_markers=n(20), random_state=0).counts.toarray(),
    "PCAKMeans": lambda n: PCAKMeans(n(3), n_init=n(2), random_state=0).fit(X).labels_,
    "SparseKMeans": lambda n: SparseKMeans(
        n(3), wbound=2.0, n_init=n(2), max_iter=n(5), random_state=0).fit(X).labels_,
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*numbers of features")
@pytest.mark.parametrize("dtype", thorough_params([np.int8], [np.uint8, np.int16, np.int64]))
@pytest.mark.parametrize("name", COUNTS)
def test_counts_may_be_small_integers_of_numpy(name, dtype):
    assert np.array_equal(COUNTS[name](dtype), COUNTS[name](int))


@pytest.mark.thorough
def test_more_clusters_than_a_small_integer_holds():
    """124 + 4 components, 124 * 2 and the like are beyond int8."""
    rng = np.random.default_rng(0)
    points = np.repeat(np.arange(125), 2)[:, None] + rng.normal(scale=0.01, size=(250, 12))
    one, other = (
        KSparse(k, n_features=3, init="pca", max_loops=1, random_state=0).fit(points)
        for k in (125, np.int8(125))
    )
    assert np.array_equal(one.labels_, other.labels_)
