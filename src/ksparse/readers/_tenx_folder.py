"""Folders of 10x Genomics: matrix.mtx, barcodes.tsv, features.tsv or genes.tsv."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ksparse._errors import InputError
from ksparse.readers._format import Format, ReadOptions, suffix_of
from ksparse.readers._tenx import only_genes
from ksparse.readers._text import BoundedReader, check_text_memory

__all__ = ["TENX_FOLDER"]

MAX_LINE = 100_000  # characters of a line, in any of the files
MAX_COMMENTS = 2**20  # characters of the comments together
MAX_VALUE = 100  # characters of a line with a value, on average
N_LINES, N_NAMES = 2_000_000, 500_000  # values and names that are read together
# Memory that a line takes: of names, and of matrix.mtx (with the copy that sorts the values).
BYTES_PER_NAME, BYTES_PER_VALUE = 250, 40


class _Header(NamedTuple):
    """What the first lines of matrix.mtx say."""

    field: str
    n_genes: int
    n_cells: int
    n_values: int


def _recognises(path: Path) -> bool:
    """Return whether a folder has a matrix, or a file is one."""
    if path.is_dir():
        return _file(path, "matrix.mtx") is not None
    return suffix_of(path) == ".mtx"


def _file(folder: Path, *names: str) -> Path | None:
    """Return the file of the first such name, gzipped or not, perhaps with a prefix.

    Raises InputError if files of several prefixes have that name.
    """
    for name in names:
        paths = sorted({*folder.glob(f"*{name}"), *folder.glob(f"*{name}.gz")})
        paths = [path for path in paths if path.name in (name, f"{name}.gz")] or paths
        if len({path.name.removesuffix(".gz") for path in paths}) > 1:
            raise InputError(f"{folder} has several files *{name}: put each sample in its folder.")
        if paths:
            return paths[0]
    return None


def _check_link(path: Path, *names: str) -> None:
    """Raise if a file is a link to one of another name.

    Links to files of 10x Genomics are common. But a folder from elsewhere might hold one to any
    file of the user, whose lines would become names of cells.
    """
    target = path.resolve()
    if not target.name.removesuffix(".gz").endswith(names):
        raise InputError(f"{path} is a link to {target.name}, which is not followed: copy it here.")


def _read_tenx_folder(path: Path, options: ReadOptions) -> Any:
    """Return AnnData of a folder; genes are in rows there."""
    import pandas
    from anndata import AnnData

    if not path.is_dir():
        raise InputError(f"{path} is one file of three: give its folder, {path.parent}.")
    matrix = _file(path, "matrix.mtx")
    barcodes = _file(path, "barcodes.tsv")
    features = _file(path, "features.tsv", "genes.tsv")
    if matrix is None or barcodes is None or features is None:
        raise InputError(
            f"{path} must hold matrix.mtx, barcodes.tsv, and features.tsv or genes.tsv "
            "(gzipped or not)."
        )
    _check_link(matrix, "matrix.mtx")
    _check_link(barcodes, "barcodes.tsv")
    _check_link(features, "features.tsv", "genes.tsv")
    cells, genes = _names(barcodes), _names(features)
    X = _matrix(matrix, (barcodes, len(cells)), (features, len(genes)))
    symbols = genes[1 if genes.shape[1] > 1 else 0]
    var = pandas.DataFrame({"gene_ids": genes[0].to_numpy()}, index=symbols.to_numpy())
    if genes.shape[1] > 2:
        var["feature_types"] = genes[2].to_numpy()
    obs = pandas.DataFrame(index=cells[0].to_numpy())
    return only_genes(AnnData(X, obs=obs, var=var))


def _names(path: Path) -> Any:
    """Return up to three columns of barcodes.tsv or features.tsv as a data frame of str."""
    import pandas

    rows: list[list[str]] = []
    with BoundedReader(path, MAX_LINE).as_text() as file:
        for number, line in enumerate(file, 1):
            words = line.rstrip("\r\n").split("\t", 3)[:3]
            if words == [""]:
                continue
            rows.append(words)
            if len(words) != len(rows[0]):
                raise InputError(
                    f"{path} has {len(words)} columns in line {number}, but {len(rows[0])} in the "
                    "first line."
                )
            if len(rows) % N_NAMES == 0:
                what = f"has at least {len(rows)} lines"
                check_text_memory(path, what, BYTES_PER_NAME * len(rows))
    if not rows:
        raise InputError(f"{path} is empty.")
    return pandas.DataFrame(rows, dtype=object)


def _matrix(path: Path, cells: tuple[Path, int], genes: tuple[Path, int]) -> Any:
    """Return a matrix of genes x cells as cells x genes, in CSR of float32.

    `cells` and `genes` are the files with the names, and how many lines these have.
    """
    reader = BoundedReader(path, MAX_LINE)
    with reader.as_bytes() as file:
        header = _header(path, file)
        for (names, n_lines), size in ((cells, header.n_cells), (genes, header.n_genes)):
            if n_lines != size:
                raise InputError(
                    f"{names} has {n_lines} lines, but {path.name} has {size} of them."
                )
        n_values = header.n_values
        check_text_memory(path, f"announces {n_values} values", BYTES_PER_VALUE * n_values)
        reader.expect(MAX_VALUE * n_values, f"the {n_values} values that it announces")
        entries = _all_entries(path, file, header)
    shape = (header.n_cells, header.n_genes)
    if not entries:
        return sp.csr_matrix(shape, dtype=np.float32)
    values, row, column = (np.concatenate(arrays) for arrays in zip(*entries, strict=True))
    return sp.csr_matrix((values, (row, column)), shape=shape)


def _all_entries(path: Path, file: io.BufferedReader, header: _Header) -> list[Any]:
    """Return the parts of `_entries`; raise if they are more or fewer than the header says."""
    entries: list[Any] = []
    n_values = 0
    if header.n_values:
        for part in _entries(path, file, header):
            n_values += len(part[0])
            if n_values > header.n_values:
                raise InputError(
                    f"{path} is damaged: it holds more than the {header.n_values} values that it "
                    "announces."
                )
            entries.append(part)
    if n_values != header.n_values:
        raise InputError(f"{path} is damaged: it has {n_values} of {header.n_values} values.")
    return entries


def _header(path: Path, file: io.BufferedReader) -> _Header:
    """Return what the header says; the file is left at the first value."""
    words = file.readline(MAX_LINE).decode("latin-1").lower().split()
    if words[:3] != ["%%matrixmarket", "matrix", "coordinate"] or words[4:] != ["general"]:
        raise InputError(
            f"{path} must begin with '%%MatrixMarket matrix coordinate integer general' "
            "(or real, or pattern)."
        )
    if words[3] not in ("integer", "real", "pattern"):
        raise InputError(f"{path} holds {words[3]!r} values: give integer or real ones.")
    line = file.readline(MAX_LINE)
    n_characters = 0
    while line.startswith(b"%") or line in (b"\n", b"\r\n"):
        n_characters += len(line)
        if n_characters > MAX_COMMENTS:
            raise InputError(
                f"{path} is damaged: its comments have more than {MAX_COMMENTS} characters."
            )
        line = file.readline(MAX_LINE)
    numbers = line.split()
    if len(numbers) != 3 or not all(number.isdigit() for number in numbers):
        raise InputError(f"{path} does not say how many rows, columns and values it has.")
    n_genes, n_cells, n_values = (int(number) for number in numbers)
    return _Header(words[3], n_genes, n_cells, n_values)


def _entries(
    path: Path, file: io.BufferedReader, header: _Header
) -> Iterator[tuple[Any, Any, Any]]:
    """Yield values with their rows and columns, many lines at a time.

    scipy's reader is faster, but ends the process on some damaged files.
    """
    import pandas

    n_genes, n_cells = header.n_genes, header.n_cells
    kinds: dict[str, Any] = {"gene": np.int64, "cell": np.int64}
    if header.field != "pattern":
        kinds["value"] = np.float64
    parts = pandas.read_csv(
        file, sep=r"\s+", header=None, names=list(kinds), index_col=False, chunksize=N_LINES,
        dtype=kinds, encoding="latin-1", na_filter=False,
    )  # fmt: skip
    for part in parts:
        row, column = part["cell"].to_numpy() - 1, part["gene"].to_numpy() - 1
        if row.min() < 0 or row.max() >= n_cells or column.min() < 0 or column.max() >= n_genes:
            raise InputError(f"{path} is damaged: a value is outside of {n_genes} x {n_cells}.")
        values = part["value"].to_numpy() if "value" in part else np.ones(len(part))
        yield values.astype(np.float32), row, column


TENX_FOLDER = Format(
    name="10x folder",
    description="a folder with matrix.mtx",
    recognises=_recognises,
    read=_read_tenx_folder,
)
