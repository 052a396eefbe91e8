"""The record of a result in AnnData: `uns[key]`, written and read here alone.

Every record carries the name and the version of its encoding. Records without them, which
were written before there were any, have the same fields and are read, too.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ksparse._errors import InputError, Term
from ksparse.io.archives import one_line
from ksparse.io.rules import MissingError, Rule, UnsoundError, check_mapping, check_stored, is_text
from ksparse.scverse.record_checks import RULES, check_path, check_record, check_run
from ksparse.scverse.restriction import Restriction

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = [
    "ANOTHER_KEY",
    "RUN_AGAIN",
    "Clusters",
    "Model",
    "PathRecord",
    "Record",
    "Results",
    "check_adata",
    "check_key",
    "copy_adata",
    "field_term",
    "holds_record",
    "package_versions",
    "read_path",
    "read_record",
    "remove_path",
    "sound",
    "write_path",
    "write_record",
]

ENCODING, VERSION = "ksparse-result", 1
MODEL_ENCODING, MODEL_VERSION = "ksparse-model", 1

# Cures that several messages name.
ANOTHER_KEY = Term("another key", text="give another key_added")
RUN_AGAIN = Term("run again", text="run ksparse.tl.ksparse again")

Array = NDArray[Any]
Part = TypeVar("Part")


@dataclass(frozen=True)
class Results:
    """Results of the fit; `normalized` is "log1p", or "no" if the data were not transformed."""

    n_features: int
    eta: float
    gap: float
    converged: bool
    n_iter: int
    n_cells: int
    n_genes: int
    normalized: str
    n_passes: int | None = None
    explained: float | None = None
    explained_bound: float | None = None
    n_outlying: int | None = None


@dataclass(frozen=True)
class Model:
    """The fitted model, of the selected genes only.

    Attributes
    ----------
    genes : ndarray of str
        Names of the selected genes.
    mean, scale : ndarray, one per gene
        What is subtracted from each gene, and what the result is multiplied with.
    weights : ndarray, genes x components
        Their rows of W.
    centroids : ndarray, clusters x components
        Cluster centres in the projection.
    spread : float
        Variance within clusters.
    """

    genes: NDArray[np.str_]
    mean: Array
    scale: Array
    weights: Array
    centroids: Array
    spread: float

    @property
    def gene_weights(self) -> NDArray[np.float64]:
        """The weight of each gene: the norm of its row of W."""
        return np.linalg.norm(np.asarray(self.weights, dtype=np.float64), axis=1)


@dataclass(frozen=True)
class Clusters:
    """Cells in each cluster, and for each selected gene its mean and share of nonzero values.

    `name` has the names of the clusters, where some are classes that were known; `middle`, where
    genes were centred within batches, the means of the batches; `marked`: which a gene marks.
    """

    size: Array
    mean: Array
    fraction: Array
    name: Array | None = None
    middle: Array | None = None
    marked: Array | None = None


@dataclass(frozen=True)
class Record:
    """All that is stored of a result besides its columns and matrices (see `fields.py`).

    Attributes
    ----------
    params : dict
        Parameters that were given; those that are None are left out.
    results : Results
        Results of the fit.
    history : dict of ndarray
        One entry per loop: cost, labels_changed, n_features, eta, gap.
    starts : dict of ndarray
        One entry per start that was tried, with its held-out score.
    model : Model
        The fitted model, to place new cells.
    clusters : Clusters
        Sizes, and expression of the selected genes.
    versions : dict of str
        Versions of ksparse, Python, and the libraries.
    run : dict
        The account that the command line gives of its run; empty for results of Python.
    """

    params: dict[str, Any]
    results: Results
    history: dict[str, Array]
    starts: dict[str, Array]
    model: Model
    clusters: Clusters
    versions: dict[str, str]
    run: dict[str, Any] = field(default_factory=dict)

    @property
    def layer(self) -> str | None:
        """The layer that was clustered (None: X)."""
        layer = self.params.get("layer")
        return None if layer is None else str(layer)

    @property
    def n_clusters(self) -> int:
        """Number of clusters, with or without cells."""
        return len(self.model.centroids)

    @property
    def restriction(self) -> Restriction | None:
        """The cells that were clustered (None: all)."""
        words = self.params.get("restrict_to")
        if words is None:
            return None
        column, *groups = (str(word) for word in words)
        return Restriction(column, tuple(groups))

    @property
    def cluster_names(self) -> list[str]:
        """The names of all clusters as they were written, after any prefix."""
        prefix = self.restriction.prefix if self.restriction else ""
        return [f"{prefix}{name}" for name in self.short_names]

    @property
    def short_names(self) -> list[str]:
        """The same without a prefix: classes that were known, or "0", "1", ..."""
        if self.clusters.name is None:
            return [str(cluster) for cluster in range(self.n_clusters)]
        return [str(name) for name in self.clusters.name]

    @property
    def log_normalised(self) -> bool:
        """Whether log(1 + counts per 10,000) was clustered."""
        return self.results.normalized == "log1p"


def check_adata(adata: Any) -> None:
    """Raise TypeError if this is no AnnData object."""
    try:
        from anndata import AnnData
    except ImportError:
        raise ImportError(
            "ksparse.tl works on AnnData: install it with  pip install 'ksparse[anndata]'"
        ) from None
    if not isinstance(adata, AnnData):
        raise InputError(
            Term("adata"), f" must be an AnnData object, got {type(adata).__name__}: "
            "for arrays and data frames use ", Term("ksparse.KSparse"), ".",
        )  # fmt: skip


def check_key(name: str, value: Any) -> None:
    """Raise ValueError if a value cannot be the name of a field in a file."""
    if not isinstance(value, str) or not value or "/" in value:
        raise InputError(Term(name, value), " must be a name without '/'.")


def field_term(name: str, key: str) -> Term:
    """Return a field of AnnData, such as ``adata.obs['ksparse']``, for messages."""
    return Term(f"adata.{name}[]", key, text=f"adata.{name}[{key!r}]")


def copy_adata(adata: AnnData) -> AnnData:
    """Return a copy, in memory."""
    return adata.to_memory() if adata.isbacked else adata.copy()


# The record in uns[key] ----------------------------------------------------------------------


def write_record(adata: AnnData, key: str, record: Record) -> None:
    """Write a record to `uns[key]`."""
    stored: dict[str, Any] = {
        "encoding": ENCODING,
        "version": VERSION,
        "params": _storable(record.params),
        "results": _as_dict(record.results),
        "history": dict(record.history),
        "starts": dict(record.starts),
        "model": {"encoding": MODEL_ENCODING, "version": MODEL_VERSION, **_as_dict(record.model)},
        "clusters": _as_dict(record.clusters),
        "versions": dict(record.versions),
    }
    if record.run:
        stored["run"] = json.dumps(record.run)
    adata.uns[key] = stored


def holds_record(adata: AnnData, key: str) -> bool:
    """Return whether there is a result in `uns[key]`."""
    stored = adata.uns.get(key)
    if not isinstance(stored, Mapping) or "model" not in stored:
        return False
    return is_text(stored.get("encoding", ENCODING), ENCODING)


def read_record(adata: AnnData, key: str) -> Record:
    """Return the record in `uns[key]`; raise ValueError if there is none that is sound."""
    check_adata(adata)
    if not holds_record(adata, key):
        cure = f"run ksparse.tl.ksparse(adata, n_clusters, key_added={key!r}) first"
        raise InputError(
            Term("no result", text=f"adata.uns[{key!r}] holds no result"), ": ",
            Term("run first", text=cure), ".",
        )  # fmt: skip
    stored = adata.uns[key]
    with sound(field_term("uns", key), RUN_AGAIN):
        _check_version((field_term("uns", key), " is a record"), stored, VERSION)
        model = check_mapping("model", stored["model"])
        if not is_text(model.get("encoding", MODEL_ENCODING), MODEL_ENCODING):
            raise UnsoundError(f"model.encoding should be {MODEL_ENCODING}")
        _check_version((field_term("uns", key), "['model'] is"), model, MODEL_VERSION)
        check_record(stored)
        return _record(stored)


@contextmanager
def sound(name: str | Term, cure: str | Term) -> Iterator[None]:
    """Raise InputError in one line if what is stored under a name breaks a rule."""
    try:
        yield
    except MissingError as missing:
        raise InputError(name, f" is not complete ({one_line(missing)}): ", cure, ".") from None
    except UnsoundError as unsound:
        raise InputError(name, f" is damaged ({one_line(unsound)}): ", cure, ".") from None


def _check_version(name: tuple[str | Term, ...], stored: Mapping[str, Any], newest: int) -> None:
    check_stored(stored, {"version": Rule("count", least=1, optional=True)}, {})
    version = stored.get("version")
    if version is not None and version > newest:
        raise InputError(
            *name, f" of version {version}, and this ksparse reads versions up to {newest}: "
            "install a newer ksparse.",
        )  # fmt: skip


def _record(stored: Mapping[str, Any]) -> Record:
    model = dict(stored["model"])
    # Files give text back in several kinds of arrays.
    model["genes"] = np.array([str(name) for name in np.asarray(model["genes"])], dtype=str)
    return Record(
        params={str(name): _plain(value) for name, value in stored["params"].items()},
        results=_part(Results, stored["results"]),
        history=_columns(stored, "history"),
        starts=_columns(stored, "starts"),
        model=_part(Model, model),
        clusters=_part(Clusters, stored["clusters"]),
        versions={str(name): str(value) for name, value in stored["versions"].items()},
        run=check_run(stored.get("run")),
    )


def _part(kind: type[Part], stored: Mapping[str, Any]) -> Part:
    """Return a dataclass from a stored dictionary; raise KeyError if a field is missing."""
    names = [one.name for one in fields(kind)  # type: ignore[arg-type]
             if one.name in stored or one.default is MISSING]  # fmt: skip
    return kind(**{name: _plain(stored[name]) for name in names})


def _as_dict(part: Any) -> dict[str, Any]:
    values = {one.name: getattr(part, one.name) for one in fields(part)}
    return {name: value for name, value in values.items() if value is not None}


def _columns(stored: Mapping[str, Any], part: str) -> dict[str, Array]:
    return {name: np.asarray(stored[part][name]) for name in RULES[part]}


def _plain(value: Any) -> Any:
    """Return numbers and text as Python objects, and all else as arrays."""
    if isinstance(value, str | bool | int | float):
        return value
    array = np.asarray(value)
    return array.item() if array.ndim == 0 else array


def _storable(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return what HDF5 and zarr can hold of parameters; those that are None are left out."""
    out: dict[str, Any] = {}
    for name, value in params.items():
        if value is None:
            continue
        plain = isinstance(value, bool | int | float | str | np.generic)
        if plain or (isinstance(value, np.ndarray) and value.dtype.kind in "biufU"):
            out[name] = value
        elif isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
            out[name] = np.array(value, dtype=str)
        else:
            out[name] = type(value).__name__ if hasattr(value, "get_state") else str(value)
    return out


def package_versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that results depend on."""
    from importlib.metadata import version

    packages = ("ksparse", "numpy", "scipy", "scikit-learn", "numba", "anndata")
    return {name: version(name) for name in packages} | {"python": platform.python_version()}


# The path of numbers of genes ----------------------------------------------------------------


@dataclass(frozen=True)
class PathRecord:
    """The table of `ksparse.tl.path`, the number of genes it recommends, and of clusters.

    `restrict_to` is the JSON text of the cells that were clustered; empty if these were all.
    """

    columns: dict[str, Array]
    best: int
    n_clusters: int
    restrict_to: str = ""


def write_path(adata: AnnData, key: str, path: PathRecord) -> None:
    """Write a path to `uns[key]`."""
    numbers = {"best": path.best, "n_clusters": path.n_clusters}
    restricted = {"restrict_to": path.restrict_to} if path.restrict_to else {}
    adata.uns[key] = dict(path.columns) | numbers | restricted


def remove_path(adata: AnnData, key: str) -> None:
    """Remove the path in `uns[key]`, if there is one."""
    adata.uns.pop(key, None)


def read_path(adata: AnnData, key: str) -> PathRecord | None:
    """Return the path in `uns[key]`, or None if there is none."""
    stored = adata.uns.get(key)
    if not isinstance(stored, Mapping) or not {"best", "n_clusters"} <= set(stored):
        return None
    with sound(f"adata.uns[{key!r}]", "run ksparse.tl.path again"):
        check_path(stored)
    columns = {name: np.asarray(values) for name, values in stored.items() if np.ndim(values)}
    restricted = str(stored.get("restrict_to", ""))
    return PathRecord(columns, int(stored["best"]), int(stored["n_clusters"]), restricted)
