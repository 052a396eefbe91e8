"""Commands that cluster (run, demo), and simulate."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click

from ksparse._threads import limited_threads
from ksparse.cli import _jobs as jobs
from ksparse.cli._app import app
from ksparse.cli._numbers import choose_number
from ksparse.cli._options import (
    CLUSTERS,
    GENES,
    GROUPS,
    PATH,
    input_argument,
    input_options,
    out_option,
    source_of,
    work_options,
)
from ksparse.cli._outputs import kept_on_full_disk, new_folder, new_output
from ksparse.cli._steps import Steps, command_line
from ksparse.cli._words import say
from ksparse.io.h5ad import write_h5ad
from ksparse.scverse.fields import read_selected
from ksparse.scverse.schema import read_record

__all__ = ["demo", "run", "simulate"]

RESULTS = ("clusters.csv", "genes.csv", "batches.csv", "result.h5ad", "report.html", "run.json")


@app.command(short_help="Cluster cells and select genes; write tables, AnnData and a report.")
@input_argument
@click.option(
    "-k",
    "--clusters",
    type=CLUSTERS,
    required=True,
    help="How many clusters; auto: as many as choose-k recommends.",
)
@click.option(
    "--genes", type=GENES, default="auto", show_default=True, help="How many genes to select."
)
@out_option()
@click.option("--path", "with_path", is_flag=True, help="Score other numbers of genes, too.")
@click.option("--layout", type=click.Choice(["tsne", "umap"]), default="tsne", show_default=True,
              help="Layout of the cells in the report.")  # fmt: skip
@click.option("--scale", is_flag=True, help="Divide every gene by its standard deviation.")
@click.option(
    "--max-labels",
    type=click.IntRange(min=1),
    default=1,
    help="2: detect doublets between clusters.",
)
@click.option(
    "--min-cluster-size",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    help="Cells that would be a smaller cluster are set apart.",
)
@click.option(
    "--restrict-to",
    type=GROUPS,
    metavar="COLUMN=GROUP,...",
    help="Cluster only the cells of these groups; all others keep their group.",
)
@click.option(
    "--known-column",
    metavar="NAME",
    help="Column with labels that cells keep; cells without one join these classes or new "
    "clusters.",
)
@click.option(
    "--batch-column",
    metavar="NAME",
    help="Column with the batches of cells, within which genes are centred.",
)
@click.option(
    "--calibrate",
    is_flag=True,
    help="Prepare `ksparse predict --unassigned`, which finds cells that resemble no cluster.",
)
@click.option(
    "--checkpoint",
    type=PATH,
    metavar="DIR",
    help="Save finished steps in this folder; a run that was killed continues from there.",
)
@input_options
@work_options
def run(**options: Any) -> None:
    """Cluster the cells of INPUT and select the genes that define the clusters.

    INPUT is .h5ad, .zarr, a 10x .h5 file or folder (matrix.mtx), .loom, .csv or .tsv (with
    names in the first row and column; may be gzipped), or .npz.

    Writes clusters.csv, genes.csv, result.h5ad, report.html and run.json (and batches.csv, with
    --batch-column).

    \b
    Examples:
      ksparse run cells.h5ad -k 9 --genes 100 -o results/
      ksparse run cells.h5ad -k auto -o results/
      ksparse run filtered_feature_bc_matrix/ -k 12 --min-cells 10 --unique-names -o pbmc/
      ksparse run table.csv.gz --transpose -k 4 --label-column type --path -o out/
      ksparse run results/result.h5ad -k 3 --restrict-to ksparse=0,2 -o finer/
      ksparse run cells.h5ad -k 9 --known-column cell_type -o typed/
      ksparse run cells.h5ad -k 9 --batch-column donor -o donors/
    """
    if options["clusters"] == "auto" and options["known_column"] is not None:
        raise click.UsageError("-k auto knows no labels: give a number with --known-column.")
    if options["clusters"] == "auto" and options["batch_column"] is not None:
        raise click.UsageError("-k auto knows no batches: give a number with --batch-column.")
    if options["with_path"] and options["batch_column"] is not None:
        raise click.UsageError("--path knows no batches: leave out --batch-column or it.")
    if options["with_path"] and options["known_column"] is not None:
        raise click.UsageError("--path does not keep known labels: leave out --known-column or it.")
    source, steps = source_of(options), options["checkpoint"]
    kept = nullcontext() if steps is None else kept_on_full_disk(
        f"no results were written. Finished steps are kept in {steps}."
    )  # fmt: skip
    with kept, new_folder(options["output"], RESULTS, options["force"]) as folder:
        opened, scores = cluster_and_write(folder, source, options, source.path)
    _print_results(opened, scores, options["output"])


def cluster_and_write(
    folder: Path, source: jobs.Source, options: dict[str, Any], data: Path
) -> tuple[Any, dict[str, float]]:
    """Cluster the cells of a file, and write all results to a folder.

    `data` is the file in the account of the run.
    """
    words = ["-k", options["clusters"], "--genes", options["genes"], *source.words()]
    for flag, name in (("--path", "with_path"), ("--scale", "scale"),
                       ("--calibrate", "calibrate")):  # fmt: skip
        words += [flag] * bool(options.get(name))
    for flag, name, default in (("--layout", "layout", "tsne"), ("--max-labels", "max_labels", 1),
                                ("--min-cluster-size", "min_cluster_size", 5)):  # fmt: skip
        words += [flag, options[name]] if options[name] != default else []
    words += ["--seed", options["seed"], "-o", options["output"]]
    command = command_line("run", [data], words)
    n_steps = 5 + bool(options["with_path"]) + (options["clusters"] == "auto")
    with limited_threads(options["threads"]), Steps(n_steps, options["verbose"]) as steps:
        opened = jobs.open_source(source, steps)
        k = options["clusters"]
        if k == "auto":
            k = choose_number(opened, steps, options["genes"], options["seed"], options["scale"])
        scores = jobs.cluster(
            opened, steps, k, options["genes"], options["seed"],
            with_path=options["with_path"], layout=options["layout"], scale=options["scale"],
            max_labels=options["max_labels"], min_cluster_size=options["min_cluster_size"],
            checkpoint=options.get("checkpoint"),
            calibrate=bool(options.get("calibrate")),
        )  # fmt: skip
        hidden = ("input", "force", "checkpoint")
        reported = {name: value for name, value in options.items() if name not in hidden}
        about = jobs.about_run(opened, command, reported, steps)
        jobs.write_results(folder, opened, steps, about, scores)
    return opened, scores


def _print_results(opened: jobs.Opened, scores: dict[str, float], output: Path) -> None:
    record = read_record(opened.adata, jobs.KEY)
    results, size = record.results, record.clusters.size
    say(
        f"{results.n_cells:,} cells in {len(size)} clusters of "
        f"{', '.join(f'{n:,}' for n in size)}; {results.n_features:,} of "
        f"{results.n_genes:,} genes selected."
    )
    if opened.part is not None:
        others = opened.adata.n_obs - results.n_cells
        say(f"{others:,} other cells keep their group of {opened.part.restriction.column!r}.")
    if opened.filtered:
        say(opened.filtered)
    if scores:
        jobs.print_scores(opened.source.label_column, scores)
    say(f"Report: {output / 'report.html'}")


@app.command(short_help="Simulate counts with known clusters and genes.")
@click.option("--cells", type=click.IntRange(min=1), default=600, show_default=True)
@click.option("--genes", type=click.IntRange(min=1), default=5000, show_default=True)
@click.option("-k", "--clusters", type=click.IntRange(min=1), default=4, show_default=True)
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True)
@out_option("simulated.h5ad", "File to write.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
def simulate(cells: int, genes: int, clusters: int, seed: int, output: Path, force: bool) -> None:
    """Write simulated counts (.h5ad), after the simulator of the paper.

    obs has label and doublet; var has is_marker, type and log2 fold changes.

    \b
    Examples:
      ksparse simulate --cells 3000 --clusters 8 -o sim.h5ad
      ksparse run sim.h5ad -k 8 --label-column label -o out/
    """
    if output.suffix != ".h5ad":
        raise click.UsageError(f"{output} must end with .h5ad.")
    with new_output(output, force) as file:
        _simulated(file, cells, genes, clusters, seed)
    say(f"{cells:,} cells x {genes:,} genes, {clusters} clusters: {output}")


def _simulated(path: Path, cells: int, genes: int, clusters: int, seed: int) -> Any:
    from ksparse.simulate import scsim

    adata = scsim(cells, genes, n_clusters=clusters, random_state=seed).to_anndata()
    write_h5ad(path, adata)
    return adata


@app.command(short_help="Simulate data, cluster them, and write a report.")
@out_option("ksparse-demo")
@work_options
def demo(**options: Any) -> None:
    """Simulate 600 cells x 5,000 genes in 4 clusters, and cluster them with 40 genes.

    \b
    Examples:
      ksparse demo
      ksparse demo --seed 3 -o demo3/ --force
    """
    names = ("simulated.h5ad", *RESULTS)
    job = options | {"clusters": 4, "genes": 40, "with_path": True, "layout": "tsne",
                     "scale": False, "max_labels": 1, "min_cluster_size": 5}  # fmt: skip
    data = options["output"] / names[0]
    with new_folder(options["output"], names, options["force"]) as folder:
        truth = _simulated(folder / names[0], 600, 5000, 4, options["seed"])
        say(
            f"Simulated 600 cells x 5,000 genes: 4 clusters, {truth.var['is_marker'].sum()} marker "
            f"genes, {truth.obs['doublet'].sum()} doublets, half of the counts zero."
        )
        source = jobs.Source(folder / names[0], label_column="label", final_path=data)
        opened, scores = cluster_and_write(folder, source, job, data)
    selected = read_selected(opened.adata, jobs.KEY)
    share = truth.var["is_marker"].to_numpy()[selected].mean()
    say(f"{share:.0%} of the selected genes are markers.")
    _print_results(opened, scores, options["output"])
