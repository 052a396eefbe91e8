"""Gates: the few features that mark each group, found by an exhaustive search."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pandas
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import ksparse as ks
from conftest import ARRAY_KINDS, crossed, examples, seeds, thorough_params
from ksparse._errors import InputError, InputWarning
from ksparse.panel import gates as gates_module
from ksparse.panel._bits import best_conjunctions, pack
from ksparse.panel._cuts import find_cuts
from ksparse.panel._training import f_influence, halve
from ksparse.panel.gates import Gate, Gates, find_gates

NO_GATE = "ignore:.*no gate that is better"


def planted(seed=0, n=300, n_features=8):
    """Three groups: a is feature 0 without feature 1, b both, c neither; the rest is noise."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat(["a", "b", "c"], n // 3))
    X = rng.poisson(0.05, size=(y.size, n_features)) * rng.gamma(4, 0.1, size=(y.size, n_features))
    X[y != "c", 0] += 2 + rng.random((y != "c").sum())
    X[y == "b", 1] += 2 + rng.random((y == "b").sum())
    return X, y


# The search ---------------------------------------------------------------------------------


def brute_force(flags, features, n_members, beta, max_length):
    """The best conjunction of at most so many conditions, by trying all, with Python's booleans."""
    best, best_key = None, None
    for length in range(1, max_length + 1):
        for chosen in itertools.combinations(range(len(flags)), length):
            if len({features[c] for c in chosen}) < length:
                continue
            inside = [all(flags[c][i] for c in chosen) for i in range(len(flags[0]))]
            tp, fp = sum(inside[:n_members]), sum(inside[n_members:])
            if tp:
                value = tp / (beta**2 * n_members + tp + fp)
                key = (value, -length, tp / (tp + fp), [-c for c in chosen])
                if best_key is None or key > best_key:
                    best, best_key = (chosen, tp, fp), key
    return best


@settings(max_examples=examples(25, 150), deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n_members=st.integers(1, 40),
    n_others=st.integers(1, 100),
    n_conditions=st.integers(1, 9),
    beta=st.sampled_from([0.5, 1.0, 2.0]),
    max_length=st.integers(1, 4),
)
def test_the_search_is_exhaustive(seed, n_members, n_others, n_conditions, beta, max_length):
    rng = np.random.default_rng(seed)
    share = np.hstack([  # members fulfil conditions more often, so that long gates are better
        np.tile(rng.uniform(0.5, 1, size=(n_conditions, 1)), n_members),
        np.tile(rng.uniform(0.1, 0.8, size=(n_conditions, 1)), n_others),
    ])  # fmt: skip
    flags = rng.random(share.shape) < share
    features = rng.integers(0, 6, n_conditions)
    found = best_conjunctions(pack(flags[:, :n_members]), pack(flags[:, n_members:]), features,
                              n_members, beta=beta, max_length=max_length)  # fmt: skip
    expected = brute_force(flags.tolist(), features.tolist(), n_members, beta, max_length)
    if expected is None:
        assert found == []
    else:
        assert len(found) == max_length
        assert tuple(found[-1]) == expected


def conjunction(rows, features, n_members, max_length):
    flags = np.array([[letter == "1" for letter in row] for row in rows])
    members, others, features = (
        pack(flags[:, :n_members]), pack(flags[:, n_members:]), np.array(features))  # fmt: skip
    return best_conjunctions(members, others, features, n_members, beta=1.0, max_length=max_length)[
        -1
    ]


def test_a_conjunction_uses_a_feature_once():
    rows = ["1111 110000", "1111 001100", "1111 101110"]
    rows = [row.replace(" ", "") for row in rows]
    assert conjunction(rows, [0, 1, 2], 4, 2).conditions == (0, 1)
    assert conjunction(rows, [0, 0, 1], 4, 2).conditions == (0, 2)
    assert conjunction(rows, [0, 0, 0], 4, 3).conditions == (0,)


def test_ties_go_to_few_conditions_then_to_precision_then_to_the_first():
    # F is 2 TP / (4 + TP + FP): 2/3 for 3 of 4 with 2 others, and for 2 of 4 with none.
    wide, narrow = "1110" + "110000", "1100" + "000000"
    assert conjunction([wide, narrow], [0, 1], 4, 1).conditions == (1,)
    assert conjunction([narrow, wide, narrow], [0, 1, 2], 4, 1).conditions == (0,)
    assert conjunction([wide, narrow], [0, 1], 4, 2).conditions == (1,)
    # 3 of 4 with 2 others from the first two, 2 of 4 with none from the last two.
    rows = ["1110" + "111100", "1110" + "110011", "1100" + "111100", "1100" + "000011"]
    assert conjunction(rows, [0, 1, 2, 3], 4, 2).conditions == (0, 3)


@pytest.mark.parametrize("seed", seeds(2, 8))
def test_the_search_is_exhaustive_with_many_words_and_similar_conditions(seed):
    rng = np.random.default_rng(seed)
    n, n_members, n_conditions = 700, 90, 24
    score = rng.normal(size=(n_conditions, n))
    score[:, :n_members] += rng.uniform(0, 1, size=(n_conditions, 1))
    flags = score > rng.uniform(-1.5, 0.5, size=(n_conditions, 1))
    members, others = pack(flags[:, :n_members]), pack(flags[:, n_members:])
    features = np.arange(n_conditions)
    found = best_conjunctions(members, others, features, n_members, beta=1.0, max_length=4)
    for length in range(1, 5):
        values = []
        for chosen in itertools.combinations(range(n_conditions), length):
            inside = flags[list(chosen)].all(axis=0)
            values.append(2 * inside[:n_members].sum() / (n_members + inside.sum()))
        _, tp, fp = found[length - 1]
        assert 2 * tp / (n_members + tp + fp) == max(values)


@pytest.mark.parametrize("seed", seeds(2, 10))
@pytest.mark.filterwarnings(NO_GATE)
def test_no_gate_of_these_thresholds_is_better_on_the_training_half(seed, monkeypatch):
    """From data to the gate, with the number of genes given: all thresholds, signs, features."""
    monkeypatch.setattr("ksparse.panel._training._shortest", lambda *_: 3)
    rng = np.random.default_rng(seed)
    X, y = rng.poisson(1.0, size=(120, 5)).astype(float), rng.integers(0, 3, 120)
    gates = find_gates(X, y, random_state=seed)
    rows, _ = halve(y, 3, np.random.RandomState(seed), 20_000)
    X, y = X[rows], y[rows]
    cuts = find_cuts(X, y, np.bincount(y), 1.0)
    for group, gate in enumerate(gates.gates):
        conditions = cuts.conditions(group, range(5))
        flags = [X[:, c.feature] > c.threshold if c.sign == "+" else X[:, c.feature] <= c.threshold
                 for c in conditions]  # fmt: skip
        order = np.argsort(y != group, kind="stable")
        features = [c.feature for c in conditions]
        best = brute_force([f[order].tolist() for f in flags], features, (y == group).sum(), 1.0, 3)
        _, tp, fp = best
        assert gate.F_training == pytest.approx(2 * tp / ((y == group).sum() + tp + fp), abs=1e-12)


def test_thresholds_are_the_best_cuts():
    x = np.array([0.0, 0, 0, 0.2, 1, 1, 3, 4, 5, 6])
    codes = np.array([1, 1, 1, 0, 1, 1, 0, 0, 0, 0])
    cuts = find_cuts(x[:, None], codes, np.bincount(codes), 1.0)
    assert cuts.thresholds[0, 0, 0].tolist() == [2.0, 2.0]  # between 1 and 3
    assert cuts.values[0, 0] == pytest.approx(2 * 4 / (5 + 4))
    assert cuts.thresholds[0, 1, 1].tolist() == [2.0, 2.0]
    detected = find_cuts((x[:, None] > 0) * 0.7, (x > 0).astype(int), np.array([3, 7]), 1.0)
    assert detected.thresholds[0, 1, 0].tolist() == [0.0, 0.0]
    assert detected.thresholds[0, 0, 1].tolist() == [0.0, 0.0]
    assert np.isnan(detected.thresholds[0, 0, 0]).all()  # nowhere is the first group higher


def test_cuts_between_neighbouring_numbers_separate_them():
    x = np.array([1.0, np.nextafter(1.0, 2)]).repeat(3)
    cuts = find_cuts(x[:, None], np.array([0, 0, 0, 1, 1, 1]), np.array([3, 3]), 1.0)
    assert (x > cuts.thresholds[0, 1, 0, 0]).tolist() == [False] * 3 + [True] * 3


# Gates --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", seeds(1, 3))
@pytest.mark.parametrize(
    ("array_kind", "dtype"),
    crossed(list(ARRAY_KINDS), [np.float32, np.float64]),
    indirect=["array_kind"],
)
def test_planted_gates_are_found(array_kind, dtype, seed):
    X, y = planted(seed)
    gates = find_gates(array_kind(X.astype(dtype)), y, names=list("ABCDEFGH"), random_state=seed)
    table = gates.table
    assert table["gate"].tolist() == ["A+ B-", "B+", "A-"]
    assert table.index.tolist() == gates.groups == ["a", "b", "c"]
    assert (table[["precision", "recall", "F"]] > 0.95).all().all()
    assert table["n_genes"].tolist() == [2, 1, 1]
    assert table["n_cells"].tolist() == table["n_training"].tolist() == [50, 50, 50]
    inside = gates.inside(array_kind(X.astype(dtype)))
    assert inside.shape == (300, 3)
    assert (inside.argmax(axis=1) == np.unique(y, return_inverse=True)[1]).mean() > 0.97
    same = find_gates(X.astype(dtype), y, names=list("ABCDEFGH"), random_state=seed)
    assert same == gates
    assert "A+ B-" in str(gates)


def test_scores_are_those_of_the_held_out_half():
    X, y = planted(3)
    X[:, :2] += np.random.default_rng(0).normal(size=(300, 2)) * 1.2
    gates = find_gates(X, y, random_state=5)
    codes = np.unique(y, return_inverse=True)[1]
    first, second = halve(codes, 3, np.random.RandomState(5), 20_000)
    inside = gates.inside(X)
    assert set(first) | set(second) == set(range(300)) and not set(first) & set(second)
    for g, gate in enumerate(gates.gates):
        hits = (inside[second, g] & (codes[second] == g)).sum()
        assert gate.precision == hits / inside[second, g].sum()
        assert gate.recall == hits / 50
        value = 2 / (1 / gate.precision + 1 / gate.recall)
        assert abs(gate.F - value) < 1e-12
        assert 0 < gate.F_se < 0.1


def test_the_held_out_half_has_no_part_in_the_gates():
    X, y = planted(1)
    gates = find_gates(X, y, random_state=0)
    _, second = halve(np.unique(y, return_inverse=True)[1], 3, np.random.RandomState(0), 20_000)
    X[second] = np.random.default_rng(0).permutation(X[second])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        changed = find_gates(X, y, random_state=0)
    for gate, other in zip(gates.gates, changed.gates, strict=True):
        assert (gate.genes, gate.signs, gate.thresholds) == (
            other.genes, other.signs, other.thresholds)  # fmt: skip
        assert gate.F_training == other.F_training
        assert other.F < gate.F - 0.2


@pytest.mark.parametrize("seed", seeds(2, 6))
@pytest.mark.filterwarnings(NO_GATE)
def test_noise_has_honest_scores(seed, monkeypatch):
    """As long as they can be, gates of noise look good where they were found, and only there."""
    monkeypatch.setattr("ksparse.panel._training._shortest", lambda *_: 3)
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(200, 100)), np.repeat([0, 1, 2, 3], 50)
    gates = find_gates(X, y, random_state=seed)
    table = gates.table
    assert table["F_training"].min() > 0.55
    _, second = halve(y, 4, np.random.RandomState(seed), 20_000)
    n_inside = gates.inside(X)[second].sum(axis=0)
    assert n_inside.min() > 0
    error = np.sqrt(0.25 * 0.75 / n_inside)
    assert (table["precision"] - 0.25 <= 3 * error).all()
    assert abs(table["precision"].mean() - 0.25) <= 3 * np.sqrt((error**2).sum()) / 4
    assert table["F"].mean() < table["F_training"].mean() - 0.2


@pytest.mark.parametrize("seed", seeds(2, 6))
@pytest.mark.filterwarnings(NO_GATE)
def test_gates_of_noise_are_short(seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 4, 400)
    table = find_gates(rng.normal(size=(400, 30)), y, max_genes=4, random_state=seed).table
    assert table["n_genes"].mean() <= 2


def test_groups_without_a_good_gate_are_named():
    X, y = planted(0)
    rng = np.random.default_rng(0)
    y = np.where(rng.random(300) < 0.2, "any", y)
    with pytest.warns(InputWarning, match=r"1 of 4 groups have no gate that is better.*: any\."):
        find_gates(X[:, :2], y, random_state=0)


def test_the_seed_decides():
    X, y = planted(0)
    X += np.random.default_rng(0).normal(size=X.shape)
    assert find_gates(X, y, random_state=1) == find_gates(X, y, random_state=1)
    assert find_gates(X, y, random_state=1) != find_gates(X, y, random_state=2)
    assert find_gates(X, y, random_state=np.random.RandomState(1)) == find_gates(
        X, y, random_state=1
    )


@pytest.mark.filterwarnings(NO_GATE)
def test_beta_weighs_recall():
    X, y = planted(0, n=600)
    X[:, :2] += np.random.default_rng(0).normal(size=(600, 2)) * 2
    recalls, precisions = [], []
    for beta in (0.25, 1.0, 4.0):
        table = find_gates(X, y, beta=beta, random_state=0).table
        recalls.append(table["recall"].mean())
        precisions.append(table["precision"].mean())
        assert (table["beta"] == beta).all()
    assert recalls == sorted(recalls)
    assert precisions == sorted(precisions, reverse=True)


def test_small_groups_are_named_and_have_no_gate():
    X, y = planted(0)
    y = y.astype(object)
    y[:3], y[3] = "three", "one"
    with pytest.warns(
        InputWarning, match=r"2 of 5 groups have fewer than 4.*one \(1\), three \(3\)"
    ):
        gates = find_gates(X, y, random_state=0)
    row = gates.table.loc["three"]
    assert row["gate"] == "" and row["n_genes"] == 0
    assert np.isnan(row["F"]) and np.isnan(row["precision"])
    assert not gates.inside(X)[:, gates.groups.index("three")].any()
    y[:4] = "four"  # can be halved, and are marked
    X[:4, 5] = 9
    four = find_gates(X, y, max_genes=2, random_state=0)
    assert four.table.loc["four", "n_cells"] == 2


def test_data_that_are_all_zero_have_no_gates():
    with pytest.warns(InputWarning, match="2 of 2 groups have no gate"):
        gates = find_gates(np.zeros((40, 3)), np.arange(40) % 2, random_state=0)
    assert gates.table["gate"].tolist() == ["", ""]
    assert gates.table["F"].isna().all()
    assert not gates.inside(np.zeros((5, 3))).any()


def test_missing_groups_are_left_out_with_a_warning():
    X, y = planted(0)
    kept = np.arange(300) >= 7
    for missing in (None, np.nan, pandas.NA):
        labels = y.astype(object)
        labels[:7] = missing
        with pytest.warns(InputWarning, match="7 of 300 samples have no group, and are left out"):
            gates = find_gates(X, labels, random_state=0)
        assert gates == find_gates(X[kept], y[kept], random_state=0)
    numbers = np.unique(y, return_inverse=True)[1].astype(float)
    numbers[:7] = np.nan
    with pytest.warns(InputWarning, match="7 of 300"):
        assert find_gates(X, numbers, random_state=0).groups == ["0.0", "1.0", "2.0"]


def test_large_data_are_found_on_a_part_and_scored_on_all_others(monkeypatch):
    monkeypatch.setattr(gates_module, "MAX_TRAINING", 60)
    X, y = planted(0)
    y = y.astype(object)
    rare = np.flatnonzero(y == "a")[:5]
    y[rare], X[rare, 5] = "rare", 9
    gates = find_gates(X, y, random_state=0, max_genes=2)
    table = gates.table
    assert table["n_training"].tolist() == [19, 20, 20, 2]
    assert (table["n_training"] + table["n_cells"]).tolist() == [95, 100, 100, 5]


def test_candidates_include_what_marks_a_group_only_together_with_another():
    """Of 600 features, A is best for a, and B, without which it is not pure, is bad alone."""
    X, y = planted(0, n=600, n_features=600)
    gates = find_gates(sp.csr_matrix(X), y, n_candidates=4, random_state=0)
    assert gates.table["gate"].tolist() == ["0+ 1-", "1+", "0-"]
    every = find_gates(X[:, :100], y, random_state=0)
    assert every.table["gate"].tolist() == ["0+ 1-", "1+", "0-"]
    one = find_gates(X, y, n_candidates=1, max_genes=1, random_state=0)
    assert one.table["n_genes"].tolist() == [1, 1, 1]


def test_names_are_those_of_a_data_frame():
    X, y = planted(0)
    frame = pandas.DataFrame(X, columns=[f"gene{i}" for i in range(8)])
    gates = find_gates(frame, y, random_state=0)
    assert gates.table.loc["a", "gate"] == "gene0+ gene1-"
    assert gates.table.loc["a", "genes"] == ("gene0", "gene1")
    assert gates.table.loc["a", "signs"] == "+-"
    assert (gates.inside(frame) == gates.inside(X)).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_genes": 5}, "max_genes=5 must be at most 4"),
        ({"max_genes": 0}, "max_genes=0 must be at least 1"),
        ({"max_genes": -2}, "max_genes=-2 must be at least 1"),
        ({"max_genes": 1.5}, "max_genes=1.5 must be an integer"),
        ({"beta": 0}, "beta=0 must be"),
        ({"beta": np.inf}, "beta=inf must be"),
        ({"n_candidates": 0}, "n_candidates=0 must be at least 1"),
        ({"names": ["a"] * 8}, "names has 7 repeated names .the first is 'a'"),
        ({"names": ["a"]}, "names has 1 names, but X has 8 features"),
        ({"names": "abcdefgh"}, "names='abcdefgh' must be a sequence"),
        ({"random_state": "x"}, "random_state"),
        ({"y": ["one"] * 300}, "y has 1 group, which should be >= 2"),
        ({"y": [None] * 300}, "y has 0 groups, which should be >= 2"),
        ({"y": ["a", "b"]}, "y has shape .2,., but X has 300 samples"),
        ({"X": np.full((300, 8), np.nan)}, "NaN"),
        ({"X": np.zeros((300, 201))}, "X has 201 features, more than the 200"),
    ],
)
@pytest.mark.filterwarnings("ignore:300 of 300 samples have no group")
def test_mistakes_are_told(options, message):
    X, y = planted(0)
    X, y = options.pop("X", X), options.pop("y", y)
    with pytest.raises(InputError, match=message):
        find_gates(X, y, **options)


def test_inside_expects_the_same_features():
    X, y = planted(0)
    gates = find_gates(X, y, random_state=0)
    with pytest.raises(InputError, match="X has 7 features, but the gates were found with 8"):
        gates.inside(X[:, 1:])
    with pytest.raises(InputError, match="NaN"):
        gates.inside(np.full((2, 8), np.nan))


@pytest.mark.parametrize("seed", seeds(1, 5))
def test_the_standard_error_of_f_is_that_of_new_samples(seed):
    rng = np.random.default_rng(seed)
    values, errors = [], []
    for _ in range(400):
        member = rng.random(300) < 0.2
        value, influence = f_influence(rng.random(300) < np.where(member, 0.8, 0.1), member, 1.0)
        values.append(value)
        errors.append(np.std(influence) / np.sqrt(300))
        assert abs(influence.sum()) < 1e-9
    assert np.mean(errors) == pytest.approx(np.std(values), rel=0.15)


# AnnData ------------------------------------------------------------------------------------

anndata = pytest.importorskip("anndata")


@pytest.fixture
def cells():
    X, y = planted(0, n_features=30)
    adata = anndata.AnnData(sp.csr_matrix(X))
    adata.obs_names = [f"cell{i}" for i in range(300)]
    adata.var_names = [f"g{i}" for i in range(30)]
    adata.obs["type"] = pandas.Categorical(y, categories=["c", "a", "b"])
    return adata


def test_gates_are_written_and_survive_files(cells, tmp_path):
    assert ks.tl.gates(cells, "type", random_state=0) is None
    table = cells.uns["gates"]
    assert table["gate"].tolist() == ["g0-", "g0+ g1-", "g1+"]  # in the order of the categories
    assert table["layer"].unique().tolist() == ["X"]
    gates = ks.tl.get_gates(cells)
    cells.write_h5ad(tmp_path / "cells.h5ad")
    again = anndata.read_h5ad(tmp_path / "cells.h5ad")
    pandas.testing.assert_frame_equal(again.uns["gates"], table, check_dtype=False)
    assert ks.tl.get_gates(again) == gates
    pandas.testing.assert_frame_equal(ks.tl.get_gates(again).table, gates.table)
    assert gates.names == ("g0", "g1")
    X, y = cells[:, list(gates.names)].X, np.asarray(cells.obs["type"])
    assert (np.array(gates.groups)[gates.inside(X).argmax(axis=1)] == y).mean() > 0.95


def test_groups_without_a_gate_survive_files(cells, tmp_path):
    cells.obs["type"] = cells.obs["type"].astype(str)
    cells.obs.iloc[:2, 0] = "few"
    with pytest.warns(InputWarning, match=r"few \(2\)"):
        ks.tl.gates(cells, "type", random_state=0)
    cells.write_h5ad(tmp_path / "cells.h5ad")
    gates = ks.tl.get_gates(anndata.read_h5ad(tmp_path / "cells.h5ad"))
    assert gates.gates[gates.groups.index("few")].genes == ()
    assert np.isnan(gates.table.loc["few", "F"])


def test_a_copy_leaves_the_object_as_it_is(cells):
    copied = ks.tl.gates(cells, "type", key_added="sheet", random_state=0, copy=True)
    assert "sheet" in copied.uns and not cells.uns
    ks.tl.gates(copied, "type", key_added="sheet", random_state=0)  # replaces its own


def test_the_genes_are_those_given_or_the_panel_or_candidates(cells):
    ks.tl.gates(cells, "type", genes=["g5", "g1"], random_state=0, key_added="given", max_genes=1)
    assert ks.tl.get_gates(cells, "given").table.loc["b", "gate"] == "g1+"
    cells.var["panel"] = cells.var_names.isin(["g0", "g1", "g7"])
    ks.tl.gates(cells, "type", random_state=0)
    assert set(ks.tl.get_gates(cells).names) <= {"g0", "g1", "g7"}
    cells.var["mine"] = cells.var_names.isin(["g1", "g8"])
    ks.tl.gates(cells, "type", genes="mine", random_state=0, key_added="given")
    assert set(ks.tl.get_gates(cells, "given").names) <= {"g1", "g8"}
    cells.var["surface"] = cells.var_names != "g1"
    with pytest.warns(InputWarning, match="1 of 2 allowed genes are not in adata"):
        ks.tl.gates(cells, "type", allowed=["g1", "g99"], random_state=0)
    assert set(ks.tl.get_gates(cells).names) == {"g1"}
    del cells.var["panel"]
    ks.tl.gates(cells, "type", allowed="surface", n_candidates=5, random_state=0)
    assert "g1" not in ks.tl.get_gates(cells).names
    ks.tl.gates(cells, "type", mask_var=np.asarray(cells.var["surface"]), random_state=0)
    assert "g1" not in ks.tl.get_gates(cells).names


@pytest.mark.parametrize("kind", thorough_params([sp.csr_matrix], [sp.csc_matrix, np.asarray]))
def test_layers_and_files_give_the_same(cells, tmp_path, kind):
    counts = np.random.default_rng(0).poisson(20 * cells.X.toarray() + 1).astype(np.float32)
    adata = anndata.AnnData(kind(counts), obs=cells.obs, var=cells.var)
    ks.tl.gates(adata, "type", normalize="log1p", random_state=0)
    assert adata.uns["gates"]["normalized"].tolist() == ["log1p"] * 3
    assert adata.uns["gates"]["F"].min() > 0.8
    cells.layers["counts"] = counts
    ks.tl.gates(cells, "type", layer="counts", normalize="log1p", random_state=0)
    assert ks.tl.get_gates(cells) == ks.tl.get_gates(adata)
    assert cells.uns["gates"]["layer"].tolist() == ["counts"] * 3
    stored = tmp_path / "cells.h5ad"
    adata.write_h5ad(stored)
    backed = anndata.read_h5ad(stored, backed="r")
    ks.tl.gates(backed, "type", normalize="log1p", random_state=0, key_added="again")
    assert ks.tl.get_gates(backed, "again") == ks.tl.get_gates(adata)
    backed.file.close()


def test_cells_without_a_group_are_left_out(cells):
    cells.obs.iloc[:9, 0] = np.nan
    with pytest.warns(InputWarning, match="9 of 300 samples have no group"):
        ks.tl.gates(cells, "type", random_state=0)
    table = cells.uns["gates"]
    assert table["n_cells"].sum() + table["n_training"].sum() == 291


@pytest.mark.parametrize(
    ("kind", "groups"),
    [
        (pandas.Series, ["2", "10", "11"]),
        (lambda y: pandas.Series(y.astype(np.float32) + np.float32(0.1)), None),
        (lambda y: pandas.Series(y).astype("Int64"), ["2", "10", "11"]),
        (lambda y: pandas.Series(y.astype(str)), ["10", "11", "2"]),
        (lambda y: pandas.Categorical(y, categories=[11, 5, 2, 10]), ["11", "2", "10"]),
        (lambda y: pandas.Series([str(v) if v == 2 else v for v in y]), ["10", "11", "2"]),
    ],
)
def test_groups_keep_their_order(cells, kind, groups):
    number = np.array([10, 2, 11])[cells.obs["type"].cat.codes]
    values = kind(number)
    cells.obs["kind"] = values.to_numpy() if isinstance(values, pandas.Series) else values
    ks.tl.gates(cells, "kind", random_state=0)
    found = cells.uns["gates"]["group"].tolist()
    assert found == groups if groups else [float(g) for g in found] == sorted(map(float, found))
    assert len(found) == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"genes": ["g1", "CD3D", "CD4"]},
            "2 of the 3 names in genes are not in adata: 'CD3D', 'CD4'",
        ),
        ({"genes": [f"x{i}" for i in range(12)]}, "12 of the 12 names in genes .*'x9' and 2 more"),
        ({"genes": ["g1", "g1"]}, "genes has 1 repeated names .the first is 'g1'"),
        ({"genes": "g1"}, "genes='g1' must be a list of names of genes, or a column of adata.var"),
        ({"genes": 3}, "genes=3 must be a sequence"),
        ({"genes": []}, "genes is empty"),
        ({"groupby": "nothing"}, "groupby='nothing' is not a column of adata.obs: choose from"),
        ({"groupby": "number"}, "groupby='number' has 300 different values, more than 200"),
        ({"groupby": "one"}, "groupby='one' has 1 group of cells, which should be >= 2"),
        ({"groupby": "none"}, "groupby='none' is missing for all 300 cells"),
        ({"allowed": "nothing"}, "allowed='nothing' is not a column of adata.var"),
        ({"genes": ["g1"], "allowed": ["g2"]}, "allowed and mask_var leave 0 of 1 genes"),
        ({"max_genes": -1}, "max_genes=-1 must be at least 1"),
        ({"n_candidates": 0}, "n_candidates=0 must be at least 1"),
        ({"layer": "nothing"}, "layer='nothing' is not in adata.layers"),
        ({"normalize": "yes"}, "normalize='yes' must be"),
        ({"key_added": "a/b"}, "key_added='a/b' must be a name"),
        ({"key_added": "other"}, r"adata.uns\['other'\] holds something else"),
    ],
)
def test_mistakes_with_anndata_are_told(cells, options, message):
    cells.obs["one"], cells.obs["none"] = "one", np.nan
    cells.obs["number"] = np.arange(cells.n_obs) / 7
    cells.uns["other"] = {"params": 1}
    with pytest.raises(InputError, match=message):
        ks.tl.gates(cells, **({"groupby": "type"} | options))
    assert set(cells.uns) == {"other"}


def test_a_bad_panel_and_repeated_genes_are_told(cells):
    cells.var["panel"] = 1.5
    with pytest.raises(InputError, match="must be True or False for each of the 30 genes"):
        ks.tl.gates(cells, "type")
    cells.var_names = ["same"] * 30
    with pytest.raises(InputError, match="29 repeated gene names"):
        ks.tl.gates(cells, "type")


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("genes", "no list"),
        ("genes", "[1]"),
        ("genes", '["g1"]'),
        ("thresholds", '["high", "low"]'),
        ("thresholds", "[" * 100_000),
        ("signs", "+*"),
        ("F", 1.5),
        ("n_cells", -1),
        ("n_cells", "many"),
        ("group", 3),
        ("beta", None),
    ],
)
def test_damaged_gates_are_told(cells, column, value):
    ks.tl.gates(cells, "type", random_state=0)
    table = cells.uns["gates"]
    if value is None:
        del table[column]
    else:
        values = table[column].tolist()
        values[1] = value
        table[column] = values
    with pytest.raises(InputError, match=r"adata.uns\['gates'\] is .*: run ksparse.tl.gates again"):
        ks.tl.get_gates(cells)


def test_what_is_no_gates_is_told(cells):
    with pytest.raises(InputError, match=r"adata.uns\['gates'\] holds no gates: run"):
        ks.tl.get_gates(cells)
    with pytest.raises(InputError, match="must be an AnnData object"):
        ks.tl.get_gates(3)


def test_a_gate_has_a_text():
    assert Gate("T", ("CD3D", "MS4A1"), "+-", (0.0, 1.0)).text == "CD3D+ MS4A1-"
    assert len(Gates((Gate("T"),), ())) == 1
