"""Machine code in numba's cache: it saves time, and its absence or damage costs no result."""

from __future__ import annotations

import ast
import importlib.util
import itertools
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ksparse
from conftest import make_clusters
from ksparse import KSparse

PACKAGE = Path(ksparse.__file__).parent
SOURCE = """
from ksparse._compile import compiled

@compiled
def total(x):
    out = 0.0
    for value in x:
        out += value
    return out
"""
_numbers = itertools.count()


@pytest.fixture
def source(tmp_path, monkeypatch):
    """A module with a compiled function, whose cache is beside it or nowhere."""
    for name in ("NUMBA_CACHE_DIR", "NUMBA_CACHE_LOCATOR_CLASSES"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HOME", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(name, os.devnull)
    path = tmp_path / "totals.py"
    path.write_text(SOURCE)
    return path


def load(path):
    """Import a file as a new process would: nothing is compiled yet."""
    spec = importlib.util.spec_from_file_location(f"totals_{next(_numbers)}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.total


def hits(function):
    return sum(function.stats.cache_hits.values())


def test_what_was_compiled_is_taken_from_the_cache(source):
    for expected in (0, 1):
        total = load(source)
        assert total(np.arange(5.0)) == 10
        assert hits(total) == expected


def wrong_pickle(data):
    return pickle.dumps("something else")


def flipped(data):
    """Change a byte of the machine code: the pickle around it stays whole."""
    place = data.index(b"\x7fELF" if sys.platform == "linux" else b"total") + 100
    return data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :]


@pytest.mark.parametrize(
    ("file", "damage"),
    [
        *((kind, damage) for kind in ("*.nbi", "*.nbc") for damage in (
            lambda data: b"", lambda data: data[: len(data) // 2], lambda data: bytes(len(data)),
            lambda data: b"\x80\x04garbage" * 9, wrong_pickle)),
        ("*.nbi", lambda data: data[: data.index(b".") + 1]),
        ("*.nbc", flipped),
    ],
)  # fmt: skip
def test_a_damaged_cache_is_made_anew(source, file, damage):
    assert load(source)(np.arange(5.0)) == 10
    (path,) = source.parent.joinpath("__pycache__").glob(file)
    path.write_bytes(damage(path.read_bytes()))
    for expected in (0, 1):
        total = load(source)
        assert total(np.arange(5.0)) == 10
        assert hits(total) == expected


def test_without_a_place_for_a_cache_functions_are_compiled(source):
    (source.parent / "__pycache__").write_text("no folder")
    assert load(source)(np.arange(5.0)) == 10


def test_a_place_that_vanishes_costs_nothing(source):
    total = load(source)
    shutil.rmtree(source.parent / "__pycache__")
    (source.parent / "__pycache__").write_text("no folder any more")
    assert total(np.arange(5.0)) == 10


def test_every_function_of_the_package_is_compiled_that_way():
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module == "numba":
                names = {alias.name for alias in node.names}
                assert path.name == "_compile.py" or not names & {"jit", "njit", "vectorize"}, path


@pytest.mark.thorough  # everything is compiled, which takes a while
@pytest.mark.parametrize("damaged", [False, True])
def test_a_fit_works_without_a_cache_and_with_a_damaged_one(tmp_path, damaged):
    shutil.copytree(PACKAGE, tmp_path / "ksparse", ignore=shutil.ignore_patterns("__pycache__"))
    if not damaged:  # root may write to a folder that is read-only, but not into a file
        for folder in (tmp_path / "ksparse", *(tmp_path / "ksparse").rglob("*/")):
            (folder / "__pycache__").write_text("no folder")
    X = make_clusters()[0]
    np.save(tmp_path / "X.npy", X)
    program = (
        "import sys, numpy as np, scipy.sparse as sp, ksparse; X = np.load('X.npy')\n"
        "assert ksparse.__file__.startswith(sys.argv[1])\n"
        "for data in (X, sp.csr_matrix(X)):\n"
        "    model = ksparse.KSparse(3, n_features=15, random_state=0).fit(data)\n"
        "np.save('labels.npy', model.labels_)"
    )
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "HOME": os.devnull,
                                "XDG_CACHE_HOME": os.devnull}  # fmt: skip
    environment.pop("NUMBA_CACHE_DIR", None)
    for _ in range(1 + damaged):
        words = [sys.executable, "-W", "error", "-c", program, str(tmp_path)]
        subprocess.run(words, check=True, cwd=tmp_path, env=environment, timeout=300)
        labels = np.load(tmp_path / "labels.npy")
        expected = KSparse(3, n_features=15, random_state=0).fit(X).labels_
        np.testing.assert_array_equal(labels, expected)
        caches = [*tmp_path.rglob("*.nbi"), *tmp_path.rglob("*.nbc")]
        assert bool(caches) == damaged
        for i, path in enumerate(caches):
            path.write_bytes(path.read_bytes()[: 50 * (i % 3)])
