"""Every kind of file gives the same data, and damaged files one clear sentence."""

from __future__ import annotations

import gzip
import pickle
import shutil

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.io import mmwrite

from conftest import thorough_params
from ksparse.readers import read

anndata = pytest.importorskip("anndata")
h5py = pytest.importorskip("h5py")

COUNTS = np.random.default_rng(0).poisson(0.4, size=(12, 7)).astype(np.float32)
CELLS = [f"cell {i}" for i in range(12)]
GENES = ["Actb", "Gad1,2", 'Q"x', "Ünï", "NA", "007", "Zz"]


def table(counts, rows, columns, separator=","):
    import csv
    import io

    text = io.StringIO()
    writer = csv.writer(text, delimiter=separator, lineterminator="\n")
    writer.writerow(["", *columns])
    writer.writerows(
        [name, *(f"{v:g}" for v in row)] for name, row in zip(rows, counts, strict=True)
    )
    return text.getvalue()


def write_csv(path):
    path.write_text(table(COUNTS, CELLS, GENES), encoding="utf-8")


def write_tsv_gz(path):
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.write(table(COUNTS, CELLS, GENES, "\t"))


def write_h5ad(path):
    as_anndata().write_h5ad(path)


def write_zarr(path):
    as_anndata().write_zarr(path)


def as_anndata():
    import pandas

    return anndata.AnnData(
        sp.csr_matrix(COUNTS), obs=pandas.DataFrame(index=CELLS), var=pandas.DataFrame(index=GENES)
    )


def write_10x(path, version=3):
    counts = sp.csc_matrix(COUNTS.T.astype(np.int32))
    with h5py.File(path, "w") as file:
        group = file.create_group("matrix" if version == 3 else "mm10")
        for name in ("data", "indices", "indptr", "shape"):
            group[name] = getattr(counts, name)
        group["barcodes"] = [name.encode() for name in CELLS]
        if version == 3:
            group["features/id"] = [f"ENS{i}".encode() for i in range(7)]
            group["features/name"] = [name.encode() for name in GENES]
            group["features/feature_type"] = [b"Gene Expression"] * 7
        else:
            group["genes"] = [f"ENS{i}".encode() for i in range(7)]
            group["gene_names"] = [name.encode() for name in GENES]


def write_10x_old(path):
    write_10x(path, 2)


def write_mtx(path, gz=False, genes="features.tsv", prefix=""):
    path.mkdir()
    mmwrite(path / f"{prefix}matrix.mtx", sp.coo_matrix(COUNTS.T.astype(int)), field="integer")
    (path / f"{prefix}barcodes.tsv").write_text("\n".join(CELLS) + "\n", encoding="utf-8")
    lines = [f"ENS{i}\t{name}\tGene Expression" for i, name in enumerate(GENES)]
    (path / f"{prefix}{genes}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    if gz:
        for file in list(path.iterdir()):
            with file.open("rb") as plain, gzip.open(f"{file}.gz", "wb") as packed:
                shutil.copyfileobj(plain, packed)
            file.unlink()


def write_mtx_gz(path):
    write_mtx(path, gz=True, prefix="sample1_")


def write_mtx_old(path):
    write_mtx(path, genes="genes.tsv")


def write_loom(path):
    with h5py.File(path, "w") as file:
        file["matrix"] = COUNTS.T
        file["row_attrs/Gene"] = [name.encode() for name in GENES]
        file["col_attrs/CellID"] = [name.encode() for name in CELLS]
        file["col_attrs/batch"] = np.arange(12)
        file.create_group("layers")


def write_npz(path):
    np.savez(path, X=COUNTS, obs_names=np.array(CELLS), var_names=np.array(GENES))


WRITERS = {
    "a.csv": write_csv,
    "a.tsv.gz": write_tsv_gz,
    "a.h5ad": write_h5ad,
    "a.zarr": write_zarr,
    "a.h5": write_10x,
    "old.h5": write_10x_old,
    "mtx": write_mtx,
    "mtx_gz": write_mtx_gz,
    "mtx_old": write_mtx_old,
    "a.loom": write_loom,
    "a.npz": write_npz,
}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.filterwarnings("ignore:Writing zarr v2 data")
def test_every_kind_of_file_gives_the_same_data(tmp_path, name):
    path = tmp_path / name
    WRITERS[name](path)
    adata = read(path)
    X = adata.X.toarray() if sp.issparse(adata.X) else adata.X
    np.testing.assert_array_equal(X, COUNTS)
    assert adata.obs_names.tolist() == CELLS
    assert adata.var_names.tolist() == GENES
    assert np.dtype(adata.X.dtype) == np.float32
    if name != "a.npz":
        assert sp.issparse(adata.X)  # mostly zeros


def test_tables_may_have_genes_in_rows(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(table(COUNTS.T, GENES, CELLS), encoding="utf-8")
    adata = read(path, transpose=True)
    np.testing.assert_array_equal(adata.X.toarray(), COUNTS)
    assert adata.obs_names.tolist() == CELLS
    np.savez(tmp_path / "t.npz", X=COUNTS.T)
    np.testing.assert_array_equal(read(tmp_path / "t.npz", transpose=True).X, COUNTS)


def test_tables_without_names_or_with_a_shorter_header(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1.5,2\n3,4\n")
    adata = read(path)
    np.testing.assert_array_equal(adata.X, [[1.5, 2], [3, 4]])
    assert adata.obs_names.tolist() == ["0", "1"]
    path.write_text("a,b\nx,1,2\ny,3,4\n")  # as R writes it
    adata = read(path)
    assert adata.obs_names.tolist() == ["x", "y"]
    assert adata.var_names.tolist() == ["a", "b"]
    path.write_text("\ufeffname;a\n".replace(";", ",") + "x,1\r\ny,2\r\n\r\n", encoding="utf-8")
    assert read(path).obs_names.tolist() == ["x", "y"]


def test_numbers_may_be_names(tmp_path):
    path = tmp_path / "t.csv"
    for head in ("cell,a,b", ",a,b", "Gene_ID,a,b"):
        path.write_text(f"{head}\n1001,1,2\n1002,3,4\n")
        adata = read(path)
        assert adata.obs_names.tolist() == ["1001", "1002"]
        assert adata.var_names.tolist() == ["a", "b"]
    path.write_text(",101,102\nx,1,2\ny,3,4\n")  # genes named by numbers
    assert read(path).var_names.tolist() == ["101", "102"]
    path.write_text("depth,a\n1001,1\n1002,3\n")
    with pytest.warns(UserWarning, match="first column .'depth'. holds a different whole number"):
        assert read(path).var_names.tolist() == ["depth", "a"]
    path.write_text("0.5,1.5,2.5\n3,4,5\n6,7,8\n")
    with pytest.raises(ValueError, match="has no header"):
        read(path)


def test_labels_may_stand_in_the_first_column(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("type,a,b\nred,1,2\nred,3,4\nblue,5,6\n")
    adata = read(path, label_column="type")
    assert adata.obs["type"].tolist() == ["red", "red", "blue"]
    assert adata.obs_names.tolist() == ["0", "1", "2"]
    assert adata.var_names.tolist() == ["a", "b"]


@pytest.mark.parametrize("columns", [["type", "donor"], ("donor", "type", "donor")])
def test_several_columns_of_a_table_hold_labels(tmp_path, columns):
    path = tmp_path / "t.csv"
    path.write_text("cell,donor,a,type,b\nx,1,1,red,2\ny,2,3,,4\n")
    adata = read(path, label_column=columns)
    assert adata.obs["donor"].tolist() == ["1", "2"]
    assert adata.obs["type"].isna().tolist() == [False, True]
    assert adata.var_names.tolist() == ["a", "b"]
    assert np.asarray(adata.X).tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1_000", "1e50", "NA", "x"])
def test_what_is_no_number_is_told_with_its_place(tmp_path, value):
    path = tmp_path / "t.csv"
    path.write_text(f"c,a,b\nx,1,2\ny,3,{value}\n")
    with pytest.raises(
        ValueError, match=f"'{value}' is not a number, or too large .line 3, column 'b'"
    ):
        read(path)


@pytest.mark.parametrize("index", [-7, 305])
def test_indices_that_point_elsewhere_are_refused(tmp_path, index):
    bad = sp.csc_matrix(COUNTS)
    bad.indices[3] = index
    path = tmp_path / "bad.npz"
    np.savez(
        path, format=b"csc", shape=bad.shape, data=bad.data, indices=bad.indices, indptr=bad.indptr
    )
    with pytest.raises(ValueError, match="bad.npz"):
        read(path)
    path = tmp_path / "bad.h5ad"
    write_h5ad(path)
    with h5py.File(path, "r+") as file:
        file["X/indices"][3] = index
    with pytest.raises(ValueError, match="bad.h5ad is damaged, in X"):
        read(path)
    path = tmp_path / "bad.h5"
    write_10x(path)
    with h5py.File(path, "r+") as file:
        file["matrix/indices"][3] = index
    with pytest.raises(ValueError, match="bad.h5"):
        read(path)


def test_a_table_is_read_in_blocks(tmp_path, monkeypatch):
    from ksparse.readers import _table

    monkeypatch.setattr(_table, "BLOCK", 20)
    path = tmp_path / "t.csv"
    write_csv(path)
    np.testing.assert_array_equal(read(path).X.toarray(), COUNTS)
    counts = COUNTS + 1
    path.write_text(table(counts, CELLS, GENES), encoding="utf-8")
    np.testing.assert_array_equal(read(path).X, counts)


def test_labels_stand_beside_the_numbers(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("cell,a,type,b\nx,1,red,2\ny,3,,4\nz,5,blue,6\n")
    adata = read(path, label_column="type")
    assert adata.var_names.tolist() == ["a", "b"]
    assert adata.obs["type"].tolist()[::2] == ["red", "blue"]
    assert adata.obs["type"].isna().tolist() == [False, True, False]
    with pytest.raises(ValueError, match=r"'red' is not a number.*\(line 2, column 'type'\)"):
        read(path)


def test_sparse_files_of_scipy(tmp_path):
    for kind in (sp.csr_matrix, sp.csc_matrix, sp.coo_matrix, sp.csr_array):
        sp.save_npz(tmp_path / "s.npz", kind(COUNTS))
        adata = read(tmp_path / "s.npz")
        np.testing.assert_array_equal(adata.X.toarray(), COUNTS)
        assert adata.X.format == "csr"


def test_repeated_names_are_refused_or_numbered(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("c,a,a,b\nx,1,2,3\nx,4,5,6\n")
    with pytest.raises(ValueError, match="1 repeated cell names .*'x'.*give unique_names=True"):
        read(path)
    with pytest.warns(UserWarning, match="repeated .* names were numbered") as caught:
        adata = read(path, unique_names=True)
    assert len(caught) == 2
    assert adata.var_names.is_unique
    assert adata.obs_names.is_unique


def test_features_that_are_not_genes_are_left_out_with_a_warning(tmp_path):
    write_mtx(tmp_path / "m")
    lines = (tmp_path / "m" / "features.tsv").read_text(encoding="utf-8")
    changed = lines.replace("Gene Expression", "Antibody Capture", 2)
    (tmp_path / "m" / "features.tsv").write_text(changed, encoding="utf-8")
    with pytest.warns(UserWarning, match="2 of 7 features are not gene expression"):
        adata = read(tmp_path / "m")
    assert adata.n_vars == 5


def test_a_loom_file_keeps_its_columns(tmp_path):
    write_loom(tmp_path / "a.loom")
    adata = read(tmp_path / "a.loom")
    assert adata.obs["batch"].tolist() == list(range(12))
    with h5py.File(tmp_path / "a.loom", "r+") as file:
        file["layers/spliced"] = 2 * COUNTS.T
        file["col_attrs/umap"] = np.zeros((12, 2))
    with pytest.warns(UserWarning, match="1 of the col_attrs are not one value each"):
        adata = read(tmp_path / "a.loom")
    np.testing.assert_array_equal(adata.layers["spliced"].toarray(), 2 * COUNTS)


def damaged(path, content=b"not what it says"):
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("name", "content", "part"),
    [
        ("gone.csv", None, "does not exist"),
        ("a.docx", b"x", "of no kind that can be read"),
        ("a.h5ad", b"not hdf5", "a.h5ad"),
        ("a.h5", b"not hdf5", "a.h5"),
        ("a.loom", b"not hdf5", "a.loom"),
        ("a.npz", b"not a zip", "a.npz"),
        ("a.csv", b"", "is empty"),
        ("a.csv", b"a,b\n", "is empty"),
        ("a.csv", b"a\n1\n", "single column"),
        ("a.csv", b"c,a,b\nx,1,2\ny,3,oops\n", "'oops' is not a number.*\\(line 3, column 'b'\\)"),
        ("a.csv", b"c,a,b\nx,1,2\ny,3,\n", "an empty cell is not .*\\(line 3, column 'b'\\)"),
        ("a.csv", b"c,a,b\nx,1,2\ny,3\n", "2 columns in line 3, but 3"),
        ("a.csv", b"c,a,b\nx,1,2\ny,3,4,5\n", "4 columns in line 3, but 3"),
        ("a.csv", b"c,a,b\nx,1,2,3,4\n", "3 columns in its header, but 5"),
        ("a.csv", b"\xff\xfe\x00", "a.csv"),
        ("a.tsv.gz", b"not gzip", "a.tsv.gz"),
        ("a.mtx", b"x", "give its folder"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_told_in_one_sentence(tmp_path, name, content, part):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises((ValueError, OSError), match=part) as caught:
        read(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("name", ["a.h5ad", "a.h5", "a.loom", "a.npz", "a.tsv.gz"])
def test_a_truncated_file_is_refused(tmp_path, name):
    path = tmp_path / name
    WRITERS[name](path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises((ValueError, OSError)) as caught:
        read(path)
    assert name in str(caught.value)


def test_a_folder_must_hold_all_parts(tmp_path):
    with pytest.raises(ValueError, match="folder without matrix.mtx"):
        read(tmp_path)
    write_mtx(tmp_path / "m")
    (tmp_path / "m" / "barcodes.tsv").write_text("just one\n")
    with pytest.raises(ValueError, match="barcodes.tsv has 1 lines, but matrix.mtx has 12"):
        read(tmp_path / "m")
    (tmp_path / "m" / "features.tsv").unlink()
    with pytest.raises(ValueError, match="features.tsv or genes.tsv"):
        read(tmp_path / "m")


class Bomb:
    """What must never be called."""

    def __reduce__(self):
        return (pytest.fail, ("a pickle was run",))


def test_nothing_pickled_is_read(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, X=np.array([[Bomb()]], dtype=object))
    with pytest.raises(ValueError, match="a.npz holds Python objects in X.npy"):
        read(path)
    path.write_bytes(pickle.dumps({"X": 1}))
    with pytest.raises(ValueError, match="a.npz"):
        read(path)


@pytest.mark.parametrize(
    ("arrays", "part"),
    [
        ({"a": COUNTS, "b": COUNTS}, "one matrix named X; it holds a, b"),
        ({"X": np.array(["x"])}, "matrix of numbers"),
        ({"X": COUNTS, "var_names": np.array(["a"])}, "1 var_names, but X has 7"),
        ({"X": np.empty((0, 3))}, "0 cells x 3 genes"),
        (
            {"X": COUNTS, "var_names": np.array(GENES, object)},
            "objects in var_names.npy, .*: save text as",
        ),
    ],
)
def test_npz_files_must_make_sense(tmp_path, arrays, part):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(ValueError, match=part):
        read(tmp_path / "a.npz")


def test_transposing_is_for_tables(tmp_path):
    write_h5ad(tmp_path / "a.h5ad")
    with pytest.raises(ValueError, match="transpose=True is for tables"):
        read(tmp_path / "a.h5ad", transpose=True)


# Values and places that numpy and scipy would convert silently ---------------------------


def replace_dataset(path, place, values):
    with h5py.File(path, "r+") as file:
        about = dict(file[place].attrs)
        del file[place]
        file[place] = values
        file[place].attrs.update(about)


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize(
    ("name", "place"),
    [("a.loom", "matrix"), ("a.loom", "layers/more"), ("a.h5", "matrix/data"), ("a.h5ad", "X/data"),
     ("a.h5ad", "layers/more")],
)  # fmt: skip
def test_complex_values_are_refused(tmp_path, name, place, check):
    path = tmp_path / name
    WRITERS[name](path)
    with h5py.File(path, "r+") as file:
        if "layers" in place:
            file[place] = COUNTS.T if name == "a.loom" else COUNTS
            file[place].attrs.update({"encoding-type": "array", "encoding-version": "0.2.0"})
        values = file[place][...] + 1j
    replace_dataset(path, place, values)
    with pytest.raises(ValueError, match=r"holds complex\S+ values in .*, which must be real"):
        read(path, check=check)


@pytest.mark.filterwarnings("ignore:Writing zarr v2 data")
@pytest.mark.filterwarnings("ignore:Consolidated metadata")
def test_complex_values_in_archives_and_zarr_are_refused(tmp_path):
    zarr = pytest.importorskip("zarr")
    np.savez(tmp_path / "a.npz", X=COUNTS + 1j)
    sp.save_npz(tmp_path / "b.npz", sp.csr_matrix(COUNTS + 1j))
    for name in ("a.npz", "b.npz"):
        with pytest.raises(ValueError, match="must be a matrix of numbers, got complex"):
            read(tmp_path / name)
    write_zarr(tmp_path / "a.zarr")
    group = zarr.open_group(tmp_path / "a.zarr", mode="r+")
    values = group["X/data"][...] + 1j
    about = dict(group["X/data"].attrs)
    del group["X/data"]
    group["X/data"] = values
    group["X/data"].attrs.update(about)
    zarr.consolidate_metadata(tmp_path / "a.zarr")
    with pytest.raises(ValueError, match="holds complex64 values in X, which must be real"):
        read(tmp_path / "a.zarr")


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize(
    ("name", "place"),
    [("a.h5ad", "X/indices"), ("a.h5ad", "X/indptr"), ("a.h5", "matrix/indices"),
     ("old.h5", "mm10/indptr")],
)  # fmt: skip
def test_places_in_hdf5_must_be_whole_numbers(tmp_path, name, place, check):
    path = tmp_path / name
    WRITERS[name](path)
    with h5py.File(path, "r+") as file:
        values = file[place][...] + 0.25
    replace_dataset(path, place, values)
    with pytest.raises(ValueError, match=f"{place} must be whole numbers, got float64"):
        read(path, check=check)


@pytest.mark.filterwarnings("ignore:Writing zarr v2 data")
@pytest.mark.filterwarnings("ignore:Consolidated metadata")
def test_places_in_archives_and_zarr_must_be_whole_numbers(tmp_path):
    zarr = pytest.importorskip("zarr")
    X = sp.csr_matrix(COUNTS)
    for name in ("indices", "indptr"):
        parts = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": X.shape}
        parts |= {"format": b"csr", name: parts[name] + 0.25}
        np.savez(tmp_path / "a.npz", **parts)
        with pytest.raises(ValueError, match=f"{name} must be whole numbers, got float64"):
            read(tmp_path / "a.npz")
    write_zarr(tmp_path / "a.zarr")
    group = zarr.open_group(tmp_path / "a.zarr", mode="r+")
    values = group["X/indices"][...].astype(float)
    about = dict(group["X/indices"].attrs)
    del group["X/indices"]
    group["X/indices"] = values
    group["X/indices"].attrs.update(about)
    zarr.consolidate_metadata(tmp_path / "a.zarr")
    with pytest.raises(ValueError, match="X/indices must be whole numbers, got float64"):
        read(tmp_path / "a.zarr")


# Quotes in tables ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('c,a,b\n"x,1,2\ny,3,4\n"z,5,6\nw,7,8\n', 2),  # rows 2 and 3 become one
        ('c,a,b\nx,1,2\n"y,3,4\nz"w,5,6\n', 3),
        ('c,a,b\nx,1,2\ny,3,4\n"z,5,6\n', 4),  # to the end
        ('"c,a,b\nx",1,2\ny,3,4\n', 1),
        ('c,a,b\r\nx,1,2\r\n"y\r\n",3,4\r\n', 3),
        ('c,a,b\nx,1,2\n"y' + "y" * 100_000 + "\n" + "y" * 100_000 + ",3,4\n", 3),
    ],
)  # fmt: skip
def test_a_stray_quote_is_told_with_its_line(tmp_path, text, line):
    path = tmp_path / "t.csv"
    path.write_bytes(text.encode())
    with pytest.raises(ValueError, match=f"line break, which begins in line {line}: remove") as got:
        read(path)
    assert str(path) in str(got.value)
    assert "\n" not in str(got.value)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_quotes_and_empty_lines_are_no_fault(tmp_path, end):
    path = tmp_path / "t.csv"
    lines = ['"c","a,b","d""e"', '"x ""1""",1,2', "", "y,3,4", 'z"z,5,6', "", ""]
    path.write_bytes(end.join(lines).encode())
    adata = read(path)
    assert adata.obs_names.tolist() == ['x "1"', "y", 'z"z']
    assert adata.var_names.tolist() == ["a,b", 'd"e']


@pytest.mark.parametrize("n_columns", thorough_params([2_000], [60_000]))
def test_a_table_of_many_columns_is_read(tmp_path, n_columns):
    path = tmp_path / "t.csv.gz"
    with gzip.open(path, "wt") as file:
        file.write("," + ",".join(f"g{i}" for i in range(n_columns)) + "\n")
        file.write("x" + ",1" * n_columns + "\ny" + ",0" * n_columns + "\n")
    assert read(path).shape == (2, n_columns)


def test_names_of_a_10x_folder_have_as_many_columns_in_each_line(tmp_path):
    write_mtx(tmp_path / "m")
    file = tmp_path / "m" / "features.tsv"
    file.write_text(file.read_text(encoding="utf-8").replace("\tGene Expression", "", 1), "utf-8")
    with pytest.raises(ValueError, match=r"has 3 columns in line 2, but 2 in the first"):
        read(tmp_path / "m")
    file.write_text("")
    with pytest.raises(ValueError, match=r"features.tsv is empty"):
        read(tmp_path / "m")


# The registry --------------------------------------------------------------------------


@pytest.fixture
def toy_format():
    """A format from outside of the package: JSON with a list of numbers for each cell."""
    import json

    import pandas

    from ksparse.readers import FORMATS, Format, has_suffix

    def read_json(path, options):
        table = pandas.DataFrame.from_dict(json.loads(path.read_text()), orient="index")
        counts = table.T if options.transpose else table
        return anndata.AnnData(counts.astype(np.float32))

    FORMATS["toy"] = Format(
        name="toy",
        description=".toy",
        recognises=has_suffix(".toy"),
        read=read_json,
        takes_transpose=True,
    )
    yield FORMATS["toy"]
    del FORMATS["toy"]


def write_toy(path, counts):
    import json

    path.write_text(json.dumps({f"cell {i}": row.tolist() for i, row in enumerate(counts)}))


def test_a_format_is_added_by_one_entry(tmp_path, toy_format):
    path = tmp_path / "a.toy"
    write_toy(path, COUNTS)
    adata = read(path)
    np.testing.assert_array_equal(adata.X, COUNTS)
    assert adata.obs_names.tolist() == CELLS
    np.testing.assert_array_equal(read(path, transpose=True).X, COUNTS.T)
    with pytest.raises(ValueError, match=r"give \.h5ad, .*, \.npz, \.toy\.$"):
        read(__file__)
    path.write_text("{")
    with pytest.raises(ValueError, match="a.toy cannot be read: Expecting property name"):
        read(path)


def test_a_format_that_was_added_can_be_clustered_in_the_shell(
    tmp_path, toy_format, simulated, capsys
):
    import json

    from ksparse.cli import main

    write_toy(tmp_path / "a.toy", simulated.X.toarray())
    words = ["run", tmp_path / "a.toy", "-k", 3, "--genes", 12, "--no-check"]
    assert main([str(word) for word in [*words, "-o", tmp_path / "out"]]) == 0
    assert "240 cells in 3 clusters" in capsys.readouterr().out
    assert (tmp_path / "out" / "result.h5ad").exists()
    about = json.loads((tmp_path / "out" / "run.json").read_text(encoding="utf-8"))
    assert " --no-check " in about["command"]


def test_a_format_that_was_removed_is_not_read(tmp_path):
    path = tmp_path / "a.toy"
    write_toy(path, COUNTS)
    with pytest.raises(ValueError, match=r"is of no kind that can be read: give .*, \.npz\.$"):
        read(path)


def test_a_format_may_leave_a_file_to_the_next_one(tmp_path, toy_format):
    from dataclasses import replace

    from ksparse.readers import FORMATS

    path = tmp_path / "a.toy"
    write_toy(path, COUNTS)
    first = replace(toy_format, name="first", read=lambda path, options: None)
    FORMATS["toy"], FORMATS["second"] = first, toy_format
    try:
        np.testing.assert_array_equal(read(path).X, COUNTS)
        del FORMATS["second"]
        with pytest.raises(ValueError, match="a.toy does not hold what a file of .toy holds"):
            read(path)
    finally:
        FORMATS.pop("second", None)


def test_every_format_is_registered_under_its_name():
    from ksparse.readers import FORMATS

    assert all(name == each.name for name, each in FORMATS.items())


def test_the_list_of_formats_is_told(tmp_path):
    kinds = (
        r"\.h5ad, \.zarr, \.h5 \(10x\), a folder with matrix\.mtx, \.loom, "
        r"\.csv, \.tsv \(or \.gz\), \.npz\.$"
    )
    (tmp_path / "a.docx").write_bytes(b"")
    for path in (tmp_path, tmp_path / "a.docx"):
        with pytest.raises(ValueError, match=kinds):
            read(path)


def test_the_content_of_hdf5_decides_what_it_is(tmp_path):
    for name, write in (("a.h5ad", write_10x), ("b.h5", write_h5ad), ("c.hdf5", write_10x_old)):
        write(tmp_path / name)
        np.testing.assert_array_equal(read(tmp_path / name).X.toarray(), COUNTS)
    with h5py.File(tmp_path / "d.h5", "w") as file:
        file["something"] = [1, 2]
    with pytest.raises(ValueError, match="neither an .h5ad file nor one of 10x Genomics"):
        read(tmp_path / "d.h5")


def test_the_shell_can_leave_out_the_check(tmp_path, monkeypatch):
    from ksparse.cli._jobs import Source, open_source
    from ksparse.cli._steps import Steps
    from ksparse.readers import _watched

    asked = []

    def ask(self, path, kind, size):
        asked.append(path)
        return {"declared": 0, "outside": []}

    monkeypatch.setattr(_watched._Probe, "ask", ask)
    write_h5ad(tmp_path / "a.h5ad")
    for source in (Source(tmp_path / "a.h5ad", check=False), Source(tmp_path / "a.h5ad")):
        with Steps(2, 0) as steps:
            assert open_source(source, steps).adata.n_obs == 12
        assert len(asked) == (source.check)
        assert source.words() == ["--no-check"] * (not source.check)


# Words for Python and for the shell ----------------------------------------------------


def test_errors_name_arguments_that_the_shell_can_rename(tmp_path):
    from ksparse._errors import InputError

    def flags(term):
        return f"--{term.name.replace('_', '-')}"

    path = tmp_path / "t.csv"
    path.write_text("c,a,a\nx,1,2\ny,3,4\n")
    with pytest.raises(InputError, match="give unique_names=True to number them") as caught:
        read(path)
    assert caught.value.render(flags).endswith("give --unique-names to number them.")
    path.write_text("c,a,type\nx,1,red\ny,3,blue\n")
    with pytest.raises(InputError, match="if it holds labels, give label_column='type'") as caught:
        read(path)
    assert caught.value.render(flags).endswith("give --label-column.")
    write_h5ad(tmp_path / "a.h5ad")
    with pytest.raises(InputError, match="transpose=True is for tables") as caught:
        read(tmp_path / "a.h5ad", transpose=True)
    assert caught.value.render(flags).startswith("--transpose is for tables")


def test_a_library_that_is_missing_is_named(tmp_path, monkeypatch, toy_format):
    from dataclasses import replace

    from ksparse.readers import FORMATS

    def needs(path, options):
        import no_such_package  # noqa: F401

    FORMATS["toy"] = replace(toy_format, read=needs)
    write_toy(tmp_path / "a.toy", COUNTS)
    with pytest.raises(ImportError, match="a.toy needs no_such_package: install it with"):
        read(tmp_path / "a.toy")


@pytest.mark.parametrize(
    ("error", "kind", "part"),
    [
        (ValueError("one\ntwo"), ValueError, "a.toy cannot be read: one$"),
        (KeyError("x"), ValueError, "a.toy cannot be read: 'x'$"),
        (MemoryError("Unable to allocate 1 PB"), MemoryError, "a.toy cannot be read: Unable to"),
        (OSError("broken"), ValueError, "a.toy cannot be read: broken$"),
        (FileNotFoundError("gone"), FileNotFoundError, "a.toy cannot be read: gone"),
        (PermissionError(13, "No", "a.toy"), PermissionError, r"^\[Errno 13\] No: 'a.toy'$"),
        (Exception(), ValueError, "a.toy cannot be read: Exception$"),
    ],
)
def test_errors_of_libraries_become_one_sentence(tmp_path, toy_format, error, kind, part):
    from dataclasses import replace

    from ksparse.readers import FORMATS

    def fails(path, options):
        raise error

    FORMATS["toy"] = replace(toy_format, read=fails)
    write_toy(tmp_path / "a.toy", COUNTS)
    with pytest.raises(kind, match=part):
        read(tmp_path / "a.toy")
