"""AnnData in folders of zarr; nothing in them is executed, and declared sizes are checked."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ksparse._errors import InputError
from ksparse.io.archives import (
    HARMLESS_BYTES,
    check_declared_size,
    check_regular,
    format_bytes,
)
from ksparse.readers._format import Format, ReadOptions
from ksparse.readers._stored import check_matrices
from ksparse.readers._watched import probe

__all__ = ["ZARR"]

# Ways to pack data. There are others, and one of them is pickle, which runs code.
CODECS = {
    "adler32", "astype", "base64", "bitround", "blosc", "bytes", "bz2", "categorize", "crc32",
    "crc32c", "delta", "endian", "fletcher32", "fixedscaleoffset", "gzip", "jenkins_lookup3",
    "json2", "lz4", "lzma", "msgpack2", "packbits", "pcodec", "quantize", "sharding_indexed",
    "shuffle", "transpose", "vlen-array", "vlen-bytes", "vlen-utf8", "zfpy", "zlib", "zstd",
}  # fmt: skip
METADATA = (".zarray", ".zmetadata", "zarr.json")
# Text of JSON takes about 25 times its size when it is read.
JSON, MAX_JSON = (*METADATA, ".zattrs", ".zgroup"), 2**25
PACKING = ("codecs", "compressor", "compressors", "filters", "index_codecs")


def _recognises(path: Path) -> bool:
    """Return whether a folder is one of zarr, by its name or its files."""
    markers = (".zgroup", "zarr.json", ".zmetadata")
    return path.is_dir() and (
        path.suffix.lower() == ".zarr" or any((path / name).is_file() for name in markers)
    )


def _check_zarr(path: Path, watched: bool) -> None:
    """Raise if a folder is damaged, declares too much, runs code, or refers to other places.

    If not `watched`, no process is started, and only the metadata are looked at.
    """
    stored, of_all, of_each = 0, 0.0, 0.0
    for file in path.rglob("*"):
        if file.is_symlink():  # one that stays in the folder might form a circle
            raise InputError(f"{path} refers to another place in {file.name}: copy it there.")
        if file.is_dir():
            continue
        check_regular(file)
        size = file.stat().st_size
        stored += size
        if file.name in JSON and size > MAX_JSON:
            raise InputError(
                f"{path} is damaged: {file.relative_to(path)} has {format_bytes(size)} of "
                f"metadata, and {format_bytes(MAX_JSON)} are read."
            )
        if file.name in METADATA:
            declared = _check_metadata(path, file)
            if file.parent == path:  # may repeat the metadata of the whole folder
                of_all += declared
            else:
                of_each += declared
    check_declared_size(path, max(of_all, of_each), stored)
    if watched:
        probe(path, "zarr", stored)


def _check_metadata(path: Path, file: Path) -> float:
    """Raise if a file of metadata is damaged or names an unknown codec; return declared bytes."""
    try:
        tree = json.loads(file.read_bytes())
    except (ValueError, RecursionError):
        raise InputError(f"{path} is damaged, in {file.relative_to(path)}.") from None
    declared = 0.0
    for node in _nodes(tree):
        _check_codecs(path, node)
        declared += _declared_bytes(path, node)
    return declared


def _read_zarr(path: Path, options: ReadOptions) -> Any:
    """Return AnnData of a folder."""
    import anndata
    import zarr

    check_matrices(path, zarr.open_group(str(path), mode="r"))
    return anndata.read_zarr(path)


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Yield all objects of a tree of JSON, itself included."""
    stack = [tree]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            yield item
            stack += item.values()
        elif isinstance(item, list):
            stack += item


def _check_codecs(path: Path, node: dict[str, Any]) -> None:
    """Raise if an array is packed in a way that is not listed in `CODECS`."""
    for key in PACKING:
        entries = node.get(key)
        for entry in entries if isinstance(entries, list) else [entries]:
            if not isinstance(entry, dict):
                continue
            name = str(entry.get("id", entry.get("name"))).removeprefix("numcodecs.")
            if name not in CODECS:
                raise InputError(
                    f"{path} is packed with {name!r}, which is not read: it may execute what is in "
                    "the file."
                )


def _declared_bytes(path: Path, node: dict[str, Any]) -> float:
    """Return the bytes of an array, or of one of its chunks if that is larger.

    Raises InputError if a chunk is much larger than the array: all of it would be unpacked.
    """
    shape = node.get("shape")
    grid = node.get("chunk_grid")
    chunks = node.get("chunks")
    if isinstance(grid, dict) and isinstance(grid.get("configuration"), dict):
        chunks = grid["configuration"].get("chunk_shape")
    if not (isinstance(shape, list) and isinstance(chunks, list)):
        return 0.0
    item_size = _item_size(node.get("dtype", node.get("data_type")))
    size, chunk_size = item_size * _product(shape), item_size * _product(chunks)
    if chunk_size > max(HARMLESS_BYTES, 2 * size):
        raise InputError(
            f"{path} announces {format_bytes(chunk_size)} of data in a chunk of an array of "
            f"{format_bytes(size)}: it is damaged."
        )
    return max(size, chunk_size)


def _product(numbers: list[Any]) -> float:
    return math.prod(float(n) for n in numbers if isinstance(n, int) and abs(n) < 1e100)


def _item_size(dtype: Any) -> float:
    """Return about how many bytes a value takes."""
    if isinstance(dtype, dict):
        configuration = dtype.get("configuration")
        length = configuration.get("length_bytes") if isinstance(configuration, dict) else None
        return float(length) if isinstance(length, int) else 8.0
    if not isinstance(dtype, str):  # a record
        return 8.0 * len(dtype) if isinstance(dtype, list) else 8.0
    match = re.fullmatch(r"[<>|=]?([a-zA-Z]+)(\d{1,9})", dtype)
    if match is None:
        return 8.0
    kind, number = match[1], float(match[2])
    if kind == "U":
        return 4 * number
    return number / 8 if len(kind) > 1 else number  # "float32", "<f4"


ZARR = Format(
    name="zarr",
    description=".zarr",
    recognises=_recognises,
    read=_read_zarr,
    check=_check_zarr,
)
