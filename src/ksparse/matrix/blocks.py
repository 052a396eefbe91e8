"""Data that come in blocks of rows, from files or from a cluster, behind the matrix protocol.

Nothing here holds more than a few blocks: what is kept is of the size of samples x components
or features x components. Every product is one pass over the data, in which each block is
seen once; what blocks contribute is added in a fixed order.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksparse._errors import InputError
from ksparse.matrix.bad_data import check_indices
from ksparse.matrix.base import DenseMatrix, Floats, Frame, Ints, Matrix, project_dense
from ksparse.matrix.sparse import SparseMatrix, project_sparse

__all__ = ["BlockMatrix", "Blocks", "SomeRows", "as_block", "in_memory", "project_block"]

Step = Callable[[Any], Any]


class Blocks(ABC):
    """Rows of a large matrix in blocks, each small enough for memory.

    Whoever reads a block checks that it is what it was when it was read first (`marks.py`).

    Attributes
    ----------
    shape, dtype
        Of all the data; float32 or float64.
    bounds : list of (int, int)
        First row, and row after the last, of each block.
    in_parallel : bool
        Whether blocks are worked on at the same time.
    steps : tuple of functions
        What is done to each block when it is read, such as normalisation: functions of the
        rows alone.
    n_passes : int
        How often the data were read.
    """

    in_parallel = False

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    bounds: list[tuple[int, int]]
    steps: tuple[Step, ...] = ()
    n_passes: int = 0

    @abstractmethod
    def results(
        self, work: Callable[..., Any], shared: Sequence[Any], *by_block: Sequence[Any]
    ) -> Iterator[Any]:
        """Yield work(block, *mine, *shared) for each block in turn.

        `mine` are the entries of `by_block` that belong to the block.
        """

    def total(
        self,
        work: Callable[..., Any],
        shared: Sequence[Any],
        *by_block: Sequence[Any],
        combine: Callable[[Any, Any], Any] = np.add,
    ) -> Any:
        """Combine the results of all blocks, in a fixed order."""
        out = None
        for result in self.results(work, shared, *by_block):
            out = result if out is None else combine(out, result)
        return out

    @abstractmethod
    def first(self) -> Any:
        """Return the first block, in memory."""

    def check_shareable(self) -> None:  # noqa: B027
        """Raise InputError if other processes cannot open the same data."""

    def with_steps(self, *steps: Step, n_columns: int | None = None, dtype: Any = None) -> Blocks:
        """Return the same data with further steps, which may change type and columns."""
        out = object.__new__(type(self))  # not `copy`, which would open files again
        out.__dict__.update(self.__dict__)
        out.steps = (*self.steps, *steps)
        out.shape = (self.shape[0], self.shape[1] if n_columns is None else n_columns)
        out.dtype = self.dtype if dtype is None else np.dtype(dtype)
        return out

    def pick(self, columns: Ints) -> Blocks:
        """Return some of the features of the same data."""
        return self.with_steps(partial(_pick, columns=columns), n_columns=columns.size)

    def cut(self, values: NDArray[Any] | None) -> list[Any]:
        """Return values of all rows, as a list with those of each block."""
        if values is None:
            return [None] * len(self.bounds)
        return [values[start:stop] for start, stop in self.bounds]

    def take(self, rows: Ints) -> Any:
        """Return some of the rows, in memory, in one pass."""
        order = np.argsort(rows, kind="stable")
        places = self.places(rows[order])
        parts = self.results(_take, (), places)
        first = next(parts)
        if sp.issparse(first):
            whole: Any = sp.csr_matrix(sp.vstack([first, *parts], format="csr"))
        else:
            whole, filled = np.empty((rows.size, self.shape[1]), dtype=self.dtype), 0
            for part in chain([first], parts):
                part = part.toarray() if sp.issparse(part) else part
                whole[filled : filled + len(part)] = part
                filled += len(part)
        if np.array_equal(order, np.arange(order.size)):
            return whole
        place = np.empty_like(order)
        place[order] = np.arange(order.size)
        return whole[place]

    def places(self, rows: Ints) -> list[Ints]:
        """Return rows (increasing) as places in each block."""
        edges = np.searchsorted(rows, [start for start, _ in self.bounds] + [self.shape[0]])
        return [rows[edges[i] : edges[i + 1]] - start for i, (start, _) in enumerate(self.bounds)]


class SomeRows(Blocks):
    """Some of the rows of other blocks, which must increase."""

    def __init__(self, blocks: Blocks, rows: Ints) -> None:
        self._blocks, self._places = blocks, blocks.places(rows)
        self.shape, self.dtype = (rows.size, blocks.shape[1]), blocks.dtype
        edges = np.concatenate([[0], np.cumsum([place.size for place in self._places])]).tolist()
        self.bounds = list(pairwise(edges))

    @property
    def n_passes(self) -> int:  # type: ignore[override]
        """How often the data were read."""
        return self._blocks.n_passes

    def with_steps(self, *steps: Step, n_columns: int | None = None, dtype: Any = None) -> Blocks:
        """Return the same rows with further steps: they are functions of each row alone."""
        out = copy.copy(self)
        out._blocks = self._blocks.with_steps(*steps, n_columns=n_columns, dtype=dtype)
        out.shape, out.dtype = (self.shape[0], out._blocks.shape[1]), out._blocks.dtype
        return out

    def first(self) -> Any:
        return self._blocks.first()[self._places[0]]

    def check_shareable(self) -> None:
        self._blocks.check_shareable()

    def results(
        self, work: Callable[..., Any], shared: Sequence[Any], *by_block: Sequence[Any]
    ) -> Iterator[Any]:
        yield from self._blocks.results(_on_some, (work, tuple(shared)), self._places,
                                        _zipped(by_block, len(self.bounds)))  # fmt: skip

    def total(
        self,
        work: Callable[..., Any],
        shared: Sequence[Any],
        *by_block: Sequence[Any],
        combine: Callable[[Any, Any], Any] = np.add,
    ) -> Any:
        mine = _zipped(by_block, len(self.bounds))
        return self._blocks.total(
            _on_some, (work, tuple(shared)), self._places, mine, combine=combine
        )


def _zipped(by_block: Sequence[Sequence[Any]], n: int) -> list[tuple[Any, ...]]:
    return list(zip(*by_block, strict=True)) if by_block else [()] * n


def _on_some(
    block: Any, rows: Ints, mine: tuple[Any, ...], work: Callable[..., Any], shared: Any
) -> Any:
    return work(block[rows], *mine, *shared)


def as_block(block: Any, dtype: Any, shape: tuple[int, int]) -> Any:
    """Return a block of that type, as CSR with sorted, distinct indices or as an array."""
    if tuple(block.shape) != shape:
        raise InputError(f"A block of X has shape {block.shape}, which should be {shape}.")
    if not sp.issparse(block):
        return np.asarray(block, dtype=dtype)
    check_indices(block)
    block = block if block.format == "csr" else block.tocsr()
    block = block.astype(dtype, copy=False)
    if not block.has_canonical_format:
        block = block.copy()
        block.sum_duplicates()
    return block


def in_memory(X: Any, **options: Any) -> Matrix:
    """Return the view that fits an array or a sparse matrix."""
    return (SparseMatrix if sp.issparse(X) else DenseMatrix)(X, **options)


# What is done to one block. Functions of a module, so that other processes can find them.


def _part(block: Any, weight: Floats | None, frame: Frame) -> Matrix:
    kind = SparseMatrix if sp.issparse(block) else DenseMatrix
    return kind.part_of(frame, block, weight)


def _pick(block: Any, columns: Ints) -> Any:
    return block[:, columns]


def _take(block: Any, rows: Ints) -> Any:
    return block[rows]


def project_block(block: Any, mean: Floats, factor: Floats, W: NDArray[Any]) -> Floats:
    """Return (X - 1 mean') diag(factor) W for rows in memory."""
    project = project_sparse if sp.issparse(block) else project_dense
    return project(block, mean, factor, W)


def _correlate(block: Any, weight: Floats | None, T: Floats, frame: Frame) -> Floats:
    return _part(block, weight, frame).correlate(T)


def _normal(block: Any, weight: Floats | None, frame: Frame, W: Floats) -> Floats:
    return _part(block, weight, frame).normal(W)


def _cluster_sums(
    block: Any, weight: Floats | None, labels: Ints, frame: Frame, n_clusters: int
) -> Floats:
    return _part(block, weight, frame).cluster_sums(labels.astype(np.intp), n_clusters)


def _gram(
    block: Any, weight: Floats | None, frame: Frame, columns: Ints, others: Ints | None
) -> Floats:
    return _part(block, weight, frame).gram(columns, others)


def _columns(block: Any, frame: Frame, index: Ints) -> Floats:
    return _part(block, None, frame).columns(index)


class Moments(NamedTuple):
    """Total weight, means, sums of squared deviations, largest magnitude, kinds of storage.

    `largest` is NaN if a value is NaN or infinite; `sparse` says whether blocks are sparse.
    """

    weight: float
    mean: Floats
    square: Floats
    largest: float
    sparse: frozenset[bool]


def _moments(block: Any, weight: Floats | None) -> Moments:
    values = block.data if sp.issparse(block) else block
    # No copy: NaN and infinity show in the extremes.
    largest = float(max(values.max(initial=0.0), -values.min(initial=0.0)))
    if not np.isfinite(largest):
        zero = np.zeros(block.shape[1])
        return Moments(0.0, zero, zero, np.nan, frozenset({sp.issparse(block)}))
    with np.errstate(over="ignore", invalid="ignore"):  # values too large are refused later
        view = in_memory(block, sample_weight=weight)
    total = view.total_weight
    if total == 0:
        zero = np.zeros(block.shape[1])
        return Moments(0.0, zero, zero, largest, frozenset({sp.issparse(block)}))
    square = view.variance * total
    return Moments(total, view.mean, square, largest, frozenset({sp.issparse(block)}))


def _merged(a: Moments, b: Moments) -> Moments:
    """Return the moments of two groups of rows together (Chan, Golub and LeVeque)."""
    weight = a.weight + b.weight
    share = b.weight / weight if weight > 0 else 0.0
    step = b.mean - a.mean
    return Moments(
        weight,
        a.mean + step * share,
        a.square + b.square + step**2 * (a.weight * share),
        float(np.maximum(a.largest, b.largest)),  # NaN stays
        a.sparse | b.sparse,
    )


class BlockMatrix(Matrix):
    """Centred and scaled view of `Blocks`."""

    X: Blocks
    largest: float
    mixed: bool

    @property
    def in_parallel(self) -> bool:
        return self.X.in_parallel

    def check_shareable(self) -> None:
        self.X.check_shareable()

    def _sum(self, work: Callable[..., Any], shared: Sequence[Any], *by_block: Any) -> Floats:
        return np.asarray(self.X.total(work, shared, self.X.cut(self.sample_weight), *by_block))

    def _stack(self, work: Callable[..., Any], shared: Sequence[Any], width: int) -> Floats:
        out = np.empty((self.shape[0], width))
        results = self.X.results(work, shared)
        for (start, stop), part in zip(self.X.bounds, results, strict=True):
            out[start:stop] = part
        return out

    def _moments(self) -> tuple[Floats, Floats]:
        moments = self.X.total(_moments, (), self.X.cut(self.sample_weight), combine=_merged)
        self.largest, self.mixed = moments.largest, len(moments.sparse) > 1
        return moments.mean, moments.square / self.total_weight

    def project(self, W: Floats) -> Floats:
        return self._stack(project_block, (self.mean, self.factor, W), W.shape[1])

    def correlate(self, T: Floats) -> Floats:
        return self._sum(_correlate, (self.frame,), self.X.cut(T))

    def normal(self, W: Floats) -> Floats:
        return self._sum(_normal, (self.frame, W))

    def cluster_sums(self, labels: Ints, n_clusters: int) -> Floats:
        mine = self.X.cut(labels.astype(np.int32))
        return self._sum(_cluster_sums, (self.frame, n_clusters), mine)

    def gram(self, columns: Ints, others: Ints | None = None) -> Floats:
        return self._sum(_gram, (self.frame, columns, others))

    def columns(self, index: Ints) -> Floats:
        return self._stack(_columns, (self.frame, index), index.size)

    def rows(self, index: Ints) -> Matrix:
        weight = None if self.sample_weight is None else self.sample_weight[index]
        child = in_memory(self.X.take(index), sample_weight=weight, center=self.center)
        child.factor = np.where(child.constant, 0.0, self.factor)
        return child
