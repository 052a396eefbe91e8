"""Simulated cells of a pancreas, and whether rare types are found among them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import adjusted_rand_score

from conftest import thorough_params
from ksparse import KSparse
from ksparse.simulate import simulate_pancreas

RARE = ["epsilon", "schwann", "mast", "t cell"]


def test_types_families_and_markers():
    data = simulate_pancreas(random_state=0)
    assert data.counts.shape == (2000, 3000)
    assert isinstance(data.counts, sp.csr_array)
    sizes = dict(zip(data.types.tolist(), np.bincount(data.labels).tolist(), strict=True))
    assert len(sizes) == 14
    assert [name for name, size in sizes.items() if 5 <= size <= 15] == RARE
    assert sorted(set(data.families)) == ["endocrine", "exocrine", "immune", "stromal"]
    assert data.markers.sum() == 14 * 60 + 4 * 2 * 60
    assert 0.01 < data.doublets.mean() < 0.03
    assert 0.5 < 1 - data.counts.nnz / np.prod(data.counts.shape) < 0.9


def test_markers_are_raised_in_their_type_or_family():
    data = simulate_pancreas(4000, random_state=1, doublets=0.0)
    mean = np.array([data.counts[data.labels == c].mean(axis=0) for c in range(14)])
    others = np.array([data.counts[data.labels != c].mean(axis=0) for c in range(14)])
    for c in range(14):
        own = slice(60 * c, 60 * (c + 1))
        assert np.median(mean[c, own] / np.maximum(others[c, own], 1e-3)) > 3
    plain = ~data.markers
    np.testing.assert_allclose(mean[0, plain].mean(), 0.8 * np.exp(0.35**2 / 2), rtol=0.1)


def test_the_same_seed_gives_the_same_cells():
    one, other = (simulate_pancreas(100, 1500, random_state=3) for _ in range(2))
    assert (one.counts != other.counts).nnz == 0
    assert np.array_equal(one.labels, other.labels)
    assert (simulate_pancreas(100, 1500, random_state=4).counts != one.counts).nnz > 0


def test_anndata():
    adata = simulate_pancreas(200, 1500, random_state=0).to_anndata()
    assert adata.obs["family"].nunique() == 4
    assert set(RARE) < set(adata.obs["label"].cat.categories)
    assert adata.var["is_marker"].sum() == 60 * 22


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"n_cells": 20}, "n_cells=20 must be at least 28"),
        ({"n_genes": 1000}, r"n_genes=1000 should be >= 1320, .* n_markers=60"),
        ({"n_markers": -1}, "n_markers=-1"),
        ({"doublets": 1.0}, "doublets=1.0 must be"),
        ({"mean_count": 0.0}, "mean_count=0.0 must be positive"),
    ],
)
def test_bad_arguments(given, message):
    with pytest.raises(ValueError, match=message):
        simulate_pancreas(**given)


@pytest.mark.parametrize("seed", thorough_params([0], [1, 2, 3, 4]))
def test_rare_types_are_clusters_of_their_own(seed):
    data = simulate_pancreas(random_state=seed)
    depth = np.asarray(data.counts.sum(axis=1)).ravel()
    X = sp.csr_array(sp.diags_array((1e4 / depth).astype(np.float32)) @ data.counts)
    X.data = np.log1p(X.data)
    model = KSparse(14, n_features=100, random_state=seed).fit(X)
    alone = []
    for name in RARE:
        members = data.labels == np.flatnonzero(data.types == name)[0]
        cluster = np.bincount(model.labels_[members]).argmax()
        inside = model.labels_ == cluster
        # A cluster of its own: most of the type, and little else.
        alone.append((inside & members).sum() > max(members.sum(), inside.sum()) / 2)
    assert sum(alone) >= 3
    assert adjusted_rand_score(data.labels, model.labels_) > 0.8
