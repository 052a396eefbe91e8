"""Tables of text: .csv and .tsv, gzipped or not, read a few rows at a time."""

from __future__ import annotations

import csv
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from ksparse._errors import InputError, Term, warn
from ksparse.io.archives import one_line
from ksparse.readers._blocks import BLOCK, sparse_or_dense, stacked
from ksparse.readers._format import Format, ReadOptions, has_suffix, suffix_of
from ksparse.readers._text import BoundedReader, check_text_memory

__all__ = ["TABLE"]

SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
# Words above the first column that say that it holds names, even if these are numbers.
CORNERS = {"", "index", "id", "ids", "cell", "cells", "cell_id", "cellid", "barcode", "barcodes",
           "sample", "samples", "sample_id", "name", "names", "gene", "genes", "gene_id", "geneid",
           "gene_name", "symbol", "entrez", "entrezid", "ensembl", "feature", "features",
           "obs_names", "var_names", "unnamed: 0"}  # fmt: skip
LARGEST = float(np.finfo(np.float32).max)
# Bytes that a column takes while a table is read, and a row, its name included, besides values.
BYTES_PER_COLUMN, BYTES_PER_ROW = 3000, 200


@dataclass(frozen=True)
class _Columns:
    """Which columns of a table hold names, labels and numbers.

    Attributes
    ----------
    names : list of str
        Name of each column but that of the row names.
    numeric : list of int
        Which of `names` are of columns of numbers.
    labels_at : list of int
        Which of `names` are of columns of labels.
    has_row_names : bool
        Whether the first column holds names.
    warns : bool
        Whether to warn if the first column, taken for numbers, looks like names.
    width : int
        Number of columns.
    """

    names: list[str]
    numeric: list[int]
    labels_at: list[int]
    has_row_names: bool
    warns: bool
    width: int

    @property
    def places(self) -> list[int]:
        """Places of the columns of numbers in a row."""
        return [i + self.has_row_names for i in self.numeric]

    @property
    def numeric_names(self) -> list[str]:
        """Names of the columns of numbers."""
        return [self.names[i] for i in self.numeric]


def _read_table(path: Path, options: ReadOptions) -> Any:
    """Return AnnData of a table with a header; the first column may hold names."""
    import pandas
    from anndata import AnnData

    separator = SEPARATORS[suffix_of(path)]
    header, first = _head(path, separator)
    label_columns = () if options.transpose else options.label_columns
    columns = _columns(path, header, first, label_columns)
    X, rows, labels = _values(path, separator, columns, options)
    if columns.warns:
        _warn_of_whole_numbers(path, X, columns.names[0])
    names = columns.numeric_names
    if options.transpose:
        X = X.T.tocsr() if sp.issparse(X) else np.ascontiguousarray(X.T)
        rows, names = names, rows
    adata = AnnData(X, obs=pandas.DataFrame(index=rows), var=pandas.DataFrame(index=names))
    for place, values in labels.items():
        adata.obs[columns.names[place]] = pandas.Categorical(
            [None if label == "" else str(label) for label in values]
        )
    return adata


def _head(path: Path, separator: str) -> tuple[list[str], list[str]]:
    """Return the header and the first row."""
    with BoundedReader(path).as_bytes() as file:  # counted before anything is made of them
        n_columns = 1 + max(file.readline().count(separator.encode()) for _ in range(2))
    check_text_memory(path, f"has {n_columns} columns", BYTES_PER_COLUMN * n_columns)
    with closing(_records(path, separator)) as records:
        _, header = next(records, (0, None))
        _, first = next(records, (0, None))
    if header is None or first is None:
        raise InputError(f"{path} is empty: it needs a header and at least one row.")
    if len(first) < 2 and len(header) < 2:
        raise InputError(f"{path} has a single column: is its separator {separator!r}?")
    if len(header) not in (len(first), len(first) - 1):
        raise InputError(
            f"{path} has {len(header)} columns in its header, but {len(first)} in the next line."
        )
    return header, first


def _records(path: Path, separator: str) -> Generator[tuple[int, list[str]], None, None]:
    """Yield the number of each line and its entries.

    Raises InputError at an entry that contains a line break. One is allowed between quotes, but
    in a table of numbers it is a sign of a stray quote, and lines up to the next quote are lost.
    """
    with BoundedReader(path).as_text() as file:
        lines = csv.reader(file, delimiter=separator)
        number, fault = 0, None
        while fault is None:
            try:
                entries = next(lines, None)
            except csv.Error as error:  # an entry that is too long
                entries, fault = [], error
            is_open = entries is not None and "\n" in "".join(entries[-1:])  # to the end
            if lines.line_num > number + 1 or is_open:
                raise InputError(
                    f"{path} has an entry with a line break, which begins in line {number + 1}: "
                    'remove the line break, or the quote (") that stands in that line alone.'
                )
            number = lines.line_num
            if entries is None:
                return
            if fault is None:
                yield number, entries
    raise InputError(f"{path} cannot be read: {fault} (line {number}).")


def _columns(
    path: Path, header: list[str], first: list[str], label_columns: tuple[str, ...]
) -> _Columns:
    """Tell from the header and the first row what the columns hold."""
    shorter = len(header) == len(first) - 1  # as R writes it: no word above the names
    corner = "" if shorter else header[0].strip()
    starts_with_labels = corner in label_columns
    has_row_names = not starts_with_labels and (
        corner.lower() in CORNERS or not _is_number(first[0])
    )
    names = header if shorter or not has_row_names else header[1:]
    if all(_is_number(name) for name in header) and not (has_row_names and corner == ""):
        raise InputError(f"{path} has no header: the first line must name the columns.")
    labels_at = [names.index(name) for name in label_columns if name in names]
    numeric = [i for i in range(len(names)) if i not in labels_at]
    if not numeric:
        raise InputError(f"{path} has no column of numbers.")
    warns = not has_row_names and not starts_with_labels
    return _Columns(names, numeric, labels_at, has_row_names, warns, len(first))


def _values(
    path: Path, separator: str, columns: _Columns, options: ReadOptions
) -> tuple[Any, list[str], dict[int, list[Any]]]:
    """Return the numbers, the names of the rows, and the labels in each column of labels."""
    import pandas

    reader = BoundedReader(path)
    kinds: dict[int, Any] = dict.fromkeys(range(columns.width), str)
    kinds |= dict.fromkeys(columns.places, np.float32)
    blocks: list[Any] = []
    rows: list[str] = []
    labels: dict[int, list[Any]] = {place: [] for place in columns.labels_at}
    try:
        # The header is passed over: columns are taken by place, so that any name will do.
        with reader.as_text() as file, pandas.read_csv(
            file, sep=separator, header=None, skiprows=1, dtype=kinds, na_filter=False,
            chunksize=max(1, BLOCK // max(1, columns.width)), names=list(range(columns.width)),
        ) as chunks:  # fmt: skip
            for chunk in chunks:
                if columns.has_row_names:
                    rows += [str(name) for name in chunk[0]]
                else:
                    rows += [str(len(rows) + i) for i in range(len(chunk))]
                for place, found in labels.items():
                    found += chunk[place + columns.has_row_names].tolist()
                values = chunk[columns.places].to_numpy()
                if not np.isfinite(values).all():
                    raise ValueError("it holds NaN or infinity")
                blocks.append(sparse_or_dense(values))
                _check_memory(path, len(rows), columns.width, blocks)
    except InputError:
        raise
    except (ValueError, OverflowError) as error:
        _raise_at_first_fault(path, separator, columns, options)
        raise InputError(f"{path} cannot be read: {one_line(error)}") from error
    if len(rows) != reader.n_lines - 1:  # lines that are empty, or joined by a quote
        for _ in _records(path, separator):
            pass
    return stacked(blocks), rows, labels


def _check_memory(path: Path, n_rows: int, n_columns: int, blocks: list[Any]) -> None:
    """Raise if the rows so far take more memory than the file can be meant to."""
    n_values = sum(block.nnz * 2 if sp.issparse(block) else block.size for block in blocks)
    what = f"has at least {n_rows} rows of {n_columns} columns"
    check_text_memory(path, what, BYTES_PER_ROW * n_rows + 4 * n_values)


def _is_number(text: str) -> bool:
    """Return whether text is a finite number of float32."""
    try:
        return "_" not in text and abs(float(text)) <= LARGEST
    except ValueError:
        return False


def _raise_at_first_fault(
    path: Path, separator: str, columns: _Columns, options: ReadOptions
) -> None:
    """Raise InputError with the place of the first entry that is not a number, if there is one."""
    for number, line in _records(path, separator):
        if number == 1 or not line:
            continue
        if len(line) != columns.width:
            raise InputError(
                f"{path} has {len(line)} columns in line {number}, but {columns.width} "
                "in the first line of data."
            )
        for place, name in zip(columns.places, columns.numeric_names, strict=True):
            if not _is_number(line[place]):
                entry = repr(line[place]) if line[place].strip() else "an empty cell"
                where = f"line {number}, column {name!r}"
                cure: tuple[str | Term, ...] = (".",)
                if not (options.transpose or options.label_columns):
                    cure = (": if it holds labels, give ", Term("label_column", name), ".")
                raise InputError(f"{path}: {entry} is not a number, or too large ({where})", *cure)


def _warn_of_whole_numbers(path: Path, X: Any, name: str) -> None:
    """Warn if the first column, taken for data, holds a different whole number in each row."""
    column = X[:, [0]].toarray().ravel() if sp.issparse(X) else X[:, 0]
    if len(column) > 1 and (column == np.rint(column)).all() and len(set(column)) == len(column):
        warn(
            f"{path}: the first column ({name!r}) holds a different whole number in each row, and "
            "is taken for data; leave its header empty if they are names.",
            stacklevel=4,
        )


TABLE = Format(
    name="table",
    description=".csv, .tsv (or .gz)",
    recognises=has_suffix(*SEPARATORS, gzipped=True),
    read=_read_table,
    takes_transpose=True,
)
