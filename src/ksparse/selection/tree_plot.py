"""A tree of clusters from left to right, with features on its branches."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

from ksparse._errors import InputError
from ksparse._plotting import cluster_colours, need_matplotlib
from ksparse.selection.tree_nodes import FEW, NOT_SEPARATED, TreeNodes, short_p

__all__ = ["Branch", "Layout", "draw", "lay_out"]

# Features on a branch, and letters of each; where the tree would be wider than this, fewer.
SHOWN, LETTERS, WIDEST = 3, 18, 230
# In letters: the height of a row, the least length of a branch, and space at its ends.
ROW, SHORTEST, SPACE = 6.0, 13.0, 4.0
FONT, LETTER = 7.0, 0.0635  # points, and inches for each letter
LINE, SOFT = "#3B4A54", "#6B7680"


class Branch(NamedTuple):
    """A node with the branch that leads to it, in units of the width of a letter.

    Attributes
    ----------
    node, parent : int
        Numbers of the node and of its parent; -1 for that of the root.
    left, right, y : float
        Where the branch begins and ends, and its height.
    above : bool
        Whether it is the upper one of two siblings.
    text : str
        The features that are higher than in its sibling.
    dashed : bool
        Whether the split that it comes from is not supported.
    cluster : int
        The cluster that it leads to; -1 if that is split.
    note : str
        The p-value of its split, or why it is not split.
    size : int
        Samples.
    """

    node: int
    parent: int
    left: float
    right: float
    y: float
    above: bool
    text: str
    dashed: bool
    cluster: int
    note: str
    size: int


class Layout(NamedTuple):
    """All branches, and the size of the picture, in units of the width of a letter."""

    branches: list[Branch]
    width: float
    height: float
    names: list[str]


def lay_out(
    nodes: TreeNodes, n_clusters: int | None = None, names: Sequence[str] | None = None
) -> Layout:
    """Return where to draw the nodes of a cut (by default of the supported clusters)."""
    ends = nodes.cut(nodes.n_clusters if n_clusters is None else n_clusters)
    names = [_short(name) for name in (names or map(str, range(len(ends))))]
    cluster = {node: number for number, node in enumerate(ends)}
    y = _heights(nodes, ends)
    for most in range(SHOWN, 0, -1):
        text = {node: _listed(nodes.up[node], most) for node in y}
        right = _columns(nodes, text)
        widths = [right[node] + _label_width(nodes, node, names[cluster[node]]) for node in ends]
        if max(widths) <= WIDEST:
            break
    branches = []
    for node in sorted(y):
        parent = int(nodes.parent[node])
        note = nodes.why[node] if node in cluster else ""
        branches.append(Branch(
            node, parent, right[parent] if node else 0.0, right[node], y[node],
            node == 0 or y[node] < y[parent], text[node],
            node > 0 and not nodes.supported[parent], cluster.get(node, -1),
            _note(nodes, node, note), int(nodes.size[node]),
        ))  # fmt: skip
    return Layout(branches, max(widths), ROW * len(ends), names)


def _heights(nodes: TreeNodes, ends: list[int]) -> dict[int, float]:
    """Return the height of every node that is drawn: parents are between their children."""
    y: dict[int, float] = {}
    stop, row = set(ends), 0.5

    def place(node: int) -> float:
        nonlocal row
        if node in stop:
            y[node], row = ROW * row, row + 1
        else:
            parts = sorted(nodes.children(node), key=lambda child: (-nodes.size[child], child))
            y[node] = sum(place(child) for child in parts) / 2
        return y[node]

    place(0)
    return y


def _columns(nodes: TreeNodes, text: dict[int, str]) -> dict[int, float]:
    """Return where the branches of all nodes end; those of one depth end at one place."""
    length: dict[int, float] = {0: 0.0}
    for node in text:
        depth = int(nodes.depth[node])
        if depth:
            width = max(SHORTEST, _width(text[node]) + SPACE)
            length[depth] = max(length.get(depth, 0.0), width)
    first = len(f"{nodes.size[0]:,}") + SPACE
    ends = {}
    for node in text:
        ends[node] = first + sum(length[d] for d in range(1, int(nodes.depth[node]) + 1))
    return ends


def _note(nodes: TreeNodes, node: int, why: str) -> str:
    """Return the p-value of a node that is split, or why it is not."""
    p = short_p(float(nodes.p_separation[node]))
    return p if why in ("", NOT_SEPARATED) else "too few" if why == FEW else why


def _label_width(nodes: TreeNodes, node: int, name: str) -> float:
    note = _note(nodes, node, nodes.why[node])
    return 1.15 * _width(name) + _width(f"{nodes.size[node]:,}") + _width(note) + 2.5 * SPACE


def _width(text: str) -> float:
    """Return about how wide a text is: capitals are wider than other letters."""
    wide, narrow = "MWmw…@", " ,.:;|'ijl"
    return sum(1.45 if c in wide else 0.6 if c in narrow else 1.12 if c.isupper() else 1.0
               for c in text)  # fmt: skip


def _short(name: str) -> str:
    """Return a name, its middle left out if it is long."""
    if len(name) <= LETTERS:
        return name
    half = (LETTERS - 1) // 2
    return f"{name[: LETTERS - 1 - half]}…{name[-half:]}"


def _listed(names: Sequence[str], most: int) -> str:
    return ", ".join(_short(name) for name in names[:most])


def draw(
    nodes: TreeNodes,
    axes: Any = None,
    *,
    n_clusters: int | None = None,
    names: Sequence[str] | None = None,
) -> Any:
    """Draw a cut of a tree (by default the supported clusters); return the Axes."""
    need_matplotlib()
    layout = lay_out(nodes, n_clusters, names)
    if axes is None:
        from matplotlib import pyplot

        width = max(layout.width * LETTER, 3.2)
        size = (width + 0.2, layout.height * LETTER + 0.75)
        _, axes = pyplot.subplots(figsize=size, layout="constrained")
    elif not hasattr(axes, "text"):
        raise InputError(f"axes must be matplotlib Axes, got {type(axes).__name__}.")
    width = max(layout.width, 3.2 / LETTER)
    colours = cluster_colours(len(layout.names))
    y = {branch.node: branch.y for branch in layout.branches}
    for branch in layout.branches:
        _draw_branch(axes, branch, layout, colours, y)
    axes.set(xlim=(0, width), ylim=(layout.height, 0))
    axes.axis("off")
    title = textwrap.fill(nodes.sentence, max(int(width * 0.92), 30))
    axes.set_title(title, fontsize=8, loc="left")
    return axes


def _draw_branch(
    ax: Any, branch: Branch, layout: Layout, colours: list[str], y: dict[int, float]
) -> None:
    total = layout.branches[0].size
    style = {
        "color": SOFT if branch.dashed else LINE,
        "linestyle": (0, (3, 2)) if branch.dashed else "-",
        "linewidth": 0.8 + 2.4 * (branch.size / total) ** 0.5,
        "solid_capstyle": "butt",
    }
    words: dict[str, Any] = {"fontsize": FONT, "va": "center"}
    if branch.parent >= 0:
        # The line from the parent has the width of the child, and the corner is closed.
        ax.plot([branch.left, branch.left, branch.right], [y[branch.parent], branch.y, branch.y],
                solid_joinstyle="miter", **style)  # fmt: skip
        shift = -1.1 if branch.above else 1.2
        ax.text(branch.left + 1.0, branch.y + shift, branch.text, **words, style="italic")
    else:
        ax.plot([max(branch.right - SPACE, 0), branch.right], [branch.y, branch.y], **style)
        if branch.cluster < 0:
            ax.text(max(branch.right - SPACE - 0.5, 0), branch.y, f"{branch.size:,}", **words,
                    ha="right", color=SOFT)  # fmt: skip
    if branch.cluster < 0:
        ax.text(branch.right + 1.2, branch.y, branch.note, **words | {"fontsize": FONT - 0.5},
                color=SOFT)  # fmt: skip
        return
    ax.plot(branch.right, branch.y, "o", color=colours[branch.cluster], markersize=7,
            markeredgecolor="white", markeredgewidth=0.8, zorder=3)  # fmt: skip
    name = layout.names[branch.cluster]
    ax.text(branch.right + 2.2, branch.y, name, **words, fontweight="bold")
    label = f"{branch.size:,}   {branch.note}"
    ax.text(branch.right + 3.4 + 1.15 * _width(name), branch.y, label, **words, color=SOFT)
