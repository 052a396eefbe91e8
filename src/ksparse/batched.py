"""What a model that was fitted with batches knows about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from ksparse._errors import InputError, Term, warn
from ksparse._names import listed
from ksparse.matrix import Floats, Ints
from ksparse.matrix.batches import BatchMatrix, batch_offsets
from ksparse.matrix.data import dense, pick_columns, take_rows
from ksparse.params import Inputs
from ksparse.search.batch_report import batch_mixing, feature_support
from ksparse.search.batches import batch_codes, with_groups
from ksparse.search.feature_count import SEED

if TYPE_CHECKING:
    import pandas

__all__ = ["BatchMixin", "offsets_of"]

Array = NDArray[Any]
ATTRIBUTES = ("batches_", "batch_means_", "batch_mixing_", "batch_support_")
# The columns of `batch_table` besides those of the batches.
OF_CLUSTERS = ("largest", "share", "expected", "one_batch")
# At most so many samples, of all batches as many, are used to tell what supports a feature, and
# so many features, those of largest weight, are looked at.
MAX_SAMPLES, MAX_FEATURES = 5_000, 500


class BatchMixin:
    """Batches of `KSparse`: means, mixing, support of features; other samples of the batches.

    Attributes
    ----------
    batches_ : ndarray of object
        Names of the batches.
    batch_means_ : ndarray, batches x selected features
        Means of the selected features in each batch.
    batch_mixing_ : dict of ndarray
        How batches are spread over clusters; see `ksparse.search.batch_report.Mixing`.
    batch_support_ : dict of ndarray
        In which batches features are associated with clusters; see
        `ksparse.search.batch_report.Support`.
    """

    labels_: Array
    centroids_: Array
    weights_: Array
    mean_: Floats
    scale_: Floats
    batches_: NDArray[np.object_]
    batch_means_: Floats
    batch_mixing_: dict[str, Array]
    batch_support_: dict[str, Array]

    def _with_batches(self, inputs: Inputs, groups: Any, center: bool) -> Inputs:
        """Return inputs whose features are centred within batches."""
        return with_groups(inputs, groups, center=center)

    def _store_batches(self, inputs: Inputs, P: Floats) -> None:
        """Set the attributes of batches; without batches remove those of an earlier fit."""
        for name in ATTRIBUTES:
            self.__dict__.pop(name, None)
        batches = inputs.batches
        if batches is None:
            return
        matrix, labels = inputs.matrix, self.labels_.astype(np.intp)
        n, k = len(batches.names), len(self.centroids_)
        selected = np.flatnonzero(self.weights_.any(axis=1))
        shift = matrix.shift if isinstance(matrix, BatchMatrix) else np.zeros((1, self.mean_.size))
        self.batches_ = np.empty(n, dtype=object)
        self.batches_[:] = batches.names
        self.batch_means_ = self.mean_[selected] + shift[:, selected]
        weight = inputs.weight
        self.batch_mixing_ = vars(batch_mixing(labels, batches.every, k, n, weight))
        self.batch_support_ = self._support(inputs, selected, labels, P)

    def _support(self, inputs: Inputs, selected: Ints, labels: Ints, P: Floats) -> dict[str, Array]:
        """Return in which batches selected features are associated with clusters."""
        batches, weight = inputs.batches, inputs.weight
        assert batches is not None
        rows = _some_of_each(batches.every, len(batches.names), weight)
        W = self.weights_[selected].astype(np.float64)
        largest = np.argsort(-np.linalg.norm(W, axis=1), kind="stable")
        here = np.sort(largest[:MAX_FEATURES])
        Z = take_rows(pick_columns(inputs.X, selected[here]), rows, dense).astype(np.float64)
        batch = batches.every[rows]
        Z = (Z - self.batch_means_[:, here][batch]) * self.scale_[selected[here]]
        support = feature_support(
            Z, W[here], P[rows], labels[rows], len(self.centroids_), batch, len(batches.names),
            known=None if inputs.settings.known is None else _kept(self.labels_, inputs, rows),
            weight=None if weight is None else weight[rows],
        )  # fmt: skip
        out = {}
        for name, values in vars(support).items():
            missing = np.nan if name == "explained" else False
            out[name] = np.full((*values.shape[:-1], selected.size), missing, dtype=values.dtype)
            out[name][..., here] = values
        return out

    def _offsets_of(self, n_samples: int, groups: Any, depth: int = 0) -> Floats | None:
        """Return what to subtract from projected samples of batches (None: nothing).

        To be called by a function, or `depth` functions more, below the one that the user called.
        """
        if not hasattr(self, "batches_"):
            if groups is None:
                return None
            raise InputError(
                Term("groups"), " was given, but the model was fitted without: fit it with the "
                "batches, or leave them out.",
            )  # fmt: skip
        level = 4 + depth
        if groups is None:
            if self.batches_.size > 1:
                warn(
                    "The model was fitted with ", Term("groups"), ", and these samples have none: "
                    "the mean of all batches is subtracted from them.", stacklevel=level,
                )  # fmt: skip
            return None
        selected = np.flatnonzero(self.weights_.any(axis=1))
        shift = self.batch_means_ - self.mean_[selected]
        offsets = batch_offsets(shift, self.scale_[selected], self.weights_[selected])
        return offsets_of(offsets, groups, self.batches_.tolist(), n_samples, level)

    def batch_table(self) -> pandas.DataFrame:
        """Return how batches are spread over clusters: one row for each cluster.

        Returns
        -------
        pandas.DataFrame
            Samples of each batch (their weight), the batch that has most, its share of the
            cluster and of all samples, and whether the cluster is of one batch: 95 % or more,
            and not by chance. The column of a batch that is called like one of the others, such
            as "share", is "share (batch)".

        Examples
        --------
        >>> import numpy as np
        >>> from ksparse import KSparse
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(80, 30))
        >>> X[::2, :4] += 5
        >>> day = np.repeat(["monday", "tuesday"], 40)
        >>> X[day == "tuesday"] += 3
        >>> model = KSparse(2, n_features=4, random_state=0).fit(X, groups=day)
        >>> model.batch_table()[["monday", "tuesday", "one_batch"]]
                 monday  tuesday  one_batch
        cluster
        0            20       20      False
        1            20       20      False
        """
        import pandas

        check_is_fitted(self, "labels_")
        if not hasattr(self, "batches_"):
            raise InputError(
                "The model was fitted without ", Term("groups"), ": there are no batches.",
            )  # fmt: skip
        mixing, names = self.batch_mixing_, self.batches_.tolist()
        counts = mixing["counts"]
        whole = counts.astype(np.int64) if (counts == np.round(counts)).all() else counts
        columns = [_free(name) for name in names]
        table = pandas.DataFrame(whole, columns=pandas.Index(columns, tupleize_cols=False))
        table["largest"] = [names[b] for b in mixing["largest"]]
        for name in OF_CLUSTERS[1:]:
            table[name] = mixing[name]
        table.index.name = "cluster"
        return table


def offsets_of(
    offsets: Floats, groups: Any, names: Sequence[Any], n_samples: int, stacklevel: int
) -> Floats:
    """Return the offset of the batch of each sample; 0, with a warning, for unknown batches."""
    codes, unknown = batch_codes(groups, names, n_samples)
    if unknown:
        warn(
            f"{int((codes < 0).sum())} of {n_samples} samples are of batches that the model "
            f"does not know ({listed(unknown)}): the mean of all batches is subtracted from "
            "them.", stacklevel=stacklevel + 1,
        )  # fmt: skip
    return np.where(codes[:, None] >= 0, offsets[codes], 0.0)


def _free(name: Any) -> Any:
    """Return the column of `batch_table` with a batch."""
    return f"{name} (batch)" if name in OF_CLUSTERS else name


def _some_of_each(batches: Ints, n_batches: int, weight: Floats | None) -> Ints:
    """Return samples that have a weight: all, or of every batch as many."""
    rows = np.arange(batches.size) if weight is None else np.flatnonzero(weight)
    if rows.size <= MAX_SAMPLES:
        return rows
    rng, most = np.random.RandomState(SEED), max(MAX_SAMPLES // n_batches, 1)
    drawn = []
    for b in range(n_batches):
        members = rows[batches[rows] == b]
        drawn.append(rng.choice(members, most, replace=False) if members.size > most else members)
    return np.sort(np.concatenate(drawn))


def _kept(labels: Array, inputs: Inputs, rows: Ints) -> Ints:
    """Return the final cluster of samples whose label was known, -1 for all others."""
    known = inputs.settings.known
    assert known is not None
    return np.where(known.every[rows] >= 0, labels[rows], -1).astype(np.intp)
