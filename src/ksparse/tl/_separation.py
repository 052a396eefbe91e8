"""Are clusters real, and how many are there, for AnnData."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ksparse._errors import InputError, Term
from ksparse.params import DEFAULTS
from ksparse.scverse.expression import check_gene_names, read_expression, selected_columns
from ksparse.scverse.labels import group_order, label_column, part_of
from ksparse.scverse.restriction import read_restriction
from ksparse.scverse.schema import check_adata, check_key, holds_record, read_record
from ksparse.scverse.separations import (
    check_number_key,
    check_separation_key,
    write_number,
    write_separation,
)
from ksparse.selection.cluster_number import ClusterNumber
from ksparse.selection.cluster_number import choose_k as choose_number
from ksparse.selection.cluster_result import words_of
from ksparse.selection.separation import Separation
from ksparse.selection.separation import separation as test_separation

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = ["choose_k", "separation"]


def separation(
    adata: AnnData,
    groupby: str = "ksparse",
    *,
    level: float = 0.05,
    n_splits: int | None = None,
    layer: str | None = None,
    mask_var: Any = None,
    normalize: str | None = None,
    memory_limit: int | str | None = None,
    key_added: str = "separation",
    verbose: int = 0,
) -> Separation:
    """Test for every pair of groups of cells whether there is a valley between them.

    For groups of any origin: clusters of ksparse or of Leiden, or cell types. See
    `ksparse.separation` for what is tested and how.

    Parameters
    ----------
    adata : AnnData
        Cells x genes.
    groupby : str, default="ksparse"
        Column of `adata.obs` with the groups. Cells without one are left out, with a warning.
    level : float, default=0.05
        Level of the test, for all pairs together.
    n_splits : int, optional
        How many random splits of the cells are used; by default 2, and up to 10 for few cells.
    layer, mask_var, normalize
        As in `ksparse.tl.ksparse`. For clusters of ksparse the layer and the normalisation are
        by default those with which they were found.
    memory_limit : int or str, optional
        As in `ksparse.KSparse`.
    key_added : str, default="separation"
        Under which name to write the result.
    verbose : int
        1 shows a progress bar on a terminal.

    Returns
    -------
    Separation
        `.table` has the pairs, `.sentence` says what was found. This field is written:

    `.uns[key_added]` : dict
        groupby, clusters, sizes, and for all pairs p_values, adjusted, depth and counts (see
        `ksparse.Separation`), level and sentence. `ksparse.pl.separation` draws it.

    Examples
    --------
    >>> import ksparse as ks
    >>> adata = ks.simulate.simulate_counts(300, 500, 3, random_state=0).to_anndata()
    >>> ks.tl.separation(adata, "label", normalize="log1p").sentence
    'All 3 clusters are separated from each other.'
    """
    check_adata(adata)
    check_key("key_added", key_added)
    check_separation_key(adata, key_added)
    labels, known = label_column(adata, groupby, "groupby")
    if layer is None and normalize is None and holds_record(adata, groupby):
        record = read_record(adata, groupby)
        layer, normalize = record.layer, "log1p" if record.log_normalised else None
    X, _ = read_expression(
        adata, layer, normalize, columns=selected_columns(adata, mask_var),
        memory_limit=memory_limit,
    )  # fmt: skip
    # As numbers in the order of the groups, which the pairs then have, too.
    order = group_order(adata, groupby)
    if len(order) < 2:
        count = "one group" if order else "no groups"
        raise InputError(
            Term("groupby", groupby), f" has {count} of cells: two are needed to be compared."
        )
    place = {group: number for number, group in enumerate(order)}
    codes = np.full(labels.size, np.nan)
    codes[known] = [place[group] for group in labels[known]]
    result = test_separation(
        X, codes, level=level, n_splits=n_splits, memory_limit=memory_limit, verbose=verbose
    )
    result = result.renamed(order)
    write_separation(adata, key_added, groupby, result)
    return result


def choose_k(
    adata: AnnData,
    ks: Iterable[int] | None = None,
    *,
    methods: Sequence[str] = (),
    layer: str | None = None,
    mask_var: Any = None,
    normalize: str | None = None,
    restrict_to: tuple[str, str | Sequence[str]] | None = None,
    key_added: str = "ksparse_choose_k",
    random_state: int | np.random.RandomState | None = None,
    verbose: int = 0,
    **options: Any,
) -> ClusterNumber:
    """Recommend a number of clusters; see `ksparse.choose_k`.

    Parameters
    ----------
    adata : AnnData
        Cells x genes.
    ks : iterable of int, optional
        Numbers of clusters to try; 2 to 12 by default, and more where these are not enough.
    methods : sequence of str, optional
        Other measures to show: "gap", "silhouette", "agreement", "stability".
    layer, mask_var, normalize, restrict_to
        As in `ksparse.tl.ksparse`.
    key_added : str, default="ksparse_choose_k"
        Under which name to write the table.
    random_state : int, RandomState or None
        Seed.
    verbose : int
        1 shows a progress bar on a terminal.
    **options
        Other options of `ksparse.choose_k` or parameters of `ksparse.KSparse`.

    Returns
    -------
    ClusterNumber
        `.recommended` is the number, `.sentence` says why. This field is written:

    `.uns[key_added]` : dict
        The columns of the table, recommended (-1: none of those that were tried) and sentence.

    Examples
    --------
    >>> import ksparse as ks
    >>> adata = ks.simulate.simulate_counts(200, 300, 3, random_state=0).to_anndata()
    >>> ks.tl.choose_k(adata, [2, 3, 4], normalize="log1p", random_state=0).recommended
    3
    """
    check_adata(adata)
    check_key("key_added", key_added)
    check_gene_names(adata)
    check_number_key(adata, key_added)
    restriction = read_restriction(restrict_to)
    cells = None
    if restriction is not None:
        cells = np.flatnonzero(part_of(adata, restriction).chosen)
    X, _ = read_expression(
        adata, layer, normalize, columns=selected_columns(adata, mask_var), cells=cells,
        memory_limit=options.get("memory_limit"),
    )  # fmt: skip
    number = choose_number(
        X, ks, methods=methods, random_state=random_state, verbose=verbose, **options
    )
    where = {"layer": layer, "mask_var": mask_var, "normalize": normalize,
             "restrict_to": restrict_to}  # fmt: skip
    own = {name: value for name, value in options.items() if name in DEFAULTS}
    words = words_of({**own, **where, "random_state": random_state}, DEFAULTS)
    calls = f"ksparse.tl.ksparse(adata, {{k}}{words})", f"ksparse.tl.choose_k(adata{words})"
    number = replace(number, calls=calls)
    write_number(adata, key_added, number)
    return number
