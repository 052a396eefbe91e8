"""Speed as ratios to scikit-learn, and of the solvers to each other, in one run.

python benchmarks/speed.py
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA

from common import load, timed
from ksparse import KSparse
from ksparse.decomposition import spectral_norm
from ksparse.embedding import spectral_embedding
from ksparse.matrix import as_matrix
from ksparse.solvers import SOLVERS, Problem, select_features
from ksparse.targets import embedded_targets


def pca_kmeans(X):
    scores = PCA(13, random_state=0).fit_transform(X)
    return KMeans(9, n_init=40, random_state=0).fit(scores)


def main():
    sparse, classes, k, _ = load("zeisel")
    dense = sparse.toarray()
    pca_kmeans(dense[:500])  # imports and compilation are not what is measured
    for data in (sparse, dense):
        KSparse(3, n_features=20, random_state=0).fit(data[:200])
    print(
        "| zeisel, 9 clusters, 100 features "
        "| time / (PCA(13) + KMeans(9, n_init=40)) on the same array |"
    )
    print("|---|---|")
    for init in ("spectral", "auto"):
        for name, data in (("dense", dense), ("CSR", sparse)):
            ratios = []
            for _ in range(3):
                peer = timed(lambda data=data: pca_kmeans(data))[1]
                model = KSparse(k, n_features=100, init=init, random_state=0)
                ratios.append(timed(lambda model=model, data=data: model.fit(data))[1] / peer)
            print(f"| init={init!r}, {name} | {np.median(ratios):.1f} |", flush=True)

    matrix = as_matrix(dense)
    matrix.rescale(spectral_norm(matrix))
    embedding = spectral_embedding(matrix, k + 4, np.random.RandomState(0)).rows
    labels = np.unique(classes, return_inverse=True)[1]
    targets = embedded_targets(matrix, embedding, labels, k)
    problem = Problem(
        matrix,
        matrix.cluster_sums(labels, k).T @ targets,
        float((targets[labels] ** 2).sum()),
        np.inf,
        np.ones(dense.shape[1]),
    )
    radius = select_features(problem, 100).radius
    print(f"\nW-step at eta = {radius:.0f} to a relative gap of 1e-4:\n")
    print("| solver | time / working_set | iterations | gap | objective | features |")
    print("|---|---|---|---|---|---|")
    first = None
    for name, limit in (("working_set", 20), ("fista", 5000)):
        fresh = replace(problem, radius=radius, gram=None)  # no Gram matrix from before
        found, seconds = timed(lambda n=name, p=fresh, m=limit: SOLVERS[n](p, tol=1e-4, max_iter=m))
        first = first or seconds
        exact = fresh.evaluate(found.weights)
        print(
            f"| {name} | {seconds / first:.1f} | {found.n_iter} | {exact.gap / fresh.scale:.1e} "
            f"| {exact.objective:.6f} | {np.count_nonzero(found.weights.any(axis=1))} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
