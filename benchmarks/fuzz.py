"""Read at least 20,000 damaged files of every format, and count what came of it.

Formats that come in two forms (such as .h5ad with sparse and with dense data) share the number.
Ends with exit code 1 if a file crashed or hung a reader, took much memory, or raised anything
that is not documented; `python tests/fuzzing.py FORMAT --first NUMBER` repeats such a file.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import fuzzing
from test_fuzz import PAIRS


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=20_000, help="files of every format")
    parser.add_argument("--first", type=int, default=1_000_000, help="number of the first file")
    parser.add_argument("--seconds", type=float, default=1800, help="limit for every form")
    parser.add_argument("--jobs", type=int, default=2, help="forms that are tried at once")
    parser.add_argument("names", nargs="*", metavar="FORM", help=", ".join(fuzzing.FORMATS))
    given = parser.parse_args()

    def one(name: str) -> int:
        count = -(-given.count // 2) if name in PAIRS else given.count
        start = time.monotonic()
        outcomes, wrong = fuzzing.hunt(name, count, first=given.first, seconds=given.seconds)
        tried = sum(outcomes.values())
        text = ", ".join(f"{what} {n:,}" for what, n in sorted(outcomes.items()))
        seconds = time.monotonic() - start
        print(f"{name:12} {tried:7,} of {count:,} in {seconds:5.0f} s: {text}", flush=True)
        for number, what in wrong:
            print(f"{name:12} number {number}: {what}", flush=True)
        if tried < count and not wrong:
            print(f"{name:12} NOT all were tried in {given.seconds:.0f} s", flush=True)
        return len(wrong)

    with ThreadPoolExecutor(given.jobs) as pool:
        found = sum(pool.map(one, given.names or list(fuzzing.FORMATS)))
    print(f"{found} files went wrong.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
