"""Commands that use a result: predict, report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np

from ksparse._threads import limited_threads
from ksparse.cli import _jobs as jobs
from ksparse.cli._app import app
from ksparse.cli._options import (
    PATH,
    input_argument,
    out_option,
    reading_options,
    seedless_options,
    source_of,
)
from ksparse.cli._outputs import check_file, new_folder
from ksparse.cli._steps import Steps, noted
from ksparse.files import write_csv
from ksparse.h5ad import write_h5ad
from ksparse.tables import render
from ksparse.tl._data import label_column as labels_of
from ksparse.tl._data import make_room

__all__ = ["predict", "report"]


@app.command(short_help="Place new cells in clusters that were found before.")
@click.argument("model", type=PATH)
@input_argument
@click.option(
    "--min-share",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.8,
    show_default=True,
    help="Share of the selected genes that INPUT must have.",
)
@out_option()
@click.option(
    "--normalize",
    type=click.Choice(["model", "auto", "log1p", "none"]),
    default="model",
    show_default=True,
    help="model: as the cells of MODEL were. Else as in `ksparse run`.",
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
    """
    from ksparse import tl
    from ksparse.metrics import summary
    from ksparse.readers import read

    source = source_of(options)
    if model.exists() and model.suffix not in (".h5ad", ".zarr"):
        raise ValueError(f"{model} is no result of `ksparse run`: give its result.h5ad as MODEL.")
    names = ("clusters.csv", "result.h5ad", "run.json")
    words = ["predict", model, source.path, *source.words("normalize"), "--normalize"]
    words += [source.normalize, "--min-share", options["min_share"]]
    scores: dict[str, float] = {}
    with new_folder(options["output"], names, options["force"]) as folder:
        with limited_threads(options["threads"]), Steps(4, options["verbose"]) as steps:
            fitted = read(model)
            opened = jobs.open_source(source, steps)
            adata = opened.adata
            if jobs.KEY in adata.uns:
                opened.notes.append("Results that INPUT had of its own are left out.")
                steps.tell(opened.notes[-1])
                make_room(adata, jobs.KEY)
            with steps.step("predict", "placing cells"), noted() as notes:
                tl.predict(
                    fitted, adata, layer=source.layer, min_share=options["min_share"],
                    normalize=source.normalization,
                )  # fmt: skip
            opened.notes += notes
            with steps.step("write", "writing"):
                write_csv(folder / "clusters.csv", *jobs.cell_columns(opened))
                write_h5ad(folder / "result.h5ad", adata)
        found = adata.obs[jobs.KEY]
        if source.label_column is not None:
            truth, known = labels_of(adata, source.label_column)
            scores = summary(truth[known], np.asarray(found.astype(str), dtype=str)[known])
        sizes = found.value_counts(sort=False)
        jobs.write_run(folder, opened, words, options, steps,
                   {"cluster_sizes": sizes.to_numpy(), "scores": scores})  # fmt: skip
    click.echo(render({"cluster": list(sizes.index), "cells": sizes.to_numpy()}))
    if scores:
        jobs.say_scores(source.label_column, scores)


@app.command(short_help="Write the report of a result again.")
@click.argument("result", type=PATH)
@click.option("--label-column", metavar="NAME", help="Column with known labels.")
@click.option("--title", help="Title of the page.")
@out_option("report.html", "File to write.")
@click.option("--force", is_flag=True, help="Replace a file that is there.")
def report(
    result: Path, label_column: str | None, title: str | None, output: Path, force: bool
) -> None:
    """Write report.html from RESULT, a result.h5ad of `ksparse run` or of `ksparse.tl.ksparse`.

    \b
    Examples:
      ksparse report results/result.h5ad --label-column cell_type -o report.html
    """
    from ksparse.readers import read
    from ksparse.report import write_report
    from ksparse.report._content import read_run

    check_file(output, force)
    adata = read(result)
    if label_column is not None:
        jobs.check_label_column(adata, label_column, result)
    stored = read_run(adata, jobs.KEY)
    if label_column is None:
        before = stored.get("options", {}).get("label_column")
        label_column = before if before in adata.obs else None
    title = title or stored.get("input", {}).get("name") or result.name
    write_report(adata, output, labels=label_column, title=title, run=stored)
    click.echo(f"Report: {output}")
