"""Tests of the separation of clusters, and numbers of clusters, in `uns`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ksparse._errors import InputError, Term
from ksparse.io.rules import Rule, check_stored
from ksparse.scverse.schema import ANOTHER_KEY, check_adata, field_term, sound
from ksparse.selection.cluster_result import ClusterNumber
from ksparse.selection.separation import Separation, verdicts_of

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = [
    "NUMBER",
    "check_number_key",
    "check_separation_key",
    "read_separation",
    "write_number",
    "write_separation",
]

# Where the numbers of clusters are that were tried for a result: the end of the key.
NUMBER = "_choose_k"

PAIRS = ("clusters", "clusters")
RULES = {
    "clusters": Rule("text", ("clusters",)),
    "sizes": Rule("count", ("clusters",)),
    "p_values": Rule("number", PAIRS, least=0, most=1),
    "adjusted": Rule("number", PAIRS, least=0, most=1),
    "depth": Rule("number", PAIRS, least=0, most=1, finite=False),
    "counts": Rule("number", (*PAIRS, "windows"), least=0),
    "level": Rule("number", least=0, most=1),
}


def _holds_separation(stored: Any) -> bool:
    return isinstance(stored, Mapping) and {"p_values", "adjusted", "clusters"} <= set(stored)


def check_separation_key(adata: AnnData, key: str) -> None:
    """Raise InputError if `uns[key]` holds something else."""
    if key in adata.uns and not _holds_separation(adata.uns[key]):
        raise InputError(field_term("uns", key), " holds something else: ", ANOTHER_KEY, ".")


def write_separation(adata: AnnData, key: str, groupby: str, result: Separation) -> None:
    """Write what the test says of the groups of a column to `uns[key]`."""
    adata.uns[key] = {
        "groupby": groupby,
        "clusters": np.array(result.clusters, dtype=str),
        "sizes": np.asarray(result.sizes),
        "p_values": result.p_values,
        "adjusted": result.adjusted,
        "depth": result.depth,
        "counts": result.counts,
        "level": result.level,
        "sentence": result.sentence,
    }


def read_separation(adata: AnnData, key: str) -> Separation:
    """Return the test in `uns[key]`; raise InputError if there is none that is sound."""
    check_adata(adata)
    stored = adata.uns.get(key)
    if not _holds_separation(stored):
        raise InputError(
            field_term("uns", key), " holds no test of separation: ",
            Term("separation first", text=f"run ksparse.tl.separation(adata, key_added={key!r})"),
            " first.",
        )  # fmt: skip
    with sound(f"adata.uns[{key!r}]", "run ksparse.tl.separation again"):
        check_stored(stored, RULES, {"windows": 3})
    values = {name: np.asarray(stored[name]) for name in RULES}
    level, sizes = float(values["level"]), values["sizes"].astype(np.intp)
    return Separation(
        tuple(str(name) for name in values["clusters"]), sizes, values["p_values"],
        values["adjusted"], values["depth"], values["counts"],
        verdicts_of(values["adjusted"], sizes, level), level,
    )  # fmt: skip


def check_number_key(adata: AnnData, key: str) -> None:
    """Raise InputError if `uns[key]` holds something else than numbers of clusters."""
    stored = adata.uns.get(key, {"recommended": -1})
    if not isinstance(stored, Mapping) or "recommended" not in stored:
        raise InputError(field_term("uns", key), " holds something else: ", ANOTHER_KEY, ".")


def write_number(adata: AnnData, key: str, number: ClusterNumber) -> None:
    """Write the table of numbers of clusters and the recommendation to `uns[key]`."""
    columns = {name: np.asarray(values) for name, values in number.columns.items()}
    columns["least_separated"] = columns["least_separated"].astype(str)
    recommended = -1 if number.recommended is None else number.recommended
    adata.uns[key] = {**columns, "recommended": recommended, "sentence": number.sentence}
