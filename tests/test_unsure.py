"""Samples that resemble no cluster: coverage, samples of other kinds, storage, files, the shell."""

from __future__ import annotations

import io
import json
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

import ksparse as ks
from conftest import ARRAY_KINDS, crossed, examples, seeds, thorough_params
from ksparse import KSparse
from ksparse._errors import InputError, InputWarning
from ksparse.core.conformal import Calibration, n_needed, p_values
from ksparse.normalise import log_normalise

FILES = Path(__file__).parent / "files"
SHARES = (0.5, 0.3, 0.16, 0.04)
LEVEL = 0.1


def draw(seed, n_samples, n_features=60, shift=4.0, tails=False):
    """Samples of four clusters of random sizes, one of them rare; returns X and labels."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(4, n_samples, p=SHARES)
    shape = (n_samples, n_features)
    X = rng.standard_t(4, size=shape) if tails else rng.normal(size=shape)
    for c in range(4):
        X[np.ix_(labels == c, range(5 * c, 5 * c + 5))] += shift
    return X, labels


def unseen(seed, n_samples, n_features=60, shift=4.0):
    """Samples of a fifth kind: raised in some features of two clusters."""
    X = np.random.default_rng(seed).normal(size=(n_samples, n_features))
    X[:, [0, 1, 5, 6]] += shift
    return X


def fitted(X, k=4, **options):
    given = {"n_features": 20, "init": "spectral", "random_state": 0}
    return KSparse(k, **(given | options)).fit(X)


def own_column(model, labels, new_labels):
    """The cluster of the class of each new sample."""
    clusters = [np.bincount(model.labels_[labels == c], minlength=4).argmax() for c in range(4)]
    assert sorted(clusters) == [0, 1, 2, 3]
    return np.array(clusters)[new_labels]


@pytest.fixture(scope="module")
def data():
    return draw(0, 600)


@pytest.fixture(scope="module")
def model(data):
    return fitted(data[0]).calibrate(data[0], n_features=20)


# Coverage ------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", thorough_params([0.1], [0.05, 0.3]))
@pytest.mark.parametrize("tails", thorough_params([False], [True]))
@pytest.mark.parametrize("shift", thorough_params([4.0], [2.5]))
@pytest.mark.parametrize("targets", thorough_params(["embedding"], ["balanced"]))
def test_sets_hold_the_cluster_as_often_as_promised(alpha, tails, shift, targets):
    """The mean over calibrations, which are random, too; of every cluster by itself."""
    n_seeds, held = examples(4, 16), []
    for seed in range(n_seeds):
        X, labels = draw(seed, 1500, shift=shift, tails=tails)
        new, new_labels = draw(1000 + seed, 5000, shift=shift, tails=tails)
        model = fitted(X, init=labels, max_loops=1, targets=targets).calibrate(X)
        own = own_column(model, labels, new_labels)
        inside = model.predict_set(new, alpha)[np.arange(own.size), own]
        held.append([inside.mean(), *(inside[new_labels == c].mean() for c in range(4))])
    every, *by_class = np.mean(held, axis=0)
    assert every == pytest.approx(1 - alpha, abs=0.02)
    # The sizes of the clusters bound how exact their own coverage can be.
    sizes = 1500 * n_seeds * np.array(SHARES)
    error = np.sqrt(alpha * (1 - alpha) / sizes)
    excess = np.array(by_class) - (1 - alpha)
    assert (excess > -0.02 - 3 * error).all()
    # Balanced targets: in heavy tails the sets may hold a rare cluster more often (95 % of 90 %).
    checked = slice(None) if targets == "embedding" or not tails else slice(3)
    assert (excess < 0.02 + 3 * error)[checked].all()
    assert min(by_class) > 1 - alpha - 0.02 - 2 * error.max()


@pytest.mark.parametrize("seed", seeds(1, 8))
def test_noise_features_do_not_make_sets_too_small(seed):
    """Features are selected anew without the samples that are scored; else noise would fit them."""
    X, labels = draw(seed, 400, 2000)
    new, new_labels = draw(1000 + seed, 2000, 2000)
    model = fitted(X, n_features=60, init=labels, max_loops=1).calibrate(X)
    own = own_column(model, labels, new_labels)
    inside = model.predict_set(new, LEVEL)[np.arange(own.size), own]
    assert inside.mean() > 1 - LEVEL - 0.05  # 400 samples: the calibration itself is random
    # There are about 16 samples in the rare cluster: little is far from it for certain.
    assert (model.predict(unseen(seed, 200, 2000), unassigned=LEVEL) == -1).mean() > 0.7


def test_p_values_are_what_they_say(data):
    """Of new samples of a cluster, a share alpha at most has a p-value <= alpha, for any alpha."""
    new, new_labels = draw(7, 4000)
    own = own_column(model := fitted(data[0]).calibrate(data[0]), data[1], new_labels)
    p = model.predict_p_values(new)
    assert p.shape == (4000, 4)
    assert (p > 0).all()
    assert (p <= 1).all()
    mine = p[np.arange(4000), own]
    for alpha in (0.05, 0.1, 0.2, 0.5):
        assert (mine <= alpha).mean() == pytest.approx(alpha, abs=0.04)


# Other kinds of samples ----------------------------------------------------------------------


def test_samples_of_another_kind_are_unassigned(model):
    new, _ = draw(5, 2000)
    before, after = model.predict(new), model.predict(new, unassigned=LEVEL)
    assert before.dtype == after.dtype == np.int32
    assert (after[after >= 0] == before[after >= 0]).all()
    assert (after == -1).mean() == pytest.approx(LEVEL, abs=0.04)
    assert (model.predict(unseen(1, 500), unassigned=LEVEL) == -1).mean() > 0.9
    assert (after == -1).tolist() == (~model.predict_set(new, LEVEL).any(axis=1)).tolist()


def test_more_features_see_more_kinds(data):
    """A kind that differs where the clusters do not is seen by features that do not tell them."""
    X, model = data[0], fitted(data[0], n_features=8)
    new = draw(3, 300)[0]
    new[:, 30:40] += 6  # nothing that the clusters have
    few = (model.calibrate(X, n_features=None).predict(new, unassigned=LEVEL) == -1).mean()
    assert model.calibration_["features"].shape == (5, 8)
    all_of_them = model.calibrate(X)
    assert (all_of_them.predict(new, unassigned=LEVEL) == -1).mean() > 0.95 > few


@pytest.mark.parametrize("line", thorough_params(["H838"], ["A549", "H1975", "H2228", "HCC827"]))
def test_cells_of_a_line_that_was_left_out(data_folder, line):
    anndata = pytest.importorskip("anndata")
    adata = anndata.read_h5ad(data_folder / "mix_sc_celseq2_5cl.h5ad")
    X, lines = sp.csr_matrix(log_normalise(adata.X)), adata.obs["label"].astype(str).to_numpy()
    held_out = np.random.default_rng(0).random(len(lines)) < 0.2
    train, test = (lines != line) & ~held_out, (lines != line) & held_out
    model = KSparse(4, init="graph+dense", random_state=0).fit(X[train]).calibrate(X[train])
    assert (model.predict(X[lines == line], unassigned=LEVEL) == -1).mean() > 0.8
    assert (model.predict(X[test], unassigned=LEVEL) == -1).mean() < LEVEL + 0.07


@pytest.mark.thorough
def test_sets_of_held_out_cells_hold_their_line_as_often_as_promised(data_folder):
    anndata = pytest.importorskip("anndata")
    adata = anndata.read_h5ad(data_folder / "mix_sc_celseq2_5cl.h5ad")
    X = sp.csr_matrix(log_normalise(adata.X))
    lines = np.unique(adata.obs["label"].astype(str), return_inverse=True)[1]
    alphas, held = (0.05, 0.1, 0.2), []
    for seed in range(8):
        train = np.random.default_rng(seed).random(lines.size) < 0.5
        model = KSparse(5, n_features=50, init="spectral", random_state=0).fit(X[train])
        p = model.calibrate(X[train]).predict_p_values(X[~train])
        clusters = [np.bincount(model.labels_[lines[train] == c]).argmax() for c in range(5)]
        own = p[np.arange(len(p)), np.array(clusters)[lines[~train]]]
        held.append([(own > alpha).mean() for alpha in alphas])
    assert np.mean(held, axis=0) == pytest.approx(1 - np.array(alphas), abs=0.02)


# Exactness -----------------------------------------------------------------------------------


@settings(max_examples=examples(20, 200), deadline=None)
@given(st.floats(0.05, 0.99), st.floats(0.05, 0.99))
def test_sets_are_nested(model, one, other):
    new = np.vstack([draw(2, 100)[0], unseen(2, 50)])
    smaller, larger = (model.predict_set(new, a) for a in sorted((one, other), reverse=True))
    assert (smaller <= larger).all()
    assert (model.predict_set(new, one) == (model.predict_p_values(new) > one)).all()


@pytest.mark.parametrize(("kind", "dtype"), crossed(list(ARRAY_KINDS), [np.float32, np.float64]))
def test_storage_changes_nothing(data, kind, dtype):
    X = np.where(np.abs(data[0]) < 0.3, 0, data[0])
    new = np.where(np.abs(draw(9, 300)[0]) < 0.3, 0, draw(9, 300)[0])
    expected = fitted(X).calibrate(X).predict_p_values(new)
    contained = ARRAY_KINDS[kind](X.astype(dtype))
    found = fitted(contained).calibrate(contained)
    p = found.predict_p_values(ARRAY_KINDS[kind](new.astype(dtype)))
    np.testing.assert_allclose(p, expected, atol=1e-12 if dtype == np.float64 else 0.02)


def test_blocks_give_what_memory_gives(data, model, tmp_path):
    h5py = pytest.importorskip("h5py")
    X, new = data[0], np.vstack([draw(9, 300)[0], unseen(1, 30)])
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["X"], file["new"], bad = X, new, new.copy()
        bad[200, int(np.unique(model.calibration_["features"])[0])] = np.nan
        file["bad"] = bad
        blocks = fitted(X, memory_limit=50_000).calibrate(file["X"], n_features=20)
        np.testing.assert_allclose(
            blocks.predict_p_values(file["new"]), model.predict_p_values(new), atol=1e-12
        )
        assert np.array_equal(blocks.predict(file["new"], 0.1), model.predict(new, 0.1))
        with pytest.raises(InputError, match="X contains NaN or infinity"):
            blocks.predict_p_values(file["bad"])


@pytest.mark.parametrize("scheduler", thorough_params(["threads"], ["processes"]))
def test_dask_arrays_give_what_memory_gives(data, model, scheduler):
    dask, array = pytest.importorskip("dask"), pytest.importorskip("dask.array")
    X, new = data[0], np.vstack([draw(9, 300)[0], unseen(1, 30)])
    with dask.config.set(scheduler=scheduler):
        lazy = array.from_array(X, chunks=(250, 60))
        p = (
            fitted(lazy)
            .calibrate(lazy, n_features=20)
            .predict_p_values(array.from_array(new, chunks=(200, 60)))
        )
    np.testing.assert_allclose(p, model.predict_p_values(new), atol=1e-12)


@pytest.mark.parametrize("options", [{"scale": True}, {"center": False}, {"eta": 3.0},
                                     {"n_features": 3}, {"selector": "forward"}])  # fmt: skip
def test_any_fit_can_be_calibrated(data, options):
    """The unit and the order of features are without influence, too."""
    X, new = data[0], np.vstack([draw(9, 300)[0], unseen(1, 30)])
    options = {"n_features": "auto" if "eta" in options else 20, **options}
    p = fitted(X, **options).calibrate(X).predict_p_values(new)
    assert (p[:300].max(axis=1) <= LEVEL).mean() == pytest.approx(LEVEL, abs=0.07)
    assert (p[300:] <= LEVEL).all(axis=1).mean() > 0.6
    unit = 2.0**40
    if "eta" not in options:
        changed = fitted(X * unit, **options).calibrate(X * unit)
        np.testing.assert_allclose(changed.predict_p_values(new * unit), p, atol=0.01)


def test_samples_without_weight_have_no_part(data):
    X, _ = data
    weight = np.where(np.arange(len(X)) % 5 == 0, 0.0, 1.0)
    spoiled = X.copy()
    spoiled[weight == 0] += 100
    new = draw(9, 300)[0]
    part = X[weight > 0]
    p = [fitted(part).calibrate(part).predict_p_values(new)]
    given = {"n_features": 20, "init": "spectral", "random_state": 0}
    for x in (X, spoiled):
        model = KSparse(4, **given).fit(x, sample_weight=weight)
        p.append(model.calibrate(x, weight).predict_p_values(new))
        assert model.calibration_["scores"].size == (weight > 0).sum()
    np.testing.assert_allclose(p[0], p[1], atol=1e-9)
    np.testing.assert_allclose(p[0], p[2], atol=1e-9)


def test_what_is_calibrated_is_the_same_every_time(data, model):
    again = fitted(data[0]).calibrate(data[0], n_features=20)
    for name, value in model.calibration_.items():
        np.testing.assert_array_equal(again.calibration_[name], value)
    assert np.array_equal(again.fit(data[0]).labels_, model.labels_)
    assert not hasattr(again, "calibration_")  # it was that of the earlier fit


def test_of_many_samples_some_are_used(monkeypatch, data):
    X, labels = draw(0, 1500)
    monkeypatch.setattr("ksparse.search.folds.MAX_SAMPLES", 300)
    model = fitted(X).calibrate(X)
    sizes = np.bincount(model.calibration_["cluster"])
    rare = np.bincount(model.labels_).min()
    assert sizes.tolist()[-1] == rare  # all of the rare cluster
    assert 290 <= sizes.sum() <= 300
    new, new_labels = draw(8, 3000)
    own = own_column(model, labels, new_labels)
    inside = model.predict_set(new, LEVEL)[np.arange(own.size), own]
    assert inside.mean() == pytest.approx(0.9, abs=0.05)


# Small clusters ------------------------------------------------------------------------------


@pytest.mark.parametrize(("alpha", "n"), [(0.1, 9), (0.05, 19), (0.5, 1), (0.3, 3), (1 / 3, 2)])
def test_how_many_samples_a_level_needs(alpha, n):
    assert n_needed(alpha) == n
    assert 1 / (n + 1) <= alpha < 1 / n


def test_clusters_that_are_too_small_are_in_every_set_and_counted():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(106, 30))
    X[:50, :5] += 6
    X[50:100, 5:10] += 6
    X[100:, 10:15] += 9
    model = fitted(X, 3, n_features=15).calibrate(X, n_features=15)
    assert np.bincount(model.labels_).min() == 6
    far = rng.normal(size=(20, 30)) - 30
    message = r"^1 of 3 clusters have fewer calibration samples \(at least 6\) than the 9 that .*"
    with pytest.warns(InputWarning, match=message + "alpha=0.1") as caught:
        sets = model.predict_set(far)
    assert [Path(one.filename).name for one in caught] == ["test_unsure.py"]
    assert sets.tolist() == [[False, False, True]] * 20
    with pytest.warns(InputWarning, match=message + "unassigned=0.1") as caught:
        assert (model.predict(far, unassigned=0.1) >= 0).all()
    assert [Path(one.filename).name for one in caught] == ["test_unsure.py"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not model.predict_set(far, 0.2).any()
        assert (model.predict(far, unassigned=0.2) == -1).all()


def test_a_cluster_of_one_sample_and_equal_samples():
    X = np.vstack([np.repeat(np.eye(3, 12), 15, axis=0) * 5, -9 * np.ones((1, 12))])
    model = KSparse(4, n_features=4, init=np.repeat(range(4), [15, 15, 15, 1]), max_loops=1,
                    min_cluster_size=1, random_state=0).fit(X)  # fmt: skip
    p = model.calibrate(X).predict_p_values(np.vstack([X, X[:1] + 1]))
    assert np.isfinite(p).all()
    assert (p[np.arange(46), model.labels_] > LEVEL).all()
    assert (p[-1, :3] <= LEVEL).all()


# Mistakes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [0, 1, -0.1, 1.5, np.nan, np.inf, "0.1", True, [0.1], None])
def test_bad_levels_are_named(model, value):
    new = draw(1, 5)[0]
    with pytest.raises(InputError, match="^alpha=.* must be a number between 0 and 1"):
        model.predict_set(new, value)
    if value is not None:
        with pytest.raises(InputError, match="^unassigned=.* must be a number between 0 and 1"):
            model.predict(new, unassigned=value)


def test_a_model_without_calibration_says_what_to_do(data):
    model = fitted(data[0])
    for call in (
        lambda: model.predict(data[0], unassigned=0.1),
        lambda: model.predict_set(data[0]),
        lambda: model.predict_p_values(data[0]),
    ):
        with pytest.raises(InputError, match=r"needs a calibration.*calibrate\(X\).*fit again"):
            call()
    with pytest.raises(NotFittedError):
        KSparse(3).predict_set(data[0])


def test_other_data_are_not_taken_for_those_that_were_fitted(data, model):
    X = data[0]
    with pytest.raises(InputError, match="X has 599 samples, but 600 were fitted"):
        fitted(X).calibrate(X[1:])
    with pytest.raises(InputError, match=r"X is not what was fitted: \d+ of 600 samples"):
        fitted(X).calibrate(X[::-1])
    with pytest.raises(InputError, match="n_features=0 must be"):
        fitted(X).calibrate(X, n_features=0)
    with pytest.raises(InputError, match="sample_weight"):
        fitted(X).calibrate(X, np.ones(5))
    with pytest.raises(InputError, match="NaN"):
        model.predict_set(np.full((2, 60), np.nan))


def test_known_labels_can_be_calibrated(data):
    X, labels = data
    known = np.where(np.arange(600) < 300, labels.astype(object), None)
    known[:3] = (labels[:3] + 1) % 4  # some are wrong, and stay
    model = KSparse(4, n_features=20, init="spectral").fit(X, known_labels=known).calibrate(X)
    assert (model.predict(unseen(1, 100), unassigned=0.1) == -1).mean() > 0.9
    with pytest.raises(InputError, match="X is not what was fitted: the means of its samples"):
        model.calibrate(X[::-1])


def test_known_labels_that_contradict_the_data_can_be_calibrated(data):
    """Then many samples are nearer to another cluster, but the data are those of the fit."""
    X, labels = data
    known = np.random.default_rng(0).permutation(labels).astype(object)
    known[100:] = None
    weight = np.random.default_rng(1).integers(0, 3, 600)
    weight[:100] = 1
    model = KSparse(4, n_features=20, init="spectral")
    for mass in (None, weight):
        model.fit(X, known_labels=known, sample_weight=mass).calibrate(X, mass)
        assert model.calibration_["scores"].size == (600 if mass is None else (weight > 0).sum())


# Files ---------------------------------------------------------------------------------------


def test_a_saved_calibration_predicts_the_same(model, tmp_path):
    model.save(tmp_path / "m")
    loaded, new = ks.load(tmp_path / "m"), draw(4, 200)[0]
    assert loaded.predict_p_values(new).tobytes() == model.predict_p_values(new).tobytes()
    assert np.array_equal(loaded.predict(new, unassigned=0.1), model.predict(new, unassigned=0.1))
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "m").read_bytes()


def old_models():
    return sorted(FILES.glob("*.ksparse"))


@pytest.mark.parametrize("path", old_models(), ids=lambda path: path.name)
def test_models_of_earlier_versions_say_to_fit_again(path):
    model = ks.load(path)
    X = np.zeros((2, model.n_features_in_))
    with pytest.raises(InputError, match="unassigned needs a calibration.*fit again"):
        if hasattr(model, "feature_names_in_"):
            pandas = pytest.importorskip("pandas")
            X = pandas.DataFrame(X, columns=model.feature_names_in_)
        model.predict(X, unassigned=0.1)


def array_bytes(value):
    out = io.BytesIO()
    np.lib.format.write_array(out, np.asarray(value), allow_pickle=False)
    return out.getvalue()


DAMAGES = {
    "features": lambda v: v + 60,
    "mean": lambda v: v * np.nan,
    "axes": lambda v: v[:, :, :-1],
    "centres": lambda v: v[:, :-1],
    "units": lambda v: v * 0,
    "scores": lambda v: v[:-1],
    "fold": lambda v: v + 5,
    "cluster": lambda v: v - 9,
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_calibrations_are_refused(model, tmp_path, name):
    model.save(tmp_path / "m")
    with zipfile.ZipFile(tmp_path / "m") as archive:
        parts = {member: archive.read(member) for member in archive.namelist()}
    damaged = DAMAGES[name](model.calibration_[name])
    parts[f"fitted/calibration_/{name}.npy"] = array_bytes(damaged)
    with zipfile.ZipFile(tmp_path / "bad", "w") as archive:
        for member, content in parts.items():
            archive.writestr(member, content)
    with pytest.raises(InputError, match=r"bad is damaged \(calibration_\..*: save the model"):
        ks.load(tmp_path / "bad")


# AnnData and the shell -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def three_types():
    """Counts of 240 cells of three types that differ clearly, as AnnData."""
    pytest.importorskip("anndata")
    given = {"n_markers": 30, "fold_change": 3.0, "random_state": 0}
    return ks.simulate.simulate_counts(240, 300, 3, **given).to_anndata()


@pytest.fixture(scope="module")
def cells(three_types):
    """Cells of two types with a calibrated result, and all cells, which have a third type."""
    known = three_types[(three_types.obs["label"] != "type 2") & (np.arange(240) < 200)].copy()
    ks.tl.ksparse(known, 2, n_features=12, normalize="log1p", random_state=0, calibrate=True)
    return known, three_types.copy()


def test_new_cells_of_another_type(cells, tmp_path):
    anndata = pytest.importorskip("anndata")
    known, new = cells
    placed = ks.tl.predict(known, new, unassigned=LEVEL, copy=True)
    plain = ks.tl.predict(known, new, copy=True)
    column = placed.obs["ksparse"]
    assert column.cat.categories.tolist() == ["0", "1", "unassigned"]
    lost = column == "unassigned"
    assert lost[new.obs["label"] == "type 2"].mean() > 0.9
    assert (column[~lost].astype(str) == plain.obs["ksparse"][~lost].astype(str)).all()
    p = placed.obsm["ksparse_p_values"]
    assert p.shape == (240, 2)
    assert ((p > LEVEL).sum(axis=1) == placed.obs["ksparse_set_size"]).all()
    assert ((placed.obs["ksparse_set_size"] == 0) == lost).all()
    assert "ksparse_p_values" not in plain.obsm
    np.testing.assert_array_equal(placed.obs["ksparse_margin"], plain.obs["ksparse_margin"])
    # The same from a file, with genes in another order; an older result makes room.
    known.write_h5ad(tmp_path / "known.h5ad")
    placed.write_h5ad(tmp_path / "placed.h5ad")
    shuffled = new[:, np.random.default_rng(0).permutation(new.n_vars)].copy()
    ks.tl.predict(anndata.read_h5ad(tmp_path / "known.h5ad"), shuffled, unassigned=LEVEL)
    np.testing.assert_allclose(shuffled.obsm["ksparse_p_values"], p)
    ks.tl.predict(known, placed)
    assert "ksparse_p_values" not in placed.obsm
    assert "ksparse_set_size" not in placed.obs


def test_the_tool_says_what_the_estimator_says(cells):
    pandas = pytest.importorskip("pandas")
    known, new = cells
    X, Y = (
        pandas.DataFrame(log_normalise(a.X).toarray(), columns=a.var_names) for a in (known, new)
    )
    model = KSparse(2, n_features=12, random_state=0).fit(X).calibrate(X)
    placed = ks.tl.predict(known, new, unassigned=LEVEL, copy=True)
    np.testing.assert_allclose(placed.obsm["ksparse_p_values"], model.predict_p_values(Y))
    logged = new.copy()
    logged.X = log_normalise(new.X)
    ks.tl.predict(model, logged, unassigned=LEVEL)
    np.testing.assert_allclose(logged.obsm["ksparse_p_values"], model.predict_p_values(Y))


def test_missing_genes_are_named_and_have_their_mean(cells):
    known, new = cells
    used = known.uns["ksparse_calibration"]["genes"]
    extra = [gene for gene in used if gene not in known.uns["ksparse"]["model"]["genes"]]
    without = new[:, ~new.var_names.isin(extra[:3])].copy()
    ks.tl.predict(known, without, copy=True)  # without `unassigned` they are not needed
    with pytest.warns(InputWarning, match="lacks 3 of the .* genes"):
        ks.tl.predict(known, without, unassigned=LEVEL)
    lost = without.obs["ksparse"] == "unassigned"
    assert lost[new.obs["label"].to_numpy() == "type 2"].mean() > 0.8
    few = new[:, ~new.var_names.isin(extra)].copy()
    with pytest.raises(InputError, match="fewer than min_share=0.8 of them"):
        ks.tl.predict(known, few, unassigned=LEVEL)


def test_samples_without_any_gene_of_the_calibration_are_equal(model):
    p = p_values(np.empty((2, 0)), np.empty(0, dtype=int), Calibration(**model.calibration_))
    assert (p > 0).all()
    assert (p[0] == p[1]).all()


def test_results_without_calibration_and_bad_levels(cells, clustered, simulated):
    known, new = cells
    with pytest.raises(InputError, match="needs a calibration.*calibrate=True"):
        ks.tl.predict(clustered, simulated.copy(), unassigned=LEVEL, key_added="x")
    with pytest.raises(InputError, match="^unassigned=2 must be a number between 0 and 1"):
        ks.tl.predict(known, new.copy(), unassigned=2)
    again = ks.tl.ksparse(known, 2, n_features=12, normalize="log1p", init="spectral", copy=True)
    assert "ksparse_calibration" not in again.uns  # not that of the older result


@pytest.mark.parametrize("name", ["genes", "version", "encoding", *DAMAGES])
def test_damaged_records_are_refused(cells, name):
    known, new = cells
    damaged = known.copy()
    stored = damaged.uns["ksparse_calibration"] = dict(known.uns["ksparse_calibration"])
    others = {"genes": stored["genes"][:-1], "version": 0, "encoding": "x"}
    changed = DAMAGES[name](stored[name]) if name in DAMAGES else others[name]
    stored[name] = changed + 10**4 if name == "features" else changed
    with pytest.raises(InputError, match=r"uns\['ksparse_calibration'\] is damaged"):
        ks.tl.predict(damaged, new.copy(), unassigned=LEVEL)
    del stored[name]
    with pytest.raises(InputError, match=r"uns\['ksparse_calibration'\] is (damaged|not complete)"):
        ks.tl.predict(damaged, new.copy(), unassigned=LEVEL)
    damaged.uns["ksparse_calibration"] = known.uns["ksparse_calibration"] | {"version": 2}
    with pytest.raises(InputError, match="version 2, and this ksparse reads versions up to 1"):
        ks.tl.predict(damaged, new.copy(), unassigned=LEVEL)


def test_restricted_results_and_a_class_of_that_name(three_types):
    part = three_types[:200].copy()
    part.obs["group"] = np.where(part.obs["label"] == "type 2", "others", "some")
    options = {"n_features": 12, "normalize": "log1p", "init": "spectral", "random_state": 0}
    ks.tl.ksparse(part, 2, restrict_to=("group", "some"), calibrate=True, **options)
    new = three_types.copy()
    new.obs["group"] = np.where(np.arange(240) < 120, "some", "others")
    ks.tl.predict(part, new, key="ksparse_R", unassigned=LEVEL)
    assert "some,unassigned" in new.obs["ksparse_R"].cat.categories
    lost = (new.obs["ksparse_R"] == "some,unassigned").to_numpy()
    assert not lost[120:].any()
    assert lost[:120][(new.obs["label"] == "type 2").to_numpy()[:120]].mean() > 0.9
    assert np.isnan(new.obsm["ksparse_R_p_values"][120:]).all()
    assert new.obs["ksparse_R_set_size"][120:].isna().all()  # not 0: they are no cells without set
    assert ((new.obs["ksparse_R_set_size"] == 0) == lost).all()
    named = three_types.copy()
    named.obs["type"] = named.obs["label"].astype(str).replace("type 0", "unassigned")
    ks.tl.ksparse(named, 3, known_labels="type", calibrate=True, **options)
    placed = three_types.copy()
    ks.tl.predict(named, placed, unassigned=0.3)
    assert {"unassigned", "unassigned_"} < set(placed.obs["ksparse"].cat.categories)


def test_the_command_line_leaves_the_sets_of_other_cells_empty(three_types, tmp_path):
    pytest.importorskip("click")
    from ksparse.cli import main

    adata = three_types.copy()
    adata.obs["group"] = np.where(adata.obs["label"] == "type 2", "others", "some")
    adata.write_h5ad(tmp_path / "cells.h5ad")
    words = ["run", str(tmp_path / "cells.h5ad"), "-k", "2", "--genes", "12", "--no-check"]
    words += ["--restrict-to", "group=some", "--calibrate", "-o", str(tmp_path / "out")]
    assert main(words) == 0
    words = ["predict", str(tmp_path / "out" / "result.h5ad"), str(tmp_path / "cells.h5ad")]
    words += ["--no-check", "--unassigned", "0.1", "-o", str(tmp_path / "placed")]
    assert main(words) == 0
    rows = (tmp_path / "placed" / "clusters.csv").read_text().splitlines()[1:]
    size = np.array([row.split(",")[-1] for row in rows])
    others = (adata.obs["group"] == "others").to_numpy()
    assert (size[others] == "").all()
    assert set(size[~others]) <= {"0", "1", "2"}


def test_the_command_line(cells, tmp_path, capsys):
    pytest.importorskip("click")
    from ksparse.cli import main

    known, new = cells
    known = known.copy()
    for name in ("ksparse", "ksparse_calibration"):
        del known.uns[name]
    known.write_h5ad(tmp_path / "known.h5ad")
    new.write_h5ad(tmp_path / "new.h5ad")
    run = ["run", str(tmp_path / "known.h5ad"), "-k", "2", "--genes", "12", "--no-check"]
    assert main([*run, "--calibrate", "-o", str(tmp_path / "out")]) == 0
    assert "--calibrate" in json.loads((tmp_path / "out" / "run.json").read_text())["command"]
    place = ["predict", str(tmp_path / "out" / "result.h5ad"), str(tmp_path / "new.h5ad"),
             "--no-check", "--unassigned"]  # fmt: skip
    assert main([*place, "0.1", "-o", str(tmp_path / "placed")]) == 0
    header, *rows = (tmp_path / "placed" / "clusters.csv").read_text().splitlines()
    assert header == "cell,cluster,margin,set_size"
    assert sum(",unassigned," in row for row in rows) > 40
    assert (
        "--unassigned 0.1" in json.loads((tmp_path / "placed" / "run.json").read_text())["command"]
    )
    capsys.readouterr()
    assert main([*place, "1.5", "-o", str(tmp_path / "no")]) == 2
    assert main([*run, "-o", str(tmp_path / "out"), "--force"]) == 0
    capsys.readouterr()
    assert main([*place, "0.1", "-o", str(tmp_path / "no")]) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert "--unassigned 0.1 needs a calibration" in line
    assert "run `ksparse run --calibrate` again" in line
    assert not (tmp_path / "no").exists()
