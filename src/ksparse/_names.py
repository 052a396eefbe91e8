"""Repeated names of cells, genes and features."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeVar

__all__ = ["repeated"]

Name = TypeVar("Name", bound=Hashable)


def repeated(names: Iterable[Name]) -> list[Name]:
    """Return every name that occurred before, in order, as often as it occurs again.

    Parameters
    ----------
    names : iterable
        Names.

    Returns
    -------
    list
        Empty if all names are different.

    Examples
    --------
    >>> from ksparse._names import repeated
    >>> repeated(["Actb", "Gapdh", "Actb", "Actb"])
    ['Actb', 'Actb']
    """
    before: set[Name] = set()
    again: list[Name] = []
    for name in names:
        if name in before:
            again.append(name)
        before.add(name)
    return again
