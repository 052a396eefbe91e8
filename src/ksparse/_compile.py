"""Compile functions with numba; keep the machine code in its cache wherever that works.

A cache only saves time. So a folder that cannot be written to, a full disk and damaged files
cost the time of compiling again, and never the result.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar, cast

from numba import njit
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.serialize import dumps

__all__ = ["compiled"]

Function = TypeVar("Function", bound=Callable[..., Any])


class _Sealed(CompileResultCacheImpl):
    """Results with a checksum: damaged machine code would crash, or compute something else."""

    def reduce(self, data: Any) -> tuple[bytes, bytes]:
        content = dumps(super().reduce(data))
        return hashlib.sha256(content).digest(), content

    def rebuild(self, target_context: Any, reduced_data: tuple[bytes, bytes]) -> Any:
        seal, content = reduced_data
        if hashlib.sha256(content).digest() != seal:
            raise ValueError("the cache is damaged")
        return super().rebuild(target_context, pickle.loads(content))


class _Cache(FunctionCache):
    """A cache without errors: what it cannot load is compiled, what it cannot save is lost."""

    _impl_class = _Sealed

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # there are many ways to be damaged
            with suppress(Exception):
                self.flush()  # or nothing could be saved beside what is damaged
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        with suppress(Exception):
            super().save_overload(sig, data)


def compiled(function: Function) -> Function:
    """Compile a function when it is called; it releases the GIL.

    Parameters
    ----------
    function : function
        In the part of Python and numpy that numba knows.

    Returns
    -------
    function
        Its compiled form, which is kept between processes where numba finds a place for it.

    Examples
    --------
    >>> from ksparse._compile import compiled
    >>> @compiled
    ... def twice(x):
    ...     return 2 * x
    >>> twice(21)
    42
    """
    dispatcher: Any = njit(nogil=True)(function)
    with suppress(Exception):  # neither the package nor the user's folder can be written to
        dispatcher._cache = _Cache(function)
    return cast("Function", dispatcher)
