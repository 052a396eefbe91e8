"""The two tiers of the tests, and the array kinds and small data that all tests share."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.cluster  # noqa: F401  (loads the thread pools that are limited below)
from threadpoolctl import threadpool_limits

# Test processes that run side by side share the cores: one thread each, or small matrix
# products spend their time waiting for a thread that another process keeps from running.
if "PYTEST_XDIST_WORKER" in os.environ:
    threadpool_limits(1)

# The two tiers --------------------------------------------------------------------------


def pytest_addoption(parser):
    parser.addoption(
        "--thorough",
        action="store_true",
        help="also run what is marked thorough: more seeds, sizes, kinds of data and examples",
    )


_thorough = False


def pytest_configure(config):
    global _thorough
    _thorough = config.getoption("thorough")


def pytest_collection_modifyitems(config, items):
    if not _thorough:
        marked = [item for item in items if item.get_closest_marker("thorough")]
        items[:] = [item for item in items if not item.get_closest_marker("thorough")]
        config.hook.pytest_deselected(items=marked)


def thorough_params(default, thorough):
    """Return parameters for `pytest.mark.parametrize`: of every run, then of thorough runs.

    A tuple is the values of several arguments, as `parametrize` takes them.
    """
    mark = pytest.mark.thorough
    return [
        *default,
        *(pytest.param(*(p if isinstance(p, tuple) else (p,)), marks=mark) for p in thorough),
    ]


def seeds(default, thorough):
    """Return the seeds 0, 1, ... as parameters: `default` in every run, `thorough` in all."""
    return thorough_params(range(default), range(default, thorough))


def crossed(*axes):
    """Return all combinations of the values as parameters, for thorough runs.

    Every run has just enough of them that each value occurs.
    """
    longest = max(len(axis) for axis in axes)
    default = {tuple(i % len(axis) for axis in axes) for i in range(longest)}
    every = itertools.product(*(range(len(axis)) for axis in axes))
    return [
        pytest.param(
            *(axis[i] for axis, i in zip(axes, places, strict=True)),
            marks=() if places in default else pytest.mark.thorough,
        )
        for places in every
    ]


def examples(default, thorough):
    """Return how many examples hypothesis tries, which depends on the tier."""
    return thorough if _thorough else default


# Sparse and dense containers in which the same data must give the same answer.
ARRAY_KINDS = {
    "dense_c": np.ascontiguousarray,
    "dense_f": np.asfortranarray,
    "csr_matrix": sp.csr_matrix,
    "csr_array": sp.csr_array,
    "csc_matrix": sp.csc_matrix,
    "csc_array": sp.csc_array,
}


@pytest.fixture(
    params=thorough_params(
        ["dense_c", "dense_f", "csr_matrix", "csc_array"], ["csr_array", "csc_matrix"]
    )
)
def array_kind(request):
    """A function that puts a dense array in one kind of container."""
    return ARRAY_KINDS[request.param]


def make_clusters(seed=0, sizes=(40, 30, 20), n_features=60, n_markers=5, shift=4.0, zeros=0.0):
    """Gaussian clusters, each raised in its own few features; returns X, labels, markers."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    X = rng.normal(size=(labels.size, n_features))
    markers = np.zeros(n_features, dtype=bool)
    for cluster in range(len(sizes)):
        raised = slice(cluster * n_markers, (cluster + 1) * n_markers)
        X[np.ix_(labels == cluster, np.arange(n_features)[raised])] += shift
        markers[raised] = True
    if zeros:
        X[rng.random(X.shape) < zeros] = 0.0
    order = rng.permutation(labels.size)
    return X[order], labels[order], markers


@pytest.fixture
def clusters():
    return make_clusters()


@pytest.fixture(autouse=True)
def closed_figures():
    """Close what a test has drawn: matplotlib warns of many open figures."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture
def interruptible():
    """Let SIGINT stop what a test starts, as a shell in the background would not."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def data_folder():
    """The folder with real labelled data, where it is present."""
    place = os.environ.get("KSPARSE_DATA")
    folder = Path(place) if place else Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the labelled data sets are not here (set KSPARSE_DATA to their folder)")
    return folder


@pytest.fixture(scope="session")
def simulated():
    """Counts of 240 cells x 300 genes in 3 clusters, as AnnData."""
    pytest.importorskip("anndata")
    from ksparse.simulate import simulate_counts

    return simulate_counts(240, 300, 3, n_markers=15, random_state=0).to_anndata()


@pytest.fixture(scope="session")
def clustered(simulated):
    """The same with the results of `tl`; use a copy to change it."""
    import ksparse as ks

    adata = ks.tl.ksparse(simulated, 3, n_features=12, normalize="log1p", random_state=0, copy=True)
    ks.tl.rank_genes(adata)
    ks.tl.embed(adata)
    return adata


@pytest.fixture(scope="session")
def with_path(clustered):
    """The same with a path, and the path; use a copy to change them."""
    import ksparse as ks

    adata = clustered.copy()
    options = {"labels": "label", "normalize": "log1p", "random_state": 0}
    return adata, ks.tl.path(adata, 3, n_features=[5, 10, 20], **options)


# Pages in a browser -------------------------------------------------------------------------

# Names that would run, break or hide something where they are taken for more than text.
HOSTILE = [
    "</script><script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 2'>",
    '"><b onmouseover="window.hacked = 3">x</b>',
    "{{script}}",
    "<!--<script>",
    "a,b\"c\nd",
    "=1+1",
]  # fmt: skip


def page_content(path):
    """The data of a report."""
    text = path.read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    return json.loads(found[1])


FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update",
         "--disable-sync"]  # fmt: skip
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="module")
def browser():
    program = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if program is None:
        pytest.skip("NO BROWSER: Chromium is not installed, the report was NOT tested in one")
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="NO BROWSER TEST: needs playwright"
    )
    with sync_api.sync_playwright() as play:
        started = play.chromium.launch(executable_path=program, args=FLAGS)
        yield started
        started.close()


@pytest.fixture
def visit(browser):
    """Open a report; in the end there must have been no error and no request."""
    opened, trouble = [], []

    def go(path, **options):
        context = browser.new_context(**({"viewport": {"width": 1200, "height": 900}} | options))
        page = context.new_page()
        page.on("console", lambda message: trouble.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on(
            "request",
            lambda asked: trouble.append(asked.url) if asked.url != path.as_uri() else None,
        )
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready]", timeout=20_000)
        opened.append(context)
        return page

    yield go
    for context in opened:
        context.close()
    # Downloads are blobs of the page itself; reading pixels often is what these tests do.
    known = ("blob:", "warning: Canvas2D: Multiple readback")
    assert [line for line in trouble if not line.startswith(known)] == []
