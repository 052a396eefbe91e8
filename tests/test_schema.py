"""The record of a result in AnnData: written whole, read back from any file, old ones too."""

from __future__ import annotations

import gzip
from dataclasses import fields, is_dataclass, replace
from pathlib import Path

import numpy as np
import pytest

import ksparse as ks
from ksparse.report import write_report
from ksparse.scverse.fields import read_labels, read_projection
from ksparse.scverse.record_checks import QUALITY
from ksparse.scverse.schema import (
    PathRecord,
    holds_record,
    read_path,
    read_record,
    write_path,
    write_record,
)

anndata = pytest.importorskip("anndata")


def same(one, other):
    """Return whether two records hold the same, whatever the kinds of their arrays."""
    if is_dataclass(one):
        assert type(one) is type(other)
        for field in fields(one):
            same(getattr(one, field.name), getattr(other, field.name))
    elif isinstance(one, dict):
        assert sorted(one) == sorted(other)
        for name in one:
            same(one[name], other[name])
    else:
        assert isinstance(one, np.ndarray) == isinstance(other, np.ndarray)
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("kind", ["memory", "h5ad", "zarr"])
@pytest.mark.filterwarnings("ignore:Writing zarr v2 data")
def test_a_record_is_read_as_it_was_written(clustered, tmp_path, kind):
    record = read_record(clustered, "ksparse")
    given = {"init": ["graph", "spectral"], "random_state": np.random.RandomState(0), "eta": None,
             "n_clusters": 3, "tol": 0.01, "relax": True, "weights": np.arange(3.0)}  # fmt: skip
    run = {"command": "ksparse run x", "notes": ["a", "b"], "input": {"name": "é"}, "seed": 0}
    adata = clustered.copy()
    write_record(adata, "other", replace(record, params=given, run=run))
    if kind != "memory":
        getattr(adata, f"write_{kind}")(tmp_path / f"cells.{kind}")
        adata = getattr(anndata, f"read_{kind}")(tmp_path / f"cells.{kind}")
    again = read_record(adata, "other")
    stored = {"init": np.array(["graph", "spectral"]), "random_state": "RandomState",
              "n_clusters": 3, "tol": 0.01, "relax": True, "weights": np.arange(3.0)}  # fmt: skip
    same(again, replace(record, params=stored, run=run))
    assert type(again.results.n_iter) is int
    assert type(again.results.converged) is bool
    assert type(again.results.normalized) is str
    assert again.model.weights.dtype == record.model.weights.dtype


def test_the_encoding_is_in_the_record(clustered):
    entry = clustered.uns["ksparse"]
    assert (entry["encoding"], entry["version"]) == ("ksparse-result", 1)
    assert (entry["model"]["encoding"], entry["model"]["version"]) == ("ksparse-model", 1)


def test_records_of_other_versions_are_refused(clustered):
    adata = clustered.copy()
    adata.uns["ksparse"]["version"] = 2
    with pytest.raises(ValueError, match="record of version 2.* up to 1: install a newer ksparse"):
        ks.pl.convergence(adata)
    adata.uns["ksparse"]["encoding"] = "another-tool"
    assert not holds_record(adata, "ksparse")
    with pytest.raises(ValueError, match="holds no result: run ksparse.tl.ksparse"):
        ks.tl.rank_genes(adata)


@pytest.mark.parametrize(
    ("part", "name"), [("model", "centroids"), ("results", "n_iter"), ("history", None)]
)
def test_an_incomplete_record_is_refused(clustered, part, name):
    adata = clustered.copy()
    del (adata.uns["ksparse"] if name is None else adata.uns["ksparse"][part])[name or part]
    with pytest.raises(ValueError, match=rf"not complete .*\b{name or part} is missing.: run"):
        ks.tl.rank_genes(adata)


@pytest.fixture
def old(tmp_path):
    """A result of `ksparse run`, from before records had an encoding and a version."""
    packed = Path(__file__).parent / "files" / "result_v0.h5ad.gz"
    path = tmp_path / "old.h5ad"
    path.write_bytes(gzip.decompress(packed.read_bytes()))
    return path


def test_old_records_are_read(old, tmp_path):
    adata = anndata.read_h5ad(old)
    assert "encoding" not in adata.uns["ksparse"]
    record = read_record(adata, "ksparse")
    assert record.results.n_cells == 40
    assert record.layer == "counts"
    assert record.log_normalised
    assert record.run["command"].startswith("ksparse run cells.h5ad -k 3 --genes 6")
    new = anndata.AnnData(adata.X, layers=dict(adata.layers), var=adata.var[[]].copy())
    ks.tl.predict(adata, new)
    assert new.obs["ksparse"].tolist() == adata.obs["ksparse"].tolist()
    names = adata.uns["rank_genes_groups"]["names"]
    ks.tl.rank_genes(adata)
    assert adata.uns["rank_genes_groups"]["names"].tolist() == names.tolist()
    page = write_report(adata, tmp_path / "r.html", labels="label", run=record.run)
    assert "ksparse run cells.h5ad" in page.read_text(encoding="utf-8")


def test_the_command_line_reads_old_results(old, tmp_path):
    from ksparse.cli import main

    assert main(["report", str(old), "-o", str(tmp_path / "r.html")]) == 0
    assert main(["predict", str(old), str(old), "-o", str(tmp_path / "placed")]) == 0
    placed = anndata.read_h5ad(tmp_path / "placed" / "result.h5ad")
    assert placed.obs["ksparse"].tolist() == anndata.read_h5ad(old).obs["ksparse"].tolist()


def test_missing_fields_are_named(clustered):
    adata = clustered.copy()
    del adata.obsm["ksparse"]
    with pytest.raises(ValueError, match=r"adata.obsm\['ksparse'\] is missing: run"):
        read_projection(adata, "ksparse")
    del adata.obs["ksparse"]
    with pytest.raises(ValueError, match=r"adata.obs\['ksparse'\] is missing: run"):
        read_labels(adata, "ksparse")
    with pytest.raises(ValueError, match="must be the clusters that ksparse.tl.ksparse wrote"):
        ks.tl.rank_genes(adata)


def test_a_path_is_read_as_it_was_written(clustered):
    adata = clustered.copy()
    columns = {name: np.array([0.1, 0.2]) for name in ("eta", *QUALITY)}
    path = PathRecord({"n_features": np.array([5, 10]), **columns}, 10, 3)
    write_path(adata, "p", path)
    same(read_path(adata, "p"), path)
    assert read_path(adata, "gone") is None
    assert read_path(adata, "ksparse") is None
