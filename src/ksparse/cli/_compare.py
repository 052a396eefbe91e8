"""The command that runs the paper's comparison."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from ksparse.cli._app import app
from ksparse.cli._options import out_option
from ksparse.compare import METHODS, PREPARATIONS, Plan, compare, write_summary

__all__ = ["compare_command"]


def _listed(text: str, choices: tuple[str, ...]) -> tuple[str, ...]:
    if text == "all":
        return choices
    return tuple(part.strip() for part in text.split(",") if part.strip())


@app.command("compare", short_help="The paper's comparison: methods x data sets x seeds.")
@click.argument("data", nargs=-1)
@click.option("--methods", default="all", show_default=True, help=f"Of {', '.join(METHODS)}.")
@click.option(
    "--preparations", default="all", show_default=True, help=f"Of {', '.join(PREPARATIONS)}."
)
@click.option("--replicates", type=click.IntRange(min=1), default=5, show_default=True,
              help="Seeds, and simulated data sets.")  # fmt: skip
@click.option("--label-column", default="label", show_default=True, help="Classes in the files.")
@click.option(
    "--time-limit", type=click.FloatRange(min=0, min_open=True), default=1800.0,
    show_default=True, help="Seconds that one run may take.",
)  # fmt: skip
@click.option("--figures/--no-figures", default=True, show_default=True,
              help="Draw the paper's figures; needs matplotlib.")  # fmt: skip
@out_option("ksparse-compare")
def compare_command(
    data: tuple[str, ...],
    methods: str,
    preparations: str,
    replicates: int,
    label_column: str,
    time_limit: float,
    figures: bool,
    output: Path,
) -> None:
    """Compare methods on DATA (by default scsim1 and scsim2).

    DATA are files with known labels; scsim1 and scsim2, simulated anew for every replicate;
    or usoskin, klein and zeisel, which are downloaded once. Every run has a process of its
    own and is recorded: called again, the command continues. Writes summary.html, summary.md and
    figures/, with the paper's figures beside those of the runs, and runs/*.json.

    \b
    Examples:
      ksparse compare --replicates 2 -o comparison/
      ksparse compare scsim1 zeisel.h5ad --methods pca,simlr,ksparse -o comparison/
    """
    plan = Plan(
        data or ("scsim1", "scsim2"), _listed(methods, tuple(METHODS)),
        _listed(preparations, PREPARATIONS), replicates, label_column, time_limit, figures,
    )  # fmt: skip
    plan.check()
    if figures:
        from ksparse._plotting import need_matplotlib

        need_matplotlib()
    results = compare(plan, output / "runs", verbose=1)
    words = ["ksparse", "compare", *data, "--methods", methods, "--preparations", preparations]
    words += ["--replicates", str(replicates)]
    text = write_summary(
        results, output / "runs", output, command=shlex.join(words), figures=figures
    )
    click.echo(text)
    click.echo(f"Summary: {output / 'summary.html'}")
