"""Gene panels: their expression in groups, and their quality against their size."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ksparse._errors import InputError, Term, warn
from ksparse._plotting import COLOURS, given_axes, one_axes, saved
from ksparse.matrix.sources import select_rows
from ksparse.scverse.expression import check_gene_names, read_expression
from ksparse.scverse.markers import cluster_profiles, diagonal_order, per_gene
from ksparse.scverse.panel_evaluation import (
    check_curve,
    group_column,
    panel_params,
    panel_places,
    read_curve,
)
from ksparse.scverse.schema import check_adata

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = ["panel", "panel_curve"]

TITLES = {"logistic": "logistic regression", "5nn": "5 nearest neighbours"}
# The same colour and marker for a method in every picture; others follow.
METHODS = {"ksparse": "ksparse", "panel": "panel", "wilcoxon": "Wilcoxon", "hvg": "variance",
           "random": "random"}  # fmt: skip
MARKERS = "oDs^vPX<>*"
CHANCE = "chance"
# Longer names of groups are cut in the middle: they often differ at the end.
LONGEST_NAME = 40


def panel(
    adata: AnnData,
    groupby: str | None = None,
    *,
    genes: Sequence[str] | str | None = None,
    key: str = "panel",
    layer: str | None = None,
    normalize: str | None = None,
    ax: Any = None,
    save: str | Path | None = None,
) -> Any:
    """Draw the genes of a panel in groups of cells: how many cells have them, and how much.

    Genes stand in the order of the groups in which their mean is highest, and within a group
    those come first that are farthest above the next group.

    Parameters
    ----------
    adata : AnnData
        Cells x genes.
    groupby : str, optional
        Column of `adata.obs` with the groups; by default the one that is recorded with the
        panel. Cells without a group are left out, with a warning.
    genes : sequence of str, or str, optional
        Names of genes, or a column of `adata.var` that is True for them; by default `key`.
    key : str, default="panel"
        The `key_added` of the panel.
    layer : str, optional
        Use this layer instead of `adata.X`; by default what is recorded with the panel.
    normalize : {None, "log1p", "auto"}, optional
        As in `ksparse.tl.ksparse`; by default what is recorded with the panel.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    save : path, optional
        Write the figure to this file too.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import ksparse as ks
    >>> adata = ks.simulate.simulate_counts(200, 300, 3, random_state=0).to_anndata()
    >>> ax = ks.pl.panel(adata, "label", genes=adata.var_names[:12], normalize="log1p")
    >>> len(ax.get_xticklabels()), len(ax.get_yticklabels())
    (12, 3)
    """
    check_adata(adata)
    check_gene_names(adata)
    recorded = panel_params(adata, key)
    groupby = recorded.get("groupby") if groupby is None else groupby
    if groupby is None:
        raise InputError(
            Term("groupby"), " is not recorded with the panel: name a column of ",
            Term("adata.obs"), ".",
        )  # fmt: skip
    places = panel_places(adata, key if genes is None else genes)
    codes, groups = _codes(adata, groupby)
    layer = recorded.get("layer") if layer is None else layer
    normalize = recorded.get("normalize") if normalize is None else normalize
    X, _ = read_expression(adata, layer, normalize, columns=places)
    known = np.flatnonzero(codes >= 0)
    profiles = cluster_profiles(
        select_rows(X, known), np.arange(places.size), codes[known], len(groups)
    )
    order, marked = diagonal_order(profiles.mean)
    names = [str(name) for name in adata.var_names[places[order]]]
    longest = max(min(len(name), LONGEST_NAME) for name in groups)
    ax = one_axes(
        ax, save, width=2.3 + 0.22 * max(len(names), 3) + 0.065 * longest,
        height=1.3 + 0.26 * max(len(groups), 4) + 0.06 * max(len(name) for name in names),
    )  # fmt: skip
    scaled = per_gene(profiles.mean)[:, order]
    _draw_dots(ax, scaled, profiles.fraction[:, order], names, groups, marked)
    ax.set_ylabel(groupby, parse_math=False)
    return saved(ax, save)


def _codes(adata: AnnData, groupby: str) -> tuple[NDArray[np.intp], list[str]]:
    """Return the number of each cell's group (-1: none), and the names of groups with cells."""
    column = group_column(adata, groupby)
    categories = column.astype("category").cat.remove_unused_categories().cat
    codes = np.asarray(categories.codes, dtype=np.intp)
    if missing := int((codes < 0).sum()):
        warn(f"{missing} of {codes.size} cells have no {groupby}, and are left out.", stacklevel=3)
    return codes, [str(name) for name in categories.categories]


def _shortened(name: str) -> str:
    if len(name) <= LONGEST_NAME:
        return name
    half = (LONGEST_NAME - 1) // 2
    return f"{name[:half]}…{name[-half:]}"


def _draw_dots(
    ax: Any,
    colour: NDArray[Any],
    share: NDArray[Any],
    names: list[str],
    groups: list[str],
    marked: NDArray[np.intp],
) -> None:
    k, n = colour.shape
    x, y = np.meshgrid(np.arange(n), np.arange(k))
    dots = ax.scatter(x, y, c=colour, s=2 + 110 * share, cmap="Reds", edgecolors="0.4",
                      linewidths=0.4, vmin=0, vmax=1)  # fmt: skip
    ax.set_xticks(np.arange(n), labels=names, rotation=90, fontsize=8, parse_math=False)
    ax.set_yticks(np.arange(k), labels=map(_shortened, groups), fontsize=8, parse_math=False)
    ax.set(xlim=(-0.7, n - 0.3), ylim=(k - 0.4, -0.6))
    ax.tick_params(length=0)
    for i, group in enumerate(dict.fromkeys(marked.tolist())):
        here = np.flatnonzero(marked == group)
        if i % 2 == 0:
            ax.axvspan(here[0] - 0.5, here[-1] + 0.5, color="0.95", zorder=0, linewidth=0)
    bar = ax.figure.colorbar(dots, ax=ax, shrink=0.7, pad=0.02, fraction=0.05, aspect=12)
    bar.set_label("mean, scaled per gene", fontsize=8)
    bar.ax.tick_params(labelsize=8)
    handles = [ax.scatter([], [], s=2 + 110 * size, c="0.6", label=f"{size:.0%}")
               for size in (0.25, 0.5, 1.0)]  # fmt: skip
    ax.legend(handles=handles, title="cells with the gene", title_fontsize=8, fontsize=8, ncols=3,
              frameon=False, loc="lower left", bbox_to_anchor=(0, 1.0), borderaxespad=0.2,
              columnspacing=1.0, handletextpad=0.3)  # fmt: skip


def panel_curve(
    curve: Any,
    *,
    key: str = "panel_curve",
    ax: Any = None,
    save: str | Path | None = None,
) -> Any:
    """Draw the quality of panels against their number of genes, one line for each method.

    Parameters
    ----------
    curve : DataFrame or AnnData
        A table with the columns method, n_genes, classifier, balanced_accuracy and se, such
        as `ksparse.tl.panel_curve` returns, or the object to which it was written. With a
        column chance, that is drawn, too.
    key : str, default="panel_curve"
        The `key_added` of `ksparse.tl.panel_curve`.
    ax : sequence of matplotlib Axes, optional
        Where to draw, one for each classifier; a new figure by default.
    save : path, optional
        Write the figure to this file too.

    Returns
    -------
    sequence of Axes
        One for each classifier. Bars are one standard error.

    Examples
    --------
    >>> import pandas
    >>> import ksparse as ks
    >>> curve = pandas.DataFrame(
    ...     {"method": "ksparse", "n_genes": [5, 10], "classifier": "logistic",
    ...      "balanced_accuracy": [0.7, 0.8], "se": 0.02}
    ... )
    >>> (ax,) = ks.pl.panel_curve(curve)
    >>> ax.get_xlabel()
    'genes'
    """
    if hasattr(curve, "columns"):
        table = check_curve(curve)
    else:
        check_adata(curve)
        table = read_curve(curve, key)
    classifiers = list(dict.fromkeys(str(name) for name in table["classifier"]))
    if hasattr(ax, "scatter"):  # a single one
        ax = [ax]
    axes = given_axes(ax, len(classifiers), width=4.4, height=3.6)
    one_axes(axes[0], save)  # checks the name of the file before anything is drawn
    found = {str(name) for name in table["method"]}
    methods = [name for name in METHODS if name in found]
    methods += [name for name in dict.fromkeys(map(str, table["method"])) if name not in METHODS]
    lowest = float((table["balanced_accuracy"] - table["se"].fillna(0)).min())
    if "chance" in table:
        lowest = min(lowest, float(table["chance"].min()))
    for place, classifier in zip(axes, classifiers, strict=True):
        part = table[table["classifier"].astype(str) == classifier]
        _draw_lines(place, part, methods)
        place.set_title(TITLES.get(classifier, classifier), fontsize=10, parse_math=False)
        place.set(xlabel="genes", ylim=(max(0.0, lowest - 0.05), 1.02))
    axes[0].set_ylabel("balanced accuracy, held out")
    # matplotlib lists lines before error bars, but chance is no method: it comes last.
    handles, labels = axes[-1].get_legend_handles_labels()
    last = [label == CHANCE for label in labels]
    order = sorted(range(len(labels)), key=last.__getitem__)
    axes[-1].legend(
        [handles[i] for i in order], [labels[i] for i in order], frameon=False, fontsize=8,
        loc="center left", bbox_to_anchor=(1.0, 0.5),
    )  # fmt: skip
    for text in axes[-1].get_legend().get_texts():
        text.set_parse_math(False)
    saved(axes[0], save)
    return axes


def _draw_lines(ax: Any, part: Any, methods: list[str]) -> None:
    colours = (*COLOURS[:6], "0.35")
    for i, method in enumerate(methods):
        line = part[part["method"].astype(str) == method].sort_values("n_genes")
        ours = method == "ksparse"
        ax.errorbar(
            line["n_genes"], line["balanced_accuracy"], yerr=line["se"].fillna(0),
            color="0.55" if method == "random" else colours[i % len(colours)],
            marker=MARKERS[i % len(MARKERS)], markersize=5, linewidth=2.2 if ours else 1.4,
            elinewidth=0.9, capsize=2, label=METHODS.get(method, method), zorder=4 if ours else 3,
        )  # fmt: skip
    if "chance" in part:
        ax.axhline(float(part["chance"].iloc[0]), color="0.6", linestyle=":", linewidth=1,
                   label=CHANCE)  # fmt: skip
    counts = np.unique(part["n_genes"])
    if counts[-1] > 4 * counts[0]:
        ax.set_xscale("log")
    ax.set_xticks(counts, labels=[f"{n:g}" for n in counts])
    ax.minorticks_off()
