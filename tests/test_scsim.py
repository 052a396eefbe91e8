"""The simulator of single cells: its statistics, its truth, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from conftest import thorough_params
from ksparse import KSparse
from ksparse._errors import InputError
from ksparse.metrics import summary
from ksparse.simulate import scsim

# Of the published simulator's own output with the same settings (seed 1): share of zeros,
# mean and variance of counts, mean and standard deviation of totals per cell, quantiles
# (5, 25, 50, 75, 95 %) of the share of zeros per gene, mean and standard deviation of
# |log2 fold change| of DE, DM and DP genes.
REFERENCE = {
    "paper1": (0.501, 1.979, 8.748, 9894, 2785, (0.088, 0.290, 0.503, 0.712, 0.908), 1.217, 0.423),
    "paper2": (0.501, 1.983, 8.999, 19834, 5579, (0.088, 0.297, 0.503, 0.708, 0.907), 1.217, 0.423),
}


def statistics(counts, folds):
    total = counts.sum(axis=1)
    sizes = np.abs(folds[folds != 0])
    zeros = np.quantile((counts == 0).mean(axis=0), (0.05, 0.25, 0.5, 0.75, 0.95))
    return ((counts == 0).mean(), counts.mean(), counts.var(), total.mean(), total.std(),
            zeros, sizes.mean(), sizes.std())  # fmt: skip


def compare(found, wanted):
    zeros, mean, variance, total, spread, quantiles, fold, fold_spread = found
    assert zeros == pytest.approx(wanted[0], abs=0.01)
    assert mean == pytest.approx(wanted[1], rel=0.04)
    assert variance == pytest.approx(wanted[2], rel=0.1)
    assert total == pytest.approx(wanted[3], rel=0.04)
    assert spread == pytest.approx(wanted[4], rel=0.1)
    np.testing.assert_allclose(quantiles, wanted[5], atol=0.02)
    assert fold == pytest.approx(wanted[6], abs=0.06)
    assert fold_spread == pytest.approx(wanted[7], abs=0.06)


@pytest.mark.parametrize("preset", thorough_params(["paper1"], ["paper2"]))
def test_statistics_are_those_of_the_published_simulator(preset):
    found = []
    for seed in range(4):  # their mean: the depth of 600 cells is not the same twice
        data = scsim(preset=preset, random_state=seed)
        plain = data.markers & (data.gene_types != "DC")
        found.append(statistics(data.counts.toarray(), data.log2_fold_changes[plain]))
    compare([np.mean(values, axis=0) for values in zip(*found, strict=True)], REFERENCE[preset])
    factor = 1 if preset == "paper1" else 2
    types, counts = np.unique(data.gene_types[data.markers], return_counts=True)
    assert dict(zip(types.tolist(), counts.tolist(), strict=True)) == {
        "DC": 130 * factor,
        "DE": 205 * factor,
        "DM": 185 * factor,
        "DP": 130 * factor,
    }
    assert np.bincount(data.labels).tolist() == [180, 120, 60, 240]
    assert data.doublets.sum() == 12


@pytest.mark.parametrize("number", [1, 2])
def test_the_reference_is_that_of_the_file(data_folder, number):
    anndata = pytest.importorskip("anndata")
    adata = anndata.read_h5ad(data_folder / f"scsim{number}_seed1.h5ad")
    plain = (adata.var["is_marker"] & (adata.var["type"] != "DC")).to_numpy()
    folds = np.column_stack([adata.var[f"log2fc_pop{k}"] for k in range(1, 5)])[plain]
    compare(statistics(adata.X.toarray(), folds), REFERENCE[f"paper{number}"])


def test_a_seed_gives_the_same_cells_and_another_gives_others():
    one, same, other = (scsim(200, 300, random_state=seed) for seed in (0, 0, 1))
    assert abs(one.counts - same.counts).sum() == 0
    assert (one.doublets == same.doublets).all()
    assert abs(one.counts - other.counts).sum() > 0
    assert (one.doublets != other.doublets).any()  # doublets are of the seed, too


def log_means(data, cells):
    counts = data.counts.toarray()[cells]
    return np.log2(counts.mean(axis=0) + 0.1)


def test_each_type_of_gene_is_shown_by_the_cells_it_should():
    data = scsim(4000, 1000, dropout=0, doublets=0, strength="high", random_state=0)
    labels, folds = data.labels, data.log2_fold_changes
    rest = log_means(data, labels == 3)
    for p in (0, 1):
        own = data.gene_populations == p
        shift = log_means(data, labels == p) - rest
        for kind, share in (("DE", 1.0), ("DM", 0.75), ("DP", 0.766)):
            raised = own & (data.gene_types == kind) & (folds[:, p] > 0.8)
            assert raised.sum() > 3
            expected = np.log2(1 + share * (2 ** folds[raised, p] - 1))
            assert shift[raised].mean() == pytest.approx(expected.mean(), abs=0.2)
        # A quarter of the next population shows DP genes too.
        partner = own & (data.gene_types == "DP") & (folds[:, p] > 0.8)
        theirs = (log_means(data, labels == p + 1) - rest)[partner]
        assert theirs.mean() == pytest.approx(
            np.log2(1 + 0.25 * (2 ** folds[partner, p] - 1)).mean(), abs=0.2
        )


def test_genes_of_a_trajectory_rise_or_fall_along_it():
    data = scsim(100, 2000, random_state=0)
    along = data.log2_fold_changes[data.gene_types == "DC"]
    steps = np.diff(along, axis=1)
    rising = (steps >= 0).all(axis=1)
    assert (rising | (steps <= 0).all(axis=1)).all()
    assert 0.4 < rising.mean() < 0.6
    assert (along[:, 2] == 0).all()


def test_branches_switch_genes_off_elsewhere():
    data = scsim(300, 1000, n_clusters=3, trajectories=[(0, 1), (0, 2)], random_state=0)
    own = data.log2_fold_changes[(data.gene_types == "DC") & (data.gene_populations == 1)]
    assert (own[:, 2] == -10).all()


def test_doublets_are_the_mean_of_their_donors():
    data = scsim(400, 800, dropout=0, random_state=0)
    assert data.doublets.sum() == 8
    counts = data.counts.toarray()
    for cell, donors in zip(np.flatnonzero(data.doublets), data.donors, strict=True):
        assert len(donors) in (2, 3)
        assert not data.doublets[donors].any()
        mean = counts[donors].mean(axis=0)
        assert counts[cell].sum() == pytest.approx(mean.sum(), rel=0.1)


def test_batches_have_depths_of_their_own():
    data = scsim(600, 500, batches=(50, 30, 20), random_state=1)
    total = np.asarray(data.counts.sum(axis=1)).ravel()
    means = [total[data.batches == b].mean() for b in range(3)]
    assert max(means) > 1.5 * min(means)
    assert np.bincount(data.batches).tolist() == [300, 180, 120]


@pytest.mark.parametrize("k", [1, 2, 5, 9])
def test_any_number_of_clusters(k):
    data = scsim(200, 400, n_clusters=k, random_state=0)
    assert np.bincount(data.labels, minlength=k).min() > 0
    assert data.log2_fold_changes.shape == (400, k)


@pytest.mark.parametrize("dropout", [0.0, 30.0, 70.0])
def test_dropout_reaches_its_share_of_zeros(dropout):
    data = scsim(300, 1000, dropout=dropout, random_state=0)
    zeros = 100 * (data.counts.toarray() == 0).mean()
    assert zeros == pytest.approx(max(dropout, 20), abs=4)


def test_ksparse_finds_its_clusters_and_markers():
    data = scsim(preset="paper1", random_state=2)
    depth = np.asarray(data.counts.sum(axis=1))
    X = data.counts.multiply(1e6 / depth[:, None]).tocsr()
    model = KSparse(4, n_features=40, random_state=0).fit(X)
    scores = summary(
        data.labels, model.labels_, selected=model.get_support(), relevant=data.markers
    )
    assert scores["accuracy"] > 0.96
    assert scores["precision"] > 0.95


def test_the_truth_is_in_the_anndata_object():
    pytest.importorskip("anndata")
    data = scsim(100, 300, random_state=0)
    adata = data.to_anndata()
    assert adata.obs["doublet"].tolist() == data.doublets.tolist()
    assert adata.var["type"].tolist() == data.gene_types.tolist()
    np.testing.assert_array_equal(adata.var["log2fc_2"], data.log2_fold_changes[:, 2])


@pytest.mark.parametrize(
    ("first", "preset"), [("paper1", "paper1"), ("paper2", "paper2"), ("paper", "paper1")]
)
def test_a_preset_in_the_place_of_the_cells_is_told_from_their_number(first, preset):
    part = f"n_cells='{first}' must be a number of cells: give a preset as preset='{preset}'"
    with pytest.raises(InputError, match=part):
        scsim(first)
    with pytest.raises(InputError, match=part):
        scsim(first, preset="paper1")


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"preset": "paper3"}, "preset='paper3' is unknown; choose from paper1, paper2"),
        ({"n_cells": 3}, "n_cells=3 should be >= n_clusters=4"),
        ({"n_cells": 3.5}, "n_cells=3.5 must be an integer"),
        ({"n_clusters": 0}, "n_clusters=0 must be at least 1"),
        ({"sizes": (50, 50)}, "sizes has 2 entries, but n_clusters=4"),
        ({"sizes": (50, 50, 50, 50)}, "sizes must be positive percentages that sum to 100"),
        ({"marker_shares": (40, 40, 40, 40)}, "marker_shares sum to 160"),
        ({"de_shares": (50, 50, 50, 50)}, "must sum to 100 each"),
        ({"up_shares": (50, 50, 50, 150)}, "up_shares must be percentages"),
        ({"trajectories": [(0, 9)]}, "different populations from 0 to 3"),
        ({"trajectories": [(0, 0)]}, "different populations"),
        ({"strength": "huge"}, "strength='huge' is unknown"),
        ({"dropout": 100}, "dropout=100 must be a percentage"),
        ({"doublets": -1}, "doublets=-1 must be a percentage"),
        ({"batches": (50,)}, "batches must be positive percentages"),
        ({"n_genes": 0}, "n_genes=0 must be at least 1"),
    ],
)
def test_impossible_cells_are_refused(options, part):
    with pytest.raises((ValueError, TypeError), match=part) as caught:
        scsim(**options)
    assert "\n" not in str(caught.value)
