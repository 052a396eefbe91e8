"""What a file promises, checked before it is believed.

A few bytes of a damaged or hostile file can announce any amount of data. Whatever a header
says is compared here with what is stored and with the memory there is, before anything is
allocated.
"""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["available_memory", "check_archive", "check_promise", "shown_bytes"]

# Data may be larger than their file by this factor (deflate reaches 1,032), or by no more
# than this many bytes.
MOST_RATIO, PLENTY = 2000, 2**28


def shown_bytes(n: float) -> str:
    """A number of bytes for people."""
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if n < 1000:
            break
        n /= 1000
    else:
        unit = "PB"
    return f"{n:.3g} {unit}"


def available_memory() -> float:
    """Bytes that can be allocated: what is free, and what the process may have."""
    most = np.inf
    try:
        text = Path("/proc/meminfo").read_text()
        most = int(text.split("MemAvailable:")[1].split()[0]) * 1024.0
    except (OSError, IndexError, ValueError):  # not on this system
        if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
            most = float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return most


def check_promise(path: Path, promised: float, stored: float) -> None:
    """Refuse more data than can be in a file of that size, or than fit in memory."""
    if promised > PLENTY and promised > MOST_RATIO * stored:
        raise ValueError(
            f"{path} announces {shown_bytes(promised)} of data, but holds {shown_bytes(stored)}: "
            "it is damaged."
        )
    there = available_memory()
    if promised > there:
        raise MemoryError(
            f"{path} holds {shown_bytes(promised)} of data, and {shown_bytes(there)} of memory are "
            "free: see ksparse.tl.ksparse on backed files."
        )


def check_archive(path: Path) -> list[str]:
    """Refuse a zip file of arrays that does not hold what its headers say; return its names."""
    size = path.stat().st_size
    with path.open("rb") as stream, zipfile.ZipFile(stream) as archive:
        members = archive.infolist()
        if sum(member.compress_size for member in members) > size:
            raise ValueError(f"{path} announces more than it holds: it is damaged.")
        names = [member.filename for member in members]
        if len(set(names)) < len(names):
            raise ValueError(f"{path} holds two parts of one name: it is damaged.")
        check_promise(path, sum(member.file_size for member in members), size)
        for member in members:
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError(f"{path} is packed in a way that numpy does not use.")
            if member.filename.endswith(".npy"):
                with archive.open(member) as part:
                    _check_array(path, part, member)
    return names


def _check_array(path: Path, part: Any, member: zipfile.ZipInfo) -> None:
    """Compare the shape in the header of an array with the bytes that follow."""
    version = np.lib.format.read_magic(part)
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise ValueError(f"{path} holds an array of unknown version {version}.")
    # Version 3 is version 2 with other letters in names of fields, which we do not use.
    read = np.lib.format.read_array_header_1_0
    if version != (1, 0):
        read = np.lib.format.read_array_header_2_0
    shape, _, dtype = read(part)
    if dtype.hasobject:
        raise ValueError(
            f"{path} holds Python objects in {member.filename}, which are not read: save text as "
            "an array of str."
        )
    if any(n < 0 for n in shape):
        raise ValueError(f"{path} holds an array of shape {shape}: it is damaged.")
    promised = dtype.itemsize
    for n in shape:
        promised *= n
    there = member.file_size - part.tell()
    if promised != there:
        raise ValueError(
            f"{path} announces {shown_bytes(promised)} in an array that holds "
            f"{shown_bytes(there)}: it is damaged."
        )
