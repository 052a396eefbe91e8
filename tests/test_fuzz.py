"""Damaged and hostile files: refused in one line, whatever is in them."""

from __future__ import annotations

import json
import os
import pickle
import signal
import sys
import threading

import numpy as np
import pytest
import scipy.sparse as sp

pytest.importorskip("anndata")
pytest.importorskip("resource")

import fuzzing
from conftest import crossed, thorough_params
from ksparse.readers import read

# Forms of one format, which share its number of files.
PAIRS = {"h5ad", "h5ad-dense", "10x-h5", "10x-folder", "csv", "tsv.gz", "npz-sparse", "npz-dense"}


@pytest.mark.parametrize("name", list(fuzzing.FORMATS))
@pytest.mark.parametrize(("alone", "of_a_pair"), thorough_params([(8, 8)], [(1000, 500)]))
def test_damaged_files_are_read_or_refused_and_nothing_else(name, alone, of_a_pair):
    count = of_a_pair if name in PAIRS else alone
    outcomes, wrong = fuzzing.hunt(name, count)
    assert not wrong, f"python tests/fuzzing.py {name} --first {wrong[0][0]}"
    assert sum(outcomes.values()) == count
    assert outcomes["read"] < count / 2 or name == "zarr"
    assert outcomes["read"] < count


def refused(path, part):
    with pytest.raises((ValueError, MemoryError), match=part) as caught:
        read(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.fixture
def probe_script(tmp_path, monkeypatch):
    """Return a function that replaces the script of the probe by a program."""
    from ksparse.readers import _watched

    script = tmp_path / "_probe.py"
    monkeypatch.setattr(_watched, "__file__", str(tmp_path / "_watched.py"))

    def replace(program, ready=True):
        begin = "print('{\"ready\": true}', flush=True); input()\n" if ready else ""
        script.write_text(begin + program)
        monkeypatch.setattr(_watched, "_probe", _watched._Probe())

    yield replace
    _watched._probe.close()


@pytest.mark.parametrize(
    "program",
    [
        "import os; os.abort()",
        "import sys; sys.exit(3)",
        "import sys; sys.exit(0)",
        "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
        "import os, signal; os.kill(os.getpid(), signal.SIGBUS)",
        "print('{\"declared\": ', end='')",
    ],
)
def test_a_file_on_which_the_library_crashes_is_damaged(tmp_path, probe_script, program):
    path = tmp_path / "a.h5ad"
    path.write_bytes(b"anything")
    probe_script("import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n" + program)
    refused(path, "is damaged: the hdf5 library does not survive it")


TOOK_LONGER = (
    r"took longer than \S+ s to check, because the machine is busy or the file is damaged: give "
    "check=False to read it without the check"
)


def test_a_check_that_does_not_end_says_nothing_about_the_file(tmp_path, monkeypatch, probe_script):
    from ksparse.readers import _watched

    monkeypatch.setattr(_watched, "CPU_SECONDS", 0.05)
    path = h5ad(tmp_path)
    for program in ("while True: pass", "import time; time.sleep(100)"):
        for ready in (True, False):
            probe_script(program, ready)
            refused(path, TOOK_LONGER)


def test_a_check_that_waits_for_the_machine_says_nothing_about_the_file(tmp_path, monkeypatch):
    from ksparse.readers import _watched

    path = h5ad(tmp_path)
    assert read(path).n_obs == 12
    os.kill(_watched._probe._process.pid, signal.SIGSTOP)  # others have all cores
    monkeypatch.setattr(_watched, "CPU_SECONDS", 0.05)
    refused(path, TOOK_LONGER)
    assert read(path, check=False).n_obs == 12
    monkeypatch.undo()
    assert read(path).n_obs == 12  # by another process


def test_a_check_that_uses_up_its_cpu_time_says_nothing_about_the_file(tmp_path, monkeypatch):
    import h5py

    from ksparse.readers import _watched

    path = h5ad(tmp_path)
    with h5py.File(path, "r+") as file:
        file["uns/names"] = [f"name {i}" for i in range(200_000)]
        file["uns/names"].attrs.update({"encoding-type": "string-array",
                                        "encoding-version": "0.2.0"})  # fmt: skip
    monkeypatch.setattr(_watched, "CPU_SECONDS", 1e-3)
    monkeypatch.setattr(_watched, "CPU_SECONDS_PER_BYTE", 0.0)
    monkeypatch.setattr(_watched, "WALL_FACTOR", 1e5)  # the clock is not what ends it
    refused(path, TOOK_LONGER.replace(r"\S+", "0.001"))
    assert len(read(path, check=False).uns["names"]) == 200_000


def test_the_clock_limits_a_check_where_cpu_time_cannot_be_limited(
    tmp_path, monkeypatch, probe_script
):
    """As on Windows, which has neither `resource` nor timers of CPU time."""
    from ksparse.readers import _probe, _watched

    path = h5ad(tmp_path)
    program = f"""
import runpy, signal, sys
sys.modules["resource"] = None
for name in ("setitimer", "ITIMER_PROF", "SIGPROF"):
    delattr(signal, name)
runpy.run_path({_probe.__file__!r}, run_name="__main__")
"""
    probe_script(program, ready=False)
    assert read(path).n_obs == 12
    monkeypatch.setattr(_watched, "TIME_IS_UP", None)
    os.kill(_watched._probe._process.pid, signal.SIGSTOP)
    monkeypatch.setattr(_watched, "CPU_SECONDS", 0.05)
    refused(path, TOOK_LONGER)


def test_a_check_that_is_ended_by_others_says_nothing_about_the_file(tmp_path, probe_script):
    path = h5ad(tmp_path)
    probe_script("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")  # no memory left
    refused(path, "could not be checked, because .* from outside, by signal 9: give check=False")
    probe_script("import sys; sys.exit(1)", ready=False)  # a Python that does not work
    refused(path, "could not be checked, because the process for it does not start: give check=")
    assert read(path, check=False).n_obs == 12


def test_a_library_that_is_not_installed_is_not_the_fault_of_the_file(tmp_path, probe_script):
    path = h5ad(tmp_path)
    probe_script("""print('{"missing": "h5py"}', flush=True)""")
    with pytest.raises(ImportError, match=r"a.h5ad needs h5py: .*pip install 'ksparse\[anndata\]'"):
        read(path)


def test_a_check_that_takes_too_much_memory_leaves_the_choice_to_the_user(tmp_path, probe_script):
    path = h5ad(tmp_path)
    probe_script("""print('{"memory": 2147483648}', flush=True)""")
    refused(path, "is damaged, or needs more than 2.15 GB of memory to check: give check=False to")
    assert read(path, check=False).n_obs == 12


def test_files_of_many_chunks_are_checked_soon(tmp_path, monkeypatch):
    # Looking up one chunk after another takes quadratic time: 20 s for these.
    import h5py

    from ksparse.readers import _watched

    path = h5ad(tmp_path)
    with h5py.File(path, "r+") as file:
        item = file["uns"].create_dataset("many", (30_000 * 150,), chunks=(150,), dtype="f4")
        item[...] = 1
        item.attrs.update({"encoding-type": "array", "encoding-version": "0.2.0"})
    monkeypatch.setattr(_watched, "CPU_SECONDS", 2)
    assert read(path).n_obs == 12


@pytest.mark.parametrize("name", ["h5ad", "10x-h5", "loom", "zarr"])
def test_without_the_check_no_process_is_started(tmp_path, monkeypatch, name):
    from ksparse.readers import _watched

    make, file, _ = fuzzing.FORMATS[name]
    make(tmp_path / file)
    checked = read(tmp_path / file)
    monkeypatch.setattr(_watched._Probe, "ask", lambda *given: pytest.fail("a process was asked"))
    unchecked = read(tmp_path / file, check=False)
    np.testing.assert_array_equal(unchecked.to_df(), checked.to_df())


# Declared sizes ------------------------------------------------------------------------


def h5ad(tmp_path):
    fuzzing._h5ad(tmp_path / "a.h5ad")
    return tmp_path / "a.h5ad"


@pytest.mark.parametrize("place", ["X/data", "obs/n", "layers/dense", "uns/about/array"])
@pytest.mark.parametrize("shape", [(10**12,), (10**10,), (2**30, 2**20)])
def test_hdf5_that_announces_too_much_is_refused(tmp_path, place, shape):
    import h5py

    path = h5ad(tmp_path)
    with h5py.File(path, "r+") as file:
        attributes = dict(file[place].attrs)
        del file[place]
        file.create_dataset(place, shape, dtype="f4", chunks=True).attrs.update(attributes)
    refused(path, r"announces \d.* [TGP]B of data, but holds .* kB: it is damaged")


def test_loom_that_announces_too_much_is_refused(tmp_path):
    import h5py

    with h5py.File(tmp_path / "a.loom", "w") as file:
        file.create_dataset("matrix", (10**12, 5), dtype="f4", chunks=True)
    refused(tmp_path / "a.loom", "announces 20 TB of data")


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("what", ["shape", "chunks"])
def test_zarr_that_announces_too_much_is_refused(tmp_path, version, what):
    zarr = pytest.importorskip("zarr")
    path = tmp_path / "a.zarr"
    try:
        group = zarr.open_group(path, mode="w", zarr_format=version)
        group.create_array("X", shape=(4, 4), chunks=(2, 2), dtype="f4")
    except (TypeError, AttributeError):
        pytest.skip("this zarr knows one format only")
    file = path / "X" / (".zarray" if version == 2 else "zarr.json")
    tree = json.loads(file.read_text())
    if what == "shape":
        tree["shape"] = [10**12, 4]
    elif version == 2:
        tree["chunks"] = [10**12, 4]
    else:
        tree["chunk_grid"]["configuration"]["chunk_shape"] = [10**12, 4]
    file.write_text(json.dumps(tree))
    refused(path, "announces 16 TB of data")


def test_text_of_zarr_that_announces_too_much_is_refused(tmp_path):
    fuzzing._zarr(tmp_path / "a.zarr")
    chunks = [p for p in tmp_path.rglob("uns/about/text/*") if p.name == "0"]
    about = json.loads((chunks[0].parent / ".zarray").read_text()) if chunks else {}
    if not about.get("filters"):
        pytest.skip("this anndata writes another format")
    import numcodecs

    codec = numcodecs.get_codec(about["compressor"])
    content = bytes(codec.decode(chunks[0].read_bytes()))
    assert content == b"\x01\0\0\0\x05\0\0\0words"  # one text of five letters
    chunks[0].write_bytes(codec.encode(b"\xff\xff\xff\x7f" + content[4:]))
    refused(tmp_path / "a.zarr", "is damaged")


@pytest.mark.parametrize("shape", ["(10, 100000000000)", "(1000000000000, 9)", "(-1, 9)"])
def test_npz_that_announces_too_much_is_refused(tmp_path, shape):
    import zipfile

    path = tmp_path / "a.npz"
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    content = b"\x93NUMPY\x01\0" + len(header).to_bytes(2, "little") + header.encode() + b"\0" * 64
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("X.npy", content)
    refused(path, "it is damaged")


@pytest.mark.parametrize("shape", [(10**12, 3), (3, 10**12)])
@pytest.mark.parametrize("kind", ["coo", "csc", "csr"])
def test_sparse_npz_that_announces_too_much_is_refused(tmp_path, kind, shape):
    path = tmp_path / "a.npz"
    parts = {"format": np.array(kind.encode()), "shape": np.array(shape), "data": np.ones(1)}
    if kind == "coo":
        parts |= {"row": np.zeros(1, np.int64), "col": np.zeros(1, np.int64)}
    else:
        parts |= {"indices": np.zeros(1, np.int64), "indptr": np.array([0, 1, 1, 1])}
    np.savez(path, **parts)
    refused(path, "announces 100 TB of data|cannot be read: index pointer size")


@pytest.mark.parametrize(
    ("header", "part"),
    [
        ("1000000000000 12 20", "features.tsv.gz has 9 lines, but matrix.mtx has 1000000000000"),
        ("9 1000000000000 20", "barcodes.tsv has 12 lines, but matrix.mtx has 1000000000000"),
        ("9 12 1000000000000", "announces 1000000000000 values, which take 40 TB of memory, but"),
        ("9 12 -5", "does not say how many"),
        ("9 12", "does not say how many"),
    ],
)
def test_mtx_that_announces_too_much_is_refused(tmp_path, header, part):
    fuzzing._mtx(tmp_path / "a")
    file = tmp_path / "a" / "matrix.mtx"
    lines = file.read_text().split("\n")
    lines[lines.index(next(line for line in lines if not line.startswith("%")))] = header
    file.write_text("\n".join(lines))
    refused(tmp_path / "a", part)


@pytest.mark.parametrize(
    ("first", "part"),
    [
        ("%%MatrixMarket matrix array real general", "must begin with"),
        ("%%MatrixMarket matrix coordinate real symmetric", "must begin with"),
        ("%%MatrixMarket matrix coordinate complex general", "holds 'complex' values"),
        ("hello", "must begin with"),
    ],
)
def test_other_kinds_of_mtx_are_refused(tmp_path, first, part):
    fuzzing._mtx(tmp_path / "a")
    file = tmp_path / "a" / "matrix.mtx"
    file.write_text(first + "\n" + file.read_text().split("\n", 1)[1])
    refused(tmp_path / "a", part)


def test_mtx_of_patterns_and_of_nothing(tmp_path):
    fuzzing._mtx(tmp_path / "a")
    file = tmp_path / "a" / "matrix.mtx"
    file.write_text("%%MatrixMarket matrix coordinate pattern general\n%\n\n9 12 2\n1 1\n9 12\n")
    assert read(tmp_path / "a").X.toarray().sum() == 2
    file.write_text("%%MatrixMarket matrix coordinate real general\n9 12 0\n")
    assert read(tmp_path / "a").X.nnz == 0
    file.write_text("%%MatrixMarket matrix coordinate real general\n9 12 1\n10 1 3\n")
    refused(tmp_path / "a", "a value is outside of 9 x 12")


def test_more_than_fits_in_memory_is_told(tmp_path, monkeypatch):
    from ksparse.io import archives

    path = h5ad(tmp_path)
    monkeypatch.setattr(archives, "available_memory", lambda: 100.0)
    refused(path, r"holds 1\.\d* kB of data, and 100 bytes of memory are free")


def test_memory_is_told_wherever_it_runs(monkeypatch):
    from ksparse.io import archives

    free = archives.available_memory()
    assert 1e8 < free < 1e14
    monkeypatch.setattr(archives.Path, "read_text", lambda path: "nothing")
    assert 1e8 < archives.available_memory() < 1e14
    assert archives.format_bytes(3e17) == "300 PB"


# Nothing is executed ---------------------------------------------------------------------


class Evil:
    def __reduce__(self):
        return (os.mkdir, ("executed",))


def test_pickles_in_any_file_are_refused_and_not_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a.h5ad", "a.h5", "a.loom", "a.csv", "a.tsv.gz", "a.npz"):
        (tmp_path / name).write_bytes(pickle.dumps(Evil()))
        refused(tmp_path / name, name)
    np.savez("b.npz", X=np.ones((3, 3)), more=np.array([Evil()], dtype=object))
    refused(tmp_path / "b.npz", "Python objects in more.npy")
    np.save("c.npy", np.array([[Evil()]], dtype=object), allow_pickle=True)
    (tmp_path / "c.npy").rename(tmp_path / "c.npz")
    refused(tmp_path / "c.npz", "c.npz")
    sp.save_npz("d.npz", sp.csr_matrix(np.ones((2, 2))))
    np.savez("d.npz", **{**np.load("d.npz"), "format": np.array([Evil()], dtype=object)})
    refused(tmp_path / "d.npz", "Python objects in format.npy")
    assert not (tmp_path / "executed").exists()


def test_objects_in_hdf5_are_bytes_and_nothing_else(tmp_path, monkeypatch):
    import h5py

    monkeypatch.chdir(tmp_path)
    path = h5ad(tmp_path)
    with h5py.File(path, "r+") as file:
        file["uns/evil"] = np.void(pickle.dumps(Evil()))
        file["uns/evil"].attrs.update({"encoding-type": "array", "encoding-version": "0.2.0"})
    assert read(path).n_obs == 12  # it is there as bytes
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("consolidated", [False, True])
@pytest.mark.parametrize("codec", ["pickle", "numcodecs.pickle", "something"])
def test_zarr_that_unpickles_is_refused(tmp_path, monkeypatch, codec, consolidated):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "a.zarr"
    (path / "X").mkdir(parents=True)
    array = {"zarr_format": 2, "shape": [2, 2], "chunks": [2, 2], "dtype": "<f4", "order": "C",
             "compressor": None, "fill_value": 0, "filters": [{"id": codec}]}  # fmt: skip
    (path / ".zgroup").write_text('{"zarr_format": 2}')
    if consolidated:
        metadata = {".zgroup": {"zarr_format": 2}, "X/.zarray": array}
        tree = {"zarr_consolidated_format": 1, "metadata": metadata}
        (path / ".zmetadata").write_text(json.dumps(tree))
    else:
        (path / "X" / ".zarray").write_text(json.dumps(array))
    (path / "X" / "0.0").write_bytes(pickle.dumps(Evil()))
    refused(path, f"is packed with '{codec.removeprefix('numcodecs.')}', which is not read")
    assert not (tmp_path / "executed").exists()


def test_version_3_of_zarr_is_looked_at_too(tmp_path):
    path = tmp_path / "a.zarr"
    (path / "X").mkdir(parents=True)
    (path / "zarr.json").write_text('{"zarr_format": 3, "node_type": "group"}')
    inner = {"name": "sharding_indexed", "configuration": {"codecs": [{"name": "pickle"}]}}
    array = {"zarr_format": 3, "node_type": "array", "shape": [2], "codecs": [inner]}
    (path / "X" / "zarr.json").write_text(json.dumps(array))
    refused(path, "is packed with 'pickle'")
    (path / "X" / "zarr.json").write_text("{")
    refused(path, "is damaged, in X/zarr.json")


@pytest.mark.parametrize("place", ["uns/about/array", "layers/dense", "obs/n"])
def test_an_error_that_is_kept_does_not_lock_other_threads_out(tmp_path, place):
    # A loop of old h5py that an exception has left holds its lock as long as the traceback lives.
    import h5py

    good = h5ad(tmp_path)
    bad = tmp_path / "bad.h5ad"
    bad.write_bytes(good.read_bytes())
    with h5py.File(bad, "r+") as file:
        file[place].attrs["encoding-type"] = "nonsense"
    with pytest.raises(ValueError, match=r"bad.h5ad cannot be read") as kept:
        read(bad)
    other = threading.Thread(target=read, args=[good], daemon=True)
    other.start()
    other.join(60)
    assert not other.is_alive()
    assert kept.tb is not None


@pytest.mark.parametrize("check", [True, False])
def test_links_to_other_files_are_not_followed(tmp_path, check):
    import h5py

    def refused(path, part):
        with pytest.raises(ValueError, match=part):
            read(path, check=check)

    (tmp_path / "secret").write_bytes(b"my password!")
    path = h5ad(tmp_path)
    with h5py.File(path, "r+") as file:
        file["uns/link"] = h5py.ExternalLink("other.h5", "/X")
    refused(path, "refers to another file in /uns/link")
    path.unlink()
    path = h5ad(tmp_path)
    with h5py.File(path, "r+") as file:
        outside = [(str(tmp_path / "secret"), 0, 12)]
        item = file["uns"].create_dataset("text", (12,), dtype="u1", external=outside)
        item.attrs.update({"encoding-type": "array", "encoding-version": "0.2.0"})
    refused(path, "refers to another file in /uns/text")
    if sys.platform != "win32":
        fuzzing._zarr(tmp_path / "a.zarr")
        (tmp_path / "a.zarr" / "X" / "more").symlink_to(tmp_path / "secret")
        refused(tmp_path / "a.zarr", "refers to another place in more")


def hidden_group(file):
    """A group that no link leads to, but one in itself, so that it is not removed."""
    group = file.create_group("hidden")
    group["itself"] = group
    del file["hidden"]
    return group


def referring(h5py, value, way, file, group):
    """Put a reference somewhere in a file, where no link leads to what it refers to."""
    one = np.array([value], dtype=h5py.ref_dtype)
    record = np.zeros(1, dtype=[("number", "i4"), ("place", h5py.ref_dtype)])
    record["place"] = value
    if way == "attribute":  # which old versions of anndata wrote, and new ones follow
        file["obs"].attrs["encoding-version"] = "0.1.0"
        file["obs/n"][...] = 0
        file["obs/n"].attrs["categories"] = value
    elif way == "attribute of a group":
        group.attrs["more"] = value
    elif way == "attribute of the root":
        file.attrs["more"] = one
    elif way == "attribute of a type":
        file["uns/kind"] = np.dtype("f8")
        file["uns/kind"].attrs["more"] = value
    elif way == "record":
        group.attrs["more"] = record
    elif way == "ragged array":
        ragged = np.empty(1, dtype=object)
        ragged[0] = one
        group.attrs.create("more", ragged, dtype=h5py.vlen_dtype(h5py.ref_dtype))
    elif way == "dataset":
        file["uns/places"] = one
    elif way == "dataset of records":
        file["uns/places"] = record


WAYS = ["attribute", "attribute of a group", "attribute of the root", "attribute of a type",
        "record", "ragged array", "dataset", "dataset of records", "region", "group",
        "chain"]  # fmt: skip


@pytest.mark.parametrize(("way", "check"), crossed(WAYS, [True, False]))
def test_references_to_other_files_are_not_followed(tmp_path, way, check):
    import h5py

    (tmp_path / "secret").write_bytes(b"my password!")
    path = h5ad(tmp_path)
    with h5py.File(path, "r+") as file:
        hidden = hidden_group(file)
        outside = [(str(tmp_path / "secret"), 0, 12)]
        item = hidden.create_dataset("text", (1,), dtype="S12", external=outside)
        value = item.ref
        if way == "region":
            file["obs/n"].attrs.create("more", item.regionref[:], dtype=h5py.regionref_dtype)
        elif way == "group":
            file["obs/n"].attrs["more"] = hidden.ref
        elif way == "chain":
            middle = hidden_group(file).create_dataset("middle", data=1)
            middle.attrs["more"] = value
            file["obs/n"].attrs["more"] = middle.ref
        referring(h5py, value, way, file, file["uns"])
    with pytest.raises(ValueError, match=r"refers to another file in /") as caught:
        read(path, check=check)
    assert "password" not in str(caught.value)


@pytest.mark.parametrize("name", ["10x-h5", "loom"])
def test_references_are_looked_at_in_all_formats_of_hdf5(tmp_path, name):
    import h5py

    make, file_name, _ = fuzzing.FORMATS[name]
    make(tmp_path / file_name)
    with h5py.File(tmp_path / file_name, "r+") as file:
        hidden = hidden_group(file)
        hidden["link"] = h5py.ExternalLink("other.h5", "/X")
        file["matrix"].attrs["more"] = hidden.ref
    refused(tmp_path / file_name, "refers to another file in /matrix@more/link")


@pytest.mark.filterwarnings("ignore:Element '/obs/type' was written without encoding metadata")
@pytest.mark.filterwarnings("ignore:Element '/obs/__categories/type' was written without")
def test_references_within_a_file_are_read(tmp_path):
    """As anndata wrote categories before 0.8."""
    import h5py

    path = h5ad(tmp_path)
    with h5py.File(path, "r+") as file:
        del file["obs/type"]
        file["obs"].attrs["encoding-version"] = "0.1.0"
        file["obs/type"] = np.array([0, 1] * 6, dtype=np.int8)
        file["obs/__categories/type"] = np.array(["a", "b"], dtype=object)
        file["obs/type"].attrs["categories"] = file["obs/__categories/type"].ref
        file["obs/n"].attrs["nothing"] = h5py.Reference()
    for check in (True, False):
        assert read(path, check=check).obs["type"].tolist() == ["a", "b"] * 6


@pytest.mark.parametrize("name", ["10x-h5", "h5ad", "zarr"])
def test_links_within_a_file_are_read(tmp_path, name):
    import h5py

    make, file_name, _ = fuzzing.FORMATS[name]
    path = tmp_path / file_name
    make(path)
    if name == "zarr":
        path = path.rename(tmp_path / "real.zarr")
        path = tmp_path / "link.zarr"
        path.symlink_to(tmp_path / "real.zarr")  # what users name themselves is followed
    else:
        with h5py.File(path, "r+") as file:
            place = "matrix/barcodes" if name == "10x-h5" else "layers/dense"
            file.move(place, f"{place}2")
            file[place] = h5py.SoftLink(f"/{place}2")
    assert read(path).n_obs == 12


def test_links_in_zarr_are_not_followed_even_within(tmp_path):
    fuzzing._zarr(tmp_path / "a.zarr")
    (tmp_path / "a.zarr" / "uns" / "more").symlink_to(tmp_path / "a.zarr" / "obs")
    refused(tmp_path / "a.zarr", "refers to another place in more")


def test_a_10x_folder_may_hold_links_to_files_of_10x_and_to_no_others(tmp_path):
    fuzzing._mtx(tmp_path / "real")
    (tmp_path / "a").mkdir()
    for file in (tmp_path / "real").iterdir():
        (tmp_path / "a" / file.name).symlink_to(file)
    assert read(tmp_path / "a").n_obs == 12
    (tmp_path / "secret").write_text("my password!\n" * 12)
    (tmp_path / "a" / "barcodes.tsv").unlink()
    (tmp_path / "a" / "barcodes.tsv").symlink_to(tmp_path / "secret")
    refused(tmp_path / "a", "barcodes.tsv is a link to secret, which is not followed: copy it")


def test_links_that_go_in_circles_are_no_trap(tmp_path):
    import h5py

    path = h5ad(tmp_path)
    with h5py.File(path, "r+") as file:
        file["uns/about/loop"] = file["uns"]
    refused(path, "links lead to /uns in a circle, or on too many paths")
    with pytest.raises(ValueError, match="cannot be read: links lead to /uns in a circle"):
        read(path, check=False)
