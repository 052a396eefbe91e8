"""Stop `ksparse run` at random moments and look at what it leaves behind.

    OMP_NUM_THREADS=1 python tests/interrupting.py SIGINT,SIGTERM,SIGKILL 50 0

50 times, with these signals in turn and the seed 0.

All that takes time to start is loaded once; each run is a fork of this process, so that fifty
runs take a minute. Prints a line of JSON: exit codes, and what was wrong.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

RESULTS = ("clusters.csv", "genes.csv", "result.h5ad", "report.html", "run.json")
EXPECTED = {"SIGINT": 130, "SIGTERM": 143, "SIGKILL": None}


def run(cells, out):
    """Run the command in a process of its own; return its number."""
    number = os.fork()
    if number:
        return number
    code = 1
    try:
        os.setsid()
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        from ksparse.cli import main

        words = ["run", cells, "-k", "3", "--genes", "8", "--layout", "tsne", "-o", out, "--force"]
        code = main([str(word) for word in words])
    finally:
        os._exit(code)


def end_of(number):
    _, status = os.waitpid(number, 0)
    return os.waitstatus_to_exitcode(status)


def faults(folder, reference, killed, there_before=False):
    """What is in a folder that should not be there."""
    if not folder.exists():
        return ["what was there is gone"] if there_before else []
    names = sorted(path.name for path in folder.iterdir())
    left = [name for name in names if name.startswith(".")]
    visible = [name for name in names if not name.startswith(".")]
    wrong = [] if killed else [f"left behind {name}" for name in left]
    if not killed and set(visible) != set(RESULTS):
        wrong.append(f"only {visible} of the results")
    for name in visible:
        written, expected = folder / name, reference / name
        if name.endswith(".csv") and written.read_bytes() != expected.read_bytes():
            wrong.append(f"{name} is not whole")
        elif name.endswith(".json"):
            if set(visible) != set(RESULTS):
                wrong.append("run.json is there before the others")
            json.loads(written.read_text())
        elif name.endswith(".html") and not written.read_text().rstrip().endswith("</html>"):
            wrong.append(f"{name} is not whole")
        elif name.endswith(".h5ad"):
            import anndata

            if anndata.read_h5ad(written).obs["ksparse"].isna().any():
                wrong.append(f"{name} is not whole")
    return wrong


def main(names, count, seed):
    # Threads of OpenMP do not survive the fork by which the runs are started.
    assert os.environ.get("OMP_NUM_THREADS") == "1", "set OMP_NUM_THREADS=1"
    import ksparse as ks

    rng = np.random.default_rng([seed, *names.encode()])
    codes, wrong = Counter(), []
    with tempfile.TemporaryDirectory() as place:
        place = Path(place)
        cells = place / "cells.h5ad"
        ks.simulate.simulate_counts(90, 130, 3, random_state=0).to_anndata().write_h5ad(cells)
        for attempt in range(2):  # the first one loads and compiles what is needed
            from ksparse.cli import main as command

            words = ["run", cells, "-k", "3", "--genes", "8", "-o", place / f"here{attempt}"]
            assert command([str(word) for word in words]) == 0
        reference = place / "here1"
        start = time.monotonic()
        assert end_of(run(cells, place / "fork")) == 0
        usual = time.monotonic() - start
        assert not faults(place / "fork", reference, False)
        for i in range(count):
            out = place / f"out{i}"
            if i % 2:  # older results are there
                shutil.copytree(reference, out)
            number = run(cells, out)
            moment = rng.uniform(0, 1.1 * usual)
            time.sleep(moment)
            name = names.split(",")[i // 2 % (names.count(",") + 1)]
            os.kill(number, getattr(signal, name))
            code = end_of(number)
            codes[code] += 1
            if code == 0:
                usual = min(usual, moment)  # the machine has become faster
                if not (out / "run.json").exists():
                    wrong.append("ended well without results")
            allowed = (0, EXPECTED[name] or -signal.SIGKILL)
            # Before the command has begun, the process ends as any other does.
            if code not in (*allowed, -getattr(signal, name)):
                wrong.append(f"exit code {code}")
            wrong += faults(out, reference, name == "SIGKILL", bool(i % 2))
        for i in range(2):  # what was stopped can be done again, in the same place
            if end_of(run(cells, place / f"out{i}")) != 0:
                wrong.append("a second run failed")
            wrong += faults(place / f"out{i}", reference, names == "SIGKILL")
    print(json.dumps({"codes": codes, "wrong": wrong}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
