"""ksparse.tl.panel: genes for the groups of cells of AnnData."""

from __future__ import annotations

import warnings

import numpy as np
import pandas
import pytest
import scipy.sparse as sp

import ksparse as ks
from conftest import make_clusters, seeds
from ksparse._errors import InputError, InputWarning
from ksparse.panel import PanelSelector
from ksparse.scverse.panels import read_panel

anndata = pytest.importorskip("anndata")


def make_cells(seed=0, **options):
    X, y, _ = make_clusters(seed, **{"sizes": (80, 60, 40), "shift": 3.0, **options})
    adata = anndata.AnnData(sp.csr_matrix(np.maximum(X, 0).astype(np.float32)))
    adata.var_names = [f"MT-{j}" if j in (0, 5) else f"g{j}" for j in range(adata.n_vars)]
    adata.obs["type"] = pandas.Categorical.from_codes(y, ["T/NK", "B", "Mono"])
    return adata


@pytest.fixture
def cells():
    return make_cells()


def genes_of(adata, key="panel"):
    return read_panel(adata, key).genes["gene"].tolist()


@pytest.mark.parametrize("seed", seeds(1, 4))
def test_the_panel_is_that_of_the_selector_and_survives_a_file(seed, tmp_path):
    cells = make_cells(seed)
    ks.tl.panel(cells, 9, groupby="type", random_state=0)
    expected = PanelSelector(9, min_per_class=1).fit(cells.X, cells.obs["type"].cat.codes)
    cells.write_h5ad(tmp_path / "cells.h5ad")
    for adata in (cells, anndata.read_h5ad(tmp_path / "cells.h5ad")):
        panel = read_panel(adata, "panel")
        table = panel.genes
        assert table["gene"].tolist() == cells.var_names[expected.features_].tolist()
        assert table["rank"].tolist() == list(range(1, 10))
        np.testing.assert_allclose(table["explained"], expected.explained_)
        assert (table["direction"] == "up").all()
        names = np.array(["T/NK", "B", "Mono"])
        assert table["group"].tolist() == names[expected.features_ // 5].tolist()
        first, group = table["gene"].iloc[0], table["group"].iloc[0]
        means = adata[:, first].to_df().groupby(adata.obs["type"], observed=True).mean()[first]
        assert table["difference"].iloc[0] == pytest.approx(
            means[group] - means.drop(group).mean(), rel=1e-4
        )
        assert table["why"].iloc[0].startswith(f"higher in {group} (mean ")
        assert panel.recall.index.tolist() == ["T/NK", "B", "Mono"]
        assert panel.recall["n_cells"].tolist() == [40, 30, 20]
        assert (panel.recall[["logistic", "5nn"]] > 0.9).all(axis=None)
        assert panel.explained == pytest.approx(expected.explained_[-1])
        assert panel.explained <= panel.explained_bound
        assert panel.params["groupby"] == "type" and "layer" not in panel.params
        assert adata.var["panel"].sum() == 9
        ranked = adata.var["panel_rank"].dropna().sort_values()
        assert ranked.index.tolist() == table["gene"].tolist()
        assert adata.var["panel_rank"].isna().sum() == 51


def test_gates_and_pictures_use_the_panel(cells):
    pytest.importorskip("matplotlib").use("Agg")
    cells.layers["counts"] = np.round(np.expm1(cells.X.toarray()))
    ks.tl.panel(cells, 6, groupby="type", layer="counts", normalize="log1p", random_state=0)
    ks.tl.gates(cells, "type", layer="counts", normalize="log1p", random_state=0)
    assert set(ks.tl.get_gates(cells).names) <= set(genes_of(cells))
    ax = ks.pl.panel(cells)  # groups, layer and normalisation are those of the panel
    assert {label.get_text() for label in ax.get_xticklabels()} == set(genes_of(cells))
    assert [label.get_text() for label in ax.get_yticklabels()] == ["T/NK", "B", "Mono"]
    ks.tl.evaluate_panel(cells, "panel", "type", n_random=0, compare=False, random_state=0)


def test_wishes(cells):
    ks.tl.panel(cells, 6, groupby="type", keep=["g40"], extend=["g30", "g1"],
                exclude=["g2", "g7"], exclude_pattern="^MT-", random_state=0)  # fmt: skip
    genes = genes_of(cells)
    assert len(genes) == 6 and set(genes[:3]) == {"g40", "g30", "g1"}
    assert not {"g2", "g7", "MT-0", "MT-5"} & set(genes)
    table = cells.uns["panel"]["genes"]
    assert table["why"].str.startswith("Kept; ").tolist() == [True] * 3 + [False] * 3
    cells.var["probe"] = np.arange(60) % 2 == 1
    cells.var["price"] = np.where(np.arange(60) < 5, 1e6, 1.0)
    ks.tl.panel(cells, 6, groupby="type", allowed="probe", key_added="probes", random_state=0)
    assert cells.var["probe"][genes_of(cells, "probes")].all()
    with pytest.warns(InputWarning, match="1 of 9 allowed genes are not in adata") as caught:
        ks.tl.panel(cells, 4, groupby="type", keep=["g50"], min_per_group=0, key_added="list",
                    allowed=["none", *cells.var_names[[0, 1, 2, 3, 5, 6, 10, 11]]],
                    random_state=0)  # fmt: skip
    assert caught[0].filename == __file__
    assert genes_of(cells, "list")[0] == "g50"
    ks.tl.panel(cells, 6, groupby="type", costs="price", min_per_group=0, key_added="cheap",
                random_state=0)  # fmt: skip
    assert (cells.var["price"][genes_of(cells, "cheap")] == 1).all()


def test_a_kept_gene_that_is_constant_has_no_invented_reason(cells):
    cells.X = sp.csr_matrix(cells.X.multiply(np.arange(60) != 40))
    ks.tl.panel(cells, 6, groupby="type", keep=["g40", "g41"], random_state=0)
    table = cells.uns["panel"]["genes"].set_index("gene")
    assert table["why"]["g40"] == "Kept; the same in all groups, and explains nothing."
    assert table["why"]["g41"].startswith(("Kept; higher in", "Kept; lower in"))


@pytest.mark.filterwarnings("ignore:adata.X has values too large")
def test_reasons_can_be_read_whatever_groups_are_called_and_values_are(cells):
    cells.obs["number"] = cells.obs["type"].cat.codes
    cells.X = cells.X * 1e4
    ks.tl.panel(cells, 6, groupby="number", random_state=0)
    why = cells.uns["panel"]["genes"]["why"]
    sentence = r"(higher|lower) in group \d \(mean [\d,]+\) than in others \([\d,.]+\); explains .*"
    assert why.str.fullmatch(sentence).all(), why.tolist()
    ks.tl.panel(cells, 6, n_clusters=3, random_state=0)
    why = cells.uns["panel"]["genes"]["why"]
    assert why.str.contains(r"in cluster \d .* more of the clusters\.$").all()


def test_a_pattern_that_leaves_out_nothing_is_told(cells):
    told = r"exclude_pattern='\^mt-' is found in none of the 60 names .*, such as 'MT-0', 'g1'"
    with pytest.warns(InputWarning, match=told) as caught:
        ks.tl.panel(cells, 6, groupby="type", exclude_pattern="^mt-", random_state=0)
    assert len(caught) == 1 and caught[0].filename == __file__
    ks.tl.panel(cells, 6, groupby="type", exclude_pattern="(?i)^mt-", random_state=0)
    assert not {"MT-0", "MT-5"} & set(genes_of(cells))


def test_genes_that_cost_nothing_are_kept_whatever_else_leaves_them_out(cells):
    cells.var["price"] = np.where(cells.var_names.isin(["MT-5", "g40"]), 0.0, 1.0)
    others = [name for name in cells.var_names if name != "g40"]
    ks.tl.panel(cells, 6, groupby="type", costs="price", allowed=others, exclude_pattern="^MT-",
                mask_var=np.arange(60) < 40, random_state=0)  # fmt: skip
    genes = genes_of(cells)
    assert set(genes[:2]) == {"MT-5", "g40"} and len(genes) == 6
    table = cells.uns["panel"]["genes"]
    assert table["why"].str.startswith("Kept; ").tolist() == [True] * 2 + [False] * 4


def test_a_panel_is_replaced_and_an_extended_one_keeps_its_genes(cells):
    ks.tl.panel(cells, 4, groupby="type", random_state=0)
    before = genes_of(cells)
    ks.tl.panel(cells, 8, groupby="type", extend=before, random_state=0)
    assert set(genes_of(cells)[:4]) == set(before)
    assert cells.var["panel"].sum() == 8


def test_clusters_are_found_without_groups(cells):
    pytest.importorskip("matplotlib").use("Agg")
    copied = ks.tl.panel(cells, 6, n_clusters=3, random_state=0, copy=True)
    assert "panel" not in cells.var
    table = pandas.crosstab(copied.obs["panel_clusters"], copied.obs["type"])
    assert (table.max(axis=1) > 0.95 * table.sum(axis=1)).all()
    assert copied.uns["panel"]["params"]["groupby"] == "panel_clusters"
    assert len(ks.pl.panel(copied).get_yticklabels()) == 3
    ks.tl.panel(copied, 6, groupby="type", random_state=0)
    assert "panel_clusters" not in copied.obs


def test_groups_that_no_gene_marks_are_named(cells):
    rng = np.random.default_rng(1)
    types = cells.obs["type"].astype(object).to_numpy()
    large = np.flatnonzero(types == "T/NK")
    types[rng.choice(large, 20, replace=False)] = "same as T/NK"
    cells.obs["finer"] = types
    told = r"tells 1 of 4 groups .*: 'same as T/NK' \(0"
    with pytest.warns(InputWarning, match=told) as caught:
        ks.tl.panel(cells, 8, groupby="finer", random_state=0)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("seed", seeds(2, 8))
def test_two_halves_of_a_group_are_named_though_guesses_find_half_of_their_cells(seed):
    cells = make_cells(seed, sizes=(160, 60, 40))
    types = cells.obs["type"].astype(object).to_numpy()
    large = np.flatnonzero(types == "T/NK")
    types[np.random.default_rng(seed).choice(large, 80, replace=False)] = "its half"
    cells.obs["finer"] = types
    with pytest.warns(InputWarning, match=r"tells 2 of 4 groups .*'T/NK' .*; like 'its half'\)"):
        ks.tl.panel(cells, 8, groupby="finer", random_state=0)
    recall = read_panel(cells, "panel").recall
    assert recall.index[~recall["told_apart"]].tolist() == ["T/NK", "its half"]
    assert recall["confused_with"][["T/NK", "its half"]].tolist() == ["its half", "T/NK"]


def test_cells_without_a_group_and_tiny_groups_are_left_out(cells):
    types = cells.obs["type"].astype(object).to_numpy()
    types[:10] = None
    types[10:13] = "tiny"
    cells.obs["some"] = types
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ks.tl.panel(cells, 6, groupby="some", random_state=0)
    messages = " ".join(str(warning.message) for warning in caught)
    assert "10 of 180 cells have no group" in messages and "'tiny' (3)" in messages
    assert "tiny" not in cells.uns["panel"]["recall"].index


@pytest.mark.parametrize("seed", seeds(1, 3))
def test_the_recall_of_noise_is_that_of_chance(seed):
    """The genes are chosen without the cells that are scored."""
    rng = np.random.default_rng(seed)
    adata = anndata.AnnData(rng.normal(size=(400, 2000)))
    adata.obs["group"] = pandas.Categorical(rng.permutation(np.repeat(["a", "b"], 200)))
    with pytest.warns(InputWarning, match="on held-out cells their recall is that of chance"):
        ks.tl.panel(adata, 20, groupby="group", random_state=seed)
    recall = adata.uns["panel"]["recall"]
    assert abs(recall["logistic"].mean() - 0.5) < 0.1


def test_a_backed_object_gives_the_same_panel(cells, tmp_path):
    ks.tl.panel(cells, 6, groupby="type", random_state=0)
    cells.write_h5ad(tmp_path / "cells.h5ad")
    backed = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    ks.tl.panel(backed, 6, groupby="type", key_added="again", random_state=0)
    assert genes_of(backed, "again") == genes_of(cells)
    pandas.testing.assert_frame_equal(backed.uns["again"]["recall"], cells.uns["panel"]["recall"])


@pytest.mark.parametrize("tool", [
    lambda adata: ks.tl.panel(adata, 6, groupby="type"),
    lambda adata: ks.tl.gates(adata, "type"),
    lambda adata: ks.tl.evaluate_panel(adata, ["g1", "g2"], "type"),
    lambda adata: ks.tl.panel_curve(adata, "type", n_genes=[2]),
])  # fmt: skip
def test_a_view_of_a_file_is_told_before_anything_is_computed(cells, tmp_path, tool):
    cells.write_h5ad(tmp_path / "cells.h5ad")
    view = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")[20:150]
    with pytest.raises(InputError, match=r"view of a backed object: call adata.to_memory\(\)"):
        tool(view)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"keep": ["g1", "x", "y"]}, "2 of the 3 names in keep are not in adata: 'x', 'y'"),
        ({"extend": ["z"]}, "1 of the 1 names in extend are not in adata: 'z'"),
        ({"exclude": "g1"}, "exclude='g1' must be a sequence of names"),
        ({"keep": ["g1"], "exclude": ["g1"]}, "1 genes are in keep or extend and in exclude: 'g1'"),
        (
            {"keep": [f"g{j}" for j in range(10, 20)]},
            "keep and extend have 10 genes, more than n_g",
        ),
        ({"exclude_pattern": "("}, r"exclude_pattern='\(' is no regular expression"),
        ({"exclude_pattern": b"^MT-"}, "exclude_pattern=b'.*' is no regular expression"),
        ({"exclude_pattern": "."}, "^exclude_pattern leaves 0 of 60 genes"),
        (
            {"exclude_pattern": "g", "allowed": ["g1"], "mask_var": np.arange(60) < 9},
            "^allowed, exclude_pattern and mask_var leave 0 of 60 genes",
        ),
        ({"n_clusters": 3}, "groupby='type' and n_clusters=3 exclude each other: give one"),
        ({"groupby": None, "n_clusters": 1}, "n_clusters=1 must be at least 2"),
        (
            {"costs": "free"},
            "keep, extend and 0 in costs='free' keep 60 genes, more than n_genes=6, which",
        ),
        (
            {"costs": "some", "keep": ["g3"], "exclude_pattern": "^MT-"},
            r"1 genes are in keep or extend \(or have 0 in costs='some'\) and in exclude \(or "
            r"infinity in costs='some'\): 'g3'\. Leave",
        ),
        ({"costs": "some", "exclude": ["g4", "g9"]}, r"1 genes .* and in exclude .*: 'g4'\."),
        *(
            ({name: np.arange(60) < 9}, f"{name} must be names of genes, got 60 times True or F")
            for name in ("allowed", "keep", "extend", "exclude")
        ),
        ({"costs": "endless"}, "^costs leaves 0 of 60 genes"),
        ({"allowed": "nothing"}, "allowed='nothing' is not a column of adata.var"),
        ({"costs": "nothing"}, "costs='nothing' is not a column of adata.var"),
        ({"costs": "names"}, "costs='names' must hold a number >= 0"),
        ({"n_genes": 2}, "n_genes=2 is too small for 3 groups with min_per_group=1"),
        ({"n_genes": 0}, "n_genes=0 must be at least 1"),
        (
            {"n_genes": 3, "keep": ["g1", "g2"]},
            "min_per_group=1 asks for 2 genes for 3 groups .* n_genes=3 leaves 1: ask for more g",
        ),
        ({"groupby": None}, "give groupby, a column of adata.obs, or n_clusters"),
        ({"groupby": "nothing"}, "groupby='nothing' is not a column"),
        ({"key_added": "price"}, r"adata.var\['price'\] exists and was not written by"),
    ],
)
def test_mistakes_are_told(cells, options, message):
    cells.var["names"] = cells.var_names.astype(str)
    cells.var["price"], cells.var["free"], cells.var["endless"] = 1.0, 0.0, np.inf
    cells.var["some"] = np.where(np.arange(60) == 3, np.inf, np.arange(60) != 4)
    with pytest.raises(InputError, match=message):
        ks.tl.panel(cells, **{"n_genes": 6, "groupby": "type", **options})
    assert "panel" not in cells.uns


def test_a_damaged_panel_is_told(cells):
    with pytest.raises(InputError, match="holds no panel: run ksparse.tl.panel"):
        read_panel(cells, "panel")
    ks.tl.panel(cells, 6, groupby="type", random_state=0)
    cells.uns["panel"]["genes"] = cells.uns["panel"]["genes"].drop(columns="gain")
    with pytest.raises(InputError, match=r"gain is missing.*run ksparse.tl.panel again"):
        read_panel(cells, "panel")


def test_too_few_genes_are_told_in_our_words(cells):
    with pytest.warns(InputWarning, match=r"There are 8 genes .* fewer than n_genes=9"):
        ks.tl.panel(cells, 9, groupby="type", mask_var=np.isin(np.arange(60), range(8)),
                    min_per_group=0, random_state=0)  # fmt: skip
    assert cells.var["panel"].sum() == 8


# Cells that are held out -----------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:No panel of these genes")
@pytest.mark.filterwarnings("ignore:. of 3 groups have no gate")
def test_cells_that_are_held_out_have_no_part_in_the_choice(cells):
    """Whatever they hold, genes and gates are the same; and they are those of the others."""
    rng = np.random.default_rng(0)
    mask = rng.random(cells.n_obs) < 0.5
    cells.obs["held"] = mask
    cells.obs["type"] = cells.obs["type"].astype(str)  # an order of text for all
    other = cells.copy()
    values = other.X.toarray()
    values[mask] = rng.permuted(values[mask], axis=1)
    other.X = values
    others = cells[~mask].copy()
    for adata in (cells, other):
        ks.tl.panel(adata, 6, groupby="type", held_out="held", random_state=0)
        ks.tl.gates(adata, "type", held_out=mask, random_state=0)
    ks.tl.panel(others, 6, groupby="type", random_state=0)
    assert genes_of(cells) == genes_of(other) == genes_of(others)
    assert cells.uns["gates"]["gate"].tolist() == other.uns["gates"]["gate"].tolist()
    assert (cells.uns["gates"]["F"] > other.uns["gates"]["F"]).all()
    counts = cells.obs["type"][mask].value_counts().sort_index()
    for table in (cells.uns["panel"]["recall"], cells.uns["gates"]):
        assert table["n_cells"].tolist() == counts.tolist()
    assert cells.uns["panel"]["params"]["held_out"] == "yes"
    assert (cells.uns["panel"]["recall"]["logistic"] > 0.9).all()
    assert (other.uns["panel"]["recall"]["logistic"] < 0.9).any()


@pytest.mark.parametrize(
    ("held", "message"),
    [
        ("nothing", "held_out='nothing' is not a column"),
        ([True] * 5, "held_out must be True or False for each of the 180 cells"),
        (np.ones(180, dtype=bool), "held_out leaves fewer than 2 cells that are not held out to 3"),
        (np.zeros(180, dtype=bool), "held_out leaves fewer than 2 cells that are held out to 3 of"),
    ],
)
def test_cells_that_cannot_be_held_out_are_told(cells, held, message):
    with pytest.raises(InputError, match=message):
        ks.tl.panel(cells, 6, groupby="type", held_out=held, random_state=0)
    with pytest.raises(InputError, match=message):
        ks.tl.panel_curve(cells, "type", n_genes=[3], held_out=held, random_state=0)


def test_gates_need_cells_on_both_sides(cells):
    mask = np.arange(cells.n_obs) % 2 == 0
    mask[(cells.obs["type"] == "B").to_numpy()] = False
    told = r"1 of 3 groups have fewer than 2 samples that are, or that are not, held out.*B \(60\)"
    with pytest.warns(InputWarning, match=told):
        ks.tl.gates(cells, "type", held_out=mask, max_genes=1, random_state=0)
    assert cells.uns["gates"]["n_genes"].tolist() == [1, 0, 1]


def test_large_groups_can_count_more(cells):
    ks.tl.panel(cells, 6, groupby="type", random_state=0)
    ks.tl.panel(cells, 6, groupby="type", balance=0, min_per_group=0, key_added="by_cell",
                random_state=0)  # fmt: skip
    assert cells.uns["by_cell"]["params"]["balance"] == 0
    with pytest.raises(InputError, match="balance=2 must be a number from 0 to 1"):
        ks.tl.panel(cells, 6, groupby="type", balance=2, random_state=0)


def test_a_group_without_genes_of_its_own_is_called_by_its_name():
    rng = np.random.default_rng(0)
    groups = np.repeat(["first", "nothing", "second"], 30)
    X = rng.gamma(1.0, size=(90, 12))
    X[groups == "first", :6] += 6
    X[groups == "second", 6:] += 6
    adata = anndata.AnnData(
        X, obs=pandas.DataFrame({"type": groups}, index=[f"c{i}" for i in range(90)])
    )
    with pytest.warns(
        UserWarning, match=r"1 groups have fewer genes .* min_per_group=1: 'nothing' \(0\)\."
    ):
        ks.tl.panel(adata, 4, groupby="type", random_state=0)
