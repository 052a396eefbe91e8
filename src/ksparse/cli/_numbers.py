"""Commands that compare numbers of genes or of clusters: path, choose-k."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ksparse._errors import InputError, Term
from ksparse._tables import render
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
from ksparse.cli._steps import Steps, command_line, noted
from ksparse.cli._words import say
from ksparse.io.files import write_csv

__all__ = ["choose_k_command", "choose_number", "path_command"]


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


@app.command("choose-k", short_help="How many clusters?")
@input_argument
@click.option(
    "-k",
    "--clusters",
    type=NUMBERS,
    help="Numbers to try, such as 2-8; 2 to 12 by default, and more where these are not enough.",
)
@click.option(
    "--genes", type=GENES, default="auto", show_default=True, help="How many genes to select."
)
@click.option(
    "--measure",
    "measures",
    multiple=True,
    type=click.Choice(["gap", "silhouette", "agreement", "stability"]),
    help="Show another measure, too (can be given several times).",
)
@click.option(
    "--jobs",
    "n_jobs",
    type=int,
    default=1,
    show_default=True,
    help="Processes for agreement and stability (-1: all cores).",
)
@out_option()
@input_options
@work_options
def choose_k_command(**options: Any) -> None:
    """Recommend a number of clusters: the largest whose clusters are all separated.

    Every pair of clusters is tested for a valley between them, on cells that had no part in finding
    the genes that tell them apart. Writes choose_k.csv, choose_k.png and run.json, and prints the
    table and the recommendation.

    \b
    Examples:
      ksparse choose-k cells.h5ad -o numbers/
      ksparse choose-k cells.h5ad -k 3,5,8 --genes 100 --measure silhouette -o numbers/
    """  # fmt: skip
    from ksparse import tl
    from ksparse._plotting import need_matplotlib, saved

    need_matplotlib()
    source, tried = source_of(options), options["clusters"]
    names = ("choose_k.csv", "choose_k.png", "run.json")
    words = [] if tried is None else ["-k", ",".join(str(k) for k in tried)]
    words += ["--genes", options["genes"], *source.words()]
    for measure in options["measures"]:
        words += ["--measure", measure]
    with new_folder(options["output"], names, options["force"]) as folder:
        with limited_threads(options["threads"]), Steps(3, options["verbose"]) as steps:
            opened = jobs.open_source(source, steps)
            with steps.step("choose_k", "numbers of clusters"), noted() as notes:
                result = tl.choose_k(
                    opened.adata, tried, methods=options["measures"], layer=source.layer,
                    mask_var=opened.mask, normalize=source.normalization,
                    n_features=options["genes"], n_jobs=options["n_jobs"],
                    random_state=options["seed"], verbose=1,
                )  # fmt: skip
            opened.notes += notes
        _write_table(folder / "choose_k.csv", result.columns)
        saved(result.plot()[0], folder / "choose_k.png")
        account = {"recommended": result.recommended, "sentence": result.sentence}
        jobs.write_run(folder, opened, ("choose-k", [source.path], words), options, steps, account)
    say(f"{render(result.columns)}\n{result.sentence}")
    if opened.filtered:
        say(opened.filtered)
    if result.recommended is not None and result.recommended > 1:
        more = ["-k", result.recommended, "--genes", options["genes"], *source.words()]
        more += ["-o", "results"]
        say(f"Next: {command_line('run', [source.path], more)}")
    elif result.recommended is None:  # all that were tried are too many
        more = ["--genes", options["genes"], *source.words(), "-o", "numbers"]
        say(f"Next: {command_line('choose-k', [source.path], more)}")


def choose_number(
    opened: jobs.Opened, steps: Steps, n_features: int | str, seed: int, scale: bool
) -> int:
    """Return the number of clusters that is recommended, and note why.

    Raises InputError where the cells are one cluster.
    """
    from ksparse import tl

    source = opened.source
    with steps.step("choose_k", "numbers of clusters"):
        number = tl.choose_k(
            opened.adata, layer=source.layer, mask_var=opened.mask,
            normalize=source.normalization, restrict_to=opened.restrict_to,
            n_features=n_features, scale=scale, random_state=seed, verbose=1,
        )  # fmt: skip
    if number.recommended is None or number.recommended < 2:
        raise InputError(
            f"{number.sentence} Nothing is to be clustered: give a number with ",
            Term("n_clusters"), " to cluster these cells all the same.",
        )  # fmt: skip
    opened.notes.append(number.sentence)
    steps.log(number.sentence)
    say(number.sentence)
    return number.recommended


def _write_table(path: Path, columns: dict[str, Any]) -> None:
    write_csv(path, list(columns), zip(*columns.values(), strict=True))
