"""Judging a finished clustering without labels, on samples held out.

The cost cannot compare two fits (it is smallest where nothing is projected). What can
is whether the clusters stay apart on samples that had no part in finding the features:
the features and centroids are fitted on one half of the samples with their labels, the
other half is projected, and every sample there is scored by its margin between its own
and the nearest other centroid. The mean is taken by cluster first, so a large cluster that
is easy to agree on does not hide small ones that are not.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ksparse.assignment import centroids, margins
from ksparse.matrix import Floats, Ints, Matrix, as_matrix
from ksparse.projection import Projection, WStep, fit_projection
from ksparse.targets import embedded_targets

__all__ = ["Judge"]

N_HALVINGS = 3
# At most so many samples are judged, and so many features can be selected among.
MAX_SAMPLES = 5_000
POOL = 5
# A fit with more features than this is judged by its best so many.
MAX_FEATURES = 100


class Judge:
    """Scores labelings of the same data, all on the same halvings.

    Parameters
    ----------
    matrix : Matrix
        The data.
    embedding : ndarray
        Spectral coordinates, in which targets are taken.
    n_clusters : int
        Number of clusters.
    rng : RandomState
        Draws the halvings (and the samples, if there are many).
    """

    def __init__(
        self, matrix: Matrix, embedding: Floats, n_clusters: int, rng: np.random.RandomState
    ) -> None:
        m = matrix.shape[0]
        self.n_clusters = n_clusters
        self.samples: Ints | None = None
        self.matrix, self.embedding = matrix, embedding
        if m > MAX_SAMPLES:
            self.samples = np.sort(rng.choice(m, MAX_SAMPLES, replace=False))
            self.matrix = matrix.rows(self.samples)
            self.embedding = embedding[self.samples]
        self.halvings = [rng.permutation(self.matrix.shape[0]) for _ in range(N_HALVINGS)]

    def __call__(self, labels: Ints, how: WStep, n_selected: int) -> Floats:
        """Scores of the labels, one for each half of each halving."""
        if self.samples is not None:
            labels = labels[self.samples]
        n_features = max(1, min(n_selected, MAX_FEATURES))
        how = replace(how, n_features=n_features, eta=None, relax=True, solver="working_set")
        pool = self._pool(labels, how, POOL * n_features)
        how = replace(how, costs=how.costs[pool])
        part = self.matrix.columns(pool)
        scores: list[float] = []
        last: Projection | None = None  # halves are alike: where to begin the next search
        for order in self.halvings:
            middle = order.size // 2
            for train, test in ((order[:middle], order[middle:]), (order[middle:], order[:middle])):
                score, last = self._score(part, labels, train, test, how, last)
                scores.append(score)
        return np.array(scores)

    def _pool(self, labels: Ints, how: WStep, size: int) -> Ints:
        """The features most correlated with the labels: the others cannot be selected."""
        targets = embedded_targets(self.matrix, self.embedding, labels, self.n_clusters)
        correlation = self.matrix.cluster_sums(labels, self.n_clusters).T @ targets
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.abs(correlation).max(axis=1) / how.costs
        ratio = np.where(how.costs == 0, np.inf, np.nan_to_num(ratio, nan=0.0, posinf=np.inf))
        return np.sort(np.argsort(-ratio, kind="stable")[:size])

    def _score(
        self,
        data: Floats,
        labels: Ints,
        train: Ints,
        test: Ints,
        how: WStep,
        last: Projection | None,
    ) -> tuple[float, Projection]:
        present, known = np.unique(labels[train], return_inverse=True)
        weight = self.matrix.sample_weight
        half = as_matrix(data[train], sample_weight=None if weight is None else weight[train])
        targets = embedded_targets(half, self.embedding[train], known, present.size)
        fitted = fit_projection(half, known, targets, how, last=last, certify=False)
        V = fitted.weights * half.factor[:, None]
        centres = centroids((data[train] - half.mean) @ V, known, present.size, half.sample_weight)
        test = test[np.isin(labels[test], present)]
        truth = np.searchsorted(present, labels[test])
        margin = margins((data[test] - half.mean) @ V, truth, centres)
        mass = np.ones(test.size) if weight is None else weight[test]
        sizes = np.bincount(truth, weights=mass, minlength=present.size)
        sums = np.bincount(truth, weights=mass * margin, minlength=present.size)
        by_cluster = sums[sizes > 0] / sizes[sizes > 0]
        return float(by_cluster.mean()) if test.size else 0.0, fitted
