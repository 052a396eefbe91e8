"""The data of a comparison, and their preparations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from ksparse.normalise import counts_per_million, log_normalise

__all__ = ["PREPARATIONS", "PUBLISHED", "SIMULATIONS", "load", "prepared", "store_published"]

SIMULATIONS = {"scsim1": "paper1", "scsim2": "paper2"}
PUBLISHED = ("usoskin", "klein", "zeisel")
PREPARATIONS = ("raw", "cpm", "log1p")


def load(data: str, label_column: str, seed: int) -> tuple[Any, Any, Any]:
    """Return counts, classes and (where known, or None) a mask of the markers.

    Simulations differ between seeds; files do not depend on the seed.
    """
    if data in SIMULATIONS:
        from ksparse.simulate import scsim

        cells = scsim(preset=SIMULATIONS[data], random_state=seed)
        return cells.counts, cells.labels, cells.markers
    from ksparse.readers import read
    from ksparse.scverse.labels import known_labels

    adata = read(data, unique_names=True)
    truth, known = known_labels(adata, label_column)
    X = adata.X[known] if not known.all() else adata.X
    markers = adata.var["is_marker"].to_numpy() if "is_marker" in adata.var else None
    return X, truth[known], markers


def prepared(X: Any, preparation: str) -> Any:
    """Return counts as they are, per million, or log(1 + counts per 10,000)."""
    if preparation == "log1p":
        return log_normalise(X)
    if preparation == "cpm":
        return counts_per_million(X)
    return sp.csr_array(X, dtype=np.float32)


def store_published(name: str, path: Path, *, verbose: int = 0) -> None:
    """Write a published data set, with the genes that the paper keeps, as .h5ad."""
    from ksparse import datasets
    from ksparse.io.h5ad import write_h5ad

    adata = getattr(datasets, name)(filter_genes=True, verbose=verbose)
    write_h5ad(path, adata)
