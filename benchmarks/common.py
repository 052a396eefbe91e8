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
    "cord blood": "cite_cbmc_top2000",
    "mouse bladder": "mouse_bladder2100",
    "pbmc68k": "pbmc68k_reduced",
    "khan": "wide/khan",
    "chowdary": "wide/chowdary",
    "alon": "wide/alon",
    "brain": "wide/brain",
}
# Samples are few and features many; how many of them are needed is not known ("auto").
WIDE = ("khan", "chowdary", "alon", "brain")
SINGLE_CELL = tuple(name for name in FILES if name not in WIDE)
# The sets of the table in the README.
README_SETS = SINGLE_CELL[:6]
LOGARITHMS = ("pbmc68k", *WIDE)


def folder() -> Path:
    place = os.environ.get("KSPARSE_DATA")
    found = Path(place) if place else Path(__file__).resolve().parents[2] / "shared" / "data"
    if not found.is_dir():
        sys.exit("The labelled data sets are not here: set KSPARSE_DATA to their folder.")
    return found


def load(name, cpm=False):
    """Genes with a value >= 2 in enough cells, log1p of counts per 10,000 (or CPM).

    Sets that are stored as logarithms are taken as they are.
    """
    import anndata

    data = anndata.read_h5ad(folder() / f"{FILES[name]}.h5ad")
    classes = data.obs["label"].to_numpy()
    k = len(np.unique(classes))
    if name in LOGARITHMS:
        X = np.asarray(data.X) if name in WIDE else sp.csr_array(data.X)
        return X.astype(np.float32), classes, k, None
    X = sp.csr_array(data.X)
    often = np.asarray((X >= 2).sum(axis=0)).ravel()
    frequent = often >= max(5, 0.01 * X.shape[0])
    X = X[:, frequent]
    total = np.asarray(X.sum(axis=1)).ravel()
    X = sp.csr_array(sp.diags_array((1e6 if cpm else 1e4) / total) @ X).astype(np.float32)
    if not cpm:
        X.data = np.log1p(X.data)
    markers = data.var["is_marker"].to_numpy()[frequent] if "is_marker" in data.var else None
    return X, classes, k, markers


def timed(function):
    start = time.perf_counter()
    result = function()
    return result, time.perf_counter() - start
