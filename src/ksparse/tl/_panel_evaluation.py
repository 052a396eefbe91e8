"""Evaluate lists of genes as panels for groups of cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ksparse.panel import curve as curves
from ksparse.panel import evaluation as evaluations
from ksparse.scverse.expression import (
    check_gene_names,
    check_writable,
    read_expression,
    selected_columns,
)
from ksparse.scverse.panel_evaluation import (
    check_new_field,
    group_column,
    held_out_cells,
    panel_places,
    write_curve,
    write_evaluation,
)
from ksparse.scverse.schema import check_adata, copy_adata

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = ["evaluate_panel", "panel_curve"]


def evaluate_panel(
    adata: AnnData,
    genes: Sequence[str] | str,
    groupby: str,
    *,
    held_out: Any = None,
    layer: str | None = None,
    mask_var: Any = None,
    normalize: str | None = None,
    key_added: str = "panel_evaluation",
    n_splits: int = 5,
    n_random: int = 5,
    compare: bool = True,
    n_neighbors: int = 15,
    max_cells: int | None = 5_000,
    random_state: int | np.random.RandomState | None = None,
    copy: bool = False,
) -> AnnData | None:
    """Evaluate a list of genes as a panel for groups of cells.

    How well the genes tell the groups apart on cells that were held out, how much they keep of
    the neighbours of cells, and how much they repeat each other; beside random genes, and a
    panel of ours that is chosen within the folds. If the list was chosen with the same cells,
    its figures are too good: choose it with some of the cells, and give the others as
    `held_out`. See `ksparse.panel.evaluation.evaluate_panel`.

    Parameters
    ----------
    adata : AnnData
        Cells x genes.
    genes : sequence of str, or str
        Names of the genes, or a column of `adata.var` that is True for them.
    groupby : str
        Column of `adata.obs` with the groups. Cells without one, and groups of a single cell,
        are left out with a warning.
    held_out : str or array of bool, optional
        Evaluate these cells only, which had no part in the choice of the genes: a column of
        `adata.obs`, or a mask.
    layer, normalize
        As in `ksparse.tl.ksparse`.
    mask_var : str or array of bool, optional
        Genes among which random genes and our panel are chosen, and that define the
        neighbours of cells; those of the list always take part.
    key_added : str, default="panel_evaluation"
        Under which name to write the results.
    n_splits, n_random, compare, n_neighbors, max_cells, random_state
        As in `ksparse.panel.evaluation.evaluate_panel`.
    copy : bool, default=False
        Whether to return a copy with the results, and leave `adata` as it is.

    Returns
    -------
    AnnData or None
        None unless `copy`. These fields are written:

    `.uns[key_added]["scores"]` : DataFrame
        method ("panel", "random", "ksparse"), n_genes, classifier ("logistic", "5nn"),
        balanced_accuracy, se, sd (between random lists), difference (the panel minus the
        method) and difference_se.
    `.uns[key_added]["recall"]` : DataFrame
        For each group n_cells, and the share of held-out cells that each classifier finds with
        its standard error: logistic, logistic_se, 5nn, 5nn_se.
    `.uns[key_added]["confusion"]` : DataFrame
        classifier, group, predicted and n_cells, the number of held-out cells.
    `.uns[key_added]["genes"]` : DataFrame
        For each gene detected (share of cells), group (where its mean is highest),
        highest_mean, max, partner (the most correlated gene of the list) and abs_correlation.
    `.uns[key_added]["summary"]` : dict
        neighbour_overlap, chance_overlap, mean_abs_correlation, max_abs_correlation, n_cells
        and n_splits.
    `.uns[key_added]["params"]` : dict
        groupby, layer, normalized, and held_out ("yes" or "no").

    Examples
    --------
    >>> import ksparse as ks
    >>> adata = ks.simulate.simulate_counts(200, 300, 3, random_state=0).to_anndata()
    >>> genes = adata.var_names[:20]
    >>> ks.tl.evaluate_panel(adata, genes, "label", normalize="log1p", random_state=0)
    >>> list(adata.uns["panel_evaluation"]["scores"]["method"])
    ['panel', 'panel', 'random', 'random', 'ksparse', 'ksparse']
    """
    check_adata(adata)
    check_new_field(adata, key_added)
    check_writable(adata, copy)
    check_gene_names(adata)
    places = panel_places(adata, genes)
    groups = group_column(adata, groupby)
    columns = selected_columns(adata, mask_var)
    cells = held_out_cells(adata, held_out)
    if copy:
        adata = copy_adata(adata)
    used = np.arange(adata.n_vars) if columns is None else np.union1d(columns, places)
    X, normalized = read_expression(
        adata, layer, normalize, columns=None if columns is None else used
    )
    result = evaluations.evaluate_panel(
        X,
        groups,
        np.searchsorted(used, places),
        held_out=cells,
        n_splits=n_splits,
        n_random=n_random,
        compare=compare,
        n_neighbors=n_neighbors,
        max_cells=max_cells,
        random_state=random_state,
    )
    names = np.asarray(adata.var_names, dtype=object)[used].astype(str)
    params = {"groupby": groupby, "layer": layer, "normalized": normalized or "no",
              "held_out": "no" if held_out is None else "yes"}  # fmt: skip
    write_evaluation(adata, key_added, result, names, params)
    return adata if copy else None


def panel_curve(
    adata: AnnData,
    groupby: str,
    *,
    n_genes: Sequence[int] = (5, 10, 20, 50, 100),
    held_out: Any = None,
    ours: bool = True,
    rivals: Sequence[str] = ("wilcoxon", "hvg", "random"),
    layer: str | None = None,
    mask_var: Any = None,
    normalize: str | None = None,
    key_added: str = "panel_curve",
    n_splits: int = 5,
    n_random: int = 5,
    max_cells: int | None = 5_000,
    random_state: int | np.random.RandomState | None = None,
) -> Any:
    """Score panels of several numbers of genes, ours beside other ways to choose them.

    Genes are chosen on one half of the cells, and classifiers are cross-validated on the
    other; see `ksparse.panel.curve.panel_curve`. `ksparse.pl.panel_curve` draws the table.

    Parameters
    ----------
    adata : AnnData
        Cells x genes.
    groupby : str
        Column of `adata.obs` with the groups. Cells without one, and groups of fewer than 4
        cells, are left out with a warning.
    n_genes : sequence of int, default=(5, 10, 20, 50, 100)
        Numbers of genes.
    held_out : str or array of bool, optional
        Score these cells, and choose genes with all others: a column of `adata.obs`, or a mask.
        By default half of every group.
    ours : bool, default=True
        Whether to score `ksparse.panel.PanelSelector`.
    rivals : sequence of {"wilcoxon", "hvg", "random"}
        Other methods: the best genes of scanpy's rank-sum test, one of each group in turn; the
        genes of largest variance; random genes.
    layer, mask_var, normalize
        As in `ksparse.tl.ksparse`.
    key_added : str, default="panel_curve"
        Under which name to write the table.
    n_splits, n_random, max_cells, random_state
        As in `ksparse.panel.curve.panel_curve`.

    Returns
    -------
    DataFrame
        Columns: method ("ksparse" is ours), n_genes, classifier, balanced_accuracy, se, sd
        (between random lists) and chance (1 / number of groups). It is written, too:

    `.uns[key_added]` : DataFrame

    Examples
    --------
    >>> import ksparse as ks
    >>> adata = ks.simulate.simulate_counts(200, 300, 3, random_state=0).to_anndata()
    >>> curve = ks.tl.panel_curve(
    ...     adata, "label", n_genes=[5, 20], rivals=["hvg"], normalize="log1p", random_state=0
    ... )
    >>> curve["n_genes"].tolist(), curve["method"].tolist()[::4]
    ([5, 5, 20, 20, 5, 5, 20, 20], ['ksparse', 'hvg'])
    """
    check_adata(adata)
    check_new_field(adata, key_added)
    check_writable(adata)
    groups = group_column(adata, groupby)
    columns = selected_columns(adata, mask_var)
    X, _ = read_expression(adata, layer, normalize, columns=columns)
    curve = curves.panel_curve(
        X,
        groups,
        n_genes,
        held_out=held_out_cells(adata, held_out),
        ours=ours,
        rivals=rivals,
        n_splits=n_splits,
        n_random=n_random,
        max_cells=max_cells,
        random_state=random_state,
    )
    write_curve(adata, key_added, curve)
    return curve
