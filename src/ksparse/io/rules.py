"""Rules for stored values: what is read from files of others is checked before it is used.

A value that is missing, of another kind or length, or not finite, would otherwise give a wrong
answer or fail somewhere else, where nobody can tell why.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["MissingError", "Rule", "UnsoundError", "check_mapping", "check_stored", "is_text"]

# Kinds of numpy types that a stored value may have; numbers that stand alone may be integers.
KINDS = {"flag": "b", "count": "iu", "number": "f", "text": "UOT"}
WORDS = {"flag": "True or False", "count": "integers", "number": "floating-point numbers",
         "text": "text"}  # fmt: skip


class UnsoundError(ValueError):
    """A stored value breaks a rule; the message begins with the name of the field."""


class MissingError(UnsoundError):
    """A stored value is missing."""


class Rule(NamedTuple):
    """What a stored value must be.

    Attributes
    ----------
    kind : {"flag", "count", "number", "text"}
        True or False, integers >= 0, floating-point numbers, text.
    sizes : tuple of str
        What the axes of an array stand for, such as ("genes", "components"): axes of one name
        have one length, and that is at least 1 unless the name is in `may_be_empty`. Without
        axes it is a single value.
    least, most : float
        Bounds of numbers.
    finite : bool
        Whether numbers may be neither NaN nor infinite.
    optional : bool
        Whether the value may be missing, or None.
    or_auto : bool
        Whether the value may be the text "auto" instead.
    """

    kind: str
    sizes: tuple[str, ...] = ()
    least: float = -np.inf
    most: float = np.inf
    finite: bool = True
    optional: bool = False
    or_auto: bool = False


def is_text(value: Any, text: str) -> bool:
    """Return whether a stored value is this text; it may be anything, nested in any depth."""
    return isinstance(value, str) and value == text


def check_mapping(name: str, value: Any) -> Mapping[str, Any]:
    """Return a stored dictionary; raise UnsoundError if it is none."""
    if not isinstance(value, Mapping):
        raise UnsoundError(f"{name} is {type(value).__name__}, which should be a dictionary")
    return value


def check_stored(
    stored: Mapping[str, Any],
    rules: Mapping[str, Rule],
    sizes: dict[str, int],
    *,
    within: str = "",
    may_be_empty: tuple[str, ...] = (),
) -> None:
    """Raise UnsoundError at the first stored value that breaks its rule.

    Parameters
    ----------
    stored : mapping
        The values.
    rules : mapping of Rule
        The rule of each; other values are not looked at.
    sizes : dict of int
        The lengths that are known; those that are found are added.
    within : str
        What comes before the names in messages, such as "model.".
    may_be_empty : tuple of str
        The sizes that may be 0.
    """
    for name, rule in rules.items():
        value = stored.get(name)
        if value is None:
            if rule.optional:
                continue
            raise MissingError(f"{within}{name} is missing")
        if rule.or_auto and is_text(value, "auto"):
            continue
        array = _array(f"{within}{name}", value, rule)
        _check_shape(f"{within}{name}", array, rule, sizes, may_be_empty)
        _check_range(f"{within}{name}", array, rule)


def _array(name: str, value: Any, rule: Rule) -> NDArray[Any]:
    """Return a value as an array of the kind of the rule."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        raise UnsoundError(f"{name} is no array") from None
    kinds = KINDS[rule.kind] + ("iu" if rule.kind == "number" and not rule.sizes else "")
    fits = array.dtype.kind in kinds
    if rule.kind == "text" and fits:
        fits = all(isinstance(entry, str) for entry in array.ravel().tolist())
    if rule.kind == "number" and array.dtype.kind == "f":
        fits = array.dtype.itemsize in (4, 8)
    if not fits:
        found = type(value).__name__ if array.dtype.kind == "O" else array.dtype
        raise UnsoundError(f"{name} holds {found}, which should be {WORDS[rule.kind]}")
    return array


def _check_shape(
    name: str, array: NDArray[Any], rule: Rule, sizes: dict[str, int], may_be_empty: tuple[str, ...]
) -> None:
    if array.ndim != len(rule.sizes):
        raise UnsoundError(f"{name} has {array.ndim} dimensions, which should be {len(rule.sizes)}")
    for axis, length in zip(rule.sizes, array.shape, strict=True):
        if length == 0 and axis not in may_be_empty:
            raise UnsoundError(f"{name} is empty")
        if length != sizes.setdefault(axis, length):
            raise UnsoundError(f"{name} is of {length} {axis}, which should be {sizes[axis]}")


def _check_range(name: str, array: NDArray[Any], rule: Rule) -> None:
    if rule.kind in ("flag", "text"):
        return
    if rule.finite and not np.isfinite(array).all():
        raise UnsoundError(f"{name} holds NaN or infinity, which should be finite")
    least = max(rule.least, 0) if rule.kind == "count" else rule.least
    known = array[~np.isnan(array)]
    if known.size and known.min() < least:
        raise UnsoundError(f"{name} holds {known.min()}, which should be >= {least:g}")
    if known.size and known.max() > rule.most:
        raise UnsoundError(f"{name} holds {known.max()}, which should be <= {rule.most:g}")
