"""Quality on real labelled data, where it is present; the full table is a benchmark."""

from __future__ import annotations

import anndata
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import roc_auc_score

from conftest import seeds, thorough_params
from ksparse import KSparse, stability_selection
from ksparse.metrics import summary


def load(folder, name, total=1e4, log=True):
    """Expressed genes, depth-normalised; with their classes and markers (if known)."""
    data = anndata.read_h5ad(folder / f"{name}.h5ad")
    X = sp.csr_array(data.X)
    often = np.asarray((X >= 2).sum(axis=0)).ravel()
    kept = often >= max(5, 0.01 * X.shape[0])
    X = X[:, kept]
    X = sp.csr_array(sp.diags_array(total / np.asarray(X.sum(axis=1)).ravel()) @ X)
    X = X.astype(np.float32)
    if log:
        X.data = np.log1p(X.data)
    markers = data.var["is_marker"].to_numpy()[kept] if "is_marker" in data.var else None
    return X, data.obs["label"].to_numpy(), markers


@pytest.mark.parametrize("seed", seeds(1, 2))
def test_usoskin_with_50_genes(data_folder, seed):
    X, classes, _ = load(data_folder, "usoskin_subset259")
    model = KSparse(4, n_features=50, init="spectral+dense", random_state=seed).fit(X)
    assert model.n_features_selected_ == 50
    assert summary(classes, model.labels_)["accuracy"] >= 0.97
    # The start that finds rare clusters wins here by its held-out margins.
    model = KSparse(4, n_features=50, random_state=seed).fit(X)
    assert summary(classes, model.labels_)["accuracy"] >= 0.945


def test_simulated_cells_with_40_genes(data_folder):
    X, classes, markers = load(data_folder, "scsim1_seed1", total=1e6, log=False)
    model = KSparse(4, n_features=40, random_state=0).fit(X)
    found = summary(classes, model.labels_, selected=model.get_support(), relevant=markers)
    assert found["n_features"] == 40
    assert found["accuracy"] >= 0.98
    assert found["precision"] >= 0.95


@pytest.mark.thorough
def test_the_paper_on_its_own_simulation(data_folder):
    X, classes, markers = load(data_folder, "authors_simu_10000", total=1e6, log=False)
    model = KSparse.paper(4, eta=1000, random_state=0).fit(X)
    found = summary(classes, model.labels_, selected=model.get_support(), relevant=markers)
    assert found["accuracy"] >= 0.985
    assert found["n_features"] <= 250
    assert found["precision"] >= 0.9
    assert (np.diff(model.cost_history_) <= 0).all()


@pytest.mark.thorough
def test_zeisel_with_100_genes(data_folder):
    X, classes, _ = load(data_folder, "zeisel_3005x4000")
    model = KSparse(9, n_features=100, random_state=0).fit(X)
    assert model.n_features_selected_ == 100
    assert summary(classes, model.labels_)["ari"] >= 0.77


@pytest.mark.thorough
def test_every_type_of_30_cells_or_more_is_the_majority_of_a_cluster(data_folder):
    X, classes, _ = load(data_folder, "baron_mouse")
    model = KSparse(13, n_features=100, random_state=0).fit(X)
    names, sizes = np.unique(classes, return_counts=True)
    counts = np.array([[np.sum((classes == name) & (model.labels_ == c)) for name in names]
                       for c in range(13)])  # fmt: skip
    assert set(names[sizes >= 30]) <= set(names[counts.argmax(axis=1)])


def test_doublets_get_two_labels_far_more_often_than_singlets(data_folder):
    X, _, _ = load(data_folder, "scsim1_seed1", total=1e6, log=False)
    doublet = anndata.read_h5ad(data_folder / "scsim1_seed1.h5ad").obs["doublet"].to_numpy()
    doublet = doublet.astype(bool)
    model = KSparse(4, n_features=100, max_labels=2, random_state=0).fit(X)
    assert roc_auc_score(doublet, model.membership_log_odds_) >= 0.9
    several = model.memberships_.sum(axis=1) > 1
    assert several[doublet].mean() >= 0.5
    assert several[~doublet].mean() <= 0.02


@pytest.mark.parametrize("n_subsamples", thorough_params([10], [50]))
@pytest.mark.thorough
def test_stable_features_of_simulated_cells_are_markers(data_folder, n_subsamples):
    X, _, markers = load(data_folder, "scsim1_seed1", total=1e6, log=False)
    found = stability_selection(X, 4, 40, n_subsamples=n_subsamples, random_state=0)
    assert found.selected.sum() >= 20
    assert markers[found.selected].mean() >= 0.98
