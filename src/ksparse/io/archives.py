"""Compare the size that a file declares with the bytes that it stores.

A few bytes of a damaged or hostile file can declare any amount of data. Declared sizes are
compared here with the size of the file and with the free memory, before anything is allocated.
"""

from __future__ import annotations

import math
import os
import stat
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from ksparse._errors import InputError

__all__ = [
    "HARMLESS_BYTES",
    "TooLargeError",
    "available_memory",
    "check_archive",
    "check_declared_size",
    "check_regular",
    "format_bytes",
    "one_line",
]

# Data may be larger than their file by this factor (deflate reaches 1,032) ...
MAX_RATIO = 2000
# ... and as large as this in any file, however small: it is allocated without harm.
HARMLESS_BYTES = 2**28
# Text in an archive is parsed, which takes many times its size: it may be larger than what is
# stored by this factor (JSON of ours reaches 12), and as large as this in any archive.
MAX_TEXT_RATIO, HARMLESS_TEXT = 30, 2**23
# What a short text takes as a Python object, with its place in a list.
BYTES_PER_OBJECT = 64


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


def check_regular(path: Path) -> None:
    """Raise if a path leads to a named pipe or a device: reading it might never end.

    Folders pass; so does what does not exist, which other errors tell better.
    """
    try:
        mode = path.stat().st_mode
    except OSError:
        return
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise InputError(
            f"{path} is a named pipe or a device, which is not read: write its content into a file."
        )


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


def check_archive(path: Path) -> dict[str, np.dtype[Any] | None]:
    """Raise if a zip file of arrays does not hold what its headers say.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    dict
        Names of the members; for arrays the type of their values.

    Raises
    ------
    InputError
        If it is damaged, or text in it is much larger than what is stored.
    TooLargeError
        If it holds more than the free memory.
    """
    check_regular(path)
    size = path.stat().st_size
    dtypes: dict[str, np.dtype[Any] | None] = {}
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
                    dtypes[member.filename] = _check_array(path, part, member)
            else:
                _check_text_size(path, member)
                dtypes[member.filename] = None
    return dtypes


def _check_text_size(path: Path, member: zipfile.ZipInfo) -> None:
    """Raise if a member that is no array is much larger than what is stored of it."""
    if member.file_size > max(HARMLESS_TEXT, MAX_TEXT_RATIO * member.compress_size):
        raise InputError(
            f"{path} is damaged: {one_line(member.filename)} unpacks to "
            f"{format_bytes(member.file_size)}, but {format_bytes(member.compress_size)} are "
            "stored of it."
        )


def _check_array(path: Path, part: Any, member: zipfile.ZipInfo) -> np.dtype[Any]:
    """Compare the shape in the header of an array with the bytes that follow; return its dtype."""
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
    # Values of no bytes, such as empty text, still become Python objects.
    declared = dtype.itemsize * math.prod(shape)
    if not dtype.itemsize:
        check_declared_size(path, BYTES_PER_OBJECT * math.prod(shape), member.compress_size)
    stored = member.file_size - part.tell()
    if declared != stored:
        raise InputError(
            f"{path} announces {format_bytes(declared)} in an array that holds "
            f"{format_bytes(stored)}: it is damaged."
        )
    return dtype
