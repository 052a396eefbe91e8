"""Small files that unpack to gigabytes or have no end, and what the shell makes of them.

    python tests/bombs.py FOLDER NAME...

makes each bomb, gives it to `ksparse run` in a process of its own, and prints a line of JSON
with the exit code, what was printed, the seconds, and the bytes of memory at the peak.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import signal
import sys
import time
import zipfile
import zlib
from pathlib import Path

import numpy as np

import fuzzing

SECONDS, MEMORY = 30, 2**32  # more than that ends the process
PIECE, TIMES = 2**24, 200  # bytes, packed once and repeated: 3.4 GB


def repeated_gzip(piece, times=TIMES, before=b"", after=b""):
    """A gzip file of many members: `piece` is packed once, whatever `times` is."""
    return gzip.compress(before) + gzip.compress(piece) * times + gzip.compress(after)


def zlib_of_zeros(times=TIMES):
    """A valid zlib stream of `times` x `PIECE` zeros."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    piece = packer.compress(bytes(PIECE)) + packer.flush(zlib.Z_FULL_FLUSH)
    adler = ((PIECE * times) % 65521) << 16 | 1
    return b"\x78\x9c" + piece * times + b"\x03\x00" + adler.to_bytes(4, "big")


def lines(text):
    """About `PIECE` bytes of a line, again and again."""
    return text * (PIECE // len(text))


# Tables ----------------------------------------------------------------------------------


def csv_of_many_columns(path):
    row = gzip.compress(b"0," * 2**20) * 30 + gzip.compress(b"0\n")
    path.write_bytes(row * 2)


def csv_of_many_rows(path):
    path.write_bytes(repeated_gzip(lines(b"x,0\n"), before=b"cell,gene\n"))


def csv_of_one_line(path):
    path.write_bytes(repeated_gzip(b"a" * PIECE))


def csv_of_one_entry(path):
    path.write_bytes(repeated_gzip(b"a" * PIECE, before=b'cell,gene\nx,1\ny,"'))


# Folders of 10x Genomics -----------------------------------------------------------------


def tenx(path, name, content):
    fuzzing._mtx(path)
    for file in path.glob(f"{name}*"):
        file.unlink()
    (path / f"{name}.gz").write_bytes(content)


HEADER = b"%%MatrixMarket matrix coordinate integer general\n"


def mtx_of_more_values(path):
    tenx(path, "matrix.mtx", repeated_gzip(lines(b"1 1 1\n"), before=HEADER + b"9 12 20\n"))


def mtx_of_many_values(path):
    header = HEADER + b"9 12 500000000\n"
    tenx(path, "matrix.mtx", repeated_gzip(lines(b"1 1 1\n"), before=header))


def mtx_of_comments(path):
    tenx(path, "matrix.mtx", repeated_gzip(lines(b"%\n"), before=HEADER))


def mtx_of_empty_lines(path):
    tenx(path, "matrix.mtx", repeated_gzip(lines(b"\n"), before=HEADER + b"9 12 20\n"))


def barcodes_of_one_line(path):
    tenx(path, "barcodes.tsv", repeated_gzip(b"A" * PIECE))


def barcodes_of_many_lines(path):
    tenx(path, "barcodes.tsv", repeated_gzip(lines(b"A\n")))


# Archives --------------------------------------------------------------------------------


def npz(path, **headers):
    """Arrays of which only headers are stored: values of no bytes, or none."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, (descr, shape) in headers.items():
            out = io.BytesIO()
            about = {"descr": descr, "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(out, about)
            archive.writestr(f"{name}.npy", out.getvalue())


def npz_of_empty_names(path):
    npz(path, X=("<f4", (0, 3)), obs_names=("|S0", (10**9,)))


def npz_of_no_rows(path):
    npz(path, X=("<f4", (0, 2 * 10**8)))


def npz_of_bytes(path):
    """Names of one byte each, which become Python objects."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        out = io.BytesIO()
        np.save(out, np.zeros(10**8, dtype=bool))
        archive.writestr("obs_names.npy", out.getvalue())
        out = io.BytesIO()
        np.save(out, np.ones((3, 3)))
        archive.writestr("X.npy", out.getvalue())


def model_of_much_text(path):
    with zipfile.ZipFile(Path(__file__).parent / "files" / "model_v1.ksparse") as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts["model.json"] = b"[" + b"[]," * 2**25 + b"0]"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)


# HDF5 and zarr ---------------------------------------------------------------------------


def dense():
    from anndata import AnnData

    return AnnData(np.ones((2100, 2100), dtype=np.float32))  # more than is read at once


def h5ad_with_a_chunk_in_the_middle(path):
    import h5py

    adata = dense()
    adata.write_h5ad(path)
    with h5py.File(path, "r+") as file:
        about = dict(file["X"].attrs)
        del file["X"]
        item = file.create_dataset("X", data=adata.X, chunks=(100, 2100), compression="gzip")
        item.attrs.update(about)
        item.id.write_direct_chunk((1000, 0), zlib_of_zeros())


def h5ad_of_many_texts(path):
    """Text of which one copy is stored, and which is referred to 2 million times."""
    import h5py

    fuzzing._h5ad(path)
    with h5py.File(path, "r+") as file:
        item = file["uns"].create_dataset(
            "texts", (2**21,), chunks=(2**15,), dtype=h5py.string_dtype(), compression="gzip"
        )
        item.attrs.update({"encoding-type": "string-array", "encoding-version": "0.2.0"})
        item[0] = "a" * 2**15
        _, chunk = item.id.read_direct_chunk((0,))
        place = zlib.decompress(chunk)[: 2**4]
        for start in range(0, 2**21, 2**15):
            item.id.write_direct_chunk((start,), zlib.compress(place * 2**15))


def h5ad_of_groups_in_groups(path):
    """Each group is linked ten times in the one above: 10^9 paths lead to the last."""
    import h5py

    fuzzing._h5ad(path)
    with h5py.File(path, "r+") as file:
        group = file["uns"]
        about = dict(group.attrs)
        for level in range(9):
            below = file["uns"].create_group(f"level {level}")
            below.attrs.update(about)
            for i in range(10):
                group[str(i)] = below
            group = below


def h5ad_of_large_chunks(path):
    import h5py

    fuzzing._h5ad(path)
    with h5py.File(path, "r+") as file:
        item = file["uns"].create_dataset(
            "array", (4,), maxshape=(None,), chunks=(5 * 2**27,), dtype="f4", compression="gzip"
        )
        item.attrs.update({"encoding-type": "array", "encoding-version": "0.2.0"})
        item.id.write_direct_chunk((0,), zlib_of_zeros(160))


def zarr(path, compressor, content):
    """A folder with a chunk in the middle of X that is packed so."""
    fuzzing._zarr(path)
    for file in path.rglob(".zmetadata"):
        file.unlink()
    shutil.rmtree(path / "X")
    (path / "X").mkdir()
    (path / "X" / ".zattrs").write_text('{"encoding-type":"array","encoding-version":"0.2.0"}')
    about = {"zarr_format": 2, "shape": [12, 500_000], "chunks": [1, 500_000], "dtype": "<f4",
             "order": "C", "compressor": compressor, "filters": None,
             "fill_value": 0}  # fmt: skip
    (path / "X" / ".zarray").write_text(json.dumps(about))
    (path / "X" / "6.0").write_bytes(content)


def zarr_of_gzip(path):
    zarr(path, {"id": "gzip", "level": 1}, repeated_gzip(bytes(PIECE)))


def zarr_of_zlib(path):
    zarr(path, {"id": "zlib", "level": 1}, zlib_of_zeros())


def zarr_of_bz2(path):
    import bz2

    zarr(path, {"id": "bz2", "level": 9}, bz2.compress(bytes(PIECE)) * TIMES)


# Pipes, which block whoever reads them ---------------------------------------------------


def pipe(path):
    os.mkfifo(path)


def pipe_in_zarr(path):
    fuzzing._zarr(path)
    chunk = next(file for file in path.rglob("*") if file.name in ("0", "0.0"))
    chunk.unlink()
    os.mkfifo(chunk)


def pipe_in_10x(path):
    fuzzing._mtx(path)
    (path / "barcodes.tsv").unlink()
    os.mkfifo(path / "barcodes.tsv")


BOMBS = {
    "csv of many columns": ("a.csv.gz", csv_of_many_columns),
    "csv of many rows": ("a.csv.gz", csv_of_many_rows),
    "csv of one line": ("a.csv.gz", csv_of_one_line),
    "csv of one entry": ("a.csv.gz", csv_of_one_entry),
    "mtx of more values": ("a", mtx_of_more_values),
    "mtx of many values": ("a", mtx_of_many_values),
    "mtx of comments": ("a", mtx_of_comments),
    "mtx of empty lines": ("a", mtx_of_empty_lines),
    "barcodes of one line": ("a", barcodes_of_one_line),
    "barcodes of many lines": ("a", barcodes_of_many_lines),
    "npz of empty names": ("a.npz", npz_of_empty_names),
    "npz of no rows": ("a.npz", npz_of_no_rows),
    "npz of bytes": ("a.npz", npz_of_bytes),
    "model of much text": ("a.ksparse", model_of_much_text),
    "h5ad with a chunk in the middle": ("a.h5ad", h5ad_with_a_chunk_in_the_middle),
    "h5ad of groups in groups": ("a.h5ad", h5ad_of_groups_in_groups),
    "h5ad of many texts": ("a.h5ad", h5ad_of_many_texts),
    "h5ad of large chunks": ("a.h5ad", h5ad_of_large_chunks),
    "zarr of gzip": ("a.zarr", zarr_of_gzip),
    "zarr of zlib": ("a.zarr", zarr_of_zlib),
    "zarr of bz2": ("a.zarr", zarr_of_bz2),
    "pipe for csv": ("a.csv", pipe),
    "pipe for npz": ("a.npz", pipe),
    "pipe for h5ad": ("a.h5ad", pipe),
    "pipe for a model": ("a.ksparse", pipe),
    "pipe in zarr": ("a.zarr", pipe_in_zarr),
    "pipe in a 10x folder": ("a", pipe_in_10x),
}


def give_to_the_shell(path):
    """Exit with the code of `ksparse run`; `ksparse.load` of a model raises what it would tell."""
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.alarm(SECONDS)
    if path.suffix == ".ksparse":
        from ksparse import load

        try:
            load(path)
        except ValueError as error:
            print(f"Error: {error}", file=sys.stderr)
            return 2
        return 0
    from ksparse.cli import main

    return main(["run", str(path), "-k", "3", "-o", str(path.with_name("out"))])


def try_one(folder, name):
    """What becomes of a bomb, in a forked process: its libraries are loaded already."""
    file, make = BOMBS[name]
    path = folder / name.replace(" ", "-") / file
    path.parent.mkdir()
    make(path)
    printed = path.with_name("printed")
    begin = time.monotonic()
    process = os.fork()
    if process == 0:
        with printed.open("w") as out:
            os.dup2(out.fileno(), 1)
            os.dup2(out.fileno(), 2)
        code = 99
        try:
            code = give_to_the_shell(path)
        finally:
            sys.stderr.flush()
            from ksparse.readers import _watched

            _watched._probe.close()
            os._exit(code)
    _, status, usage = os.wait4(process, 0)
    return {
        "path": str(path),
        "code": os.waitstatus_to_exitcode(status),
        "printed": printed.read_text(),
        "seconds": time.monotonic() - begin,
        "bytes": usage.ru_maxrss * 1024,
    }


def main():
    from ksparse.cli import main

    folder, *names = sys.argv[1:]
    np.savez(Path(folder, "first.npz"), X=np.array(["x"]))  # refusing it loads all libraries
    assert main(["run", f"{folder}/first.npz", "-k", "3", "-o", f"{folder}/first"]) == 2
    for name in names:
        print(json.dumps([name, try_one(Path(folder), name)]), flush=True)


if __name__ == "__main__":
    main()
