"""From a path to AnnData: find the format, check the file, read it, check the result."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from ksparse._errors import InputError, Term, warn
from ksparse._names import repeated
from ksparse.io.archives import TooLargeError, check_regular, one_line
from ksparse.readers._format import Format, ReadOptions
from ksparse.readers._registry import candidates
from ksparse.readers._unchanged import unchanged

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = ["read"]

INSTALL = "install it with  pip install 'ksparse[anndata]'"


def read(
    path: str | Path,
    *,
    transpose: bool = False,
    label_column: str | Sequence[str] | None = None,
    unique_names: bool = False,
    check: bool = True,
) -> AnnData:
    """Read a data file: .h5ad, .zarr, 10x .h5 or folder, .loom, .csv, .tsv, .npz.

    Parameters
    ----------
    path : path
        File or folder. Tables may be gzipped, and so may the files of a 10x folder.
    transpose : bool, default=False
        Whether a table (.csv, .tsv, .npz) has genes in rows.
    label_column : str or list of str, optional
        Columns of a table that hold labels, not numbers.
    unique_names : bool, default=False
        Whether to number repeated names of cells and genes; otherwise they raise ValueError.
    check : bool, default=True
        Whether to go through .h5ad, .h5, .loom and .zarr in another process first, because the
        libraries that read them may crash on a damaged file. Without it a damaged file may end
        this process, and chunks that unpack to gigabytes are not noticed; a file that you trust
        is read sooner.

    Returns
    -------
    AnnData
        Cells x genes; tables that are mostly zeros become sparse.

    Raises
    ------
    ValueError
        If the file is damaged, takes too long to check, or is not of a kind that can be read.
        Nothing in a file is ever executed: pickled objects are refused, and so are links and
        references to other files, named pipes, and what unpacks to much more than the file holds.
    MemoryError
        If it holds more than fits in memory.
    OSError
        If there is no such file, or it may not be read.
    ImportError
        If a package that reads such files is not installed.

    See Also
    --------
    FORMATS : The formats; others can be added.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from ksparse.readers import read
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "small.csv")
    ...     _ = file.write_text("cell,Actb,Gapdh\\na,1,0\\nb,0,2\\n")
    ...     read(file).var_names.tolist()
    ['Actb', 'Gapdh']
    """
    try:
        import anndata  # noqa: F401
    except ImportError:
        raise ImportError(f"Reading files needs anndata: {INSTALL}") from None
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist.")
    check_regular(path)
    formats = candidates(path)
    if transpose and not any(each.takes_transpose for each in formats):
        raise InputError(
            Term("transpose", True), f" is for tables, and {path.name} says which way round it is."
        )
    if label_column is not None and not isinstance(label_column, str):
        label_column = tuple(label_column) or None
    options = ReadOptions(transpose, label_column)
    with _one_sentence_errors(path), unchanged(path):
        adata = _read_first(path, formats, options, check)
    for name, X in (("X", adata.X), *adata.layers.items()):
        if sp.issparse(X) and hasattr(X, "check_format"):
            _check_indices(path, name, X)
    _check_content(adata, path)
    _check_unique(adata, path, unique_names)
    return adata


def _read_first(path: Path, formats: list[Format], options: ReadOptions, watched: bool) -> Any:
    """Check a file and return what the first of its formats makes of it."""
    for check in dict.fromkeys(each.check for each in formats):
        if check is not None:
            check(path, watched)
    for each in formats:
        adata = each.read(path, options)
        if adata is not None:
            return adata
    names = " or ".join(each.description for each in formats)
    raise InputError(f"{path} does not hold what a file of {names} holds.")


@contextmanager
def _one_sentence_errors(path: Path) -> Iterator[None]:
    """Turn whatever a library raises on a damaged file into one sentence with its name."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(Observation|Variable) names are not unique")
        warnings.filterwarnings("ignore", "Transforming to str index")  # even if it is empty
        warnings.filterwarnings("ignore", category=FutureWarning)
        warnings.filterwarnings("ignore", category=RuntimeWarning)  # too large for float32
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        try:
            yield
        except Exception as error:  # the errors of libraries are not documented
            _clear_frames(error)
            if isinstance(error, InputError | TooLargeError):
                raise
            if isinstance(error, OSError) and error.filename is not None:
                raise  # the system's, which names the file
            reason = f"{path} cannot be read: {_first_line(error)}"
            for kind in (FileNotFoundError, PermissionError, MemoryError):
                if isinstance(error, kind):
                    raise kind(reason) from error
            if isinstance(error, ImportError):
                needed = error.name or _first_line(error)
                raise ImportError(f"Reading {path} needs {needed}: {INSTALL}") from error
            raise InputError(reason) from error


def _clear_frames(error: BaseException | None) -> None:
    """Empty the frames that an error keeps alive.

    h5py <= 3.10 holds its lock while a loop over a group is not done: whoever keeps the error
    (a notebook does) would keep other threads from reading any file, for ever.
    """
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


def _first_line(error: BaseException) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[0].strip() if lines else type(error).__name__


def _check_indices(path: Path, name: Any, X: Any) -> None:
    """Raise if the indices of a sparse matrix are out of range: compiled code would use them."""
    try:
        X.check_format(full_check=True)
    except ValueError as error:
        raise InputError(f"{path} is damaged, in {one_line(name)}: {_first_line(error)}") from None


def _check_content(adata: AnnData, path: Path) -> None:
    """Raise if there are no data, or if X does not hold numbers."""
    if adata.n_obs == 0 or adata.n_vars == 0:
        raise InputError(f"{path} holds {adata.n_obs} cells x {adata.n_vars} genes: no data.")
    if adata.X is None and not adata.layers:
        raise InputError(f"{path} has neither X nor layers: no data.")
    for name, X in (("X", adata.X), *adata.layers.items()):
        kind = np.dtype(getattr(X, "dtype", float)).kind
        # A layer may hold text; complex numbers would lose a part of them wherever it is used.
        if kind == "c" or (name == "X" and kind not in "fiub"):
            raise InputError(
                f"{path} holds {X.dtype} values in {one_line(name)}, which must be real numbers."
            )


def _check_unique(adata: AnnData, path: Path, unique_names: bool) -> None:
    """Raise if names of cells or genes are repeated, or number them and warn."""
    for what, names, make_unique in (
        ("cell", adata.obs_names, adata.obs_names_make_unique),
        ("gene", adata.var_names, adata.var_names_make_unique),
    ):
        if names.is_unique:
            continue
        again = repeated(names)
        first = f"(the first is {str(again[0])!r})"
        if not unique_names:
            raise InputError(
                f"{path} has {len(again)} repeated {what} names {first}: give ",
                Term("unique_names", True),
                " to number them.",
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            make_unique()
        warn(f"{len(again)} repeated {what} names were numbered {first}.", stacklevel=3)
