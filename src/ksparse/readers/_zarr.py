"""Folders of zarr; nothing in them is executed, and no promise is believed unchecked."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ksparse.promises import check_promise
from ksparse.readers._watched import probe

__all__ = ["is_zarr", "read_zarr"]

# Ways to pack data. There are others, and one of them is pickle, which executes.
CODECS = {
    "adler32", "astype", "base64", "bitround", "blosc", "bytes", "bz2", "categorize", "crc32",
    "crc32c", "delta", "endian", "fletcher32", "fixedscaleoffset", "gzip", "jenkins_lookup3",
    "json2", "lz4", "lzma", "msgpack2", "packbits", "pcodec", "quantize", "sharding_indexed",
    "shuffle", "transpose", "vlen-array", "vlen-bytes", "vlen-utf8", "zfpy", "zlib", "zstd",
}  # fmt: skip
METADATA = (".zarray", ".zmetadata", "zarr.json")
PACKING = ("codecs", "compressor", "compressors", "filters", "index_codecs")


def is_zarr(path: Path) -> bool:
    """Whether a folder is one of zarr."""
    return any((path / name).is_file() for name in (".zgroup", "zarr.json", ".zmetadata"))


def read_zarr(path: Path) -> Any:
    """Read AnnData from a folder of zarr."""
    import anndata

    stored, promised = 0, 0.0
    for file in path.rglob("*"):
        if file.is_symlink() and path.resolve() not in file.resolve().parents:
            raise ValueError(f"{path} refers to another place in {file.name}: copy it there.")
        if not file.is_file():
            continue
        stored += file.stat().st_size
        if file.name in METADATA:
            try:
                tree = json.loads(file.read_bytes())
            except (ValueError, RecursionError):
                raise ValueError(f"{path} is damaged, in {file.relative_to(path)}.") from None
            own = 0.0
            for node in _nodes(tree):
                _check_codecs(path, node)
                own += _promised(node)
            promised = max(promised, own) if file.parent == path else promised + own
    check_promise(path, promised, stored)
    probe(path, "zarr", stored)
    return anndata.read_zarr(path)


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """All objects of a tree, itself included."""
    stack = [tree]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            yield item
            stack += item.values()
        elif isinstance(item, list):
            stack += item


def _check_codecs(path: Path, node: dict[str, Any]) -> None:
    for key in PACKING:
        entries = node.get(key)
        for entry in entries if isinstance(entries, list) else [entries]:
            if not isinstance(entry, dict):
                continue
            name = str(entry.get("id", entry.get("name"))).removeprefix("numcodecs.")
            if name not in CODECS:
                raise ValueError(
                    f"{path} is packed with {name!r}, which is not read: it may execute what is in "
                    "the file."
                )


def _promised(node: dict[str, Any]) -> float:
    """Bytes of an array, or of one of its chunks if that is larger."""
    shape = node.get("shape")
    grid = node.get("chunk_grid")
    chunks = node.get("chunks")
    if isinstance(grid, dict) and isinstance(grid.get("configuration"), dict):
        chunks = grid["configuration"].get("chunk_shape")
    if not (isinstance(shape, list) and isinstance(chunks, list)):
        return 0.0
    size = _item_size(node.get("dtype", node.get("data_type")))
    return size * max(_product(shape), _product(chunks))


def _product(numbers: list[Any]) -> float:
    return math.prod(float(n) for n in numbers if isinstance(n, int) and abs(n) < 1e100)


def _item_size(dtype: Any) -> float:
    """Bytes of a value, about."""
    if isinstance(dtype, dict):
        configuration = dtype.get("configuration")
        length = configuration.get("length_bytes") if isinstance(configuration, dict) else None
        return float(length) if isinstance(length, int) else 8.0
    if not isinstance(dtype, str):  # a record
        return 8.0 * len(dtype) if isinstance(dtype, list) else 8.0
    found = re.fullmatch(r"[<>|=]?([a-zA-Z]+)(\d{1,9})", dtype)
    if found is None:
        return 8.0
    kind, number = found[1], float(found[2])
    if kind == "U":
        return 4 * number
    return number / 8 if len(kind) > 1 else number  # "float32", "<f4"
