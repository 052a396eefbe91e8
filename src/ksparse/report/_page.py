"""The page: a template, its script, and the data as JSON, which is never read as HTML."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ksparse.io.files import new_file
from ksparse.report._content import report_content
from ksparse.report._panel_content import panel_content

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = ["write_panel_report", "write_report"]


class Page(NamedTuple):
    """What a page has besides its frame: sections, a line beside the name, and scripts."""

    sections: str
    subtitle: str
    scripts: tuple[str, ...]


SHARED = ("base.js", "frame.js", "tables.js", "charts.js")
CLUSTERS = Page(
    "clusters.html", "clusters and the genes that define them",
    (*SHARED, "cells.js", "genes.js", "clusters.js", "main.js"),
)  # fmt: skip
PANEL = Page(
    "panel.html", "a few genes that tell groups of cells apart",
    (*SHARED, "panel.js"),
)  # fmt: skip


def write_report(
    adata: AnnData,
    path: str | Path,
    *,
    key: str = "ksparse",
    labels: str | None = None,
    path_key: str = "ksparse_path",
    tree_key: str = "tree",
    title: str | None = None,
    run: dict[str, Any] | None = None,
) -> Path:
    """Write a report for a browser: cells, genes, clusters, convergence and settings.

    One file that loads nothing from a network. At most 50,000 cells are drawn.

    Parameters
    ----------
    adata : AnnData
        With the results of `ksparse.tl.ksparse`. Coordinates that `ksparse.tl.embed` wrote
        are used.
    path : path
        The file to write.
    key : str, default="ksparse"
        The `key_added` of these results.
    labels : str, optional
        Column of `adata.obs` with true labels.
    path_key : str, default="ksparse_path"
        Where `ksparse.tl.path` wrote its table; without it the report has no such section.
    tree_key : str, default="tree"
        Where `ksparse.tl.tree` wrote its tree; without it the report has no such section.
    title : str, optional
        Title of the page.
    run : dict, optional
        The account that the command line gives of its run: command, input, seconds.

    Returns
    -------
    Path
        The file.

    Examples
    --------
    >>> import tempfile
    >>> import ksparse as ks
    >>> from ksparse.report import write_report
    >>> adata = ks.simulate.simulate_counts(100, 500, 3, random_state=0).to_anndata()
    >>> ks.tl.ksparse(adata, 3, n_features=20, normalize="log1p", random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(adata, folder + "/report.html", labels="label").stat().st_size < 100_000
    True
    """
    content = report_content(adata, key, labels, path_key, title, run, tree_key)
    return _write(path, CLUSTERS, content)


def write_panel_report(
    adata: AnnData,
    path: str | Path,
    *,
    key: str = "panel",
    evaluation_key: str = "panel_evaluation",
    curve_key: str = "panel_curve",
    gates_key: str = "gates",
    half_gates_key: str | None = None,
    title: str | None = None,
    run: dict[str, Any] | None = None,
) -> Path:
    """Write a page about a gene panel: its genes and reasons, groups, curve and gates.

    One file that loads nothing from a network. What is called held out comes from cells that
    had no part in choosing genes: an evaluation is shown only if it was one of cells that were
    held out, and else the recall that `ksparse.tl.panel` wrote.

    Parameters
    ----------
    adata : AnnData
        With the results of `ksparse.tl.panel`.
    path : path
        The file to write.
    key : str, default="panel"
        The `key_added` of the panel.
    evaluation_key : str, default="panel_evaluation"
        Where `ksparse.tl.evaluate_panel` wrote the figures of a panel that was chosen in the
        same way without the cells that are evaluated.
    curve_key : str, default="panel_curve"
        Where `ksparse.tl.panel_curve` wrote its table; without it there is no such section.
    gates_key : str, default="gates"
        Where `ksparse.tl.gates` wrote gates with genes of the panel; without it there is no such
        section.
    half_gates_key : str, optional
        Where it wrote gates that were found without the cells on which they are scored, with
        genes that were chosen without them, too.
    title : str, optional
        Title of the page.
    run : dict, optional
        The account that the command line gives of its run: command, input, seconds.

    Returns
    -------
    Path
        The file.

    Examples
    --------
    >>> import tempfile
    >>> import ksparse as ks
    >>> from ksparse.report import write_panel_report
    >>> adata = ks.simulate.simulate_counts(100, 500, 3, random_state=0).to_anndata()
    >>> ks.tl.panel(adata, 10, groupby="label", normalize="log1p", random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_panel_report(adata, folder + "/panel.html").stat().st_size < 100_000
    True
    """
    content = panel_content(
        adata, key, evaluation_key, curve_key, gates_key, half_gates_key, title, run
    )
    return _write(path, PANEL, content)


def _write(path: str | Path, page: Page, content: dict[str, Any]) -> Path:
    text, path = render_page(content, page), Path(path)
    with new_file(path) as temporary:
        # Its title may be the name of a file, whose bytes need not be UTF-8.
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")
    return path


def render_page(content: dict[str, Any], page: Page = CLUSTERS) -> str:
    """Return the page. Only its own script may run: its hash is in the page's policy."""
    folder = files("ksparse.report")
    parts = [(folder / name).read_text(encoding="utf-8") for name in page.scripts]
    script = '"use strict";\n(() => {\n' + "\n".join(parts) + "\n})();\n"
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    values = {
        "title": html.escape(content["title"]),
        "subtitle": page.subtitle,
        "main": (folder / page.sections).read_text(encoding="utf-8"),
        "style": (folder / "style.css").read_text(encoding="utf-8"),
        "script": script,
        "script_hash": f"sha256-{digest}",
        "data": as_json(content),
    }
    template = (folder / "page.html").read_text(encoding="utf-8")
    # In one pass: what is in the data is not replaced again.
    return re.sub(r"\{\{(\w+)\}\}", lambda match: values[match[1]], template)


def as_json(content: Any) -> str:
    """Return JSON without characters that could end a script element."""
    text = json.dumps(content, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
