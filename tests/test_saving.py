"""Saved models: one file that loads anywhere, says what it is, and executes nothing."""

from __future__ import annotations

import io
import json
import os
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

import ksparse
from conftest import ARRAY_KINDS, crossed, make_clusters
from ksparse import KSparse
from ksparse.io.model_file import FITTED

FILES = Path(__file__).parent / "files"
sys.path.insert(0, str(FILES))
X, LABELS, _ = make_clusters(0)
NAMES = [f"gene {j}" for j in range(X.shape[1])]
METHODS = ("predict", "predict_proba", "project", "transform")


def fitted(data=X, **options):
    return KSparse(3, **({"n_features": 12, "random_state": 0} | options)).fit(data)


@pytest.fixture(scope="module")
def model():
    return fitted(pd.DataFrame(X, columns=NAMES), max_labels=2)


@pytest.fixture
def file(model, tmp_path):
    model.save(tmp_path / "m.ksparse")
    return tmp_path / "m.ksparse"


def as_bytes(value):
    return value.toarray().tobytes() if sp.issparse(value) else np.asarray(value).tobytes()


def assert_equal(one, other):
    """Whatever both are, they are the same to the last bit."""
    assert type(one) is type(other)
    if isinstance(one, dict):
        assert list(one) == list(other)
        for key in one:
            assert_equal(one[key], other[key])
    elif isinstance(one, np.ndarray):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        assert one.tolist() == other.tolist() or one.tobytes() == other.tobytes()
        assert one.flags.f_contiguous == other.flags.f_contiguous  # sums in another order differ
    elif isinstance(one, np.random.RandomState):
        assert_equal(one.get_state()[1], other.get_state()[1])
    else:
        assert one == other or repr(one) == repr(other)


@pytest.mark.parametrize(("kind", "dtype"), crossed(list(ARRAY_KINDS), [np.float32, np.float64]))
def test_a_loaded_model_predicts_the_same_bits(kind, dtype, tmp_path):
    data = ARRAY_KINDS[kind](X.astype(dtype))
    model = fitted(data)
    model.save(tmp_path / "m")
    loaded = ksparse.load(str(tmp_path / "m"))
    for method in METHODS:
        assert as_bytes(getattr(loaded, method)(data)) == as_bytes(getattr(model, method)(data))
    assert loaded.score(data) == model.score(data)


def test_everything_comes_back(model, file):
    loaded = ksparse.load(file)
    assert vars(loaded).keys() == vars(model).keys()
    for name, value in vars(model).items():
        assert_equal(value, getattr(loaded, name))
    frame = pd.DataFrame(X, columns=NAMES)
    assert loaded.get_feature_names_out().tolist() == model.get_feature_names_out().tolist()
    with pytest.raises(ValueError, match="feature names should match"):
        loaded.predict(frame[NAMES[::-1]])


def test_nothing_of_a_fitted_model_is_forgotten(model):
    assert set(vars(model)) - set(model.get_params()) <= set(FITTED)


OPTIONS = [
    {"init": LABELS.astype(np.int16)},
    {"init": ["graph", LABELS.tolist()]},
    {"feature_weights": np.where(np.arange(60) < 2, np.inf, 1.0)},
    {"feature_weights": pd.Series(np.ones(60))},
    {"random_state": np.random.RandomState(3)},
    {"n_features": "auto", "tol": None, "memory_limit": "1GB"},
    {"center": False, "kmeans_criterion": "inertia"},
    {"n_features": np.int64(7), "ridge": np.float32(0.25), "relax": np.bool_(True)},
]


@pytest.mark.parametrize("options", OPTIONS)
def test_parameters_of_every_kind_come_back(options, tmp_path):
    model = fitted(**options, max_loops=1)
    model.save(tmp_path / "m")
    loaded = ksparse.load(tmp_path / "m")
    for name, value in model.get_params().items():
        found = getattr(loaded, name)
        if isinstance(value, np.random.RandomState):
            assert value.randint(10**6, size=5).tolist() == found.randint(10**6, size=5).tolist()
        else:
            np.testing.assert_equal(found, np.asarray(value) if hasattr(value, "index")
                                    and not isinstance(value, str | list) else value)  # fmt: skip
    again = loaded.fit(X)
    assert np.array_equal(again.labels_, loaded.labels_)


def test_output_of_frames_is_remembered(tmp_path):
    frame = pd.DataFrame(X, columns=NAMES)
    fitted(frame).set_output(transform="pandas").save(tmp_path / "m")
    assert isinstance(ksparse.load(tmp_path / "m").transform(frame), pd.DataFrame)


def test_the_same_model_gives_the_same_bytes(model, file, tmp_path):
    ksparse.load(file).save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == file.read_bytes()


def test_what_cannot_be_saved_is_named(tmp_path):
    with pytest.raises(NotFittedError):
        KSparse(3).save(tmp_path / "m")
    model = fitted()
    model.verbose = object()
    with pytest.raises(TypeError, match=r"^params/verbose is object, which a model file cannot"):
        model.save(tmp_path / "m")
    model.verbose = 0
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        model.save(tmp_path / "missing" / "m")
    assert not list(tmp_path.iterdir())


def test_a_file_that_was_there_stays_if_saving_fails(model, file, monkeypatch):
    before = file.read_bytes()

    def full(*words, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np.lib.format, "write_array", full)
    with pytest.raises(OSError, match="No space"):
        model.save(file)
    assert file.read_bytes() == before
    assert [path.name for path in file.parent.iterdir()] == ["m.ksparse"]


CORE = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {others}:
            raise ImportError(name + " is not installed")

sys.meta_path.insert(0, Refuse())
import numpy as np
import ksparse
model = ksparse.load(sys.argv[1])
sys.stdout.buffer.write(model.predict_proba(np.load(sys.argv[2])).tobytes())
"""


@pytest.mark.thorough
def test_loads_in_another_process_with_the_core_dependencies_alone(tmp_path):
    model = fitted()
    model.save(tmp_path / "m")
    np.save(tmp_path / "X.npy", X)
    others = (
        "'pandas matplotlib anndata scanpy h5py zarr dask distributed pynndescent igraph pooch'"
    )
    program = CORE.replace("{others}", f"{others}.split()")
    words = [sys.executable, "-c", program, str(tmp_path / "m"), str(tmp_path / "X.npy")]
    done = subprocess.run(words, capture_output=True, check=True, env=os.environ)
    assert done.stdout == model.predict_proba(X).tobytes()


# Files that are not what they should be -------------------------------------------------


def rewritten(file, change):
    """The file with other parts, as `change` makes them of the old ones."""
    with zipfile.ZipFile(file) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts = change(parts) or parts
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)


def card(parts, change):
    tree = json.loads(parts["model.json"])
    change(tree)
    parts["model.json"] = json.dumps(tree).encode()


def array(values):
    out = io.BytesIO()
    np.save(out, values, allow_pickle=True)
    return out.getvalue()


class Evil:
    def __reduce__(self):
        return (os.mkdir, ("executed",))


def put(name, values):
    return lambda parts: parts.update({f"fitted/{name}.npy": array(values)})


def edit(change):
    return lambda parts: card(parts, change)


DAMAGE = {
    "no text": lambda parts: parts.pop("model.json") and None,
    "text is no JSON": lambda parts: parts.update({"model.json": b"{"}),
    "text is a list": lambda parts: parts.update({"model.json": b"[]"}),
    "text is nested": lambda parts: parts.update({"model.json": b"[" * 100_000}),
    "no array": lambda parts: parts.pop("fitted/mean_.npy") and None,
    "pickled": put("mean_", np.array([Evil()] * 60, dtype=object)),
    "too many features": put("mean_", np.zeros(61)),
    "too few clusters": put("centroids_", np.zeros((2, 7))),
    "text for numbers": put("weights_", np.full((60, 7), "a")),
    "not finite": put("weights_", np.full((60, 7), np.nan)),
    "one dimension": put("weights_", np.zeros(60)),
    "labels beyond": put("labels_", np.full(90, 3, dtype=np.int32)),
    "labels of no length": put("labels_", np.int32(1)),
    "unknown parameter": edit(lambda tree: tree["params"].update(colour="red")),
    "unknown attribute": edit(lambda tree: tree["fitted"].update(fit=1)),
    "unknown kind": edit(lambda tree: tree["fitted"].update(gap_={"pickle": "x"})),
    "two kinds": edit(lambda tree: tree["fitted"].update(gap_={"float": "nan", "tuple": []})),
    "no spread": edit(lambda tree: tree["fitted"].pop("_spread")),
    "spread is text": edit(lambda tree: tree["fitted"].update(_spread="wide")),
    "no parameters": edit(lambda tree: tree.pop("params")),
    "names are numbers": edit(
        lambda tree: tree["fitted"].update(feature_names_in_={"strings": list(range(60))})
    ),
    "clusters are text": edit(lambda tree: tree["params"].update(n_clusters="3")),
}


@pytest.mark.parametrize("damage", list(DAMAGE))
def test_damaged_files_are_refused_in_one_line(file, damage, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rewritten(file, DAMAGE[damage])
    with pytest.raises(ValueError) as caught:
        ksparse.load(file)
    text = str(caught.value)
    assert text.startswith(str(file))
    assert text.count("\n") == 0
    assert not Path("executed").exists()


def test_a_header_that_declares_too_much_is_refused(file):
    def change(parts):
        content = parts["fitted/mean_.npy"]
        header = content[10:128].replace(b"(60,), }         ", b"(60000000000,), }")
        parts["fitted/mean_.npy"] = content[:10] + header + content[128:]

    rewritten(file, change)
    with pytest.raises(ValueError, match=r"announces 480 GB in an array that holds 480 bytes"):
        ksparse.load(file)


@pytest.mark.parametrize("version", [0, 2, 99, None, "1", [1]])
def test_other_versions_are_refused(file, version):
    rewritten(file, edit(lambda tree: tree.update(version=version)))
    with pytest.raises(ValueError, match=r"is of version .* this ksparse reads version 1: install"):
        ksparse.load(file)


def test_other_files_are_refused(file, tmp_path):
    other = tmp_path / "other"
    for content in (b"", b"hello", pickle.dumps(Evil()), file.read_bytes()[:200]):
        other.write_bytes(content)
        with pytest.raises(ValueError, match="not a model that was saved by ksparse"):
            ksparse.load(other)
    np.savez(tmp_path / "arrays.npz", X=X)
    with pytest.raises(ValueError, match="not a model that was saved by ksparse"):
        ksparse.load(tmp_path / "arrays.npz")
    rewritten(file, edit(lambda tree: tree.update(encoding="another")))
    with pytest.raises(ValueError, match="not a model that was saved by ksparse"):
        ksparse.load(file)
    with pytest.raises(ValueError, match="is a folder"):
        ksparse.load(tmp_path)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        ksparse.load(tmp_path / "none")


@pytest.mark.parametrize("share", np.linspace(0, 0.999, 12))
def test_half_a_file_is_refused(file, share):
    content = file.read_bytes()
    file.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ValueError, match=r"saved by ksparse|is damaged"):
        ksparse.load(file)


# Other versions, other ways --------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(FILES.glob("*.ksparse")), ids=lambda path: path.stem)
def test_models_of_earlier_releases_load(path):
    from make_model import data

    model = ksparse.load(path)
    found = data()
    frame = pd.DataFrame(found, columns=[f"gene {j}" for j in range(12)])
    assert model.predict(frame).tolist() == [i % 3 for i in range(40)]
    assert model.labels_.tolist() == [i % 3 for i in range(40)]
    assert np.flatnonzero(model.get_support()).tolist() == list(range(6))
    assert model.predict_proba(frame).max(axis=1).min() > 0.9
    assert model.n_clusters == 3
    assert model.memberships_.shape == (40, 3)


def test_there_is_a_model_of_this_version_of_the_encoding():
    from ksparse.io.model_file import VERSION

    assert (FILES / f"model_v{VERSION}.ksparse").exists()


@pytest.mark.parametrize("way", ["pickle", "joblib"])
def test_pickle_and_joblib_work_too(model, way, tmp_path):
    if way == "pickle":
        found = pickle.loads(pickle.dumps(model))
    else:
        joblib.dump(model, tmp_path / "m")
        found = joblib.load(tmp_path / "m")
    frame = pd.DataFrame(X, columns=NAMES)
    assert found.predict_proba(frame).tobytes() == model.predict_proba(frame).tobytes()
    assert found.get_params() == model.get_params()
