"""Simulated counts, their normalisation, and files that appear whole or not at all."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest
import scipy.sparse as sp

from ksparse import simulate
from ksparse.cli._signals import held_signals
from ksparse.io.files import new_file
from ksparse.normalise import log_normalise, looks_like_counts, summarise_values


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_wait_until_files_are_in_their_place(number):
    came = []
    before = signal.signal(number, lambda *which: came.append(which[0]))
    try:
        with held_signals():
            signal.raise_signal(number)
            assert came == []
        assert came == [number]
        assert signal.getsignal(number) is not before
    finally:
        signal.signal(number, before)


class Flaky:
    """A file one of whose methods fails from some call on."""

    def __init__(self, file, method, call, error):
        self.file, self.method, self.left, self.error = file, method, call, error

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()

    def __getattr__(self, name):
        action = getattr(self.file, name)

        def flaky(*values):
            self.left -= 1
            if self.left < 0:
                raise self.error("stop")
            return action(*values)

        return flaky if name == self.method else action


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError, MemoryError])
@pytest.mark.parametrize("call", [0, 1, 2, 5, 12, 30, 60, 100])
@pytest.mark.parametrize("method", ["write", "seek", "truncate", "flush"])
def test_an_error_anywhere_in_writing_hdf5_leaves_no_file(
    tmp_path, monkeypatch, simulated, method, call, error
):
    from ksparse.io import h5ad

    made = []

    def open_flaky(path):
        made.append(Flaky(path.open("w+b", buffering=0), method, call, error))
        return made[0]

    monkeypatch.setattr(h5ad, "_open", open_flaky)
    path = tmp_path / "out.h5ad"
    try:
        h5ad.write_h5ad(path, simulated)
    except error:
        assert made[0].left < 0
        assert not list(tmp_path.iterdir())
    else:  # it was not called so often: then all must be well
        assert made[0].left >= 0
        assert abs(pytest.importorskip("anndata").read_h5ad(path).X - simulated.X).sum() == 0


def test_an_interrupt_while_writing_hdf5_is_raised_when_the_file_is_closed(
    tmp_path, monkeypatch, simulated
):
    from ksparse.io import h5ad

    real, done = h5ad._write, []

    def interrupted(file, adata):
        os.kill(os.getpid(), signal.SIGINT)
        real(file, adata)
        done.append(file)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    monkeypatch.setattr(h5ad, "_write", interrupted)
    try:
        with pytest.raises(KeyboardInterrupt):
            h5ad.write_h5ad(tmp_path / "out.h5ad", simulated)
    finally:
        signal.signal(signal.SIGINT, before)
    assert done[0].error is None
    assert not list(tmp_path.iterdir())


def test_a_missing_folder_is_named(tmp_path):
    path = tmp_path / "no" / "out.txt"
    with pytest.raises(FileNotFoundError, match="there is no folder"), new_file(path):
        pass


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    path = tmp_path / "out.txt"
    path.write_text("old")
    with pytest.raises(RuntimeError), new_file(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert path.read_text() == "old"
    with new_file(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("seed", range(3))
def test_simulated_counts_are_counts_with_the_truth_beside_them(seed):
    data = simulate.simulate_counts(300, 400, 5, n_markers=10, random_state=seed)
    again = simulate.simulate_counts(300, 400, 5, n_markers=10, random_state=seed)
    counts = data.counts.toarray()
    np.testing.assert_array_equal(counts, again.counts.toarray())
    assert (counts == np.round(counts)).all()
    assert counts.min() == 0
    assert 0.3 < (counts == 0).mean() < 0.8
    sizes = np.bincount(data.labels)
    assert len(sizes) == 5
    assert sizes.min() > 0
    assert data.markers.sum() == 50
    means = np.array([counts[data.labels == c].mean(axis=0) for c in range(5)])
    spread = means.std(axis=0) / means.mean(axis=0)
    assert spread[data.markers].mean() > 2 * spread[~data.markers].mean()


@pytest.mark.parametrize(
    ("counts", "part"),
    [
        ([[1, -2]], "1 negative values"),
        ([[1, np.nan]], "NaN"),
        ([1, 2], "2D"),
        ([["a"]], "convert"),
    ],
)
def test_what_is_not_counts_is_not_normalised(counts, part):
    with pytest.raises(ValueError, match=part):
        simulate.log_normalise(counts)


@pytest.mark.parametrize(
    ("sizes", "options", "part"),
    [
        ((3, 50, 4), {}, "n_samples=3"),
        ((100, 50, 4), {"n_markers": 20}, "n_features=50"),
        ((100, 500, 4), {"zeros": 1.0}, "zeros=1.0"),
    ],
)
def test_impossible_simulations_are_refused(sizes, options, part):
    with pytest.raises(ValueError, match=part):
        simulate.simulate_counts(*sizes, **options)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_normalised_counts_are_log1p_of_counts_per_10000(array_kind, dtype):
    counts = np.random.default_rng(0).poisson(2.0, size=(20, 30)).astype(dtype)
    given = array_kind(counts)
    before = given.copy()
    out = log_normalise(given)
    dense = out.toarray() if sp.issparse(out) else out
    assert sp.issparse(out) == sp.issparse(given)
    assert out.dtype == np.float32
    expected = np.log1p(counts / counts.sum(axis=1, keepdims=True) * 1e4)
    np.testing.assert_allclose(dense, expected, rtol=1e-5)
    assert abs(given - before).sum() == 0  # the user's data are not touched


def test_entries_that_are_stored_twice_are_counted_together():
    twice = sp.csr_array(
        (np.array([1.0, 2, 5]), np.array([0, 0, 1]), np.array([0, 3])), shape=(1, 2)
    )
    np.testing.assert_allclose(log_normalise(twice).toarray(), log_normalise(twice.toarray()))
    assert twice.nnz == 3


def test_large_and_missing_counts():
    np.testing.assert_allclose(log_normalise(np.array([[1e40, 1e40]])), np.log1p(5e3), rtol=1e-6)
    with pytest.raises(ValueError, match="NaN .1 in all, the first in row 0, column 1"):
        log_normalise(np.array([[1.0, np.nan]]))


def test_samples_without_counts_stay_zero_with_a_warning():
    with pytest.warns(UserWarning, match="1 of 2 samples have no counts"):
        out = log_normalise(np.array([[0.0, 0.0], [1.0, 3.0]]))
    assert (out[0] == 0).all()


@pytest.mark.parametrize("total", [0, -1.0, np.inf, "x"])
def test_a_total_that_cannot_be_is_refused(total):
    with pytest.raises(ValueError, match="total"):
        log_normalise(np.ones((2, 2)), total=total)


@pytest.mark.parametrize(
    ("values", "counts", "too_large"),
    [
        ([[0, 3], [120, 1]], True, True),
        ([[0, 1], [1, 1]], False, False),  # yes and no
        ([[0.5, 7.2]], False, False),
        ([[-1, 300]], False, False),
        ([[0.0, 310.5]], False, True),
        ([[np.nan, 3]], False, False),
        ([[True, False]], False, False),
        ([[0, 0]], False, False),
    ],
)
def test_counts_are_recognised(values, counts, too_large):
    dense = np.array(values)
    for X in (dense, *([sp.csr_matrix(dense)] if dense.dtype != bool else [])):
        assert looks_like_counts(X) == counts
        assert summarise_values(X).too_large_for_logs == too_large


def test_simulated_counts_become_anndata():
    pytest.importorskip("anndata")
    data = simulate.simulate_counts(50, 100, 2, n_markers=5, random_state=0)
    adata = data.to_anndata()
    assert adata.shape == (50, 100)
    assert adata.obs["label"].tolist() == [f"type {label}" for label in data.labels]
    assert adata.var["is_marker"].sum() == 10
    assert adata.obs_names.is_unique
