"""What all pictures share."""

from __future__ import annotations

from typing import Any

__all__ = ["COLOURS", "given_axes", "new_axes"]

# Okabe and Ito's palette, without black, which marks what is wrong.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")


def new_axes(n: int, *, width: float = 4.6, height: float = 3.6) -> Any:
    """A row of `n` empty axes in a new figure."""
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ImportError(
            "Pictures need matplotlib: install it with  pip install 'ksparse[plot]'"
        ) from None
    _, axes = pyplot.subplots(
        1, n, figsize=(n * width, height), layout="constrained", squeeze=False
    )
    for ax in axes[0]:
        ax.spines[["top", "right"]].set_visible(False)
    return axes[0]


def given_axes(axes: Any, n: int, **size: Any) -> Any:
    """Check axes that a user gave, or make new ones."""
    if axes is None:
        return new_axes(n, **size)
    if len(axes) != n:
        raise ValueError(f"axes has {len(axes)} entries, but this picture has {n} parts: give {n}.")
    return axes
