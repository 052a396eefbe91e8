"""The original formats: a table under metadata, tables without header, a spreadsheet."""

from __future__ import annotations

import bz2
import csv
import gzip
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksparse._errors import InputError

__all__ = ["Parsed", "parse_klein", "parse_usoskin", "parse_zeisel"]

# Genes that are read together, and rows in which metadata must have ended.
BLOCK, MAX_HEADER = 500, 40
ZEISEL_CLASSES = ("interneurons", "s1pyramidal", "ca1pyramidal", "oligodendrocytes", "microglia",
                  "endothelial", "astrocytes", "ependymal", "mural")  # fmt: skip


@dataclass
class Parsed:
    """The content of a file: cells x genes, the class of each cell, and its other fields."""

    X: sp.csr_array
    labels: NDArray[Any]
    genes: list[str]
    cells: list[str]
    obs: dict[str, list[Any]]


def _open(path: Path) -> IO[str]:
    if path.suffix == ".bz2":
        return bz2.open(path, "rt", encoding="utf-8-sig", newline="")
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _rows(path: Path, delimiter: str) -> Iterator[list[str]]:
    """Yield the rows of a text file; raise InputError if it is damaged."""
    try:
        with _open(path) as file:
            yield from csv.reader(file, delimiter=delimiter)
    except (EOFError, gzip.BadGzipFile, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} is damaged, or not a text file: {error}") from None
    except OSError as error:
        if error.errno is not None:
            raise
        raise InputError(f"{path} is damaged: {error}") from None  # as bz2 raises it


def _text(value: Any) -> str:
    return "" if value is None else str(value).strip()


def _matrix(
    path: Path, rows: Iterable[tuple[str, Sequence[Any]]], n_cells: int
) -> tuple[sp.csr_array, list[str]]:
    """Return rows of (gene, a value for each cell) as cells x genes, and the names of the genes."""
    genes: list[str] = []
    blocks = []
    rows = iter(rows)
    while block := list(islice(rows, BLOCK)):
        for gene, values in block:
            if len(values) != n_cells:
                raise InputError(
                    f"{path}: gene {gene!r} has {len(values):,} values where there are "
                    f"{n_cells:,} cells: the file is damaged or cut off."
                )
        genes += [gene for gene, _ in block]
        try:
            dense = np.array([values for _, values in block], dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError(_not_a_number(path, block)) from None
        bad = ~(np.isfinite(dense) & (dense >= 0)).all(axis=1)
        if bad.any():
            at = int(bad.argmax())
            raise InputError(
                f"{path}: gene {block[at][0]!r} has values that are negative or not finite."
            )
        blocks.append(sp.csc_array(dense.T.astype(np.float32)))
    if not genes:
        raise InputError(f"{path} has no genes.")
    return sp.csr_array(sp.hstack(blocks, format="csr")), genes


def _not_a_number(path: Path, block: Sequence[tuple[str, Sequence[Any]]]) -> str:
    """Return a message with the place of the first value that is not a number."""
    for gene, values in block:
        for place, value in enumerate(values):
            try:
                float(value)
            except (TypeError, ValueError):
                return (
                    f"{path}: {value!r} for gene {gene!r}, cell {place + 1:,}, is not a number: "
                    "the file is damaged or cut off."
                )
    return f"{path} holds something that is not a number."


def _metadata(
    path: Path, head: Sequence[Sequence[Any]], column: int, is_gene: Callable[[Any], bool]
) -> tuple[dict[str, list[str]], int]:
    """Return the fields above the table, named in a column, and the place of the first gene."""
    fields: dict[str, list[str]] = {}
    for place, row in enumerate(head):
        if is_gene(row):
            return fields, place
        if len(row) > column and _text(row[column]):
            fields[_text(row[column])] = [_text(value) for value in row[column + 1 :]]
    raise InputError(f"{path} has no table of genes in its first {MAX_HEADER} rows.")


def _field(path: Path, fields: Mapping[str, list[str]], name: str) -> list[str]:
    """Return a field; raise InputError if there is none of that name."""
    if name not in fields:
        known = ", ".join(fields) or "nothing"
        raise InputError(f"{path} has no row {name!r} above its genes, only {known}.")
    return fields[name]


def parse_zeisel(paths: Sequence[Path]) -> Parsed:
    """Read ten rows about the cells, an empty one, then a row for each gene, split by tabs.

    The first column holds names of genes. The second one holds names of the fields about the
    cells, and groups of genes, which are not used.
    """
    (path,) = paths
    rows = _rows(path, "\t")
    head = list(islice(rows, MAX_HEADER))
    fields, start = _metadata(path, head, 1, lambda row: bool(row) and row[0].strip() != "")
    groups = _field(path, fields, "group #")
    cells = _field(path, fields, "cell_id")
    try:
        labels = np.array([ZEISEL_CLASSES[int(group) - 1] for group in groups], dtype=object)
        if min(int(group) for group in groups) < 1:
            raise IndexError
    except (ValueError, IndexError):
        raise InputError(f"{path}: 'group #' must hold numbers from 1 to 9.") from None
    table = ((row[0].strip(), row[2:]) for row in chain(head[start:], rows) if any(row))
    X, genes = _matrix(path, table, len(cells))
    return Parsed(X, labels, genes, list(cells), dict(fields))


def parse_klein(paths: Sequence[Path]) -> Parsed:
    """Read four tables without header: in each row a gene, and its count in each cell."""
    parts: list[sp.csr_array] = []
    names: list[str] = []
    labels, cells = [], []
    for path, day in zip(paths, ("d0", "d2", "d4", "d7"), strict=True):
        rows = (row for row in _rows(path, ",") if any(row))
        first = next(rows, None)
        if first is None or len(first) < 2:
            raise InputError(f"{path} is empty, or not a table of genes and counts.")
        X, genes = _matrix(
            path, ((row[0].strip(), row[1:]) for row in chain([first], rows)), len(first) - 1
        )
        if parts and genes != names:
            raise InputError(f"{path} does not have the genes of {paths[0].name}.")
        parts.append(X)
        names = genes
        labels += [day] * X.shape[0]
        cells += [f"{day}_{i + 1}" for i in range(X.shape[0])]
    X = sp.csr_array(sp.vstack(parts, format="csr"))
    return Parsed(X, np.array(labels, dtype=object), names, cells, {})


def parse_usoskin(paths: Sequence[Path]) -> Parsed:
    """Read the second sheet: rows about the cells, named in the ninth column; then genes.

    The first eight columns are about the genes, the first of them holds their names. Also reads
    the sheet saved as .csv.
    """
    (path,) = paths
    rows = iter(_sheet(path) if path.suffix == ".xlsx" else _rows(path, ","))
    head = list(islice(rows, MAX_HEADER))
    column = next(
        (i for row in head for i, value in enumerate(row) if _text(value) == "Level 1"), None
    )
    if column is None:
        raise InputError(
            f"{path} has no row 'Level 1' in its first {MAX_HEADER} rows: it is not the table of "
            "Usoskin et al."
        )

    def is_gene(row: Sequence[Any]) -> bool:
        # It has a name, nothing where metadata have theirs, and a value for the first cell.
        if len(row) < column + 2:
            return False
        return bool(_text(row[0]) and not _text(row[column]) and _text(row[column + 1]))

    fields, start = _metadata(path, head, column, is_gene)
    labels = np.array(_field(path, fields, "Level 1"), dtype=object)
    names = fields.get("Sample ID") or [f"cell{i + 1}" for i in range(labels.size)]
    table = (
        (_text(row[0]), row[column + 1 :])
        for row in chain(head[start:], rows)
        if row and _text(row[0]) != ""
    )
    X, genes = _matrix(path, table, labels.size)
    return Parsed(X, labels, genes, names, dict(fields))


def _sheet(path: Path) -> Iterator[list[Any]]:
    """Yield the rows of the second sheet."""
    try:
        from python_calamine import CalamineError, CalamineWorkbook
    except ImportError:
        raise ImportError(
            "Spreadsheets need python-calamine: install it with  pip install 'ksparse[datasets]'"
        ) from None
    try:
        book = CalamineWorkbook.from_path(str(path))
        if len(book.sheet_names) < 2:
            raise InputError(
                f"{path} has 1 sheet, where the table of Usoskin et al. is in the second."
            )
        yield from book.get_sheet_by_index(1).iter_rows()
    except CalamineError as error:
        raise InputError(f"{path} is damaged, or not a spreadsheet: {error}") from None
