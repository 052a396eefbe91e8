"""The path of numbers of genes, for AnnData."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ksparse._errors import InputError, Term
from ksparse.scverse.expression import read_expression, selected_columns
from ksparse.scverse.labels import label_column, part_of
from ksparse.scverse.restriction import read_restriction
from ksparse.scverse.schema import PathRecord, check_adata, check_key, holds_record, write_path
from ksparse.selection.path import FeaturePath, feature_path

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = ["path"]


def path(
    adata: AnnData,
    n_clusters: int,
    *,
    n_features: Iterable[int] | None = None,
    labels: str | None = None,
    layer: str | None = None,
    mask_var: Any = None,
    normalize: str | None = None,
    restrict_to: tuple[str, str | Sequence[str]] | None = None,
    key_added: str = "ksparse_path",
    random_state: int | np.random.RandomState | None = None,
    verbose: int = 0,
    **options: Any,
) -> FeaturePath:
    """Score the clusters along numbers of genes; see `ksparse.feature_path`.

    Parameters
    ----------
    adata : AnnData
        Cells x genes.
    n_clusters : int
        Number of clusters.
    n_features : iterable of int, optional
        Numbers of genes to try; 20 between 5 and 500 by default.
    labels : str, optional
        Column of `adata.obs` with true labels, for accuracy, ARI and NMI.
    layer, mask_var, normalize, restrict_to
        As in `ksparse.tl.ksparse`.
    key_added : str, default="ksparse_path"
        Under which name to write the table.
    random_state : int, RandomState or None
        Seed.
    verbose : int
        1 shows a progress bar on a terminal.
    **options
        Other options of `ksparse.feature_path` or parameters of `ksparse.KSparse`.

    Returns
    -------
    FeaturePath
        `.best()` is the smallest number of genes that is about as good as any. This field is
        written:

    `.uns[key_added]` : dict of ndarray
        The columns of the table, best, n_clusters, and restrict_to where it was given.
        `ksparse.pl.path` draws it.

    Examples
    --------
    >>> import ksparse as ks
    >>> adata = ks.simulate.simulate_counts(200, 500, 3, random_state=0).to_anndata()
    >>> path = ks.tl.path(adata, 3, n_features=[5, 20], normalize="log1p", random_state=0)
    >>> adata.uns["ksparse_path"]["n_features"]
    array([ 5, 20])
    """
    check_adata(adata)
    check_key("key_added", key_added)
    if holds_record(adata, key_added):
        raise InputError(Term("key_added", key_added), " holds a result: give another name.")
    restriction = read_restriction(restrict_to)
    cells = None
    if restriction is not None:
        cells = np.flatnonzero(part_of(adata, restriction).chosen)
    truth = None
    if labels is not None:
        truth, known = label_column(adata, labels)
        if cells is not None:
            truth, known = truth[cells], known[cells]
        if not known.all():
            raise InputError(
                Term("labels", labels), f" has {int((~known).sum())} missing values: name them, or "
                "leave these cells out.",
            )  # fmt: skip
    columns = selected_columns(adata, mask_var)
    limit = options.get("memory_limit")
    X, _ = read_expression(
        adata, layer, normalize, columns=columns, cells=cells, memory_limit=limit
    )
    result = feature_path(
        X, n_clusters, n_features=n_features, labels=truth, random_state=random_state,
        verbose=verbose, **options,
    )  # fmt: skip
    restricted = restriction.text if restriction else ""
    write_path(adata, key_added, PathRecord(result.columns, result.best(), n_clusters, restricted))
    return result
