"""Commands that compare numbers of genes or of clusters: path, choose-k."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ksparse._threads import limited_threads
from ksparse.cli import _jobs as jobs
from ksparse.cli._app import app
from ksparse.cli._options import (
    GENES,
    NUMBERS,
    input_argument,
    input_options,
    out_option,
    source_of,
    work_options,
)
from ksparse.cli._outputs import new_folder
from ksparse.cli._steps import Steps, noted
from ksparse.cli._words import say
from ksparse.io.files import write_csv

__all__ = ["choose_k_command", "path_command"]


@app.command("path", short_help="Compare numbers of genes.")
@input_argument
@click.option(
    "-k", "--clusters", type=click.IntRange(min=2), required=True, help="How many clusters."
)
@click.option(
    "--genes",
    type=NUMBERS,
    help="Numbers of genes to try, such as 10,20,50; 20 numbers up to 500 by default.",
)
@out_option()
@input_options
@work_options
def path_command(**options: Any) -> None:
    """Score the clusters for several numbers of genes.

    Writes path.csv, path.png and run.json, and prints the table.

    \b
    Examples:
      ksparse path cells.h5ad -k 9 -o path/
      ksparse path cells.h5ad -k 9 --genes 10,20,50,100 --label-column type -o path/
    """
    from ksparse import pl, tl
    from ksparse._plotting import need_matplotlib

    need_matplotlib()
    source = source_of(options)
    names = ("path.csv", "path.png", "run.json")
    words = ["-k", options["clusters"], *source.words()]
    if options["genes"]:
        words += ["--genes", ",".join(str(n) for n in options["genes"])]
    with new_folder(options["output"], names, options["force"]) as folder:
        with limited_threads(options["threads"]), Steps(3, options["verbose"]) as steps:
            opened = jobs.open_source(source, steps)
            with steps.step("path", "path of numbers of genes"), noted() as notes:
                result = tl.path(
                    opened.adata, options["clusters"], n_features=options["genes"],
                    labels=source.label_column, layer=source.layer, mask_var=opened.mask,
                    normalize=source.normalization, random_state=options["seed"], verbose=1,
                )  # fmt: skip
            opened.notes += notes
        _write_table(folder / "path.csv", result.columns)
        pl.path(result, save=folder / "path.png")
        jobs.write_run(folder, opened, ("path", [source.path], words), options, steps,
                       {"best": result.best()})  # fmt: skip
    say(str(result))
    if opened.filtered:
        say(opened.filtered)


@app.command("choose-k", short_help="Compare numbers of clusters.")
@input_argument
@click.option(
    "-k", "--clusters", type=NUMBERS, default="2-10", show_default=True, help="Numbers to try."
)
@click.option(
    "--genes", type=GENES, default="auto", show_default=True, help="How many genes to select."
)
@click.option(
    "--jobs", "n_jobs", type=int, default=1, show_default=True, help="Processes (-1: all cores)."
)
@out_option()
@input_options
@work_options
def choose_k_command(**options: Any) -> None:
    """Compare numbers of clusters by gap statistic, silhouette, agreement and stability.

    Writes choose_k.csv, choose_k.png and run.json, and prints what each method chooses.

    \b
    Examples:
      ksparse choose-k cells.h5ad -k 2-12 -o numbers/
      ksparse choose-k cells.h5ad -k 3,5,8 --genes 100 --jobs 2 -o numbers/
    """
    from ksparse import choose_k
    from ksparse._plotting import need_matplotlib, saved
    from ksparse.scverse.expression import read_expression, selected_columns

    need_matplotlib()
    source = source_of(options)
    names = ("choose_k.csv", "choose_k.png", "run.json")
    tried = ",".join(str(k) for k in options["clusters"])
    words = ["-k", tried, "--genes", options["genes"], *source.words()]
    with new_folder(options["output"], names, options["force"]) as folder:
        with limited_threads(options["threads"]), Steps(3, options["verbose"]) as steps:
            opened = jobs.open_source(source, steps)
            with steps.step("choose_k", "numbers of clusters"), noted() as notes:
                columns = selected_columns(opened.adata, opened.mask)
                X, _ = read_expression(
                    opened.adata, source.layer, source.normalization, columns=columns
                )
                result = choose_k(
                    X, options["clusters"], n_features=options["genes"], verbose=1,
                    n_jobs=options["n_jobs"], random_state=options["seed"],
                )  # fmt: skip
            opened.notes += notes
        _write_table(folder / "choose_k.csv", result.columns)
        saved(result.plot()[0], folder / "choose_k.png")
        jobs.write_run(folder, opened, ("choose-k", [source.path], words), options, steps,
                       {"choices": result.choices, "sentence": result.sentence})  # fmt: skip
    say(str(result))
    if opened.filtered:
        say(opened.filtered)


def _write_table(path: Path, columns: dict[str, Any]) -> None:
    write_csv(path, list(columns), zip(*columns.values(), strict=True))
