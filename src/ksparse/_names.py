"""Names of cells, genes, features and groups: repeated ones, and lists of them in messages."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

__all__ = ["called", "listed", "repeated"]

# Names that one message lists.
MAX_LISTED = 10

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


def listed(names: Sequence[str]) -> str:
    """Return names for a message: the first ten, and how many more there are.

    Parameters
    ----------
    names : sequence of str
        Names.

    Returns
    -------
    str

    Examples
    --------
    >>> from ksparse._names import listed
    >>> listed(["Actb", "Gapdh"])
    'Actb, Gapdh'
    >>> listed(["Actb"] * 12)[-17:]
    ', Actb and 2 more'
    """
    more = len(names) - MAX_LISTED
    return ", ".join(names[:MAX_LISTED]) + (f" and {more} more" if more > 0 else "")


def called(name: str, noun: str) -> str:
    """Return the name of a group as it stands in a sentence: numbers say what they count.

    Parameters
    ----------
    name : str
        The name.
    noun : str
        What it is, such as "cluster".

    Returns
    -------
    str

    Examples
    --------
    >>> from ksparse._names import called
    >>> called("3", "cluster"), called("T cells", "cluster")
    ('cluster 3', 'T cells')
    """
    return f"{noun} {name}" if name.isdecimal() else name
