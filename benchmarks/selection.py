"""What answering "how many?" costs in units of one fit, and how good the answers are.

python benchmarks/selection.py
"""

from __future__ import annotations

import anndata
import numpy as np
from sklearn.metrics import roc_auc_score

from common import FILES, folder, load, timed
from ksparse import KSparse, feature_path, stability_selection
from ksparse.metrics import adjusted_rand_score


def cost_of_the_path():
    print(
        "| data | time of a path of 20 points / one fit (100 genes) | best | auto | ARI at best |"
    )
    print("|---|---|---|---|---|")
    for name in ("zeisel", "usoskin", "klein", "pollen", "baron mouse"):
        X, classes, k, _ = load(name)
        ratios = []
        for seed in range(3):
            one = timed(lambda X=X, k=k, s=seed: KSparse(k, n_features=100, random_state=s).fit(X))
            path = timed(lambda X=X, k=k, s=seed: feature_path(X, k, random_state=s))
            ratios.append(path[1] / one[1])
        best = path[0].best()
        at = int(np.flatnonzero(path[0].columns["n_features"] == best)[0])
        auto = KSparse(k, random_state=2).fit(X).n_features_selected_
        ari = adjusted_rand_score(classes, path[0].labels[at])
        print(f"| {name} | {np.median(ratios):.1f} | {best} | {auto} | {ari:.3f} |", flush=True)


def doublets_and_markers():
    X, _, k, markers = load("scsim1", True)
    doublet = anndata.read_h5ad(folder() / f"{FILES['scsim1']}.h5ad").obs["doublet"].astype(bool)
    print("\n| scsim1, CPM: features | AUC of doublets | doublets with 2 labels | singlets |")
    print("|---|---|---|---|")
    for n in (40, 100, 200):
        model = KSparse(k, n_features=n, max_labels=2, random_state=0).fit(X)
        auc = roc_auc_score(doublet, model.membership_log_odds_)
        several = model.memberships_.sum(axis=1) > 1
        print(
            f"| {n} | {auc:.3f} | {several[doublet].mean():.0%} | {several[~doublet].mean():.1%} |"
        )
    print("\n| scsim1, CPM: features per half | stable | of these markers | expected false |")
    print("|---|---|---|---|")
    for n in (40, 100):
        found = stability_selection(X, k, n, random_state=0)
        print(f"| {n} | {found.selected.sum()} | {markers[found.selected].mean():.1%} "
              f"| {found.expected_false['general']:.2g} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    small, _, _, _ = load("klein")
    feature_path(small[:200], 3, n_features=[5, 10], random_state=0)  # compilation
    cost_of_the_path()
    doublets_and_markers()
