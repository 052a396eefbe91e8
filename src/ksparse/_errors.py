"""Errors and warnings about what users passed in: worded once, for Python and for the shell.

A message is a sequence of texts and `Term` objects. A term is a word that the command line
has another word for, such as a parameter that is an option there: ``n_features=20`` is
``--genes 20`` in the shell. Python users see `str(error)`; a shell renders the same message
with its own words through `render`. No code has to decide by the text of an error.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["InputError", "InputWarning", "Term", "visible", "warn"]

_MISSING: Any = object()

# Characters that control a terminal (C0 without the line break, C1), that change the direction
# of text, or that stand for bytes of a name that is not UTF-8 and cannot be written.
_CONTROLS = re.compile(
    r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


class Term:
    """A parameter, with its value or alone, as part of a message.

    Parameters
    ----------
    name : str
        What Python users call it.
    value : object, optional
        Its value; shown as ``name=value``.
    text : str, optional
        What Python users see instead, where that is not ``name`` or ``name=value``.

    Examples
    --------
    >>> from ksparse._errors import Term
    >>> str(Term("n_features", 20)), str(Term("layer", "counts")), str(Term("new_adata"))
    ('n_features=20', "layer='counts'", 'new_adata')
    """

    def __init__(self, name: str, value: Any = _MISSING, *, text: str | None = None) -> None:
        self.name = name
        self.text = text
        self.has_value = value is not _MISSING
        plain = value.item() if isinstance(value, np.generic) else value  # 13, not np.int64(13)
        self.value = plain if self.has_value else None

    def __str__(self) -> str:
        if self.text is not None:
            return self.text
        return f"{self.name}={self.value!r}" if self.has_value else self.name

    def __repr__(self) -> str:
        return f"Term({self!s})"


class _Worded(Exception):
    """A message made of texts and terms."""

    def __init__(self, *parts: str | Term) -> None:
        self.parts = parts
        super().__init__("".join(str(part) for part in parts))

    def render(self, word: Callable[[Term], str]) -> str:
        """Return the message with every term replaced by `word(term)`."""
        return "".join(word(part) if isinstance(part, Term) else part for part in self.parts)


class InputError(_Worded, ValueError, TypeError):
    """A mistake in what a user passed in: one sentence with the argument and the cure.

    Both a ValueError and a TypeError, so that either `except` clause catches it.

    Parameters
    ----------
    *parts : str or Term
        The sentence, in pieces.

    Examples
    --------
    >>> from ksparse._errors import InputError, Term
    >>> error = InputError(Term("n_features", 0), " must be at least 1.")
    >>> str(error)
    'n_features=0 must be at least 1.'
    >>> error.render(lambda term: f"--genes {term.value}")
    '--genes 0 must be at least 1.'
    """


class InputWarning(_Worded, UserWarning):
    """A warning about what a user passed in, in pieces like `InputError`."""


def warn(
    *parts: str | Term, category: type[InputWarning] = InputWarning, stacklevel: int = 2
) -> None:
    """Warn with an `InputWarning`; `stacklevel` counts as in `warnings.warn`."""
    warnings.warn(category(*parts), stacklevel=stacklevel + 1)


def visible(text: str) -> str:
    """Return text for a terminal: characters that would control it are written as escapes.

    Examples
    --------
    >>> from ksparse._errors import visible
    >>> print(visible("a name" + chr(27) + "[2J"))
    a name\\x1b[2J
    """
    return _CONTROLS.sub(lambda match: match[0].encode("unicode_escape").decode(), text)
