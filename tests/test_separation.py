"""separation: valleys between clusters, on samples that had no part in finding the direction."""

from __future__ import annotations

import anndata
import matplotlib
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA

import ksparse as ks
from conftest import crossed, examples, make_clusters, seeds, thorough_params
from ksparse import separation
from ksparse.selection.separation import verdicts_of
from ksparse.selection.valley import ValleyCounts, log_tail

matplotlib.use("Agg")


def one_population(kind, seed):
    """Samples of one population: noise, noise and continuous factors, or simulated cells."""
    rng = np.random.default_rng(seed)
    if kind == "cells":
        counts = ks.simulate.simulate_counts(250, 300, 1, random_state=seed).counts
        return ks.normalise.log_normalise(counts).toarray()
    if kind == "wide noise":
        return rng.normal(size=(100, 3000))
    if kind == "noise":
        return rng.normal(size=(200, 300))
    factors = rng.normal(size=(300, 2)) if kind == "Gaussian factors" else rng.uniform(
        -np.sqrt(3), np.sqrt(3), size=(400, 1 if kind == "line" else 2)
    )  # fmt: skip
    loadings = np.zeros((factors.shape[1], 300))
    for i in range(len(loadings)):
        loadings[i, 40 * i : 40 * i + 40] = 1.5
    return factors @ loadings + rng.normal(size=(len(factors), 300))


def cut(X, k, seed):
    """Labels by k-means of the leading components: what a user without clusters would get."""
    scores = PCA(4, random_state=0).fit_transform(X)
    return KMeans(k, n_init=2, random_state=seed).fit_predict(scores)


KINDS = ("wide noise", "noise", "Gaussian factors", "line", "square", "cells")


@pytest.mark.parametrize(
    ("kind", "k", "n_runs"),
    [
        *(("square" if k == 2 else "line", k, 4) for k in (2, 5)),
        *(pytest.param(kind, k, 100, marks=pytest.mark.thorough) for kind in KINDS for k in (2, 4)),
    ],
)
def test_one_population_is_rarely_separated(kind, k, n_runs):
    # The flat ones are the worst case: their density has one peak, but hardly.
    false = 0
    for seed in range(n_runs):
        X = one_population(kind, seed)
        found = separation(X, cut(X, k, seed), n_splits=2)
        false += (found.adjusted[np.triu_indices(k, 1)] <= 0.05).any()
    assert false <= max(1, 0.07 * n_runs)


@pytest.mark.thorough
def test_false_positives_are_at_most_seven_percent():
    false, n_runs = 0, 200
    for seed in range(n_runs):
        X = one_population("square", seed)
        false += separation(X, cut(X, 2, seed), n_splits=2).p_values[0, 1] <= 0.05
    assert false <= 0.07 * n_runs


def false_positives(X, n_runs):
    """How many of so many draws of 80 %, cut in 2, 3 and 5 clusters, have a separated pair."""
    X = X[:, np.flatnonzero(np.asarray((X != 0).sum(axis=0)).ravel() >= 5)]
    false = 0
    for seed in range(n_runs):
        rows = np.random.default_rng(seed).permutation(X.shape[0])[: int(0.8 * X.shape[0])]
        k, part = (2, 3, 5)[seed % 3], X[np.sort(rows)]
        found = separation(part, cut(part.toarray(), k, seed), n_splits=2)
        false += bool((found.adjusted[np.triu_indices(k, 1)] <= 0.05).any())
    return false


# 200 runs for each set. Day 7 of Klein is two populations: cells with few molecules are apart.
@pytest.mark.thorough
@pytest.mark.parametrize(
    ("file", "group", "least_count", "n_runs"),
    [
        *(("klein_subset1000_900g", day, 0, 50) for day in ("d0", "d2", "d4")),
        ("klein_subset1000_900g", "d7", 4000, 50),
        *(("mix_sc_celseq2_5cl", line, 0, 40)
          for line in ("A549", "H1975", "H2228", "H838", "HCC827")),
    ],
)  # fmt: skip
def test_real_cells_of_one_kind_are_rarely_separated(data_folder, file, group, least_count, n_runs):
    data = anndata.read_h5ad(data_folder / f"{file}.h5ad")
    counts = sp.csr_array(data.X)[np.flatnonzero(data.obs["label"].astype(str) == group)]
    counts = counts[np.flatnonzero(counts.sum(axis=1) >= least_count)]
    assert false_positives(ks.normalise.log_normalise(counts), n_runs) <= 0.07 * n_runs


@pytest.mark.thorough
def test_a_day_whose_cells_differ_in_depth_falls_in_two(data_folder):
    data = anndata.read_h5ad(data_folder / "klein_subset1000_900g.h5ad")
    counts = sp.csr_array(data.X)[np.flatnonzero(data.obs["label"].astype(str) == "d7")]
    X = ks.normalise.log_normalise(counts)
    labels = ks.KSparse(2, init="graph", random_state=0).fit_predict(X)
    assert separation(X, labels).p_values[0, 1] < 0.001
    depth = np.asarray(counts.sum(axis=1)).ravel()
    assert np.median(depth[labels == 0]) > 2 * np.median(depth[labels == 1])


@pytest.mark.thorough
def test_each_cell_line_is_one_population(data_folder):
    data = anndata.read_h5ad(data_folder / "mix_sc_celseq2_5cl.h5ad")
    X = ks.normalise.log_normalise(data.X)
    lines = data.obs["label"].to_numpy()
    for line in np.unique(lines):
        part = X[np.flatnonzero(lines == line)]
        part = part[:, np.flatnonzero(np.asarray((part != 0).sum(axis=0)).ravel() >= 5)]
        labels = ks.KSparse(2, init="graph", random_state=0).fit(part).labels_
        assert separation(part, labels).p_values[0, 1] > 0.05
    assert all(len(group) == 1 for group in separation(X, lines).groups)


@pytest.mark.parametrize("seed", seeds(1, 5))
@pytest.mark.parametrize("sizes", thorough_params([[40, 30, 20]], [[300, 40], [30] * 6]))
def test_clear_clusters_are_separated(seed, sizes):
    X, labels, _ = make_clusters(seed, sizes=sizes, n_features=100)
    found = separation(X, labels)
    assert found.sentence == f"All {len(sizes)} clusters are separated from each other."
    assert len(found.groups) == len(sizes)
    assert found.table["depth"].min() > 0.5


@pytest.mark.parametrize("seed", seeds(1, 5))
def test_a_cluster_that_was_cut_is_not_separated(seed):
    X, labels, _ = make_clusters(seed, sizes=(120, 80), n_features=100)
    names = np.array(["one", "two", "half"], dtype=object)[labels]
    names[(labels == 0) & (X[:, 50] > 0)] = "half"
    found = separation(X, names)
    assert ("half", "one") in found.groups
    assert found.verdicts[found.clusters.index("two"), found.clusters.index("one")] == "separate"
    assert "half and one are not separated" in found.sentence
    assert found.table["verdict"].iloc[0] == "not separate"


def test_small_clusters_have_too_few_samples_to_tell():
    X = np.random.default_rng(0).normal(size=(100, 50))
    labels = np.repeat([0, 1, 2], [60, 33, 7])
    found = separation(X, labels)
    assert found.too_few == ("2",)
    assert found.verdicts[0, 2] == found.verdicts[1, 2] == "too few samples"
    assert "2 has too few samples to tell" in found.sentence
    tiny = separation(X, np.repeat(["a", "b", "c"], [90, 7, 3]))
    assert tiny.p_values[0, 2] == 1.0
    assert np.isnan(tiny.depth[0, 2])
    only = separation(X, np.repeat(["a", "b"], [97, 3]))
    assert only.p_values[0, 1] == 1.0


def test_what_is_too_few_depends_on_the_pairs_that_are_tested_and_on_several_splits():
    # p = level / (e x pairs) needs the window of half a cluster to have log2 of that.
    sizes = np.array([60, 14, *[2] * 30])
    verdicts = verdicts_of(np.ones((32, 32)), sizes, 0.05)
    assert verdicts[0, 1] == "not separate"  # one pair is tested, whatever else there is
    assert (verdicts[0, 2:] == "too few samples").all()
    assert verdicts_of(np.ones((2, 2)), np.array([60, 10]), 0.05)[0, 1] == "too few samples"


def test_clusters_about_which_nothing_is_known_are_not_counted_as_separated():
    X, labels, _ = make_clusters(0, n_features=100)
    few = separation(X[:20], np.repeat([0, 1], 10))
    assert len(few.groups) == 2
    assert few.n_separated == 1
    labels = np.array([*labels, 3, 3])
    assert separation(np.vstack([X, X[:2]]), labels).n_separated == 3
    assert separation(X, labels[:-2]).n_separated == 3


def test_pairs_about_which_nothing_is_known_can_be_drawn():
    X = np.random.default_rng(0).normal(size=(12, 5))
    tree, pairs = separation(X, np.repeat([0, 1, 2, 3], 3)).plot()
    assert len(pairs.patches) == 12
    assert len(tree.get_yticklabels()) == 4


@pytest.mark.parametrize("k", thorough_params([24], [40]))
def test_more_than_twenty_clusters_are_told_apart(k):
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(k), 25)
    X = rng.normal(size=(labels.size, 8 * k))
    X[np.arange(8 * k) // 8 == labels[:, None]] += 4.0
    found = separation(X, labels, n_splits=2)
    assert found.sentence == f"All {k} clusters are separated from each other."
    cut = labels.copy()
    cut[:500] = labels[:500] + k * (np.arange(500) % 25 < 12) * (labels[:500] == 3)
    halves = separation(X, cut, n_splits=2)
    assert halves.verdicts[3, k] != "separate"
    assert (halves.verdicts == "separate").sum() == k * (k + 1) - 2


def test_a_rare_cluster_that_is_clear_is_separated():
    X, labels, _ = make_clusters(1, sizes=(400, 14), n_features=100, shift=5.0)
    assert separation(X, labels).verdicts[0, 1] == "separate"


@pytest.mark.parametrize(("convert", "dtype"), crossed((np.asarray, sp.csr_array, sp.csc_matrix),
                                                       (np.float32, np.float64)))  # fmt: skip
def test_any_kind_of_array_gives_the_same(convert, dtype):
    X, labels, _ = make_clusters(0, zeros=0.5)
    X = X.astype(np.float32)
    np.testing.assert_allclose(
        separation(convert(X.astype(dtype)), labels).p_values, separation(X, labels).p_values
    )


@pytest.mark.parametrize("kind", thorough_params(["h5ad"], ["dask"]))
def test_data_that_are_not_in_memory_give_the_same(tmp_path, kind):
    X, labels, _ = make_clusters(0, zeros=0.5)
    data = anndata.AnnData(sp.csr_matrix(X))
    data.obs["label"] = labels.astype(str)
    expected = separation(X, labels).p_values
    if kind == "h5ad":
        data.write_h5ad(tmp_path / "x.h5ad")
        data = anndata.read_h5ad(tmp_path / "x.h5ad", backed="r")
        found = ks.tl.separation(data, "label")
        data.file.close()
    else:
        found = separation(pytest.importorskip("dask.array").from_array(X, chunks=(30, -1)), labels)
    np.testing.assert_allclose(found.p_values, expected, rtol=1e-6)


def test_the_answer_does_not_depend_on_names_units_or_the_origin():
    X, labels, _ = make_clusters(3)
    one = separation(X, labels)
    other = separation(1e6 * (X + 3), np.array(["x", "y", "z"])[labels])
    np.testing.assert_allclose(one.counts, other.counts)
    np.testing.assert_allclose(one.p_values, one.p_values.T)


def test_samples_without_a_label_are_left_out():
    X, labels, _ = make_clusters(0)
    some = labels.astype(object)
    some[::7] = None
    with pytest.warns(UserWarning, match="13 of 90 samples have no label"):
        found = separation(X, some)
    assert found.sizes.sum() == 77


def test_forbidden_features_are_not_used():
    X, labels, markers = make_clusters(0)
    found = separation(X, labels, feature_weights=np.where(markers, np.inf, 1.0))
    assert (found.verdicts != "separate").all()


def test_constant_data_have_no_valley():
    found = separation(np.ones((40, 5)), np.repeat([0, 1], 20))
    assert found.p_values[0, 1] == 1.0


@given(first=st.integers(0, 60), second=st.integers(0, 60), valley=st.integers(0, 60))
@settings(max_examples=examples(50, 500), deadline=None)
def test_the_p_value_falls_as_the_valley_empties(first, second, valley):
    p = log_tail(ValleyCounts(first, second, valley))
    assert -1e3 < p <= 1e-12
    assert p == log_tail(ValleyCounts(second, first, valley))
    if valley:
        assert log_tail(ValleyCounts(first, second, valley - 1)) <= p + 1e-12
    if min(first, second) == 0:
        assert p == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ({"labels": np.zeros(90)}, "labels has 1 cluster, which should be >= 2"),
        ({"labels": [0, 1]}, r"labels has shape \(2,\), but X has 90 samples"),
        ({"level": 0}, "level=0 must be a number between 0 and 1"),
        ({"n_splits": 0}, "n_splits=0 must be at least 1"),
        ({"labels": ["1", 1, 2] * 30}, "labels"),
        ({"X": np.full((90, 3), np.nan)}, "NaN"),
    ],
)
def test_bad_requests_get_one_clear_sentence(arguments, part):
    X, labels, _ = make_clusters(0)
    arguments = {"X": X, "labels": labels} | arguments
    with pytest.raises(ValueError, match=part):
        separation(arguments.pop("X"), arguments.pop("labels"), **arguments)


@pytest.fixture
def tested():
    adata = ks.simulate.simulate_counts(240, 200, 3, random_state=0).to_anndata()
    return adata, ks.tl.separation(adata, "label", normalize="log1p")


def test_results_in_anndata_survive_a_file_and_can_be_drawn(tested, tmp_path):
    adata, found = tested
    assert list(found.clusters) == sorted(adata.obs["label"].unique())
    adata.write_h5ad(tmp_path / "x.h5ad")
    again = anndata.read_h5ad(tmp_path / "x.h5ad")
    tree, pairs = ks.pl.separation(again, save=tmp_path / "pairs.png")
    assert (tmp_path / "pairs.png").exists()
    assert [text.get_text() for text in pairs.get_xticklabels()] == [
        text.get_text() for text in tree.get_yticklabels()
    ][::-1]
    assert again.uns["separation"]["sentence"] == found.sentence


def test_damaged_results_are_refused(tested):
    adata, _ = tested
    adata.uns["separation"]["p_values"] = np.ones((2, 3))
    with pytest.raises(ValueError, match="p_values"):
        ks.pl.separation(adata)
    with pytest.raises(ValueError, match="holds no test of separation"):
        ks.pl.separation(adata, key="nothing")
    adata.uns["mine"] = 3
    with pytest.raises(ValueError, match="holds something else"):
        ks.tl.separation(adata, "label", normalize="log1p", key_added="mine")


def test_clusters_of_ksparse_are_tested_on_the_data_they_were_found_in():
    adata = ks.simulate.simulate_counts(240, 200, 3, random_state=0).to_anndata()
    ks.tl.ksparse(adata, 3, n_features=20, normalize="log1p", random_state=0)
    found = ks.tl.separation(adata)  # raw counts would be warned of
    expected = separation(ks.normalise.log_normalise(adata.X), adata.obs["ksparse"].astype(str))
    np.testing.assert_allclose(found.p_values, expected.p_values)


def test_columns_with_fewer_than_two_groups_are_named():
    adata = anndata.AnnData(np.random.default_rng(0).normal(size=(20, 10)))
    adata.obs["one"] = "a"
    adata.obs["none"] = np.nan
    with pytest.raises(ValueError, match="groupby='one' has one group of cells: two are needed"):
        ks.tl.separation(adata, "one")
    with pytest.raises(ValueError, match="groupby='none' has no groups of cells"):
        ks.tl.separation(adata, "none")


def test_results_are_shown_as_a_sentence_and_a_table():
    X, labels, _ = make_clusters(0)
    found = separation(X, labels)
    assert repr(found).count("\n") == 0
    assert found.sentence in repr(found)
    assert "<table" in found._repr_html_()
    assert str(found).endswith(found.sentence)


@pytest.mark.parametrize("n_distinct", [2, 3])
def test_clusters_of_equal_samples_are_separated(n_distinct):
    labels = np.arange(60) % n_distinct
    X = np.random.default_rng(0).normal(size=(n_distinct, 20))[labels]
    found = separation(X, labels)
    assert (found.adjusted[~np.eye(n_distinct, dtype=bool)] < 0.01).all()


def test_equal_samples_are_one_cluster():
    number = ks.choose_k(np.ones((20, 3)))
    assert number.recommended == 1
    assert number.sentence == "One cluster (k = 1): all samples are equal."
    with pytest.warns(UserWarning, match="found no clusters"):
        assert not ks.KSparse("auto").fit_predict(np.ones((20, 3))).any()
