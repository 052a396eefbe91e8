"""Gram matrices that grow: columns asked for again are not computed again."""

from __future__ import annotations

import numpy as np

from ksparse.matrix.base import Floats, Ints, Matrix

__all__ = ["GramCache"]

MAX_COLUMNS = 1000


class GramCache:
    """Xc[:, A]' Xc[:, A] for sets A that overlap from call to call.

    At most `max_columns` columns are kept (or as many as one call asks for).
    """

    def __init__(self, matrix: Matrix, max_columns: int = MAX_COLUMNS) -> None:
        self.matrix = matrix
        self.max_columns = max_columns
        self._place = np.full(matrix.shape[1], -1, dtype=np.intp)
        self._columns: Ints = np.empty(0, dtype=np.intp)
        self._gram = np.empty((0, 0))

    def __call__(self, columns: Ints) -> Floats:
        """Gram matrix of these columns, in their order."""
        new = columns[self._place[columns] < 0]
        if new.size:
            if self._columns.size + new.size > self.max_columns:
                self._place[self._columns] = -1
                self._columns, self._gram, new = self._columns[:0], np.empty((0, 0)), columns
            known = self._columns.size
            # In one pass over the data: what is new, with itself and with what is known.
            strip = self.matrix.gram(np.concatenate([self._columns, new]), new)
            cross, corner = strip[:known], strip[known:]
            self._gram = np.block([[self._gram, cross], [cross.T, corner]])
            self._place[new] = np.arange(self._columns.size, self._columns.size + new.size)
            self._columns = np.concatenate([self._columns, new])
        place = self._place[columns]
        return self._gram[np.ix_(place, place)]
