"""Files of fitted models: a zip of arrays and one JSON text, with nothing to execute.

The file holds `model.json` and one `.npy` for every array. The text is a tree of plain
values; what JSON has no word for is an object with a single key:

    {"array": name}      an array, in the member `name`.npy
    {"strings": [...]}   an array of str
    {"objects": [...]}   an array of text, numbers and null
    {"float": "nan"}     a number that is not finite
    {"tuple": [...]}     a tuple
    {"random": [...]}    the state of a RandomState

Members have a fixed date, so that the same model gives the same bytes.
"""

from __future__ import annotations

import json
import math
import platform
import zipfile
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from ksparse import __version__
from ksparse._errors import InputError
from ksparse._names import repeated
from ksparse.io.archives import check_archive, check_regular, one_line
from ksparse.io.files import new_file
from ksparse.io.rules import MissingError, Rule, UnsoundError, check_mapping, check_stored
from ksparse.params import DEFAULTS, is_auto

__all__ = [
    "LOOPS",
    "STARTS",
    "check_batches",
    "check_calibration",
    "check_fitted",
    "read_model",
    "read_model_file",
    "write_model",
    "write_model_file",
]

ENCODING, VERSION = "ksparse-model", 1
SMALLEST = float(np.finfo(np.float64).tiny)
# All that a fitted model has besides its parameters.
FITTED = (
    "labels_", "weights_", "l1_weights_", "centroids_", "known_classes_", "memberships_",
    "membership_log_odds_", "membership_centroids_", "n_features_selected_",
    "feature_importances_", "eta_", "gap_",
    "converged_", "n_iter_", "cost_history_", "history_", "starts_", "mean_", "scale_", "n_passes_",
    "n_features_in_", "feature_names_in_", "explained_", "explained_bound_", "_spread",
    "_sklearn_output_config", "calibration_", "outlying_", "unmarked_",
    "batches_", "batch_means_", "batch_mixing_", "batch_support_",
)  # fmt: skip
# What they must be. Those that are optional are not in every model, or need not be.
RULES = {
    "weights_": Rule("number", ("features", "components")),
    "centroids_": Rule("number", ("clusters", "components")),
    "mean_": Rule("number", ("features",)),
    "scale_": Rule("number", ("features",), least=0),
    "labels_": Rule("count", ("samples",)),
    "n_features_in_": Rule("count"),
    "_spread": Rule("number", least=0),
    "l1_weights_": Rule("number", ("features", "components"), optional=True),
    "memberships_": Rule("count", ("samples", "clusters"), most=1, optional=True),
    "membership_log_odds_": Rule("number", ("samples",), finite=False, optional=True),
    "membership_centroids_": Rule("number", ("clusters", "components"), optional=True),
    "n_features_selected_": Rule("count", optional=True),
    "feature_importances_": Rule("number", ("features",), least=0, optional=True),
    "feature_names_in_": Rule("text", ("features",), optional=True),
    "eta_": Rule("number", finite=False, optional=True),
    "gap_": Rule("number", finite=False, optional=True),
    "explained_": Rule("number", finite=False, optional=True),
    "explained_bound_": Rule("number", finite=False, optional=True),
    "converged_": Rule("flag", optional=True),
    "n_iter_": Rule("count", optional=True),
    "n_passes_": Rule("count", optional=True),
    "cost_history_": Rule("number", ("loops",), optional=True),
    "outlying_": Rule("count", ("outlying",), optional=True),
    "unmarked_": Rule("count", ("unmarked",), optional=True),
    "batch_means_": Rule("number", ("batches", "selected"), optional=True),
}
MIXING = {"counts": Rule("number", ("clusters", "batches"), least=0),
          "largest": Rule("count", ("clusters",)),
          **{name: Rule("number", ("clusters",), least=0, most=1)
             for name in ("share", "expected", "p_value")},
          "one_batch": Rule("flag", ("clusters",))}  # fmt: skip
SUPPORT = {"explained": Rule("number", ("batches", "selected"), least=0, most=1, finite=False),
           "supported": Rule("flag", ("batches", "selected")),
           "one_batch": Rule("flag", ("selected",))}  # fmt: skip
LOOPS = {"cost": Rule("number", ("loops",)), "labels_changed": Rule("number", ("loops",)),
         "n_features": Rule("count", ("loops",)), "eta": Rule("number", ("loops",), finite=False),
         "gap": Rule("number", ("loops",), finite=False)}  # fmt: skip
STARTS = {"start": Rule("text", ("starts",)), "score": Rule("number", ("starts",), finite=False),
          "score_se": Rule("number", ("starts",), finite=False),
          "n_features": Rule("count", ("starts",)), "n_loops": Rule("count", ("starts",)),
          "chosen": Rule("flag", ("starts",))}  # fmt: skip
CALIBRATION = {"features": Rule("count", ("folds", "selected")),
               "mean": Rule("number", ("folds", "selected")),
               "axes": Rule("number", ("folds", "selected", "axes")),
               "centres": Rule("number", ("folds", "clusters", "axes")),
               "units": Rule("number", ("folds", "clusters", "two parts"), least=SMALLEST),
               "scores": Rule("number", ("calibrated",), least=0),
               "fold": Rule("count", ("calibrated",)),
               "cluster": Rule("count", ("calibrated",))}  # fmt: skip
TABLES = {"history_": LOOPS, "starts_": STARTS}
TEXT = "model.json"
DATE = (1980, 1, 1, 0, 0, 0)  # the first that zip knows
Arrays = dict[str, np.ndarray[Any, Any]]


def write_model(
    path: str | PathLike[str], params: dict[str, Any], attributes: dict[str, Any]
) -> None:
    """Write parameters and fitted attributes of a model, whole or not at all."""
    fitted = {name: attributes[name] for name in FITTED if name in attributes}
    about = {
        "ksparse": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
    }
    write_model_file(Path(path), {"params": params, "fitted": fitted}, about)


def read_model(path: str | PathLike[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return parameters and fitted attributes of a model, checked to fit together."""
    path = Path(path)
    parts = read_model_file(path)
    try:
        for part in ("params", "fitted"):
            check_mapping(part, parts.get(part))
        params, fitted = parts["params"], parts["fitted"]
        if not set(params) <= set(DEFAULTS):
            raise UnsoundError(f"unknown parameters {sorted(set(params) - set(DEFAULTS))}")
        if not set(fitted) <= set(FITTED):
            raise UnsoundError(f"unknown attributes {sorted(set(fitted) - set(FITTED))}")
        check_stored(
            params, {"n_clusters": Rule("count", least=1, or_auto=True)}, {}, within="params."
        )
        check_fitted(params["n_clusters"], fitted)
    except UnsoundError as error:
        raise _damaged(path, error) from error
    return params, fitted


def check_fitted(n_clusters: int | str, fitted: Mapping[str, Any]) -> None:
    """Raise UnsoundError if fitted attributes are not sound: predictions would be wrong."""
    sizes: dict[str, int] = {}
    check_stored(fitted, RULES, sizes, may_be_empty=("selected", "outlying", "unmarked"))
    for name, rules in TABLES.items():
        if fitted.get(name) is not None:
            check_stored(check_mapping(name, fitted[name]), rules, sizes, within=f"{name}.")
    if fitted.get("calibration_") is not None:
        check_calibration(fitted["calibration_"], sizes["clusters"], sizes["features"])
    if not is_auto(n_clusters) and sizes["clusters"] > int(n_clusters):
        raise UnsoundError(f"centroids_ is of {sizes['clusters']} clusters, which should be <= "
                           f"{n_clusters}")  # fmt: skip
    if np.max(fitted["labels_"]) >= sizes["clusters"]:
        raise UnsoundError(f"labels_ holds {np.max(fitted['labels_'])}, which should be < "
                           f"{sizes['clusters']}")  # fmt: skip
    for name, what in (("outlying_", "samples"), ("unmarked_", "clusters")):
        if np.max(fitted.get(name, ()), initial=-1) >= sizes[what]:
            raise UnsoundError(f"{name} holds {np.max(fitted[name])}, which should be < "
                               f"{sizes[what]}")  # fmt: skip
    if fitted["n_features_in_"] != sizes["features"]:
        raise UnsoundError(f"n_features_in_ is {fitted['n_features_in_']}, which should be "
                           f"{sizes['features']}")  # fmt: skip
    if fitted.get("known_classes_") is not None:
        _check_names("known_classes_", fitted["known_classes_"], sizes["clusters"], "classes")
    used = np.any(fitted["weights_"], axis=1)
    if fitted.get("batches_") is not None or "batches" in sizes:
        n_used = int(np.count_nonzero(used))
        if sizes.setdefault("selected", n_used) != n_used:
            raise UnsoundError(f"batch_means_ is of {sizes['selected']} features, which should be "
                               f"{n_used}")  # fmt: skip
        if "batches" not in sizes:
            raise MissingError("batch_means_ is missing")
        tables = {name: fitted.get(name) for name in ("batch_mixing_", "batch_support_")}
        check_batches("batches_", fitted.get("batches_"), tables, sizes)
    if not np.all(np.asarray(fitted["scale_"])[used] > 0):
        raise UnsoundError("scale_ holds 0 for a selected feature, which should be > 0")
    output = fitted.get("_sklearn_output_config")
    if output is not None:
        output = check_mapping("_sklearn_output_config", output)
        check_stored(output, {name: Rule("text") for name in output}, {})


def check_calibration(
    stored: Any, n_clusters: int, n_features: int, within: str = "calibration_."
) -> None:
    """Raise UnsoundError if a stored calibration cannot be computed with."""
    sizes = {"clusters": n_clusters, "two parts": 2}
    check_stored(check_mapping(within[:-1], stored), CALIBRATION, sizes, within=within)
    if sizes["axes"] != n_clusters + sizes["selected"]:
        raise UnsoundError(f"{within}axes is of {sizes['axes']} axes, which should be "
                           f"{n_clusters + sizes['selected']}")  # fmt: skip
    ends = {"features": n_features, "fold": sizes["folds"], "cluster": n_clusters}
    for name, end in ends.items():
        if np.max(stored[name]) >= end:
            raise UnsoundError(f"{within}{name} holds {np.max(stored[name])}, which should be < "
                               f"{end}")  # fmt: skip


def check_batches(name: str, names: Any, tables: dict[str, Any], sizes: dict[str, int]) -> None:
    """Raise UnsoundError if names of batches, their mixing or support (`tables`) are not sound."""
    _check_names(name, names, sizes["batches"])
    for (table, stored), rules in zip(tables.items(), (MIXING, SUPPORT), strict=True):
        stored = check_mapping(table, stored)
        check_stored(stored, rules, sizes, within=f"{table}.", may_be_empty=("selected",))
        most = int(np.max(stored.get("largest", 0)))
        if most >= sizes["batches"]:
            raise UnsoundError(f"{table}.largest holds {most}, which should be < "
                               f"{sizes['batches']}")  # fmt: skip


def _check_names(name: str, names: Any, n: int, what: str = "names") -> None:
    """Raise UnsoundError unless there are so many, and none but None twice."""
    if not isinstance(names, np.ndarray) or names.shape != (n,):
        raise UnsoundError(f"{name} should be an array of {n} {what}")
    try:
        again = repeated([one for one in names.tolist() if one is not None])
    except TypeError:
        raise UnsoundError(f"{name} should hold text, numbers and None") from None
    if again:
        raise UnsoundError(f"{name} has {again[0]!r} twice")


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float | np.generic)


def write_model_file(path: Path, parts: dict[str, dict[str, Any]], about: dict[str, str]) -> None:
    """Write a model, whole or not at all.

    Parameters
    ----------
    path : Path
        The file.
    parts : dict of dict
        What the model consists of, such as {"params": {...}, "fitted": {...}}.
    about : dict of str
        What may be of use to people; it is not read again.
    """
    arrays: Arrays = {}
    tree = {
        part: {name: _encoded(value, f"{part}/{name}", arrays) for name, value in values.items()}
        for part, values in parts.items()
    }
    card = {"encoding": ENCODING, "version": VERSION, "about": about, **tree}
    with new_file(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        text = json.dumps(card, indent=1, allow_nan=False)
        archive.writestr(_member(TEXT), text.encode())
        for name, array in arrays.items():
            with archive.open(_member(f"{name}.npy"), "w", force_zip64=True) as out:
                np.lib.format.write_array(out, array, allow_pickle=False)


def _member(name: str) -> zipfile.ZipInfo:
    member = zipfile.ZipInfo(name, DATE)
    member.compress_type = zipfile.ZIP_DEFLATED
    member.external_attr = 0o644 << 16
    return member


def _encoded(value: Any, name: str, arrays: Arrays) -> Any:
    """Return a value for JSON; arrays are added to `arrays` under their name."""
    if value is None or isinstance(value, bool | str):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, PathLike):
        return str(value)
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else {"float": repr(float(value))}
    if isinstance(value, np.random.RandomState):
        _, keys, *others = value.get_state()
        return {"random": _encoded_all([keys, *others], name, arrays)}
    if isinstance(value, tuple):
        return {"tuple": _encoded_all(value, name, arrays)}
    if isinstance(value, list):
        return _encoded_all(value, name, arrays)
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        inner = {key: _encoded(entry, f"{name}/{key}", arrays) for key, entry in value.items()}
        return {"dict": inner}
    array = np.asarray(value)
    if array.dtype.kind in "biuf":
        arrays[name] = array
        return {"array": name}
    if array.dtype.kind in "OU" and array.ndim == 1 and all(isinstance(v, str) for v in array):
        return {"strings": [str(entry) for entry in array]}
    if array.dtype.kind == "O" and array.ndim == 1 and all(_is_plain(v) for v in array):
        return {"objects": _encoded_all(array, name, arrays)}
    raise InputError(
        f"{name} is {type(value).__name__}, which a model file cannot hold: use numbers, text or "
        "arrays of them."
    )


def _encoded_all(values: Any, name: str, arrays: Arrays) -> list[Any]:
    return [_encoded(entry, f"{name}/{i}", arrays) for i, entry in enumerate(values)]


def read_model_file(path: Path) -> dict[str, Any]:
    """Read what was written: the parts, by name.

    Raises
    ------
    ValueError
        If the file is damaged, not of a model, or of another version.
    """
    if path.is_dir():
        raise InputError(f"{path} is a folder: give the file that model.save wrote.")
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist.")
    check_regular(path)
    if not zipfile.is_zipfile(path):
        raise InputError(f"{path} is not a model that was saved by ksparse, or is damaged.")
    try:
        if TEXT not in check_archive(path):
            raise InputError(f"{path} is not a model that was saved by ksparse.")
        # Opened by ourselves: numpy leaves a damaged file open.
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            card = json.loads(file[TEXT])
            _check_version(path, card)
            return {part: _decoded_all(values, file) for part, values in card.items()
                    if part not in ("encoding", "version", "about")}  # fmt: skip
    except (InputError, MemoryError, FileNotFoundError, PermissionError):
        raise
    except Exception as error:  # there are many ways to be damaged
        raise _damaged(path) from error


def _damaged(path: Path, unsound: UnsoundError | None = None) -> InputError:
    reason = "" if unsound is None else f" ({one_line(unsound)})"
    return InputError(f"{path} is damaged{reason}: save the model again.")


def _check_version(path: Path, card: Any) -> None:
    if not isinstance(card, dict) or card.get("encoding") != ENCODING:
        raise InputError(f"{path} is not a model that was saved by ksparse.")
    if card.get("version") != VERSION:
        raise InputError(
            f"{path} is of version {card.get('version')!r} of {ENCODING}, and this ksparse reads "
            f"version {VERSION}: install the ksparse that wrote it, or a newer one."
        )


def _decoded_all(values: dict[str, Any], file: Any) -> dict[str, Any]:
    return {name: _decoded(value, file) for name, value in values.items()}


def _decoded(value: Any, file: Any) -> Any:
    if isinstance(value, list):
        return [_decoded(entry, file) for entry in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "array":
        return file[content]
    if kind == "strings":
        return np.array([_text(entry) for entry in content], dtype=object)
    if kind == "objects":
        return np.array([_decoded(entry, file) for entry in content], dtype=object)
    if kind == "float":
        return float(_text(content))
    if kind == "tuple":
        return tuple(_decoded(entry, file) for entry in content)
    if kind == "dict":
        return _decoded_all(content, file)
    if kind == "random":
        state = np.random.RandomState()
        state.set_state(("MT19937", *(_decoded(entry, file) for entry in content)))
        return state
    raise ValueError(f"unknown kind of value {kind!r}")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not text")
    return value
