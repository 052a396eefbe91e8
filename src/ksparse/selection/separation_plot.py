"""A tree of clusters and a heat map of their pairs."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ksparse._plotting import given_axes, need_matplotlib
from ksparse.matrix import Floats

__all__ = ["draw"]

# Clusters up to which p-values are written into the cells.
WRITTEN = 12
LINE, MARK, NOTHING = "#3B4A54", "#D55E00", "#EEF0F2"


def draw(result: Any, axes: Any = None) -> Any:
    """Draw a tree (left) and a heat map (right) of a `Separation`; return both axes."""
    need_matplotlib()
    k = len(result.clusters)
    size = max(3.4, 1.2 + 0.42 * min(k, 40))
    if axes is None:
        from matplotlib import pyplot

        _, axes = pyplot.subplots(
            1, 2, figsize=(1.6 * size + 1.2, size), layout="constrained", width_ratios=(0.45, 1)
        )
    axes = given_axes(axes, 2)
    order = _draw_tree(axes[0], result)
    _draw_pairs(axes[1], result, order)
    return axes


def _distances(result: Any) -> Floats:
    """Return depths of valleys as distances: 0 for the same cluster, and where nothing is known."""
    depth = np.nan_to_num(result.depth, nan=0.0)
    np.fill_diagonal(depth, 0.0)
    return (depth + depth.T) / 2


def _draw_tree(ax: Any, result: Any) -> list[int]:
    """Draw clusters that are joined by the mean depth between them; return them from the top."""
    from scipy.cluster.hierarchy import dendrogram, linkage
    from scipy.spatial.distance import squareform

    names = list(result.clusters)
    tree = linkage(squareform(_distances(result), checks=False), "average")
    with warnings.catch_warnings():  # of limits that are equal, where there is no valley at all
        warnings.simplefilter("ignore", UserWarning)
        drawn = dendrogram(
            tree, ax=ax, orientation="left", labels=names, color_threshold=0,
            above_threshold_color=LINE,
        )  # fmt: skip
    ax.set_xlim(1.02, 0.0)
    ax.set_xlabel("depth of the valley")
    ax.spines[["top", "left", "right"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    return [int(leaf) for leaf in drawn["leaves"][::-1]]


def _draw_pairs(ax: Any, result: Any, order: list[int]) -> None:
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.patches import Rectangle

    k = len(order)
    depth = result.depth[np.ix_(order, order)].copy()
    np.fill_diagonal(depth, np.nan)
    colours = LinearSegmentedColormap.from_list("depth", ["#F4F6F8", "#6BAED6", "#08306B"])
    ax.set_facecolor(NOTHING)  # seen where nothing is known
    image = ax.imshow(np.ma.masked_invalid(depth), vmin=0, vmax=1, cmap=colours)
    for i in range(k):
        for j in range(k):
            if i == j:
                continue
            a, b = order[i], order[j]
            if result.verdicts[a, b] != "separate":
                dashes = ":" if result.verdicts[a, b] == "too few samples" else "-"
                frame: dict[str, Any] = {"edgecolor": MARK, "linestyle": dashes, "linewidth": 1.6}
                ax.add_patch(Rectangle((j - 0.46, i - 0.46), 0.92, 0.92, fill=False, **frame))
            if k <= WRITTEN:
                dark = np.nan_to_num(depth[i, j]) > 0.6
                ax.text(j, i, _short(result.adjusted[a, b]), ha="center", va="center",
                        fontsize=7, color="white" if dark else "black")  # fmt: skip
    names = [result.clusters[c] for c in order]
    ax.set_xticks(range(k), names, rotation=90 if max(map(len, names)) > 3 else 0)
    ax.set_yticks(range(k), names)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    title = "adjusted p-values" if k <= WRITTEN else "pairs of clusters"
    ax.set_title(f"{title}; framed: not separated (dotted: too few to tell)", fontsize=8)
    ax.figure.colorbar(image, ax=ax, shrink=0.6, label="depth of the valley")


def _short(p: float) -> str:
    """Return a p-value in at most five characters."""
    if p < 0.001:
        return "<.001"
    return f"{p:.3f}"[1:] if p < 0.0995 else f"{p:.2f}".lstrip("0") if p < 0.995 else "1"
