"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from ksparse.cli._jobs import Source

__all__ = [
    "CHECK",
    "CLUSTERS",
    "GENES",
    "GROUPS",
    "NUMBERS",
    "PATH",
    "grouped_options",
    "input_argument",
    "input_options",
    "out_option",
    "reading_options",
    "seedless_options",
    "source_of",
    "work_options",
]

Command = Callable[..., Any]


class Genes(click.ParamType):  # type: ignore[type-arg]
    """A number of genes, or "auto"."""

    name = "integer|auto"

    def convert(self, value: Any, param: Any, ctx: Any) -> int | str:
        """Return the value of the option."""
        if value == "auto" or isinstance(value, int):
            return value
        try:
            return int(value)
        except ValueError:
            self.fail(f"{value!r} is neither a whole number nor 'auto'.", param, ctx)


class Clusters(click.ParamType):  # type: ignore[type-arg]
    """A number of clusters, at least two, or "auto"."""

    name = "integer|auto"

    def convert(self, value: Any, param: Any, ctx: Any) -> int | str:
        """Return the value of the option."""
        if value == "auto":
            return value
        try:
            number = int(value)
        except ValueError:
            self.fail(f"{value!r} is not a valid integer, and not 'auto'.", param, ctx)
        return int(click.IntRange(min=2).convert(number, param, ctx))


class Numbers(click.ParamType):  # type: ignore[type-arg]
    """Whole numbers: "2-8", "5,10,20", or both."""

    name = "numbers"

    def convert(self, value: Any, param: Any, ctx: Any) -> list[int]:
        """Return the value of the option."""
        if isinstance(value, list):
            return value
        out: list[int] = []
        try:
            for part in str(value).split(","):
                low, dash, high = part.strip().partition("-")
                if dash and int(high) < int(low):
                    self.fail(f"{part.strip()!r} runs backwards: give {high}-{low}.", param, ctx)
                out += list(range(int(low), int(high) + 1)) if dash else [int(low)]
        except ValueError:
            self.fail(f"{value!r} must be numbers such as 2-8 or 5,10,20.", param, ctx)
        if not out:
            self.fail(f"{value!r} holds no number.", param, ctx)
        return out


class Groups(click.ParamType):  # type: ignore[type-arg]
    """A column and some of its groups: "column=group1,group2".

    It stays text: names of groups may hold commas, and are known when the data are.
    """

    name = "column=group,..."

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        """Return the value of the option."""
        column, _, groups = str(value).partition("=")
        if not column or not groups:
            self.fail(f"{value!r} must be a column and groups, such as type=T,NK.", param, ctx)
        return str(value)


CLUSTERS, GENES, GROUPS, NUMBERS = Clusters(), Genes(), Groups(), Numbers()
PATH = click.Path(path_type=Path)
input_argument = click.argument("input", type=PATH)


NORMALIZE = click.option(
    "--normalize",
    type=click.Choice(["auto", "log1p", "none"]),
    default="auto",
    show_default=True,
    help="log1p: log(1 + counts per 10,000). auto: that, if the values are whole numbers.",
)
MIN_CELLS = click.option(
    "--min-cells",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Leave out genes found in fewer than N cells.",
)
CHECK = click.option(
    "--check/--no-check",
    default=True,
    help="Check .h5ad, .h5, .loom and .zarr files in another process before they are read.",
)
LAYER = click.option("--layer", help="Use this layer instead of X.")
LABELS = click.option(
    "--label-column",
    metavar="NAME",
    help="Column with known labels, to compare with; they are not used by the fit.",
)
TABLES = (
    click.option("--transpose", is_flag=True, help="A table (.csv, .tsv, .npz) has genes in rows."),
    click.option("--unique-names", is_flag=True, help="Number repeated names of cells and genes."),
    CHECK,
)
READING = (LAYER, LABELS, *TABLES)
SEED = click.option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    default=0,
    show_default=True,
    help="Random seed: the same seed gives the same result.",
)
WORKING = (
    click.option("--threads", type=click.IntRange(min=1), help="Largest number of threads."),
    click.option("--force", is_flag=True, help="Replace existing results."),
    click.option("-v", "--verbose", count=True, help="Print every step."),
)


def _all(options: Sequence[Callable[[Command], Command]]) -> Callable[[Command], Command]:
    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


input_options = _all([NORMALIZE, MIN_CELLS, *READING])
# Without labels: groups are given otherwise.
grouped_options = _all([NORMALIZE, MIN_CELLS, LAYER, *TABLES])
reading_options = _all(READING)
work_options = _all([SEED, *WORKING])
seedless_options = _all(WORKING)


def out_option(
    default: str | None = None, text: str = "Folder for the results."
) -> Callable[[Command], Command]:
    """Return the option -o, which is required if it has no default."""
    if default is None:
        return click.option("-o", "--output", type=PATH, required=True, help=text)
    return click.option(
        "-o", "--output", type=PATH, default=Path(default), show_default=True, help=text
    )


def source_of(options: dict[str, Any]) -> Source:
    """Return the input of a command, from its options."""
    names = {field.name for field in fields(Source)}
    given = {name: value for name, value in options.items() if name in names}
    return Source(options["input"], **given)
