"""Files of fitted models: a zip of arrays and one JSON text, with nothing to execute.

The file holds `model.json` and one `.npy` for every array. The text is a tree of plain
values; what JSON has no word for is an object with a single key:

    {"array": name}      an array, in the member `name`.npy
    {"strings": [...]}   an array of str
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
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from ksparse import __version__
from ksparse._errors import InputError
from ksparse.io.archives import check_archive
from ksparse.io.files import new_file
from ksparse.params import DEFAULTS

__all__ = ["read_model", "read_model_file", "write_model", "write_model_file"]

ENCODING, VERSION = "ksparse-model", 1
# All that a fitted model has besides its parameters.
FITTED = (
    "labels_", "weights_", "l1_weights_", "centroids_", "memberships_", "membership_log_odds_",
    "membership_centroids_", "n_features_selected_", "feature_importances_", "eta_", "gap_",
    "converged_", "n_iter_", "cost_history_", "history_", "starts_", "mean_", "scale_", "n_passes_",
    "n_features_in_", "feature_names_in_", "_spread", "_sklearn_output_config",
)  # fmt: skip
# Without these there is no model.
NEEDED = ("weights_", "centroids_", "mean_", "scale_", "labels_", "n_features_in_", "_spread")
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
        params, fitted = parts["params"], parts["fitted"]
        if not set(params) <= set(DEFAULTS):
            raise ValueError(f"unknown parameters {sorted(set(params) - set(DEFAULTS))}")
        _check_consistent(params["n_clusters"], fitted)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _damaged(path) from error
    return params, fitted


def _check_consistent(n_clusters: int, fitted: dict[str, Any]) -> None:
    """Raise ValueError if parts do not fit together: arithmetic would fail later."""
    missing = [name for name in NEEDED if name not in fitted]
    unknown = sorted(set(fitted) - set(FITTED))
    if missing or unknown:
        raise ValueError(f"missing {missing}, unknown {unknown}")
    d, c = fitted["weights_"].shape
    k, n = len(fitted["centroids_"]), len(fitted["labels_"])
    if not 1 <= k <= n_clusters:
        raise ValueError(f"{k} centroids for {n_clusters} clusters")
    shapes = {
        "weights_": (d, c),
        "l1_weights_": (d, c),
        "centroids_": (k, c),
        "membership_centroids_": (k, c),
        "mean_": (d,),
        "scale_": (d,),
        "feature_importances_": (d,),
        "feature_names_in_": (d,),
        "labels_": (n,),
        "memberships_": (n, k),
        "membership_log_odds_": (n,),
    }
    for name, shape in shapes.items():
        if name in fitted and fitted[name].shape != shape:
            raise ValueError(f"{name} has shape {fitted[name].shape}, not {shape}")
    if fitted["n_features_in_"] != d:
        raise ValueError("the numbers of features differ")
    for name in ("weights_", "centroids_", "mean_", "scale_"):
        if not (np.asarray(fitted[name]).dtype.kind == "f" and np.isfinite(fitted[name]).all()):
            raise ValueError(f"{name} holds what is not a finite number")
    if not (isinstance(fitted["_spread"], float) and fitted["_spread"] >= 0):
        raise ValueError("the spread is no number")
    labels = fitted["labels_"]
    if labels.dtype.kind != "i" or labels.min(initial=0) < 0 or labels.max(initial=0) >= k:
        raise ValueError("labels_ are not clusters")


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


def _damaged(path: Path) -> InputError:
    return InputError(f"{path} is damaged: save the model again.")


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
