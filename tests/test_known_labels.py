"""Some labels are known: these samples keep them, and the others are clustered around them."""

from __future__ import annotations

import csv
import json

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import ksparse as ks
from conftest import make_clusters, seeds, thorough_params
from ksparse import KSparse
from ksparse._labels import missing_labels, read_labels
from ksparse.cli import main
from ksparse.core.known import anchor, assign_around
from ksparse.core.y_step import fill_empty, nearest_labels
from ksparse.metrics import adjusted_rand_score
from ksparse.panel import PanelSelector
from ksparse.report import write_report
from ksparse.scverse.labels import clusters_of
from ksparse.scverse.schema import read_record

X, TRUTH, MARKERS = make_clusters(0, sizes=(40, 30, 20, 15))
NAMES = np.array(["B cell", "T cell", "NK cell", "rare"], dtype=object)
FIT = {"n_features": 20, "random_state": 0}
QUICK = {**FIT, "init": "spectral", "selector": "l1"}


def some_known(truth, n_each, classes, names=NAMES, seed=0):
    """Labels of `n_each` random samples of some classes; None for all others."""
    rng = np.random.default_rng(seed)
    out = np.full(truth.size, None)
    for c in classes:
        out[rng.choice(np.flatnonzero(truth == c), n_each, replace=False)] = names[c]
    return out


def is_given(known):
    return ~missing_labels(read_labels(known))


def check_kept(model, known):
    """Every known sample is in the cluster of its class, and every class has one cluster."""
    given = is_given(known)
    assert model.known_classes_[model.labels_[given]].tolist() == np.asarray(known)[given].tolist()
    classes = [one for one in model.known_classes_ if one is not None]
    assert sorted(classes) == sorted(set(np.asarray(known)[given].tolist()))
    assert model.known_classes_.dtype == object
    sizes = np.bincount(model.labels_, minlength=len(model.centroids_))
    assert (sizes > 0).all()
    assert (np.diff(sizes) <= 0).all()


# What is found ------------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [(0, 1, 2, 3), (0, 2), (3,)])
def test_unknown_samples_join_their_class_and_new_clusters_are_found(classes):
    known = some_known(TRUTH, 3, classes)
    model = KSparse(4, **FIT).fit(X, known_labels=known)
    check_kept(model, known)
    assert adjusted_rand_score(TRUTH, model.labels_) == 1
    names = np.where(np.isin(np.arange(4), classes), NAMES, None)
    assert model.known_classes_.tolist() == names.tolist()  # classes 0 to 3 are of decreasing size
    assert (model.get_support() & MARKERS).sum() == 20
    np.testing.assert_array_equal(model.predict(X), model.labels_)


@pytest.mark.parametrize(
    "kind",
    thorough_params(
        [sp.csr_matrix, sp.csc_array, lambda X: X.astype(np.float32), pd.DataFrame],
        [sp.csr_array, sp.csc_matrix, np.asfortranarray],
    ),
)
def test_every_kind_of_data_gives_the_same(kind):
    known = some_known(TRUTH, 4, (0, 3))
    known[np.flatnonzero(TRUTH == 1)[:2]] = "rare"  # which contradicts the data
    data = kind(X)
    if isinstance(data, pd.DataFrame):
        data.columns = [f"gene {i}" for i in range(X.shape[1])]
    model, expected = (KSparse(4, **QUICK).fit(one, known_labels=known) for one in (data, X))
    check_kept(model, known)
    np.testing.assert_array_equal(model.labels_, expected.labels_)
    np.testing.assert_allclose(model.weights_, expected.weights_, atol=1e-4)


def test_chunks_of_dask_and_cells_in_a_file_give_the_same(tmp_path):
    da = pytest.importorskip("dask.array")
    anndata = pytest.importorskip("anndata")
    known = some_known(TRUTH, 4, (0, 3))
    expected = KSparse(4, **QUICK).fit(X, known_labels=known)
    anndata.AnnData(X).write_h5ad(tmp_path / "cells.h5ad")
    backed = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    for data in (da.from_array(X, chunks=(50, 60)), backed):
        model = KSparse(4, **QUICK).fit(data, known_labels=known)
        check_kept(model, known)
        np.testing.assert_array_equal(model.labels_, expected.labels_)
    backed.file.close()


@pytest.mark.parametrize("seed", seeds(1, 4))
def test_weight_2_is_the_same_as_a_sample_given_twice(seed):
    data, truth, _ = make_clusters(seed, shift=1.5)
    rng = np.random.default_rng(seed)
    weight = rng.integers(1, 4, truth.size)
    known, start = some_known(truth, 3, (0, 2), seed=seed), rng.permutation(truth)
    often = np.repeat(np.arange(truth.size), weight)
    options = {"n_features": 10, "selector": "l1", "random_state": 0}
    one = KSparse(3, init=start, **options).fit(data, sample_weight=weight, known_labels=known)
    other = KSparse(3, init=start[often], **options).fit(data[often], known_labels=known[often])
    check_kept(other, known[often])
    np.testing.assert_array_equal(one.labels_[often], other.labels_)
    assert one.known_classes_.tolist() == other.known_classes_.tolist()
    np.testing.assert_allclose(one.weights_, other.weights_, atol=1e-5)


def test_samples_without_weight_keep_their_label():
    known = some_known(TRUTH, 5, (0, 1))
    weight = np.ones(TRUTH.size)
    first = np.flatnonzero(known == "B cell")[0]
    strange = np.flatnonzero(TRUTH == 2)[0]
    known[strange] = "B cell"
    weight[[first, strange]] = 0
    model = KSparse(4, **QUICK).fit(X, sample_weight=weight, known_labels=known)
    assert model.known_classes_[model.labels_[[first, strange]]].tolist() == ["B cell"] * 2
    assert adjusted_rand_score(np.delete(TRUTH, strange), np.delete(model.labels_, strange)) == 1


def test_the_names_of_classes_do_not_matter():
    data, truth, _ = make_clusters(1, sizes=(40, 30, 20, 15), shift=1.5)
    known = some_known(truth, 4, (0, 1, 3))
    other = some_known(truth, 4, (0, 1, 3), names=np.array([7, -1, 5, 0], dtype=object))
    one, two = (KSparse(4, **QUICK).fit(data, known_labels=labels) for labels in (known, other))
    np.testing.assert_array_equal(one.labels_, two.labels_)
    np.testing.assert_array_equal(one.weights_, two.weights_)
    renamed = dict(zip(NAMES, [7, -1, 5, 0], strict=True))
    assert [renamed.get(name) for name in one.known_classes_] == two.known_classes_.tolist()


def test_the_numbers_of_a_given_start_do_not_matter():
    known = some_known(TRUTH, 3, (0, 1, 2))
    for order in ([0, 1, 2, 3], [3, 2, 0, 1]):
        model = KSparse(4, init=np.array(order)[TRUTH], **FIT).fit(X, known_labels=known)
        check_kept(model, known)
        assert adjusted_rand_score(TRUTH, model.labels_) == 1


@pytest.mark.parametrize("seed", thorough_params([3, 4], [0, 5]))
def test_a_rare_class_with_3_known_samples_survives(seed):
    """Starts have it in one of the large clusters, which is not the cluster of its class."""
    data, truth, _ = make_clusters(seed, sizes=(80, 60, 40, 6), n_features=80, shift=3)
    known = some_known(truth, 3, (3,))
    model = KSparse(4, **FIT).fit(data, known_labels=known)
    check_kept(model, known)
    rare = model.labels_ == model.known_classes_.tolist().index("rare")
    assert (rare == (truth == 3)).all()


@pytest.mark.parametrize("n_features", [20, 3, "auto"])
@pytest.mark.parametrize("selector", thorough_params(["auto"], ["l1", "forward"]))
def test_a_known_label_that_contradicts_the_data_stays(n_features, selector):
    known = some_known(TRUTH, 4, (0, 1))
    wrong = np.flatnonzero(TRUTH == 0)[-2:]
    known[wrong] = "T cell"
    options = {"n_features": n_features, "selector": selector, "random_state": 0}
    model = KSparse(4, **options).fit(X, known_labels=known)
    check_kept(model, known)
    rest = np.delete(np.arange(TRUTH.size), wrong)
    if n_features == 20:
        assert adjusted_rand_score(TRUTH[rest], model.labels_[rest]) == 1
    # The centroids place new samples: what contradicts them is predicted otherwise.
    assert set(np.flatnonzero(model.predict(X) != model.labels_)) <= set(np.flatnonzero(
        is_given(known)))  # fmt: skip
    assert not (model.predict(X[wrong]) == model.labels_[wrong]).any()


def test_all_labels_may_be_known():
    known = NAMES[TRUTH]
    model = KSparse(4, **FIT).fit(X, known_labels=known)
    check_kept(model, known)
    assert (model.known_classes_[model.labels_] == known).all()
    one = KSparse(1).fit(X, known_labels=["all"] * TRUTH.size)
    assert one.known_classes_.tolist() == ["all"]


def test_with_the_settings_of_the_paper_the_cost_never_rises():
    data, truth, _ = make_clusters(2, shift=1.5)
    known = some_known(truth, 5, (0, 1))
    model = KSparse.paper(3, eta=20.0, random_state=0).fit(data, known_labels=known)
    check_kept(model, known)
    assert (np.diff(model.cost_history_) <= 1e-9 * model.cost_history_[0]).all()


def test_several_labels_include_the_known_one():
    known = some_known(TRUTH, 4, (0, 1))
    known[np.flatnonzero(TRUTH == 2)[0]] = "B cell"
    model = KSparse(4, max_labels=2, **QUICK).fit(X, known_labels=known)
    check_kept(model, known)
    assert (model.memberships_[np.arange(TRUTH.size), model.labels_] == 1).all()


def test_few_labels_help_where_the_signal_is_weak():
    """On average over seeds, samples without label are placed no worse than without labels."""
    gain = []
    for seed in range(8):
        data, truth, _ = make_clusters(seed, sizes=(50, 40, 30, 20), shift=1.2)
        known = some_known(truth, 5, range(4), seed=seed)
        free = ~is_given(known)
        one, other = (
            KSparse(4, **QUICK).fit(data, known_labels=labels) for labels in (known, None)
        )
        check_kept(one, known)
        scores = [adjusted_rand_score(truth[free], model.labels_[free]) for model in (one, other)]
        gain.append(scores[0] - scores[1])
    assert np.mean(gain) > 0


# What is given ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind",
    [
        list,
        pd.Series,
        pd.Categorical,
        lambda known: pd.Series(known, dtype="string"),
        lambda known: [np.nan if one is None else one for one in known],
        lambda known: known[:, None],
        lambda known: np.ma.masked_array(
            [one or "hidden" for one in known], [one is None for one in known]
        ),
    ],
)
def test_labels_are_given_in_any_kind(kind):
    known = some_known(TRUTH, 3, (0, 1))
    model = KSparse(4, **QUICK).fit(X, known_labels=kind(known))
    assert model.known_classes_.tolist() == ["B cell", "T cell", None, None]
    check_kept(model, known)


@pytest.mark.parametrize(
    ("known", "classes"),
    [
        (pd.Series([2, None, 5], dtype="Int64"), {2, 5, None}),
        (np.array([2, np.nan, 5]), {2, 5, None}),
        ([True, None, False], {True, False, None}),
        (["a", None, 3], {"a", 3, None}),
        (np.array(["a", "b", "a"]), {"a", "b"}),
        ([-1, 0, None], {-1, 0, None}),
    ],
)
def test_numbers_and_mixed_labels_are_classes(known, classes):
    data = np.repeat(5 * np.eye(3), 5, axis=0) + np.random.default_rng(0).normal(size=(15, 3))
    values = read_labels(known)
    many = np.concatenate([values.astype(object), np.full(12, None)])
    n_clusters = len(classes)
    model = KSparse(n_clusters, n_features=2, init="spectral", random_state=0)
    model.fit(data[:, :], known_labels=many)
    assert set(model.known_classes_) == classes


def test_labels_are_kept_by_every_way_to_fit():
    known = some_known(TRUTH, 3, (0, 1))
    model = KSparse(4, **QUICK).fit(X, known_labels=known)
    other = KSparse(4, **QUICK)
    np.testing.assert_array_equal(other.fit_predict(X, known_labels=known), model.labels_)
    P = other.fit_project(X, known_labels=known)
    np.testing.assert_array_equal(P, model.project(X))
    assert not hasattr(other.fit(X), "known_classes_")  # of the fit before


def test_without_known_labels_nothing_is_different(monkeypatch):
    def never(*arguments, **options):
        raise AssertionError("there are no known labels")

    for name in ("ksparse.search.fit.anchor", "ksparse.core.alternation.assign_around",
                 "ksparse.search.known.with_known"):  # fmt: skip
        monkeypatch.setattr(name, never)
    one, other = KSparse(4, **FIT).fit(X, known_labels=None), KSparse(4, **FIT).fit(X)
    np.testing.assert_array_equal(one.weights_, other.weights_)
    assert not hasattr(one, "known_classes_")


HALF = [None] * (TRUTH.size - 2)


@pytest.mark.parametrize(
    ("known", "n_clusters", "text"),
    [
        (["a"] * 3, 2, r"known_labels has shape \(3,\), but X has 105 samples: give one label per"),
        ("a", 2, r"known_labels has shape \(\), but X has 105 samples"),
        ([[1, 2]] * 105, 2, r"known_labels has shape \(105, 2\)"),
        ([None, np.nan, pd.NA] * 35, 2, "has labels for 0 of 105 samples: label at least 1"),
        (list(range(3)) + [None] * 102, 2, "known_labels has 3 classes, more than n_clusters=2: "
         "ask for more clusters"),
        (["a", "b", "c"] * 35, 4, "n_clusters=4 is 1 more than the 3 classes of known_labels, but "
         "0 samples have no known label: ask for at most 3 clusters, or leave labels out"),
        ([None] + ["a", "b"] * 52, 4, "n_clusters=4 is 2 more than the 2 classes of known_labels, "
         "but 1 samples have no known label: ask for at most 3 clusters"),
        ([{"a"}, {"b"}, *HALF], 3, "known_labels holds labels that are no names or numbers"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_in_one_sentence(known, n_clusters, text):
    model = KSparse(n_clusters, **QUICK)
    with pytest.raises(ValueError, match=text) as caught:
        model.fit(X, known_labels=known)
    assert "\n" not in str(caught.value)
    assert not hasattr(model, "labels_")


def test_fewer_distinct_samples_than_clusters_are_refused():
    data = np.repeat(np.eye(3), 5, axis=0)
    known = ["a"] + [None] * 14
    with pytest.raises(ValueError, match="X has 3 distinct samples, fewer than n_clusters=4"):
        KSparse(4, n_features=2).fit(data, known_labels=known)
    known = ["a"] * 5 + ["b"] * 5 + [None] * 5
    with pytest.raises(ValueError, match="n_clusters=4 is 2 more than the 2 classes .* but 1 "
                       "distinct samples have no known label"):  # fmt: skip
        KSparse(4, n_features=2).fit(data + 1e-3 * np.eye(15, 3), known_labels=known)


def test_a_class_of_samples_without_weight_is_refused():
    known = some_known(TRUTH, 3, (0, 1))
    with pytest.raises(ValueError, match="1 of 2 classes of known_labels are known only for samples"
                       " without sample_weight: 'T cell'. Give one"):  # fmt: skip
        KSparse(4, **QUICK).fit(X, sample_weight=known != "T cell", known_labels=known)


def test_panels_read_missing_labels_in_lists_of_text():
    """numpy makes the text "nan" of NaN among text; that was taken for a class."""
    labels = [NAMES[c] if c < 3 else np.nan for c in TRUTH]
    panel = PanelSelector(5).fit(X, labels)
    assert panel.classes_.tolist() == ["B cell", "NK cell", "T cell"]


# The steps ----------------------------------------------------------------------------------


def test_known_samples_are_never_moved_to_an_empty_cluster():
    P = np.array([[0.0], [1.0], [2.0], [9.0]])
    known = np.array([0, -1, -1, 0])
    assert fill_empty(P, np.zeros(4, dtype=np.intp), 2).tolist() == [0, 0, 0, 1]
    assert fill_empty(P, np.zeros(4, dtype=np.intp), 2, known).tolist() == [0, 1, 0, 0]
    assert nearest_labels(P, np.array([[1.0], [9.0]]), known).tolist() == [0, 1, 0, 0]


def test_k_means_goes_on_around_known_samples():
    P = np.array([[0.0], [1.0], [10.0], [11.0], [20.0], [21.0]])
    known = np.array([0, -1, -1, -1, -1, 0])
    found = assign_around(P, np.array([0, 1, 1, 1, 1, 0]), known, 2)
    assert found.labels[[0, 5]].tolist() == [0, 0]
    np.testing.assert_allclose(found.centroids[0], P[found.labels == 0].mean(axis=0))
    again = assign_around(P, found.labels, known, 2)
    np.testing.assert_array_equal(again.labels, found.labels)


def test_starts_are_anchored():
    P = np.repeat(10.0 * np.eye(3), 4, axis=0) + np.arange(12)[:, None] / 100
    truth = np.repeat([0, 1, 2], 4)
    known = np.full(12, -1)
    known[[4, 8]] = 0, 1
    expected = np.array([2, 0, 1])[truth]
    np.testing.assert_array_equal(anchor(P, truth, known, 3), expected)
    # Two classes in one cluster of the start, and a cluster cut in two:
    merged = np.array([0, 0, 1, 1] + [2] * 8)
    np.testing.assert_array_equal(anchor(P, merged, known, 3), expected)
    np.testing.assert_array_equal(anchor(P, merged, known, 3, np.full(12, 2.0)), expected)
    # A class at the edge of a cluster of others is not that cluster:
    P[[8, 9, 10, 11], 0] += 20.0
    known[[8, 9]] = 1
    rare = np.array([0, 0, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1])
    P = np.vstack([P, np.repeat(P[4:5], 20, axis=0) + np.arange(20)[:, None] / 100])
    known, rare = (np.concatenate([a, [b] * 20]) for a, b in ((known, -1), (rare, 1)))
    found = anchor(P, rare, known, 3)
    np.testing.assert_array_equal(found[:12], expected)
    assert (found[12:] == 0).all()


# Files --------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", [NAMES, np.array([3, 1, 2.5, True], dtype=object)])
def test_saved_models_keep_the_classes(tmp_path, names):
    known = some_known(TRUTH, 3, (0, 1, 3) if names is NAMES else (0, 2), names=names)
    model = KSparse(4, **QUICK).fit(X, known_labels=known)
    model.save(tmp_path / "model.ksparse")
    loaded = ks.load(tmp_path / "model.ksparse")
    assert loaded.known_classes_.dtype == object
    assert loaded.known_classes_.tolist() == model.known_classes_.tolist()
    assert list(map(type, loaded.known_classes_)) == list(map(type, model.known_classes_))
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


@pytest.mark.parametrize(
    "classes", [["a", "a", None, None], ["a"], [["b"], {}, None, None], "abcd"]
)
def test_damaged_classes_are_refused(tmp_path, classes):
    model = KSparse(4, **QUICK).fit(X, known_labels=some_known(TRUTH, 3, (0,)))
    model.known_classes_ = np.array(classes, dtype=object) if len(classes) == 1 else classes
    if isinstance(classes, list) and len(classes) == 4:
        model.known_classes_ = np.empty(4, dtype=object)
        model.known_classes_[:] = classes
    try:
        model.save(tmp_path / "model.ksparse")
    except ValueError as error:
        assert "cannot hold" in str(error)
        return
    with pytest.raises(ValueError, match="is damaged .*known_classes_"):
        ks.load(tmp_path / "model.ksparse")


def test_checkpoints_go_on_and_those_of_other_labels_are_refused(tmp_path):
    folder, known = tmp_path / "c", some_known(TRUTH, 3, (0, 1))
    options = {**FIT, "n_features": 12}
    expected = KSparse(4, **options).fit(X, known_labels=known)
    for lost in (0, 4, -2):
        KSparse(4, checkpoint=folder, **options).fit(X, known_labels=known)
        for path in sorted(folder.glob("*.npz"))[lost:]:
            path.unlink()
        model = KSparse(4, checkpoint=folder, **options).fit(X, known_labels=known)
        np.testing.assert_array_equal(model.labels_, expected.labels_)
        np.testing.assert_allclose(model.weights_, expected.weights_, atol=1e-9)
        assert model.known_classes_.tolist() == expected.known_classes_.tolist()
    for other in (some_known(TRUTH, 3, (0, 2)), None):
        with pytest.raises(ValueError, match="is of another run: known_labels is"):
            KSparse(4, checkpoint=folder, **options).fit(X, known_labels=other)


# AnnData and the shell ----------------------------------------------------------------------

SHARED = {"n_features": 12, "normalize": "log1p", "random_state": 0}


@pytest.fixture(scope="module")
def partly(simulated):
    """Cells of which some know that they are of type 1 or 2; type 0 is new."""
    adata = simulated.copy()
    values = adata.obs["label"].astype(object).to_numpy()
    known = np.where((np.arange(adata.n_obs) % 4 == 0) & (values != "type 0"), values, None)
    adata.obs["known"] = pd.Categorical(known)
    adata.obs["group"] = np.array(list("ab"))[(np.arange(adata.n_obs) % 5 == 0).astype(int)]
    return adata


@pytest.fixture(scope="module")
def typed(partly):
    """The result; use a copy to change it."""
    return ks.tl.ksparse(partly, 3, known_labels="known", copy=True, **SHARED)


def test_clusters_are_called_by_their_classes(typed):
    names = typed.obs["ksparse"].cat.categories.tolist()
    assert sorted(names) == ["0", "type 1", "type 2"]
    given = typed.obs["known"].notna()
    assert (typed.obs["ksparse"].astype(str)[given] == typed.obs["known"].astype(str)[given]).all()
    assert adjusted_rand_score(typed.obs["label"], typed.obs["ksparse"]) > 0.85
    record = read_record(typed, "ksparse")
    assert record.params["known_labels"] == "known"
    assert record.cluster_names == names
    assert record.clusters.size.tolist() == typed.obs["ksparse"].value_counts()[names].tolist()


def test_pictures_report_and_prediction_know_the_names(typed, tmp_path):
    anndata = pytest.importorskip("anndata")
    typed.write_h5ad(tmp_path / "typed.h5ad")
    adata = anndata.read_h5ad(tmp_path / "typed.h5ad")
    names = adata.obs["ksparse"].cat.categories.tolist()
    assert clusters_of(adata, "ksparse")[1] == names
    ks.tl.rank_genes(adata)
    assert list(adata.uns["rank_genes_groups"]["names"].dtype.names) == names
    ks.tl.embed(adata)
    ks.pl.embedding(adata, labels="label")
    ks.pl.dotplot(adata)
    ks.pl.heatmap(adata)
    ks.pl.clusters_vs_labels(adata, "label")
    write_report(adata, tmp_path / "report.html", labels="label")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Cells whose known was known kept it" in page
    assert "cells that kept no known label" in page
    write_report(adata, tmp_path / "report.html", labels="known")  # nothing is left to score
    new = adata[::-1].copy()
    for name in [*new.uns]:
        del new.uns[name]
    ks.tl.predict(adata, new, key_added="placed")
    assert new.obs["placed"].cat.categories.tolist() == names
    free = adata.obs["known"].isna()
    same = new.obs["placed"][::-1].astype(str) == adata.obs["ksparse"].astype(str)
    assert same[free].all()
    # Some cells are removed, and clusters are renamed.
    part = adata[adata.obs["ksparse"] != "type 2"].copy()
    assert set(clusters_of(part, "ksparse")[1]) == set(names)
    renamed = adata.copy()
    renamed.obs["ksparse"] = renamed.obs["ksparse"].cat.rename_categories({"0": "new type"})
    assert "new type" in clusters_of(renamed, "ksparse")[1]


def test_models_of_data_frames_place_cells_by_class(partly):
    data = pd.DataFrame(np.log1p(partly.X.toarray()), columns=partly.var_names)
    known = partly.obs["known"].astype(object).where(partly.obs["known"].notna(), None)
    model = KSparse(3, **QUICK | {"n_features": 12}).fit(data, known_labels=known.to_numpy())
    new = partly.copy()
    new.X = np.log1p(partly.X.toarray())
    ks.tl.predict(model, new, key_added="placed")
    assert set(new.obs["placed"].cat.categories) == {"0", "1", "2", "type 1", "type 2"} - {
        str(c) for c in range(3) if model.known_classes_[c] is not None}  # fmt: skip


def test_cells_far_from_their_class_are_no_merged_clusters(partly):
    adata = partly.copy()
    known = adata.obs["known"].astype(object)
    wrong = np.flatnonzero(adata.obs["label"] == "type 2")[-6:]
    known.iloc[wrong] = "type 1"
    adata.obs["known"] = pd.Categorical(known)
    ks.tl.ksparse(adata, 3, known_labels="known", **SHARED)
    assert (adata.obs["ksparse"].iloc[wrong] == "type 1").all()
    assert (adata.obs["ksparse_margin"].iloc[wrong] < 0).any()
    part = adata[adata.obs["ksparse"] != "type 2"].copy()
    codes, names = clusters_of(part, "ksparse")
    assert [names[c] for c in codes] == part.obs["ksparse"].tolist()


def test_new_clusters_have_names_of_their_own(partly):
    adata = partly.copy()
    adata.obs["known"] = adata.obs["known"].cat.rename_categories({"type 1": "0", "type 2": "1"})
    ks.tl.ksparse(adata, 3, known_labels="known", **SHARED)
    names = adata.obs["ksparse"].cat.categories
    assert len(set(names)) == 3
    assert set(names) - {"0", "1"} <= {"2", "new 0", "new 1"}


def test_known_labels_of_restricted_cells(partly):
    adata = partly.copy()
    ks.tl.ksparse(adata, 3, known_labels="known", restrict_to=("group", "a"), **SHARED)
    chosen = adata.obs["group"].to_numpy() == "a"
    names = adata.obs["ksparse_R"].cat.categories.tolist()
    assert sorted(names) == ["a,0", "a,type 1", "a,type 2", "b"]
    given = chosen & adata.obs["known"].notna().to_numpy()
    assert (
        adata.obs["ksparse_R"][given] == [f"a,{one}" for one in adata.obs["known"][given]]
    ).all()
    assert read_record(adata, "ksparse_R").cluster_names == [n for n in names if n != "b"]
    new = partly.copy()
    ks.tl.predict(adata, new, key="ksparse_R")
    assert new.obs["ksparse_R"].cat.categories.tolist() == names
    adata.obs["clash"] = np.where(chosen, "a", "a,type 1")
    with pytest.raises(ValueError, match="group 'a,type 1', which would be the name of a class of "
                       "known_labels='known': rename"):  # fmt: skip
        ks.tl.ksparse(adata, 3, known_labels="known", restrict_to=("clash", "a"), **SHARED)


def test_columns_that_cannot_be_are_refused(typed):
    adata = typed.copy()
    adata.obs["none"] = None
    for column, text in (
        ("no", "known_labels='no' is not a column of adata.obs: choose from"),
        ("none", "known_labels has labels for 0 of 240 samples"),
        ("ksparse", "known_labels='ksparse' is where clusters are written: give another key_added"),
    ):
        with pytest.raises(ValueError, match=text):
            ks.tl.ksparse(adata, 3, known_labels=column, **SHARED)


@pytest.mark.parametrize("name", [np.array(["a", "a", "b"]), np.array(["a"]), 3.0])
def test_damaged_names_are_refused(typed, name):
    adata = typed.copy()
    adata.uns["ksparse"]["clusters"]["name"] = name
    with pytest.raises(ValueError, match="clusters.name"):
        read_record(adata, "ksparse")


def run(*words):
    return main([str(word) for word in words])


def test_the_shell_keeps_known_labels(partly, typed, tmp_path, capsys):
    anndata = pytest.importorskip("anndata")
    partly.write_h5ad(tmp_path / "cells.h5ad")
    words = ["run", tmp_path / "cells.h5ad", "-k", 3, "--genes", 12, "--label-column", "label"]
    assert run(*words, "--known-column", "known", "-o", tmp_path / "out") == 0
    assert "Against label: accuracy" in capsys.readouterr().out
    with (tmp_path / "out" / "clusters.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["cluster"] for row in rows] == typed.obs["ksparse"].tolist()
    data = json.loads((tmp_path / "out" / "run.json").read_text())
    assert "--known-column known" in data["command"]
    assert data["options"]["known_column"] == data["parameters"]["known_labels"] == "known"
    result = tmp_path / "out" / "result.h5ad"
    assert run("predict", result, tmp_path / "cells.h5ad", "-o", tmp_path / "placed") == 0
    assert run("report", result, "-o", tmp_path / "again.html") == 0
    names = anndata.read_h5ad(result).obs["ksparse"].cat.categories
    with (tmp_path / "out" / "genes.csv").open(newline="", encoding="utf-8") as file:
        assert f"mean_{names[0]}" in next(csv.reader(file))


def test_the_shell_reads_known_labels_from_a_table(partly, tmp_path):
    table = pd.DataFrame(partly.X.toarray(), partly.obs_names, partly.var_names)
    table["known"] = partly.obs["known"].astype(object)
    table.to_csv(tmp_path / "cells.csv")
    words = ["run", tmp_path / "cells.csv", "-k", 3, "--genes", 12, "--known-column", "known"]
    assert run(*words, "-o", tmp_path / "out") == 0
    with (tmp_path / "out" / "clusters.csv").open(newline="", encoding="utf-8") as file:
        assert {"type 1", "type 2"} < {row["cluster"] for row in csv.DictReader(file)}


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("-k", 3, "--known-column", "no"), "--known-column 'no' is not a column of obs"),
        (("-k", 3, "--known-column", "ksparse"), "--known-column 'ksparse' is where clusters are"),
        (("-k", 2, "--known-column", "label"), "--known-column has 3 classes, more than -k 2"),
        (("-k", 4, "--known-column", "label"), "-k 4 is 1 more than the 3 classes of "
         "--known-column, but 0 samples"),
        (("-k", 3, "--known-column", "known", "--path"), "--path does not keep known labels"),
    ],
)  # fmt: skip
def test_the_shell_tells_what_cannot_be(partly, tmp_path, capsys, words, text):
    partly.write_h5ad(tmp_path / "cells.h5ad")
    assert run("run", tmp_path / "cells.h5ad", *words, "-o", tmp_path / "out") == 2
    assert text in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
