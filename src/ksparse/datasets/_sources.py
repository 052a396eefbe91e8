"""The published files: their addresses, their content, and the download."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from ksparse._errors import InputError
from ksparse.io.files import new_file

__all__ = ["SOURCES", "Source", "cache_folder", "fetch", "record", "recorded", "remove"]

LINNARSSON = "https://storage.googleapis.com/linnarsson-lab-www-blobs/blobs"
GEO = "https://ftp.ncbi.nlm.nih.gov/geo/samples/GSM1599nnn"
# The file of checksums, in the format of the program sha256sum.
SUMS = "SHA256SUMS"


@dataclass(frozen=True)
class Source:
    """A published data set.

    Attributes
    ----------
    page : str
        The page about it, named in the paper.
    files : mapping of str to str
        Name of each file, and its address.
    n_cells, n_genes : int
        Size of the data in the files.
    classes : mapping of str to int
        Number of cells of each class that the paper compares with.
    paper_genes : int
        Number of genes after the paper's filter.
    """

    page: str
    files: Mapping[str, str]
    n_cells: int
    n_genes: int
    classes: Mapping[str, int]
    paper_genes: int


def _geo(sample: str, name: str) -> dict[str, str]:
    return {f"{sample}_{name}.csv.bz2": f"{GEO}/{sample}/suppl/{sample}_{name}.csv.bz2"}


USOSKIN = "Usoskin et al. External resources Table 1.xlsx"
SOURCES: dict[str, Source] = {
    "zeisel": Source(
        page="http://linnarssonlab.org/cortex",
        files={"expression_mRNA_17-Aug-2014.txt": f"{LINNARSSON}/cortex/"
               "expression_mRNA_17-Aug-2014.txt"},
        n_cells=3005, n_genes=19972, paper_genes=7364,
        classes={"interneurons": 290, "s1pyramidal": 390, "ca1pyramidal": 948,
                 "oligodendrocytes": 820, "microglia": 98, "endothelial": 175, "astrocytes": 198,
                 "ependymal": 26, "mural": 60},
    ),
    "klein": Source(
        page="https://www.ncbi.nlm.nih.gov/geo/query/acc.cgi?acc=GSE65525",
        files=_geo("GSM1599494", "ES_d0_main") | _geo("GSM1599497", "ES_d2_LIFminus")
        | _geo("GSM1599498", "ES_d4_LIFminus") | _geo("GSM1599499", "ES_d7_LIFminus"),
        n_cells=2717, n_genes=24175, paper_genes=10322,
        classes={"d0": 933, "d2": 303, "d4": 683, "d7": 798},
    ),
    "usoskin": Source(
        page="http://linnarssonlab.org/drg",
        files={USOSKIN: f"{LINNARSSON}/drg/{USOSKIN.replace(' ', '%20')}"},
        n_cells=864, n_genes=25334, paper_genes=9195,
        classes={"NF": 139, "NP": 169, "PEP": 81, "TH": 233},
    ),
}  # fmt: skip


def cache_folder() -> Path:
    """Return the folder in which published files are stored.

    The environment variable KSPARSE_DATASETS, or the system's folder for caches.

    Examples
    --------
    >>> from ksparse.datasets import cache_folder
    >>> cache_folder().is_absolute()
    True
    """
    given = os.environ.get("KSPARSE_DATASETS")
    if given:
        return Path(given).expanduser().absolute()
    return Path(str(_pooch().os_cache("ksparse"))).absolute()


def _pooch() -> ModuleType:
    try:
        import pooch
    except ImportError:
        raise ImportError(
            "Published data need pooch: install it with  pip install 'ksparse[datasets]'"
        ) from None
    return pooch


def fetch(name: str, folder: Path, *, verbose: int = 0) -> list[Path]:
    """Download the files that are not in the folder yet; return their paths.

    Raises InputError if a file in the folder does not have its recorded checksum.
    """
    new = []
    known = recorded(folder)
    for file, address in SOURCES[name].files.items():
        path = folder / file
        if path.is_file():
            if file in known and _sum(path) != known[file]:
                raise InputError(
                    f"{path} is not the file that was there before: its SHA-256 is not the one in "
                    f"{SUMS}; delete it to download it again."
                )
            continue
        _download(name, address, folder, file, known.get(file), verbose)
        new.append(path)
    return new


def _download(
    name: str, address: str, folder: Path, file: str, sha256: str | None, verbose: int
) -> None:
    pooch = _pooch()
    pooch.get_logger().setLevel("ERROR")  # it logs checksums and paths
    bar = verbose > 0 and sys.stderr.isatty()
    try:
        pooch.retrieve(
            address, known_hash=None if sha256 is None else f"sha256:{sha256}", fname=file,
            path=folder, downloader=pooch.HTTPDownloader(progressbar=bar),
        )  # fmt: skip
    except OSError as error:  # requests' errors are OSErrors
        reason = type(error).__name__
        raise OSError(
            f"{name}: {address} could not be downloaded ({reason}); get it by hand, from there or "
            f"from {SOURCES[name].page}, and put it at {folder / file}"
        ) from None


def _sum(path: Path) -> str:
    return str(_pooch().file_hash(str(path)))


def recorded(folder: Path) -> dict[str, str]:
    """Return the checksums in the folder's SHA256SUMS."""
    try:
        lines = (folder / SUMS).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    pairs = (line.split(maxsplit=1) for line in lines if line.strip())
    return {parts[1].lstrip("*"): parts[0].lower() for parts in pairs if len(parts) == 2}


def record(name: str, folder: Path) -> dict[str, str]:
    """Write the checksums of a data set's files, whose content was checked; return them."""
    known = recorded(folder)
    sums = {file: known.get(file) or _sum(folder / file) for file in SOURCES[name].files}
    if not sums.items() <= known.items():
        lines = [f"{digest}  {file}\n" for file, digest in sorted((known | sums).items())]
        with new_file(folder / SUMS) as temporary:
            temporary.write_text("".join(lines), encoding="utf-8")
    return sums


def remove(paths: list[Path]) -> None:
    """Remove files whose content is not what was published."""
    for path in paths:
        path.unlink(missing_ok=True)
