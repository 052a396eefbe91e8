"""Agreement of clusters with known classes, and of selected features with known markers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.metrics.cluster import contingency_matrix

from ksparse._errors import InputError

__all__ = [
    "adjusted_rand_score",
    "clustering_accuracy",
    "correctly_placed",
    "feature_precision",
    "feature_recall",
    "label_codes",
    "match_clusters",
    "normalized_mutual_info_score",
    "summary",
]


def clustering_accuracy(labels_true: ArrayLike, labels_pred: ArrayLike) -> float:
    """Return the share of samples in the right cluster, under the best matching to classes.

    The matching is one to one (see `match_clusters`), as in the paper.

    Parameters
    ----------
    labels_true, labels_pred : array-like, one entry per sample
        Classes and clusters; any kind of label.

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> from ksparse.metrics import clustering_accuracy
    >>> clustering_accuracy(["a", "a", "b", "b"], [1, 1, 0, 1])
    0.75
    """
    return float(correctly_placed(labels_true, labels_pred).mean())


def match_clusters(table: ArrayLike) -> NDArray[np.intp]:
    """Match rows of a table of counts to columns, one to one, with the largest sum of counts.

    The matching is computed by the Hungarian algorithm. If there are more rows than columns,
    some rows are not matched.

    Parameters
    ----------
    table : array-like, classes x clusters
        Counts of the samples of each class in each cluster.

    Returns
    -------
    ndarray of int, one per row
        The column that is matched to each row; -1 if there is none.

    Examples
    --------
    >>> from ksparse.metrics import match_clusters
    >>> match_clusters([[0, 7], [5, 1], [2, 3]])
    array([ 1,  0, -1])
    """
    counts = np.asarray(table)
    if counts.ndim != 2:
        raise InputError(f"table has shape {counts.shape}: give counts of classes x clusters.")
    match = np.full(counts.shape[0], -1, dtype=np.intp)
    rows, columns = linear_sum_assignment(counts, maximize=True)
    match[rows] = columns
    return match


def correctly_placed(labels_true: ArrayLike, labels_pred: ArrayLike) -> NDArray[np.bool_]:
    """Return which samples are in the cluster that is matched to their class.

    The matching is the one of `match_clusters`.

    Parameters
    ----------
    labels_true, labels_pred : array-like, one entry per sample
        Classes and clusters; any kind of label.

    Returns
    -------
    ndarray of bool, one per sample

    Examples
    --------
    >>> from ksparse.metrics import correctly_placed
    >>> correctly_placed(["a", "a", "b", "b"], [1, 1, 0, 1])
    array([ True,  True,  True, False])
    """
    true, pred = np.asarray(labels_true), np.asarray(labels_pred)
    if true.shape != pred.shape or true.ndim != 1:
        raise InputError(
            f"labels_true has shape {true.shape} and labels_pred has shape {pred.shape}; "
            "both must be one label per sample."
        )
    if true.size == 0:
        raise InputError("labels_true is empty: there is no sample to compare.")
    classes, clusters = label_codes("labels_true", true), label_codes("labels_pred", pred)
    match = match_clusters(contingency_matrix(classes, clusters))
    return match[classes] == clusters


def label_codes(name: str, labels: NDArray[Any]) -> NDArray[Any]:
    """Return labels as whole numbers; `name` is what an error calls them."""
    values = labels.tolist()
    if any(value is None or value != value for value in values):
        raise InputError(f"{name} has missing values: leave these samples out, or name them.")
    try:
        return np.unique(labels, return_inverse=True)[1]
    except TypeError:
        raise InputError(
            f"{name} mixes labels that cannot be compared (text and numbers)."
        ) from None


def _mask(name: str, value: ArrayLike) -> NDArray[Any]:
    mask = np.asarray(value)
    if mask.dtype != bool or mask.ndim != 1:
        raise InputError(
            f"{name} must be a boolean mask with one entry per feature, "
            f"got dtype {mask.dtype} and shape {mask.shape}."
        )
    return mask


def _masks(selected: ArrayLike, relevant: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    chosen, known = _mask("selected", selected), _mask("relevant", relevant)
    if chosen.size != known.size:
        raise InputError(
            f"selected has {chosen.size} entries and relevant has {known.size}; "
            "both must have one per feature."
        )
    return chosen, known


def feature_precision(selected: ArrayLike, relevant: ArrayLike) -> float:
    """Return the share of the selected features that are relevant (NaN if none is selected).

    Parameters
    ----------
    selected, relevant : array-like of bool, one entry per feature
        Masks, such as ``model.get_support()`` and the known markers.

    Examples
    --------
    >>> from ksparse.metrics import feature_precision
    >>> feature_precision([True, True, False], [True, False, True])
    0.5
    """
    chosen, known = _masks(selected, relevant)
    return float(known[chosen].mean()) if chosen.any() else float("nan")


def feature_recall(selected: ArrayLike, relevant: ArrayLike) -> float:
    """Return the share of the relevant features that are selected (NaN if none is relevant).

    Parameters
    ----------
    selected, relevant : array-like of bool, one entry per feature
        Masks, such as ``model.get_support()`` and the known markers.

    Examples
    --------
    >>> from ksparse.metrics import feature_recall
    >>> feature_recall([True, True, False, False], [True, False, True, False])
    0.5
    """
    chosen, known = _masks(selected, relevant)
    return float(chosen[known].mean()) if known.any() else float("nan")


def summary(
    labels_true: ArrayLike,
    labels_pred: ArrayLike,
    *,
    selected: ArrayLike | None = None,
    relevant: ArrayLike | None = None,
) -> dict[str, float]:
    """Return all the measures in one table.

    Parameters
    ----------
    labels_true, labels_pred : array-like, one entry per sample
        Classes and clusters.
    selected : array-like of bool, optional
        Mask of the selected features; adds their number.
    relevant : array-like of bool, optional
        Mask of the features that should be found; adds precision and recall.

    Returns
    -------
    dict
        accuracy, ari, nmi; n_features with `selected`; precision, recall with both.

    Examples
    --------
    >>> from ksparse.metrics import summary
    >>> summary([0, 0, 1, 1], [1, 1, 0, 0], selected=[True, False])
    {'accuracy': 1.0, 'ari': 1.0, 'nmi': 1.0, 'n_features': 1.0}
    """
    table = {
        "accuracy": clustering_accuracy(labels_true, labels_pred),
        "ari": float(adjusted_rand_score(labels_true, labels_pred)),
        "nmi": float(normalized_mutual_info_score(labels_true, labels_pred)),
    }
    if selected is not None:
        table["n_features"] = float(np.count_nonzero(_mask("selected", selected)))
        if relevant is not None:
            table["precision"] = feature_precision(selected, relevant)
            table["recall"] = feature_recall(selected, relevant)
    elif relevant is not None:
        raise InputError(
            "relevant was given without selected; give the mask of selected features too."
        )
    return table
