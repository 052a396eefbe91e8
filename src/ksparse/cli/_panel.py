"""Commands about gene panels: panel, evaluate-panel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ksparse._threads import limited_threads
from ksparse.cli import _jobs as jobs
from ksparse.cli import _panel_jobs as work
from ksparse.cli._app import app
from ksparse.cli._options import (
    grouped_options,
    input_argument,
    out_option,
    source_of,
    work_options,
)
from ksparse.cli._outputs import new_folder
from ksparse.cli._steps import Steps, command_line
from ksparse.cli._words import say

__all__ = ["evaluate_panel_command", "panel_command"]

LISTS = "names with commas between, or a file with one name per line"
# Options of `ksparse panel` that are written into its command if they differ from these.
WISHES = {"keep": None, "exclude": None, "exclude_pattern": None, "allowed": None, "costs": None,
          "min_per_group": 1, "extend": None, "balance": 1.0, "gate_genes": 3}  # fmt: skip


@app.command("panel", short_help="Choose a panel of genes for groups of cells.")
@input_argument
@click.option("--genes", type=click.IntRange(min=1), default=50, show_default=True,
              help="How many genes, with those of --keep and --extend.")  # fmt: skip
@click.option("--group-column", metavar="NAME", help="Column with the groups of cells.")
@click.option("-k", "--clusters", type=click.IntRange(min=2),
              help="Without --group-column: find so many clusters first.")  # fmt: skip
@out_option()
@click.option("--keep", metavar="NAMES", help=f"Genes that are in the panel anyway: {LISTS}.")
@click.option("--exclude", metavar="NAMES", help="Genes that are never in it.")
@click.option("--exclude-pattern", metavar="REGEX",
              help="Nor those in whose names this is found, such as '^MT-|^RP[LS]'.")  # fmt: skip
@click.option("--allowed", metavar="FILE|COLUMN",
              help="Use no genes but these: a file with one name per line, or a column of var "
              "with True and False.")  # fmt: skip
@click.option("--costs", metavar="COLUMN",
              help="Column of var with the cost of each gene, by which its gain is divided.",
              )  # fmt: skip
@click.option("--min-per-group", type=click.IntRange(min=0), default=1, show_default=True,
              help="So many genes have their largest mean in each group.")  # fmt: skip
@click.option("--extend", metavar="NAMES", help="An existing panel, all of which is kept.")
@click.option("--balance", type=click.FloatRange(0, 1), default=1.0, show_default=True,
              help="1: every group counts the same; 0: every cell does.")  # fmt: skip
@click.option("--gate-genes", type=click.IntRange(0, 4), default=3, show_default=True,
              help="Largest number of genes in a gate; 0 for no gates.")  # fmt: skip
@grouped_options
@work_options
def panel_command(**options: Any) -> None:
    """Choose the few genes that together tell groups of cells apart.

    Writes panel.csv (genes with reasons and means), gates.csv (for each group the genes that
    mark it, with thresholds), evaluation.csv, report.html and run.json; with -k also
    clusters.csv. What is called held out was scored on half of the cells of every group, with
    genes that were chosen in the same way without these cells.

    \b
    Examples:
      ksparse panel cells.h5ad --genes 50 --group-column cell_type -o panel/
      ksparse panel cells.h5ad -k 12 --exclude-pattern '^MT-|^RP[LS]' -o panel/
      ksparse panel cells.h5ad --group-column cell_type --keep CD3D,MS4A1 --allowed probes.txt -o p/
      ksparse panel cells.h5ad --group-column type --genes 80 --extend panel/panel.csv -o more/
    """
    given = [options[name] is not None for name in ("group_column", "clusters")]
    if sum(given) != 1:
        both = "not both" if all(given) else "one of both is needed"
        raise click.UsageError(f"Give --group-column or -k: {both}.")
    source = source_of(options)
    wishes = work.read_wishes(options)
    words = ["--genes", options["genes"], *source.words()]
    words += ["-k", options["clusters"]] if given[1] else []
    for name, default in WISHES.items():
        if options[name] != default:
            words += [f"--{name.replace('_', '-')}", options[name]]
    words += ["--seed", options["seed"], "-o", options["output"]]
    command = command_line("panel", [source.path], words)
    with new_folder(options["output"], work.PANEL_FILES, options["force"]) as folder:
        n_steps = 6 + bool(options["gate_genes"])
        with limited_threads(options["threads"]), Steps(n_steps, options["verbose"]) as steps:
            opened = jobs.open_source(source, steps)
            found = work.choose(opened, steps, options, wishes)
            about = jobs.about_run(opened, command, _reported(options), steps)
            work.write_panel_files(folder, opened, steps, found, about)
    for line in work.panel_summary(opened, found):
        say(line)
    say(f"Report: {options['output'] / 'report.html'}")


def _reported(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in ("input", "force")}


@app.command("evaluate-panel", short_help="Evaluate any list of genes as a panel.")
@input_argument
@click.option("--panel", metavar="NAMES", required=True,
              help=f"The genes: {LISTS}, or a .csv file with the column 'gene'.")  # fmt: skip
@click.option("--group-column", metavar="NAME", required=True,
              help="Column with the groups of cells.")  # fmt: skip
@out_option()
@click.option("--held-out", metavar="COLUMN",
              help="Column of obs that is True for cells that had no part in choosing the genes: "
              "only these are evaluated.")  # fmt: skip
@grouped_options
@work_options
def evaluate_panel_command(**options: Any) -> None:
    """Tell how well given genes tell groups of cells apart.

    Two classifiers are cross-validated with these genes, with random ones, and with as many
    that ksparse chooses within the folds. If the genes were chosen with the same cells, their
    figures are too good: give --held-out. Writes evaluation.csv, confusion.csv, genes.csv and
    run.json.

    \b
    Examples:
      ksparse evaluate-panel cells.h5ad --panel genes.txt --group-column cell_type -o out/
      ksparse evaluate-panel new.h5ad --panel panel/panel.csv --group-column type -o out/
      ksparse evaluate-panel cells.h5ad --panel CD3D,CD8A,MS4A1 --group-column type -o out/
    """
    source = source_of(options)
    genes = work.named_genes("--panel", options["panel"])
    words: list[Any] = ["--panel", options["panel"], *source.words()]
    words += ["--held-out", options["held_out"]] if options["held_out"] is not None else []
    paths: list[Any] = [source.path]
    with new_folder(options["output"], work.EVALUATION_FILES, options["force"]) as folder:
        with limited_threads(options["threads"]), Steps(4, options["verbose"]) as steps:
            opened = jobs.open_source(source, steps)
            result = work.evaluate(opened, steps, genes, options)
            with steps.step("write", "writing"):
                work.write_evaluation_files(folder, result)
        jobs.write_run(folder, opened, ("evaluate-panel", paths, words), options, steps,
                       work.evaluation_results(result, genes))  # fmt: skip
    for line in work.evaluation_summary(result, genes, options["held_out"]):
        say(line)
    _say_where(options["output"])


def _say_where(output: Path) -> None:
    say(f"Tables: {output}")
