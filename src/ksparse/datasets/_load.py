"""The data sets as AnnData, with the paper's filters and normalisation as options."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from ksparse._errors import InputError, Term, warn
from ksparse._names import repeated
from ksparse.datasets._parse import Parsed, parse_klein, parse_usoskin, parse_zeisel
from ksparse.datasets._sources import SOURCES, cache_folder, fetch, record, remove
from ksparse.normalise import counts_per_million, log_normalise

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = ["from_folder", "klein", "usoskin", "zeisel"]

PARSERS: dict[str, Callable[[Sequence[Path]], Parsed]] = {
    "zeisel": parse_zeisel,
    "klein": parse_klein,
    "usoskin": parse_usoskin,
}
# Genes that pass the paper's filter have at least 2 counts in so many cells.
MIN_COUNT = 2
MIN_CELLS = {"zeisel": 30, "klein": 130}
NORMALISATIONS: dict[str | None, Callable[[Any], Any]] = {
    None: lambda X: X,
    "cpm": counts_per_million,
    "log1p": log_normalise,
}


def zeisel(
    *,
    filter_genes: bool = False,
    normalize: str | None = None,
    folder: str | Path | None = None,
    verbose: int = 0,
) -> AnnData:
    """Return 3,005 cells of the mouse cortex and hippocampus, in nine classes.

    UMI counts of 19,972 genes (Zeisel et al. 2015), downloaded once from
    http://linnarssonlab.org/cortex.

    Parameters
    ----------
    filter_genes : bool, default=False
        Whether to keep only genes with at least 2 counts in 30 cells or more, as the paper.
    normalize : {None, "cpm", "log1p"}, default=None
        Counts as they are, per million (as the paper), or log(1 + counts per 10,000).
    folder : path, optional
        The folder of the file, or to download it to; `cache_folder()` by default.
    verbose : int, default=0
        1 shows the progress of the download on a terminal.

    Returns
    -------
    AnnData
        X (CSR, float32), obs["label"], the file's other fields in obs, and its source, with
        its SHA-256, in uns["dataset"].

    Notes
    -----
    The publishers give no checksums. A downloaded file must have the published number of
    cells, genes and cells of each class; then its SHA-256 is written to SHA256SUMS in the
    folder, and checked whenever the file is used again.

    Examples
    --------
    >>> from ksparse.datasets import zeisel
    >>> adata = zeisel(filter_genes=True, normalize="cpm")  # doctest: +SKIP
    """
    return _published("zeisel", filter_genes, normalize, folder, verbose)


def klein(
    *,
    filter_genes: bool = False,
    normalize: str | None = None,
    folder: str | Path | None = None,
    verbose: int = 0,
) -> AnnData:
    """Return 2,717 mouse embryonic stem cells, on four days after LIF was withdrawn.

    UMI counts of 24,175 genes (Klein et al. 2015, GEO GSE65525). The paper has them from a
    collection (hemberg-lab.github.io/scRNA.seq.datasets) that is made from these files. By
    hand they are in GSE65525_RAW.tar, which must be unpacked.

    Parameters
    ----------
    filter_genes : bool, default=False
        Whether to keep only genes with at least 2 counts in 130 cells or more, as the paper.
    normalize, folder, verbose
        As in `zeisel`.

    Returns
    -------
    AnnData
        As from `zeisel`; obs["label"] is the day: d0, d2, d4 or d7.

    Examples
    --------
    >>> from ksparse.datasets import klein
    >>> adata = klein(filter_genes=True, normalize="cpm")  # doctest: +SKIP
    """
    return _published("klein", filter_genes, normalize, folder, verbose)


def usoskin(
    *,
    filter_cells: bool = True,
    filter_genes: bool = False,
    normalize: str | None = None,
    folder: str | Path | None = None,
    verbose: int = 0,
) -> AnnData:
    """Return 622 sensory neurons of the mouse, in four classes.

    Reads per million of 25,334 genes (Usoskin et al. 2015), downloaded once from
    http://linnarssonlab.org/drg.

    Parameters
    ----------
    filter_cells : bool, default=True
        Whether to keep only the 622 cells in the classes NF, NP, PEP and TH of 864 wells;
        the others are empty wells, outliers and cells that are not neurons.
    filter_genes : bool, default=False
        Whether to keep only the 9,195 genes found in most cells. The paper gives this number,
        but not the rule by which the genes were chosen: this one is ours.
    normalize, folder, verbose
        As in `zeisel`; these data are per million already.

    Returns
    -------
    AnnData
        As from `zeisel`; obs["label"] is the class, "Level 1" in the file.

    Examples
    --------
    >>> from ksparse.datasets import usoskin
    >>> adata = usoskin(filter_genes=True)  # doctest: +SKIP
    """
    return _published("usoskin", filter_genes, normalize, folder, verbose, filter_cells)


def from_folder(
    path: str | Path,
    name: str | None = None,
    *,
    filter_cells: bool = True,
    filter_genes: bool = False,
    normalize: str | None = None,
) -> AnnData:
    """Read local copies of published files; nothing is downloaded.

    Parameters
    ----------
    path : path
        Folder with the original files, under their original names (`SOURCES` lists them).
        Text may be gzipped or not, bzip2 files may be unpacked, and the spreadsheet of
        Usoskin et al. may be saved as .csv.
    name : {"zeisel", "klein", "usoskin"}, optional
        Which data set; needed only if the folder has several.
    filter_cells, filter_genes, normalize
        As in `usoskin` and `zeisel`.

    Returns
    -------
    AnnData
        As from `zeisel`.

    Examples
    --------
    >>> from ksparse.datasets import from_folder
    >>> adata = from_folder("downloads", "klein")  # doctest: +SKIP
    """
    _check_arguments(name or "zeisel", normalize)
    folder = Path(path)
    if not folder.is_dir():
        raise FileNotFoundError(f"path={str(path)!r} is not a folder.")
    paths_of = {each: _local(each, folder) for each in ([name] if name else SOURCES)}
    complete = [each for each, paths in paths_of.items() if None not in paths]
    if len(complete) > 1:
        raise InputError(
            f"{folder} has {', '.join(complete)}: give one of them as ", Term("name"), "."
        )
    if not complete:
        lists = []
        for each, paths in paths_of.items():
            pairs = zip(SOURCES[each].files, paths, strict=True)
            lists.append(f"{each}: " + ", ".join(file for file, place in pairs if place is None))
        raise FileNotFoundError(f"{folder} lacks files: {'; '.join(lists)}")
    which = complete[0]
    files = [place for place in paths_of[which] if place is not None]
    parsed = PARSERS[which](files)
    difference = _difference(which, parsed)
    if difference:
        warn(f"{folder}: {difference}.")
    adata = _assembled(which, parsed, filter_cells, filter_genes, normalize)
    adata.uns["dataset"]["files"] = [file.name for file in files]
    return adata


def _local(name: str, folder: Path) -> list[Path | None]:
    """Return the path of each file of a data set, packed or not; None if it is missing."""

    def forms(file: str) -> list[str]:
        plain = file.removesuffix(".bz2").replace(".xlsx", ".csv")
        return [file, plain, f"{plain}.gz", f"{plain}.bz2"]

    return [
        next((folder / form for form in forms(file) if (folder / form).is_file()), None)
        for file in SOURCES[name].files
    ]


def _check_arguments(name: str, normalize: str | None) -> None:
    if name not in SOURCES:
        raise InputError(Term("name", name), f" is unknown; choose from {', '.join(SOURCES)}.")
    if normalize not in NORMALISATIONS:
        raise InputError(
            Term("normalize", normalize), " is unknown; choose from None, 'cpm', 'log1p'."
        )


def _published(
    name: str,
    filter_genes: bool,
    normalize: str | None,
    folder: str | Path | None,
    verbose: int,
    filter_cells: bool = True,
) -> AnnData:
    """Return a data set, downloaded if it is not in the folder."""
    _check_arguments(name, normalize)
    place = cache_folder() if folder is None else Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    new = fetch(name, place, verbose=verbose)
    paths = [place / file for file in SOURCES[name].files]
    try:
        parsed = PARSERS[name](paths)
        difference = _difference(name, parsed)
        if difference:
            raise InputError(
                f"{', '.join(map(str, paths))}: {difference}; it is damaged, or was changed by "
                "those who publish it."
            )
    except ValueError:
        remove(new)
        raise
    sums = record(name, place)
    adata = _assembled(name, parsed, filter_cells, filter_genes, normalize)
    adata.uns["dataset"] |= {
        "files": list(sums),
        "sha256": list(sums.values()),
    }
    return adata


def _difference(name: str, parsed: Parsed) -> str | None:
    """Return how the data differ from the published ones, or None."""
    source = SOURCES[name]
    expected = (source.n_cells, source.n_genes)
    if parsed.X.shape != expected:
        return (
            f"{parsed.X.shape[0]:,} cells x {parsed.X.shape[1]:,} genes, where {name} has "
            f"{expected[0]:,} x {expected[1]:,}"
        )
    for label, size in source.classes.items():
        n_cells = int((parsed.labels == label).sum())
        if n_cells != size:
            return f"{n_cells:,} cells of class {label}, where {name} has {size:,}"
    return None


def _assembled(
    name: str, parsed: Parsed, filter_cells: bool, filter_genes: bool, normalize: str | None
) -> AnnData:
    import pandas
    from anndata import AnnData
    from anndata.utils import make_index_unique

    source = SOURCES[name]
    obs = pandas.DataFrame({"label": parsed.labels} | parsed.obs, index=parsed.cells)
    obs["label"] = obs["label"].astype("category")
    genes = pandas.Index(parsed.genes)
    again = repeated(parsed.genes)
    if again:
        warn(
            f"{len(again):,} of {genes.size:,} genes of {name} have the name of another one: they "
            "are numbered.",
            stacklevel=4,
        )
        genes = make_index_unique(genes)
    adata = AnnData(
        X=sp.csr_matrix(parsed.X), obs=obs, var=pandas.DataFrame(index=genes.astype(str))
    )
    if filter_cells:
        in_classes = np.isin(parsed.labels.astype(str), list(source.classes))
        adata = adata[in_classes].copy()
        adata.obs["label"] = adata.obs["label"].cat.remove_unused_categories()
    n_genes = adata.n_vars
    if filter_genes:
        adata = adata[:, _passing_genes(name, adata.X)].copy()
    adata.X = sp.csr_matrix(NORMALISATIONS[normalize](adata.X))
    adata.uns["dataset"] = {
        "name": name,
        "page": source.page,
        "normalized": normalize or "no",
        "genes_filtered_out": n_genes - adata.n_vars,
        "genes_in_the_paper": source.paper_genes,
    }
    return adata


def _passing_genes(name: str, X: Any) -> Any:
    """Return a mask of the genes that pass the paper's filter."""
    if name in MIN_CELLS:
        enough = sp.csc_matrix(X >= MIN_COUNT)
        return np.diff(enough.indptr) >= MIN_CELLS[name]
    n = SOURCES[name].paper_genes
    cells = np.diff(sp.csc_matrix(X).indptr)
    passing = np.zeros(cells.size, dtype=bool)
    passing[np.argsort(-cells, kind="stable")[:n]] = True
    return passing
