"""Some groups of a column of `obs`, where not all cells are clustered."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from ksparse._errors import InputError, Term

__all__ = ["Restriction", "read_restriction"]


@dataclass(frozen=True)
class Restriction:
    """The column of `obs`, and those of its groups whose cells are clustered."""

    column: str
    groups: tuple[str, ...]

    @property
    def prefix(self) -> str:
        """What the names of the clusters begin with, as in scanpy."""
        return "-".join(self.groups) + ","

    @property
    def words(self) -> list[str]:
        """The column and the groups, as they are stored."""
        return [self.column, *self.groups]

    @property
    def text(self) -> str:
        """The same as JSON text."""
        return json.dumps(self.words)


def read_restriction(restrict_to: Any) -> Restriction | None:
    """Return what users gave as `restrict_to`; raise ValueError if it is no (column, groups)."""
    if restrict_to is None:
        return None
    pair = restrict_to if isinstance(restrict_to, list | tuple) else ()
    if len(pair) != 2 or not isinstance(pair[0], str):
        raise InputError(
            Term("restrict_to"), f" must be a pair (column, groups), got {restrict_to!r}."
        )
    column, groups = pair
    if isinstance(groups, str):
        groups = [groups]
    names = [str(group) for group in groups] if np.iterable(groups) else []
    if not names:
        raise InputError(
            Term("restrict_to"), f" must name at least one group of {column!r}, got {groups!r}."
        )
    return Restriction(column, tuple(dict.fromkeys(names)))
