"""Labels that users pass in: any kind, some of them missing."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["is_missing", "missing_labels", "read_labels"]


def read_labels(y: Any) -> NDArray[Any]:
    """Return labels as an array: numbers, text or objects; one column is as good as a vector.

    Parameters
    ----------
    y : array-like
        Labels of any kind.

    Returns
    -------
    ndarray
        Missing labels in lists of text stay what they are; `numpy.asarray` would make text of
        them, and of what is masked the labels that are hidden.

    Examples
    --------
    >>> from ksparse._labels import read_labels
    >>> read_labels(["B cell", float("nan")]), read_labels([[2], [3]])
    (array(['B cell', nan], dtype=object), array([2, 3]))
    """
    if isinstance(y, np.ma.MaskedArray):  # what is masked is missing
        hidden, y = np.ma.getmaskarray(y), np.array(y.data, dtype=object)
        y[hidden] = None
    try:
        labels = np.asarray(y)
    except ValueError:  # sequences of several lengths
        labels = np.empty(0, dtype=object)
    as_they_are = labels.dtype.kind in "iubf" or (
        isinstance(y, np.ndarray) and labels.dtype.kind in "US"
    )
    if not as_they_are:
        labels = np.asarray(y, dtype=object)
    return labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels


def missing_labels(labels: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which labels are missing.

    Parameters
    ----------
    labels : ndarray
        What `read_labels` returned.

    Returns
    -------
    ndarray of bool

    Examples
    --------
    >>> import numpy as np
    >>> from ksparse._labels import missing_labels
    >>> missing_labels(np.array(["a", None, float("nan")], dtype=object))
    array([False,  True,  True])
    """
    if labels.dtype.kind == "f":
        return np.isnan(labels)
    if labels.dtype.kind != "O":
        return np.zeros(labels.shape, dtype=bool)
    return np.array([is_missing(one) for one in labels.ravel()], dtype=bool).reshape(labels.shape)


def is_missing(label: Any) -> bool:
    """Return whether a label is None, NaN, NaT or pandas' NA, which equals not even itself.

    Examples
    --------
    >>> from ksparse._labels import is_missing
    >>> is_missing(None), is_missing(float("nan")), is_missing("nan"), is_missing(-1)
    (True, True, False, False)
    """
    if label is None:
        return True
    same = label == label
    return not (isinstance(same, bool | np.bool_) and same)
