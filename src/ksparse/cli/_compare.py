"""The command that runs the paper's comparison."""

from __future__ import annotations

from pathlib import Path

import click

from ksparse.cli._app import app
from ksparse.cli._options import out_option
from ksparse.cli._outputs import kept_on_full_disk, new_folder
from ksparse.cli._steps import command_line
from ksparse.cli._words import say
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
    words = ["--methods", methods, "--preparations", preparations, "--replicates", replicates]
    words += ["--label-column", label_column] if label_column != "label" else []
    words += ["--time-limit", time_limit] if time_limit != 1800 else []
    words += ["--no-figures"] if not figures else []
    command = command_line("compare", data, [*words, "-o", output])
    runs = output / "runs"
    with kept_on_full_disk(f"there is no new summary. Runs that are done are kept in {runs}."):
        results = compare(plan, runs, verbose=1)
        with new_folder(output, ("summary.html", "summary.md"), force=True) as folder:
            text = write_summary(results, runs, folder, command=command, figures=figures)
    say(text)
    say(f"Summary: {output / 'summary.html'}")
