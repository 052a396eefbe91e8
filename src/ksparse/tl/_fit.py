"""Cluster the cells of an AnnData object."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ksparse._errors import InputError, InputWarning, Term, warn
from ksparse.estimator import KSparse
from ksparse.params import NO_EFFECT, is_auto
from ksparse.scverse.batches import batch_values, middle_of_clusters, write_batches
from ksparse.scverse.calibration import named_calibration, write_calibration
from ksparse.scverse.expression import (
    check_gene_names,
    check_writable,
    other_expression,
    read_expression,
    selected_columns,
)
from ksparse.scverse.fields import (
    Part,
    check_free,
    make_room,
    write_cells,
    write_genes,
    write_memberships,
    write_outlying,
)
from ksparse.scverse.labels import cluster_names, kept_labels, part_of
from ksparse.scverse.markers import cluster_profiles, unmarked_sentence
from ksparse.scverse.restriction import read_restriction
from ksparse.scverse.schema import (
    Model,
    Record,
    Results,
    check_adata,
    check_key,
    copy_adata,
    package_versions,
    write_record,
)
from ksparse.scverse.separations import NUMBER, check_number_key, write_number

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = ["ksparse"]


def ksparse(
    adata: AnnData,
    n_clusters: int | str,
    *,
    n_features: int | float | str = "auto",
    layer: str | None = None,
    mask_var: Any = None,
    normalize: str | None = None,
    restrict_to: tuple[str, str | Sequence[str]] | None = None,
    known_labels: str | None = None,
    batch_key: str | None = None,
    calibrate: bool = False,
    key_added: str | None = None,
    random_state: int | np.random.RandomState | None = None,
    verbose: int = 0,
    copy: bool = False,
    **options: Any,
) -> AnnData | None:
    """Cluster cells and select the genes that define the clusters.

    `adata` may be in memory or backed by a file (results are then written to the object, not to
    the file: save it with `adata.write`). `adata.raw` is never read.

    Parameters
    ----------
    adata : AnnData
        Cells x genes.
    n_clusters : int or "auto"
        Number of clusters; "auto": the number that `ksparse.tl.choose_k` recommends.
    n_features : int, float or "auto", default="auto"
        How many genes to select: exactly that many, or a fraction of all.
    layer : str, optional
        Use this layer instead of `adata.X`.
    mask_var : str or array of bool, optional
        Genes that take part: a column of `adata.var`, such as "highly_variable", or a mask.
    normalize : {None, "log1p", "auto"}, default=None
        "log1p": use log(1 + counts per 10,000) of each cell. "auto": that, if the data are
        whole numbers. The data in `adata` are not changed.
    restrict_to : (str, str or list of str), optional
        Cluster only some cells: a column of `adata.obs`, and one or more of its groups. As with
        scanpy's `tl.leiden`, all other cells keep their group; see below.
    known_labels : str, optional
        A column of `adata.obs` with labels that cells keep; missing for cells of which nothing is
        known. Every class is one cluster; the others join a class, or one of the new clusters.
    batch_key : str, optional
        A column of `adata.obs` with the batch of every cell: genes are centred within batches,
        and held-out scores leave out one batch after the other.
    calibrate : bool, default=False
        Whether to prepare ``tl.predict(..., unassigned=...)``, which finds new cells that resemble
        no cluster (`KSparse.calibrate`); a few percent of the time, usually.
    key_added : str, optional
        Under which name to write the results; by default "ksparse", or "ksparse_R" with
        `restrict_to`.
    random_state : int, RandomState or None
        Seed.
    verbose : int
        1 shows a progress bar on a terminal.
    copy : bool, default=False
        Whether to return a copy with the results, and leave `adata` as it is.
    **options
        Other parameters of `ksparse.KSparse`, such as `eta`, `init` or `max_labels`.

    Returns
    -------
    AnnData or None
        None unless `copy`. These fields are written:

    `.obs[key_added]` : categorical of str
        Cluster of each cell, "0" is the largest. With `known_labels` clusters are called by
        their class, and only new ones by their number ("new 0", if a class has that name).
    `.obs[key_added + "_margin"]` : float
        1 for a cell at the centre of its cluster, 0 half-way to the next cluster.
    `.obsm[key_added]` : ndarray, cells x components
        The cells in the projection.
    `.var[key_added + "_selected"]` : bool
        Which genes were selected.
    `.var[key_added + "_weight"]` : float
        Weight of each gene (norm of its row of W); 0 if not selected.
    `.varm[key_added]` : ndarray, genes x components
        The projection W; column c belongs to cluster c.
    `.uns[key_added]["params"]` : dict
        Parameters that were given; those that are None are left out.
    `.uns[key_added]["results"]` : dict
        n_features, eta, gap (of the last W-step), converged, n_iter, n_cells, n_genes,
        normalized ("log1p" or "no"); for data in a file or a dask array n_passes, how often they
        were read; n_outlying, how many cells were set apart; for genes that were selected forward
        (few genes) explained, the share of the clusters that they explain, and explained_bound,
        that of all candidates.
    `.uns[key_added]["history"]` : dict of ndarray
        Per loop: cost, labels_changed, n_features, eta, gap.
    `.uns[key_added]["starts"]` : dict of ndarray
        The starts that were tried, with held-out scores.
    `.uns[key_added]["model"]` : dict
        What `tl.predict` needs, of the selected genes only.
    `.uns[key_added]["clusters"]` : dict of ndarray
        size, marked (whether a selected gene has another mean there than in every other
        cluster), and for the selected genes mean and fraction (of cells where the gene is not
        zero) in each cluster.
    `.uns[key_added]["versions"]` : dict of str
        ksparse, numpy, scipy, scikit-learn, numba, anndata, python.
    `.uns[key_added]["encoding"]`, `["version"]`
        Name and version of this record.

    If cells were set apart (see `KSparse.outlying_`) also `.obs[key_added + "_outlying"]` (bool).

    With ``n_clusters="auto"`` also `.uns[key_added + "_choose_k"]`: the table of the numbers that
    were tried, recommended and sentence.

    With `batch_key` also `.var[key_added + "_one_batch"]` (bool), selected genes whose association
    with the clusters is seen in one batch only, and `.uns[key_added + "_batches"]`: name, means
    (batches x selected genes), mixing (how batches are spread over clusters) and support (of the
    genes by the batches).

    With `calibrate` also `.uns[key_added + "_calibration"]`: genes, axes and scores of the folds.

    With ``max_labels > 1`` also `.obsm[key_added + "_memberships"]` (0 and 1, cells x
    clusters) and `.obs[key_added + "_log_odds"]` (of several labels against one).

    With `restrict_to` the clusters in `.obs[key_added]` are called by their groups, such as
    "T-NK,0", and all other cells have their group in that column. `.obs[key_added +
    "_clustered"]` (bool) tells the cells that were clustered. `.obsm[key_added]` has all cells,
    as far as these genes describe them; margins and log odds of the others are NaN, and their
    memberships 0. All else is of the clustered cells only, and so are the pictures and the
    report; `tl.predict` places new cells that are in the same groups of the same column.

    A cell that kept its label may be nearer to another cluster than to its own: its margin is
    negative, and `tl.predict` would place it there.

    Examples
    --------
    >>> import ksparse as ks
    >>> adata = ks.simulate.simulate_counts(300, 500, 3, random_state=0).to_anndata()
    >>> ks.tl.ksparse(adata, 3, n_features=20, normalize="log1p", random_state=0)
    >>> adata.obs["ksparse"].value_counts().tolist(), int(adata.var["ksparse_selected"].sum())
    ([138, 94, 68], 20)

    The cells of cluster 0 once more:

    >>> ks.tl.ksparse(adata, 2, n_features=20, normalize="log1p", random_state=0,
    ...               restrict_to=("ksparse", "0"))
    >>> adata.obs["ksparse_R"].cat.categories.tolist()
    ['0,0', '0,1', '1', '2']

    Some cells of two types are known, and there is a third:

    >>> adata.obs["type"] = adata.obs["label"].cat.remove_categories("type 0")
    >>> adata.obs.loc[adata.obs_names[50:], "type"] = None
    >>> ks.tl.ksparse(adata, 3, n_features=20, normalize="log1p", random_state=0,
    ...               known_labels="type", key_added="typed")
    >>> adata.obs["typed"].cat.categories.tolist()
    ['0', 'type 1', 'type 2']
    """
    check_adata(adata)
    restriction = read_restriction(restrict_to)
    if key_added is None:
        key_added = "ksparse" if restriction is None else "ksparse_R"
    check_key("key_added", key_added)
    check_writable(adata, copy)
    check_gene_names(adata)
    check_free(adata, key_added)
    if is_auto(n_clusters):
        check_number_key(adata, key_added + NUMBER)
    columns = selected_columns(adata, mask_var)
    part = None if restriction is None else part_of(adata, restriction)
    kept = None if known_labels is None else kept_labels(adata, known_labels, part, key_added)
    batch, other_batch = _batches(adata, batch_key, part, key_added, calibrate)
    if copy:
        adata = copy_adata(adata)
    reading: dict[str, Any] = {"columns": columns, "memory_limit": options.get("memory_limit")}
    cells = None if part is None else np.flatnonzero(part.chosen)
    X, normalized = read_expression(adata, layer, normalize, cells=cells, **reading)
    others = None
    if part is not None and not part.chosen.all():  # before the fit: they may hold bad values
        others = other_expression(adata, layer, normalized, np.flatnonzero(~part.chosen), **reading)
    model = KSparse(
        n_clusters, n_features=n_features, random_state=random_state, verbose=verbose, **options
    )
    projected = model.fit_project(X, known_labels=kept, groups=batch)
    projected = _with_others(projected, model, part, others, other_batch)
    if calibrate:
        model.calibrate(X)
    clusters = cluster_names(getattr(model, "known_classes_", None))
    params = {
        "n_clusters": n_clusters,
        "n_features": n_features,
        "layer": layer,
        "mask_var": mask_var,
        "normalize": normalize,
        "restrict_to": None if restriction is None else restriction.words,
        "known_labels": known_labels,
        "batch_key": batch_key,
        "random_state": random_state,
        **{name: value for name, value in options.items() if name not in NO_EFFECT},
    }
    genes = np.arange(adata.n_vars) if columns is None else columns
    names = np.asarray(adata.var_names, dtype=object)[genes].astype(str)
    make_room(adata, key_added)
    write_cells(adata, key_added, model.labels_, projected, model.centroids_, part, clusters)
    write_outlying(adata, key_added, model.outlying_, part)
    write_genes(adata, key_added, genes, model.weights_)
    if model.max_labels > 1:
        write_memberships(adata, key_added, model.memberships_, model.membership_log_odds_, part)
    record = _record(model, X, names, params, normalized, clusters)
    write_batches(adata, key_added, model, genes[model.get_support()])
    write_record(adata, key_added, record)
    if sentence := unmarked_sentence(record):
        warn(sentence, stacklevel=2)
    if is_auto(n_clusters):
        write_number(adata, key_added + NUMBER, model.cluster_number_)
    if calibrate:
        write_calibration(adata, key_added, named_calibration(model.calibration_, names))
    return adata if copy else None


def _batches(
    adata: AnnData, batch_key: str | None, part: Part | None, key_added: str, calibrate: bool
) -> tuple[NDArray[np.object_] | None, NDArray[np.object_] | None]:
    """Return the batches of the cells that are clustered, and of the others."""
    if batch_key is None:
        return None, None
    if calibrate:
        raise InputError(
            Term("calibrate", True), " and ", Term("batch_key", batch_key), " exclude each other: "
            "batches cannot be calibrated.",
        )  # fmt: skip
    every = batch_values(adata, batch_key, key_added)
    return (every, None) if part is None else (every[part.chosen], every[~part.chosen])


def _with_others(
    projected: NDArray[Any], model: KSparse, part: Part | None, others: Any, batch: Any
) -> NDArray[Any]:
    """Return the projection of all cells, given that of the clustered ones.

    To be called by the tool itself, because of its warning.
    """
    if part is None or others is None:
        return projected
    out = part.spread(projected, 0.0)
    with warnings.catch_warnings():
        if batch is not None and (n_strange := int((~np.isin(batch, model.batches_)).sum())):
            warn(
                f"{n_strange} cells that are not clustered are of batches that no clustered cell "
                "is of: in obsm the mean of all batches is subtracted from them.", stacklevel=3,
            )  # fmt: skip
            warnings.simplefilter("ignore", InputWarning)  # the same, of samples
        out[~part.chosen] = model.project(others, groups=batch)
    return out


def _explained(model: KSparse) -> dict[str, float]:
    """Return what genes that were selected forward explain, and all candidates would."""
    if np.isnan(model.explained_):
        return {}
    return {"explained": float(model.explained_), "explained_bound": float(model.explained_bound_)}


def _record(
    model: KSparse,
    X: Any,
    names: NDArray[np.str_],
    params: dict[str, Any],
    normalized: str | None,
    clusters: list[str] | None,
) -> Record:
    chosen = np.flatnonzero(model.get_support())
    return Record(
        params=params,
        results=Results(
            n_features=model.n_features_selected_,
            eta=float(model.eta_),
            gap=float(model.gap_),
            converged=bool(model.converged_),
            n_iter=model.n_iter_,
            n_cells=X.shape[0],
            n_genes=X.shape[1],
            normalized=normalized or "no",
            n_passes=model.n_passes_,
            n_outlying=int(model.outlying_.size),
            **_explained(model),
        ),
        history=dict(model.history_),
        starts={name: np.array(values) for name, values in model.starts_.items()},
        model=Model(
            genes=names[chosen],
            mean=np.asarray(model.mean_)[chosen],
            scale=np.broadcast_to(model.scale_, model.mean_.shape)[chosen].copy(),
            weights=model.weights_[chosen],
            centroids=model.centroids_,
            spread=float(model.spread_),
        ),
        clusters=replace(
            cluster_profiles(X, chosen, model.labels_, len(model.centroids_)),
            name=None if clusters is None else np.array(clusters),
            middle=middle_of_clusters(model),
            marked=~np.isin(np.arange(len(model.centroids_)), model.unmarked_),
        ),
        versions=package_versions(),
    )
