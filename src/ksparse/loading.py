"""From a saved file to a fitted model."""

from __future__ import annotations

from os import PathLike

from ksparse.estimator import KSparse
from ksparse.io.model_file import read_model

__all__ = ["load"]


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
    params, fitted = read_model(path)
    model = KSparse(**params)
    for name, value in fitted.items():
        setattr(model, name, value)
    return model
