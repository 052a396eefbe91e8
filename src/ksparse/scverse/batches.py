"""The batches of a result in AnnData, `uns[key + "_batches"]`: written and read here alone.

It is a record beside that of the result, because most results have none. Genes are the selected
ones, in the order of the result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ksparse._errors import InputError, Term
from ksparse._names import listed
from ksparse.io.model_file import check_batches
from ksparse.io.rules import Rule, UnsoundError, check_mapping, check_stored, is_text
from ksparse.scverse.fields import BATCHES, ONE_BATCH
from ksparse.scverse.labels import label_column
from ksparse.scverse.schema import ANOTHER_KEY, RUN_AGAIN, Record, field_term, sound

if TYPE_CHECKING:
    from anndata import AnnData

    from ksparse.estimator import KSparse

__all__ = ["Batches", "batch_values", "middle_of_clusters", "read_batches", "write_batches"]

ENCODING, VERSION = "ksparse-batches", 1
RULES = {"version": Rule("count", least=1), "name": Rule("text", ("batches",)),
         "means": Rule("number", ("batches", "selected"))}  # fmt: skip

Array = NDArray[Any]


@dataclass(frozen=True)
class Batches:
    """The batches of a result.

    Attributes
    ----------
    name : list of str
        Their names.
    means : ndarray, batches x genes
        Means of the selected genes.
    mixing : dict of ndarray
        counts (clusters x batches), and for each cluster largest, share, expected, p_value and
        one_batch; see `ksparse.search.batch_report.Mixing`.
    support : dict of ndarray
        explained and supported (batches x genes), and one_batch of each gene; see
        `ksparse.search.batch_report.Support`.
    """

    name: list[str]
    means: Array
    mixing: dict[str, Array]
    support: dict[str, Array]

    @property
    def supporting(self) -> list[str]:
        """The only batch that supports each gene; "" for genes that are not of one batch."""
        flags, supported = self.support["one_batch"], self.support["supported"]
        return [self.name[int(supported[:, j].argmax())] if flags[j] else ""
                for j in range(len(flags))]  # fmt: skip

    def cluster_words(self) -> list[str]:
        """Return for each cluster which batch has most of its cells."""
        words = []
        for c, b in enumerate(self.mixing["largest"]):
            share, expected = self.mixing["share"][c], self.mixing["expected"][c]
            text = f"{share:.0%} of {self.name[int(b)]}, which has {expected:.0%} of all cells"
            words.append(text + (": one batch" if self.mixing["one_batch"][c] else ""))
        return words

    def sentences(self, clusters: list[str], genes: Array) -> list[str]:
        """Return what is to be said of clusters and genes of one batch."""
        words, of_one = self.cluster_words(), np.flatnonzero(self.mixing["one_batch"])
        out = []
        if of_one.size:
            named = [f"{clusters[c]} ({words[c].removesuffix(': one batch')})" for c in of_one]
            out.append(
                f"Of {len(clusters)} clusters, {of_one.size} {_is(of_one.size)} almost all of one "
                f"batch, and not by chance: {listed(named)}."
            )
        marked = [f"{gene} ({batch})"
                  for gene, batch in zip(genes, self.supporting, strict=True) if batch]  # fmt: skip
        if marked:
            out.append(
                f"Of {len(genes)} selected genes, {len(marked)} {_is(len(marked))} supported by "
                f"one batch only: {listed(marked)}."
            )
        return out


def _is(n: int) -> str:
    return "is" if n == 1 else "are"


def batch_values(adata: AnnData, batch_key: str, key_added: str) -> NDArray[np.object_]:
    """Return the batch of each cell as text.

    Raises ValueError if there is no such column, or if it is missing for cells.
    """
    if batch_key == key_added:
        raise InputError(
            Term("batch_key", batch_key), " is where clusters are written: ", ANOTHER_KEY, "."
        )
    text, known = label_column(adata, batch_key, "batch_key")
    if not known.all():
        raise InputError(
            Term("batch_key", batch_key), f" is missing for {int((~known).sum())} of {known.size} "
            "cells: give the batch of every cell.",
        )  # fmt: skip
    return text.astype(object)


def middle_of_clusters(model: KSparse) -> Array | None:
    """Return the mean of the batches of each cluster, weighted by its cells in each.

    What a cluster is above it does not come from its batches. Clusters x selected genes; None
    for a model without batches.
    """
    if not hasattr(model, "batches_"):
        return None
    counts = np.asarray(model.batch_mixing_["counts"])
    size = counts.sum(axis=1, keepdims=True)
    return np.asarray(counts / np.where(size > 0, size, 1.0) @ model.batch_means_)


def write_batches(adata: AnnData, key: str, model: KSparse, genes: NDArray[np.intp]) -> None:
    """Write the batches of a fitted model, if it has any.

    `genes` are the places of the selected genes.
    """
    if not hasattr(model, "batches_"):
        return
    adata.uns[f"{key}{BATCHES}"] = {
        "encoding": ENCODING,
        "version": VERSION,
        "name": np.array([str(name) for name in model.batches_], dtype=str),
        "means": model.batch_means_,
        "mixing": dict(model.batch_mixing_),
        "support": dict(model.batch_support_),
    }
    flags = np.zeros(adata.n_vars, dtype=bool)
    flags[genes] = model.batch_support_["one_batch"]
    adata.var[f"{key}{ONE_BATCH}"] = flags


def read_batches(adata: AnnData, key: str, record: Record) -> Batches | None:
    """Return the batches of a result, or None if it has none."""
    if "batch_key" not in record.params:
        return None
    name = f"{key}{BATCHES}"
    if name not in adata.uns:
        raise InputError(field_term("uns", name), " is missing: ", RUN_AGAIN, ".")
    with sound(field_term("uns", name), RUN_AGAIN):
        stored = check_mapping(name, adata.uns[name])
        if not is_text(stored.get("encoding"), ENCODING):
            raise UnsoundError(f"encoding should be {ENCODING}")
        sizes = {"clusters": record.n_clusters, "selected": record.model.genes.size}
        check_stored(stored, RULES, sizes, may_be_empty=("selected",))
        if int(stored["version"]) > VERSION:
            raise InputError(
                field_term("uns", name), f" is a record of version {int(stored['version'])}, and "
                f"this ksparse reads versions up to {VERSION}: install a newer ksparse.",
            )  # fmt: skip
        names = np.array([str(one) for one in np.asarray(stored["name"])], dtype=object)
        tables = {table: stored.get(table) for table in ("mixing", "support")}
        check_batches("name", names, tables, sizes)
    mixing, support = (
        {part: np.asarray(values) for part, values in stored[table].items()}
        for table in ("mixing", "support")
    )
    return Batches(names.tolist(), np.asarray(stored["means"]), mixing, support)
