"""Draw the pictures of the README: python docs/pictures.py."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib
from ksparse.demo import run_demo

from ksparse import choose_k, feature_path
from ksparse.simulate import log_normalise, simulate_counts

IMAGES = Path(__file__).parent / "images"


def main() -> None:
    """Draw them all."""
    matplotlib.use("Agg")
    with TemporaryDirectory() as folder:
        run_demo(Path(folder))
        shutil.copy(Path(folder) / "demo.png", IMAGES / "demo.png")
    data = simulate_counts(random_state=0)
    X = log_normalise(data.counts)
    path = feature_path(X, 4, labels=data.labels, random_state=0, verbose=1)
    path.plot()[0].figure.savefig(IMAGES / "path.png", dpi=110)
    found = choose_k(X, range(1, 9), random_state=0, n_jobs=2, verbose=1)
    print(found)
    found.plot()[0].figure.savefig(IMAGES / "clusters.png", dpi=110)


if __name__ == "__main__":
    main()
