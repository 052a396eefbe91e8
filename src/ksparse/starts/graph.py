"""The graph start: communities of a nearest-neighbour graph, exactly as many as asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import qr, svd
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import ArpackNoConvergence, eigsh
from sklearn.neighbors import NearestNeighbors

from ksparse._threads import openmp_threads
from ksparse.core.y_step import fill_empty
from ksparse.matrix import Floats, Ints
from ksparse.starts.base import StartData

__all__ = ["GraphStart", "graph_communities"]

# Neighbours of a sample: so many, but no more than half of a cluster of mean size, or most
# edges would leave small clusters.
N_NEIGHBORS = 15
# Larger data: communities of a sample of this size, the others join their neighbours.
MAX_NODES = 10_000
# Graphs up to the first size have all their eigenvectors computed; those up to the second, where
# Lanczos does not converge after so many restarts (a few are usual); it then has this accuracy for
# larger ones.
DENSE, DENSE_FALLBACK, MAX_RESTARTS, ROUGH_TOL = 200, 2_000, 300, 1e-5


class GraphStart:
    """Communities of the nearest-neighbour graph of the principal component scores."""

    def labels(self, data: StartData, rng: np.random.RandomState) -> Ints:
        """Return the communities; empty ones get the samples farthest from their centroids."""
        scores = data.embedding.scores
        return fill_empty(scores, graph_communities(scores, data.n_clusters, rng), data.n_clusters)


def graph_communities(points: Floats, n_clusters: int, rng: np.random.RandomState) -> Ints:
    """Return normalised-cut communities of the shared-neighbour graph of the points.

    Edges of the k-nearest-neighbour graph are weighted by the number of neighbours that
    their ends share; the leading eigenvectors of the normalised graph are turned into
    exactly `n_clusters` groups by a pivoted QR (Damle, Minden and Ying, 2019), without
    any random choice (but for the sample, where there are many points).
    """
    m = points.shape[0]
    if m > MAX_NODES:
        nodes = np.sort(rng.choice(m, MAX_NODES, replace=False))
        labels = graph_communities(points[nodes], n_clusters, rng)
        near = NearestNeighbors(n_neighbors=1).fit(points[nodes])
        with openmp_threads():
            return labels[near.kneighbors(points, return_distance=False)[:, 0]]
    if n_clusters >= m:
        return np.arange(m)
    vectors = _leading_eigenvectors(_shared_neighbours(points, n_clusters), n_clusters)
    return _qr_groups(vectors)


def _shared_neighbours(points: Floats, n_clusters: int) -> Any:
    m = points.shape[0]
    n_neighbors = min(N_NEIGHBORS, max(m // (2 * n_clusters), 2), m - 1)
    near = NearestNeighbors(n_neighbors=n_neighbors).fit(points)
    with openmp_threads():
        directed = sp.csr_array(near.kneighbors_graph(mode="connectivity"))
    graph = directed.maximum(directed.T)
    # Every edge counts a little by itself, so that no edge and no node is lost.
    weighted = (graph @ graph).multiply(graph) + 0.5 * graph
    return sp.csr_array(weighted)


def _leading_eigenvectors(graph: Any, n_vectors: int) -> Floats:
    """Return the leading eigenvectors of the normalised graph, as functions on the nodes."""
    m = graph.shape[0]
    n_parts, part = connected_components(graph, directed=False)
    if n_parts > 1:
        graph = graph + _weak_links(part, n_parts, float(graph.data.mean()), m)
    root = np.sqrt(np.asarray(graph.sum(axis=0)).ravel())
    inverse = sp.diags_array(1 / root)
    normalised = inverse @ graph @ inverse
    if n_vectors >= m - 1 or m <= DENSE:
        values, vectors = np.linalg.eigh(normalised.toarray())
    else:
        values, vectors = _lanczos(normalised, n_vectors)
    leading = vectors[:, np.argsort(-values, kind="stable")[:n_vectors]]
    return leading / root[:, None]


def _lanczos(normalised: Any, n_vectors: int) -> tuple[Floats, Floats]:
    """Return leading eigenvalues and eigenvectors.

    Where the graph has many parts, so many eigenvalues are so close to 1 that Lanczos may not
    tell them apart: then all are computed for few samples, and for many the accuracy is less.
    """
    m = normalised.shape[0]
    # From a fixed vector, so that the result is the same every time; not that of the leading
    # eigenvector, which would span all that Lanczos can reach.
    first = np.random.RandomState(0).standard_normal(m)
    try:
        return eigsh(normalised, n_vectors, which="LA", v0=first, maxiter=MAX_RESTARTS)
    except ArpackNoConvergence:
        if m <= DENSE_FALLBACK:
            return np.linalg.eigh(normalised.toarray())
    width = min(m - 1, 8 * n_vectors + 80)
    try:
        return eigsh(normalised, n_vectors, which="LA", v0=first, ncv=width, tol=ROUGH_TOL)
    except ArpackNoConvergence:
        return np.linalg.eigh(normalised.toarray())


def _weak_links(part: Ints, n_parts: int, typical: float, m: int) -> Any:
    """Return a faint star between the first nodes of the components: one connected graph."""
    first = np.array([int(np.argmax(part == p)) for p in range(n_parts)])
    hub, others = np.full(n_parts - 1, first[0]), first[1:]
    weight = np.full(2 * (n_parts - 1), 1e-3 * typical)
    rows, columns = np.concatenate([hub, others]), np.concatenate([others, hub])
    return sp.csr_array((weight, (rows, columns)), shape=(m, m))


def _qr_groups(vectors: Floats) -> Ints:
    k = vectors.shape[1]
    _, _, pivots = qr(vectors.T, pivoting=True, mode="economic")
    left, _, right = svd(vectors[pivots[:k]].T)
    return np.abs(vectors @ left @ right).argmax(axis=1)
