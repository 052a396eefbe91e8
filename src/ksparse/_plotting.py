"""Colours, axes and files of all plots."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ksparse._errors import InputError, Term
from ksparse.io.files import new_file

__all__ = [
    "COLOURS",
    "check_picture",
    "cluster_colours",
    "expression_colours",
    "given_axes",
    "need_matplotlib",
    "new_axes",
    "one_axes",
    "saved",
]

# Okabe and Ito's palette, without black, which marks misplaced cells.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
# For more clusters: Tol's muted palette, as far as it differs from the above.
MORE_COLOURS = ("#332288", "#882255", "#999933", "#AA4499", "#117733", "#88CCEE", "#CC6677",
                "#DDCC77", "#661100", "#44AA99", "#6699CC", "#777777")  # fmt: skip


def cluster_colours(n: int) -> list[str]:
    """Return colours of `n` clusters, readable for the colour-blind as far as there are enough.

    From the 20th cluster on they repeat, lighter: plots name clusters as well.
    """
    base = COLOURS + MORE_COLOURS
    return [_lighter(base[i % len(base)], i // len(base)) for i in range(n)]


def _lighter(colour: str, steps: int) -> str:
    parts = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    share = 1 - 0.6 ** min(steps, 3)
    return "#" + "".join(f"{round(part + (255 - part) * share):02X}" for part in parts)


def expression_colours() -> Any:
    """Return a colour map from grey (zero) to dark blue."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("expression", ["#DDE1E5", "#6BAED6", "#08306B"])


def need_matplotlib() -> None:
    """Raise ImportError with the package to install if matplotlib is missing."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise ImportError(
            "Pictures need matplotlib: install it with  pip install 'ksparse[plot]'"
        ) from None


def new_axes(n: int, *, width: float = 4.6, height: float = 3.6) -> Any:
    """Return a row of `n` empty axes in a new figure."""
    need_matplotlib()
    from matplotlib import pyplot

    _, axes = pyplot.subplots(
        1, n, figsize=(n * width, height), layout="constrained", squeeze=False
    )
    for ax in axes[0]:
        ax.spines[["top", "right"]].set_visible(False)
    return axes[0]


def check_picture(save: str | Path | None) -> None:
    """Raise InputError if a file to write is no picture."""
    need_matplotlib()
    from matplotlib.backend_bases import FigureCanvasBase

    kinds = FigureCanvasBase.get_supported_filetypes()
    if save is not None and Path(save).suffix.lstrip(".").lower() not in kinds:
        raise InputError(
            Term("save", str(save)), f" must end with one of .{', .'.join(sorted(kinds))}."
        )


def one_axes(
    ax: Any, save: str | Path | None = None, *, width: float = 5.2, height: float = 4.2
) -> Any:
    """Return the axes that a user gave, or new ones; raise ValueError if `save` is no picture."""
    check_picture(save)
    if ax is None:
        return new_axes(1, width=width, height=height)[0]
    if not hasattr(ax, "scatter"):
        raise InputError(f"ax must be matplotlib Axes, got {type(ax).__name__}.")
    return ax


def saved(ax: Any, save: str | Path | None) -> Any:
    """Write the figure of some axes to a file, if one is given, and return the axes."""
    if save is not None:
        with new_file(Path(save)) as temporary:
            ax.figure.savefig(temporary, dpi=150, bbox_inches="tight")
    return ax


def given_axes(axes: Any, n: int, **size: Any) -> Any:
    """Return the axes that a user gave, or new ones; raise ValueError if they are not `n`."""
    if axes is None:
        return new_axes(n, **size)
    if len(axes) != n:
        raise InputError(f"axes has {len(axes)} entries, but this picture has {n} parts: give {n}.")
    return axes
