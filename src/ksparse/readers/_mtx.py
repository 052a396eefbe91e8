"""Folders of 10x Genomics: matrix.mtx, barcodes.tsv, features.tsv or genes.tsv."""

from __future__ import annotations

import gzip
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

__all__ = ["is_mtx_folder", "read_mtx", "sparse_float32"]

LONGEST = 10_000  # a line of the header
LINES = 2_000_000  # read together


def _find(folder: Path, *names: str) -> Path | None:
    """A file of that name, gzipped or not, perhaps with a prefix; refuse several."""
    for name in names:
        found = sorted({*folder.glob(f"*{name}"), *folder.glob(f"*{name}.gz")})
        exact = [path for path in found if path.name in (name, f"{name}.gz")]
        if (
            len(exact or found) > 1
            and len({p.name.removesuffix(".gz") for p in exact or found}) > 1
        ):
            raise ValueError(f"{folder} has several files *{name}: put each sample in its folder.")
        if found:
            return (exact or found)[0]
    return None


def is_mtx_folder(folder: Path) -> bool:
    """Whether there is a matrix in the folder."""
    return _find(folder, "matrix.mtx") is not None


def _lines(path: Path) -> Any:
    import pandas

    table = pandas.read_csv(
        path, sep="\t", header=None, dtype=str, keep_default_na=False, quoting=3, na_filter=False
    )
    return table


def read_mtx(folder: Path) -> Any:
    """Read such a folder; genes are in rows there."""
    import pandas
    from anndata import AnnData

    matrix = _find(folder, "matrix.mtx")
    barcodes = _find(folder, "barcodes.tsv")
    features = _find(folder, "features.tsv", "genes.tsv")
    if matrix is None or barcodes is None or features is None:
        raise ValueError(
            f"{folder} must hold matrix.mtx, barcodes.tsv, and features.tsv or genes.tsv "
            "(gzipped or not)."
        )
    cells, genes = _lines(barcodes), _lines(features)
    X = _matrix(matrix, (barcodes, len(cells)), (features, len(genes)))
    names = genes[1 if genes.shape[1] > 1 else 0]
    var = pandas.DataFrame({"gene_ids": genes[0].to_numpy()}, index=names.to_numpy())
    if genes.shape[1] > 2:
        var["feature_types"] = genes[2].to_numpy()
    adata = AnnData(X, obs=pandas.DataFrame(index=cells[0].to_numpy()), var=var)
    return only_genes(adata)


def _matrix(path: Path, cells: tuple[Path, int], genes: tuple[Path, int]) -> Any:
    """Read a matrix of genes x cells as cells x genes.

    scipy's reader is faster, and crashes on some damaged files.
    """
    import pandas

    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
        words = file.readline(LONGEST).decode("latin-1").lower().split()
        if words[:3] != ["%%matrixmarket", "matrix", "coordinate"] or words[4:] != ["general"]:
            raise ValueError(
                f"{path} must begin with '%%MatrixMarket matrix coordinate integer general' "
                "(or real, or pattern)."
            )
        if words[3] not in ("integer", "real", "pattern"):
            raise ValueError(f"{path} holds {words[3]!r} values: give integer or real ones.")
        line = file.readline(LONGEST)
        while line.startswith(b"%") or line in (b"\n", b"\r\n"):
            line = file.readline(LONGEST)
        numbers = line.split()
        if len(numbers) != 3 or not all(number.isdigit() for number in numbers):
            raise ValueError(f"{path} does not say how many rows, columns and values it has.")
        n_genes, n_cells, n_values = (int(number) for number in numbers)
        for (names, found), size in ((cells, n_cells), (genes, n_genes)):
            if found != size:
                raise ValueError(f"{names} has {found} lines, but {path.name} has {size} of them.")
        columns = ["gene", "cell"] if words[3] == "pattern" else ["gene", "cell", "value"]
        kinds = {"gene": np.int64, "cell": np.int64, "value": np.float64}
        entries: list[tuple[Any, Any, Any]] = []
        parts = pandas.read_csv(
            file, sep=r"\s+", header=None, names=columns, index_col=False, chunksize=LINES,
            dtype={name: kinds[name] for name in columns}, encoding="latin-1", na_filter=False,
        ) if n_values else ()  # fmt: skip
        for part in parts:
            row, column = part["cell"].to_numpy() - 1, part["gene"].to_numpy() - 1
            if row.min() < 0 or row.max() >= n_cells or column.min() < 0 or column.max() >= n_genes:
                raise ValueError(f"{path} is damaged: a value is outside of {n_genes} x {n_cells}.")
            values = part["value"].to_numpy() if "value" in part else np.ones(len(part))
            entries.append((values.astype(np.float32), row, column))
    total = sum(len(values) for values, _, _ in entries)
    if total != n_values:
        raise ValueError(f"{path} is damaged: it has {total} of {n_values} values.")
    if not entries:
        return sp.csr_matrix((n_cells, n_genes), dtype=np.float32)
    values, row, column = (np.concatenate(arrays) for arrays in zip(*entries, strict=True))
    return sp.csr_matrix((values, (row, column)), shape=(n_cells, n_genes))


def sparse_float32(X: Any) -> Any:
    """CSR of float32."""
    return sp.csr_matrix(X, dtype=np.float32)


def only_genes(adata: Any) -> Any:
    """Leave out features that are not gene expression, such as antibodies, with a word."""
    kinds = adata.var.get("feature_types")
    if kinds is None:
        return adata
    keep = np.asarray(kinds.astype(str).isin(["Gene Expression"]))
    if keep.all() or not keep.any():
        return adata
    warnings.warn(
        f"{int((~keep).sum())} of {keep.size} features are not gene expression, and are left out.",
        UserWarning,
        stacklevel=2,
    )
    return adata[:, keep].copy()
