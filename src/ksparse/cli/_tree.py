"""The command that splits cells again and again: tree."""

from __future__ import annotations

from typing import Any

import click
import numpy as np

from ksparse._threads import limited_threads
from ksparse.cli import _jobs as jobs
from ksparse.cli._app import app
from ksparse.cli._options import (
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
from ksparse.scverse.labels import label_column

__all__ = ["tree_command"]

# Where the tree is written while the command runs.
TREE_KEY = "ksparse_tree"


@app.command("tree", short_help="Clusters within clusters.")
@input_argument
@click.option(
    "-k",
    "--clusters",
    type=click.IntRange(min=1),
    help="Cut the tree in so many clusters; by default in those that are supported.",
)
@click.option(
    "--genes", type=click.IntRange(min=1), default=10, show_default=True,
    help="How many genes to name for each split.",
)  # fmt: skip
@click.option(
    "--level",
    type=float,
    default=0.05,
    show_default=True,
    help="Level of the test, for all splits.",
)
@out_option()
@input_options
@work_options
def tree_command(**options: Any) -> None:
    """Split the cells again and again, as long as the two sides are separated.

    Every split has genes of its own, and is tested for a valley between its sides on cells that had
    no part in finding the genes that tell them apart. Writes tree.csv (the nodes), clusters.csv
    (the cells), tree.png and run.json, and prints what was found.

    \b
    Examples:
      ksparse tree cells.h5ad -o tree/
      ksparse tree cells.h5ad -k 12 --genes 20 -o tree/
    """  # fmt: skip
    from ksparse import pl, tl
    from ksparse._plotting import need_matplotlib

    need_matplotlib()
    source, k = source_of(options), options["clusters"]
    names = ("tree.csv", "clusters.csv", "tree.png", "run.json")
    words = [] if k is None else ["-k", k]
    words += ["--genes", options["genes"], "--level", options["level"], *source.words()]
    with new_folder(options["output"], names, options["force"]) as folder:
        with limited_threads(options["threads"]), Steps(3, options["verbose"]) as steps:
            opened = jobs.open_source(source, steps)
            with steps.step("tree", "tree of clusters"), noted() as notes:
                tree = tl.tree(
                    opened.adata, level=options["level"], n_clusters=k,
                    n_features=options["genes"], layer=source.layer, mask_var=opened.mask,
                    normalize=source.normalization, key_added=TREE_KEY,
                    random_state=options["seed"], verbose=1,
                )  # fmt: skip
            opened.notes += notes
        columns = tree.columns
        write_csv(folder / "tree.csv", list(columns), zip(*columns.values(), strict=True))
        header, cells = _cells(opened, tree.labels if k is None else tree.cut(k))
        write_csv(folder / "clusters.csv", header, cells)
        pl.tree(opened.adata, key=TREE_KEY, n_clusters=k, save=folder / "tree.png")
        account = {"n_clusters": tree.n_clusters, "sentence": tree.sentence}
        jobs.write_run(folder, opened, ("tree", [source.path], words), options, steps, account)
    say(tree.sentence)
    if opened.filtered:
        say(opened.filtered)


def _cells(opened: jobs.Opened, labels: Any) -> tuple[list[str], Any]:
    """Return header and rows of clusters.csv."""
    header, columns = ["cell", "cluster"], [opened.adata.obs_names, labels]
    if (column := opened.source.label_column) is not None:
        truth, known = label_column(opened.adata, column)
        header.append(column)
        columns.append(np.where(known, truth, ""))
    return header, zip(*columns, strict=True)
