"""Time, passes and memory as the number of samples grows, beside scikit-learn in the same run.

python benchmarks/scale.py [--sizes 10000 100000 1000000] [--features 2000] [--density 0.1]
                           [--clusters 10] [--selected 100] [--memory-limit 2GB] [--folder DIR]

Synthetic CSR data are written to an .h5ad file for each size, and kept there. Every row of the
table has a process of its own. "in memory" reads the file first; "backed" (the largest size)
reads it in blocks, within the memory limit. One scipy pass is X @ W and X.T @ T with 14 columns.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import h5py
import numpy as np
import scipy.sparse as sp
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.decomposition import TruncatedSVD
from sklearn.metrics import adjusted_rand_score

from memory import generate, peak_beyond_now

BLOCK = 20_000
WIDTH = 14


def write(path, m, d, density, k):
    """Write CSR data as an .h5ad file, a block at a time: they need not fit in memory."""
    temporary = path.with_suffix(".part")
    with h5py.File(temporary, "w") as file:
        file.attrs.update({"encoding-type": "anndata", "encoding-version": "0.1.0"})
        group = file.create_group("X")
        group.attrs.update({"encoding-type": "csr_matrix", "encoding-version": "0.1.0",
                            "shape": [m, d]})  # fmt: skip
        data = group.create_dataset("data", (0,), "f4", maxshape=(None,), chunks=(2**20,))
        indices = group.create_dataset("indices", (0,), "i4", maxshape=(None,), chunks=(2**20,))
        indptr, labels, filled = [np.zeros(1, dtype=np.int64)], [], 0
        for start in range(0, m, BLOCK):
            part, part_labels = generate(min(BLOCK, m - start), d, density, k, seed=start)
            for stored, values in ((data, part.data), (indices, part.indices)):
                stored.resize((filled + part.nnz,))
                stored[filled:] = values
            indptr.append(part.indptr[1:].astype(np.int64) + filled)
            labels.append(part_labels)
            filled += part.nnz
        group["indptr"] = np.concatenate(indptr)
        file["labels"] = np.concatenate(labels)
    temporary.rename(path)


def load(path):
    with h5py.File(path) as file:
        X = file["X"]
        return sp.csr_matrix(
            (X["data"][:], X["indices"][:], X["indptr"][:]), shape=tuple(X.attrs["shape"])
        )


def run_row(arguments):
    """One row: a method on a file; prints what it measured as JSON."""
    from ksparse import KSparse

    path, k, out = Path(arguments.file), arguments.clusters, {}
    if arguments.row == "backed":
        model = KSparse(k, n_features=arguments.selected, init="spectral", random_state=0,
                        memory_limit=arguments.memory_limit)  # fmt: skip
        _warm_up(KSparse)
        start = time.perf_counter()
        labels = model.fit(h5py.File(path)["X"]).labels_
        out["seconds"] = time.perf_counter() - start
        out["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        out["passes"], out["loops"] = model.n_passes_, model.n_iter_
    else:
        X = load(path)
        size = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
        W = np.random.default_rng(0).normal(size=(X.shape[1], WIDTH)).astype(X.dtype)
        if arguments.row == "scipy pass":
            start = time.perf_counter()
            X.T @ (X @ W)
            print(json.dumps({"seconds": time.perf_counter() - start}))
            return
        if arguments.row == "in memory":
            model = KSparse(k, n_features=arguments.selected, init="spectral", random_state=0)
            _warm_up(KSparse)
            fit = lambda: model.fit(X).labels_  # noqa: E731
        elif arguments.row == "MiniBatchKMeans":
            fit = MiniBatchKMeans(k, n_init=3, random_state=0).fit(X[:1000]).fit
            fit = lambda: MiniBatchKMeans(k, n_init=3, random_state=0).fit_predict(X)  # noqa: E731
        else:

            def fit():
                points = TruncatedSVD(WIDTH, random_state=0).fit_transform(X)
                return KMeans(k, n_init=3, random_state=0).fit_predict(points)

        start = time.perf_counter()
        labels, beyond = peak_beyond_now(fit)
        out |= {"seconds": time.perf_counter() - start, "beyond": beyond / size, "size": size}
        if arguments.row == "in memory":
            out["loops"] = model.n_iter_
    with h5py.File(path) as file:
        out["ari"] = adjusted_rand_score(file["labels"][:], labels)
    np.save(path.with_suffix(f".{arguments.row.replace(' ', '-')}.npy"), labels)
    print(json.dumps(out))


def _warm_up(KSparse):
    """Compile the kernels before the clock runs."""
    KSparse(2, n_features=3, init="spectral", random_state=0).fit(
        sp.random(200, 20, 0.3, format="csr", dtype=np.float32, random_state=0)
    )


def row(arguments, path, name):
    words = [sys.executable, __file__, "--row", name, "--file", str(path),
             "--clusters", str(arguments.clusters), "--selected", str(arguments.selected),
             "--memory-limit", arguments.memory_limit]  # fmt: skip
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{name} failed:\n{done.stderr}")
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--features", type=int, default=2000)
    parser.add_argument("--density", type=float, default=0.1)
    parser.add_argument("--clusters", type=int, default=10)
    parser.add_argument("--selected", type=int, default=100)
    parser.add_argument("--memory-limit", default="2GB")
    parser.add_argument("--folder", default=str(Path(tempfile.gettempdir()) / "ksparse-scale"))
    parser.add_argument("--row", help=argparse.SUPPRESS)
    parser.add_argument("--file", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.row:
        run_row(arguments)
        return
    folder = Path(arguments.folder)
    folder.mkdir(parents=True, exist_ok=True)
    print(f"{'samples':>9} {'method':<22} {'seconds':>8} {'x pass':>7} {'beyond input':>13} "
          f"{'passes':>6} {'loops':>5} {'ARI':>6}")  # fmt: skip
    seconds = {}
    for m in sorted(arguments.sizes):
        path = folder / f"{m}-{arguments.features}-{arguments.density:g}-{arguments.clusters}.h5ad"
        if not path.exists():
            write(path, m, arguments.features, arguments.density, arguments.clusters)
        one_pass = row(arguments, path, "scipy pass")["seconds"]
        print(f"{m:>9,} {'scipy pass':<22} {one_pass:>8.2f} {1:>7.1f}", flush=True)
        names = ["in memory", "MiniBatchKMeans", "TruncatedSVD + KMeans"]
        if m == max(arguments.sizes):
            names.append("backed")
        for name in names:
            out = row(arguments, path, name)
            beyond = f"{out['beyond']:.2f}" if "beyond" in out else f"{out['peak'] / 1e9:.2f} GB"
            title = f"ksparse {name}" if name in ("in memory", "backed") else name
            print(f"{m:>9,} {title:<22} {out['seconds']:>8.1f} {out['seconds'] / one_pass:>7.1f} "
                  f"{beyond:>13} {out.get('passes', ''):>6} {out.get('loops', ''):>5} "
                  f"{out['ari']:>6.3f}", flush=True)  # fmt: skip
            if name == "in memory":
                seconds[m] = out["seconds"]
    sizes = sorted(seconds)
    for a, b in pairwise(sizes):
        exponent = np.log(seconds[b] / seconds[a]) / np.log(b / a)
        print(f"exponent of time in samples, {a:,} to {b:,}: {exponent:.2f}")
    pair = [np.load(path.with_suffix(f".{name}.npy")) for name in ("in-memory", "backed")]
    print(f"labels of the backed fit differ for {int((pair[0] != pair[1]).sum())} samples")
    print("(beyond input: peak memory of the fit divided by the size of the data in memory; "
          "for backed: peak memory of the whole process)")  # fmt: skip


if __name__ == "__main__":
    main()
