"""From a path to AnnData: which reader, and what all of them must hold to."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from ksparse.readers._hdf5 import read_h5, read_loom
from ksparse.readers._mtx import is_mtx_folder, read_mtx
from ksparse.readers._npz import read_npz
from ksparse.readers._table import read_table
from ksparse.readers._zarr import is_zarr, read_zarr

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = ["read"]

KINDS = ".h5ad, .zarr, .h5 (10x), a folder with matrix.mtx, .loom, .csv, .tsv (or .gz), .npz"
TABLES = {".csv": ",", ".tsv": "\t", ".txt": "\t"}


def read(
    path: str | Path,
    *,
    transpose: bool = False,
    label_column: str | None = None,
    unique_names: bool = False,
) -> AnnData:
    """Read a data file: .h5ad, .zarr, 10x .h5 or folder, .loom, .csv, .tsv, .npz.

    Parameters
    ----------
    path : path
        File or folder. Tables may be gzipped, and so may the files of a 10x folder.
    transpose : bool, default=False
        Whether a table (.csv, .tsv, .npz) has genes in rows.
    label_column : str, optional
        A column of a table that holds labels, not numbers.
    unique_names : bool, default=False
        Whether to number repeated names of cells and genes; otherwise they are refused.

    Returns
    -------
    AnnData
        Cells x genes; tables that are mostly zeros become sparse.

    Raises
    ------
    ValueError
        If the file is damaged, or not of a kind that can be read. Nothing in a file is ever
        executed: pickled objects are refused, and so are links to other files.
    MemoryError
        If it holds more than fits in memory.
    OSError
        If there is no such file, or it may not be read.

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
        raise ImportError(
            "Reading files needs anndata: install it with  pip install 'ksparse[anndata]'"
        ) from None
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist.")
    suffix = (Path(path.stem).suffix if path.suffix == ".gz" else path.suffix).lower()
    reader: Callable[[], Any]
    if path.is_dir() and (suffix == ".zarr" or is_zarr(path)):
        reader = lambda: read_zarr(path)  # noqa: E731
    elif path.is_dir():
        if not is_mtx_folder(path):
            raise ValueError(f"{path} is a folder without matrix.mtx, and no .zarr: give {KINDS}.")
        reader = lambda: read_mtx(path)  # noqa: E731
    elif suffix in (".h5ad", ".h5", ".hdf5"):
        reader = lambda: read_h5(path)  # noqa: E731
    elif suffix == ".loom":
        reader = lambda: read_loom(path)  # noqa: E731
    elif suffix in TABLES:
        reader = lambda: read_table(path, TABLES[suffix], transpose, label_column)  # noqa: E731
    elif suffix == ".npz":
        reader = lambda: read_npz(path, transpose)  # noqa: E731
    elif suffix == ".mtx":
        raise ValueError(f"{path} is one file of three: give its folder, {path.parent}.")
    else:
        raise ValueError(f"{path} is of no kind that can be read: give {KINDS}.")
    if transpose and suffix not in (*TABLES, ".npz"):
        raise ValueError(f"transpose is for tables, and {path.name} says which way round it is.")
    adata = _guarded(path, reader)
    for name, X in (("X", adata.X), *adata.layers.items()):
        if sp.issparse(X) and hasattr(X, "check_format"):
            _sound(path, name, X)
    _check(adata, path, unique_names)
    return adata


def _sound(path: Path, name: Any, X: Any) -> None:
    """Refuse a sparse matrix whose indices point elsewhere: compiled code would follow them."""
    try:
        X.check_format(full_check=True)
    except ValueError as error:
        raise ValueError(f"{path} is damaged, in {name}: {_first_line(error)}") from None


def _guarded(path: Path, reader: Callable[[], Any]) -> Any:
    """Read; whatever a library stumbles over in a damaged file becomes one sentence."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(Observation|Variable) names are not unique")
        warnings.filterwarnings("ignore", "Transforming to str index")  # even if it is empty
        warnings.filterwarnings("ignore", category=FutureWarning)
        warnings.filterwarnings("ignore", category=RuntimeWarning)  # too large for float32
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        try:
            return reader()
        except (ValueError, OSError, MemoryError, ImportError) as error:
            _let_go(error)
            # Ours name the file; those of libraries may not, and may have many lines.
            if str(path) in str(error) and "\n" not in str(error):
                raise
            raise ValueError(f"{path} cannot be read: {_first_line(error)}") from error
        except Exception as error:  # the libraries' ways to fail are not documented
            _let_go(error)
            raise ValueError(f"{path} cannot be read: {_first_line(error)}") from error


def _let_go(error: BaseException | None) -> None:
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


def _check(adata: AnnData, path: Path, unique_names: bool) -> None:
    if adata.n_obs == 0 or adata.n_vars == 0:
        raise ValueError(f"{path} holds {adata.n_obs} cells x {adata.n_vars} genes: no data.")
    for what, names, number in (
        ("cell", adata.obs_names, adata.obs_names_make_unique),
        ("gene", adata.var_names, adata.var_names_make_unique),
    ):
        if names.is_unique:
            continue
        repeated = names[names.duplicated()]
        if not unique_names:
            raise ValueError(
                f"{path} has {len(repeated)} repeated {what} names (the first is "
                f"{str(repeated[0])!r}): give --unique-names to number them."
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            number()
        warnings.warn(
            f"{len(repeated)} repeated {what} names were numbered (the first is "
            f"{str(repeated[0])!r}).",
            UserWarning,
            stacklevel=3,
        )
    if adata.X is None and not adata.layers:
        raise ValueError(f"{path} has neither X nor layers: no data.")
    values = getattr(adata.X, "dtype", None)
    if values is not None and np.dtype(values).kind not in "fiub":
        raise ValueError(f"{path} holds {values} values in X, which must be numbers.")
