"""Choose a panel of genes for the groups of cells of an AnnData object."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ksparse._errors import InputError, InputWarning, Term, warn
from ksparse._names import called, listed
from ksparse._tables import as_table
from ksparse.estimator import KSparse
from ksparse.matrix.sources import select_rows
from ksparse.panel.recall import held_out_recall, lost_groups
from ksparse.panel.scoring import Groups, read_groups, split_groups
from ksparse.panel.selector import PanelSelector
from ksparse.params import check_integer, check_seed
from ksparse.scverse.expression import (
    check_gene_names,
    check_writable,
    read_expression,
    selected_columns,
)
from ksparse.scverse.genes import candidate_genes, gene_costs
from ksparse.scverse.panel_evaluation import group_column, held_out_cells
from ksparse.scverse.panels import Panel, check_panel_key, cluster_column, write_panel
from ksparse.scverse.schema import check_adata, check_key, copy_adata

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = ["panel"]

# Two cells to choose genes with, and two to score them.
LEAST_CELLS = 4
# What we call the parameters of the selector.
NAMES = {"n_features": "n_genes", "min_per_class": "min_per_group"}
WORDS = {"features": "genes", "classes": "groups", "class": "group", "X has": "There are"}


def panel(
    adata: AnnData,
    n_genes: int,
    *,
    groupby: str | None = None,
    n_clusters: int | None = None,
    keep: Iterable[str] | None = None,
    exclude: Iterable[str] | None = None,
    exclude_pattern: str | None = None,
    allowed: str | Iterable[str] | None = None,
    costs: str | None = None,
    min_per_group: int = 1,
    extend: Iterable[str] | None = None,
    balance: float = 1.0,
    held_out: Any = None,
    layer: str | None = None,
    normalize: str | None = None,
    mask_var: Any = None,
    key_added: str = "panel",
    random_state: int | np.random.RandomState | None = None,
    copy: bool = False,
) -> AnnData | None:
    """Choose a panel: the few genes that together tell groups of cells apart.

    Genes are taken one after the other, each the one that explains most of what those before
    leave of the groups; every group counts the same, however many cells it has. See
    `ksparse.panel.PanelSelector`. `ksparse.tl.gates` and `ksparse.pl.panel` use the panel.

    Parameters
    ----------
    adata : AnnData
        Cells x genes.
    n_genes : int
        How many genes in all, with those of `keep` and `extend`.
    groupby : str, optional
        Column of `adata.obs` with the groups. Cells without one, and groups of fewer than 4
        cells, are left out, with a warning.
    n_clusters : int, optional
        Without `groupby`: find so many clusters by `ksparse.KSparse`, with all genes of
        `mask_var`, and choose the panel for them.
    keep : iterable of str, optional
        Genes that the panel has in any case, before all others, also if `allowed`,
        `exclude_pattern` or `mask_var` would leave them out.
    exclude : iterable of str, optional
        Genes that the panel never has.
    exclude_pattern : str, optional
        Nor those in whose name this regular expression is found, such as ``r"^MT-|^RP[LS]"``
        for human genes, ``r"(?i)^mt-|^rp[ls]"`` for any. A warning says if there are none.
    allowed : str or iterable of str, optional
        Genes for which there are, for example, probes: a column of `adata.var` with True and
        False, or names. Others are not used. Names that are not in `adata` are counted in a
        warning.
    costs : str, optional
        Column of `adata.var` with the cost of each gene, by which its gain is divided. 0: keep,
        as if it were in `keep`; infinity: exclude.
    min_per_group : int, default=1
        For each group, at least so many genes of the panel have their largest mean in it.
    extend : iterable of str, optional
        An existing panel: all of its genes are kept.
    balance : float, default=1.0
        A group of n cells has the weight n^(1 - balance). 1: every group counts the same; 0:
        every cell does.
    held_out : str or array of bool, optional
        Choose genes without these cells, and score the panel on these: a column of `adata.obs`,
        or a mask.
    layer, normalize, mask_var
        As in `ksparse.tl.ksparse`.
    key_added : str, default="panel"
        Under which name to write the results.
    random_state : int, RandomState or None
        Seed of the halves for the recall, and of the clusters.
    copy : bool, default=False
        Whether to return a copy with the results, and leave `adata` as it is.

    Returns
    -------
    AnnData or None
        None unless `copy`. These fields are written:

    `.var[key_added]` : bool
        Which genes are in the panel.
    `.var[key_added + "_rank"]` : float
        1 for the first gene, 2 for the second; NaN for genes that are not in the panel.
    `.obs[key_added + "_clusters"]` : categorical of str
        The clusters, if there is no `groupby`.
    `.uns[key_added]["genes"]` : DataFrame
        In the order of selection: gene, rank; gain, by which the gene raised the share of the
        groups that is explained, and explained, that share; group, for which the gene was
        chosen: of what those before it left, it explains most of this group; direction ("up" or
        "down"); difference, its mean in the group minus the mean over the other groups; why, a
        sentence that says so.
    `.uns[key_added]["recall"]` : DataFrame
        For each group n_cells, chance, and the recall of logistic regression and of 5 nearest
        neighbours on held-out cells: logistic, 5nn. The cells that are scored have no part in the
        choice: for this table the panel is chosen again, in the same way, on half of the cells
        of every group (of at most 10,000), and the other half is scored. confused_with is the
        group (of those at least as large) whose cells are most often taken for it;
        told_apart is False for groups that are found no better than by chance, or for which as
        many cells of another group are taken: a warning names them. With `held_out` it is
        the panel itself that is scored, on these cells. Clusters that were
        found in the same cells are found again more easily than groups that were given.
    `.uns[key_added]["explained"]`, `["explained_bound"]` : float
        The share of the groups that the panel explains, and that which all candidates would.
    `.uns[key_added]["params"]` : dict
        groupby, layer, normalize and what else was given (keep holds `extend` and genes that
        cost nothing, too; without lists of genes that are excluded or allowed).

    Examples
    --------
    >>> import ksparse as ks
    >>> adata = ks.simulate.simulate_counts(300, 200, 3, random_state=0).to_anndata()
    >>> ks.tl.panel(adata, 6, groupby="label", normalize="log1p", random_state=0)
    >>> int(adata.var["panel"].sum()), adata.uns["panel"]["genes"].shape
    (6, (6, 8))
    >>> ax = ks.pl.panel(adata)
    """
    check_adata(adata)
    check_key("key_added", key_added)
    check_panel_key(adata, key_added)
    check_writable(adata, copy)
    check_gene_names(adata)
    rng = check_seed(random_state)
    n_genes = check_integer("n_genes", n_genes, 1)
    columns, kept = candidate_genes(
        adata, keep, extend, exclude, exclude_pattern, allowed, mask_var, costs
    )
    options: dict[str, Any] = {
        "keep": np.searchsorted(columns, kept),
        "costs": None if costs is None else gene_costs(adata, "costs", costs)[columns],
        "min_per_class": check_integer("min_per_group", min_per_group, 0),
        "balance": balance,
    }
    column = _given_groups(adata, groupby, n_clusters)
    if copy:
        adata = copy_adata(adata)
    clusters = None
    if column is None:
        clusters = column = _clusters(adata, n_clusters, layer, normalize, mask_var, rng)
        groupby = cluster_column(key_added)
    groups = read_groups(column, adata.n_obs, least=LEAST_CELLS)
    _check_number(n_genes, kept.size, len(groups.names), min_per_group, costs)
    with warnings.catch_warnings():
        if clusters is not None:
            warnings.simplefilter("ignore", InputWarning)  # they were told with the clusters
        X, normalized = read_expression(adata, layer, normalize, columns=columns)
    mask = held_out_cells(adata, held_out)
    fitted = groups if mask is None else split_groups(groups, mask, adata.n_obs)[0]
    model = PanelSelector(n_genes, **options)
    model = _fitted(model, select_rows(X, fitted.rows), fitted.codes, groups.names)

    def choose(X: Any, codes: NDArray[np.intp]) -> NDArray[np.intp]:
        return _chosen_again(n_genes, options, X, codes) if mask is None else model.features_

    recall = held_out_recall(X, groups, choose, rng, mask)
    _warn_lost(recall)
    params = {"groupby": groupby, "layer": layer, "normalize": normalized, "n_genes": n_genes,
              "min_per_group": min_per_group, "n_clusters": n_clusters, "costs": costs,
              "balance": balance, "held_out": None if mask is None else "yes",
              "exclude_pattern": exclude_pattern,
              "keep": np.asarray(adata.var_names[kept], dtype=str) if kept.size else None,
              "allowed": allowed if isinstance(allowed, str) else None,
              "mask_var": mask_var if isinstance(mask_var, str) else None}  # fmt: skip
    names = np.asarray(adata.var_names[columns], dtype=object)
    noun = "group" if clusters is None else "cluster"
    table = _gene_table(model, names, groups, columns, kept, noun)
    result = Panel(table, recall, float(model.explained_[-1]), model.explained_bound_, params)
    write_panel(adata, key_added, result, clusters)
    return adata if copy else None


def _given_groups(adata: AnnData, groupby: str | None, n_clusters: int | None) -> Any:
    """Return the column with the groups; None if they are clusters to be found."""
    if groupby is not None and n_clusters is not None:
        raise InputError(
            Term("groupby", groupby), " and ", Term("n_clusters", n_clusters), " exclude each "
            "other: give one.",
        )  # fmt: skip
    if groupby is not None:
        return group_column(adata, groupby)
    if n_clusters is None:
        raise InputError(
            "A panel needs groups of cells: give ", Term("groupby"), ", a column of ",
            Term("adata.obs"), ", or ", Term("n_clusters"), " to find clusters.",
        )  # fmt: skip
    return None


def _clusters(
    adata: AnnData, n_clusters: int | None, layer: Any, normalize: Any, mask_var: Any, rng: Any
) -> NDArray[Any]:
    n_clusters = check_integer("n_clusters", n_clusters, 2)
    X, _ = read_expression(
        adata, layer, normalize, columns=selected_columns(adata, mask_var), stacklevel=3
    )
    return np.asarray(KSparse(n_clusters, random_state=rng).fit(X).labels_)


def _check_number(
    n_genes: int, n_kept: int, n_groups: int, min_per_group: int, costs: str | None
) -> None:
    if n_kept > n_genes:
        who: list[str | Term] = [Term("keep"), " and ", Term("extend"), " have"]
        if costs is not None:
            who = [Term("keep"), ", ", Term("extend"), " and 0 in ", Term("costs", costs), " keep"]
        raise InputError(
            *who, f" {n_kept} genes, more than ", Term("n_genes", n_genes),
            ", which counts them: ask for more, or keep fewer.",
        )  # fmt: skip
    if n_genes < n_groups * min_per_group:
        raise InputError(
            Term("n_genes", n_genes), f" is too small for {n_groups} groups with ",
            Term("min_per_group", min_per_group), f": ask for at least {n_groups * min_per_group} "
            "genes, or for fewer of each group.",
        )  # fmt: skip


def _renamed(message: InputError | InputWarning, groups: Sequence[str]) -> list[str | Term]:
    """Return a message of the selector with our words, parameters and groups."""

    def renamed(part: str | Term) -> str | Term:
        if isinstance(part, Term) and part.name in WORDS:
            return WORDS[part.name]
        if isinstance(part, Term) and part.name == "classes_":
            return listed([f"{groups[c]!r} ({n})" for c, n in dict(part.value or {}).items()])
        if isinstance(part, Term) and part.has_value and part.name in NAMES:
            return Term(NAMES[part.name], part.value)
        return part

    return [renamed(part) for part in message.parts]


def _fitted(
    model: PanelSelector, X: Any, codes: NDArray[np.intp], groups: Sequence[str]
) -> PanelSelector:
    """Return the fitted selector; what it says names our parameters."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model.fit(X, codes)
        except InputError as error:
            raise InputError(*_renamed(error, groups)) from None
    for warning in caught:
        if isinstance(warning.message, InputWarning):
            warn(*_renamed(warning.message, groups), stacklevel=3)
        else:
            warnings.warn(warning.message, stacklevel=3)
    return model


def _chosen_again(
    n_genes: int, options: dict[str, Any], X: Any, codes: NDArray[np.intp]
) -> NDArray[np.intp]:
    """Return the genes that are chosen for some of the cells, in silence."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        try:
            model = PanelSelector(n_genes, **options).fit(X, codes)
        except InputError:
            # In half of the cells kept genes may be highest in other groups, so that the
            # places that are left do not suffice for every group.
            model = PanelSelector(n_genes, **options | {"min_per_class": 0}).fit(X, codes)
    return model.features_


def _warn_lost(recall: Any) -> None:
    if lost := lost_groups(recall):
        best = recall[["logistic", "5nn"]].max(axis=1)
        shown = [f"{name!r} ({best[name]:.2f}, by chance {recall['chance'][name]:.2f}; like "
                 f"{recall['confused_with'][name]!r})" for name in lost]  # fmt: skip
        warn(
            f"No panel of these genes tells {len(lost)} of {len(recall)} groups from the others; "
            "on held-out cells their recall is that of chance, or no higher than the share of "
            f"another group that is taken for them: {listed(shown)}. Allow more genes, or merge "
            "groups.", stacklevel=3,
        )  # fmt: skip


def _gene_table(
    model: PanelSelector,
    names: NDArray[Any],
    groups: Groups,
    columns: NDArray[np.intp],
    kept: NDArray[np.intp],
    noun: str,
) -> Any:
    """Return one row for each gene of the panel, in the order of selection."""
    means = np.asarray(model.class_means_, dtype=np.float64)
    places, group = np.arange(model.features_.size), model.best_class_
    inside = means[group, places]
    outside = (means.sum(axis=0) - inside) / (len(means) - 1)
    given = np.isin(columns[model.features_], kept)
    labels = [groups.names[g] for g in group]
    up, same = model.direction_ > 0, np.ptp(means, axis=0) == 0
    why = [
        "Kept; the same in all groups, and explains nothing."
        if same[i]
        else f"{'Kept; ' if given[i] else ''}{'higher' if up[i] else 'lower'} in "
        f"{called(labels[i], noun)} (mean {_rounded(inside[i])}) than in others "
        f"({_rounded(outside[i])}); explains {model.gains_[i]:.1%} more of the {noun}s."
        for i in places
    ]
    return as_table(
        {
            "gene": names[model.features_],
            "rank": places + 1,
            "gain": model.gains_,
            "explained": model.explained_,
            "group": np.array(labels, dtype=object),
            "direction": np.where(up, "up", "down").astype(object),
            "difference": inside - outside,
            "why": np.array(why, dtype=object),
        }
    )


def _rounded(value: float) -> str:
    """Return a mean for a sentence: three digits, or all before the point."""
    return f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:.3g}"
