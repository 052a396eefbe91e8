"""The paper's figures, drawn from the recorded runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ksparse._plotting import COLOURS, cluster_colours, need_matplotlib, saved
from ksparse.compare._run import SWEPT, is_sweep, picture_of
from ksparse.compare._tables import distinct, name_of, usual

__all__ = ["draw_figures"]

MEASURES = (("accuracy", "accuracy"), ("ari", "ARI"), ("nmi", "NMI"))
N_COLUMNS = 4


def draw_figures(
    results: Sequence[dict[str, Any]], runs: Path, folder: Path
) -> dict[tuple[str, str], list[tuple[str, str]]]:
    """Draw all figures into a folder.

    Returns pairs of file name and caption for each (data, preparation). Figures of all data
    have an empty name, those of all preparations an empty preparation.
    """
    need_matplotlib()
    folder.mkdir(parents=True, exist_ok=True)
    out: dict[tuple[str, str], list[tuple[str, str]]] = {}
    if _decay(results, folder / "decay.png"):
        out["", ""] = [("decay.png", "Decay of the Frobenius norm ‖Yμ − XW‖ over the loops of the "
                        "paper's method, relative to the first loop (seed 0).")]  # fmt: skip
    for data in distinct(usual(results), "data"):
        file = f"{_slug(data)}-radius.png"
        if _radius(results, data, folder / file):
            caption = (
                f"{name_of(data)}: the paper's method with other radii (seed 0). Selected genes "
                "against eta; accuracy, ARI and NMI against eta and against the genes."
            )
            out.setdefault((data, ""), []).append((file, caption))
        for preparation in distinct(usual(results, data=data), "preparation"):
            file = f"{_slug(data)}-{preparation}-tsne.png"
            of_seed_0 = usual(results, data=data, preparation=preparation, seed=0)
            if _cells(of_seed_0, runs, folder / file):
                caption = (
                    f"{name_of(data)}, {preparation}: t-SNE of the space in which each method "
                    "found its clusters, in the colours of the classes; misclassified cells are "
                    "black (seed 0)."
                )
                out.setdefault((data, preparation), []).append((file, caption))
    return out


def _slug(data: str) -> str:
    """Return a name that is safe in files and in pages."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", Path(data).stem) or "data"


def _plain(name: str) -> str:
    """Return a name that matplotlib does not take for mathematics."""
    return str(name).replace("$", r"\$")


def _axes(n_rows: int, n_columns: int, width: float, height: float) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(n_columns * width, n_rows * height), layout="constrained")
    axes = figure.subplots(n_rows, n_columns, squeeze=False)
    for ax in axes.flat:
        ax.spines[["top", "right"]].set_visible(False)
    return axes


def _decay(results: Sequence[dict[str, Any]], path: Path) -> bool:
    """Draw the cost over the loops; return whether there is something to draw."""
    runs = [run for run in usual(results, method=SWEPT, seed=0) if run.get("cost")]
    if not runs:
        return False
    preparations = distinct(runs, "preparation")
    names = distinct(runs, "data")
    axes = _axes(1, len(preparations), 3.6, 3.0)[0]
    for ax, preparation in zip(axes, preparations, strict=True):
        for run in runs:
            if run["preparation"] == preparation:
                norm = np.sqrt(np.maximum(run["cost"], 0.0))
                colour = cluster_colours(len(names))[names.index(run["data"])]
                ax.plot(np.arange(1, norm.size + 1), norm / norm[0] if norm[0] > 0 else norm,
                        marker="o", ms=3.5, color=colour,
                        label=_plain(name_of(run["data"])))  # fmt: skip
        ax.set(title=preparation, xlabel="loop", ylim=(0, 1.05))
        ax.xaxis.get_major_locator().set_params(integer=True)
    axes[0].set_ylabel("relative norm")
    axes[-1].legend(frameon=False, fontsize=8)
    saved(axes[0], path)
    return True


def _radius(results: Sequence[dict[str, Any]], data: str, path: Path) -> bool:
    """Draw features and scores against the radius; return whether there is something to draw."""
    done = [run for run in results
            if run["data"] == data and run["method"] == SWEPT and run["seed"] == 0
            and "eta" in run]  # fmt: skip
    if not any(is_sweep(run) for run in done):
        return False
    preparations = distinct(done, "preparation")
    axes = _axes(len(preparations), 3, 3.6, 2.7)
    for row, preparation in zip(axes, preparations, strict=True):
        runs = sorted((r for r in done if r["preparation"] == preparation), key=lambda r: r["eta"])
        eta = [run["eta"] for run in runs]
        genes = [run["n_features"] for run in runs]
        row[0].plot(eta, genes, marker="o", ms=3.5, color=COLOURS[0])
        row[0].set(ylabel=f"{preparation}\ngenes selected", xscale="log", yscale="log")
        for (name, title), colour in zip(MEASURES, COLOURS, strict=False):
            values = [run[name] for run in runs]
            row[1].plot(eta, values, marker="o", ms=3.5, color=colour, label=title)
            order = np.argsort(genes, kind="stable")
            row[2].plot(np.array(genes)[order], np.array(values)[order], marker="o", ms=3.5,
                        color=colour)  # fmt: skip
        row[1].set(xscale="log", ylim=(0, 1.02))
        row[2].set(xscale="log", ylim=(0, 1.02))
        usual_eta = next((run["eta"] for run in runs if not is_sweep(run)), None)
        if usual_eta is not None:
            for ax in row[:2]:
                ax.axvline(usual_eta, color="#999999", lw=0.8, ls="--", zorder=0)
    axes[0, 2].legend(*axes[0, 1].get_legend_handles_labels(), frameon=False, fontsize=8,
                      loc="lower right")  # fmt: skip
    for ax, label in zip(axes[-1], ("eta", "eta", "genes selected"), strict=True):
        ax.set_xlabel(label)
    saved(axes[0, 0], path)
    return True


def _cells(runs: Sequence[dict[str, Any]], folder: Path, path: Path) -> bool:
    """Draw the cells of each method; return whether there is something to draw."""
    drawn = [run for run in runs if "failed" not in run and picture_of(run, folder).exists()]
    if not drawn:
        return False
    n_rows = -(-len(drawn) // N_COLUMNS)
    axes = _axes(n_rows, min(N_COLUMNS, len(drawn)), 2.7, 2.7)
    for ax in axes.flat[len(drawn) :]:
        ax.set_axis_off()
    names: Any = ()
    for ax, run in zip(axes.flat, drawn, strict=False):
        with np.load(picture_of(run, folder), allow_pickle=False) as picture:
            points, classes, right = picture["points"], picture["classes"], picture["right"]
            names = picture["names"]
        colours = np.array(cluster_colours(len(names)))[classes]
        size = float(np.clip(3000 / len(points), 1.0, 12.0))
        ax.scatter(*points[right].T, s=size, c=colours[right], lw=0, rasterized=True)
        ax.scatter(*points[~right].T, s=size * 1.6, c="black", lw=0, rasterized=True)
        ax.set_title(f"{run['method']}: {100 * run['accuracy']:.1f} %", fontsize=10)
        ax.set_axis_off()
    _legend(axes, names)
    saved(axes[0, 0], path)
    return True


def _legend(axes: Any, names: Sequence[str]) -> None:
    from matplotlib.lines import Line2D

    colours = [*cluster_colours(len(names)), "black"]
    labels = [*(_plain(name) for name in names), "misclassified"]
    handles = [Line2D([], [], marker="o", ls="", color=colour, label=label, ms=5)
               for colour, label in zip(colours, labels, strict=True)]  # fmt: skip
    axes[0, 0].figure.legend(handles=handles, loc="outside lower center", frameon=False,
                             ncols=min(len(handles), 2 * axes.shape[1]), fontsize=8)  # fmt: skip
