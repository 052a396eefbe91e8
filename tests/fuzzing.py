"""Damaged files of every format, and what may become of reading them.

Every file is made from a sound one by a random change that its number decides, so that a
finding can be repeated:

    python tests/fuzzing.py FORMAT --first 17 --count 1

reads number 17 of a format in this process and prints what came of it. `hunt` does the same
for many, in a process that is watched: it may not crash, hang, or take much memory, and it may
raise nothing but what is documented.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import scipy.sparse as sp

DOCUMENTED = (ValueError, OSError, MemoryError)
SECONDS = 60  # for a single file: more than the 30 s that its check may take on a busy machine
MEMORY = 2**30  # that reading small files may take at its peak
EXTREME = [0, 1, 2, 127, 128, 255, 256, 2**15, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1,
           2**64 - 1, 10**12]  # fmt: skip
WORDS = [b"nan", b"inf", b"-1", b"1e400", b"1000000000000", b"", b",", b'"', b"\n", b"\r", b"\0",
         b"\xff\xfe", b"\xef\xbb\xbf", b"9" * 400, b"{", b"[", b"null", b"true", b"-0", b"1e12",
         b'"pickle"', b'"|O"', b"../..", b"\t", b"%", b"0x10", b"1_000", b"(10**12,)"]  # fmt: skip

COUNTS = np.random.default_rng(0).poisson(0.7, size=(12, 9)).astype(np.float32)
CELLS, GENES = [f"cell{i}" for i in range(12)], [f"gene{j}" for j in range(9)]


# Sound files ---------------------------------------------------------------------------


def _adata():
    import pandas as pd
    from anndata import AnnData

    obs = pd.DataFrame({"type": pd.Categorical(["a", "b"] * 6), "n": range(12)}, index=CELLS)
    adata = AnnData(sp.csr_matrix(COUNTS), obs=obs, var=pd.DataFrame(index=GENES))
    adata.layers["dense"] = COUNTS.copy()
    adata.obsm["place"] = np.arange(24.0).reshape(12, 2)
    adata.uns["about"] = {"text": "words", "number": 3, "array": np.arange(4)}
    return adata


def _h5ad(path):
    _adata().write_h5ad(path, compression="gzip")


def _h5ad_dense(path):
    adata = _adata()
    adata.X = adata.layers.pop("dense")
    adata.write_h5ad(path)


def _zarr(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # other versions write other formats
        _adata().write_zarr(path)


def _tenx(path):
    import h5py

    X = sp.csr_matrix(COUNTS.astype(np.int32))
    with h5py.File(path, "w") as file:
        group = file.create_group("matrix")
        for name in ("data", "indices", "indptr"):
            group.create_dataset(name, data=getattr(X, name), compression="gzip")
        group["shape"] = np.array([9, 12])
        group["barcodes"] = np.array(CELLS, dtype="S")
        features = group.create_group("features")
        features["id"] = features["name"] = np.array(GENES, dtype="S")
        features["feature_type"] = np.array([b"Gene Expression"] * 9)


def _mtx(path):
    from scipy.io import mmwrite

    path.mkdir()
    mmwrite(path / "matrix.mtx", sp.coo_matrix(COUNTS.T.astype(np.int32)))
    (path / "barcodes.tsv").write_text("".join(f"{cell}\n" for cell in CELLS))
    lines = (f"ENS{j}\t{gene}\tGene Expression\n" for j, gene in enumerate(GENES))
    (path / "features.tsv.gz").write_bytes(gzip.compress("".join(lines).encode(), mtime=0))


def _loom(path):
    import h5py

    with h5py.File(path, "w") as file:
        file.create_dataset("matrix", data=COUNTS.T, chunks=(4, 4), compression="gzip")
        file["row_attrs/Gene"] = np.array(GENES, dtype="S")
        file["col_attrs/CellID"] = np.array(CELLS, dtype="S")
        file["col_attrs/type"] = np.array(["a", "b"] * 6, dtype="S")
        file.create_group("layers")["spliced"] = COUNTS.T


def _table(separator, label=False):
    lines = [separator.join(["cell", *GENES, *(["type"] if label else [])])]
    for cell, row in zip(CELLS, COUNTS, strict=True):
        values = [f"{value:g}" for value in row]
        lines.append(separator.join([cell, *values, *(["a"] if label else [])]))
    return ("\n".join(lines) + "\n").encode()


def _csv(path):
    path.write_bytes(_table(","))


def _tsv_gz(path):
    path.write_bytes(gzip.compress(_table("\t", label=True), mtime=0))


def _npz_sparse(path):
    sp.save_npz(path, sp.csc_matrix(COUNTS))


def _npz_dense(path):
    np.savez(path, X=COUNTS, obs_names=np.array(CELLS), var_names=np.array(GENES))


def _model(path):
    from ksparse import KSparse

    X = np.repeat(np.eye(3), 8, axis=0) @ np.kron(np.eye(3), [5.0, 5.0]) + COUNTS.T.sum() % 1
    X = X + np.sin(np.arange(X.size)).reshape(X.shape)
    KSparse(3, n_features=3, random_state=0).fit(X).save(path)


ABOUT = {"shape": [12, 9], "data": "0123456789abcdef"}


def _steps(checkpoint, rng, again):
    """What a run with a checkpoint does: two steps, and random numbers after each."""
    out = []
    for number in range(2):

        def compute(number=number):
            again.append(number)
            return np.arange(12) % 3, rng.random_sample(), rng.randn(9, 4)

        out += [*checkpoint.once("start", compute), rng.random_sample(2)]
    return [np.asarray(value).tolist() for value in out]


def _run_steps(folder, again):
    from ksparse.io.checkpoint import open_checkpoint

    rng = np.random.RandomState(0)
    with open_checkpoint(folder, ABOUT, rng) as checkpoint:
        return _steps(checkpoint, rng, again)


def _expected_steps():
    with tempfile.TemporaryDirectory() as folder:
        return _run_steps(Path(folder), [])


def _checkpoint(path):
    _run_steps(path, [])


# Readers -------------------------------------------------------------------------------


def _read(path):
    from ksparse.readers import read

    label = "type" if path.name.endswith(".tsv.gz") else None
    adata = read(path, label_column=label)
    assert adata.n_obs > 0
    assert adata.n_vars > 0
    data = [*([] if adata.X is None else [adata.X]), *adata.layers.values()]
    assert data
    # A layer may have more axes, as anywhere in AnnData; it is refused where it is used.
    assert all(X.shape[:2] == (len(adata.obs_names), len(adata.var_names)) for X in data)
    assert adata.X is None or adata.X.ndim == 2
    assert adata.X is None or np.dtype(adata.X.dtype).kind in "fiub"
    return "read"


def _load(path):
    from ksparse import load

    model = load(path)
    found = model.predict(np.zeros((2, model.n_features_in_)))
    assert found.shape == (2,)
    return "read"


def _go_on(path):
    again = []
    expected = _expected_steps()
    assert _run_steps(path, again) == expected, "a damaged step was believed"
    return "redone" if again else "read"


FORMATS = {
    "h5ad": (_h5ad, "f.h5ad", _read),
    "h5ad-dense": (_h5ad_dense, "f.h5ad", _read),
    "zarr": (_zarr, "f.zarr", _read),
    "10x-h5": (_tenx, "f.h5", _read),
    "10x-folder": (_mtx, "f-10x", _read),
    "loom": (_loom, "f.loom", _read),
    "csv": (_csv, "f.csv", _read),
    "tsv.gz": (_tsv_gz, "f.tsv.gz", _read),
    "npz-sparse": (_npz_sparse, "f.npz", _read),
    "npz-dense": (_npz_dense, "f.npz", _read),
    "model": (_model, "f.ksparse", _load),
    "checkpoint": (_checkpoint, "f-steps", _go_on),
}


# Damage --------------------------------------------------------------------------------


def mutated(rng, content):
    """The bytes with one to four random changes."""
    content = bytearray(content)
    for _ in range(rng.integers(1, 5)):
        n = len(content)
        at = int(rng.integers(0, n + 1))
        length = int(min(n - at, rng.integers(1, 1 + rng.choice([4, 64, 4096]))))
        kind = rng.integers(0, 9)
        if kind == 0:  # cut off
            del content[at:]
        elif kind == 1:  # cut out
            del content[at : at + length]
        elif kind == 2:  # twice
            content[at:at] = content[at : at + length]
        elif kind == 3 and n:  # moved
            start = int(rng.integers(0, n))
            content[at : at + length] = content[start : start + length]
        elif kind == 4:  # noise
            content[at : at + length] = rng.bytes(length)
        elif kind == 5:  # a word
            content[at : at + int(rng.integers(0, 8))] = WORDS[rng.integers(len(WORDS))]
        elif kind == 6:  # an extreme number
            size = int(rng.choice([1, 2, 4, 8]))
            number = EXTREME[rng.integers(len(EXTREME))] % 2 ** (8 * size)
            content[at : at + size] = number.to_bytes(size, str(rng.choice(["little", "big"])))
        elif n and at < n:  # a bit, or a byte
            content[at] = (
                content[at] ^ (1 << int(rng.integers(8))) if kind == 7 else rng.bytes(1)[0]
            )
    return bytes(content)


def _inside_zip(rng, content):
    """Change a part of a zip file, and pack it again so that its checksums are right."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    name = list(parts)[rng.integers(len(parts))]
    if rng.random() < 0.1:
        del parts[name]
    else:
        parts[name] = mutated(rng, parts[name])
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    return out.getvalue()


def _inside_hdf5(rng, path):
    """Exchange or remove an item of a sound HDF5 file."""
    import h5py

    with h5py.File(path, "r+") as file:
        items = []
        file.visititems(lambda name, item: items.append(name))
        name = items[rng.integers(len(items))]
        attributes = list(file[name].attrs)
        if attributes and rng.random() < 0.4:
            key = attributes[rng.integers(len(attributes))]
            del file[name].attrs[key]
            file[name].attrs[key] = _odd_value(rng)
        else:
            del file[name]
            if rng.random() < 0.7:
                file[name] = _odd_value(rng)
            elif rng.random() < 0.5:  # announces what it does not have
                shape = [(10**12,), (10**9, 10**6), (2**40, 1)][rng.integers(3)]
                file.create_dataset(name, shape, dtype="f4", chunks=True)


def _odd_value(rng):
    shape = tuple(rng.integers(0, 14, size=rng.integers(0, 4)))
    return [
        np.float64("nan"),
        -1,
        10**12,
        "words",
        b"\xff\xfe",
        rng.normal(size=shape),
        rng.integers(-(2**62), 2**62, size=shape),
        np.full(shape, b"text"),
        rng.normal(size=shape) + 1j,
        np.zeros(shape, dtype="i1,f4"),
        np.full(shape, np.inf, dtype=np.float16),
        np.array([10**12, 10**12]),
    ][rng.integers(12)]


def damage(rng, path):
    """Change a file, or a file of a folder."""
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file())
        file = files[rng.integers(len(files))]
        if rng.random() < 0.1:
            file.unlink()
            return
        if rng.random() < 0.05:
            file.write_bytes(files[rng.integers(len(files))].read_bytes())
            return
    else:
        file = path
    content = file.read_bytes()
    inside = rng.random() < 0.5
    if inside and content[:2] == b"PK":
        file.write_bytes(_inside_zip(rng, content))
    elif inside and content[:2] == b"\x1f\x8b":
        file.write_bytes(gzip.compress(mutated(rng, gzip.decompress(content)), mtime=0))
    elif content[:4] == b"\x89HDF" and rng.random() < 0.4:
        _inside_hdf5(rng, file)
    else:
        file.write_bytes(mutated(rng, content))


# One file, and many --------------------------------------------------------------------


def try_one(name, number, sound, folder):
    """Damage a copy of a sound file and read it; return what came of it."""
    _, file, reader = FORMATS[name]
    path = folder / file
    if path.is_dir():
        shutil.rmtree(path)
    if sound.is_dir():
        shutil.copytree(sound, path)
    else:
        shutil.copy(sound, path)
    damage(np.random.default_rng([number, *name.encode()]), path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return reader(path)
        except DOCUMENTED as error:
            assert "\n" not in str(error), f"not one line: {error}"
            assert str(path) in str(error), f"names no file: {error}"
            return type(error).__name__


def make_sound(name, folder):
    """A sound file of that format."""
    make, file, reader = FORMATS[name]
    path = folder / f"sound-{file}"
    make(path)
    copy = folder / file  # readers look at names
    (shutil.copytree if path.is_dir() else shutil.copy)(path, copy)
    assert reader(copy) == "read"
    return path


def work(name, first, count, seconds, folder):
    """Read many in this process, telling the number of each before it is begun."""
    import resource

    from ksparse.readers import _watched

    _watched.CPU_SECONDS = 2  # small files need much less
    sound = make_sound(name, folder)
    # Enough for all that is sound; more is an attempt to take whatever there is.
    resource.setrlimit(resource.RLIMIT_AS, (2**34, 2**34))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    outcomes, before = Counter(), None
    end = time.monotonic() + seconds
    for number in range(first, first + count):
        if time.monotonic() > end:
            break
        os.write(1, f"{number}\n".encode())
        signal.alarm(SECONDS)
        outcomes[try_one(name, number, sound, folder)] += 1
        signal.alarm(0)
        if number == first + 20 or before is None:  # libraries have loaded what they need
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert peak < MEMORY, f"took {peak} bytes of memory"
    print("done", json.dumps(outcomes), flush=True)


def hunt(name, count, *, first=0, seconds=600.0):
    """Read `count` damaged files in watched processes; return outcomes, and what went wrong.

    What went wrong is a list of (number of the file, what happened).
    """
    outcomes, wrong = Counter(), []
    last = first + count
    end = time.monotonic() + seconds
    while first < last and time.monotonic() < end:
        with tempfile.TemporaryDirectory() as folder:
            words = [sys.executable, __file__, name, "--work", "--first", first]
            words += ["--count", last - first, "--seconds", end - time.monotonic()]
            done = subprocess.run([*map(str, words), "--folder", folder], capture_output=True)
        lines = done.stdout.decode().split("\n")
        numbers = [int(line) for line in lines if line.isdigit()]
        if done.returncode == 0:
            found = next(line for line in lines if line.startswith("done"))
            outcomes.update(json.loads(found[5:]))
            break
        at = numbers[-1] if numbers else first
        outcomes["before something went wrong"] += max(0, at - first)
        kind = {-signal.SIGALRM: "hang", -signal.SIGKILL: "killed"}.get(done.returncode)
        if kind is None:
            kind = f"signal {-done.returncode}" if done.returncode < 0 else "raised"
        tail = done.stderr.decode(errors="replace").strip().split("\n")
        wrong.append((at, f"{kind}: {tail[-1][:200]}"))
        first = at + 1
    return outcomes, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("name", choices=list(FORMATS))
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        if given.work:
            work(given.name, given.first, given.count, given.seconds, folder)
            return
        sound = make_sound(given.name, folder)
        for number in range(given.first, given.first + given.count):
            print(number, try_one(given.name, number, sound, folder))


if __name__ == "__main__":
    main()
