"""What the benchmarks share: the labelled data, prepared as in the README."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp

FILES = {
    "zeisel": "zeisel_3005x4000",
    "usoskin": "usoskin_subset259",
    "klein": "klein_subset1000_900g",
    "5 cell lines": "mix_sc_celseq2_5cl",
    "pollen": "pollen",
    "baron mouse": "baron_mouse",
    "scsim1": "scsim1_seed1",
    "scsim2": "scsim2_seed1",
    "authors' simulation": "authors_simu_10000",
}


def folder() -> Path:
    place = os.environ.get("KSPARSE_DATA")
    found = Path(place) if place else Path(__file__).resolve().parents[2] / "shared" / "data"
    if not found.is_dir():
        sys.exit("The labelled data sets are not here: set KSPARSE_DATA to their folder.")
    return found


def load(name, cpm=False):
    """Genes with a value >= 2 in enough cells, log1p of counts per 10,000 (or CPM)."""
    import anndata

    data = anndata.read_h5ad(folder() / f"{FILES[name]}.h5ad")
    X = sp.csr_array(data.X)
    often = np.asarray((X >= 2).sum(axis=0)).ravel()
    frequent = often >= max(5, 0.01 * X.shape[0])
    X = X[:, frequent]
    total = np.asarray(X.sum(axis=1)).ravel()
    X = sp.csr_array(sp.diags_array((1e6 if cpm else 1e4) / total) @ X).astype(np.float32)
    if not cpm:
        X.data = np.log1p(X.data)
    markers = data.var["is_marker"].to_numpy()[frequent] if "is_marker" in data.var else None
    classes = data.obs["label"].to_numpy()
    return X, classes, len(np.unique(classes)), markers


def timed(function):
    start = time.perf_counter()
    result = function()
    return result, time.perf_counter() - start
