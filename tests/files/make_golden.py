"""Write the results that must not change silently: python tests/files/make_golden.py

Run it when a change of the results is meant, look at the difference (git diff), and say in
CHANGELOG.md what changed and why.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from ksparse import KSparse, feature_path

FILE = Path(__file__).with_name("golden.json")


def data(n=120, d=60, k=3, zeros=False):
    """Clusters from a formula, so that no random generator has to stay as it is."""
    i, j = np.arange(n)[:, None], np.arange(d)[None, :]
    noise = np.modf(np.sin(i * 12.9898 + j * 78.233) * 43758.5453)[0]
    X = 2 * noise + 3.0 * (j // 4 == i % k)
    return np.where(X < 0, 0.0, X) if zeros else X


CASES = {
    "dense": (data(), 3, {"n_features": 12}),
    "sparse": (sp.csr_matrix(data(zeros=True)), 3, {"n_features": 9}),
    "float32": (data(k=4).astype(np.float32), 4, {"n_features": 10}),
    "auto": (data(k=2), 2, {}),
    "eta": (data(), 3, {"eta": 3.0}),
    "scaled": (data(), 3, {"n_features": 7, "scale": True}),
    "no structure": (data(k=1), 3, {"n_features": 5}),
    "doublets": (data(), 3, {"n_features": 12, "max_labels": 2}),
    "fista": (data(), 3, {"n_features": 8, "solver": "fista"}),
    "one start": (data(k=4), 4, {"n_features": 12, "init": "spectral"}),
    "forward": (data(k=4), 4, {"n_features": 4, "selector": "forward"}),
}


def results():
    """Labels and features of every case, and one number that is the size of everything."""
    out = {}
    for name, (X, k, options) in CASES.items():
        model = KSparse(k, random_state=0, **({"selector": "l1"} | options)).fit(X)
        out[name] = {
            "labels": "".join(map(str, model.labels_)),
            "features": np.flatnonzero(model.get_support()).tolist(),
            "eta": float(f"{model.eta_:.4g}"),
        }
    model = KSparse.paper(3, 5.0, random_state=0).fit(data())
    out["paper"] = {"labels": "".join(map(str, model.labels_))}
    path = feature_path(data(), 3, random_state=0)
    out["path"] = {"best": int(path.best())}
    return out


if __name__ == "__main__":
    text = json.dumps(results(), indent=1) + "\n"
    if "--print" in sys.argv:
        print(text)
    else:
        FILE.write_text(text)
