"""Tables of text: .csv and .tsv, gzipped or not, read a few rows at a time."""

from __future__ import annotations

import csv
import gzip
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import scipy.sparse as sp

from ksparse._errors import InputError, Term, warn
from ksparse.io.archives import one_line
from ksparse.readers._blocks import BLOCK, sparse_or_dense, stacked
from ksparse.readers._format import Format, ReadOptions, has_suffix, suffix_of

__all__ = ["TABLE"]

SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
# Words above the first column that say that it holds names, even if these are numbers.
CORNERS = {"", "index", "id", "ids", "cell", "cells", "cell_id", "cellid", "barcode", "barcodes",
           "sample", "samples", "sample_id", "name", "names", "gene", "genes", "gene_id", "geneid",
           "gene_name", "symbol", "entrez", "entrezid", "ensembl", "feature", "features",
           "obs_names", "var_names", "unnamed: 0"}  # fmt: skip
LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class _Columns:
    """Which columns of a table hold names, labels and numbers.

    Attributes
    ----------
    names : list of str
        Name of each column but that of the row names.
    numeric : list of int
        Which of `names` are of columns of numbers.
    labels_at : int or None
        Which of `names` is that of the labels.
    has_row_names : bool
        Whether the first column holds names.
    warns : bool
        Whether to warn if the first column, taken for numbers, looks like names.
    width : int
        Number of columns.
    """

    names: list[str]
    numeric: list[int]
    labels_at: int | None
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
    label_column = None if options.transpose else options.label_column
    columns = _columns(path, header, first, label_column)
    X, rows, labels = _values(path, separator, columns, options)
    if columns.warns:
        _warn_of_whole_numbers(path, X, columns.names[0])
    names = columns.numeric_names
    if options.transpose:
        X = X.T.tocsr() if sp.issparse(X) else np.ascontiguousarray(X.T)
        rows, names = names, rows
    adata = AnnData(X, obs=pandas.DataFrame(index=rows), var=pandas.DataFrame(index=names))
    if columns.labels_at is not None:
        adata.obs[label_column] = pandas.Categorical(
            [None if label == "" else str(label) for label in labels]
        )
    return adata


def _open(path: Path) -> IO[str]:
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _head(path: Path, separator: str) -> tuple[list[str], list[str]]:
    """Return the header and the first row."""
    with _open(path) as file:
        lines = csv.reader(file, delimiter=separator)
        header = next(lines, None)
        first = next(lines, None)
    if header is None or first is None:
        raise InputError(f"{path} is empty: it needs a header and at least one row.")
    if len(first) < 2 and len(header) < 2:
        raise InputError(f"{path} has a single column: is its separator {separator!r}?")
    if len(header) not in (len(first), len(first) - 1):
        raise InputError(
            f"{path} has {len(header)} columns in its header, but {len(first)} in the next line."
        )
    return header, first


def _columns(path: Path, header: list[str], first: list[str], label_column: str | None) -> _Columns:
    """Tell from the header and the first row what the columns hold."""
    shorter = len(header) == len(first) - 1  # as R writes it: no word above the names
    corner = "" if shorter else header[0].strip()
    starts_with_labels = label_column is not None and corner == label_column
    has_row_names = not starts_with_labels and (
        corner.lower() in CORNERS or not _is_number(first[0])
    )
    names = header if shorter or not has_row_names else header[1:]
    if all(_is_number(name) for name in header) and not (has_row_names and corner == ""):
        raise InputError(f"{path} has no header: the first line must name the columns.")
    labels_at = None
    if label_column is not None and label_column in names:
        labels_at = names.index(label_column)
    numeric = [i for i in range(len(names)) if i != labels_at]
    if not numeric:
        raise InputError(f"{path} has no column of numbers.")
    warns = not has_row_names and not starts_with_labels
    return _Columns(names, numeric, labels_at, has_row_names, warns, len(first))


def _values(
    path: Path, separator: str, columns: _Columns, options: ReadOptions
) -> tuple[Any, list[str], list[Any]]:
    """Return the numbers, the names of the rows, and the labels."""
    import pandas

    kinds: dict[int, Any] = dict.fromkeys(range(columns.width), str)
    kinds |= dict.fromkeys(columns.places, np.float32)
    # The header is passed over: columns are taken by place, so that any name will do.
    chunks = pandas.read_csv(
        path, sep=separator, header=None, skiprows=1, dtype=kinds, na_filter=False,
        chunksize=max(1, BLOCK // max(1, columns.width)), encoding="utf-8-sig",
        names=list(range(columns.width)),
    )  # fmt: skip
    blocks: list[Any] = []
    rows: list[str] = []
    labels: list[Any] = []
    try:
        with chunks:
            for chunk in chunks:
                if columns.has_row_names:
                    rows += [str(name) for name in chunk[0]]
                else:
                    rows += [str(len(rows) + i) for i in range(len(chunk))]
                if columns.labels_at is not None:
                    labels += chunk[columns.labels_at + columns.has_row_names].tolist()
                values = chunk[columns.places].to_numpy()
                if not np.isfinite(values).all():
                    raise ValueError("it holds NaN or infinity")
                blocks.append(sparse_or_dense(values))
    except (ValueError, OverflowError) as error:
        _raise_at_first_fault(path, separator, columns, options)
        raise InputError(f"{path} cannot be read: {one_line(error)}") from error
    return stacked(blocks), rows, labels


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
    with _open(path) as file:
        lines = csv.reader(file, delimiter=separator)
        next(lines)
        for line in lines:
            if not line:
                continue
            if len(line) != columns.width:
                raise InputError(
                    f"{path} has {len(line)} columns in line {lines.line_num}, but {columns.width} "
                    "in the first line of data."
                )
            for place, name in zip(columns.places, columns.numeric_names, strict=True):
                if not _is_number(line[place]):
                    entry = repr(line[place]) if line[place].strip() else "an empty cell"
                    where = f"line {lines.line_num}, column {name!r}"
                    cure: tuple[str | Term, ...] = (".",)
                    if not (options.transpose or options.label_column):
                        cure = (": if it holds labels, give ", Term("label_column", name), ".")
                    raise InputError(
                        f"{path}: {entry} is not a number, or too large ({where})", *cure
                    )


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
