"""Commands that use a result: predict, report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ksparse._errors import InputError
from ksparse._tables import render
from ksparse._threads import limited_threads
from ksparse.cli import _jobs as jobs
from ksparse.cli._app import app
from ksparse.cli._options import (
    CHECK,
    PATH,
    input_argument,
    out_option,
    reading_options,
    seedless_options,
    source_of,
)
from ksparse.cli._outputs import new_folder, new_output
from ksparse.cli._steps import Steps, noted
from ksparse.cli._words import say
from ksparse.io.files import write_csv
from ksparse.io.h5ad import write_h5ad
from ksparse.scverse.fields import is_taken, make_room, read_sizes
from ksparse.scverse.schema import read_record

__all__ = ["predict", "report"]


@app.command(short_help="Place new cells in the clusters of a result.")
@click.argument("model", type=PATH)
@input_argument
@click.option(
    "--min-share",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.8,
    show_default=True,
    help="Share of the selected genes that INPUT must have.",
)
@click.option(
    "--unassigned",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    metavar="ALPHA",
    help="Leave cells unassigned that resemble no cluster, and about this share of all others; "
    "for a MODEL of `ksparse run --calibrate`.",
)
@click.option(
    "--batch-column",
    metavar="NAME",
    help="Column with the batches of cells, for a MODEL of `ksparse run --batch-column`; by "
    "default that of MODEL.",
)
@out_option()
@click.option(
    "--normalize",
    type=click.Choice(["model", "auto", "log1p", "none"]),
    default="model",
    show_default=True,
    help="model: as the cells of MODEL were. Otherwise as in `ksparse run`.",
)
@reading_options
@seedless_options
def predict(model: Path, **options: Any) -> None:
    """Place the cells of INPUT in the clusters of MODEL, a result.h5ad of `ksparse run`.

    Genes are matched by name, and the missing ones are named. Writes
    clusters.csv, result.h5ad and run.json.

    \b
    Examples:
      ksparse predict results/result.h5ad new_cells.h5ad -o placed/
      ksparse predict results/result.h5ad new_cells.h5ad --unassigned 0.1 -o placed/
      ksparse predict donors/result.h5ad new_cells.h5ad --batch-column person -o placed/
    """
    from ksparse import tl

    source = source_of(options)
    if model.exists() and model.suffix not in (".h5ad", ".zarr"):
        raise InputError(f"{model} is no result of `ksparse run`: give its result.h5ad as MODEL.")
    names = ("clusters.csv", "result.h5ad", "run.json")
    words = [*source.words("normalize"), "--normalize", source.normalize]
    words += ["--min-share", options["min_share"]]
    words += [] if options["unassigned"] is None else ["--unassigned", options["unassigned"]]
    with new_folder(options["output"], names, options["force"]) as folder:
        with limited_threads(options["threads"]), Steps(4, options["verbose"]) as steps:
            fitted = jobs.read_file(model, source.check)
            opened = jobs.open_source(source, steps)
            adata = opened.adata
            if is_taken(adata, jobs.KEY):
                opened.notes.append("INPUT has results of its own, which are left out.")
                steps.log(opened.notes[-1])
                make_room(adata, jobs.KEY)
            with steps.step("predict", "placing cells"), noted() as notes:
                tl.predict(
                    fitted, adata, layer=source.layer, min_share=options["min_share"],
                    normalize=source.normalization, unassigned=options["unassigned"],
                    batch_key=source.batch_column,
                )  # fmt: skip
            opened.notes += notes
            with steps.step("write", "writing"):
                write_csv(folder / "clusters.csv", *jobs.cell_columns(opened))
                write_h5ad(folder / "result.h5ad", adata)
        scores = jobs.score(opened)
        sizes = read_sizes(adata, jobs.KEY)
        jobs.write_run(folder, opened, ("predict", [model, source.path], words), options, steps,
                       {"cluster_sizes": list(sizes.values()), "scores": scores})  # fmt: skip
    say(render({"cluster": list(sizes), "cells": list(sizes.values())}))
    if scores:
        jobs.print_scores(source.label_column, scores)


@app.command(short_help="Write the report of a result again.")
@click.argument("result", type=PATH)
@click.option("--label-column", metavar="NAME", help="Column with known labels.")
@click.option("--title", help="Title of the page.")
@out_option("report.html", "File to write.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
@CHECK
def report(
    result: Path,
    label_column: str | None,
    title: str | None,
    output: Path,
    force: bool,
    check: bool,
) -> None:
    """Write report.html from RESULT, a result.h5ad of `ksparse run` or of `ksparse.tl.ksparse`.

    \b
    Examples:
      ksparse report results/result.h5ad --label-column cell_type -o report.html
    """
    from ksparse.report import write_report

    with new_output(output, force) as file:
        adata = jobs.read_file(result, check)
        if label_column is not None:
            jobs.check_label_column(adata, label_column, result)
        run = read_record(adata, jobs.KEY).run
        if label_column is None:
            before = run.get("options", {}).get("label_column")
            label_column = before if before in adata.obs else None
        title = title or run.get("input", {}).get("name") or result.name
        write_report(adata, file, labels=label_column, title=title, run=run)
    say(f"Report: {output}")
