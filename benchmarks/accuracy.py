"""Agreement with published classes, beside PCA + k-means and spectral clustering.

python benchmarks/accuracy.py [--seeds 3]
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from sklearn.cluster import KMeans, SpectralClustering
from sklearn.decomposition import PCA

from common import README_SETS, load
from ksparse import KSparse
from ksparse.metrics import adjusted_rand_score, summary


def peers(X, k):
    """Labels by PCA + k-means and by scikit-learn's spectral clustering."""
    scores = PCA(k + 4, random_state=0).fit_transform(X.toarray())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spectral = SpectralClustering(
            k, affinity="nearest_neighbors", random_state=0, n_init=40
        ).fit_predict(scores)
    return KMeans(k, n_init=40, random_state=0).fit_predict(scores), spectral


def row(what, X, classes, k, markers, model):
    found = summary(classes, model.labels_, selected=model.get_support(), relevant=markers)
    pca, spectral = (summary(classes, labels) for labels in peers(X, k))
    precision = f"{found['precision']:.1%}" if markers is not None else "-"
    print(
        f"| {what} | {found['accuracy']:.1%} | {found['ari']:.3f} | {found['nmi']:.3f} "
        f"| {found['n_features']:.0f} | {precision} | {pca['accuracy']:.1%} / {pca['ari']:.3f} "
        f"| {spectral['accuracy']:.1%} / {spectral['ari']:.3f} |",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    print("| fit | accuracy | ARI | NMI | features | markers | PCA k-means | spectral |")
    print("|---|---|---|---|---|---|---|---|")
    cases = [
        ("paper(9, eta=16000), zeisel", "zeisel", False, lambda: KSparse.paper(9, 16000)),
        ("paper(4, eta=1000), authors' simulation, CPM", "authors' simulation", True,
         lambda: KSparse.paper(4, 1000)),
        ("9 clusters, 100 features, zeisel", "zeisel", False,
         lambda: KSparse(9, n_features=100, random_state=0)),
        ("4 clusters, 50 features, usoskin", "usoskin", False,
         lambda: KSparse(4, n_features=50, random_state=0)),
        ("4 clusters, 40 features, scsim1, CPM", "scsim1", True,
         lambda: KSparse(4, n_features=40, random_state=0)),
    ]  # fmt: skip
    for what, name, cpm, make in cases:
        X, classes, k, markers = load(name, cpm)
        row(what, X, classes, k, markers, make().fit(X))

    print("\nARI with 100 features, init='auto':\n")
    seeds = list(range(options.seeds))
    print(f"| data | shape | {' | '.join(f'seed {s}' for s in seeds)} | PCA k-means | spectral |")
    print("|---" * (len(seeds) + 4) + "|")
    table = []
    for name in README_SETS:
        X, classes, k, _ = load(name)
        fits = [KSparse(k, n_features=100, random_state=seed).fit(X) for seed in seeds]
        values = [adjusted_rand_score(classes, labels) for labels in
                  [*(fit.labels_ for fit in fits), *peers(X, k)]]  # fmt: skip
        table.append(values)
        shape = f"{X.shape[0]} x {X.shape[1]}, k = {k}"
        print(f"| {name} | {shape} | {' | '.join(f'{v:.3f}' for v in values)} |", flush=True)
    print(f"| mean | | {' | '.join(f'{v:.3f}' for v in np.mean(table, axis=0))} |")


if __name__ == "__main__":
    main()
