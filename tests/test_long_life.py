"""Many fits in one process, many threads, other processes, notebooks; and no network."""

from __future__ import annotations

import gc
import multiprocessing
import os
import socket
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from conftest import make_clusters, thorough_params
from ksparse import KSparse

X, _, _ = make_clusters(0, sizes=(14, 10, 8), n_features=16, n_markers=2, shift=6.0)


def quick(data=X, seed=0, init=None, max_loops=1, **options):
    start = np.arange(len(X)) % 3 if init is None else init
    options |= {"n_init": 1, "max_loops": max_loops, "random_state": seed}
    return KSparse(3, n_features=6, init=start, **options).fit(data)


def resident():
    """Bytes of memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def many_fits(n, max_loops, n_full):
    """Return how memory grows after a quarter of n fits, and the number of threads.

    One in `n_full` fits has the default starts.
    """
    sparse = sp.csr_matrix(np.where(np.abs(X) < 0.5, 0, X))
    seen = []
    for i in range(n):
        quick(sparse if i % 2 else X, i, "auto" if i % n_full == 0 else None, max_loops)
        if i in (n // 4, n - 1):
            gc.collect()
            seen.append(resident())
    return seen[1] - seen[0], threading.active_count()


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is not told here")
@pytest.mark.parametrize(
    ("n", "max_loops", "n_full"), thorough_params([], [(200, 1, 50), (2000, 2, 100)])
)
def test_many_fits_leave_memory_flat(n, max_loops, n_full):
    # In a process of its own, which holds nothing but this.
    call = f"many_fits({n}, {max_loops}, {n_full})"
    program = f"import test_long_life; print(*test_long_life.{call})"
    words = [sys.executable, "-c", program]
    here = Path(__file__).parent
    done = subprocess.run(words, capture_output=True, text=True, cwd=here, check=True)
    growth, threads = (int(word) for word in done.stdout.split())
    assert growth < 2**23 * n / 2000  # 8 MB in 1,500 fits: less than 6 kB each
    assert threads < 40


@pytest.mark.parametrize(("n_seeds", "n_times"), thorough_params([(1, 4)], [(4, 2)]))
@pytest.mark.thorough
def test_eight_threads_at_once_give_what_one_gives(n_seeds, n_times):
    sizes = (80, 60, 50)
    wide = make_clusters(0, sizes, n_features=200, shift=4.0)[0]
    jobs = [(data, seed) for data in (X, wide) for seed in range(n_seeds)]

    def one(job):
        model = KSparse(3, n_features=6, random_state=job[1]).fit(job[0])
        return model.labels_.tobytes(), model.weights_.tobytes(), model.eta_

    alone = [one(job) for job in jobs]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(one, n_times * jobs))
    assert together == n_times * alone


def _in_child(seed):
    model = quick(seed=seed)
    return model.labels_.tolist(), np.flatnonzero(model.get_support()).tolist()


@pytest.mark.parametrize("method", thorough_params(["spawn"], ["fork", "forkserver"]))
@pytest.mark.thorough
def test_works_in_other_processes(method):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"there is no {method} here")
    make_clusters_big = make_clusters(1, sizes=(300, 200), n_features=400)[0]
    KSparse(2, n_features=5, random_state=0).fit(make_clusters_big)  # our threads are running
    expected = [_in_child(seed) for seed in range(2)]
    with warnings.catch_warnings():
        # Python >= 3.12 warns of forking beside threads, which is the point here.
        warnings.simplefilter("ignore", DeprecationWarning)
        with multiprocessing.get_context(method).Pool(2) as pool:
            assert pool.map_async(_in_child, range(2)).get(timeout=120) == expected


@pytest.mark.thorough
def test_warnings_as_errors_find_nothing(tmp_path):
    program = (
        "import numpy as np, scipy.sparse as sp\n"
        "import ksparse\n"
        "X = np.random.default_rng(0).normal(size=(60, 30)); X[:30, :3] += 6\n"
        "for data in (X, X.astype(np.float32), sp.csr_matrix(X)):\n"
        "    model = ksparse.KSparse(2, n_features=3, random_state=0).fit(data)\n"
        "    model.predict(data), model.predict_proba(data), model.transform(data)\n"
        "    model.save('m'), ksparse.load('m')\n"
        "ksparse.feature_path(X, 2, random_state=0).best()\n"
    )
    words = [sys.executable, "-W", "error", "-X", "dev", "-c", program]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.thorough
def test_works_in_a_jupyter_kernel():
    pytest.importorskip("ipykernel")
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(kernel_name="python3", startup_timeout=60)
    code = (
        "import numpy as np, ksparse\n"
        "X = np.random.default_rng(0).normal(size=(60, 30)); X[:25, :3] += 6\n"
        "model = ksparse.KSparse(2, n_features=3, random_state=0, verbose=1).fit(X)\n"
        "print(np.bincount(model.labels_).tolist(), np.flatnonzero(model.get_support()).tolist())\n"
        "model"
    )
    said, shown = [], []

    def hear(message):
        content = message["content"]
        if message["msg_type"] == "stream" and content["name"] == "stdout":
            said.append(content["text"])
        elif message["msg_type"] == "execute_result":
            shown.append(content["data"])

    try:
        reply = client.execute_interactive(code, timeout=120, output_hook=hear)
        assert reply["content"]["status"] == "ok", reply["content"]
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    assert "".join(said) == "[35, 25] [0, 1, 2]\n"
    assert "KSparse" in shown[0]["text/plain"]
    assert "text/html" in shown[0]


def test_every_step_of_a_bar_calls_back_whether_it_is_shown_or_not():
    from ksparse._progress import each_step, progress_bar

    steps = []
    with each_step(lambda: steps.append(1)), progress_bar(2, "test", 0) as bar:
        bar.update()
        bar.update()
    assert len(steps) == 2
    with progress_bar(1, "test", 0) as bar:
        bar.update()
    assert len(steps) == 2
    with each_step(sys.exit), pytest.raises(SystemExit):
        quick(verbose=1)


@pytest.mark.parametrize("in_notebook", [False, True])
def test_progress_is_shown_in_notebooks(monkeypatch, capsys, in_notebook):
    from ksparse import _progress

    monkeypatch.setattr(_progress, "IN_NOTEBOOK", in_notebook)
    for verbose in (0, 1):
        with _progress.progress_bar(1, "test", verbose) as bar:
            assert bar.disable != (in_notebook and verbose == 1)
    capsys.readouterr()


# No network ------------------------------------------------------------------------------


@pytest.fixture
def no_network(monkeypatch):
    """Any attempt to reach another machine fails the test."""
    tried = []

    def refuse(*given, **options):
        tried.append(given)
        raise OSError("there is no network in this test")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "connect_ex", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    yield tried
    assert tried == []


@pytest.mark.thorough
def test_the_command_line_needs_no_network(no_network, simulated, tmp_path):
    from ksparse.cli import main

    cells = tmp_path / "cells.h5ad"
    simulated.write_h5ad(cells)
    out = tmp_path / "out"
    for words in (
        ["run", cells, "-k", 3, "--genes", 8, "-o", out],
        ["predict", out / "result.h5ad", cells, "-o", tmp_path / "placed"],
        ["report", out / "result.h5ad", "-o", tmp_path / "again.html"],
        ["path", cells, "-k", 3, "--genes", "5,8", "-o", tmp_path / "path"],
        ["simulate", "--cells", 50, "--genes", 100, "-o", tmp_path / "s.h5ad"],
    ):
        assert main([str(word) for word in words]) == 0
    page = (out / "report.html").read_text()
    for word in ('src="http', "src='http", 'href="http', "@import", "fetch(", "XMLHttpRequest",
                 "WebSocket", "sendBeacon", "url(http", "url('http", 'url("http'):  # fmt: skip
        assert word not in page, word


def test_an_attempt_would_be_seen(monkeypatch):
    tried = []
    monkeypatch.setattr(socket.socket, "connect", lambda *given: tried.append(given))
    with socket.socket() as one:
        one.connect(("192.0.2.1", 80))
    assert tried
