"""The same seed, the same result: whatever the threads, the process, the version of Python.

Needs nothing but the core dependencies, so that it runs with every Python that is there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FILES = Path(__file__).parent / "files"
sys.path.insert(0, str(FILES))

import make_golden  # noqa: E402  (needs nothing but the core, not even conftest)

GOLDEN = json.loads(make_golden.FILE.read_text())


def assert_golden(found):
    assert list(found) == list(GOLDEN)
    for name, expected in GOLDEN.items():
        for key, value in expected.items():
            # The last digit may differ where other libraries add up in another order.
            wanted = pytest.approx(value, rel=2e-3) if key == "eta" else value
            assert found[name][key] == wanted, f"{name}: {key} (see tests/files/make_golden.py)"


def test_results_have_not_changed():
    assert_golden(make_golden.results())


# In this process it is one thread where tests run side by side, and all of them elsewhere.
# Threads of a fit alone are in test_estimator.
@pytest.mark.thorough
@pytest.mark.parametrize("threads", ["2", "1"])
def test_another_process_with_other_threads_gives_the_same(threads):
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS", "MKL_NUM_THREADS")
    environment = os.environ | dict.fromkeys(names, threads)
    words = [sys.executable, str(FILES / "make_golden.py"), "--print"]
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=True)
    assert_golden(json.loads(done.stdout))


def test_a_change_would_be_seen():
    changed = json.loads(json.dumps(GOLDEN))
    changed["sparse"]["labels"] = changed["sparse"]["labels"][::-1]
    with pytest.raises(AssertionError, match="sparse: labels"):
        assert_golden(changed)
