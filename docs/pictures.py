"""Draw the pictures of the README: python docs/pictures.py."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from matplotlib import pyplot
from playwright.sync_api import sync_playwright

import ksparse as ks
from ksparse.cli import main as command
from ksparse.simulate import log_normalise, simulate_counts

IMAGES = Path(__file__).parent / "images"


def report() -> None:
    """A screenshot of the demo's report, the cells coloured by cluster."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    with TemporaryDirectory() as folder, sync_playwright() as play:
        command(["demo", "-o", f"{folder}/demo"])
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1320, "height": 1010})
        page.goto(Path(folder, "demo", "report.html").as_uri())
        page.wait_for_selector("html[data-ready]")
        page.screenshot(path=IMAGES / "report.png")
        browser.close()


def anndata_pictures() -> None:
    """Two pictures of ksparse.pl."""
    adata = simulate_counts(random_state=0).to_anndata()
    ks.tl.ksparse(adata, 4, n_features=40, normalize="log1p", random_state=0)
    _, axes = pyplot.subplots(1, 2, figsize=(12, 4.2), width_ratios=(1, 1.6),
                                         layout="constrained")  # fmt: skip
    ks.pl.embedding(adata, labels="label", ax=axes[0])
    ks.pl.dotplot(adata, n_genes=5, ax=axes[1])
    axes[0].figure.savefig(IMAGES / "anndata.png", dpi=110)


def numbers() -> None:
    """How many features, how many clusters."""
    data = simulate_counts(random_state=0)
    X = log_normalise(data.counts)
    path = ks.feature_path(X, 4, labels=data.labels, random_state=0, verbose=1)
    path.plot()[0].figure.savefig(IMAGES / "path.png", dpi=110)
    numbers = ks.choose_k(X, range(2, 9), methods=["silhouette"], random_state=0, verbose=1)
    print(path, numbers, sep="\n")
    numbers.plot()[0].figure.savefig(IMAGES / "clusters.png", dpi=110)
    tested = ks.separation(X, numbers.labels[6])
    tested.plot()[0].figure.savefig(IMAGES / "separation.png", dpi=110)


def tree() -> None:
    """Clusters within clusters."""
    data = simulate_counts(600, 500, 6, random_state=1)
    names = [f"gene_{j}" for j in range(500)]
    found = ks.tree(log_normalise(data.counts), feature_names=names, random_state=0)
    print(found)
    found.plot().figure.savefig(IMAGES / "tree.png", dpi=110)


if __name__ == "__main__":
    pyplot.switch_backend("Agg")
    report()
    anndata_pictures()
    numbers()
    tree()
