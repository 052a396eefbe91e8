"""Genes that users name: their places in an AnnData object."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ksparse._errors import InputError, Term, warn
from ksparse._names import listed, repeated
from ksparse.scverse.expression import listed_choices, selected_columns

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = ["allowed_genes", "candidate_genes", "gene_costs", "gene_places", "matching_genes"]


def _names(name: str, values: Any) -> list[str]:
    if isinstance(values, str):
        raise InputError(Term(name, values), " must be a sequence of names, such as a list.")
    try:
        given = list(values)
    except TypeError:
        raise InputError(Term(name, values), " must be a sequence of names.") from None
    if given and all(isinstance(value, bool | np.bool_) for value in given):
        raise InputError(
            Term(name), f" must be names of genes, got {len(given)} times True or False: give "
            "the names of those that are True.",
        )  # fmt: skip
    out = [str(value) for value in given]
    if not out:
        raise InputError(Term(name), " is empty: give at least one name.")
    return out


def gene_places(adata: AnnData, name: str, genes: Any) -> NDArray[np.intp]:
    """Return the places of genes; raise ValueError if some are unknown or repeated.

    `name` is the parameter that holds them.
    """
    names = _names(name, genes)
    if again := repeated(names):
        raise InputError(
            Term(name), f" has {len(again)} repeated names (the first is {again[0]!r}): name each "
            "once.",
        )  # fmt: skip
    places = np.asarray(adata.var_names.get_indexer(names), dtype=np.intp)
    if unknown := [repr(gene) for gene, place in zip(names, places, strict=True) if place < 0]:
        raise InputError(
            f"{len(unknown)} of the {len(names)} names in ", Term(name), " are not in ",
            Term("adata"), f": {listed(unknown)}.",
        )  # fmt: skip
    return places


def allowed_genes(adata: AnnData, allowed: Any, *, stacklevel: int = 2) -> NDArray[np.intp]:
    """Return the places of genes that may be used, from names or a column of `var`.

    Names that are not in `adata` are counted in a warning: a list of all surface proteins, say,
    always has some that were not measured.
    """
    if isinstance(allowed, str):
        places = selected_columns(adata, allowed, "allowed")
        assert places is not None
        return places
    names = _names("allowed", allowed)
    places = np.asarray(adata.var_names.get_indexer(names), dtype=np.intp)
    if n_unknown := int((places < 0).sum()):
        warn(
            f"{n_unknown} of {len(names)} ", Term("allowed"), " genes are not in ", Term("adata"),
            ", and are not used.", stacklevel=stacklevel + 1,
        )  # fmt: skip
    return places[places >= 0]


def matching_genes(
    adata: AnnData, name: str, pattern: Any, *, stacklevel: int = 2
) -> NDArray[np.intp]:
    """Return the places of the genes in whose names a regular expression is found.

    Warns if there are none: the names of human genes are all capitals, those of mice are not.
    """
    try:
        search = re.compile(pattern).search
        search("")  # patterns of bytes find nothing in text
    except (re.error, TypeError, RecursionError) as error:
        raise InputError(Term(name, pattern), f" is no regular expression: {error}.") from None
    places = np.flatnonzero([search(str(gene)) is not None for gene in adata.var_names])
    if not places.size:
        first = listed([repr(str(gene)) for gene in adata.var_names[:3]])
        warn(
            Term(name, pattern), f" is found in none of the {adata.n_vars} names of genes, such as "
            f"{first}, and leaves out nothing: begin it with (?i) if capitals shall not count.",
            stacklevel=stacklevel + 1,
        )  # fmt: skip
    return places


def gene_costs(adata: AnnData, name: str, column: Any) -> NDArray[np.float64]:
    """Return numbers >= 0 from a column of `var`."""
    if not isinstance(column, str) or column not in adata.var:
        raise InputError(
            Term(name, column), " is not a column of ", Term("adata.var"),
            f": {listed_choices(adata.var)}.",
        )  # fmt: skip
    values = adata.var[column]
    if values.dtype.kind not in "iuf" or values.isna().any() or (values < 0).any():
        raise InputError(
            Term(name, column), " must hold a number >= 0 for each gene (0: keep, infinity: "
            "exclude).",
        )  # fmt: skip
    return np.asarray(values, dtype=np.float64)


def candidate_genes(
    adata: AnnData,
    keep: Any = None,
    extend: Any = None,
    exclude: Any = None,
    pattern: Any = None,
    allowed: Any = None,
    mask_var: Any = None,
    costs: Any = None,
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the places of the genes that may be in a panel, and of those that are kept.

    Parameters are those of `ksparse.tl.panel`. Genes that cost nothing are kept like those that
    are named, whatever else would leave them out.
    """
    cost = np.ones(adata.n_vars) if costs is None else gene_costs(adata, "costs", costs)
    kept = np.unique(
        np.concatenate(
            [np.flatnonzero(cost == 0)]
            + [gene_places(adata, name, genes)
               for name, genes in (("keep", keep), ("extend", extend)) if genes is not None]
        )
    )  # fmt: skip
    may = np.ones(adata.n_vars, dtype=bool)
    if (masked := selected_columns(adata, mask_var)) is not None:
        may &= np.isin(np.arange(may.size), masked)
    if allowed is not None:
        may &= np.isin(np.arange(may.size), allowed_genes(adata, allowed, stacklevel=3))
    if pattern is not None:
        may[matching_genes(adata, "exclude_pattern", pattern, stacklevel=3)] = False
    may[kept] = True
    never = np.flatnonzero(np.isinf(cost))
    if exclude is not None:
        never = np.union1d(never, gene_places(adata, "exclude", exclude))
    if (both := np.intersect1d(kept, never)).size:
        shown = listed([repr(str(adata.var_names[j])) for j in both])
        raise InputError(
            f"{both.size} genes are in ", Term("keep"), " or ", Term("extend"),
            *_or_cost(costs, 0), " and in ", Term("exclude"), *_or_cost(costs, np.inf),
            f": {shown}. Leave them out of one.",
        )  # fmt: skip
    may[never] = False
    if not may.any():
        given = {"allowed": allowed, "exclude": exclude, "exclude_pattern": pattern,
                 "mask_var": mask_var, "costs": costs}  # fmt: skip
        names = [Term(name) for name, value in given.items() if value is not None]
        between = [", "] * (len(names) - 2) + [" and "]
        listing = [part for pair in zip(["", *between], names, strict=False) for part in pair]
        raise InputError(
            *listing, f" leave{'s' * (len(names) == 1)} 0 of {may.size} genes: let some take part."
        )
    return np.flatnonzero(may), kept


def _or_cost(costs: Any, value: float) -> list[str | Term]:
    """Return how costs keep (0) or exclude (infinity) genes, for a message; [] without costs."""
    if costs is None:
        return []
    return [" (or have 0 in " if value == 0 else " (or infinity in ", Term("costs", costs), ")"]
