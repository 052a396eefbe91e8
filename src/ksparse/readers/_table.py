"""Tables of text: .csv and .tsv, gzipped or not, read a few rows at a time."""

from __future__ import annotations

import csv
import gzip
import warnings
from pathlib import Path
from typing import IO, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

__all__ = ["assemble", "read_table"]

# Words above the first column that say that it holds names, whatever these look like.
CORNERS = {"", "index", "id", "ids", "cell", "cells", "cell_id", "cellid", "barcode", "barcodes",
           "sample", "samples", "sample_id", "name", "names", "gene", "genes", "gene_id", "geneid",
           "gene_name", "symbol", "entrez", "entrezid", "ensembl", "feature", "features",
           "obs_names", "var_names", "unnamed: 0"}  # fmt: skip
LARGEST = float(np.finfo(np.float32).max)
# Values that are read together, and the share of nonzero values up to which data are sparse.
BLOCK, SPARSE_SHARE = 4_000_000, 0.5


def _open(path: Path) -> IO[str]:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _is_number(text: str) -> bool:
    """Whether a finite number of float32 is written there."""
    try:
        return "_" not in text and abs(float(text)) <= LARGEST
    except ValueError:
        return False


def _warn_of_numbers(path: Path, X: Any, name: str) -> None:
    """Say so when a first column that looks like names was taken for data."""
    column = X[:, [0]].toarray().ravel() if sp.issparse(X) else X[:, 0]
    if len(column) > 1 and (column == np.rint(column)).all() and len(set(column)) == len(column):
        warnings.warn(
            f"{path}: the first column ({name!r}) holds a different whole number in each row, and "
            "is taken for data; leave its header empty if they are names.",
            UserWarning,
            stacklevel=4,
        )


def read_table(path: Path, separator: str, transpose: bool, label_column: str | None) -> Any:
    """Read a table with a header; the first column holds names if it is not numbers."""
    import pandas
    from anndata import AnnData

    header, first = _head(path, separator)
    shorter = len(header) == len(first) - 1  # as R writes it: no word above the names
    corner = "" if shorter else header[0].strip()
    takes_labels = label_column is not None and not transpose and corner == label_column
    named = not takes_labels and (
        corner.lower() in CORNERS or not _is_number(first[0]) or corner == ""
    )
    names = header if shorter or not named else header[1:]
    if all(_is_number(name) for name in header) and not (named and corner == ""):
        raise ValueError(f"{path} has no header: the first line must name the columns.")
    offset = 1 if named else 0
    labels_at = None
    if label_column is not None and not transpose and label_column in names:
        labels_at = names.index(label_column)
    numeric = [i for i in range(len(names)) if i != labels_at]
    if not numeric:
        raise ValueError(f"{path} has no column of numbers.")
    wanted = [i + offset for i in numeric]
    kinds: dict[int, Any] = dict.fromkeys(range(len(first)), str) | dict.fromkeys(
        wanted, np.float32
    )
    # The header is passed over: columns are taken by place, so that any name will do.
    chunks = pandas.read_csv(
        path, sep=separator, header=None, skiprows=1, dtype=kinds, na_filter=False,
        chunksize=max(1, BLOCK // max(1, len(first))), encoding="utf-8-sig",
        names=list(range(len(first))),
    )  # fmt: skip
    blocks: list[Any] = []
    rows: list[str] = []
    labels: list[Any] = []
    try:
        with chunks:
            for chunk in chunks:
                if named:
                    rows += [str(name) for name in chunk[0]]
                else:
                    rows += [str(len(rows) + i) for i in range(len(chunk))]
                if labels_at is not None:
                    labels += chunk[labels_at + offset].tolist()
                values = chunk[wanted].to_numpy()
                if not np.isfinite(values).all():
                    raise ValueError("it holds NaN or infinity")
                blocks.append(_block(values))
    except (ValueError, OverflowError) as error:
        _explain(path, separator, wanted, [names[i] for i in numeric], len(first))
        raise ValueError(f"{path} cannot be read: {error}") from error
    X = assemble(blocks)
    if not named and not takes_labels:
        _warn_of_numbers(path, X, names[0])
    columns = [names[i] for i in numeric]
    if transpose:
        X, rows, columns = (
            X.T.tocsr() if sp.issparse(X) else np.ascontiguousarray(X.T),
            columns,
            rows,
        )
    adata = AnnData(X, obs=pandas.DataFrame(index=rows), var=pandas.DataFrame(index=columns))
    if labels_at is not None:
        adata.obs[label_column] = pandas.Categorical(
            [None if label == "" else str(label) for label in labels]
        )
    return adata


def _head(path: Path, separator: str) -> tuple[list[str], list[str]]:
    """The header and the first row."""
    with _open(path) as file:
        lines = csv.reader(file, delimiter=separator)
        header = next(lines, None)
        first = next(lines, None)
    if header is None or first is None:
        raise ValueError(f"{path} is empty: it needs a header and at least one row.")
    if len(first) < 2 and len(header) < 2:
        raise ValueError(f"{path} has a single column: is its separator {separator!r}?")
    if len(header) not in (len(first), len(first) - 1):
        raise ValueError(
            f"{path} has {len(header)} columns in its header, but {len(first)} in the next line."
        )
    return header, first


def _explain(path: Path, separator: str, wanted: list[int], names: list[str], width: int) -> None:
    """Say where the first thing is that is not a number."""
    with _open(path) as file:
        lines = csv.reader(file, delimiter=separator)
        next(lines)
        for line in lines:
            if not line:
                continue
            if len(line) != width:
                raise ValueError(
                    f"{path} has {len(line)} columns in line {lines.line_num}, but {width} in the "
                    "first line of data."
                )
            for column, name in zip(wanted, names, strict=True):
                if not _is_number(line[column]):
                    shown = repr(line[column]) if line[column].strip() else "an empty cell"
                    where = f"line {lines.line_num}, column {name!r}"
                    raise ValueError(f"{path}: {shown} is not a number, or too large ({where}).")


def _block(values: NDArray[np.float32]) -> Any:
    return (
        sp.csr_matrix(values) if np.count_nonzero(values) < SPARSE_SHARE * values.size else values
    )


def assemble(blocks: list[Any]) -> Any:
    """Put blocks of rows together: sparse if at least one of them is."""
    if any(sp.issparse(block) for block in blocks):
        return sp.vstack([sp.csr_matrix(block) for block in blocks], format="csr")
    return np.concatenate(blocks)
