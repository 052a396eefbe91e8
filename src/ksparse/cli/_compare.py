"""The command that runs the paper's comparison."""

from __future__ import annotations

from pathlib import Path

import click

from ksparse.cli._app import app
from ksparse.cli._options import out_option
from ksparse.compare import METHODS, Plan, compare, summarise
from ksparse.compare._cell import PREPARATIONS
from ksparse.files import new_file

__all__ = ["compare_command"]


def _listed(text: str, all_of_them: tuple[str, ...]) -> tuple[str, ...]:
    if text == "all":
        return all_of_them
    return tuple(part.strip() for part in text.split(",") if part.strip())


@app.command("compare", short_help="The paper's comparison: methods x data sets x seeds.")
@click.argument("data", nargs=-1)
@click.option("--methods", default="all", show_default=True, help=f"Of {', '.join(METHODS)}.")
@click.option(
    "--preparations", default="all", show_default=True, help=f"Of {', '.join(PREPARATIONS)}."
)
@click.option("--replicates", type=click.IntRange(min=1), default=5, show_default=True)
@click.option("--label-column", default="label", show_default=True, help="Classes in the files.")
@click.option(
    "--time-limit", type=click.FloatRange(min=0, min_open=True), default=1800.0,
    show_default=True, help="Seconds that one run may take.",
)  # fmt: skip
@out_option("ksparse-compare")
def compare_command(
    data: tuple[str, ...],
    methods: str,
    preparations: str,
    replicates: int,
    label_column: str,
    time_limit: float,
    output: Path,
) -> None:
    """Compare methods on DATA: files with known labels, or scsim1 and scsim2 (the default).

    Every run has a process of its own, and is recorded: called again, the command goes on
    where it was. Writes runs/*.json and summary.md, with the paper's own figures beside ours.

    \b
    Examples:
      ksparse compare --replicates 2 -o comparison/
      ksparse compare scsim1 zeisel.h5ad --methods pca,simlr,ksparse -o comparison/
    """
    plan = Plan(
        data or ("scsim1", "scsim2"), _listed(methods, tuple(METHODS)),
        _listed(preparations, PREPARATIONS), replicates, label_column, time_limit,
    )  # fmt: skip
    plan.check()
    results = compare(plan, output / "runs", verbose=1)
    text = summarise(results)
    with new_file(output / "summary.md") as temporary:
        temporary.write_text(f"# Comparison of clustering methods\n\n{text}", encoding="utf-8")
    click.echo(text)
    click.echo(f"Summary: {output / 'summary.md'}")
