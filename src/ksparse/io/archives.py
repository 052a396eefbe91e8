"""Compare the size that a file declares with the bytes that it stores.

A few bytes of a damaged or hostile file can declare any amount of data. Declared sizes are
compared here with the size of the file and with the free memory, before anything is allocated.
"""

from __future__ import annotations

import math
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from ksparse._errors import InputError

__all__ = [
    "TooLargeError",
    "available_memory",
    "check_archive",
    "check_declared_size",
    "format_bytes",
    "one_line",
]

# Data may be larger than their file by this factor (deflate reaches 1,032) ...
MAX_RATIO = 2000
# ... and as large as this in any file, however small: it is allocated without harm.
HARMLESS_BYTES = 2**28


class TooLargeError(MemoryError):
    """Raised before anything is allocated, if data do not fit in memory."""


def format_bytes(n: float) -> str:
    """Return a number of bytes as text, such as "12.3 MB"."""
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if n < 1000:
            break
        n /= 1000
    else:
        unit = "PB"
    return f"{n:.3g} {unit}"


def one_line(text: Any) -> str:
    """Return text from a file, such as a name in it, without line breaks: for messages."""
    return " ".join(str(text).split())


def available_memory() -> float:
    """Return how many bytes are free, or the size of the memory where that is not known."""
    try:
        text = Path("/proc/meminfo").read_text()
        return int(text.split("MemAvailable:")[1].split()[0]) * 1024.0
    except (OSError, IndexError, ValueError):  # not on this system
        if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
            return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return math.inf


def check_declared_size(path: Path, declared: float, stored: float) -> None:
    """Raise if a file declares more data than it can store, or than fit in memory.

    Parameters
    ----------
    path : Path
        The file, for the message.
    declared, stored : float
        Bytes of the arrays according to their headers, and bytes on the disk.

    Raises
    ------
    InputError
        If `declared` cannot be packed in `stored` bytes.
    TooLargeError
        If `declared` is more than the free memory.
    """
    if declared > HARMLESS_BYTES and declared > MAX_RATIO * stored:
        raise InputError(
            f"{path} announces {format_bytes(declared)} of data, but holds "
            f"{format_bytes(stored)}: it is damaged."
        )
    free = available_memory()
    if declared > free:
        raise TooLargeError(
            f"{path} holds {format_bytes(declared)} of data, and {format_bytes(free)} of memory "
            "are free: see ksparse.tl.ksparse on backed files."
        )


def check_archive(path: Path) -> list[str]:
    """Raise if a zip file of arrays does not hold what its headers say; return its names."""
    size = path.stat().st_size
    with path.open("rb") as stream, zipfile.ZipFile(stream) as archive:
        members = archive.infolist()
        if sum(member.compress_size for member in members) > size:
            raise InputError(f"{path} announces more than it holds: it is damaged.")
        names = [member.filename for member in members]
        if len(set(names)) < len(names):
            raise InputError(f"{path} holds two parts of one name: it is damaged.")
        check_declared_size(path, sum(member.file_size for member in members), size)
        for member in members:
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise InputError(f"{path} is packed in a way that numpy does not use.")
            if member.filename.endswith(".npy"):
                with archive.open(member) as part:
                    _check_array(path, part, member)
    return names


def _check_array(path: Path, part: Any, member: zipfile.ZipInfo) -> None:
    """Compare the shape in the header of an array with the bytes that follow."""
    version = np.lib.format.read_magic(part)
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise InputError(f"{path} holds an array of unknown version {version}.")
    # Version 3 is version 2 with other letters in names of fields, which we do not use.
    read_header = np.lib.format.read_array_header_1_0
    if version != (1, 0):
        read_header = np.lib.format.read_array_header_2_0
    shape, _, dtype = read_header(part)
    if dtype.hasobject:
        raise InputError(
            f"{path} holds Python objects in {one_line(member.filename)}, which are not read: save "
            "text as an array of str."
        )
    if any(n < 0 for n in shape):
        raise InputError(f"{path} holds an array of shape {shape}: it is damaged.")
    declared = dtype.itemsize * math.prod(shape)
    stored = member.file_size - part.tell()
    if declared != stored:
        raise InputError(
            f"{path} announces {format_bytes(declared)} in an array that holds "
            f"{format_bytes(stored)}: it is damaged."
        )
