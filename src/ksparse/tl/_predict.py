"""Clusters of new cells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from ksparse._errors import InputError, Term, warn
from ksparse.batched import offsets_of
from ksparse.core.conformal import p_values
from ksparse.core.y_step import distances
from ksparse.estimator import KSparse
from ksparse.io.model_file import check_fitted
from ksparse.matrix import project_samples
from ksparse.matrix.batches import batch_offsets
from ksparse.matrix.data import pick_columns, row_results
from ksparse.matrix.sources import check_data
from ksparse.scverse.batches import read_batches
from ksparse.scverse.calibration import NamedCalibration, named_calibration, read_calibration
from ksparse.scverse.expression import check_gene_names, read_expression
from ksparse.scverse.fields import Part, check_free, is_taken, make_room, write_cells, write_sets
from ksparse.scverse.labels import cluster_names, label_column, part_of
from ksparse.scverse.restriction import Restriction
from ksparse.scverse.schema import (
    ANOTHER_KEY,
    check_adata,
    check_key,
    copy_adata,
    field_term,
    read_record,
    sound,
)
from ksparse.unsure import check_level, warn_small

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = ["predict"]

CALIBRATE_FIRST = Term(
    "calibrate first",
    text="fit again with calibrate=True, or call calibrate(X) of the estimator",
)
# Missing genes that a message names.
N_NAMED = 5


def predict(
    model: KSparse | AnnData,
    new_adata: AnnData,
    *,
    key: str = "ksparse",
    layer: str | None = None,
    normalize: str | None = "model",
    min_share: float = 0.8,
    unassigned: float | None = None,
    batch_key: str | None = None,
    key_added: str | None = None,
    copy: bool = False,
) -> AnnData | None:
    """Place new cells in the clusters of a result.

    Genes are aligned by name, and only the selected ones are needed. One that is missing in the
    new cells is replaced by its mean, which favours no cluster (by zero, if the data of the
    model were not centred).

    A result that was restricted to some groups of a column of `obs` places the new cells that
    are in these groups; the column must be in `new_adata`, and all other cells keep their group.

    Parameters
    ----------
    model : AnnData or KSparse
        An object with the results of `ksparse.tl.ksparse`, or a model that was fitted on a
        data frame, so that it knows the names of its features.
    new_adata : AnnData
        The new cells.
    key : str, default="ksparse"
        The `key_added` of the results, if `model` is an AnnData object.
    layer : str, optional
        Use this layer of `new_adata`; by default that which the model was fitted on. "X"
        takes its X in any case.
    normalize : {"model", None, "log1p", "auto"}, default="model"
        "model": as the cells of `model` were (not at all, if that is a KSparse). Otherwise as in
        `ksparse.tl.ksparse`.
    min_share : float, default=0.8
        Share of the selected genes that `new_adata` must have. Warns if any is missing.
    unassigned : float, optional
        Level at which cells that resemble no cluster are "unassigned", such as 0.1: so are about
        that share of the cells of every cluster, and cells of other types as far as the genes can
        tell (see `KSparse.predict_set`). Needs a result of ``tl.ksparse(..., calibrate=True)``,
        or a model that was calibrated, and their genes besides the selected ones: where one is
        missing, the share is not guaranteed.
    batch_key : str, optional
        The column of `new_adata.obs` with the batches of cells, if the model was fitted with
        batches; that of the model by default. From cells of other batches, or where there is no
        such column, the mean of all batches is subtracted, with a warning.
    key_added : str, optional
        Under which name to write the results; `key` by default.
    copy : bool, default=False
        Whether to return a copy with the results, and leave `new_adata` as it is.

    Returns
    -------
    AnnData or None
        None unless `copy`. These fields are written:

    `.obs[key_added]` : categorical of str
        Cluster of each cell; the categories are all clusters of `model` (and the groups of
        the other cells, if it is restricted).
    `.obs[key_added + "_margin"]` : float
        1 for a cell at the centre of its cluster, 0 half-way to the next cluster.
    `.obsm[key_added]` : ndarray, cells x components
        The cells in the projection.

    With `unassigned` there is the category "unassigned", and also

    `.obs[key_added + "_set_size"]` : int
        How many clusters cannot be excluded; 0 for cells that are unassigned.
    `.obsm[key_added + "_p_values"]` : ndarray, cells x clusters
        How well each cell conforms with each cluster.

    With a restricted result also `.obs[key_added + "_clustered"]`: which cells were placed.
    Margins, p-values and sizes of sets of the other cells are NaN.

    Examples
    --------
    >>> import ksparse as ks
    >>> adata = ks.simulate.simulate_counts(300, 500, 3, random_state=0).to_anndata()
    >>> old, new = adata[:200].copy(), adata[200:].copy()
    >>> ks.tl.ksparse(old, 3, n_features=20, normalize="log1p", random_state=0)
    >>> ks.tl.predict(old, new)
    >>> new.obs["ksparse"].cat.categories.tolist()
    ['0', '1', '2']

    Cells that resemble no cluster, where two of three types were clustered:

    >>> known = old[old.obs["label"] != "type 0"].copy()
    >>> ks.tl.ksparse(known, 2, n_features=20, normalize="log1p", calibrate=True, random_state=0)
    >>> ks.tl.predict(known, new, unassigned=0.1, key_added="placed")
    >>> lost, unknown = new.obs["placed"] == "unassigned", new.obs["label"] == "type 0"
    >>> bool(lost[unknown].mean() > 0.6), bool(lost[~unknown].mean() < 0.2)
    (True, True)
    """
    check_adata(new_adata)
    check_gene_names(new_adata)
    key_added = key if key_added is None else key_added
    check_key("key_added", key_added)
    check_free(new_adata, key_added)
    if is_taken(new_adata, key_added):
        raise InputError(
            Term("new_adata"), f" has a result of its own under {key_added!r}: ", ANOTHER_KEY,
            ".",
        )  # fmt: skip
    if not (isinstance(min_share, int | float) and 0 < min_share <= 1):
        raise InputError(Term("min_share", min_share), " must be a number in (0, 1].")
    level = None if unassigned is None else check_level("unassigned", unassigned)
    fitted = _of_estimator(model) if isinstance(model, KSparse) else _of_result(model, key)
    named = None if level is None else _calibration(model, key, len(fitted.centroids), level)
    if normalize == "model":
        normalize = fitted.normalized
    if not fitted.genes.size:
        raise InputError(Term("model"), " selected no genes: there is nothing to place cells by.")
    part = None
    if fitted.restriction is not None:
        part = _part(new_adata, fitted.restriction)
    genes = fitted.genes
    if named is not None:
        genes = np.concatenate([genes, np.setdiff1d(named.genes, genes)])
    places = new_adata.var_names.get_indexer(genes)
    instead = "their means" if fitted.mean.any() else "zero"
    _check_missing(genes[places < 0], genes.size, min_share, instead)
    if copy:
        new_adata = copy_adata(new_adata)
    layer = _layer(new_adata, layer, fitted.layer)
    present = places >= 0
    X, _ = read_expression(new_adata, layer, normalize, columns=places[present])
    X = check_data(X, None, check_array).X
    # Leaving a gene out is the same as setting it to its mean, for centred data; else to zero.
    with np.errstate(over="ignore", invalid="ignore"):
        own = present[: fitted.genes.size]
        offsets = _batch_offsets(fitted, own, new_adata, batch_key)
        labels, projected = _place(fitted, own, X, offsets)
    if not np.isfinite(projected).all():
        raise InputError("The weights of model are too large for these cells: fit it again.")
    conforming = None if named is None else _p_values(named, genes[present], X)
    make_room(new_adata, key_added)
    placed = labels if part is None else labels[part.chosen]
    write_cells(new_adata, key_added, placed, projected, fitted.centroids, part, fitted.names)
    if conforming is not None and level is not None:
        conforming = conforming if part is None else conforming[part.chosen]
        write_sets(new_adata, key_added, conforming, level, part)
    return new_adata if copy else None


class _Fitted(NamedTuple):
    """The selected genes of a model; layer, normalisation and restriction of its cells.

    `names` are those of the clusters (None: numbers), `batches` the names of the batches,
    `batch_means` their means, and `batch_key` is the column that they were in.
    """

    genes: NDArray[np.str_]
    mean: NDArray[Any]
    scale: NDArray[Any]
    weights: NDArray[Any]
    centroids: NDArray[Any]
    normalized: str | None
    layer: str | None
    restriction: Restriction | None = None
    names: list[str] | None = None
    batches: list[str] | None = None
    batch_means: NDArray[Any] | None = None
    batch_key: str | None = None


def _of_result(adata: AnnData, key: str) -> _Fitted:
    record = read_record(adata, key)
    model, done = record.model, record.results.normalized
    batches = read_batches(adata, key, record)
    of_batches = () if batches is None else (
        batches.name, batches.means, str(record.params["batch_key"])
    )  # fmt: skip
    return _Fitted(model.genes, model.mean, model.scale, model.weights, model.centroids,
                   None if done == "no" else done, record.layer, record.restriction,
                   record.short_names, *of_batches)  # fmt: skip


def _part(new_adata: AnnData, restriction: Restriction) -> Part:
    """Return the new cells that belong to the groups of a restricted result."""
    if restriction.column not in new_adata.obs:
        groups = ", ".join(repr(group) for group in restriction.groups)
        raise InputError(
            "The result is of the cells whose ", field_term("obs", restriction.column),
            f" is one of {groups}, and ", Term("new_adata"), " does not have that column: add it.",
        )  # fmt: skip
    return part_of(new_adata, restriction, all_groups=False)


def _of_estimator(model: KSparse) -> _Fitted:
    check_is_fitted(model)
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        raise InputError(
            Term("model"), " does not know the names of its features: fit it on a data frame, or "
            "give the AnnData object with the results of ",
            Term("tool", text="ksparse.tl.ksparse"), ".",
        )  # fmt: skip
    with sound(Term("model"), "fit it again"):
        check_fitted(model.n_clusters, vars(model))
    chosen = np.flatnonzero(model.get_support())
    scale = np.broadcast_to(model.scale_, model.mean_.shape)
    return _Fitted(np.asarray(names)[chosen].astype(str), model.mean_[chosen], scale[chosen],
                   model.weights_[chosen], model.centroids_, None, None,
                   names=cluster_names(getattr(model, "known_classes_", None)),
                   batches=[str(name) for name in getattr(model, "batches_", ())] or None,
                   batch_means=getattr(model, "batch_means_", None))  # fmt: skip


def _batch_offsets(
    fitted: _Fitted, present: NDArray[np.bool_], new_adata: AnnData, batch_key: str | None
) -> NDArray[np.float64] | None:
    """Return what to subtract from each projected cell, for its batch (None: nothing)."""
    if fitted.batches is None or fitted.batch_means is None:
        if batch_key is None:
            return None
        raise InputError(
            Term("batch_key", batch_key), " was given, but ", Term("model"), " was fitted without "
            "batches: leave it out.",
        )  # fmt: skip
    column = fitted.batch_key if batch_key is None else batch_key
    if column is None or (batch_key is None and column not in new_adata.obs):
        if len(fitted.batches) == 1:  # its mean is that of all cells
            return None
        lacks = "the column of the batches" if column is None else repr(column)
        warn(
            Term("model"), f" was fitted with batches, and {lacks} is not known for ",
            Term("new_adata"), ": the mean of all batches is subtracted from all cells. Give ",
            Term("batch_key"), ".", stacklevel=3,
        )  # fmt: skip
        return None
    text, known = label_column(new_adata, column, "batch_key")
    groups = text.astype(object)
    groups[~known] = None
    shift, W = fitted.batch_means - fitted.mean, fitted.weights[present]
    offsets = batch_offsets(shift[:, present], fitted.scale[present], W)
    return offsets_of(offsets, groups, fitted.batches, groups.size, 3)


def _place(
    fitted: _Fitted, present: NDArray[np.bool_], X: Any, offsets: NDArray[Any] | None
) -> tuple[NDArray[np.int32], NDArray[Any]]:
    """Return the clusters of samples that have some of the selected genes, and the projection.

    The first columns of X are these genes. Samples are projected once: data in a file are read
    once.
    """
    weights = fitted.weights[present]
    if len(weights) < X.shape[1]:
        X = pick_columns(X, np.arange(len(weights)))
    projected = project_samples(X, fitted.mean[present], fitted.scale[present], weights)
    if offsets is not None:
        projected = projected - offsets
    nearest = distances(projected, fitted.centroids.astype(np.float64)).argmin(axis=1)
    return nearest.astype(np.int32), projected.astype(X.dtype, copy=False)


def _calibration(
    model: KSparse | AnnData, key: str, n_clusters: int, level: float
) -> NamedCalibration:
    """Return the calibration of a model or a result; raise InputError if there is none."""
    if isinstance(model, KSparse):
        parts = getattr(model, "calibration_", None)
        found = None if parts is None else named_calibration(parts, model.feature_names_in_)
    else:
        found = read_calibration(model, key, n_clusters)
    if found is None:
        raise InputError(
            Term("unassigned", level), " needs a calibration, which ", Term("model"), " does not "
            "have: ", CALIBRATE_FIRST, ".",
        )  # fmt: skip
    warn_small(found.calibration.sizes, "unassigned", level, stacklevel=3)
    return found


def _p_values(named: NamedCalibration, genes: NDArray[np.str_], X: Any) -> NDArray[np.float64]:
    """Return p-values, cells x clusters, of samples that have these genes."""
    column = {str(gene): place for place, gene in enumerate(genes)}
    found = np.array([column.get(str(gene), -1) for gene in named.genes])
    here = np.flatnonzero(found >= 0)
    n_clusters = named.calibration.units.shape[1]
    return row_results(X, found[here], p_values, (here, named.calibration), n_clusters)


def _layer(new_adata: AnnData, layer: str | None, fitted_on: str | None) -> str | None:
    """Return the layer to read: the one that was given, or else that of the fit."""
    if layer == "X" or (layer is None and fitted_on is None):
        return None
    if layer is None and fitted_on not in new_adata.layers:
        raise InputError(
            "The model was fitted on ", Term("layer", fitted_on), ", which ", Term("new_adata"),
            " does not have: give ", Term("layer", text="layer="),
            " (the name of a layer, or 'X').",
        )  # fmt: skip
    return fitted_on if layer is None else layer


def _check_missing(missing: NDArray[Any], n_genes: int, min_share: float, instead: str) -> None:
    """Warn if selected genes are missing; raise ValueError if too many are."""
    if not missing.size:
        return
    names = ", ".join(repr(str(name)) for name in missing[:N_NAMED])
    names += f" and {missing.size - N_NAMED} more" if missing.size > N_NAMED else ""
    n_present = n_genes - missing.size
    if not n_present:
        names += " (all are missing: are genes in rows, or named otherwise?)"
    if n_present < min_share * n_genes:
        share = Term("min_share", min_share, text=f"min_share={min_share:g}")
        raise InputError(
            Term("new_adata"), f" has {n_present} of the {n_genes} selected genes, fewer than ",
            share, f" of them; missing: {names}.",
        )  # fmt: skip
    warn(
        Term("new_adata"), f" lacks {missing.size} of the {n_genes} selected genes, which are "
        f"replaced by {instead}: {names}.", stacklevel=3,
    )  # fmt: skip
