"""Batches: features are centred within them, and they are left out where fits are compared."""

from __future__ import annotations

import csv
import json
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy import stats

import ksparse as ks
from conftest import crossed, make_clusters, page_content, seeds, thorough_params
from ksparse import KSparse
from ksparse._errors import InputError, InputWarning
from ksparse.cli import main
from ksparse.matrix import as_matrix
from ksparse.matrix.batches import BatchMatrix
from ksparse.matrix.data import open_matrix
from ksparse.metrics import adjusted_rand_score
from ksparse.params import DEFAULTS, read_inputs
from ksparse.report import write_report
from ksparse.scverse.batches import read_batches
from ksparse.scverse.schema import read_record
from ksparse.search.batch_report import batch_mixing, feature_support
from ksparse.search.batches import batch_folds
from ksparse.search.fit import w_step_for
from ksparse.search.judge import Judge

DAYS = np.array(["monday", "tuesday", "friday"], dtype=object)
FIT = {"n_features": 15, "random_state": 0}
QUICK = {**FIT, "init": "spectral", "selector": "l1"}


def make_batches(seed=0, shift=5.0, n_batches=3, **options):
    """Clusters whose samples come from batches, in each of which all features are shifted."""
    X, truth, markers = make_clusters(seed, **({"sizes": (60, 50, 40)} | options))
    rng = np.random.default_rng(seed + 100)
    batch = rng.integers(0, n_batches, truth.size)
    X = X + (shift * rng.normal(size=(n_batches, X.shape[1])))[batch]
    return X, truth, markers, batch


X, TRUTH, MARKERS, BATCH = make_batches()
DAY = DAYS[BATCH]
CLEAN = make_batches(shift=0.0)[0]


@pytest.fixture(scope="module")
def model():
    return KSparse(3, **FIT).fit(X, groups=DAY)


# The matrix ---------------------------------------------------------------------------------


def centred(X, batch, weight):
    X = X.copy()
    for b in np.unique(batch):
        X[batch == b] -= np.average(X[batch == b], axis=0, weights=weight[batch == b])
    return X


def as_blocks(X):
    da = pytest.importorskip("dask.array")
    return open_matrix(da.from_array(X, chunks=(17, X.shape[1])))


@pytest.mark.parametrize(
    ("kind", "standardize"),
    crossed([np.asarray, sp.csr_array, sp.csc_matrix, as_blocks], [False, True]),
)
def test_every_product_is_that_of_data_centred_within_batches(kind, standardize):
    rng = np.random.default_rng(0)
    m, d, batch = 60, 20, rng.integers(0, 3, 60)
    data = rng.normal(size=(m, d)) + 3 * rng.normal(size=(3, d))[batch]
    data[:, 3] = 1 + batch  # constant within batches
    data[:, 4] = 7
    weight = rng.random(m) + 0.5
    Z = centred(data, batch, weight)
    Z[:, 3:5] = 0
    variance = np.average(Z**2, axis=0, weights=weight)
    Z /= 2 * np.sqrt(np.where(variance > 0, variance, 1.0) if standardize else 1.0)
    base = as_matrix(kind(data), sample_weight=weight, standardize=standardize)
    view = BatchMatrix(base, batch, 3).scaled(2.0)
    assert np.flatnonzero(view.constant).tolist() == [3, 4]
    W, T, labels = rng.normal(size=(d, 4)), rng.normal(size=(m, 3)), rng.integers(0, 4, m)
    check_products(view, Z, weight, W, T, labels)
    # Other weights, and another shift, from which the means of batches are not taken again.
    shift, others = rng.normal(size=d) * ~view.constant, rng.random(m)
    check_products(view.reweighted(others, shift), Z - shift, others, W, T, labels)
    rows = np.flatnonzero(rng.random(m) < 0.7)
    part, Z = view.rows(rows), Z[rows]
    Z = centred(Z, batch[rows], weight[rows])
    check_products(part, Z, weight[rows], W, T[rows], labels[rows])
    assert part.batches.tolist() == batch[rows].tolist()
    np.testing.assert_allclose(view.with_center(True).project(W), view.project(W))


def check_products(view, Z, weight, W, T, labels):
    A, Y = Z.T * weight, np.eye(4)[labels]
    some, others = np.array([5, 1, 3]), np.array([0, 7, 4, 2])
    for found, expected in (
        (view.project(W), Z @ W),
        (view.correlate(T), A @ T),
        (view.normal(W), A @ Z @ W),
        (view.gram(some), A[some] @ Z[:, some]),
        (view.gram(some, others), A[some] @ Z[:, others]),
        (view.columns(others), Z[:, others]),
        (view.cluster_sums(labels, 4), (A @ Y).T),
    ):
        np.testing.assert_allclose(found, expected, atol=1e-9)


# What is found ------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", seeds(1, 4))
def test_shifts_between_batches_do_not_split_clusters(seed):
    data, truth, markers, batch = make_batches(seed)
    plain = KSparse(3, **FIT).fit(data)
    assert adjusted_rand_score(batch, plain.labels_) > 0.9  # what is to be avoided
    model = KSparse(3, **FIT).fit(data, groups=DAYS[batch])
    assert adjusted_rand_score(truth, model.labels_) == 1
    assert np.array_equal(model.get_support(), markers)
    assert not model.batch_mixing_["one_batch"].any()
    assert not model.batch_support_["one_batch"].any()
    assert model.batch_support_["supported"].all()


@pytest.mark.parametrize("seed", seeds(1, 4))
def test_without_shifts_the_answer_does_not_change(seed):
    data, _, _, batch = make_batches(seed, shift=0.0)
    plain = KSparse(3, **FIT).fit(data)
    model = KSparse(3, **FIT).fit(data, groups=batch)
    assert adjusted_rand_score(plain.labels_, model.labels_) > 0.97
    assert np.array_equal(plain.get_support(), model.get_support())


def test_the_number_of_features_is_that_without_shifts():
    model, clean = (KSparse(3, random_state=0).fit(one, groups=DAY) for one in (X, CLEAN))
    assert adjusted_rand_score(TRUTH, model.labels_) == 1
    assert np.array_equal(model.labels_, clean.labels_)
    assert np.array_equal(model.get_support(), clean.get_support())
    np.testing.assert_allclose(model.starts_["score"], clean.starts_["score"])


@pytest.mark.parametrize("options", thorough_params([{}], [{"scale": True}, {"max_labels": 2}]))
def test_it_is_the_same_as_centring_before(options):
    model = KSparse(3, **QUICK, **options).fit(X, groups=DAY)
    before = KSparse(3, **QUICK, **options).fit(centred(X, BATCH, np.ones(BATCH.size)))
    assert np.array_equal(model.labels_, before.labels_)
    assert np.array_equal(model.get_support(), before.get_support())
    # The norm by which data are divided is that of data with their mean.
    one, other = (fit.weights_ / np.linalg.norm(fit.weights_) for fit in (model, before))
    np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.parametrize("targets", thorough_params(["projection"], ["embedding"]))
def test_other_settings_know_batches_too(targets):
    model = KSparse(3, **QUICK, targets=targets).fit(X, groups=DAY)
    assert adjusted_rand_score(TRUTH, model.labels_) == 1
    kernel = KSparse(3, **FIT, init="spectral_kernel").fit(X, groups=DAY)
    assert adjusted_rand_score(TRUTH, kernel.labels_) == 1


def test_known_labels_and_batches_go_together():
    known = np.full(TRUTH.size, None)
    known[np.flatnonzero(TRUTH == 2)[:3]] = "rare"
    model = KSparse(3, **QUICK).fit(X, known_labels=known, groups=DAY)
    assert adjusted_rand_score(TRUTH, model.labels_) == 1
    assert model.known_classes_[model.labels_[TRUTH == 2]].tolist() == ["rare"] * 40


@pytest.mark.parametrize(
    "kind",
    thorough_params(
        [sp.csr_matrix, sp.csc_array, lambda X: X.astype(np.float32)],
        [sp.csr_array, np.asfortranarray, pd.DataFrame],
    ),
)
def test_every_kind_of_data_gives_the_same(kind, model):
    data = kind(X)
    if isinstance(data, pd.DataFrame):
        data.columns = [f"gene {i}" for i in range(X.shape[1])]
    other = KSparse(3, **FIT).fit(data, groups=DAY)
    assert np.array_equal(other.labels_, model.labels_)
    np.testing.assert_allclose(other.weights_, model.weights_, atol=1e-4)
    np.testing.assert_allclose(other.batch_means_, model.batch_means_, atol=1e-5)
    for name, values in model.batch_support_.items():
        np.testing.assert_allclose(other.batch_support_[name], values, atol=1e-4)
    assert other.weights_.dtype == getattr(data, "dtype", np.float64)
    assert np.array_equal(other.predict(data, groups=DAY), model.labels_)


def test_chunks_of_dask_and_samples_in_a_file_give_the_same(tmp_path, model):
    da, anndata = pytest.importorskip("dask.array"), pytest.importorskip("anndata")
    anndata.AnnData(sp.csr_matrix(X)).write_h5ad(tmp_path / "cells.h5ad")
    backed = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    for data in (da.from_array(X, chunks=(50, 60)), backed):
        other = KSparse(3, **FIT).fit(data, groups=DAY)
        assert np.array_equal(other.labels_, model.labels_)
        np.testing.assert_allclose(other.weights_, model.weights_, atol=1e-6)
        assert np.array_equal(other.batch_support_["supported"], model.batch_support_["supported"])
        assert np.array_equal(other.predict(data, groups=DAY), model.labels_)
    backed.file.close()


@pytest.mark.parametrize("seed", seeds(1, 4))
def test_weight_2_is_the_same_as_a_sample_given_twice(seed):
    data, truth, _, batch = make_batches(seed, shift=2.0)
    rng = np.random.default_rng(seed)
    weight, start = rng.integers(1, 4, truth.size), rng.permutation(truth)
    often = np.repeat(np.arange(truth.size), weight)
    options = {"n_features": 10, "selector": "l1", "random_state": 0}
    one = KSparse(3, init=start, **options).fit(data, sample_weight=weight, groups=batch)
    other = KSparse(3, init=start[often], **options).fit(data[often], groups=batch[often])
    assert np.array_equal(one.labels_[often], other.labels_)
    np.testing.assert_allclose(one.weights_, other.weights_, atol=1e-6)
    np.testing.assert_allclose(one.batch_means_, other.batch_means_)
    for name in ("batch_mixing_", "batch_support_"):
        for part, values in getattr(one, name).items():
            np.testing.assert_allclose(values, getattr(other, name)[part], atol=1e-6)


def test_samples_of_weight_0_are_labelled_in_their_batch_and_have_no_part():
    weight = np.ones(TRUTH.size)
    weight[::10] = 0
    spoilt = X.copy()
    spoilt[0] += 100
    model, other = (
        KSparse(3, **QUICK).fit(one, sample_weight=weight, groups=DAY) for one in (X, spoilt)
    )
    part = KSparse(3, **QUICK).fit(X[weight > 0], groups=DAY[weight > 0])
    assert adjusted_rand_score(TRUTH, model.labels_) == 1
    np.testing.assert_allclose(model.weights_, part.weights_, atol=1e-8)
    np.testing.assert_allclose(model.weights_, other.weights_, atol=1e-8)
    assert np.array_equal(model.batch_mixing_["counts"], part.batch_mixing_["counts"])
    assert np.array_equal(model.predict(X, groups=DAY), model.labels_)


def test_one_batch_is_no_groups():
    one = KSparse(3, random_state=0).fit(X, groups=["all"] * TRUTH.size)
    none = KSparse(3, random_state=0).fit(X)
    assert np.array_equal(one.labels_, none.labels_)
    assert np.array_equal(one.weights_, none.weights_)
    assert one.starts_ == none.starts_
    assert one.batches_.tolist() == ["all"]
    assert not one.batch_mixing_["one_batch"].any()
    assert np.array_equal(one.predict(X), one.labels_)
    one.calibrate(X)


@pytest.mark.parametrize(
    "names",
    [
        [0.5, 1.0, 2.0],
        [True, False, True],
        ["a", 1, (2, 3)],
        list(np.array(["2020-01-01", "2021-01-01", "2022-01-01"], dtype="datetime64[D]")),
    ],
)
def test_batches_are_of_any_kind(names, model):
    given = np.empty(3, dtype=object)
    given[:] = names
    other = KSparse(3, **QUICK).fit(X, groups=given[BATCH])
    assert set(other.batches_.tolist()) == {
        one.item() if isinstance(one, np.generic) else one for one in names
    }
    assert np.array_equal(other.predict(X, groups=given[BATCH]), other.labels_)
    series = pd.Series(DAY, dtype="category")
    assert np.array_equal(KSparse(3, **FIT).fit(X, groups=series).labels_, model.labels_)


# What cannot be answered ----------------------------------------------------------------------

PAIRS = np.repeat(np.arange(TRUTH.size // 2), 2)


@pytest.mark.parametrize(
    ("groups", "options", "message"),
    [
        ([*DAY[:-1], None], {}, "groups is missing for 1 of 150 samples: give the batch of every"),
        (np.where(BATCH == 0, np.nan, BATCH), {}, "groups is missing for .* of 150 samples"),
        (np.ma.masked_array(BATCH, BATCH == 0), {}, "groups is missing for .* of 150 samples"),
        (DAY[:-1], {}, r"groups has shape \(149,\), but X has 150 samples"),
        ("monday", {}, r"groups has shape \(\), but X has 150 samples"),
        ([[day, day] for day in DAY], {}, r"groups has shape \(150, 2\), but X has 150 samples"),
        ([{"day"}] * 150, {}, "groups holds batches that are no names or numbers"),
        (np.arange(150), {}, "groups has 150 batches for 150 samples, fewer than 2 for each"),
        (PAIRS, {"sample_weight": np.arange(150) > 1}, "1 of 75 batches of groups have no sample"),
        (DAY, {"center": False}, "groups subtracts the means of batches, and center=False"),
        (DAY, {"n_clusters": "auto"}, "n_clusters='auto' knows no batches"),
    ],
)
def test_batches_that_cannot_be_are_refused(groups, options, message):
    fit = {"sample_weight": options.pop("sample_weight")} if "sample_weight" in options else {}
    with pytest.raises(InputError, match=message):
        KSparse(**({"n_clusters": 3} | QUICK | options)).fit(X, groups=groups, **fit)


def test_too_many_batches_are_refused():
    data = np.random.default_rng(0).normal(size=(2400, 3))
    with pytest.raises(InputError, match=r"groups has 1,200 batches, more than 1,000"):
        KSparse(2).fit(data, groups=np.arange(2400) // 2)


def test_data_that_do_not_vary_within_batches_are_refused():
    with pytest.raises(InputError, match="No feature of X varies within the 3 batches of groups"):
        KSparse(2).fit(np.eye(3)[BATCH], groups=DAY)


def test_a_batch_of_one_sample_is_named():
    alone = DAY.copy()
    alone[7] = "sunday"
    with pytest.warns(InputWarning, match="1 of 4 batches of groups have one sample: 'sunday'"):
        model = KSparse(3, **QUICK).fit(X, groups=alone)
    others = np.arange(TRUTH.size) != 7
    assert adjusted_rand_score(TRUTH[others], model.labels_[others]) == 1
    np.testing.assert_allclose(model.project(X, groups=alone)[7], 0, atol=1e-9)


def test_batches_of_two_samples_are_enough():
    data = X + 50 * np.random.default_rng(0).normal(size=(75, X.shape[1]))[PAIRS]
    model = KSparse(2, n_features=10, random_state=0).fit(data, groups=PAIRS)
    assert model.n_features_selected_ == 10
    assert np.isnan(model.batch_support_["explained"]).all()
    assert not model.batch_support_["one_batch"].any()
    assert model.batch_table().shape == (2, 75 + 4)


def test_a_gene_alone_supports_itself_only_with_others():
    model = KSparse(2, n_features=1, random_state=0).fit(X, groups=DAY)
    assert np.isnan(model.batch_support_["explained"]).all()
    none = KSparse(1, random_state=0).fit(X, groups=DAY)
    assert none.batch_means_.shape == (3, 0)
    assert none.batch_table()["friday"].tolist() == [int((DAY == "friday").sum())]


# Other samples ------------------------------------------------------------------------------


def test_samples_of_known_batches_are_placed_as_in_the_fit(model):
    for data in (X, sp.csr_array(X)):
        assert np.array_equal(model.predict(data, groups=DAY), model.labels_)
    some = np.random.default_rng(0).permutation(TRUTH.size)[:20]
    assert np.array_equal(model.predict(X[some], groups=DAY[some]), model.labels_[some])
    probable = model.predict_proba(X, groups=DAY)
    assert np.array_equal(probable.argmax(axis=1), model.labels_)
    assert model.score(X, groups=DAY) > 0.7
    projected = KSparse(3, **FIT).fit_project(X, groups=DAY)
    np.testing.assert_allclose(model.project(X, groups=DAY), projected, atol=1e-9)
    assert np.array_equal(KSparse(3, **FIT).fit_predict(X, groups=DAY), model.labels_)


def test_samples_of_unknown_batches_have_the_mean_of_all_subtracted(model):
    shifted = X + model.mean_ - X.mean(axis=0)
    days = np.where(DAY == "friday", "sunday", DAY)
    days[0] = None
    with pytest.warns(InputWarning, match=r"batches that the model does not know \('sunday', miss"):
        found = model.project(shifted, groups=days)
    with pytest.warns(InputWarning, match="these samples have none: the mean of all batches"):
        plain = model.project(shifted)
    unknown = (days == "sunday") | (np.arange(days.size) == 0)
    np.testing.assert_allclose(found[unknown], plain[unknown])
    known = model.project(shifted, groups=DAY)
    np.testing.assert_allclose(found[~unknown], known[~unknown])


@pytest.mark.parametrize("method", ["project", "predict", "predict_proba", "score"])
def test_warnings_point_to_the_line_of_the_user(method, model):
    with pytest.warns(InputWarning) as caught:
        getattr(model, method)(X)
        getattr(model, method)(X, groups=["?"] * len(X))
    assert {one.filename for one in caught} == {__file__}


def test_groups_are_refused_where_there_are_none_or_the_wrong_number(model):
    with pytest.raises(InputError, match=r"groups has shape \(2,\), but X has 150 samples"):
        model.predict(X, groups=["monday", "friday"])
    plain = KSparse(3, **QUICK).fit(X)
    with pytest.raises(InputError, match="groups was given, but the model was fitted without"):
        plain.predict(X, groups=DAY)
    with pytest.raises(InputError, match="fitted without groups: there are no batches"):
        plain.batch_table()
    with pytest.raises(InputError, match="batches cannot be calibrated"):
        model.calibrate(X)


def test_another_fit_forgets_the_batches():
    model = KSparse(3, **QUICK).fit(X, groups=DAY)
    model.fit(CLEAN)
    assert not [name for name in vars(model) if "batch" in name]
    assert np.array_equal(model.predict(CLEAN), model.labels_)


def test_a_saved_model_has_its_batches(tmp_path, model):
    path = tmp_path / "cells.ksparse"
    model.save(path)
    for again in (ks.load(path), pickle.loads(pickle.dumps(model))):
        assert np.array_equal(again.predict(X, groups=DAY), model.labels_)
        pd.testing.assert_frame_equal(again.batch_table(), model.batch_table())
        assert again.batches_.tolist() == ["friday", "monday", "tuesday"]
    for name, value, message in (
        ("batches_", model.batches_[:2], "batches_ should be an array of 3 names"),
        ("batches_", np.array(["a", "b", "a"], dtype=object), "batches_ has 'a' twice"),
        ("batch_means_", model.batch_means_[:, :2], "batch_means_ is of 2 features"),
        ("batch_means_", None, "batch_means_ is missing"),
        ("batch_mixing_", {**model.batch_mixing_, "largest": np.array([0, 1, 3])}, "holds 3"),
        ("batch_mixing_", {"counts": np.ones((3, 3))}, "batch_mixing_.largest is missing"),
        ("batch_support_", 3, "batch_support_ is int"),
    ):
        broken = pickle.loads(pickle.dumps(model))
        setattr(broken, name, value)
        broken.save(path)
        with pytest.raises(InputError, match=f"is damaged.*{message}"):
            ks.load(path)


def test_a_checkpoint_of_other_batches_is_refused(tmp_path):
    options = {**QUICK, "checkpoint": tmp_path / "steps"}
    first = KSparse(3, **options).fit(X, groups=DAY)
    again = KSparse(3, **options).fit(X, groups=DAY)
    assert np.array_equal(first.weights_, again.weights_)
    with pytest.raises(InputError, match="groups"):
        KSparse(3, **options).fit(X, groups=DAY[::-1])


# Comparing fits -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "folds"),
    [
        ([50, 40, 30], [50, 40, 30]),
        ([90, 12], [90, 12]),
        ([90, 10], [90, 10]),
        ([90, 9], [99]),
        ([90, 1], [91]),
        ([300, 31], [331]),
        ([300, 15, 15], [330]),
        ([90, 2, 3, 80], [90, 85]),
        ([1] * 30, [10, 10, 10]),
        ([40] * 10, [40] * 10),
        ([20] * 25, None),
    ],
)
def test_each_batch_is_in_one_fold(sizes, folds):
    batch = np.repeat(np.arange(len(sizes)), sizes)
    fold = batch_folds(batch)
    assert all(np.unique(fold[batch == b]).size == 1 for b in range(len(sizes)))
    found = np.bincount(fold)
    if folds is None:
        assert found.size == 10
        assert found.min() >= 40
    elif sizes == [1] * 30:
        assert found.min() >= 10
    else:
        assert sorted(found) == sorted(folds)
    weight = np.random.default_rng(0).integers(1, 4, batch.size)
    again = np.repeat(np.arange(batch.size), weight)
    assert np.array_equal(batch_folds(batch, weight)[again], batch_folds(batch[again]))


@pytest.mark.parametrize("seed", seeds(1, 4))
def test_a_tiny_batch_does_not_decide_how_many_features_there_are(seed):
    """Without the large batch next to nothing is left to fit, so it cannot be left out."""
    data, truth, *_ = make_batches(seed, shift=0.0, sizes=(120, 100, 80))
    batch = np.zeros(truth.size, dtype=int)
    batch[7] = 1
    options = {"n_features": "auto", "random_state": 0}
    plain = KSparse(3, **options).fit(data)
    with pytest.warns(InputWarning, match="1 of 2 batches of groups have one sample"):
        model = KSparse(3, **options).fit(data, groups=batch)
    assert model.n_features_selected_ == plain.n_features_selected_
    np.testing.assert_allclose(model.starts_["score"], plain.starts_["score"], atol=0.02)


def test_held_out_samples_are_those_of_a_batch():
    view = BatchMatrix(as_matrix(X), BATCH, 3)
    judge = Judge(view, 3, np.random.RandomState(0))
    halves = list(judge.halves())
    assert [np.unique(BATCH[test]).tolist() for _, test in halves] == [[0], [1], [2]]
    for train, test in halves:
        assert np.array_equal(np.sort(np.concatenate([train, test])), np.arange(TRUTH.size))
    assert judge.ratio == pytest.approx(np.mean([b.size / a.size for a, b in halves]))
    assert judge.ratio < 0.6


@pytest.mark.parametrize("seed", seeds(1, 5))
def test_labels_that_have_nothing_to_do_with_the_data_score_nothing(seed):
    rng = np.random.default_rng(seed)
    noise, batch, labels = rng.normal(size=(120, 1500)), np.arange(120) % 4, np.arange(120) // 40
    noise += 5 * rng.normal(size=(4, 1500))[batch]
    inputs = read_inputs(DEFAULTS | {"n_clusters": 3, "n_features": 20}, noise)
    view = BatchMatrix(inputs.matrix, batch, 4)
    scores = Judge(view, 3, np.random.RandomState(0))(labels, w_step_for(inputs.settings, 20), 20)
    assert scores.margin.mean() < 0
    assert scores.explained.mean() < 0
    assert abs(scores.agreement.mean()) < 0.1


def test_a_cluster_in_one_batch_counts_against_labels():
    """The other batches do not have it, so it cannot be found there."""
    data, truth, _, batch = make_batches(0)
    batch[truth == 2] = 0
    both = KSparse(3, **FIT).fit(data, groups=batch)
    spread = KSparse(3, **FIT).fit(X, groups=BATCH)
    assert max(both.starts_["score"]) < min(spread.starts_["score"]) - 0.1


def test_two_types_in_a_batch_each_do_not_fail():
    batch = (TRUTH > 0).astype(int)
    model = KSparse(2, n_features=5, random_state=0).fit(CLEAN, groups=batch)
    assert np.isfinite(model.starts_["score"]).all()


# What is reported -----------------------------------------------------------------------------


def test_the_table_keeps_batches_that_are_called_like_its_columns():
    names = np.array(["share", "largest", "c"], dtype=object)[BATCH]
    table = KSparse(3, **QUICK).fit(X, groups=names).batch_table()
    counts = table[["share (batch)", "largest (batch)", "c"]].to_numpy()
    assert counts.sum(axis=0).tolist() == np.bincount(BATCH).tolist()
    assert set(table["largest"]) <= {"share", "largest", "c"}
    assert (table["share"] <= 1).all()


def test_a_cluster_of_one_batch_is_flagged_and_chance_is_not():
    labels = np.repeat([0, 1, 2, 3], [60, 40, 30, 3])
    batch = np.arange(133) % 2
    batch[60:100] = 1  # cluster 1 is of batch 1
    batch[100:130] = np.arange(30) % 10 == 0  # 90 % of cluster 2 are of batch 0
    batch[130:] = 0  # three of three may be chance
    mixing = batch_mixing(labels, batch, 4, 2)
    assert mixing.one_batch.tolist() == [False, True, False, False]
    assert mixing.counts.tolist() == [[30, 30], [0, 40], [27, 3], [3, 0]]
    assert mixing.largest.tolist() == [0, 1, 0, 0]
    np.testing.assert_allclose(mixing.share, [0.5, 1, 0.9, 1])
    share = mixing.counts.sum(axis=0) / 133
    np.testing.assert_allclose(mixing.expected, share[mixing.largest])
    exact = [stats.binom.sf(most - 1, n, share[b])
             for most, n, b in ((30, 60, 0), (40, 40, 1), (27, 30, 0), (3, 3, 0))]  # fmt: skip
    np.testing.assert_allclose(mixing.p_value, np.minimum(8 * np.array(exact), 1))
    double = batch_mixing(labels, batch, 4, 2, np.full(133, 2.0))
    assert double.counts.tolist() == (2 * mixing.counts).tolist()


def test_a_batch_that_is_nearly_all_samples_is_no_sign():
    labels, batch = np.repeat([0, 1], 100), np.zeros(200, dtype=int)
    batch[:4] = 1
    mixing = batch_mixing(labels, batch, 2, 2)
    assert mixing.share[1] == 1
    assert not mixing.one_batch.any()


def test_a_type_in_one_batch_only_is_flagged():
    data, truth, _, batch = make_batches(0, shift=0.0)
    batch[truth == 2] = 0
    data = data + 3 * np.random.default_rng(0).normal(size=(3, data.shape[1]))[batch]
    model = KSparse(3, **FIT).fit(data, groups=DAYS[batch])
    table = model.batch_table()
    flagged = table[table["one_batch"]]
    assert flagged["largest"].tolist() == ["monday"]
    assert flagged[["friday", "tuesday"]].to_numpy().sum() <= 2
    assert list(table.index) == [0, 1, 2]


@pytest.mark.parametrize("seed", seeds(1, 5))
def test_a_gene_of_one_batch_is_flagged(seed):
    data, truth, markers, batch = make_batches(seed)
    noise = np.flatnonzero(~markers)
    data[np.ix_((truth == 0) & (batch == 1), noise[:1])] += 5
    free = np.ones(markers.size)
    free[noise[:2]] = 0  # one of them is noise in all batches
    model = KSparse(3, n_features=17, feature_weights=free, random_state=0)
    model.fit(data, groups=DAYS[batch])
    selected = np.flatnonzero(model.get_support())
    assert selected[model.batch_support_["one_batch"]].tolist() == [noise[0]]
    supported = dict(zip(selected, model.batch_support_["supported"].T, strict=True))
    assert model.batches_[supported[noise[0]]].tolist() == ["tuesday"]
    assert not supported[noise[1]].any()


def support_of(Z, truth, batch, **options):
    k, n = truth.max() + 1, batch.max() + 1
    W = np.eye(Z.shape[1])
    return feature_support(Z, W, Z, truth, k, batch, n, **options)


def test_support_is_an_analysis_of_variance_without_the_gene():
    rng = np.random.default_rng(0)
    truth, batch = np.repeat([0, 1], 60), np.arange(120) % 3
    Z = rng.normal(size=(120, 4)) + 8 * truth[:, None] * [1, 1, 1, 0.05]
    found = support_of(Z, truth, batch)
    for b in range(3):
        for j in range(4):
            parts = [Z[(batch == b) & (truth == c), j] for c in (0, 1)]
            F = stats.f_oneway(*parts)
            n = sum(part.size for part in parts)
            share = F.statistic / (F.statistic + n - 2)
            assert found.explained[b, j] == pytest.approx(share, rel=1e-6)
            assert found.supported[b, j] == (F.pvalue < 0.05 / 12)
    assert not found.one_batch.any()


def test_a_batch_that_could_not_have_seen_it_is_no_evidence():
    rng = np.random.default_rng(0)
    truth = np.arange(1000) % 2
    Z = rng.normal(size=(1000, 3)) + 8 * truth[:, None] * [1, 1, 0]
    Z[:, 2] += 0.6 * truth  # weak, and only large batches can see it
    for small, flagged in ((16, False), (500, True)):
        batch = np.zeros(1000, dtype=int)
        batch[:small] = 1
        data = Z.copy()
        data[batch == 1, 2] = rng.normal(size=small)
        found = support_of(data, truth, batch)
        assert found.supported[:, 2].tolist() == [True, False]
        assert found.one_batch.tolist() == [False, False, flagged]


@pytest.mark.parametrize("effect", thorough_params([0.6], [0.5, 0.8, 1.2]))
def test_genes_that_are_as_strong_in_all_batches_are_seldom_flagged(effect):
    """Where one of the two batches sees them by luck; in at most about 5 % of all data."""
    truth, batch = np.arange(300) % 3, (np.arange(300) % 5 == 0).astype(int)
    weight, flagged = np.array([1.0, 1.0] + 6 * [0.01]), []
    for seed in range(200):
        Z = np.random.default_rng(seed).normal(size=(300, 8))
        Z[:, 0] += 9 * (truth == 0)
        Z[:, 1] += 9 * (truth == 1)
        Z[:, 2:] += effect * (truth == 2)[:, None]
        support = feature_support(Z, np.diag(weight), Z * weight, truth, 3, batch, 2)
        flagged.append(support.one_batch.any())
    assert np.mean(flagged) < 0.08


def test_known_labels_stay_where_support_is_computed():
    rng = np.random.default_rng(0)
    truth, batch = np.repeat([0, 1], 60), np.arange(120) % 2
    Z = rng.normal(size=(120, 2))
    Z[:, 1] += 8 * truth
    # Without the second gene nothing tells the clusters apart, unless they are known.
    assert support_of(Z, truth, batch).explained[0, 1] < 0.5
    assert support_of(Z, truth, batch, known=truth).explained[0, 1] > 0.9


def test_many_samples_are_reported_from_some(monkeypatch, model):
    from ksparse import batched

    monkeypatch.setattr(batched, "MAX_SAMPLES", 90)
    few = KSparse(3, **FIT).fit(X, groups=DAY)
    assert np.array_equal(few.batch_mixing_["counts"], model.batch_mixing_["counts"])
    assert few.batch_support_["supported"].all()
    difference = few.batch_support_["explained"] - model.batch_support_["explained"]
    assert 0 < np.abs(difference).max() < 0.2


def test_of_many_features_those_of_largest_weight_are_looked_at(monkeypatch, model):
    from ksparse import batched

    monkeypatch.setattr(batched, "MAX_FEATURES", 10)
    few = KSparse(3, **FIT).fit(X, groups=DAY)
    seen = np.isfinite(few.batch_support_["explained"]).all(axis=0)
    weight = few.feature_importances_[few.get_support()]
    assert seen.sum() == 10
    assert weight[seen].min() >= weight[~seen].max()
    np.testing.assert_allclose(
        few.batch_support_["explained"][:, seen], model.batch_support_["explained"][:, seen]
    )


# AnnData --------------------------------------------------------------------------------------


def cells(seed=0):
    """Counts as logarithms, shifted by donor."""
    pytest.importorskip("anndata")
    adata = ks.simulate.simulate_counts(300, 200, 3, n_markers=40, random_state=seed).to_anndata()
    data = np.asarray(adata.X.toarray() if sp.issparse(adata.X) else adata.X, dtype=np.float64)
    data = np.log1p(1e4 * data / data.sum(axis=1, keepdims=True))
    rng = np.random.default_rng(seed)
    donor = rng.integers(0, 2, 300)
    adata.X = (data + 2 * rng.normal(size=(2, 200))[donor]).astype(np.float32)
    adata.obs["donor"] = np.array(["d1", "d2"])[donor]
    return adata


@pytest.fixture(scope="module")
def donors():
    adata = cells()
    ks.tl.ksparse(adata, 3, n_features=20, batch_key="donor", random_state=0)
    return adata


def test_anndata_has_batches(tmp_path, donors):
    anndata = pytest.importorskip("anndata")
    assert adjusted_rand_score(donors.obs["label"], donors.obs["ksparse"]) > 0.7
    assert adjusted_rand_score(donors.obs["donor"], donors.obs["ksparse"]) < 0.1
    assert donors.var["ksparse_one_batch"].dtype == bool
    donors.write_h5ad(tmp_path / "cells.h5ad")
    again = anndata.read_h5ad(tmp_path / "cells.h5ad")
    batches = read_batches(again, "ksparse", read_record(again, "ksparse"))
    assert batches.name == ["d1", "d2"]
    table = pd.crosstab(donors.obs["ksparse"], donors.obs["donor"])
    assert batches.mixing["counts"].tolist() == table.to_numpy().tolist()
    assert batches.support["explained"].shape == batches.means.shape == (2, 20)
    ks.tl.rank_genes(again)
    again.obs["ksparse"] = again.obs["ksparse"].cat.rename_categories({"0": "T"})
    page = page_content(write_report(again, tmp_path / "page.html"))
    (rows,) = [rows for title, rows in page["tables"] if title == "Clusters and batches (donor)"]
    assert [name for name, _ in rows] == ["T", "1", "2"]
    assert "of all cells" in rows[0][1]
    assert "centred within the batches of donor" in page["story"]


def test_contributions_do_not_come_from_batches():
    """A cluster of one donor is not marked by what is high in all cells of that donor."""
    adata = cells(1)
    first = adata.obs["label"].cat.codes.to_numpy() == 0
    few = first & (adata.obs["donor"] == "d2").to_numpy()
    adata = adata[~few].copy()
    ks.tl.ksparse(adata, 3, n_features=20, batch_key="donor", random_state=0)
    record = read_record(adata, "ksparse")
    batches = read_batches(adata, "ksparse", record)
    share = batches.mixing["counts"] / batches.mixing["counts"].sum(axis=1, keepdims=True)
    np.testing.assert_allclose(record.clusters.middle, share @ batches.means)
    centred_means = record.clusters.mean - record.clusters.middle
    points = (centred_means * record.model.scale) @ record.model.weights
    codes = adata.obs["ksparse"].cat.codes.to_numpy()
    expected = [adata.obsm["ksparse"][codes == c].mean(axis=0) for c in range(3)]
    np.testing.assert_allclose(points, expected, atol=1e-4)


def test_new_cells_are_placed_by_their_batch(donors):
    new = donors[:80].copy()
    ks.tl.predict(donors, new, key_added="placed")
    assert (new.obs["placed"].astype(str) == new.obs["ksparse"].astype(str)).all()
    new.obs["person"] = new.obs["donor"]
    del new.obs["donor"]
    ks.tl.predict(donors, new, batch_key="person", key_added="named")
    assert (new.obs["placed"].astype(str) == new.obs["named"].astype(str)).all()
    with pytest.warns(InputWarning, match="'donor' is not known for new_adata: the mean of all"):
        ks.tl.predict(donors, new, key_added="plain")
    new.obs["person"] = "d9"
    with pytest.warns(InputWarning, match=r"80 of 80 samples are of batches .* \('d9'\)"):
        ks.tl.predict(donors, new, batch_key="person", key_added="unknown")
    np.testing.assert_allclose(new.obsm["plain"], new.obsm["unknown"])
    with pytest.raises(InputError, match="batch_key='nothing' is not a column"):
        ks.tl.predict(donors, new, batch_key="nothing", key_added="other")
    some = donors[:80, 5:].copy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ks.tl.predict(donors, some, min_share=0.1, key_added="some")
    assert adjusted_rand_score(some.obs["some"], donors.obs["ksparse"][:80]) > 0.5


def test_cells_of_the_only_batch_need_no_column():
    """Its mean is that of all cells, so nothing is missing: no warning."""
    adata = cells()
    adata.obs["one"] = "all"
    ks.tl.ksparse(adata, 3, batch_key="one", n_features=20, init="spectral", random_state=0)
    new = adata[:80].copy()
    del new.obs["one"]
    ks.tl.predict(adata, new, key_added="placed")
    assert (new.obs["placed"].astype(str) == new.obs["ksparse"].astype(str)).all()


def test_a_model_with_names_places_cells_by_their_batch():
    adata = cells()
    frame = adata.to_df()
    model = KSparse(3, n_features=20, random_state=0).fit(frame, groups=adata.obs["donor"])
    new = adata[:50].copy()
    ks.tl.predict(model, new, batch_key="donor")
    assert (new.obs["ksparse"].astype(int) == model.labels_[:50]).all()
    plain = KSparse(3, n_features=20, random_state=0).fit(frame)
    with pytest.raises(InputError, match="batch_key='donor' was given, but model was fitted"):
        ks.tl.predict(plain, adata[:50].copy(), batch_key="donor")


def test_what_anndata_cannot_answer(donors):
    adata = cells()
    options = {"n_features": 20, "random_state": 0, "init": "spectral"}
    with pytest.raises(InputError, match="batch_key='day' is not a column"):
        ks.tl.ksparse(adata, 3, batch_key="day", **options)
    with pytest.raises(InputError, match="batch_key='ksparse' is where clusters are written"):
        ks.tl.ksparse(adata, 3, batch_key="ksparse", **options)
    with pytest.raises(InputError, match="calibrate=True and batch_key='donor' exclude"):
        ks.tl.ksparse(adata, 3, batch_key="donor", calibrate=True, **options)
    adata.obs.loc[adata.obs_names[:3], "donor"] = None
    with pytest.raises(InputError, match="batch_key='donor' is missing for 3 of 300 cells"):
        ks.tl.ksparse(adata, 3, batch_key="donor", **options)
    broken = donors.copy()
    broken.uns["ksparse_batches"]["means"] = broken.uns["ksparse_batches"]["means"][:1]
    with pytest.raises(InputError, match=r"ksparse_batches'\] is damaged"):
        ks.tl.predict(broken, donors.copy(), key_added="new")
    del broken.uns["ksparse_batches"]
    with pytest.raises(InputError, match=r"ksparse_batches'\] is missing: run"):
        ks.tl.predict(broken, donors.copy(), key_added="new")
    later = donors.copy()
    later.uns["ksparse_batches"]["version"] = 9
    with pytest.raises(InputError, match="of version 9, and this ksparse reads"):
        ks.tl.predict(later, donors.copy(), key_added="new")


def test_another_run_removes_the_batches(donors):
    adata = donors.copy()
    ks.tl.ksparse(adata, 3, n_features=20, init="spectral", random_state=0)
    assert "ksparse_batches" not in adata.uns
    assert "ksparse_one_batch" not in adata.var


def test_some_groups_of_cells_have_batches(donors):
    adata = donors.copy()
    options = {"n_features": 10, "init": "spectral", "random_state": 0}
    ks.tl.ksparse(adata, 2, restrict_to=("ksparse", ["0", "1"]), batch_key="donor", **options)
    clustered = adata.obs["ksparse_R_clustered"].to_numpy()
    batches = read_batches(adata, "ksparse_R", read_record(adata, "ksparse_R"))
    assert batches.mixing["counts"].sum() == clustered.sum()
    new = adata.copy()
    ks.tl.predict(adata, new, key="ksparse_R", key_added="again")
    assert (new.obs["again"].astype(str) == adata.obs["ksparse_R"].astype(str)).all()


def test_cells_that_are_not_clustered_may_be_of_other_batches(donors):
    adata = donors.copy()
    adata.obs["plate"] = np.where(adata.obs["ksparse"] == "2", "p3", adata.obs["donor"])
    n = int((adata.obs["ksparse"] == "2").sum())
    options = {"n_features": 10, "init": "spectral", "random_state": 0, "batch_key": "plate"}
    with pytest.warns(InputWarning, match=f"^{n} cells that are not clustered are of") as caught:
        ks.tl.ksparse(adata, 2, restrict_to=("ksparse", ["0", "1"]), **options)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    model = adata.uns["ksparse_R"]["model"]
    others = adata[adata.obs["ksparse"] == "2"]
    genes = np.asarray(others[:, model["genes"]].X, dtype=np.float64)
    expected = (genes - model["mean"]) * model["scale"] @ model["weights"]
    np.testing.assert_allclose(others.obsm["ksparse_R"], expected, atol=1e-4)


# The shell ------------------------------------------------------------------------------------


def rows_of(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_shell_takes_a_column_of_batches(tmp_path, capsys):
    anndata = pytest.importorskip("anndata")
    data, truth, _, batch = make_batches(shift=0.0, n_batches=2)
    batch[truth == 2] = 0
    data = data + 3 * np.random.default_rng(0).normal(size=(2, data.shape[1]))[batch]
    adata = anndata.AnnData(data.astype(np.float32))
    adata.obs["donor"] = np.array(["d1", "d2"])[batch]
    adata.write_h5ad(tmp_path / "cells.h5ad")
    words = ["run", str(tmp_path / "cells.h5ad"), "-k", "3", "--genes", "15"]
    words += ["--normalize", "none", "--batch-column", "donor", "-o", str(tmp_path / "out")]
    assert main(words) == 0
    table = rows_of(tmp_path / "out" / "batches.csv")
    assert [row["cluster"] for row in table] == ["0", "1", "2"]
    assert sum(int(row["cells_d1"]) + int(row["cells_d2"]) for row in table) == adata.n_obs
    genes = rows_of(tmp_path / "out" / "genes.csv")
    assert {"one_batch", "explained_d1", "explained_d2"} <= set(genes[0])
    run = json.loads((tmp_path / "out" / "run.json").read_text())
    assert "--batch-column donor" in run["command"]
    assert any("almost all of one batch" in note for note in run["notes"])
    notes = page_content(tmp_path / "out" / "report.html")["notes"]
    assert sum("almost all of one batch" in note for note in notes) == 1
    assert sum("supported by one batch only" in note for note in notes) == 1
    capsys.readouterr()
    words = ["predict", str(tmp_path / "out" / "result.h5ad"), str(tmp_path / "cells.h5ad")]
    assert main([*words, "-o", str(tmp_path / "placed")]) == 0
    placed, found = (rows_of(tmp_path / name / "clusters.csv") for name in ("placed", "out"))
    assert [row["cluster"] for row in placed] == [row["cluster"] for row in found]


def test_the_shell_places_cells_whose_batches_are_in_another_column(tmp_path, capsys):
    adata, result = cells(), tmp_path / "out" / "result.h5ad"
    adata.write_h5ad(tmp_path / "cells.h5ad")
    words = ["run", str(tmp_path / "cells.h5ad"), "-k", "3", "--genes", "15", "--normalize", "none"]
    assert main([*words, "--batch-column", "donor", "-o", str(tmp_path / "out")]) == 0
    adata.obs["person"] = adata.obs.pop("donor")
    adata.write_h5ad(tmp_path / "new.h5ad")
    words = ["predict", str(result), str(tmp_path / "new.h5ad")]
    capsys.readouterr()
    assert main([*words, "-o", str(tmp_path / "plain")]) == 0
    assert "'donor' is not known for INPUT" in (said := capsys.readouterr().err)
    assert "Give --batch-column." in said
    assert main([*words, "--batch-column", "person", "-o", str(tmp_path / "placed")]) == 0
    assert "warning" not in capsys.readouterr().err
    placed, found = (rows_of(tmp_path / name / "clusters.csv") for name in ("placed", "out"))
    assert [row["cluster"] for row in placed] == [row["cluster"] for row in found]
    run = json.loads((tmp_path / "placed" / "run.json").read_text())
    assert "--batch-column person" in run["command"]


def test_the_shell_reads_labels_batches_and_groups_from_a_table(tmp_path):
    adata = cells()[:150].copy()
    table = adata.to_df()
    table["donor"], table["type"] = adata.obs["donor"], np.array(["a", "b", "c"])[TRUTH[:150]]
    table["part"] = "all"
    table.to_csv(tmp_path / "cells.csv")
    words = ["run", str(tmp_path / "cells.csv"), "-k", "3", "--genes", "15", "--normalize", "none"]
    words += ["--label-column", "type", "--batch-column", "donor", "--restrict-to", "part=all"]
    assert main([*words, "-o", str(tmp_path / "out")]) == 0
    assert {"cells_d1", "cells_d2"} <= set(rows_of(tmp_path / "out" / "batches.csv")[0])
    assert set(rows_of(tmp_path / "out" / "clusters.csv")[0]) >= {"type"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-k", "auto"], "-k auto knows no batches"),
        (["-k", "3", "--path"], "--path knows no batches"),
        (["-k", "3", "--calibrate"], "--calibrate and --batch-column 'donor' exclude each other"),
        (["-k", "3", "--batch-column", "day"], "--batch-column 'day' is not a column"),
    ],
)
def test_the_shell_refuses_what_batches_cannot_do(tmp_path, capsys, words, message):
    adata = cells()[:50].copy()
    adata.write_h5ad(tmp_path / "cells.h5ad")
    command = ["run", str(tmp_path / "cells.h5ad"), "--batch-column", "donor", *words]
    assert main([*command, "-o", str(tmp_path / "out")]) != 0
    assert message in capsys.readouterr().err
