"""Gates for the groups of cells of an AnnData object."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ksparse._errors import InputError, Term
from ksparse.panel.gates import MAX_FEATURES, Gates, find_gates
from ksparse.params import check_integer
from ksparse.scverse.expression import (
    check_gene_names,
    check_writable,
    read_expression,
    selected_columns,
)
from ksparse.scverse.genes import allowed_genes
from ksparse.scverse.labels import group_order, label_column
from ksparse.scverse.panel_evaluation import group_column, held_out_cells, panel_places
from ksparse.scverse.panels import check_gates_key, panel_columns, read_gates, write_gates
from ksparse.scverse.schema import check_adata, check_key, copy_adata

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = ["gates", "get_gates"]


def gates(
    adata: AnnData,
    groupby: str,
    *,
    genes: Iterable[str] | str | None = None,
    max_genes: int = 3,
    allowed: str | Iterable[str] | None = None,
    layer: str | None = None,
    mask_var: Any = None,
    normalize: str | None = None,
    n_candidates: int = 20,
    beta: float = 1.0,
    held_out: Any = None,
    key_added: str = "gates",
    random_state: int | np.random.RandomState | None = None,
    copy: bool = False,
) -> AnnData | None:
    """Find for every group of cells the few genes, each present or absent, that mark it.

    The result is like a sheet for flow cytometry or immunohistochemistry: "CD3D+ CD8A+ MS4A1-",
    with a threshold for each gene, and precision, recall and F on cells that had no part in
    finding genes and thresholds. The search is exhaustive; see
    `ksparse.panel.gates.find_gates`. If `groupby` are clusters that were found in the same
    data, the scores say how well a gate finds the cells of a cluster again, and not whether
    the cluster is real.

    Parameters
    ----------
    adata : AnnData
        Cells x genes.
    groupby : str
        Column of `adata.obs` with the groups. Cells without a group are left out, with a
        warning.
    genes : iterable of str, or str, optional
        The genes to search: names, or a column of `adata.var` that is True for them. By default
        those where ``adata.var["panel"]`` is True; without a panel all genes, of which
        `n_candidates` are searched for each group. A panel that was chosen with the cells that
        are held out here makes the scores of its gates a little too good: give the same
        `held_out` to `ksparse.tl.panel`.
    max_genes : int, default=3
        The largest number of genes in a gate, 1 to 4.
    allowed : str or iterable of str, optional
        Genes for which there are, for example, antibodies: a column of `adata.var` with True
        and False, or names. Others are not used. Names that are not in `adata` are counted in
        a warning.
    layer, mask_var, normalize
        As in `ksparse.tl.ksparse`.
    n_candidates : int, default=20
        How many genes are searched for each group if there are neither `genes` nor a panel, or
        if these are more than 200.
    beta : float, default=1.0
        Recall counts `beta` times as much as precision.
    held_out : str or array of bool, optional
        Find gates without these cells, and score them on these, instead of halves: a column of
        `adata.obs`, or a mask.
    key_added : str, default="gates"
        Under which name to write the table.
    random_state : int, RandomState or None
        Seed of the halves into which the cells are split.
    copy : bool, default=False
        Whether to return a copy with the results, and leave `adata` as it is.

    Returns
    -------
    AnnData or None
        None unless `copy`. This field is written:

    `.uns[key_added]` : DataFrame, one row for each group
        group, gate (as text), n_genes; precision, recall, F and its standard error F_se on
        held-out cells; F_training, which is too good; n_cells and n_training (cells of the
        group in either half), beta, genes and thresholds (as JSON text), signs, and the layer
        and normalisation to which the thresholds belong. `ksparse.tl.get_gates` reads it.

    Examples
    --------
    >>> import ksparse as ks
    >>> adata = ks.simulate.simulate_counts(300, 200, 3, random_state=0).to_anndata()
    >>> ks.tl.gates(adata, "label", max_genes=2, normalize="log1p", random_state=0)
    >>> adata.uns["gates"][["gate", "n_genes"]].shape
    (3, 2)
    """
    check_adata(adata)
    check_key("key_added", key_added)
    check_gates_key(adata, key_added)
    check_writable(adata, copy)
    check_gene_names(adata)
    n_candidates = check_integer("n_candidates", n_candidates, 1)
    group_column(adata, groupby)
    labels, known = label_column(adata, groupby, "groupby")
    n_groups = np.unique(labels[known]).size
    if n_groups < 2:
        raise InputError(
            Term("groupby", groupby), f" has {n_groups} group{'' if n_groups == 1 else 's'} of "
            "cells, which should be >= 2: a gate tells one from others.",
        )  # fmt: skip
    columns, is_panel = _columns(adata, genes, allowed, mask_var)
    if copy:
        adata = copy_adata(adata)
    X, normalized = read_expression(adata, layer, normalize, columns=columns)
    groups = labels.astype(object)
    groups[~known] = None
    result = find_gates(
        X,
        groups,
        names=adata.var_names[columns],
        max_genes=max_genes,
        beta=beta,
        n_candidates=None if is_panel and columns.size <= MAX_FEATURES else n_candidates,
        held_out=held_out_cells(adata, held_out),
        random_state=random_state,
    )
    order = {group: i for i, group in enumerate(group_order(adata, groupby))}
    ordered = tuple(sorted(result.gates, key=lambda gate: order[gate.group]))
    result = replace(result, gates=ordered)
    write_gates(adata, key_added, result, layer=layer, normalized=normalized)
    return adata if copy else None


def get_gates(adata: AnnData, key: str = "gates") -> Gates:
    """Return the gates that `ksparse.tl.gates` has written.

    Parameters
    ----------
    adata : AnnData
        With the results of `ksparse.tl.gates`, also after it was written to a file and read.
    key : str, default="gates"
        The `key_added` of these results.

    Returns
    -------
    Gates
        `.table` is a data frame, `.names` are the genes that occur in gates, and `.inside(X)`
        tells which cells are in which gate; X has the columns `.names`, and is normalised as
        the data for which the gates were found.

    Examples
    --------
    >>> import ksparse as ks
    >>> adata = ks.simulate.simulate_counts(300, 200, 3, random_state=0).to_anndata()
    >>> ks.tl.gates(adata, "label", max_genes=1, normalize="log1p", random_state=0)
    >>> gates = ks.tl.get_gates(adata)
    >>> [len(gate.genes) for gate in gates.gates]
    [1, 1, 1]
    """
    return read_gates(adata, key)


def _columns(
    adata: AnnData, genes: Any, allowed: Any, mask_var: Any
) -> tuple[NDArray[np.intp], bool]:
    """Return the places of the genes to search, in order, and whether they were chosen."""
    chosen = panel_columns(adata) if genes is None else panel_places(adata, genes)
    columns = np.arange(adata.n_vars) if chosen is None else chosen
    if allowed is not None:
        columns = columns[np.isin(columns, allowed_genes(adata, allowed, stacklevel=3))]
    if (masked := selected_columns(adata, mask_var)) is not None:
        columns = columns[np.isin(columns, masked)]
    if not columns.size:
        n = adata.n_vars if chosen is None else chosen.size
        raise InputError(
            Term("allowed"), " and ", Term("mask_var"), f" leave 0 of {n} genes: let some take "
            "part.",
        )  # fmt: skip
    return columns, chosen is not None
