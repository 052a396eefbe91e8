"""Forked processes: OpenMP's threads do not survive a fork, and nothing may wait for them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import thorough_params

if not hasattr(os, "fork"):
    pytest.skip("there is no fork here", allow_module_level=True)

# All that comes after a fork, on data that are large enough for several threads.
START = """
import os, sys, warnings
warnings.simplefilter("ignore")
import numpy as np
from sklearn.cluster import KMeans
import ksparse
rng = np.random.default_rng(0)
X = rng.normal(size=(26_000, 12))
X[::3, :3] += 4
X[1::3, 3:6] += 4
KMeans(8, n_init=1, random_state=0).fit(X)  # OpenMP's threads are running
P = X[:300]
def work():
    {work}
expected = work()
child = os.fork()
if child == 0:
    os._exit(0 if np.allclose(work(), expected) else 1)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
FIT = "return ksparse.KSparse(4, n_features=5, random_state=0).fit(X).labels_"
WORK = {
    "fit": FIT.replace("X", "X[:600]"),
    "large fit": FIT.replace("n_features", "init='spectral', max_loops=1, n_features"),
    "graph": FIT.replace("n_features", "init='graph', max_loops=1, n_features"),
    "gap": "return ksparse.choose_k(X[::4], [2, 3], n_features=5, methods=['gap'], n_references=2, "
    "init='spectral', random_state=0).columns['gap']",
    "layout": "from ksparse.scverse.layout import layout; return layout(P, random_state=0)",
    "PCAKMeans": "from ksparse.baselines import PCAKMeans; "
    "return PCAKMeans(3, n_init=1, random_state=0).fit(X).labels_",
}


QUICK = ["large fit"]


@pytest.mark.parametrize("name", thorough_params(QUICK, [n for n in WORK if n not in QUICK]))
@pytest.mark.thorough
def test_nothing_hangs_in_a_forked_process(name):
    program = START.replace("{work}", WORK[name])
    more = {"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}
    # In a group of its own, so that a child that hangs is ended with its parent.
    process = subprocess.Popen(
        [sys.executable, "-c", program], env=os.environ | more, start_new_session=True,
        cwd=Path(__file__).parent,
    )  # fmt: skip
    try:
        assert process.wait(timeout=150) == 0
    finally:
        if process.poll() is None:
            os.killpg(process.pid, 9)
            process.wait()
