"""Checkpoints: runs that are killed go on, others are refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import scipy.sparse as sp

from conftest import make_clusters, thorough_params
from ksparse import KSparse
from ksparse.matrix.checksum import data_checksum

X, TRUTH, _ = make_clusters(0, sizes=(300, 200, 150, 100), n_features=120, shift=2.5)
FIT = {"n_features": 15, "random_state": 3}

# Every step is slowed down, so that there is a moment to be killed in each.
PROGRAM = """
import sys, time
import numpy as np
from ksparse import KSparse
from ksparse.io.checkpoint import Checkpoint
write = Checkpoint._write
def slow(self, file, arrays):
    time.sleep(0.1)
    write(self, file, arrays)
Checkpoint._write = slow
X = np.load(sys.argv[1])
print("ready", flush=True)
model = KSparse(4, n_features=15, random_state=3, checkpoint=sys.argv[2]).fit(X)
np.save(sys.argv[3], model.labels_)
"""


@pytest.fixture(scope="module")
def reference():
    return KSparse(4, **FIT).fit(X)


def test_a_checkpoint_changes_nothing(reference, tmp_path):
    folder = tmp_path / "deep" / "check"
    for _ in range(2):  # new, and from the folder alone
        model = KSparse(4, checkpoint=folder, **FIT).fit(X)
        np.testing.assert_array_equal(model.labels_, reference.labels_)
        np.testing.assert_allclose(model.weights_, reference.weights_, atol=1e-12)
        np.testing.assert_array_equal(model.cost_history_, reference.cost_history_)
        assert model.starts_["start"] == reference.starts_["start"]
    names = sorted(path.name for path in folder.iterdir())
    assert names[-1] == "run.json"
    # The selection of few features, which is quick, is not kept.
    assert sum("loop" in name for name in names) >= reference.n_iter_ - 1


def test_what_is_there_is_not_computed_again(tmp_path, monkeypatch):
    KSparse(4, checkpoint=tmp_path / "c", **FIT).fit(X)

    def never(*arguments, **options):
        raise AssertionError("computed again")

    monkeypatch.setattr("ksparse.core.alternation.solve_w_step", never)
    monkeypatch.setattr("ksparse.search.fit.decompose", never)
    KSparse(4, checkpoint=tmp_path / "c", **FIT).fit(X)


@pytest.mark.parametrize("lost", [0, 1, 3, 5, -2])
def test_a_run_goes_on_from_any_step(reference, tmp_path, lost):
    folder = tmp_path / "c"
    KSparse(4, checkpoint=folder, **FIT).fit(X)
    steps = sorted(folder.glob("*.npz"))
    for path in steps[lost:]:
        path.unlink()
    model = KSparse(4, checkpoint=folder, **FIT).fit(X)
    np.testing.assert_array_equal(model.labels_, reference.labels_)
    np.testing.assert_allclose(model.weights_, reference.weights_, atol=1e-9)


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04 half a step"])
def test_a_damaged_step_is_done_again(reference, tmp_path, data):
    folder = tmp_path / "c"
    KSparse(4, checkpoint=folder, **FIT).fit(X)
    sorted(folder.glob("*.npz"))[2].write_bytes(data)
    (folder / ".half.npz").write_bytes(b"left by a run that was killed")
    model = KSparse(4, checkpoint=folder, **FIT).fit(X)
    np.testing.assert_array_equal(model.labels_, reference.labels_)
    assert not (folder / ".half.npz").exists()


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL here")
@pytest.mark.parametrize("moments", thorough_params([[3]], [[1, 5], [1, 2, 4, 5, 6]]))
@pytest.mark.thorough
def test_a_run_that_is_killed_again_and_again_ends_the_same(reference, tmp_path, moments):
    np.save(tmp_path / "X.npy", X)
    words = [sys.executable, "-c", PROGRAM, str(tmp_path / "X.npy"), str(tmp_path / "c"),
             str(tmp_path / "labels.npy")]  # fmt: skip
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    folder = tmp_path / "c"

    def n_steps():
        return len(list(folder.glob("0*.npz"))) if folder.exists() else 0

    for least in moments:  # steps that are done when it is killed
        process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment)
        assert process.stdout.readline() == "ready\n"
        while n_steps() < least and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        process.stdout.close()
        assert n_steps() >= least
    subprocess.run(words, check=True, timeout=120, env=environment, stdout=subprocess.DEVNULL)
    np.testing.assert_array_equal(np.load(tmp_path / "labels.npy"), reference.labels_)


def test_without_a_seed_the_same_random_numbers_go_on(tmp_path):
    folder = tmp_path / "c"
    np.random.seed(1)
    one = KSparse(4, n_features=15, checkpoint=folder).fit(X)
    for path in sorted(folder.glob("*.npz"))[4:]:
        path.unlink()
    np.random.seed(2)
    two = KSparse(4, n_features=15, checkpoint=folder).fit(X)
    np.testing.assert_allclose(one.weights_, two.weights_, atol=1e-9)
    following = np.random.randint(10**9)  # the user's own random numbers are not set back
    np.random.seed(2)
    np.random.randint(2**31 - 1)
    assert following == np.random.randint(10**9)


@pytest.mark.parametrize(
    ("data", "options", "part"),
    [
        (X, {"n_features": 16}, "n_features is 15 there and 16 here"),
        (X, {"random_state": 4}, "random_state is 3 there and 4 here"),
        (X, {"n_clusters": 5}, "n_clusters is 4 there and 5 here"),
        (X[:-1], {}, "shape is .750, 120. there and .749, 120. here"),
        (X + np.eye(750, 120) * 1e-9, {}, "data is '[0-9a-f]{16}' there and"),
        (X[::-1], {}, "data is '[0-9a-f]{16}' there and"),
        (X.astype(np.float32), {}, "dtype is 'float64' there and 'float32' here"),
        (X, {"feature_weights": np.arange(1.0, 121.0)}, "feature_weights is None there and 'array"),
        (X, {"init": TRUTH}, "init is 'auto' there and 'array"),
    ],
)
def test_another_run_is_refused(tmp_path, data, options, part):
    KSparse(4, checkpoint=tmp_path / "c", **FIT).fit(X)
    before = {path.name: path.read_bytes() for path in (tmp_path / "c").iterdir()}
    with pytest.raises(ValueError, match=f"is of another run: {part}"):
        KSparse(**({"n_clusters": 4, "checkpoint": tmp_path / "c"} | FIT | options)).fit(data)
    assert {path.name: path.read_bytes() for path in (tmp_path / "c").iterdir()} == before


def test_other_weights_are_refused_but_not_another_limit(tmp_path):
    model = KSparse(4, checkpoint=tmp_path / "c", **FIT).fit(X)
    model.set_params(memory_limit="3GB", verbose=1).fit(X)
    with pytest.raises(ValueError, match="sample_weight is None there and 'array"):
        model.fit(X, sample_weight=np.arange(1, 751))


def test_folders_that_are_something_else_are_refused(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ValueError, match="is a file: give a folder"):
        KSparse(4, checkpoint=tmp_path / "file", **FIT).fit(X)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("mine")
    (tmp_path / "full" / ".hidden.npz").write_text("mine, too")
    with pytest.raises(ValueError, match="holds other files, and no run"):
        KSparse(4, checkpoint=tmp_path / "full", **FIT).fit(X)
    assert (tmp_path / "full" / ".hidden.npz").exists()
    for text, part in (
        ("{half", "is damaged, or not of a checkpoint"),
        (json.dumps({"encoding": "other", "version": 1, "run": {}}), "version 1 of 'other', not 2"),
        (json.dumps({"encoding": "ksparse-checkpoint", "version": 9, "run": {}}), "version 9"),
    ):
        (tmp_path / "old").mkdir(exist_ok=True)
        (tmp_path / "old" / "run.json").write_text(text)
        with pytest.raises(ValueError, match=part):
            KSparse(4, checkpoint=tmp_path / "old", **FIT).fit(X)


def test_the_checksum_is_of_the_data_and_not_of_their_storage():
    dense = X.copy()
    dense[np.abs(dense) < 1] = 0
    same = data_checksum(dense)
    assert same == data_checksum(sp.csr_matrix(dense)) == data_checksum(sp.csc_array(dense))
    explicit = sp.lil_matrix(dense)
    explicit[0, np.flatnonzero(dense[0] == 0)[0]] = 1.0
    explicit = explicit.tocsr()
    assert data_checksum(explicit) != same
    explicit.data[explicit.data == 1.0] = 0.0
    assert data_checksum(explicit) == same
    swapped = dense.copy()
    swapped[[0, 1]] = swapped[[1, 0]]
    assert data_checksum(swapped) != same


def test_the_command_takes_a_checkpoint(simulated, tmp_path, capsys):
    from ksparse.cli import main

    simulated.write_h5ad(tmp_path / "cells.h5ad")
    words = ["run", str(tmp_path / "cells.h5ad"), "-k", "3", "--genes", "12", "--checkpoint",
             str(tmp_path / "c")]  # fmt: skip
    assert main([*words, "-o", str(tmp_path / "one")]) == 0
    steps = sorted((tmp_path / "c").glob("*.npz"))
    for path in steps[len(steps) // 2 :]:
        path.unlink()
    assert main([*words, "-o", str(tmp_path / "two")]) == 0
    one, two = ((tmp_path / name / "clusters.csv").read_text() for name in ("one", "two"))
    assert one == two
    assert "checkpoint" not in (tmp_path / "one" / "run.json").read_text()
    capsys.readouterr()
    words[words.index("12")] = "13"
    assert main([*words, "-o", str(tmp_path / "three")]) == 2
    error = capsys.readouterr().err
    assert "is of another run" in error
    assert error.count("\n") == 1
    assert not (tmp_path / "three").exists()
