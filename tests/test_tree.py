"""tree: clusters within clusters, each split with its features and its p-value."""

from __future__ import annotations

import json

import anndata
import matplotlib
import matplotlib.pyplot
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.metrics import adjusted_rand_score

import ksparse as ks
from conftest import HOSTILE, page_content, thorough_params
from ksparse import tree
from ksparse.cli import main
from ksparse.report import write_report
from ksparse.scverse.trees import write_tree
from ksparse.selection.tree_nodes import FEW, NOT_SEPARATED, TreeNodes
from ksparse.selection.tree_plot import draw, lay_out
from ksparse.simulate import log_normalise, simulate_counts

matplotlib.use("Agg")

FAST = {"init": "graph", "random_state": 0}


def nested(seed=0, n_features=40):
    """Two clusters, each of which falls in two that differ in other features."""
    rng = np.random.default_rng(seed)
    labels = np.repeat([0, 1, 2, 3], [36, 32, 28, 26])
    X = rng.normal(size=(labels.size, n_features))
    X[labels < 2, :4] += 8
    for cluster in range(4):
        X[labels == cluster, 4 + 4 * cluster : 8 + 4 * cluster] += 3.5
    order = rng.permutation(labels.size)
    return X[order], labels[order]


@pytest.fixture(scope="module")
def grown():
    X, labels = nested()
    names = [f"f{j}" for j in range(X.shape[1])]
    return tree(X, n_clusters=7, feature_names=names, **FAST), labels


def test_clusters_within_clusters_are_found(grown):
    found, labels = grown
    assert found.n_clusters == 4
    assert adjusted_rand_score(labels, found.labels) > 0.95
    np.testing.assert_array_equal(np.sort(np.bincount(found.labels))[::-1],
                                  np.bincount(found.labels))  # fmt: skip
    assert adjusted_rand_score(labels < 2, found.cut(2)) > 0.95
    assert (found.cut(1) == 0).all()
    assert found.labels.dtype == np.int32
    assert found.sentence.startswith("4 clusters: 3 splits are supported (p <= ")


def test_each_split_names_the_features_of_its_two_sides(grown):
    found, labels = grown
    nodes = found.nodes
    one, other = nodes.children(0)
    holds_first = np.isin(found.node_of[labels < 2], [one]).any() or nodes.size[one] == 68
    first = one if holds_first else other
    assert {"f0", "f1", "f2", "f3"} <= set(nodes.up[first])
    for node in range(1, nodes.parent.size):
        sibling = next(c for c in nodes.children(nodes.parent[node]) if c != node)
        assert not set(nodes.up[node]) & set(nodes.up[sibling])
        assert len(nodes.up[node]) + len(nodes.up[sibling]) == 10


def test_cuts_refine_each_other(grown):
    found, _ = grown
    before = found.cut(1)
    for n in range(2, found.nodes.most + 1):
        labels = found.cut(n)
        assert len(np.unique(labels)) == n
        pairs = np.unique(np.column_stack([labels, before]), axis=0)
        assert len(pairs) == n  # every cluster is inside one of those before
        before = labels
    with pytest.raises(ValueError, match=r"n_clusters=99 should be <= \d+, all splits .* grow"):
        found.cut(99)
    with pytest.raises(ValueError, match="n_clusters=0 must be at least 1"):
        found.cut(0)


def test_the_table_has_all_nodes(grown):
    found, _ = grown
    table = found.table
    assert list(table) == ["node", "parent", "size", "depth", "cluster", "p_separation",
                           "supported", "up", "why"]  # fmt: skip
    assert table["supported"].sum() == 3
    assert sorted(table["cluster"][table["cluster"] >= 0]) == [0, 1, 2, 3]
    clusters = table[table["cluster"] >= 0].sort_values("cluster")
    np.testing.assert_array_equal(clusters["size"], np.bincount(found.labels))
    assert set(clusters["why"]) <= {FEW, NOT_SEPARATED}
    assert (table["p_separation"][table["supported"]] <= 0.05).all()
    for node in table["node"][1:]:
        siblings = table[table["parent"] == table["parent"][node]]
        assert siblings["size"].sum() == table["size"][table["parent"][node]]


def test_results_are_shown_as_a_sentence_and_a_table(grown):
    found, _ = grown
    assert repr(found) == f"ClusterTree({found.sentence})"
    assert str(found).endswith(found.sentence)
    assert "<table" in found._repr_html_()
    assert found.sentence.split("(")[0] in found._repr_html_()


def one_population(kind, seed):
    rng = np.random.default_rng(seed)
    if kind == "small noise":
        return rng.normal(size=(150, 80))
    if kind == "noise":
        return rng.normal(size=(200, 2000))
    loadings = np.zeros((2, 1000))
    loadings[0, :40] = loadings[1, 40:80] = 1.5
    return rng.normal(size=(300, 2)) @ loadings + rng.normal(size=(300, 1000))


@pytest.mark.parametrize("seed", range(3))
def test_noise_is_one_cluster(seed):
    found = tree(one_population("small noise", seed), **FAST)
    assert found.n_clusters == 1
    assert (found.labels == 0).all()
    assert found.sentence.startswith("One cluster: no split of it is supported (p = ")


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["noise", "factors"])
def test_one_population_is_one_cluster_in_95_of_100_runs(kind):
    split = sum(tree(one_population(kind, seed), **FAST).n_clusters > 1 for seed in range(40))
    assert split <= 2


@pytest.mark.thorough
def test_each_cell_line_is_one_cluster_on_a_plate(data_folder):
    data = anndata.read_h5ad(data_folder / "mix_sc_celseq2_5cl.h5ad")
    X = log_normalise(data.X)
    lines, plates = (data.obs[name].to_numpy() for name in ("label", "plate"))

    def found(chosen):
        part = X[np.flatnonzero(chosen)]
        return tree(part[:, np.flatnonzero((part != 0).sum(axis=0) >= 5)], **FAST)

    for line in np.unique(lines):
        for plate in np.unique(plates):
            chosen = (lines == line) & (plates == plate)
            if chosen.sum() >= 40:
                assert found(chosen).n_clusters == 1
    # Plates are populations of their own in the largest line.
    largest = lines == "A549"
    assert adjusted_rand_score(plates[largest], found(largest).labels) > 0.9


@pytest.mark.thorough
@pytest.mark.parametrize("k", [3, 6])
def test_simulated_clusters_are_found(k):
    data = simulate_counts(800, 1000, k, random_state=0)
    found = tree(log_normalise(data.counts), random_state=0)
    assert found.n_clusters == k
    assert adjusted_rand_score(data.labels, found.labels) > 0.9


def stored(X, kind, folder):
    if kind == "dask":
        return pytest.importorskip("dask.array").from_array(X, chunks=(50, -1))
    if kind == "zarr":
        made = pytest.importorskip("zarr").open_array(
            str(folder / "x.zarr"), mode="w", shape=X.shape, chunks=(50, X.shape[1]), dtype=X.dtype
        )
        made[:] = X
        return made
    return {"csr": sp.csr_array, "csc": sp.csc_matrix, "float32": np.float32}[kind](X)


@pytest.mark.parametrize("kind", thorough_params(["dask"], ["csr", "csc", "zarr", "float32"]))
def test_any_storage_gives_the_same(kind, tmp_path, grown):
    X, _ = nested()
    found = tree(stored(X, kind, tmp_path), **FAST)
    np.testing.assert_array_equal(found.labels, grown[0].labels)
    p, expected = (one.nodes.p_separation[one.nodes.supported] for one in (found, grown[0]))
    np.testing.assert_allclose(p, expected, rtol=1e-6)
    names = [[f"f{name}" for name in up] for up in found.nodes.up[:7]]
    assert names == [list(up) for up in grown[0].nodes.up[:7]]


@pytest.mark.thorough
def test_parts_of_files_need_not_fit_in_memory(monkeypatch, grown):
    monkeypatch.setattr("ksparse.selection.tree_split.IN_MEMORY", 0)
    X = pytest.importorskip("dask.array").from_array(nested()[0], chunks=(50, -1))
    np.testing.assert_array_equal(tree(X, **FAST).labels, grown[0].labels)


def test_names_are_those_of_a_data_frame_or_of_anndata():
    X, _ = nested()
    names = [f"gene {j}" for j in range(X.shape[1])]
    frame = pd.DataFrame(X, columns=names, index=[f"sample {i}" for i in range(len(X))])
    part = frame[:20]
    found = tree(part, n_clusters=2, **FAST)
    assert {name for up in found.nodes.up for name in up} <= set(names)
    assert len(found.nodes.up[1] + found.nodes.up[2]) == 10
    assert tree(anndata.AnnData(part), n_clusters=2, **FAST).nodes.up == found.nodes.up


def test_equal_samples_are_one_cluster():
    found = tree(np.ones((100, 5)))
    assert found.sentence == "One cluster: all samples are equal."


def test_few_samples_are_one_cluster():
    found = tree(nested()[0][:20], **FAST)
    assert found.sentence == "One cluster: it has too few samples to tell."
    assert found.nodes.most == 1
    more = tree(nested()[0][:20], n_clusters=3, **FAST)
    assert more.n_clusters == 1
    assert len(np.unique(more.cut(3))) == 3


def test_more_clusters_than_are_supported_can_be_grown(grown):
    found, _ = grown
    assert len(np.unique(found.labels)) == 4
    assert len(np.unique(found.cut(7))) == 7
    assert not found.nodes.supported[7:].any()
    with pytest.raises(ValueError, match="n_clusters=4 should be <= 3: there are no more samples"):
        tree(np.repeat(np.eye(3), 5, axis=0), n_clusters=4)


def test_forbidden_features_are_not_used():
    X, _ = nested()
    found = tree(X, feature_weights=np.where(np.arange(40) < 20, np.inf, 1.0), **FAST)
    assert found.n_clusters == 1
    assert not set(map(str, range(20))) & {name for up in found.nodes.up for name in up}


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ({"level": 0}, "level=0 must be a number between 0 and 1"),
        ({"level": "5 %"}, "must be a number between 0 and 1"),
        ({"n_clusters": 0}, "n_clusters=0 must be at least 1"),
        ({"n_clusters": 500}, "n_clusters=500 should be <= 122, the number of samples"),
        ({"n_features": 0}, "n_features=0 must be at least 1"),
        ({"n_features": "auto"}, "n_features='auto' must be an integer"),
        ({"init": np.zeros(122)}, "init must be the name of a start"),
        ({"init": "nothing"}, "init='nothing' is unknown"),
        ({"feature_names": ["a"]}, "feature_names has 1 names, but X has 40 features"),
        ({"feature_names": ["a"] * 40}, "feature_names has repeated names"),
        ({"X": np.full((90, 3), np.nan)}, "NaN"),
        ({"sample_weight": np.ones(122)}, "sample_weight"),
    ],
)
def test_bad_requests_get_one_clear_sentence(arguments, part):
    arguments = {"X": nested()[0]} | arguments
    with pytest.raises((ValueError, TypeError), match=part):
        tree(arguments.pop("X"), **arguments)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(3))
def test_the_same_seed_gives_the_same_tree(seed):
    X, _ = nested(seed)
    one, other = (tree(X, init="graph", random_state=seed) for _ in range(2))
    pd.testing.assert_frame_equal(one.table, other.table)
    np.testing.assert_array_equal(one.node_of, other.node_of)


def test_sparse_data_give_the_same_and_so_does_the_seed(grown):
    found = tree(sp.csr_array(nested()[0]), n_clusters=7, **FAST)
    np.testing.assert_array_equal(found.node_of, grown[0].node_of)
    np.testing.assert_allclose(found.nodes.p_separation, grown[0].nodes.p_separation)


# Pictures ---------------------------------------------------------------------------------------


def made_up(n, seed=0, letters=6, unsupported=1):
    """Nodes of a tree with `n` supported clusters and names of features of any length."""
    rng = np.random.default_rng(seed)
    parent, size, supported, up, ends = [-1], [5000], [False], [()], [0]

    def split(node, is_supported):
        share = rng.uniform(0.15, 0.5)
        for part in (1 - share, share):
            parent.append(node)
            size.append(int(size[node] * part))
            supported.append(False)
            names = ["".join(rng.choice(list("ABCDEFGHKM"), letters)) for _ in range(4)]
            up.append(tuple(names[: rng.integers(0, 5)]))
            ends.append(len(parent) - 1)
        supported[node] = is_supported
        ends.remove(node)

    while len(ends) < n:
        split(max(ends, key=lambda node: size[node] * rng.uniform(0.3, 1)), True)
    for _ in range(unsupported):
        split(max(ends, key=lambda node: size[node]), False)
    n_nodes = len(parent)
    p = np.where(supported, 10.0 ** -rng.uniform(3, 120, n_nodes), rng.uniform(0.1, 1, n_nodes))
    why = tuple("" if one else str(rng.choice([FEW, NOT_SEPARATED])) for one in supported)
    return TreeNodes(
        np.array(parent), np.array(size), p, np.array(size, dtype=float), np.array(supported), why,
        tuple(up), 0.05,
    )  # fmt: skip


@pytest.mark.parametrize("n", [1, 4, 10, 20])
@pytest.mark.parametrize("letters", [6, 40])
def test_nothing_in_the_picture_overlaps(n, letters):
    nodes = made_up(n, n, letters, unsupported=0)
    ax = draw(nodes)
    figure = ax.figure
    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()
    boxes = [text.get_window_extent(renderer) for text in ax.texts if text.get_text().strip()]
    frame = figure.bbox
    for i, box in enumerate(boxes):
        assert frame.x0 <= box.x0
        assert box.x1 <= frame.x1
        for other in boxes[:i]:
            assert not box.overlaps(other)
    assert figure.get_size_inches()[0] < 18
    words = [text.get_text() for text in ax.texts]
    assert {str(cluster) for cluster in range(n)} <= set(words)


def test_splits_that_are_not_supported_are_dashed():
    nodes = made_up(4, 1)
    assert not any(branch.dashed for branch in lay_out(nodes).branches)
    assert sum(branch.dashed for branch in lay_out(nodes, 5).branches) == 2
    dashed = [line for line in draw(nodes, n_clusters=5).lines if line.get_linestyle() == "--"]
    assert len(dashed) == 2


def test_the_picture_can_be_drawn_in_given_axes(grown):
    found, _ = grown
    _, ax = matplotlib.pyplot.subplots()
    assert found.plot(ax) is ax
    assert found.plot(n_clusters=2) is not ax
    with pytest.raises(ValueError, match="axes must be matplotlib Axes, got list"):
        found.plot([1])


# AnnData ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def told(grown):
    """AnnData with a tree that was not computed once more."""
    X, labels = nested()
    adata = anndata.AnnData(pd.DataFrame(X).rename(index=str, columns=lambda j: f"f{j}"))
    adata.obs["label"] = labels.astype(str)
    write_tree(adata, "tree", grown[0])
    return adata, grown[0]


@pytest.mark.thorough
def test_cells_are_split_like_samples(told):
    adata = told[0].copy()
    found = ks.tl.tree(adata, **FAST)
    assert found.nodes.up[:7] == told[1].nodes.up[:7]
    np.testing.assert_array_equal(adata.obs["tree"], told[0].obs["tree"])


@pytest.mark.filterwarnings("ignore:Writing zarr v2 data")
@pytest.mark.parametrize("kind", thorough_params(["h5ad"], ["zarr"]))
def test_results_in_anndata_survive_a_file_and_can_be_drawn(told, kind, tmp_path):
    adata, found = told
    assert adata.obs["tree"].cat.categories.tolist() == ["0", "1", "2", "3"]
    np.testing.assert_array_equal(adata.obs["tree"].cat.codes, found.labels)
    getattr(adata, f"write_{kind}")(tmp_path / f"x.{kind}")
    again = getattr(anndata, f"read_{kind}")(tmp_path / f"x.{kind}")
    ax = ks.pl.tree(again, save=tmp_path / "tree.png")
    assert (tmp_path / "tree.png").exists()
    assert ax.get_title(loc="left").replace("\n", " ") == found.sentence
    genes = {name for text in ax.texts for name in text.get_text().split(", ")}
    assert genes & set(adata.var_names)
    drawn = [text.get_text() for text in ks.pl.tree(again, n_clusters=2).texts]
    assert {"0", "1"} <= set(drawn)
    assert again.uns["tree"]["sentence"] == found.sentence


def test_a_tree_without_any_split_can_be_stored_and_drawn(tmp_path):
    adata = anndata.AnnData(np.random.default_rng(0).normal(size=(20, 20)))
    ks.tl.tree(adata)
    adata.write_h5ad(tmp_path / "x.h5ad")
    again = anndata.read_h5ad(tmp_path / "x.h5ad")
    assert ks.pl.tree(again).get_title(loc="left").startswith("One cluster: it has too few")
    assert again.obs["tree"].cat.categories.tolist() == ["0"]


def test_genes_and_layers_can_be_chosen(told):
    adata = told[0][:60].copy()
    adata.layers["more"] = adata.X + 1.0
    adata.var["some"] = np.arange(adata.n_vars) % 2 == 0
    found = ks.tl.tree(adata, layer="more", mask_var="some", key_added="other", **FAST)
    assert {name for up in found.nodes.up for name in up} <= set(adata.var_names[::2])
    expected = tree(adata.layers["more"][:, ::2], **FAST)
    np.testing.assert_array_equal(found.labels, expected.labels)
    np.testing.assert_array_equal(adata.obs["other"].cat.codes, expected.labels)


def test_results_of_others_are_not_replaced(told):
    adata = told[0].copy()
    adata.uns["mine"] = 3
    with pytest.raises(ValueError, match=r"adata.uns\['mine'\] holds something else"):
        ks.tl.tree(adata, key_added="mine")
    with pytest.raises(ValueError, match=r"adata.obs\['label'\] holds something else"):
        ks.tl.tree(adata, key_added="label")
    with pytest.raises(ValueError, match="key_added='a/b' must be a name"):
        ks.tl.tree(adata, key_added="a/b")


def test_damaged_results_are_refused(told):
    adata = told[0]
    with pytest.raises(ValueError, match="holds no tree: run ksparse.tl.tree"):
        ks.pl.tree(adata, key="nothing")
    n = adata.uns["tree"]["parent"].size
    bad = {
        "parent": np.arange(n)[::-1].copy(),
        "size": np.ones(n + 1, dtype=int),
        "p_separation": np.full(n, 2.0),
        "supported": np.ones(n, dtype=bool),
        "why": np.zeros(n),
        "feature_node": adata.uns["tree"]["feature_node"] + n,
        "level": "high",
    }
    for name, value in bad.items():
        broken = adata.copy()
        broken.uns["tree"] = dict(adata.uns["tree"]) | {name: value}
        with pytest.raises(ValueError, match=rf"is damaged \(.*{name}"):
            ks.pl.tree(broken)
    broken = adata.copy()
    broken.uns["tree"] = {k: v for k, v in adata.uns["tree"].items() if k != "parent"}
    with pytest.raises(ValueError, match=r"is not complete \(parent is missing"):
        ks.pl.tree(broken)


# The report and the command line ------------------------------------------------------------------


def reported(clustered, told, folder):
    adata = clustered.copy()
    adata.uns["tree"] = dict(told[0].uns["tree"])
    names = adata.uns["tree"]["features"].astype(object)
    names[0] = HOSTILE[1]
    adata.uns["tree"]["features"] = names
    return adata, write_report(adata, folder / "r.html")


def test_the_report_has_the_tree(clustered, told, tmp_path):
    adata, path = reported(clustered, told, tmp_path)
    content = page_content(path)["tree"]
    assert content["sentence"] == told[1].sentence
    assert sum(branch["cluster"] >= 0 for branch in content["branches"]) == 4
    del adata.uns["tree"]
    assert page_content(write_report(adata, tmp_path / "none.html"))["tree"] is None


def test_the_tree_is_drawn_in_the_report(visit, clustered, told, tmp_path):
    page = visit(reported(clustered, told, tmp_path)[1])
    assert page.locator("#tree").is_visible()
    assert page.locator("#tree-plot circle").count() == 4
    assert told[1].sentence in page.locator("#tree-hint").inner_text()
    widths = page.evaluate(
        "[...document.querySelectorAll('#tree-plot text')].map((t) => { const b = t.getBBox(); "
        "return [b.x, b.y, b.x + b.width, b.y + b.height]; })"
    )
    for i, (left, top, right, bottom) in enumerate(widths):
        for a, b, c, d in widths[:i]:
            assert right <= a or c <= left or bottom <= b or d <= top
    assert page.evaluate("window.hacked") is None


def test_the_command_writes_nodes_cells_and_a_picture(tmp_path, capsys):
    data = simulate_counts(50, 30, 2, n_markers=10, random_state=0)
    data.to_anndata().write_h5ad(tmp_path / "cells.h5ad")
    words = ["tree", str(tmp_path / "cells.h5ad"), "--label-column", "label"]
    assert main([*words, "-o", str(tmp_path / "out"), "-k", "2"]) == 0
    account = json.loads((tmp_path / "out" / "run.json").read_text())
    assert account["results"]["sentence"] in capsys.readouterr().out
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "clusters.csv", "run.json", "tree.csv", "tree.png",
    ]  # fmt: skip
    nodes = pd.read_csv(tmp_path / "out" / "tree.csv")
    assert nodes["supported"].sum() == account["results"]["n_clusters"] - 1
    cells = pd.read_csv(tmp_path / "out" / "clusters.csv")
    assert list(cells) == ["cell", "cluster", "label"]
    assert cells["cluster"].nunique() == 2
    assert main([*words, "-o", str(tmp_path / "bad"), "--level", "2"]) == 2
    assert "--level 2.0 must be a number between 0 and 1" in capsys.readouterr().err
