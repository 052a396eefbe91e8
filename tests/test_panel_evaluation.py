"""Panels: scores on held-out cells that are honest, and pictures that show what they say."""

from __future__ import annotations

import os
import sys
import warnings
from typing import ClassVar

import numpy as np
import pandas
import pytest
import scipy.sparse as sp
from sklearn.feature_selection import f_classif
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from threadpoolctl import threadpool_info, threadpool_limits

import ksparse as ks
from conftest import ARRAY_KINDS, crossed, make_clusters, seeds
from ksparse.matrix.data import dense
from ksparse.panel import scoring, structure
from ksparse.panel.curve import panel_curve
from ksparse.panel.evaluation import PanelEvaluation, evaluate_panel
from ksparse.panel.rivals import choose_features
from ksparse.panel.selector import PanelSelector
from ksparse.search.judge import mean_and_error

FAST = {"n_random": 2, "random_state": 0}


class StandIn:
    """A selector with the interface of `PanelSelector`: the largest F statistics."""

    seen: ClassVar[list] = []
    states: ClassVar[list] = []

    def __init__(self, n_features, *, random_state=None):
        self.n_features = n_features
        self.random_state = random_state

    def fit(self, X, y):
        StandIn.seen.append(dense(X).copy())
        StandIn.states.append(self.random_state)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # constant features
            F = np.nan_to_num(f_classif(dense(X), y)[0])
        self.features_ = np.argsort(-F, kind="stable")[: self.n_features]
        return self


@pytest.fixture(autouse=True)
def stand_in(monkeypatch):
    """Whatever selector there is, these tests are about what is done with its features."""
    StandIn.seen, StandIn.states = [], []
    monkeypatch.setattr("ksparse.panel.rivals.PanelSelector", StandIn)


def same_tables(a, b):
    for name in ("scores", "recall", "genes"):
        pandas.testing.assert_frame_equal(getattr(a, name), getattr(b, name), rtol=1e-4, atol=1e-5)
    for name in a.confusion:
        pandas.testing.assert_frame_equal(a.confusion[name], b.confusion[name])
    assert a.neighbour_overlap == pytest.approx(b.neighbour_overlap, abs=0.01)
    assert a.mean_abs_correlation == pytest.approx(b.mean_abs_correlation, abs=1e-5)


# The figures ---------------------------------------------------------------------------------


def test_markers_are_good_and_random_features_are_not(clusters):
    X, y, markers = clusters
    result = evaluate_panel(X, y, markers, **FAST)
    assert isinstance(result, PanelEvaluation)
    score = result.scores.set_index(["method", "classifier"])
    for classifier in scoring.CLASSIFIERS:
        assert score.loc[("panel", classifier), "balanced_accuracy"] > 0.99
        assert score.loc[("ksparse", classifier), "balanced_accuracy"] > 0.95
        lead = score.loc[("random", classifier)]
        assert lead["balanced_accuracy"] < 0.99
        assert lead["difference"] == pytest.approx(
            score.loc[("panel", classifier), "balanced_accuracy"] - lead["balanced_accuracy"]
        )
        assert lead["sd"] > 0
        table = result.confusion[classifier]
        assert table.to_numpy().sum() == y.size
        assert table.sum(axis=1).tolist() == np.bincount(y).tolist()
        # The mean recall of the groups is the balanced accuracy.
        assert result.recall[classifier].mean() == pytest.approx(
            score.loc[("panel", classifier), "balanced_accuracy"]
        )
    assert result.recall["n_cells"].tolist() == np.bincount(y).tolist()
    assert result.chance_overlap < result.neighbour_overlap <= 1


def test_scores_are_those_of_scikit_learn(clusters):
    X, y, _ = clusters
    groups = scoring.read_groups(y, y.size)
    folds = scoring.make_folds(groups, 4, np.random.RandomState(0))
    chosen = np.array([0, 20, 7])
    scores = scoring.score_panel(X, groups, folds, [chosen])
    for i, (fitted, held_out) in enumerate(folds):
        mean, sd = X[fitted][:, chosen].mean(axis=0), X[fitted][:, chosen].std(axis=0)
        Z = (X[:, chosen] - mean) / sd
        distance = ((Z[held_out][:, None] - Z[fitted][None]) ** 2).sum(axis=2)
        votes = y[fitted][np.argsort(distance, axis=1)[:, :5]]
        predicted = [np.bincount(vote).argmax() for vote in votes]
        assert scores.recall["5nn"][i].mean() == pytest.approx(
            balanced_accuracy_score(y[held_out], predicted)
        )
    row = scoring.score_rows("panel", 3, [scores], folds)[1]
    by_fold = scores.recall["5nn"].mean(axis=1)
    ratio = scoring.held_out_ratio(folds)
    assert ratio == pytest.approx(1 / 3, abs=0.01)
    assert row["se"] == pytest.approx(by_fold.std(ddof=1) * np.sqrt(1 / 4 + ratio))


def test_the_error_allows_for_overlapping_training_samples():
    values = np.array([0.5, 0.6, 0.7, 0.8])
    assert mean_and_error(values)[1] == pytest.approx(values.std(ddof=1) * np.sqrt(1.25))
    assert mean_and_error(values, 1 / 3)[1] == pytest.approx(
        values.std(ddof=1) * np.sqrt(1 / 4 + 1 / 3)
    )


@pytest.mark.parametrize("seed", seeds(1, 5))
def test_noise_scores_as_chance_whoever_chose_the_features(seed):
    """Our own panel, too: it is chosen without the cells that are scored."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(120, 5_000))
    y = rng.permutation(np.repeat(np.arange(3), 40))
    chosen = rng.choice(5_000, 20, replace=False)
    result = evaluate_panel(X, y, chosen, random_state=seed)
    # Five folds may agree by chance: no error is below that of so many independent cells.
    least = np.sqrt((1 / 3) * (2 / 3) / 120)
    assert set(result.scores["method"]) == {"panel", "random", "ksparse"}
    for _, row in result.scores.iterrows():
        assert abs(row["balanced_accuracy"] - 1 / 3) < 3 * max(row["se"], least), dict(row)
    # What was chosen with all cells is too good, which is why `held_out` exists.
    best = StandIn(20).fit(X, y).features_
    biased = evaluate_panel(X, y, best, compare=False, n_random=0, random_state=seed)
    assert biased.scores["balanced_accuracy"].min() > 0.5
    half = rng.permutation(120) < 60
    best = StandIn(20).fit(X[~half], y[~half]).features_
    fair = evaluate_panel(
        X, y, best, held_out=half, compare=False, n_random=0, random_state=seed
    ).scores
    least = np.sqrt((1 / 3) * (2 / 3) / 60)
    assert (abs(fair["balanced_accuracy"] - 1 / 3) < 3 * np.maximum(fair["se"], least)).all()


@pytest.mark.parametrize("seed", seeds(1, 4))
def test_the_curve_of_noise_is_not_above_chance(seed):
    """It may be below: features that differ by chance in some cells differ less in the others."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(160, 1_000)), rng.permutation(np.repeat(np.arange(2), 80))
    curve = panel_curve(X, y, [5, 30], n_random=2, random_state=seed)
    least = np.sqrt(0.25 / 80)
    assert (curve["balanced_accuracy"] - 0.5 < 3 * np.maximum(curve["se"], least)).all()
    assert abs(curve["balanced_accuracy"].mean() - 0.5) < 3 * least


def test_our_panel_never_sees_the_cells_that_are_scored(clusters):
    X, y, markers = clusters
    result = evaluate_panel(X, y, markers, n_splits=3, n_random=0, random_state=0)
    assert [len(seen) for seen in StandIn.seen] == [60, 60, 60]
    rows = {row.tobytes(): i for i, row in enumerate(X)}
    fitted = [{rows[row.tobytes()] for row in seen} for seen in StandIn.seen]
    assert set.intersection(*fitted) == set()
    assert result.n_splits == 3
    assert all(isinstance(state, int) for state in StandIn.states)  # so that a seed decides
    StandIn.seen = []
    panel_curve(X, y, [3, 6], rivals=[], random_state=0)
    assert [len(seen) for seen in StandIn.seen] == [45]  # one path gives both sizes


def test_features_that_are_equal_in_the_groups_of_a_fold_are_no_news(monkeypatch):
    monkeypatch.setattr("ksparse.panel.rivals.PanelSelector", PanelSelector)
    X = np.zeros((60, 12))
    X[:, :3] = np.random.default_rng(0).normal(size=(60, 3))
    for j in range(3, 12):  # one sample of each group has it: equal means, if both are fitted
        X[[j, 30 + j], j] = 1.0
    y = np.repeat(["a", "b"], 30)
    result = evaluate_panel(X, y, np.arange(12), n_random=0, random_state=0)  # without a warning
    assert set(result.scores["method"]) == {"panel", "ksparse"}


def test_held_out_restricts_everything(clusters):
    X, y, markers = clusters
    mask = np.arange(y.size) % 3 == 0
    result = evaluate_panel(X, y, markers, held_out=mask, **FAST)
    alone = evaluate_panel(X[mask], y[mask], markers, **FAST)
    same_tables(result, alone)
    assert result.n_cells == mask.sum()


def test_redundancy_and_range_of_genes():
    rng = np.random.default_rng(0)
    X = np.abs(rng.normal(size=(60, 5)))
    y = np.repeat(["low", "high"], 30)
    X[30:, 0] += 2
    X[:, 1] = 3 * X[:, 0] + 0.01 * X[:, 1]  # repeats the first
    X[:40, 2] = 0
    X[:, 4] = 7  # constant
    result = evaluate_panel(X, y, [4, 2, 1, 0], compare=False, n_random=0, random_state=0)
    genes = result.genes.set_index("feature")
    assert genes["partner"].to_dict()[0] == 1
    assert genes["partner"].to_dict()[1] == 0
    assert genes.loc[4, "partner"] == -1
    assert np.isnan(genes.loc[4, "abs_correlation"])
    assert genes.loc[0, "abs_correlation"] == pytest.approx(abs(np.corrcoef(X.T[:2])[0, 1]))
    assert result.max_abs_correlation == genes["abs_correlation"].max()
    pairs = np.abs(np.corrcoef(X[:, [0, 1, 2]].T))[np.triu_indices(3, 1)]
    assert result.mean_abs_correlation == pytest.approx(pairs.mean())
    assert genes.loc[2, "detected"] == pytest.approx(1 / 3)
    assert genes.loc[0, "group"] == "high"
    assert genes.loc[0, "highest_mean"] == pytest.approx(X[30:, 0].mean())
    assert genes["max"].to_dict()[0] == X[:, 0].max()
    single = evaluate_panel(X, y, [0], compare=False, n_random=0, random_state=0)
    assert np.isnan(single.mean_abs_correlation)
    assert single.genes["partner"].tolist() == [-1]


def test_neighbours_of_all_features_are_all_kept(clusters, monkeypatch):
    X, _, _ = clusters
    rng = np.random.RandomState
    everything = structure.neighbour_overlap(X[:, :20], np.arange(20), 15, rng(0))
    assert everything == (1.0, 15 / 89)
    noise = np.random.default_rng(0).normal(size=(90, 40))
    noise[:, 0] = 1e-6 * np.arange(90)
    kept, chance = structure.neighbour_overlap(noise, np.array([0]), 15, rng(0))
    assert kept == pytest.approx(chance, abs=0.05)
    # Cells that the panel cannot tell apart have no neighbours in the order of the data.
    line = np.column_stack([np.arange(300.0), np.zeros(300)])
    kept, chance = structure.neighbour_overlap(line, np.array([1]), 15, rng(0))
    assert kept == pytest.approx(chance, abs=0.03)
    monkeypatch.setattr(structure, "MAX_CELLS", 50)
    assert structure.neighbour_overlap(X, np.arange(60), 15, rng(0))[1] == 15 / 49


def test_large_data_are_sampled_and_keep_rare_groups():
    y = np.repeat(np.arange(3), [9_000, 990, 10])
    groups = scoring.read_groups(y, y.size)
    some = scoring.sample_cells(groups, 1_000, np.random.RandomState(0))
    sizes = some.sizes
    assert sizes[2] == 10
    assert 1_000 <= sizes.sum() <= 1_060
    assert (np.diff(some.rows) > 0).all()
    np.testing.assert_array_equal(some.codes, y[some.rows])
    assert scoring.sample_cells(groups, None, np.random.RandomState(0)) is groups
    X = np.random.default_rng(0).normal(size=(y.size, 3))
    result = evaluate_panel(X, y, [0], compare=False, n_random=0, max_cells=200, random_state=0)
    assert result.n_cells == y.size
    assert result.recall["n_cells"].sum() < 300


# Data, seeds and groups ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("array_kind", "dtype"), crossed(list(ARRAY_KINDS), [np.float64, np.float32]),
    indirect=["array_kind"],
)  # fmt: skip
def test_every_kind_of_matrix_gives_the_same(array_kind, dtype):
    X, y, markers = make_clusters(1, zeros=0.5)
    X = np.abs(X).astype(dtype)
    few = {"n_random": 1, "n_splits": 2, "random_state": 0}
    same_tables(
        evaluate_panel(array_kind(X), y, markers, **few), evaluate_panel(X, y, markers, **few)
    )
    curve, expected = (panel_curve(data, y, [2, 5], **few) for data in (array_kind(X), X))
    pandas.testing.assert_frame_equal(curve, expected, rtol=1e-4)


def test_chunks_of_dask_give_the_same_and_are_checked(clusters):
    dask = pytest.importorskip("dask.array")
    X, y, markers = clusters
    options = {"compare": False, "n_random": 1, "random_state": 0}
    chunks = dask.from_array(X, chunks=(25, 60))
    same_tables(evaluate_panel(chunks, y, markers, **options),
                evaluate_panel(X, y, markers, **options))  # fmt: skip
    X = X.copy()
    X[3, 7] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        evaluate_panel(dask.from_array(X, chunks=(25, 60)), y, [0], **options)


@pytest.mark.parametrize("seed", seeds(1, 4))
def test_a_seed_determines_everything(seed):
    X, y, markers = make_clusters(seed, shift=1.0)
    first, again = (evaluate_panel(X, y, markers, random_state=seed) for _ in range(2))
    same_tables(first, again)
    assert first.neighbour_overlap == again.neighbour_overlap
    # What else is asked for does not change the scores of the panel.
    alone = evaluate_panel(X, y, markers, random_state=seed, n_random=0, compare=False)
    pandas.testing.assert_frame_equal(alone.recall, first.recall)
    other = evaluate_panel(X, y, markers, random_state=seed + 100)
    assert not other.scores.equals(first.scores)


def test_groups_that_are_too_small_are_named(clusters):
    X, y, markers = clusters
    y = y.astype(object)
    y[0], y[1:4], y[4] = "lonely", "three", None
    with (
        pytest.warns(UserWarning, match="1 groups with fewer than 2 cells.* 'lonely' \\(1\\)"),
        pytest.warns(UserWarning, match="1 of 90 cells have no group"),
        pytest.warns(UserWarning, match="group 'three' has 3 cells: n_splits=5 becomes 3"),
    ):
        result = evaluate_panel(X, y, markers, compare=False, **FAST)
    assert result.n_splits == 3
    assert result.n_cells == 88
    assert result.recall.index.tolist() == ["0", "1", "2", "three"]
    with (
        pytest.warns(UserWarning, match="2 groups with fewer than 4 cells.* 'three' \\(3\\)"),
        pytest.warns(UserWarning, match="have no group"),
    ):
        curve = panel_curve(X, y, [3], rivals=["random"], random_state=0)
    assert curve["chance"].unique().tolist() == [1 / 3]


def test_two_cells_of_two_groups_are_enough():
    X, y = np.array([[0.0, 1], [0.1, 1], [5, 1], [5.1, 2]]), ["a", "a", "b", "b"]
    with pytest.warns(UserWarning, match="n_splits=5 becomes 2"):
        result = evaluate_panel(X, y, [0, 1], random_state=0)
    assert result.n_splits == 2
    assert result.confusion["5nn"].to_numpy().sum() == 4


def test_categories_keep_their_order(clusters):
    X, y, markers = clusters
    names = np.array(["late", "early", "middle"])
    order = ["early", "middle", "late", "nobody"]
    groups = pandas.Categorical(names[y], categories=order)
    result = evaluate_panel(X, groups, markers, compare=False, **FAST)
    assert result.recall.index.tolist() == order[:3]
    assert result.confusion["logistic"].columns.tolist() == order[:3]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": []}, "features is empty"),
        ({"features": [1, 2, 1]}, "features contains 1 more than once"),
        ({"features": [60]}, "features contains 60, but X has 60 features"),
        ({"features": [-1]}, "features contains -1"),
        ({"features": ["CD3E"]}, "features must be a list of indices"),
        ({"features": [0.5]}, "features must be a list of indices"),
        ({"features": [True, False]}, "features must be a list of indices"),
        ({"y": np.zeros(90)}, "There are 1 groups with at least 2 cells"),
        ({"y": [None] * 90}, "There are 0 groups with at least 2 cells"),
        ({"y": np.zeros(7)}, "y has shape .7,., but X has 90 samples"),
        ({"held_out": np.arange(90)}, "held_out must be True or False"),
        ({"held_out": np.ones(3, dtype=bool)}, "held_out must be True or False"),
        ({"n_splits": 1}, "n_splits=1 must be at least 2"),
        ({"n_random": -1}, "n_random=-1 must be at least 0"),
        ({"max_cells": 0}, "max_cells=0 must be at least 1"),
        ({"compare": "no"}, "compare='no' must be True or False"),
        ({"random_state": -1}, "random_state=-1 must be"),
        ({"X": np.full((90, 60), np.nan)}, "NaN"),
        ({"X": np.ones((90, 60)), "n_random": 1}, "All 60 features are constant"),
    ],
)
def test_bad_input_is_refused(clusters, change, message):
    X, y, _ = clusters
    given = {"X": X, "y": y, "features": [0, 1], "n_random": 0, "compare": False} | change
    with warnings.catch_warnings(), pytest.raises(ValueError, match=message):
        warnings.simplefilter("ignore")
        evaluate_panel(given.pop("X"), given.pop("y"), given.pop("features"), **given)


# The curve and its rivals --------------------------------------------------------------------


def test_the_curve_has_every_method_size_and_classifier(clusters):
    pytest.importorskip("scanpy")
    X, y, _ = clusters
    rivals = ("wilcoxon", "hvg", "random")
    curve = panel_curve(X, y, [9, 3, 9], rivals=rivals, n_random=3, random_state=0)
    assert curve[["method", "n_genes", "classifier"]].value_counts().tolist() == [1] * 16
    assert set(curve["method"]) == {"ksparse", *rivals}
    assert sorted(set(curve["n_genes"])) == [3, 9]
    best = curve.set_index(["method", "n_genes", "classifier"])["balanced_accuracy"]
    assert best["ksparse", 9, "logistic"] > 0.9
    assert best["wilcoxon", 9, "logistic"] > 0.9
    assert best["random", 3, "logistic"] < best["wilcoxon", 3, "logistic"]


def test_rivals_choose_as_they_say(clusters):
    pytest.importorskip("scanpy")
    X, y, markers = clusters
    rng = np.random.RandomState(0)
    chosen = choose_features("wilcoxon", X, y, 6, rng)
    assert markers[chosen].all()
    assert (chosen // 5).tolist() == [0, 1, 2, 0, 1, 2]  # one of each group in turn
    np.testing.assert_array_equal(choose_features("wilcoxon", sp.csr_array(X), y, 6, rng), chosen)
    assert sorted(choose_features("wilcoxon", X, y, 60, rng)) == list(range(60))
    chosen = choose_features("hvg", X, y, 4, rng)
    np.testing.assert_array_equal(chosen, np.argsort(-X.var(axis=0))[:4])
    X = X.copy()
    X[:, 30:] = 1.0  # constant
    assert sorted(choose_features("random", X, y, 60, rng)) == list(range(30))


def test_bad_curves_are_refused(clusters, monkeypatch):
    X, y, _ = clusters
    for counts, options, message in [
        ([], {}, "n_genes is empty"),
        ([0], {}, "n_genes=0 must be at least 1"),
        (5, {}, "n_genes=5 must be a sequence"),
        ([70], {}, "n_genes=70 is more than the 60 features"),
        ([5], {"rivals": ["anova"]}, "rivals contains 'anova', which is unknown"),
        ([5], {"rivals": [], "ours": False}, "rivals is empty"),
    ]:
        with pytest.raises(ValueError, match=message):
            panel_curve(X, y, counts, **options)
    monkeypatch.setitem(sys.modules, "scanpy", None)
    with pytest.raises(ImportError, match=r"needs scanpy: .*ksparse\[anndata\]"):
        panel_curve(X, y, [5], rivals="wilcoxon", random_state=0)


# AnnData -------------------------------------------------------------------------------------

TL = {"normalize": "log1p", "random_state": 0}


@pytest.fixture(scope="module")
def evaluated(simulated):
    """Counts with an evaluation, a curve, and groups with a slash in their names."""
    adata = simulated.copy()
    adata.obs["type"] = ("CD4+/CD" + adata.obs["label"].astype(str)).astype("category")
    genes = list(adata.var_names[[5, 3, 100]])
    ks.tl.evaluate_panel(adata, genes, "type", compare=False, n_random=2, **TL)
    ks.tl.panel_curve(adata, "type", n_genes=[3, 9], ours=False, rivals=["hvg", "random"], **TL)
    return adata


def test_the_tool_agrees_with_the_function(simulated, evaluated):
    from ksparse.normalise import log_normalise

    result = evaluate_panel(log_normalise(simulated.X), evaluated.obs["type"], [5, 3, 100],
                            compare=False, n_random=2, random_state=0)  # fmt: skip
    stored = evaluated.uns["panel_evaluation"]
    np.testing.assert_allclose(
        stored["scores"]["balanced_accuracy"], result.scores["balanced_accuracy"]
    )
    names = simulated.var_names
    assert stored["genes"].index.tolist() == names[[5, 3, 100]].tolist()
    assert stored["genes"]["partner"].tolist() == names[result.genes["partner"]].tolist()
    for classifier, table in result.confusion.items():
        part = stored["confusion"][stored["confusion"]["classifier"] == classifier]
        again = part.pivot(index="group", columns="predicted", values="n_cells")
        np.testing.assert_array_equal(again, table)
    assert stored["summary"]["neighbour_overlap"] == result.neighbour_overlap
    assert stored["params"] == {"groupby": "type", "normalized": "log1p", "held_out": "no"}


def test_results_survive_a_file(evaluated, tmp_path):
    import anndata

    evaluated.write_h5ad(tmp_path / "a.h5ad")
    again = anndata.read_h5ad(tmp_path / "a.h5ad").uns
    for name, table in evaluated.uns["panel_evaluation"].items():
        read = again["panel_evaluation"][name]
        if isinstance(table, dict):
            assert {key: pytest.approx(value) for key, value in table.items()} == dict(read)
        else:
            pandas.testing.assert_frame_equal(table, read, check_dtype=False)
    pandas.testing.assert_frame_equal(
        evaluated.uns["panel_curve"], again["panel_curve"], check_dtype=False
    )


def test_a_copy_leaves_the_original(simulated):
    before = simulated.copy()
    mask = np.arange(300) < 50
    half = np.arange(240) < 120
    kept = ks.tl.evaluate_panel(
        simulated, [simulated.var_names[200]], "label", mask_var=mask, held_out=half,
        key_added="mine", copy=True, **TL,
    )  # fmt: skip
    assert kept.uns["mine"]["summary"]["n_cells"] == 120
    assert kept.uns["mine"]["genes"].index.tolist() == [simulated.var_names[200]]
    assert simulated.uns.keys() == before.uns.keys()


def test_columns_can_name_genes_and_cells(simulated):
    adata = simulated.copy()
    adata.var["panel"] = np.arange(300) < 6
    adata.obs["test"] = np.arange(240) % 2 == 0
    options = {"compare": False, "n_random": 0, **TL}
    ks.tl.evaluate_panel(adata, "panel", "label", held_out="test", **options)
    stored = adata.uns["panel_evaluation"]
    assert stored["genes"].index.tolist() == adata.var_names[:6].tolist()
    assert stored["summary"]["n_cells"] == 120


def test_cells_without_a_label_are_counted(simulated, pyplot):
    adata = simulated.copy()
    adata.obs["label"] = adata.obs["label"].astype(object)
    adata.obs.iloc[:7, adata.obs.columns.get_loc("label")] = np.nan
    genes = adata.var_names[:5]
    with pytest.warns(UserWarning, match="7 of 240 cells have no group"):
        ks.tl.evaluate_panel(adata, genes, "label", compare=False, n_random=0, **TL)
    with pytest.warns(UserWarning, match="7 of 240 cells have no label"):
        ks.pl.panel(adata, "label", genes=genes, normalize="log1p")


def test_data_in_a_file_give_the_same(evaluated, tmp_path):
    import anndata

    evaluated.write_h5ad(tmp_path / "a.h5ad")
    backed = anndata.read_h5ad(tmp_path / "a.h5ad", backed="r")
    genes = list(backed.var_names[[5, 3, 100]])
    ks.tl.evaluate_panel(backed, genes, "type", key_added="again", compare=False, n_random=2, **TL)
    for name in ("scores", "recall", "genes"):
        pandas.testing.assert_frame_equal(
            backed.uns["again"][name], evaluated.uns["panel_evaluation"][name], rtol=1e-4
        )
    backed.file.close()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"genes": ["gene_1", "CD3E", "CD4"]},
            "2 of the 3 names in genes are not in .*: 'CD3E', 'CD4'",
        ),
        ({"genes": ["gene_1", "gene_1"]}, "genes has 1 repeated names .the first is 'gene_1'"),
        ({"genes": []}, "genes is empty"),
        ({"genes": "gene_1"}, "genes='gene_1' must be a list of names of genes"),
        ({"groupby": "kind"}, "groupby='kind' is not a column of adata.obs"),
        ({"groupby": "number"}, "groupby='number' has 240 different values"),
        ({"groupby": "nothing"}, "groupby='nothing' is missing for all 240 cells"),
        ({"held_out": "kind"}, "held_out='kind' is not a column"),
        ({"held_out": "number"}, "held_out must be True or False"),
        ({"key_added": "a/b"}, "key_added='a/b' must be a name without '/'"),
        ({"layer": "counts"}, "layer='counts' is not in adata.layers"),
    ],
)
def test_bad_arguments_of_the_tool(simulated, change, message):
    adata = simulated.copy()
    adata.obs["number"], adata.obs["nothing"] = np.arange(240.0), np.nan
    given = {"genes": ["gene_1", "gene_2"], "groupby": "label"} | TL | change
    with pytest.raises(ValueError, match=message):
        ks.tl.evaluate_panel(adata, given.pop("genes"), given.pop("groupby"), **given)
    assert "panel_evaluation" not in adata.uns


def test_results_of_clusters_are_not_overwritten(clustered):
    with pytest.raises(ValueError, match="key_added='ksparse' holds a result"):
        ks.tl.panel_curve(clustered, "label", key_added="ksparse")


# Pictures ------------------------------------------------------------------------------------


@pytest.fixture
def pyplot():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    yield pyplot
    pyplot.close("all")


def texts(labels):
    return [label.get_text() for label in labels]


def test_the_diagonal_is_visible(simulated, pyplot, tmp_path):
    adata = simulated.copy()
    adata.var["panel"] = np.arange(300) % 25 == 3
    _, (left, right) = pyplot.subplots(1, 2)
    path = tmp_path / "panel.png"
    ax = ks.pl.panel(adata, "label", normalize="log1p", ax=right, save=path)
    assert ax is right
    assert not left.has_data()
    assert path.read_bytes()[:4] == b"\x89PNG"
    names = texts(ax.get_xticklabels())
    assert sorted(names) == sorted(adata.var_names[adata.var["panel"]])
    from ksparse.normalise import log_normalise

    X = pandas.DataFrame(log_normalise(simulated.X).toarray(), columns=adata.var_names)
    mean = X.groupby(np.asarray(adata.obs["label"])).mean()
    marked = mean[names].to_numpy().argmax(axis=0)
    assert (np.diff(marked) >= 0).all()
    dots = ax.collections[0]
    colours = np.asarray(dots.get_array()).reshape(mean.shape[0], -1)
    assert (colours[marked, np.arange(len(names))] == 1).all()
    share = (X[names] > 0).groupby(np.asarray(adata.obs["label"])).mean().to_numpy()
    np.testing.assert_allclose(dots.get_sizes().reshape(share.shape), 2 + 110 * share, rtol=1e-5)
    assert texts(ax.get_legend().get_texts()) == ["25%", "50%", "100%"]


def test_groups_can_be_recorded_with_the_panel(simulated, pyplot):
    adata = simulated.copy()
    adata.var["panel"] = np.arange(300) < 4
    with pytest.raises(ValueError, match="groupby is not recorded with the panel"):
        ks.pl.panel(adata)
    adata.uns["panel"] = {"params": {"groupby": "label", "normalize": "log1p"}}
    assert ks.pl.panel(adata).get_ylabel() == "label"
    with pytest.raises(ValueError, match="genes='other' must be a list"):
        ks.pl.panel(adata, key="other", groupby="label")


@pytest.mark.parametrize(("n_genes", "n_groups"), [(1, 2), (3, 20), (50, 5)])
def test_labels_do_not_overlap(simulated, pyplot, n_genes, n_groups):
    adata = simulated.copy()
    name = "a population of cells with a very long name, $number$ {}"
    adata.obs["type"] = [name.format(i % n_groups) for i in range(adata.n_obs)]
    ax = ks.pl.panel(adata, "type", genes=adata.var_names[:n_genes], normalize="log1p")
    ax.figure.canvas.draw()
    assert len(set(texts(ax.get_yticklabels()))) == n_groups
    for labels in (ax.get_xticklabels(), ax.get_yticklabels()):
        boxes = [label.get_window_extent() for label in labels]
        assert not [a for i, a in enumerate(boxes) for b in boxes[i + 1 :] if a.overlaps(b)]


def test_the_curve_is_drawn_from_a_table_or_an_object(evaluated, pyplot, tmp_path):
    table = evaluated.uns["panel_curve"]
    for given in (evaluated, table):
        axes = ks.pl.panel_curve(given, save=tmp_path / "curve.pdf")
        assert (tmp_path / "curve.pdf").read_bytes()[:4] == b"%PDF"
        assert [ax.get_title() for ax in axes] == ["logistic regression", "5 nearest neighbours"]
        assert texts(axes[-1].get_legend().get_texts()) == ["variance", "random", "chance"]
        for ax, classifier in zip(axes, ["logistic", "5nn"], strict=True):
            lines = [bar[0] for bar in ax.containers]
            wanted = table[table["classifier"] == classifier]["balanced_accuracy"]
            drawn = np.concatenate([line.get_ydata() for line in lines]).astype(float)
            np.testing.assert_allclose(drawn, wanted)
            assert texts(ax.get_xticklabels()) == ["3", "9"]
    other = table.drop(columns="chance")[table["classifier"] == "5nn"].replace("hvg", "new_method")
    _, ax = pyplot.subplots()
    axes = ks.pl.panel_curve(other, ax=ax)
    assert axes[0] is ax
    assert texts(ax.get_legend().get_texts()) == ["random", "new_method"]


def test_tables_that_are_no_curve_are_refused(simulated, evaluated, pyplot):
    table = evaluated.uns["panel_curve"]
    for given, message in [
        (simulated, "adata.uns.'panel_curve'. holds no curve: run ksparse.tl.panel_curve first"),
        (table.drop(columns="se"), "The curve has no column 'se'"),
        (table.iloc[:0], "The curve has no rows"),
        (table.assign(n_genes="many"), "column 'n_genes' of the curve must hold numbers"),
        (7, "must be an AnnData object"),
    ]:
        with pytest.raises(ValueError, match=message):
            ks.pl.panel_curve(given)
    with pytest.raises(ValueError, match="must end with one of"):
        ks.pl.panel_curve(table, save="curve.txt")


def test_a_curve_scores_the_cells_that_are_held_out(clusters):
    X, y, _ = clusters
    mask = np.random.default_rng(0).random(y.size) < 0.5
    panel_curve(X, y, [3], held_out=mask, rivals=[], random_state=0)
    np.testing.assert_array_equal(StandIn.seen[0], X[~mask])


@pytest.mark.skipif(os.cpu_count() == 1, reason="there is one thread anyway")
def test_small_fits_use_one_thread_of_blas(clusters, monkeypatch):
    """On a busy machine they would wait for the second one, and take many times as long."""
    seen = []

    def counted(original):
        def fit(self, *args, **options):
            seen.append(max(lib["num_threads"] for lib in threadpool_info()
                            if lib["user_api"] == "blas"))  # fmt: skip
            return original(self, *args, **options)

        return fit

    monkeypatch.setattr(LogisticRegression, "fit", counted(LogisticRegression.fit))
    X, y, _ = clusters
    with threadpool_limits(2, user_api="blas"):
        evaluate_panel(X, y, np.arange(6), **FAST)
    assert seen and set(seen) == {1}
