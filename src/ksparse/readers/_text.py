"""Text files, gzipped or not, with limits on what they may unpack to.

A few kB of gzip can unpack to gigabytes, or to one line without an end. The reader here stops
at a line that is too long and at text that is much larger than its file.
"""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from typing import IO, Any

from ksparse._errors import InputError
from ksparse.io.archives import (
    HARMLESS_BYTES,
    TooLargeError,
    available_memory,
    check_regular,
    format_bytes,
)

__all__ = ["BoundedReader", "check_text_memory"]

# A line may have so many bytes: enough for a table of 3 million columns.
MAX_LINE = 2**26
# Text, and what is made of it, may be larger than its file by this factor. Tables of counts,
# which are mostly zeros, reach 100.
MAX_RATIO = 250
# Bytes that may stand beside what is expected, such as empty lines.
SPACE = 2**20
CURE = "if you trust it, unpack it with gunzip first."


class BoundedReader(io.RawIOBase):
    """The bytes of a text file, unpacked; raises InputError if there are too many.

    Parameters
    ----------
    path : Path
        The file; unpacked if its name ends in .gz.
    max_line : int, optional
        The most bytes of a line.
    """

    def __init__(self, path: Path, max_line: int = MAX_LINE) -> None:
        check_regular(path)
        self.path, self.max_line = path, max_line
        self.stored = path.stat().st_size
        self._n_ends = 0
        self._expected = ""
        self._most = max(HARMLESS_BYTES, MAX_RATIO * self.stored)
        self._n_bytes = self._in_line = 0
        is_packed = path.suffix.lower() == ".gz"
        self._source: Any = gzip.GzipFile(path, "rb") if is_packed else path.open("rb")

    @property
    def n_lines(self) -> int:
        """Lines so far, without most of those that are empty."""
        return self._n_ends + (self._in_line > 0)

    def as_bytes(self) -> io.BufferedReader:
        """Return a buffered stream; closing it closes the file."""
        return io.BufferedReader(self, 2**16)

    def as_text(self) -> IO[str]:
        """Return a stream of UTF-8 text that leaves line breaks as they are."""
        return io.TextIOWrapper(self.as_bytes(), encoding="utf-8-sig", newline="")

    def expect(self, n_bytes: int, what: str) -> None:
        """Lower the limit to what was read, and so many bytes for `what`, with some space."""
        most = self._n_bytes + n_bytes + SPACE
        if most < self._most:
            self._most, self._expected = most, what

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer, count lines, and raise InputError at a limit; return how many bytes."""
        block = self._source.read(len(buffer))
        buffer[: len(block)] = block
        self._n_bytes += len(block)
        self._n_ends += block.count(b"\n") - block.count(b"\n\n") - block.count(b"\n\r\n")
        last = max(block.rfind(b"\n"), block.rfind(b"\r"))
        self._in_line = len(block) - 1 - last + (self._in_line if last < 0 else 0)
        if self._in_line > self.max_line:
            raise InputError(
                f"{self.path} is damaged: line {self.n_lines} has more than "
                f"{self.max_line} characters."
            )
        if self._n_bytes > self._most and self._expected:
            raise InputError(f"{self.path} is damaged: it holds more than {self._expected}.")
        if self._n_bytes > self._most:
            raise InputError(
                f"{self.path} unpacks to more than {format_bytes(self._most)}, but holds "
                f"{format_bytes(self.stored)}: it is damaged, or {CURE}"
            )
        return len(block)

    def close(self) -> None:
        """Close the file."""
        if not self.closed:
            self._source.close()
        super().close()


def check_text_memory(path: Path, what: str, n_bytes: float) -> None:
    """Raise if what is made of a text takes more memory than such a file can be meant to.

    Parameters
    ----------
    path : Path
        The file.
    what : str
        What takes the memory, for the message, such as "has 300 columns".
    n_bytes : float
        How much that is.

    Raises
    ------
    InputError
        If that is out of proportion to the file.
    TooLargeError
        If that is more than the free memory.
    """
    stored = path.stat().st_size
    if n_bytes > max(HARMLESS_BYTES, MAX_RATIO * stored):
        raise InputError(
            f"{path} {what}, which take {format_bytes(n_bytes)} of memory, but holds "
            f"{format_bytes(stored)}: it is damaged, or {CURE}"
        )
    free = available_memory()
    if n_bytes > free:
        raise TooLargeError(
            f"{path} {what}, which take {format_bytes(n_bytes)} of memory, and "
            f"{format_bytes(free)} are free: see ksparse.tl.ksparse on backed files."
        )
