"""The summary of a comparison as Markdown and as one HTML file."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ksparse.compare._figures import draw_figures
from ksparse.compare._tables import IN_PAPER, Section, distinct, sections, usual
from ksparse.io.files import new_file

__all__ = ["markdown", "write_summary"]

TITLE = "Comparison of clustering methods"
PACKAGES = ("ksparse", "numpy", "scipy", "scikit-learn", "scanpy", "igraph", "pynndescent")
STYLE = """
:root { color-scheme: light dark; --ink: #1c2126; --soft: #5a646e; --line: #d9dee3;
  --paper: #fff; --wash: #f4f6f8; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8ecef; --soft: #a3adb6; --line: #343c44;
  --paper: #14181c; --wash: #232a31; } }
html { background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, Arial, sans-serif; }
body { margin: 0 auto; max-width: 1120px; padding: 0 16px 48px; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.25rem; margin: 2.4rem 0 .5rem; }
h3 { font-size: 1rem; margin: 1.6rem 0 .4rem; }
p, li { max-width: 80ch; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: 8px; }
table { border-collapse: collapse; font-size: .86rem; font-variant-numeric: tabular-nums;
  width: 100%; }
th, td { padding: 4px 10px; text-align: right; white-space: nowrap;
  border-bottom: 1px solid var(--line); }
tr:last-child td { border-bottom: 0; }
th { background: var(--wash); }
th:first-child, td:first-child { text-align: left; }
tr.paper td { color: var(--soft); border-bottom: 2px solid var(--line); }
tr.paper td:first-child { padding-left: 22px; font-style: italic; }
figure { margin: 16px 0; } figcaption { color: var(--soft); font-size: .88rem; max-width: 90ch; }
img { max-width: 100%; height: auto; background: #fff; border: 1px solid var(--line);
  border-radius: 8px; padding: 6px; box-sizing: border-box; }
"""


def write_summary(
    results: Sequence[dict[str, Any]],
    runs: Path,
    folder: Path,
    *,
    command: str = "",
    figures: bool = True,
) -> str:
    """Write summary.md, summary.html and figures/*.png; return the tables as Markdown.

    Parameters
    ----------
    results : sequence of dict
        What `compare` returned.
    runs : Path
        The folder in which it recorded the runs.
    folder : Path
        The folder to write to.
    command : str
        The command line of the comparison, for the introduction.
    figures : bool
        Whether to draw figures; needs matplotlib.
    """
    parts = sections(results)
    plain = "\n".join(_as_markdown(part) for part in parts)
    intro = _introduction(command)
    if figures:
        _place(parts, draw_figures(results, runs, folder / "figures"), results)
    with new_file(folder / "summary.md") as temporary:
        _write(temporary, markdown(parts, intro))
    with new_file(folder / "summary.html") as temporary:
        _write(temporary, _page(parts, intro, folder / "figures"))
    return plain


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", errors="backslashreplace")  # names may be any bytes


def _introduction(command: str) -> list[str]:
    known = []
    for package in PACKAGES:
        try:
            known.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    lines = [f"Made by `{command}`."] if command else []
    lines.append(
        "Every run is done in a new process; all methods get the same data, prepared in the same "
        "way: raw (counts as they are), cpm (counts per million) or log1p (log(1 + counts per "
        "10,000)). Time and memory are those of fitting on this machine, without loading and "
        "compiling. Rows 'in the paper' repeat its figures, from its data and machine."
    )
    lines.append(f"With {', '.join(known)}.")
    return lines


def _place(
    parts: list[Section],
    drawn: dict[tuple[str, str], list[tuple[str, str]]],
    results: Sequence[dict[str, Any]],
) -> None:
    """Add pictures to their sections, which come in the order of the data."""
    keys = [("", "")]
    for data in distinct(usual(results), "data"):
        keys.append((data, ""))
        keys += [(data, p) for p in distinct(usual(results, data=data), "preparation")]
    for part, key in zip(parts, keys, strict=False):
        part.pictures = drawn.get(key, [])


def _safe(text: str) -> str:
    """Return text that does not break a table of Markdown, and is not read as HTML."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def markdown(parts: Sequence[Section], intro: Sequence[str] = ()) -> str:
    """Return the summary as Markdown; pictures are links into figures/."""
    head = f"# {TITLE}\n\n" + "".join(f"{line}\n\n" for line in intro)
    return head + "\n".join(_as_markdown(part) for part in parts)


def _as_markdown(part: Section) -> str:
    lines = [f"{'#' * part.level} {_safe(part.title)}", ""]
    if part.text:
        lines += [part.text, ""]
    for i, row in enumerate(part.table):
        entries = [f"**{_safe(e)}**" if (i, j) in part.bold else _safe(e)
                   for j, e in enumerate(row)]  # fmt: skip
        lines.append(f"| {' | '.join(entries)} |")
        if i == 0:
            lines.append("|" + " --- |" + " ---: |" * (len(row) - 1))
    if part.table:
        lines.append("")
    lines += [f"- {_safe(note)}" for note in part.notes]
    lines += [""] if part.notes else []
    for file, caption in part.pictures:
        lines += [f"![{_safe(caption)}](figures/{file})", "", f"*{_safe(caption)}*", ""]
    return "\n".join(lines)


def _page(parts: Sequence[Section], intro: Sequence[str], figures: Path) -> str:
    body = "".join(f"<p>{_code(line)}</p>" for line in intro)
    body += "".join(_as_html(part, figures) for part in parts)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'; img-src data:\">"
        f"<title>{TITLE}</title><style>{STYLE}</style></head><body><h1>{TITLE}</h1>"
        f"{body}</body></html>\n"
    )


def _code(line: str) -> str:
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", html.escape(line))


def _as_html(part: Section, figures: Path) -> str:
    out = [f"<h{part.level}>{html.escape(part.title)}</h{part.level}>"]
    if part.text:
        out.append(f"<p>{html.escape(part.text)}</p>")
    if part.table:
        out.append('<div class="scroll"><table>')
        for i, row in enumerate(part.table):
            tag = "td" if i else "th"
            entries = [f"<b>{html.escape(e)}</b>" if (i, j) in part.bold else html.escape(e)
                       for j, e in enumerate(row)]  # fmt: skip
            kind = ' class="paper"' if IN_PAPER in row[:2] else ""
            out.append(f"<tr{kind}>" + "".join(f"<{tag}>{e}</{tag}>" for e in entries) + "</tr>")
        out.append("</table></div>")
    if part.notes:
        out.append("<ul>" + "".join(f"<li>{html.escape(n)}</li>" for n in part.notes) + "</ul>")
    for file, caption in part.pictures:
        data = base64.b64encode((figures / file).read_bytes()).decode()
        text = html.escape(caption)
        out.append(f'<figure><img src="data:image/png;base64,{data}" alt="{text}">'
                   f"<figcaption>{text}</figcaption></figure>")  # fmt: skip
    return "".join(out)
