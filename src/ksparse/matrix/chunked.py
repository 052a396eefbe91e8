"""Blocks of rows that are the chunks of a dask array, on whatever scheduler is active."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ksparse._errors import InputError, Term
from ksparse.matrix.blocks import Blocks, as_block
from ksparse.matrix.marks import Mark, Marks, block_mark
from ksparse.matrix.stored import float_type

__all__ = ["DaskBlocks"]

# How many results are combined at a time where they are: few travel to the client.
FAN_IN = 8
# Labels and weights are sent with the tasks: unlike scattered data they outlive a worker.
QUIET = {"distributed.admin.large-graph-warning-threshold": "10GB"}


class DaskBlocks(Blocks):
    """Row chunks, dense or sparse.

    Parameters
    ----------
    array : dask.array.Array, samples x features
        Chunks along features are put together, with a warning.
    """

    in_parallel = True

    def __init__(self, array: Any) -> None:
        if array.ndim != 2:
            raise InputError(f"X has {array.ndim} dimensions, but must have 2: samples x features.")
        if np.isnan(array.shape[0]) or any(np.isnan(size) for size in array.chunks[0]):
            raise InputError(
                "The chunks of X have unknown sizes: call ",
                Term("X.compute_chunk_sizes()"),
                " first.",
            )
        if array.numblocks[1] > 1:
            warnings.warn(
                f"X has {array.numblocks[1]} chunks along its features, which are put together: "
                "chunk along samples only, to spare that in every pass.",
                UserWarning,
                stacklevel=5,
            )
            array = array.rechunk({1: -1})
        self.shape = self._array_shape = (int(array.shape[0]), int(array.shape[1]))
        self.dtype = float_type(array.dtype)
        edges = np.concatenate([[0], np.cumsum(array.chunks[0])]).astype(int)
        pairs = list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))
        chunks = array.to_delayed().ravel().tolist()
        filled = [i for i, (start, stop) in enumerate(pairs) if stop > start]
        self.bounds = [pairs[i] for i in filled]
        self._chunks = [chunks[i] for i in filled]
        self._marks = Marks(self.bounds)

    def _common(self, work: Callable[..., Any], shared: Sequence[Any]) -> tuple[Any, ...]:
        types = (self._array_shape[1], self.dtype, self.shape[1])
        return (self.steps, types, work, tuple(shared))

    def first(self) -> Any:
        """Return the first block."""
        n_rows = self.bounds[0][1]
        block, marks = _apply(self._chunks[0].compute(), n_rows, (), self._common(_same, ()))
        self._check(marks)
        return block

    def _check(self, marks: Sequence[Mark]) -> None:
        """Raise InputError if chunks are not what they were in an earlier pass."""
        for place, mark in enumerate(marks):
            self._marks.check(place, mark)

    def _tasks(
        self, work: Callable[..., Any], shared: Sequence[Any], by_block: Sequence[Sequence[Any]]
    ) -> list[Any]:
        """Return a task for each block: its result, and its mark, made where the block is."""
        from dask.delayed import delayed

        self.n_passes += 1
        apply = delayed(_apply, pure=False, traverse=False)
        common = delayed(self._common(work, shared), pure=False, traverse=False)
        entries = zip(*by_block, strict=True) if by_block else iter([()] * len(self.bounds))
        return [
            apply(chunk, stop - start, mine, common)
            for chunk, (start, stop), mine in zip(self._chunks, self.bounds, entries, strict=True)
        ]

    def results(
        self, work: Callable[..., Any], shared: Sequence[Any], *by_block: Sequence[Any]
    ) -> Iterator[Any]:
        """Yield what `work` makes of each block."""
        done = _computed(self._tasks(work, shared, by_block))
        self._check([mark for _, marks in done for mark in marks])
        yield from (result for result, _ in done)

    def total(
        self,
        work: Callable[..., Any],
        shared: Sequence[Any],
        *by_block: Sequence[Any],
        combine: Callable[[Any, Any], Any] = np.add,
    ) -> Any:
        """Combine the results in a tree that depends on the chunks alone."""
        from dask.delayed import delayed

        level = self._tasks(work, shared, by_block)
        fold = delayed(_fold, pure=False)
        while len(level) > 1:
            groups = [level[i : i + FAN_IN] for i in range(0, len(level), FAN_IN)]
            level = [fold(combine, group) for group in groups]
        ((result, marks),) = _computed(level)
        self._check(marks)
        return result


def _computed(tasks: Sequence[Any]) -> tuple[Any, ...]:
    """Return the results of tasks, from the scheduler that is active."""
    from dask import base, config

    # Its settings must not be touched before it has made them.
    with config.set(QUIET if "distributed" in sys.modules else {}):
        return tuple(base.compute(*tasks))  # type: ignore[no-untyped-call]


def _same(block: Any) -> Any:
    return block


def _apply(
    chunk: Any, n_rows: int, mine: Sequence[Any], common: tuple[Any, ...]
) -> tuple[Any, list[Mark]]:
    """Return what `work` makes of a chunk, and the mark of the chunk."""
    steps, (n_stored, dtype, n_columns), work, shared = common
    block = as_block(chunk, chunk.dtype, (n_rows, n_stored))
    marks = [block_mark(block)]
    for step in steps:
        block = step(block)
    return work(as_block(block, dtype, (n_rows, n_columns)), *mine, *shared), marks


def _fold(
    combine: Callable[[Any, Any], Any], results: Sequence[tuple[Any, list[Mark]]]
) -> tuple[Any, list[Mark]]:
    out, marks = results[0]
    for result, more in results[1:]:
        out, marks = combine(out, result), marks + more
    return out, marks
