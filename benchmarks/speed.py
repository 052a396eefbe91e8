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
from ksparse.core.selectors import SELECTORS
from ksparse.core.solvers import SOLVERS
from ksparse.core.targets import TARGETS
from ksparse.core.w_step import Problem
from ksparse.matrix import as_matrix
from ksparse.search.fit import prepare


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

    prepared = prepare(as_matrix(dense), k + 4, np.random.RandomState(0))
    matrix, embedding = prepared.matrix, prepared.embedding(k + 4).coordinates
    labels = np.unique(classes, return_inverse=True)[1]
    targets = TARGETS["embedding"].targets(matrix, embedding, labels, k, None)
    problem = Problem(
        matrix,
        matrix.cluster_sums(labels, k).T @ targets,
        float((targets[labels] ** 2).sum()),
        np.inf,
        np.ones(dense.shape[1]),
    )
    radius = SELECTORS["l1"].select(problem, 100).radius
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
