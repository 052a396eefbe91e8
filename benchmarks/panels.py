"""Gene panels: ours, Wilcoxon markers, variable and random genes, on cells that had no part.

python benchmarks/panels.py [--counts 10 20 50 100] [--splits 1] [--sets ...] [--methods ...]
    [--plain]

Genes are chosen on a stratified half of the cells. With these genes alone, logistic regression
and 5 nearest neighbours are cross-validated on the other half; the figure is the balanced
accuracy (%). Methods that know the classes: "supervised" and "Wilcoxon", one gene of each class
in turn (as scanpy ranks them by default); those that do not: "unsupervised" (clusters of KSparse
with 100 genes, as many as there are classes; "2 k": twice as many), "Leiden + Wilcoxon" and
"Leiden + ours" (clusters of the usual resolution 1), "variable" and "random". All see the same
logarithms; the classifiers see them standardised, or with --plain as they are. Spapros and
scGeneFit are compared where they can be imported.
"""

from __future__ import annotations

import argparse
import importlib.util
import warnings

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict, train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from common import FILES, load
from ksparse import KSparse
from ksparse.panel.rivals import choose_features
from ksparse.panel.selector import PanelSelector

CLASSIFIERS = {
    "logistic": lambda: LogisticRegression(max_iter=2000),
    "5-NN": lambda: KNeighborsClassifier(5),
}


def leiden(X, seed):
    """Clusters as a scanpy user has them: variable genes, PCA, neighbours, Leiden."""
    import scanpy as sc
    import scipy.sparse as sp
    from anndata import AnnData

    adata = AnnData(X=sp.csr_matrix(X))
    sc.pp.highly_variable_genes(adata, n_top_genes=min(2000, X.shape[1]))
    sc.pp.pca(adata, n_comps=min(50, X.shape[0] - 1, X.shape[1] - 1), random_state=seed)
    sc.pp.neighbors(adata, random_state=seed)
    sc.tl.leiden(adata, random_state=seed, flavor="igraph", n_iterations=2, directed=False)
    return adata.obs["leiden"].cat.codes.to_numpy()


def scgenefit(X, classes, n, rng):
    """Genes of scGeneFit's linear program, in its usual form."""
    from scGeneFit.functions import get_markers

    dense = np.asarray(X.todense()) if hasattr(X, "todense") else np.asarray(X)
    found = get_markers(dense, classes, n, method="centers", epsilon=1, redundancy=0.25)
    return np.asarray(found, dtype=int)


def spapros(X, classes, n, rng):
    """Genes of Spapros' probe set selection without probe constraints."""
    import scipy.sparse as sp
    from anndata import AnnData
    from spapros.selection import ProbesetSelector

    adata = AnnData(X=sp.csr_matrix(X))
    adata.obs["class"] = [str(c) for c in classes]
    adata.var_names = [str(j) for j in range(X.shape[1])]
    adata.var["highly_variable"] = True
    selector = ProbesetSelector(adata, n=n, celltype_key="class", verbosity=0)
    selector.select_probeset()
    return np.flatnonzero(selector.probeset["selection"].loc[adata.var_names].to_numpy())


def chosen(method, X, classes, n, rng):
    """Return the genes of a method, best first."""
    codes = np.unique(classes, return_inverse=True)[1]
    k = codes.max() + 1
    if method == "supervised":
        return PanelSelector(n).fit(X, classes).features_
    if method in ("unsupervised", "unsupervised, 2 k"):
        wanted = min(2 * k if method.endswith("2 k") else k, X.shape[0] // 10)
        labels = KSparse(max(wanted, 2), n_features=min(100, X.shape[1]), random_state=0).fit(X)
        return PanelSelector(n).fit(X, labels.labels_).features_
    if method in ("Leiden + Wilcoxon", "Leiden + ours"):
        labels = leiden(X, 0)
        large = np.isin(labels, np.flatnonzero(np.bincount(labels) > 1))
        rule = "wilcoxon" if method.endswith("Wilcoxon") else "ksparse"
        return choose_features(rule, X[large], labels[large], n, rng)
    if method in ("scGeneFit", "Spapros"):
        return {"scGeneFit": scgenefit, "Spapros": spapros}[method](X, classes, n, rng)
    name = {"Wilcoxon": "wilcoxon", "variable": "hvg", "random": "random"}[method]
    return choose_features(name, X, codes, n, rng)


def accuracy(X, classes, genes, classifier, plain=False):
    values = X[:, np.sort(genes)]
    values = values.toarray() if hasattr(values, "toarray") else values
    scaling = "passthrough" if plain else StandardScaler()
    pipeline = make_pipeline(scaling, CLASSIFIERS[classifier]())
    smallest = np.unique(classes, return_counts=True)[1].min()
    folds = StratifiedKFold(max(2, min(5, smallest)), shuffle=True, random_state=0)
    return balanced_accuracy_score(classes, cross_val_predict(pipeline, values, classes, cv=folds))


def halves(classes, seed):
    """Stratified halves; classes of fewer than four cells are left out."""
    names, counts = np.unique(classes, return_counts=True)
    known = np.flatnonzero(np.isin(classes, names[counts >= 4]))
    return train_test_split(known, test_size=0.5, stratify=classes[known], random_state=seed)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--counts", type=int, nargs="+", default=[10, 20, 50, 100])
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--sets", nargs="+", default=list(FILES))
    methods = [
        "supervised", "Wilcoxon", "unsupervised", "unsupervised, 2 k", "Leiden + Wilcoxon",
        "Leiden + ours", "variable", "random",
    ]  # fmt: skip
    methods += [
        n
        for n in ("scGeneFit", "Spapros")
        if importlib.util.find_spec(n.lower() if n == "Spapros" else n)
    ]
    parser.add_argument("--methods", nargs="+", default=methods, choices=methods)
    parser.add_argument("--plain", action="store_true")
    options = parser.parse_args()
    methods = options.methods
    warnings.simplefilter("ignore")
    table = {}
    for name in options.sets:
        X, classes, _, _ = load(name)
        if X.shape[0] < 100:
            continue
        for seed in range(options.splits):
            train, test = halves(classes, seed)
            rng = np.random.RandomState(seed)
            for method in methods:
                genes = chosen(method, X[train], classes[train], max(options.counts), rng)
                for n in options.counts:
                    for classifier in CLASSIFIERS:
                        value = accuracy(
                            X[test], classes[test], genes[:n], classifier, options.plain
                        )
                        table.setdefault((method, n, classifier), {}).setdefault(name, []).append(
                            value
                        )
        cells = "; ".join(
            f"{method} " + " ".join(f"{100 * np.mean(table[method, n, c][name]):.1f}"
                                    for n in options.counts for c in CLASSIFIERS)
            for method in methods
        )  # fmt: skip
        print(f"{name}: {cells}", flush=True)
    print(f"\nMean of {len(next(iter(table.values())))} sets, logistic / 5-NN:\n")
    print("| genes chosen by | " + " | ".join(f"{n} genes" for n in options.counts) + " |")
    print("|---" * (len(options.counts) + 1) + "|")
    for method in methods:
        cells = [
            " / ".join(
                f"{100 * np.mean([np.mean(v) for v in table[method, n, c].values()]):.1f}"
                for c in CLASSIFIERS
            )
            for n in options.counts
        ]
        print(f"| {method} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
