"""Published data: the original formats, filters, downloads, sums, and what can go wrong."""

from __future__ import annotations

import bz2
import functools
import gzip
import hashlib
import http.server
import threading
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from conftest import thorough_params
from ksparse import datasets
from ksparse.datasets import _sources
from ksparse.normalise import counts_per_million, log_normalise

pytest.importorskip("anndata")
pytest.importorskip("pooch")
pytest.importorskip("python_calamine")

ZEISEL = "expression_mRNA_17-Aug-2014.txt"
USOSKIN = "Usoskin et al. External resources Table 1"
DAYS = {
    "d0": "GSM1599494_ES_d0_main.csv.bz2",
    "d2": "GSM1599497_ES_d2_LIFminus.csv.bz2",
    "d4": "GSM1599498_ES_d4_LIFminus.csv.bz2",
    "d7": "GSM1599499_ES_d7_LIFminus.csv.bz2",
}
LOADERS = {"zeisel": datasets.zeisel, "klein": datasets.klein, "usoskin": datasets.usoskin}


def zeisel_text(counts, groups, genes):
    """As the Linnarsson laboratory writes it."""
    n = len(groups)
    fields = {
        "tissue": ["sscortex"] * n, "group #": groups, "total mRNA mol": counts.sum(axis=1),
        "well": range(n), "sex": [1] * n, "age": [21] * n, "diameter": [0.0] * n,
        "cell_id": [f"1772071015_C{i:02d}" for i in range(n)],
        "level1class": ["interneurons"] * n, "level2class": ["Int10"] * n,
    }  # fmt: skip
    lines = ["\t".join(["", name, *map(str, values)]) for name, values in fields.items()]
    lines.append("\t" * (n + 1))
    for gene, column in zip(genes, counts.T, strict=True):
        lines.append("\t".join([gene, "1", *map(str, column)]))
    return "\n".join(lines) + "\n"


def usoskin_rows(values, labels, genes):
    """The rows of the second sheet."""
    n = len(labels)
    fields = {
        "Sample ID": [f"L128_B{i:02d}" for i in range(n)], "Content": ["cell"] * n,
        "Library": ["L128"] * n, "Cell ID": range(n), "Reads": [123456.0 + i for i in range(n)],
        "Picking sessions": ["Cold"] * n, "Level 1": labels, "Level 2": labels,
        "Level 3": labels, "Plate": ["A"] * n,
    }  # fmt: skip
    rows = [[None] * 8 + [name, *column] for name, column in fields.items()]
    rows.append([f"{i}. About" for i in range(1, 9)] + [None] * (n + 1))
    for gene, column in zip(genes, values.T, strict=True):
        rows.append([gene, "+", 1, 2, 3, 4, 5, 6, None, *map(float, column)])
    return rows


def write_klein(folder, parts, genes):
    for (day, name), counts in zip(DAYS.items(), parts, strict=True):
        lines = [",".join([g, *map(str, c)]) for g, c in zip(genes, counts.T, strict=True)]
        (folder / name).write_bytes(bz2.compress(("\n".join(lines) + "\n").encode()))


def write_usoskin(folder, values, labels, genes):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(["Usoskin et al., table of contents"])
    sheet = book.create_sheet("RPM")
    for row in usoskin_rows(values, labels, genes):
        sheet.append(row)
    book.save(folder / f"{USOSKIN}.xlsx")


@pytest.fixture
def published(tmp_path, monkeypatch):
    """Small files of the same formats, as if they were what is published."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "published"
    folder.mkdir()
    genes = [f"Gene{i}" for i in range(12)]
    groups = [1, 2, 3, 4, 5, 6, 7, 8, 9, 9]
    small = {"zeisel": rng.poisson(1.5, (10, 12)), "klein": rng.poisson(1.5, (8, 12))}
    small["usoskin"] = rng.poisson(1.0, (7, 12)) * 10.5
    (folder / ZEISEL).write_text(zeisel_text(small["zeisel"], groups, genes))
    write_klein(folder, np.split(small["klein"], [2, 3, 6]), genes)
    levels = ["NF", "Empty well", "NP", "PEP", "TH", "TH", "NF outlier"]
    write_usoskin(folder, small["usoskin"], levels, genes)
    facts = {
        "zeisel": (10, dict.fromkeys(_sources.SOURCES["zeisel"].classes, 1) | {"mural": 2}),
        "klein": (8, {"d0": 2, "d2": 1, "d4": 3, "d7": 2}),
        "usoskin": (7, {"NF": 1, "NP": 1, "PEP": 1, "TH": 2}),
    }
    for name, (n_cells, classes) in facts.items():
        source = replace(_sources.SOURCES[name], n_cells=n_cells, n_genes=12, classes=classes,
                         paper_genes=5)  # fmt: skip
        monkeypatch.setitem(_sources.SOURCES, name, source)
    monkeypatch.setattr(datasets._load, "MIN_CELLS", {"zeisel": 6, "klein": 5})
    return folder, small, genes


@pytest.fixture
def server(published, monkeypatch):
    """A web server with the published files; `asked` counts requests."""
    folder, _, _ = published
    asked = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *words):
            asked.append(self.path)

    made = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Handler, directory=str(folder))
    )
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    base = f"http://127.0.0.1:{made.server_port}"
    for name, source in list(_sources.SOURCES.items()):
        files = {file: f"{base}/{file.replace(' ', '%20')}" for file in source.files}
        monkeypatch.setitem(_sources.SOURCES, name, replace(source, files=files))
    yield asked
    made.shutdown()
    made.server_close()
    thread.join()


@pytest.mark.parametrize("name", ["zeisel", "klein"])
def test_counts_classes_and_names_are_read(published, name):
    folder, small, genes = published
    adata = datasets.from_folder(folder, name)
    assert sp.issparse(adata.X)
    assert adata.X.format == "csr"
    assert adata.X.dtype == np.float32
    np.testing.assert_array_equal(adata.X.toarray(), small[name])
    assert list(adata.var_names) == genes
    assert dict(adata.obs["label"].value_counts()) == _sources.SOURCES[name].classes
    assert adata.obs_names.is_unique
    assert adata.uns["dataset"]["name"] == name
    assert adata.uns["dataset"]["normalized"] == "no"


def test_zeisel_keeps_what_is_told_of_the_cells(published):
    adata = datasets.from_folder(published[0], "zeisel")
    assert adata.obs_names[3] == "1772071015_C03"
    assert {"tissue", "level1class", "level2class", "total mRNA mol"} <= set(adata.obs)
    assert list(adata.obs["label"])[:3] == ["interneurons", "s1pyramidal", "ca1pyramidal"]


@pytest.mark.parametrize("form", ["xlsx", "csv", "csv.gz"])
def test_usoskin_is_read_from_the_second_sheet_or_from_csv(published, tmp_path, form):
    folder, small, genes = published
    if form != "xlsx":
        levels = ["NF", "Empty well", "NP", "PEP", "TH", "TH", "NF outlier"]
        rows = usoskin_rows(small["usoskin"], levels, genes)
        lines = [",".join("" if v is None else str(v) for v in row) for row in rows]
        text = "\n".join([*lines[:10], "", *lines[10:], "", ""])  # with empty lines
        folder = tmp_path / "text"
        folder.mkdir()
        data = text.encode()
        (folder / f"{USOSKIN}.{form}").write_bytes(gzip.compress(data) if "gz" in form else data)
    adata = datasets.from_folder(folder, "usoskin")
    neurons = [0, 2, 3, 4, 5]
    np.testing.assert_allclose(adata.X.toarray(), small["usoskin"][neurons])
    assert list(adata.var_names) == genes
    assert list(adata.obs["label"]) == ["NF", "NP", "PEP", "TH", "TH"]
    assert list(adata.obs["label"].cat.categories) == ["NF", "NP", "PEP", "TH"]
    assert list(adata.obs_names) == [f"L128_B{i:02d}" for i in neurons]
    everything = datasets.from_folder(folder, "usoskin", filter_cells=False)
    np.testing.assert_allclose(everything.X.toarray(), small["usoskin"])
    assert "Empty well" in set(everything.obs["label"])


def test_the_papers_filters(published):
    folder, small, _ = published
    for name, least in (("zeisel", 6), ("klein", 5)):
        adata = datasets.from_folder(folder, name, filter_genes=True)
        kept = (small[name] >= 2).sum(axis=0) >= least
        assert 0 < kept.sum() < 12
        np.testing.assert_array_equal(adata.X.toarray(), small[name][:, kept])
        assert adata.uns["dataset"]["genes_filtered_out"] == 12 - kept.sum()
    adata = datasets.from_folder(folder, "usoskin", filter_genes=True)
    assert adata.n_vars == 5
    found = (small["usoskin"][[0, 2, 3, 4, 5]] > 0).sum(axis=0)
    left = np.sort(found)[::-1]
    assert (adata.X > 0).sum(axis=0).min() >= left[5]


@pytest.mark.parametrize(
    ("how", "function"), [("cpm", counts_per_million), ("log1p", log_normalise)]
)
def test_normalisation_comes_after_the_filter(published, how, function):
    folder, _, _ = published
    plain = datasets.from_folder(folder, "klein", filter_genes=True)
    adata = datasets.from_folder(folder, "klein", filter_genes=True, normalize=how)
    np.testing.assert_allclose(adata.X.toarray(), function(plain.X).toarray())
    assert adata.uns["dataset"]["normalized"] == how


def test_the_folder_may_hold_one_data_set_or_a_name_is_needed(published, tmp_path):
    folder, small, _ = published
    with pytest.raises(ValueError, match="has zeisel, klein, usoskin: give one of them as name"):
        datasets.from_folder(folder)
    alone = tmp_path / "alone"
    alone.mkdir()
    for name in DAYS.values():  # unpacked
        data = bz2.decompress((folder / name).read_bytes())
        (alone / name.removesuffix(".bz2")).write_bytes(data)
    np.testing.assert_array_equal(datasets.from_folder(alone).X.toarray(), small["klein"])
    with pytest.raises(FileNotFoundError, match=f"lacks files: zeisel: {ZEISEL}$"):
        datasets.from_folder(alone, "zeisel")
    with pytest.raises(FileNotFoundError, match="is not a folder"):
        datasets.from_folder(tmp_path / "nowhere")


def test_another_size_is_warned_of(published, monkeypatch):
    folder, _, _ = published
    source = replace(_sources.SOURCES["klein"], n_genes=24175)
    monkeypatch.setitem(_sources.SOURCES, "klein", source)
    with pytest.warns(UserWarning, match="8 cells x 12 genes, where klein has 8 x 24,175"):
        datasets.from_folder(folder, "klein")


def test_results_can_be_written(published, tmp_path):
    import anndata

    adata = datasets.from_folder(published[0], "zeisel")
    adata.write_h5ad(tmp_path / "zeisel.h5ad")
    again = anndata.read_h5ad(tmp_path / "zeisel.h5ad")
    assert list(again.obs["label"]) == list(adata.obs["label"])
    assert again.uns["dataset"]["name"] == "zeisel"


def test_duplicated_genes_are_numbered_with_a_word(published):
    folder, small, genes = published
    groups = [1, 2, 3, 4, 5, 6, 7, 8, 9, 9]
    (folder / ZEISEL).write_text(zeisel_text(small["zeisel"], groups, ["Gene0", *genes[:-1]]))
    with pytest.warns(UserWarning, match="1 of 12 genes of zeisel"):
        adata = datasets.from_folder(folder, "zeisel")
    assert list(adata.var_names[:2]) == ["Gene0", "Gene0-1"]


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda t: t.replace("cell_id", "who"), "has no row 'cell_id' above its genes, only tiss"),
        (lambda t: t.replace("group #\t1", "group #\t0"), "must hold numbers from 1 to 9"),
        (lambda t: t.replace("group #\t1", "group #\t10"), "must hold numbers from 1 to 9"),
        (lambda t: t.replace("group #\t1", "group #\tx"), "must hold numbers from 1 to 9"),
        (lambda t: t[:-8], "gene 'Gene11' has .* values where there are 10 cells"),
        (lambda t: t.replace("Gene5\t1\t", "Gene5\t1\tmany"), "for gene 'Gene5', cell 1, is not a"),
        (lambda t: t.replace("Gene5\t1\t", "Gene5\t1\t-"), "gene 'Gene5' has values that are neg"),
        (lambda t: t.replace("Gene5\t1\t", "Gene5\t1\t1e999"), "'Gene5' has values that are neg"),
        (lambda t: "\t".join(["", "tissue"]) + "\n", "has no table of genes"),
        (lambda t: "", "has no table of genes"),
        (lambda t: "<html>not found</html>", "has no row 'group #' above its genes, only nothing"),
    ],
)
def test_damaged_text_is_one_sentence(published, change, part):
    folder, _, _ = published
    file = folder / ZEISEL
    file.write_text(change(file.read_text()))
    with pytest.raises(ValueError, match=part) as caught:
        datasets.from_folder(folder, "zeisel")
    assert str(file) in str(caught.value)


def test_damaged_archives_are_one_sentence(published):
    folder, _, _ = published
    file = folder / DAYS["d4"]
    whole = file.read_bytes()
    for data in (whole[:-20], b"not bzip2 at all", b""):
        file.write_bytes(data)
        with pytest.raises(
            ValueError, match="GSM1599498_ES_d4_LIFminus.csv.bz2 is (damaged|empty)"
        ):
            datasets.from_folder(folder, "klein")
    file.write_bytes(bz2.compress(bz2.decompress(whole).replace(b"Gene3", b"Gene33")))
    with pytest.raises(ValueError, match="does not have the genes of GSM1599494_ES_d0_main"):
        datasets.from_folder(folder, "klein")


def test_damaged_spreadsheets_are_one_sentence(published):
    openpyxl = pytest.importorskip("openpyxl")
    folder, _, _ = published
    file = folder / f"{USOSKIN}.xlsx"
    whole = file.read_bytes()
    for data in (whole[: len(whole) // 2], b"nothing"):
        file.write_bytes(data)
        with pytest.raises(ValueError, match="is damaged, or not a spreadsheet"):
            datasets.from_folder(folder, "usoskin")
    book = openpyxl.Workbook()
    book.save(file)
    with pytest.raises(ValueError, match="has 1 sheet"):
        datasets.from_folder(folder, "usoskin")
    book.create_sheet("other").append(["a", 1, 2])
    book.save(file)
    with pytest.raises(ValueError, match="has no row 'Level 1'"):
        datasets.from_folder(folder, "usoskin")


@pytest.mark.parametrize("name", list(LOADERS))
def test_files_are_downloaded_once_and_recorded(server, published, tmp_path, name):
    folder, _, _ = published
    cache = tmp_path / "deep" / "cache"
    adata = LOADERS[name](folder=cache)
    files = list(_sources.SOURCES[name].files)
    assert len(server) == len(files)
    sums = {file: hashlib.sha256((folder / file).read_bytes()).hexdigest() for file in files}
    lines = (cache / "SHA256SUMS").read_text().splitlines()
    assert sorted(lines) == sorted(f"{digest}  {file}" for file, digest in sums.items())
    assert dict(zip(adata.uns["dataset"]["files"], adata.uns["dataset"]["sha256"],
                    strict=True)) == sums  # fmt: skip
    again = LOADERS[name](folder=cache)
    assert len(server) == len(files)  # nothing was asked for
    assert (again.X != adata.X).nnz == 0
    assert {path.name for path in cache.iterdir()} == {*files, "SHA256SUMS"}


def test_the_cache_folder_can_be_set(server, tmp_path, monkeypatch):
    monkeypatch.setenv("KSPARSE_DATASETS", str(tmp_path / "mine"))
    assert datasets.cache_folder() == tmp_path / "mine"
    datasets.zeisel()
    assert (tmp_path / "mine" / ZEISEL).is_file()


def test_a_file_that_changed_since_is_refused(server, tmp_path):
    datasets.zeisel(folder=tmp_path)
    file = tmp_path / ZEISEL
    file.write_text(file.read_text().replace("sscortex", "elsewhere"))
    with pytest.raises(ValueError, match="is not the file that was there before"):
        datasets.zeisel(folder=tmp_path)


def test_a_download_that_differs_from_the_recorded_sum_is_refused(server, tmp_path):
    (tmp_path / "SHA256SUMS").write_text(f"{'0' * 64}  {ZEISEL}\n")
    with pytest.raises(ValueError, match="hash"):
        datasets.zeisel(folder=tmp_path)
    assert not (tmp_path / ZEISEL).exists()


def test_a_download_that_is_something_else_is_not_kept(server, published, tmp_path):
    folder, small, genes = published
    for text, part in (
        ("<html>please log in</html>", "has no row 'group #'"),
        (zeisel_text(small["zeisel"][:9], range(1, 10), genes), "9 cells x 12 genes, where zeisel"),
        (zeisel_text(small["zeisel"], [*range(1, 10), 1], genes), "2 cells of class interneurons"),
    ):
        (folder / ZEISEL).write_text(text)
        with pytest.raises(ValueError, match=part):
            datasets.zeisel(folder=tmp_path)
        assert not (tmp_path / ZEISEL).exists()
        assert not (tmp_path / "SHA256SUMS").exists()


def test_a_file_put_there_by_hand_is_not_removed(published, tmp_path):
    (tmp_path / ZEISEL).write_text("mine")
    with pytest.raises(ValueError, match="has no row 'group #'"):
        datasets.zeisel(folder=tmp_path)
    assert (tmp_path / ZEISEL).read_text() == "mine"


def test_without_network_the_error_says_where_to_put_the_file(published, tmp_path, monkeypatch):
    folder, small, _ = published
    address = "http://127.0.0.1:1/gone"
    source = replace(_sources.SOURCES["zeisel"], files={ZEISEL: address})
    monkeypatch.setitem(_sources.SOURCES, "zeisel", source)
    with pytest.raises(OSError, match="could not be downloaded") as caught:
        datasets.zeisel(folder=tmp_path)
    message = str(caught.value)
    assert message.count("\n") == 0
    assert address in message
    assert "http://linnarssonlab.org/cortex" in message
    place = message.split("put it at ")[1]
    assert list(tmp_path.glob("*.txt")) == []
    (folder / ZEISEL).rename(place)  # by hand
    np.testing.assert_array_equal(datasets.zeisel(folder=tmp_path).X.toarray(), small["zeisel"])


def test_a_missing_page_is_told(server, published, tmp_path):
    (published[0] / ZEISEL).unlink()
    with pytest.raises(OSError, match="could not be downloaded"):
        datasets.zeisel(folder=tmp_path)


@pytest.mark.parametrize(
    ("call", "part"),
    [
        (lambda f: datasets.zeisel(normalize="log2", folder=f), "normalize='log2' is unknown"),
        (lambda f: datasets.from_folder(f, "patel"), "name='patel' is unknown; choose from zeisel"),
        (lambda f: datasets.from_folder(f, normalize="log2"), "normalize='log2' is unknown"),
    ],
)
def test_bad_options_are_refused_before_anything_is_done(tmp_path, call, part):
    with pytest.raises(ValueError, match=part):
        call(tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_facts_are_those_of_the_publications():
    sizes = {name: sum(source.classes.values()) for name, source in _sources.SOURCES.items()}
    assert sizes == {"zeisel": 3005, "klein": 2717, "usoskin": 622}


@pytest.mark.parametrize("name", ["zeisel_3005x4000", "usoskin_subset259", "klein_subset1000_900g"])
def test_facts_agree_with_other_copies_of_the_data(data_folder, name):
    import anndata

    labels = anndata.read_h5ad(data_folder / f"{name}.h5ad").obs["label"].value_counts()
    classes = _sources.SOURCES[name.split("_")[0]].classes
    if name.startswith("zeisel"):
        assert sorted(labels) == sorted(classes.values())
    else:
        assert all(labels[label] <= classes[label] for label in labels.index)


@pytest.mark.parametrize("here", thorough_params([True], [False]))
def test_compare_takes_published_data(published, tmp_path, monkeypatch, here):
    from ksparse.compare import Plan, _run, compare
    from test_compare import in_this_process

    if here:
        monkeypatch.setattr(_run, "_run_in_process", in_this_process)
    monkeypatch.setenv("KSPARSE_DATASETS", str(published[0]))
    plan = Plan(["klein"], ["pca"], ["cpm"], 2, "other", figures=False)
    results = compare(plan, tmp_path / "runs")
    kept = (published[1]["klein"] >= 2).sum(axis=0) >= 5
    assert [(r["n_samples"], r["n_genes"], r["k"]) for r in results] == [(8, kept.sum(), 4)] * 2
    monkeypatch.setenv("KSPARSE_DATASETS", str(tmp_path / "gone"))
    assert compare(plan, tmp_path / "runs") == results  # kept with the runs


def test_compare_without_network_is_one_line(published, tmp_path, monkeypatch, capsys):
    from ksparse.cli import main

    source = replace(_sources.SOURCES["zeisel"], files={ZEISEL: "http://127.0.0.1:1/gone"})
    monkeypatch.setitem(_sources.SOURCES, "zeisel", source)
    monkeypatch.setenv("KSPARSE_DATASETS", str(tmp_path / "cache"))
    assert main(["compare", "zeisel", "-o", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert str(tmp_path / "cache" / ZEISEL) in error
