"""What a record in `uns` must be: it may come from a file that was damaged or edited."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from ksparse._names import repeated
from ksparse.io.model_file import LOOPS, STARTS
from ksparse.io.rules import MissingError, Rule, UnsoundError, check_mapping, check_stored, is_text
from ksparse.params import is_auto

__all__ = ["RULES", "check_path", "check_record", "check_run"]

SMALLEST = float(np.finfo(np.float64).tiny)
RULES = {
    "model": {
        "genes": Rule("text", ("genes",)),
        "weights": Rule("number", ("genes", "components")),
        "centroids": Rule("number", ("clusters", "components")),
        "mean": Rule("number", ("genes",)),
        "scale": Rule("number", ("genes",), least=SMALLEST),
        "spread": Rule("number", least=0),
    },
    "results": {
        "n_features": Rule("count"),
        "eta": Rule("number", least=0, finite=False),
        "gap": Rule("number", finite=False),
        "converged": Rule("flag"),
        "n_iter": Rule("count"),
        "n_cells": Rule("count"),
        "n_genes": Rule("count"),
        "normalized": Rule("text"),
        "n_passes": Rule("count", optional=True),
        "n_outlying": Rule("count", optional=True),
        **{
            name: Rule("number", least=0, optional=True)
            for name in ("explained", "explained_bound")
        },
    },
    "clusters": {
        "size": Rule("count", ("clusters",)),
        "mean": Rule("number", ("clusters", "genes")),
        "fraction": Rule("number", ("clusters", "genes"), least=0, most=1),
        "name": Rule("text", ("clusters",), optional=True),
        "marked": Rule("flag", ("clusters",), optional=True),
        "middle": Rule("number", ("clusters", "genes"), optional=True),
    },
    "history": LOOPS,
    "starts": STARTS,
}
# Parameters that are read again; the others are shown only.
PARAMS = {
    "n_clusters": Rule("count", least=1, or_auto=True),
    "layer": Rule("text", optional=True),
    "known_labels": Rule("text", optional=True),
    "batch_key": Rule("text", optional=True),
    "restrict_to": Rule("text", ("words",), optional=True),
}
QUALITY = ("explained", "agreement", "silhouette")
SCORES = ("accuracy", "ari", "nmi")
PATH = {
    "best": Rule("count"),
    "n_clusters": Rule("count", least=1),
    "n_features": Rule("count", ("steps",)),
    "eta": Rule("number", ("steps",), finite=False),
}
# The account of a run: what is read again, of which kind, and how deep it may be nested.
RUN = {"command": str, "input": dict, "options": dict, "seconds": dict, "notes": list}
MOST_LEVELS = 8


def check_record(stored: Mapping[str, Any]) -> None:
    """Raise UnsoundError if a stored record cannot be computed with."""
    sizes: dict[str, int] = {}
    for part, rules in RULES.items():
        if part not in stored:
            raise MissingError(f"{part} is missing")
        values = check_mapping(part, stored[part])
        check_stored(values, rules, sizes, within=f"{part}.", may_be_empty=("genes",))
    for part in ("params", "versions"):
        if part not in stored:
            raise MissingError(f"{part} is missing")
        check_mapping(part, stored[part])
    params = stored["params"]
    check_stored(params, PARAMS, sizes, within="params.")
    for name, value in params.items():
        _check_plain(f"params.{name!s}", value)
    check_stored(stored["versions"], {name: Rule("text") for name in stored["versions"]}, {},
                 within="versions.")  # fmt: skip
    _check_agreement(stored, sizes)


def _check_agreement(stored: Mapping[str, Any], sizes: Mapping[str, int]) -> None:
    """Raise UnsoundError if numbers are not those of the arrays."""
    results = stored["results"]
    n_cells = int(np.sum(stored["clusters"]["size"]))
    for name, value in (
        ("n_features", sizes["genes"]),
        ("n_iter", sizes["loops"]),
        ("n_cells", n_cells),
    ):
        if int(results[name]) != value:
            raise UnsoundError(f"results.{name} is {int(results[name])}, which should be {value}")
    if sizes.get("words", 2) < 2:
        raise UnsoundError("params.restrict_to should be a column and at least one group")
    if int(results["n_genes"]) < sizes["genes"]:
        raise UnsoundError(f"results.n_genes is {int(results['n_genes'])}, which should be >= "
                           f"{sizes['genes']}")  # fmt: skip
    if not any(is_text(np.asarray(results["normalized"]).item(), name) for name in ("log1p", "no")):
        raise UnsoundError("results.normalized should be 'log1p' or 'no'")
    asked = stored["params"]["n_clusters"]
    if not is_auto(asked) and int(asked) < sizes["clusters"]:
        raise UnsoundError(f"model.centroids is of {sizes['clusters']} clusters, which should be "
                           f"<= {int(asked)}")  # fmt: skip
    names = {
        "model.genes": stored["model"]["genes"],
        "clusters.name": stored["clusters"].get("name"),
    }
    for name, values in names.items():
        if values is not None and (again := repeated(np.asarray(values).tolist())):
            raise UnsoundError(f"{name} has {len(again)} repeated names")


def _check_plain(name: str, value: Any) -> None:
    """Raise UnsoundError unless a value is a number, text, or an array of them."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        raise UnsoundError(f"{name} is no array") from None
    kind = array.dtype.kind
    if kind == "O" and not all(isinstance(entry, str) for entry in array.ravel().tolist()):
        raise UnsoundError(f"{name} is {type(value).__name__}, which should be numbers or text")
    if kind not in "biufUOT" or (kind == "f" and np.isnan(array).any()):
        raise UnsoundError(f"{name} holds what is neither a number nor text")


def check_path(stored: Mapping[str, Any]) -> None:
    """Raise UnsoundError if a stored path cannot be drawn."""
    quality = (*QUALITY, *(SCORES if any(name in stored for name in SCORES) else ()))
    rules = PATH | {name: Rule("number", ("steps",), finite=False) for name in quality}
    if "gap" in stored:
        rules["gap"] = Rule("number", ("steps",), finite=False)
    sizes: dict[str, int] = {}
    check_stored(stored, rules, sizes)
    for name, value in stored.items():
        if name not in ("gap", *quality):  # which may be NaN: not certified, or not to be had
            _check_plain(str(name), value)
        if np.ndim(value) and np.shape(value) != (sizes["steps"],):
            raise UnsoundError(f"{name!s} has shape {np.shape(value)}, which should be "
                               f"{(sizes['steps'],)}")  # fmt: skip


def check_run(stored: Any) -> dict[str, Any]:
    """Return the account that the command line gave of its run, from its text in the record."""
    if stored is None:
        return {}
    try:
        run = json.loads(np.asarray(stored).item())
    except (TypeError, ValueError, RecursionError):
        raise UnsoundError("run is no JSON text") from None
    if not isinstance(run, dict) or not _is_flat(run):
        raise UnsoundError("run should be a JSON object with few levels")
    for name, kind in RUN.items():
        if name in run and not isinstance(run[name], kind):
            raise UnsoundError(f"run.{name} is {type(run[name]).__name__}, which should be "
                               f"{kind.__name__}")  # fmt: skip
    return run


def _is_flat(value: Any) -> bool:
    """Return whether lists and dictionaries are nested in few levels."""
    level = [value]
    for _ in range(MOST_LEVELS):
        inner = [entry.values() if isinstance(entry, dict) else entry
                 for entry in level if isinstance(entry, dict | list)]  # fmt: skip
        if not inner:
            return True
        level = [entry for entries in inner for entry in entries]
    return False
