"""The calibration of a result in AnnData, `uns[key + "_calibration"]`: written and read here alone.

It is a record beside that of the result, because most results have none, and it is larger. Genes
are stored by name; places of features are those in the list of these genes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ksparse._errors import InputError
from ksparse._names import repeated
from ksparse.core.conformal import Calibration
from ksparse.io.model_file import check_calibration
from ksparse.io.rules import Rule, UnsoundError, check_mapping, check_stored, is_text
from ksparse.scverse.fields import CALIBRATION
from ksparse.scverse.schema import RUN_AGAIN, field_term, sound

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = ["NamedCalibration", "named_calibration", "read_calibration", "write_calibration"]

ENCODING, VERSION = "ksparse-calibration", 1
PARTS = ("features", "mean", "axes", "centres", "units", "scores", "fold", "cluster")


class NamedCalibration(NamedTuple):
    """A calibration whose features are places in a list of names of genes."""

    genes: NDArray[np.str_]
    calibration: Calibration


def named_calibration(parts: dict[str, Any], names: NDArray[Any]) -> NamedCalibration:
    """Return the calibration of a model, whose features have these names."""
    calibration = Calibration(**parts)
    used, places = np.unique(calibration.features, return_inverse=True)
    features = places.reshape(calibration.features.shape)
    return NamedCalibration(
        np.asarray(names)[used].astype(str), replace(calibration, features=features)
    )


def write_calibration(adata: AnnData, key: str, named: NamedCalibration) -> None:
    """Write a calibration beside the record of a result."""
    parts = {name: getattr(named.calibration, name) for name in PARTS}
    adata.uns[f"{key}{CALIBRATION}"] = {
        "encoding": ENCODING, "version": VERSION, "genes": named.genes, **parts,
    }  # fmt: skip


def read_calibration(adata: AnnData, key: str, n_clusters: int) -> NamedCalibration | None:
    """Return the calibration of a result of so many clusters, or None if there is none."""
    name = f"{key}{CALIBRATION}"
    if name not in adata.uns:
        return None
    with sound(field_term("uns", name), RUN_AGAIN):
        stored = check_mapping(name, adata.uns[name])
        if not is_text(stored.get("encoding"), ENCODING):
            raise UnsoundError(f"encoding should be {ENCODING}")
        rules = {"genes": Rule("text", ("genes",)), "version": Rule("count", least=1)}
        sizes: dict[str, int] = {}
        check_stored(stored, rules, sizes)
        if int(stored["version"]) > VERSION:
            raise InputError(
                field_term("uns", name), f" is a record of version {int(stored['version'])}, and "
                f"this ksparse reads versions up to {VERSION}: install a newer ksparse.",
            )  # fmt: skip
        check_calibration(stored, n_clusters, sizes["genes"], within="")
        genes = np.array([str(gene) for gene in np.asarray(stored["genes"])], dtype=str)
        if again := repeated(genes.tolist()):
            raise UnsoundError(f"genes has {len(again)} repeated names")
    return NamedCalibration(
        genes, Calibration(**{part: np.asarray(stored[part]) for part in PARTS})
    )
