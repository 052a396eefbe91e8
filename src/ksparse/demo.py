"""The demo: simulate, fit, say what was found, write it down."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.manifold import TSNE

from ksparse.estimator import KSparse
from ksparse.files import new_file, write_csv
from ksparse.metrics import summary
from ksparse.plotting import COLOURS
from ksparse.simulate import SimulatedCounts, log_normalise, simulate_counts

__all__ = ["run_demo"]


def run_demo(folder: Path, seed: int = 0) -> str:
    """Run the demo, write its files into `folder`, and return a summary as text."""
    data = simulate_counts(random_state=seed)
    X = log_normalise(data.counts)
    model = KSparse(n_clusters=4, n_features=40, random_state=seed).fit(X)
    scores = summary(
        data.labels, model.labels_, selected=model.get_support(), relevant=data.markers
    )
    folder.mkdir(parents=True, exist_ok=True)
    order = np.argsort(-model.feature_importances_, kind="stable")[: model.n_features_selected_]
    write_csv(
        folder / "clusters.csv",
        ("sample", "cluster", "true_cluster"),
        zip(range(data.labels.size), model.labels_, data.labels, strict=True),
    )
    write_csv(
        folder / "features.csv",
        ("rank", "feature", "weight", "is_marker"),
        (
            (rank, f"feature_{j}", f"{model.feature_importances_[j]:.6g}", int(data.markers[j]))
            for rank, j in enumerate(order, start=1)
        ),
    )
    _draw(folder / "demo.png", X, data, model, scores)
    sizes = ", ".join(str(size) for size in np.bincount(model.labels_))
    m, d = X.shape
    return "\n".join(
        [
            f"Simulated {m} samples x {d} features, {data.labels.max() + 1} clusters, "
            f"{data.markers.sum()} markers.",
            f"Found clusters of {sizes} samples with {model.n_features_selected_} features "
            f"(certified gap {model.gap_:.0e}).",
            f"Against the truth: accuracy {scores['accuracy']:.1%}, ARI {scores['ari']:.3f}, "
            f"NMI {scores['nmi']:.3f}; {scores['precision']:.0%} of the features are markers.",
            f"Wrote clusters.csv, features.csv and demo.png to {folder}/",
        ]
    )


def _matched(truth: NDArray[Any], found: NDArray[Any]) -> NDArray[np.bool_]:
    """Which samples are in the cluster that most of their class are in."""
    home = {label: np.bincount(found[truth == label]).argmax() for label in np.unique(truth)}
    return np.array([home[t] == f for t, f in zip(truth, found, strict=True)])


def _draw(
    path: Path, X: Any, data: SimulatedCounts, model: KSparse, scores: dict[str, float]
) -> None:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError(
            "The picture needs matplotlib: install it with  pip install 'ksparse[plot]'"
        ) from None
    P = model.project(X)
    points = TSNE(random_state=0, perplexity=30, init="pca").fit_transform(P)
    right = _matched(data.labels, model.labels_)

    figure = Figure(figsize=(10, 4.2), layout="constrained")
    left, bars = figure.subplots(1, 2, width_ratios=(1, 1.15))
    for cluster in range(model.n_clusters):
        here = (model.labels_ == cluster) & right
        left.scatter(
            *points[here].T, s=9, color=COLOURS[cluster % len(COLOURS)], linewidths=0,
            label=f"cluster {cluster} ({(model.labels_ == cluster).sum()})",
        )  # fmt: skip
    if not right.all():
        left.scatter(*points[~right].T, s=14, color="black", label=f"misplaced ({(~right).sum()})")
    left.set(xticks=[], yticks=[], xlabel="t-SNE of the projection")
    left.set_title(f"{X.shape[0]} samples, accuracy {scores['accuracy']:.1%}")
    left.legend(frameon=False, fontsize=8, loc="best", markerscale=1.6)

    order = np.argsort(-model.feature_importances_, kind="stable")[: model.n_features_selected_]
    marker = data.markers[order]
    height = model.feature_importances_[order]
    rank = np.arange(1, order.size + 1)
    for mask, colour, name in (
        (marker, COLOURS[0], "marker"),
        (~marker, "#999999", "not a marker"),
    ):
        if mask.any():
            bars.bar(rank[mask], height[mask], color=colour, label=f"{name} ({mask.sum()})")
    bars.set(xlabel="rank", ylabel="weight (row norm of W)")
    bars.set_title(f"{order.size} of {X.shape[1]} features selected")
    bars.spines[["top", "right"]].set_visible(False)
    bars.legend(frameon=False, fontsize=8)
    with new_file(path) as temporary:
        figure.savefig(temporary, dpi=150)
