"""Files that stay the same while they are read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ksparse._errors import InputError

__all__ = ["unchanged"]


@contextmanager
def unchanged(path: Path) -> Iterator[None]:
    """Raise InputError if a file, or one of a folder, is written to while the block reads it.

    Libraries read zeros beyond the end of a file that was cut off, or the beginning of one file
    and the end of another, and do not notice.
    """
    before = _state(path)
    yield
    if _state(path) != before:
        raise InputError(
            f"{path} changed while it was read: wait until it is written, and start again."
        )


def _state(path: Path) -> dict[str, tuple[int, int]]:
    """Return size and time of change of every regular file."""
    files = [path]
    if path.is_dir():
        files = [Path(folder, name) for folder, _, names in os.walk(path) for name in names]
    return {
        str(file): (status.st_size, status.st_mtime_ns)
        for file in files
        if file.is_file()
        for status in [file.stat()]
    }
