"""ksparse.pl: every picture shows what it says, where it was asked to."""

from __future__ import annotations

import numpy as np
import pytest

import ksparse as ks
from ksparse._plotting import cluster_colours
from ksparse.metrics import correctly_placed

matplotlib = pytest.importorskip("matplotlib")
pytest.importorskip("anndata")
matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

PICTURES = {
    "embedding": lambda adata, **at: ks.pl.embedding(adata, labels="label", **at),
    "by_gene": lambda adata, **at: ks.pl.embedding(adata, gene=top(adata), **at),
    "genes": lambda adata, **at: ks.pl.genes(adata, **at),
    "heatmap": lambda adata, **at: ks.pl.heatmap(adata, **at),
    "dotplot": lambda adata, **at: ks.pl.dotplot(adata, **at),
    "convergence": lambda adata, **at: ks.pl.convergence(adata, **at),
    "clusters_vs_labels": lambda adata, **at: ks.pl.clusters_vs_labels(adata, "label", **at),
}


def top(adata, cluster="0"):
    return str(adata.uns["rank_genes_groups"]["names"][cluster][0])


@pytest.fixture(autouse=True)
def close():
    yield
    pyplot.close("all")


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_are_drawn_where_asked_and_saved_whole(clustered, tmp_path, name):
    figure, (left, right) = pyplot.subplots(1, 2)
    path = tmp_path / f"{name}.png"
    assert PICTURES[name](clustered, ax=right, save=path) is right
    assert not left.has_data()
    assert path.read_bytes()[:4] == b"\x89PNG"
    assert list(tmp_path.iterdir()) == [path]
    new = PICTURES[name](clustered)
    assert new.figure is not figure
    assert new.has_data()
    assert new.get_title() or new.get_xlabel() or new.get_legend()


@pytest.mark.parametrize("name", PICTURES)
def test_labels_do_not_overlap(clustered, name):
    ax = PICTURES[name](clustered)
    ax.figure.canvas.draw()
    for labels in (ax.get_xticklabels(), ax.get_yticklabels()):
        boxes = [t.get_window_extent() for t in labels if t.get_text() and t.get_visible()]
        overlaps = [a for i, a in enumerate(boxes) for b in boxes[i + 1 :] if a.overlaps(b)]
        assert not overlaps


def test_misplaced_cells_are_black(clustered):
    ax = ks.pl.embedding(clustered, labels="label")
    wrong = ~correctly_placed(clustered.obs["label"], clustered.obs["ksparse"])
    assert wrong.any()
    black = [c for c in ax.collections if tuple(c.get_facecolor()[0]) == (0, 0, 0, 1)]
    assert len(black) == 1
    np.testing.assert_allclose(
        black[0].get_offsets(), clustered.obsm["ksparse_tsne"][wrong], rtol=1e-6
    )
    assert f"misplaced ({wrong.sum()})" in ax.get_legend_handles_labels()[1]


def test_the_bars_are_the_largest_weights(clustered):
    ax = ks.pl.genes(clustered, n_genes=5)
    weights = clustered.var["ksparse_weight"].sort_values(ascending=False)[:5]
    assert [t.get_text() for t in ax.get_yticklabels()] == weights.index.tolist()
    bars = sorted((bar.get_width() for bar in ax.patches), reverse=True)
    np.testing.assert_allclose(bars, weights)


def test_the_confusion_has_every_cell_once(clustered):
    ax = ks.pl.clusters_vs_labels(clustered, "label")
    assert sum(int(t.get_text().replace(",", "")) for t in ax.texts) == clustered.n_obs


def test_the_path_is_drawn_from_an_object_or_a_path(clustered, with_path, tmp_path):
    for given in with_path:
        axes = ks.pl.path(given, save=tmp_path / "path.pdf")
        np.testing.assert_allclose(axes[0].lines[0].get_ydata(), [5, 10, 20])
        assert (tmp_path / "path.pdf").read_bytes()[:4] == b"%PDF"
    with pytest.raises(ValueError, match="holds no path: run ksparse.tl.path"):
        ks.pl.path(clustered)


def test_cells_of_a_large_heat_map_are_drawn_at_random(clustered, monkeypatch):
    from ksparse.pl import _genes

    monkeypatch.setattr(_genes, "MAX_CELLS", 50)
    ax = ks.pl.heatmap(clustered)
    assert ax.images[0].get_array().shape[1] == 50
    assert "50 of 240" in ax.get_xlabel()


def test_colours_differ_for_many_clusters():
    for n in (3, 7, 19, 40):
        assert len(set(cluster_colours(n))) == n


@pytest.mark.parametrize("name", PICTURES)
def test_renamed_clusters_and_some_of_the_cells_can_be_drawn(clustered, name):
    renamed = clustered.copy()
    renamed.obs["ksparse"] = renamed.obs["ksparse"].cat.rename_categories(["Red", "Green", "Blue"])
    PICTURES[name](renamed)
    part = clustered[clustered.obs["ksparse"] != "1"].copy()  # anndata drops the category
    assert part.obs["ksparse"].cat.categories.tolist() == ["0", "2"]
    ax = PICTURES[name](part)
    if name == "embedding":
        colours = [tuple(c.get_facecolor()[0]) for c in ax.collections]
        assert matplotlib.colors.to_rgba(cluster_colours(3)[2]) in colours


def test_clusters_that_are_not_those_of_the_result_are_refused(clustered):
    part = clustered[clustered.obs["ksparse"] != "1"].copy()
    part.obs["ksparse"] = part.obs["ksparse"].cat.rename_categories(["Red", "Blue"])
    ax = ks.pl.embedding(part)  # which is which is seen from the projection
    assert [t.get_text() for t in ax.texts] == ["Red", "Blue"]
    part.obs["ksparse"] = part.obs["ksparse"].where(np.arange(part.n_obs) > 4)
    with pytest.raises(ValueError, match="missing for 5 of"):
        ks.pl.embedding(part)


@pytest.mark.parametrize(
    ("call", "error", "part"),
    [
        (lambda a, p: ks.pl.embedding(a, gene="no"), ValueError, "gene='no' is not in"),
        (lambda a, p: ks.pl.embedding(a, labels="no"), ValueError, "labels='no'"),
        (lambda a, p: ks.pl.embedding(a, labels="label", gene="gene_0"), ValueError, "exclude"),
        (lambda a, p: ks.pl.embedding(a, key="no"), ValueError, "run ksparse.tl.ksparse"),
        (lambda a, p: ks.pl.genes(a, n_genes=0), ValueError, "n_genes=0 must be at least 1"),
        (lambda a, p: ks.pl.genes(a, ax=3), TypeError, "ax must be matplotlib Axes, got int"),
        (lambda a, p: ks.pl.genes(a, save=p / "x.docx"), ValueError, "must end with one of"),
        (lambda a, p: ks.pl.dotplot(a.X), TypeError, "adata must be an AnnData"),
    ],
)
def test_what_cannot_be_drawn_is_refused(clustered, tmp_path, call, error, part):
    with pytest.raises(error, match=part):
        call(clustered, tmp_path)
    assert not list(tmp_path.iterdir())
    assert not pyplot.get_fignums()  # no empty figure is left open


def test_names_are_not_read_as_formulas(clustered, tmp_path):
    adata = clustered.copy()
    names = adata.uns["ksparse"]["model"]["genes"].copy()
    new = [f"{name}$\\foo$" for name in names]
    adata.var_names = [dict(zip(names, new, strict=True)).get(n, n) for n in adata.var_names]
    adata.uns["ksparse"]["model"]["genes"] = np.array(new)
    for draw in (ks.pl.genes, ks.pl.dotplot, ks.pl.heatmap):
        draw(adata, save=tmp_path / "x.png")
    ks.pl.embedding(adata, gene=new[0], save=tmp_path / "x.png")
    adata.obs["label"] = adata.obs["label"].cat.rename_categories(lambda name: f"$\\foo${name}")
    ks.pl.clusters_vs_labels(adata, "label", save=tmp_path / "x.png")


def test_cells_without_a_label_are_told(clustered):
    adata = clustered.copy()
    adata.obs["some"] = adata.obs["label"].where(np.arange(adata.n_obs) > 9)
    with pytest.warns(UserWarning, match="10 of 240 cells have no some"):
        ks.pl.embedding(adata, labels="some")
    with pytest.warns(UserWarning, match="10 of 240 cells have no some"):
        ax = ks.pl.clusters_vs_labels(adata, "some")
    assert sum(int(t.get_text()) for t in ax.texts) == 230
    adata.obs["none"] = adata.obs["label"].where(np.arange(adata.n_obs) > 999)
    with pytest.raises(ValueError, match="labels='none' is missing for all 240 cells"):
        ks.pl.clusters_vs_labels(adata, "none")
