"""From a saved file to a fitted model."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from ksparse.estimator import KSparse
from ksparse.model_file import read_model_file
from ksparse.saving import FITTED

__all__ = ["load"]

# Without these there is no model.
NEEDED = ("weights_", "centroids_", "mean_", "scale_", "labels_", "n_features_in_", "_spread")


def load(path: str | PathLike[str]) -> KSparse:
    """Read a model that `KSparse.save` wrote.

    Nothing in the file is executed, whoever made it.

    Parameters
    ----------
    path : path
        The file.

    Returns
    -------
    KSparse
        A fitted model that gives the same predictions, to the last bit.

    Raises
    ------
    ValueError
        If the file is damaged, not a saved model, or of a version that this ksparse does
        not know.
    FileNotFoundError
        If there is no such file.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> import ksparse
    >>> X = np.random.default_rng(0).normal(size=(60, 20))
    >>> X[:20, :3] += 5
    >>> model = ksparse.KSparse(2, n_features=3, random_state=0).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "cells.ksparse")
    ...     model.save(file)
    ...     bool((ksparse.load(file).predict(X) == model.labels_).all())
    True
    """
    path = Path(path)
    parts = read_model_file(path)
    try:
        model = KSparse(**parts["params"])
        fitted = parts["fitted"]
        _check(model, fitted)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{path} is damaged: save the model again.") from error
    for name, value in fitted.items():
        setattr(model, name, value)
    return model


def _check(model: KSparse, fitted: dict[str, Any]) -> None:
    """Refuse what does not fit together: arithmetic would stumble over it later."""
    missing = [name for name in NEEDED if name not in fitted]
    unknown = sorted(set(fitted) - set(FITTED))
    if missing or unknown:
        raise ValueError(f"missing {missing}, unknown {unknown}")
    d, c = fitted["weights_"].shape
    k, n = model.n_clusters, len(fitted["labels_"])
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
