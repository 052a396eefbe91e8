"""Results and models that were damaged or edited: refused in one line, or of no influence."""

from __future__ import annotations

import copy
import gzip
import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ksparse as ks
from conftest import examples, make_clusters, thorough_params
from ksparse import KSparse
from ksparse._errors import InputError
from ksparse.report._content import report_content
from ksparse.scverse.schema import read_record
from test_saving import array, card, rewritten

anndata = pytest.importorskip("anndata")
pandas = pytest.importorskip("pandas")

FILES = Path(__file__).parent / "files"


def nested(kind, depth=5000):
    """A value in very many levels."""
    value = 1.0
    for _ in range(depth):
        value = [value] if kind == "list" else {"x": value}
    return value


def spoiled(value, entry):
    """Numbers with another one at the end; others are replaced."""
    if not isinstance(value, np.ndarray) or value.dtype.kind != "f" or not value.size:
        return entry
    value = value.copy()
    value.flat[-1] = entry
    return value


def lengthened(value):
    return np.concatenate([value, value[-1:]]) if np.ndim(value) else np.array([value, value])


DELETE = object()
MUTATIONS = {
    "deleted": lambda value: DELETE,
    "none": lambda value: None,
    "empty": lambda value: np.array([]),
    "empty text": lambda value: "",
    "empty dictionary": lambda value: {},
    "shorter": lambda value: value[:-1] if np.ndim(value) else np.array([value]),
    "longer": lengthened,
    "one component less": lambda value: value[:, :-1] if np.ndim(value) == 2 else value,
    "one axis more": lambda value: np.asarray(value)[..., None],
    "one value for all": lambda value: np.asarray(value).ravel()[:1],
    "NaN": lambda value: spoiled(value, np.nan),
    "infinity": lambda value: spoiled(value, np.inf),
    "minus infinity": lambda value: spoiled(value, -np.inf),
    "text": lambda value: "\x1b[31mtext\nof two lines",
    "bytes": lambda value: b"bytes",
    "array of text": lambda value: np.full(np.shape(value), "text", dtype=object),
    "complex": lambda value: np.full(np.shape(value), 1j),
    "objects": lambda value: np.full(np.shape(value), {}, dtype=object),
    "whole numbers": lambda value: np.zeros(np.shape(value), dtype=np.int64),
    "flags": lambda value: np.ones(np.shape(value), dtype=bool),
    "half precision": lambda value: np.zeros(np.shape(value), dtype=np.float16),
    "negative": lambda value: -1,
    "huge": lambda value: 10**30,
    "dates": lambda value: np.full(np.shape(value), np.datetime64("2020-01-01")),
    "ragged": lambda value: [[1.0], [2.0, 3.0]],
    "nested list": lambda value: nested("list"),
    "nested dictionary": lambda value: nested("dict"),
    "frame": lambda value: pandas.DataFrame({"x": [1.0, 2.0]}),
    "missing values": lambda value: pandas.array([1, None], dtype="Int64"),
}  # fmt: skip


def fields_of(stored, place=()):
    """All places in nested dictionaries."""
    for name, value in stored.items():
        yield (*place, name)
        if isinstance(value, dict):
            yield from fields_of(value, (*place, name))


@pytest.fixture(scope="module")
def result(clustered):
    """A result, its cells without one, and what is computed from the sound result."""
    adata = clustered[:60].copy()
    adata.uns["ksparse"]["clusters"]["size"] = clustered.uns["ksparse"]["clusters"]["size"]
    adata.uns["ksparse"]["run"] = json.dumps({"command": "ksparse run x", "notes": ["a"],
                                              "input": {"name": "x"}, "options": {}})  # fmt: skip
    steps = {name: np.array([0.4, 0.5]) for name in ("eta", "explained", "agreement", "silhouette")}
    adata.uns["ksparse_path"] = steps | {"n_features": np.array([5, 10]), "best": 5,
                                         "n_clusters": 3}  # fmt: skip
    cells = anndata.AnnData(adata.X, var=adata.var[[]].copy())
    return adata, cells, outcome(adata, cells)


def outcome(adata, cells):
    """What is computed from a result: clusters of cells, markers, and the content of a report."""
    cells = cells.copy()
    ks.tl.predict(adata, cells)
    run = read_record(adata, "ksparse").run
    content = report_content(adata, "ksparse", None, "ksparse_path", None, run)
    ks.tl.rank_genes(adata)
    return {
        "labels": cells.obs["ksparse"].tolist(),
        "projection": cells.obsm["ksparse"],
        "ranking": adata.uns["rank_genes_groups"]["names"].tolist(),
        **{name: content[name] for name in ("clusters", "genes", "dots", "history", "path")},
    }


def equal(one, other):
    if isinstance(one, np.ndarray):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
    elif isinstance(one, dict):
        assert sorted(one) == sorted(other)
        for name in one:
            equal(one[name], other[name])
    else:
        assert one == other


def names_the_field(text, key, place):
    """Whether a message names the field; a wrong length may show in another one of the record."""
    return f"adata.uns[{key!r}]" in text and (
        place[-1] in text or any(word in text for word in ("which should be", "is empty"))
    )


def check_mutation(result, key, place, mutation):
    """Change one field, and check that it is refused, or changes nothing."""
    adata, cells, expected = result
    stored = copy.deepcopy(adata.uns[key])
    adata.uns[key] = changed = copy.deepcopy(stored)
    try:
        for name in place[:-1]:
            changed = changed[name]
        value = MUTATIONS[mutation](changed[place[-1]])
        if value is DELETE:
            del changed[place[-1]]
        else:
            changed[place[-1]] = value
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = outcome(adata, cells)
    except InputError as error:
        text = str(error)
        assert text.isprintable(), text
        assert names_the_field(text, key, place) or "holds no result" in text, text
        return True
    finally:
        adata.uns[key] = stored
    if place == ("best",) or (len(place) == 1 and key == "ksparse_path"):
        found["path"] = expected["path"]  # another path, which is no result
    equal(found, expected)
    return False


NUMBERS = [("model", name) for name in ("weights", "centroids", "mean", "scale", "spread")]
NUMBERS += [("clusters", name) for name in ("size", "mean", "fraction")]


@pytest.mark.parametrize("place", [*NUMBERS, ("model", "genes")], ids=".".join)
def test_a_model_with_a_damaged_field_is_refused(result, place):
    accepted = {
        name for name in MUTATIONS
        if not check_mutation(result, "ksparse", place, name)
    }  # fmt: skip
    # One array has as few components as the change leaves; a single number has none to lose.
    assert accepted <= {"one component less"} | (
        {"whole numbers"} if place[-1] == "spread" else set()
    )


@pytest.mark.thorough
@pytest.mark.parametrize("key", ["ksparse", "ksparse_path"])
def test_every_field_with_every_damage(result, key):
    for place in list(fields_of(result[0].uns[key])):
        for mutation in MUTATIONS:
            check_mutation(result, key, place, mutation)


def damages(adata):
    places = [(key, place) for key in ("ksparse", "ksparse_path")
              for place in fields_of(adata.uns[key])]  # fmt: skip
    return st.tuples(st.sampled_from(places), st.sampled_from(list(MUTATIONS)))


def test_any_field_with_any_damage(result):
    @settings(max_examples=examples(60, 2000), deadline=None, database=None, derandomize=True,
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(damages(result[0]))
    def check(damage):
        (key, place), mutation = damage
        check_mutation(result, key, place, mutation)

    check()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda stored: stored["model"].update(version=2), r"is of version 2.* up to 1"),
        (lambda stored: stored["model"].update(version="1"), "version holds .* should be integers"),
        (lambda stored: stored["model"].update(version=0), "version holds 0, which should be >= 1"),
        (lambda stored: stored["model"].update(encoding="other"), "model.encoding should be"),
        (lambda stored: stored.update(version=-1), "version holds -1, which should be >= 1"),
        (lambda stored: stored["model"]["scale"].__setitem__(0, 0.0), "model.scale holds 0.0"),
        (lambda stored: stored["model"]["genes"].__setitem__(0, stored["model"]["genes"][1]),
         "model.genes has 1 repeated names"),
        (lambda stored: stored["results"].update(n_features=5), "results.n_features is 5, .* 12"),
        (lambda stored: stored["results"].update(n_genes=5), "results.n_genes is 5, .* >= 12"),
        (lambda stored: stored["results"].update(normalized="log2"), "normalized should be"),
        (lambda stored: stored["params"].update(n_clusters=2), "of 3 clusters, .* <= 2"),
        (lambda stored: stored.update(run="[]"), "run should be a JSON object"),
        (lambda stored: stored.update(run="[" * 100_000), "run is no JSON text"),
        (lambda stored: stored.update(run='{"notes":' + "[" * 99 + "]" * 99 + "}"), "few levels"),
        (lambda stored: stored.update(run='{"input": 3}'), "run.input is int, .* dict"),
    ],
)  # fmt: skip
def test_what_does_not_fit_together_is_refused(clustered, change, message):
    adata = clustered.copy()
    change(adata.uns["ksparse"])
    with pytest.raises(InputError, match=message):
        read_record(adata, "ksparse")


def test_weights_that_overflow_are_refused(result):
    adata, cells = result[0].copy(), result[1].copy()
    adata.uns["ksparse"]["model"]["weights"] = np.full((12, 7), 1e308)
    with pytest.raises(InputError, match="weights of model are too large for these cells"):
        ks.tl.predict(adata, cells)


@pytest.mark.parametrize("field", ["ksparse", "ksparse_tsne"])
@pytest.mark.parametrize("entry", [np.nan, "text", "narrow", "sparse"])
def test_damaged_coordinates_are_refused(clustered, tmp_path, field, entry):
    adata = clustered.copy()
    points = adata.obsm[field].copy()
    if entry == "text":
        points = points.astype(str)
    elif entry == "narrow":
        points = points[:, :1]
    elif entry == "sparse":
        points = pytest.importorskip("scipy.sparse").csr_matrix(points)
    else:
        points[3, 1] = entry
    adata.obsm[field] = points
    with pytest.raises(InputError, match=rf"adata.obsm\['{field}'\] is damaged .*: run ksparse.tl"):
        ks.report.write_report(adata, tmp_path / "r.html")


def test_other_parts_of_uns_may_be_anything(result):
    cells = result[1].copy()
    cells.uns["other"] = {"params": {"method": nested("dict"), "groupby": nested("list")}}
    ks.tl.predict(result[0], cells)
    assert cells.obs["ksparse"].tolist() == result[2]["labels"]
    for other in ({"params": [1]}, {"params": {"method": nested("dict")}}, [1]):
        adata = result[0].copy()
        adata.uns["rank_genes_groups"] = other
        with pytest.warns(UserWarning, match="held a ranking by 'unknown'"):
            ks.tl.rank_genes(adata)


# The command line ----------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["weights", "centroids", "mean", "scale"])
def test_the_command_line_refuses_damaged_results(clustered, tmp_path, capsys, field):
    from ksparse.cli import main

    adata = clustered.copy()
    adata.uns["ksparse"]["model"][field].flat[0] = np.nan
    path = tmp_path / "result.h5ad"
    adata.write_h5ad(path)
    line = (
        f"ksparse: uns['ksparse'] is damaged (model.{field} holds NaN or infinity, which should "
        "be finite): run `ksparse run` again."
    )
    out = str(tmp_path / "out")
    for words in (["predict", str(path), str(path), "-o", out], ["report", str(path), "-o", out]):
        assert main([*words, "--no-check"]) == 2
        assert capsys.readouterr().err.splitlines()[-1] == line
        assert not Path(out).exists()


# Models --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model():
    X, _, _ = make_clusters(0)
    frame = pandas.DataFrame(X, columns=[f"f{j}" for j in range(X.shape[1])])
    return KSparse(3, n_features=10, max_labels=2, init="spectral", random_state=0).fit(frame)


@pytest.fixture
def file(model, tmp_path):
    model.save(tmp_path / "model.ksparse")
    return tmp_path / "model.ksparse"


ARRAYS = ("weights_", "centroids_", "mean_", "scale_", "labels_", "l1_weights_", "memberships_",
          "membership_centroids_", "feature_importances_", "cost_history_")  # fmt: skip


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("mutation", ["NaN", "infinity", "shorter", "empty", "one axis more",
                                      "array of text", "whole numbers", "flags"])  # fmt: skip
def test_model_files_with_a_damaged_array_are_refused(model, file, name, mutation):
    value = getattr(model, name)
    changed = MUTATIONS[mutation](value)
    if mutation == "array of text":
        changed = changed.astype("U4")
    if value.dtype.kind == "i" and mutation in ("NaN", "infinity", "whole numbers"):
        changed = np.full(value.shape, 3 if mutation != "NaN" else -1, dtype=np.int32)
    rewritten(file, lambda parts: parts.update({f"fitted/{name}.npy": array(changed)}))
    with pytest.raises(
        InputError, match=r"model.ksparse is damaged \(\w*_\b.*: save the"
    ) as caught:
        ks.load(file)
    if mutation != "shorter":
        assert name in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("gap_", "text"), ("eta_", []), ("converged_", 1), ("n_iter_", -1), ("n_iter_", 1.5),
        ("n_passes_", "many"), ("history_", 3), ("starts_", {"dict": {}}), ("n_features_in_", 59),
        ("_spread", {"float": "nan"}), ("_spread", -1.0), ("_sklearn_output_config", 3),
        ("history_", {"dict": {"cost": {"strings": ["a"]}}}), ("labels_", 10**30),
    ],
)  # fmt: skip
def test_model_files_with_a_damaged_value_are_refused(file, name, value):
    rewritten(file, lambda parts: card(parts, lambda tree: tree["fitted"].update({name: value})))
    with pytest.raises(InputError, match=rf"model.ksparse is damaged \({name}.*: save the model"):
        ks.load(file)


def test_a_zero_scale_of_a_selected_feature_is_refused(model, file):
    scale = model.scale_.copy()
    scale[np.flatnonzero(model.get_support())[0]] = 0
    rewritten(file, lambda parts: parts.update({"fitted/scale_.npy": array(scale)}))
    with pytest.raises(InputError, match="scale_ holds 0 for a selected feature"):
        ks.load(file)


@pytest.mark.parametrize("name", ["weights_", "centroids_", "mean_", "scale_"])
def test_models_in_memory_that_are_damaged_place_no_cells(model, name):
    cells = anndata.AnnData(make_clusters(0)[0])
    cells.var_names = [f"f{j}" for j in range(cells.n_vars)]
    ks.tl.predict(model, cells, key_added="sound")
    damaged = copy.deepcopy(model)
    setattr(damaged, name, np.full_like(getattr(model, name), np.nan))
    with pytest.raises(InputError, match=f"model is damaged .{name} holds NaN .*: fit it again"):
        ks.tl.predict(damaged, cells)


# Sound ones ----------------------------------------------------------------------------------


def as_it_is(adata, tmp_path):
    return adata


def from_file(adata, tmp_path):
    adata.write_h5ad(tmp_path / "x.h5ad")
    return anndata.read_h5ad(tmp_path / "x.h5ad")


def renamed(adata, tmp_path):
    adata.obs["ksparse"] = adata.obs["ksparse"].cat.rename_categories(lambda name: f"type {name}")
    return adata


WAYS = {
    "as it is": as_it_is,
    "from a file": from_file,
    "renamed": renamed,
    "fewer cells": lambda adata, tmp_path: adata[:50].copy(),
    "fewer genes": lambda adata, tmp_path: adata[:, : adata.n_vars // 2].copy(),
}


@pytest.mark.parametrize(
    ("options", "k"),
    thorough_params(
        [({"n_features": 8, "max_labels": 2}, 3), ({"eta": 3.0}, 3)],
        [
            ({"n_features": 8, "scale": True}, 3),
            ({"n_features": 8, "init": "spectral", "feature_weights": [np.inf, *[1.0] * 299]}, 3),
            ({"n_features": "auto"}, 2),
            ({"n_features": 8, "max_loops": 1}, 3),
            ({}, 1),
        ],
    ),
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:.*has nothing to tell apart")
def test_sound_results_are_read(simulated, tmp_path, options, k):
    options = {"random_state": 0, "normalize": "log1p", **options}
    adata = simulated[:80].copy()
    ks.tl.ksparse(adata, k, **options)
    for name, way in WAYS.items():
        other = way(adata.copy(), tmp_path)
        record = read_record(other, "ksparse")
        assert record.n_clusters == k
        if k == 1:
            continue
        cells = anndata.AnnData(simulated[:80].X, var=adata.var[[]].copy())
        ks.tl.predict(other, cells)
        assert cells.obs["ksparse"].tolist() == adata.obs["ksparse"].tolist(), name
        ks.report.write_report(other, tmp_path / "r.html")


def test_results_of_earlier_versions_are_read(tmp_path):
    path = tmp_path / "old.h5ad"
    path.write_bytes(gzip.decompress((FILES / "result_v0.h5ad.gz").read_bytes()))
    assert read_record(anndata.read_h5ad(path), "ksparse").n_clusters == 3


def test_weighted_models_and_empty_clusters_are_read(tmp_path):
    X, _, _ = make_clusters(0)
    weight = np.random.default_rng(0).integers(0, 3, len(X))
    model = KSparse(3, n_features=10, init="spectral", random_state=0).fit(X, sample_weight=weight)
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(ks.load(tmp_path / "m").predict(X), model.predict(X))
    with pytest.warns(UserWarning, match="distinct"):
        few = KSparse(5, eta=1.0, random_state=0).fit(np.repeat(np.eye(3), 4, axis=0))
    few.save(tmp_path / "few")
    assert len(ks.load(tmp_path / "few").centroids_) == 3
