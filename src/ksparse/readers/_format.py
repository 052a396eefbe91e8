"""What a file format is: how it is recognised, checked and read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = ["Format", "ReadOptions", "has_suffix", "suffix_of"]


@dataclass(frozen=True)
class ReadOptions:
    """How a file is read; see `ksparse.readers.read`.

    Parameters
    ----------
    transpose : bool
        Whether a table has genes in rows.
    label_column : str or tuple of str, optional
        Columns of a table that hold labels.
    """

    transpose: bool = False
    label_column: str | tuple[str, ...] | None = None

    @property
    def label_columns(self) -> tuple[str, ...]:
        """The columns that hold labels, each once."""
        given = self.label_column or ()
        return tuple(dict.fromkeys((given,) if isinstance(given, str) else given))


@dataclass(frozen=True)
class Format:
    """A file format, as an entry of `ksparse.readers.FORMATS`.

    Parameters
    ----------
    name : str
        Key of the format in `FORMATS`.
    description : str
        What errors call it in the list of all formats, such as ".csv, .tsv (or .gz)".
    recognises : callable
        ``recognises(path)`` returns whether a file or folder is of this format, by its name or
        by the names of the files in it. Nothing is opened.
    read : callable
        ``read(path, options)`` returns AnnData, or None if the content is of another format
        with the same suffix. `options` is a `ReadOptions`.
    check : callable, optional
        ``check(path, watched)`` raises InputError if a file is damaged; called before `read`.
        With `watched` it goes through the file in another process, for libraries that crash
        on damaged files.
    takes_transpose : bool, default=False
        Whether a file may have genes in rows, so that ``transpose=True`` makes sense.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> from anndata import AnnData
    >>> from ksparse.readers import FORMATS, Format, has_suffix, read
    >>> FORMATS["npy"] = Format(
    ...     name="npy",
    ...     description=".npy",
    ...     recognises=has_suffix(".npy"),
    ...     read=lambda path, options: AnnData(np.load(path, allow_pickle=False)),
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(pathlib.Path(folder, "a.npy"), np.eye(3))
    ...     read(pathlib.Path(folder, "a.npy")).shape
    (3, 3)
    >>> del FORMATS["npy"]
    """

    name: str
    description: str
    recognises: Callable[[Path], bool]
    read: Callable[[Path, ReadOptions], AnnData | None]
    check: Callable[[Path, bool], None] | None = None
    takes_transpose: bool = False


def suffix_of(path: Path) -> str:
    """Return the suffix in lower case, such as ".csv"; that of a gzipped file without .gz."""
    return (Path(path.stem).suffix if path.suffix.lower() == ".gz" else path.suffix).lower()


def has_suffix(*suffixes: str, gzipped: bool = False) -> Callable[[Path], bool]:
    """Return a function that recognises files by their suffix.

    Parameters
    ----------
    *suffixes : str
        In lower case, such as ".csv".
    gzipped : bool, default=False
        Whether .gz may follow.

    Returns
    -------
    callable
        ``recognises(path)`` for a `Format`; false for folders.

    Examples
    --------
    >>> from pathlib import Path
    >>> from ksparse.readers import has_suffix
    >>> is_table = has_suffix(".csv", gzipped=True)
    >>> is_table(Path("a.csv")), is_table(Path("A.CSV.gz")), is_table(Path("a.tsv"))
    (True, True, False)
    """

    def recognises(path: Path) -> bool:
        suffix = suffix_of(path) if gzipped else path.suffix.lower()
        return suffix in suffixes and not path.is_dir()

    return recognises
