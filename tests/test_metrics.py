"""Agreement with known classes and known markers."""

from __future__ import annotations

import math
from itertools import combinations, permutations

import numpy as np
import pandas as pd
import pytest

from ksparse.metrics import (
    clustering_accuracy,
    feature_precision,
    feature_recall,
    match_clusters,
    summary,
)

SEEDS = range(8)
COUNTS = [(1, 1), (2, 2), (3, 3), (5, 5), (2, 4), (4, 2), (1, 5), (5, 1), (3, 4)]


def draw(seed, n_classes, n_clusters, n=40):
    """Random labels in which every class and every cluster occurs."""
    rng = np.random.default_rng(seed)
    true, pred = rng.integers(n_classes, size=n), rng.integers(n_clusters, size=n)
    true[:n_classes], pred[:n_clusters] = np.arange(n_classes), np.arange(n_clusters)
    return true, rng.permutation(pred)


def best_of_all_matchings(true, pred):
    """Accuracy by trying every one-to-one matching of clusters to classes."""
    k = max(true.max(), pred.max()) + 1
    return max(np.mean(np.array(match)[pred] == true) for match in permutations(range(k)))


# Accuracy ------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("n_classes", "n_clusters"), COUNTS)
def test_accuracy_is_that_of_the_best_of_all_matchings(seed, n_classes, n_clusters):
    true, pred = draw(seed, n_classes, n_clusters)
    assert clustering_accuracy(true, pred) == pytest.approx(best_of_all_matchings(true, pred))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("shape", [*COUNTS, (0, 3), (3, 0)])
def test_clusters_are_matched_one_to_one_with_the_largest_sum(seed, shape):
    table = np.random.default_rng(seed).integers(20, size=shape)
    match = match_clusters(table)
    matched = match >= 0
    assert matched.sum() == min(shape)
    assert len(set(match[matched])) == min(shape)
    wide = table if shape[0] <= shape[1] else table.T
    every = permutations(range(wide.shape[1]), wide.shape[0])
    largest = max(sum(row[c] for row, c in zip(wide, columns, strict=True)) for columns in every)
    assert table[np.flatnonzero(matched), match[matched]].sum() == largest


def test_a_table_has_two_axes():
    with pytest.raises(ValueError, match=r"table has shape \(3,\)"):
        match_clusters([1, 2, 3])


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("n_classes", "n_clusters"), COUNTS)
def test_accuracy_does_not_depend_on_the_names_of_the_labels(seed, n_classes, n_clusters):
    true, pred = draw(seed, n_classes, n_clusters)
    rng = np.random.default_rng(seed)
    expected = clustering_accuracy(true, pred)
    words = rng.permutation(["T cell", "B cell", "", "nk", "Ωmega"])
    numbers = rng.permutation([-7, 0, 3, 10**12, 2])
    assert clustering_accuracy(words[true], numbers[pred]) == expected
    assert clustering_accuracy(numbers[true], words[pred]) == expected
    assert clustering_accuracy(words[true].tolist(), words[pred].astype(object)) == expected


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("n_classes", "n_clusters"), COUNTS)
def test_accuracy_does_not_depend_on_the_order_of_samples_or_arguments(seed, n_classes, n_clusters):
    true, pred = draw(seed, n_classes, n_clusters)
    order = np.random.default_rng(seed).permutation(true.size)
    expected = clustering_accuracy(true, pred)
    assert clustering_accuracy(true[order], pred[order]) == expected
    assert clustering_accuracy(pred, true) == expected


@pytest.mark.parametrize(
    ("true", "pred", "expected"),
    [
        ([0, 0, 1, 1], [1, 1, 0, 0], 1.0),
        ([0, 0, 1, 1], [0, 1, 0, 1], 0.5),
        ([0, 0, 0, 1], [5, 5, 5, 5], 0.75),
        ([0, 0, 1, 1], [0, 1, 2, 3], 0.5),
        ([0, 0, 0, 0], [0, 1, 2, 3], 0.25),
        ([0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 2, 2], 4 / 6),
        (["a"], [3], 1.0),
        ([True, False, True], [0, 1, 0], 1.0),
        (["a", "a", "b"], pd.Categorical(["x", "x", "y"]), 1.0),
        (pd.Series(["a", "a", "b"], index=[7, 8, 9]), pd.Series([2, 2, 1]), 1.0),
    ],
)
def test_accuracy_of_labels_counted_by_hand(true, pred, expected):
    assert clustering_accuracy(true, pred) == pytest.approx(expected)


def test_every_cluster_is_matched_with_one_class_only():
    true = [0] * 6 + [1] * 4
    assert clustering_accuracy(true, [0] * 10) == 0.6
    assert clustering_accuracy(true, [0] * 3 + [1] * 3 + [2] * 4) == 0.7


def test_accuracy_is_a_plain_number():
    assert type(clustering_accuracy([0, 1], [0, 1])) is float


@pytest.mark.parametrize(
    ("true", "pred", "shapes"),
    [
        ([0, 1], [0, 1, 1], ["(2,)", "(3,)"]),
        ([[0, 1]], [[0, 1]], ["(1, 2)", "(1, 2)"]),
        ([0, 1], [[0], [1]], ["(2,)", "(2, 1)"]),
        (0, 0, ["()", "()"]),
        ([], [0], ["(0,)", "(1,)"]),
    ],
)
def test_labels_of_different_shapes_are_refused_with_both_shapes(true, pred, shapes):
    for measure in (clustering_accuracy, summary):
        with pytest.raises(ValueError, match="labels_true has shape") as caught:
            measure(true, pred)
        assert f"labels_true has shape {shapes[0]}" in str(caught.value)
        assert f"labels_pred has shape {shapes[1]}" in str(caught.value)


def test_no_labels_at_all_are_refused():
    for measure in (clustering_accuracy, summary):
        with pytest.raises(ValueError, match=r"^labels_true is empty: .*\.$"):
            measure([], [])


@pytest.mark.parametrize("missing", [None, math.nan])
def test_missing_labels_among_words_are_refused_by_name(missing):
    words = np.array(["a", missing, "b"], dtype=object)
    with pytest.raises((TypeError, ValueError), match="labels_true"):
        clustering_accuracy(words, [0, 1, 2])
    with pytest.raises((TypeError, ValueError), match="labels_pred"):
        clustering_accuracy([0, 1, 2], words)


# Features ------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_precision_and_recall_count_the_common_features(seed):
    rng = np.random.default_rng(seed)
    selected, relevant = rng.random(50) < 0.3, rng.random(50) < 0.4
    chosen, known = set(np.flatnonzero(selected)), set(np.flatnonzero(relevant))
    common = len(chosen & known)
    assert feature_precision(selected, relevant) == pytest.approx(common / len(chosen))
    assert feature_recall(selected, relevant) == pytest.approx(common / len(known))
    assert feature_precision(selected, relevant) == feature_recall(relevant, selected)


def test_precision_and_recall_of_all_none_and_half():
    every, none, half = [True] * 4, [False] * 4, [True, True, False, False]
    assert (feature_precision(every, half), feature_recall(every, half)) == (0.5, 1.0)
    assert (feature_precision(half, every), feature_recall(half, every)) == (1.0, 0.5)
    assert (feature_precision(half, half), feature_recall(half, half)) == (1.0, 1.0)
    other = [False, False, True, True]
    assert (feature_precision(half, other), feature_recall(half, other)) == (0.0, 0.0)
    assert feature_recall(none, half) == 0.0
    assert feature_precision(half, none) == 0.0


def test_a_share_of_nothing_is_not_a_number():
    none, some = np.zeros(3, dtype=bool), np.array([True, False, True])
    assert math.isnan(feature_precision(none, some))
    assert math.isnan(feature_recall(some, none))
    assert math.isnan(feature_precision(none[:0], none[:0]))
    assert math.isnan(feature_recall(none[:0], none[:0]))


def test_shares_are_plain_numbers_and_masks_stay_as_they_are():
    selected, relevant = np.array([True, False]), np.array([True, True])
    for mask in (selected, relevant):
        mask.flags.writeable = False
    assert type(feature_precision(selected, relevant)) is float
    assert type(feature_recall(selected, relevant)) is float


@pytest.mark.parametrize("measure", [feature_precision, feature_recall])
@pytest.mark.parametrize(
    ("bad", "found"),
    [
        (np.array([0, 2], dtype=np.int64), ["int64", "(2,)"]),
        ([1.0, 0.0, 1.0], ["float64", "(3,)"]),
        (["a", "b", "c"], ["<U1", "(3,)"]),
        ([[True, False, True]], ["bool", "(1, 3)"]),
        (True, ["bool", "()"]),
        ([], ["float64", "(0,)"]),
    ],
)
def test_what_is_not_a_mask_is_refused_with_its_type_and_shape(measure, bad, found):
    good = [True, False, True]
    for name, masks in (("selected", (bad, good)), ("relevant", (good, bad))):
        with pytest.raises(TypeError, match=rf"^{name} must be a boolean mask .*\.$") as caught:
            measure(*masks)
        for part in found:
            assert part in str(caught.value)


@pytest.mark.parametrize("measure", [feature_precision, feature_recall])
def test_masks_of_different_lengths_are_refused_with_both_lengths(measure):
    with pytest.raises(ValueError, match=r"^selected has 2 entries and relevant has 3; .*\.$"):
        measure([True, False], [True, False, True])


# Summary -------------------------------------------------------------------------------


def pair_counting_index(true, pred):
    """Adjusted Rand index from its definition, over all pairs of samples."""
    pairs = list(combinations(range(len(true)), 2))
    in_true = np.array([true[i] == true[j] for i, j in pairs], dtype=float)
    in_pred = np.array([pred[i] == pred[j] for i, j in pairs], dtype=float)
    expected = in_true.sum() * in_pred.sum() / len(pairs)
    largest = (in_true.sum() + in_pred.sum()) / 2
    return (in_true @ in_pred - expected) / (largest - expected)


def shared_information(true, pred):
    """Mutual information over the mean of the entropies, from the definitions."""
    joint = np.zeros((true.max() + 1, pred.max() + 1))
    np.add.at(joint, (true, pred), 1 / true.size)

    def entropy(p):
        return -(p[p > 0] * np.log(p[p > 0])).sum()

    rows, columns = entropy(joint.sum(axis=1)), entropy(joint.sum(axis=0))
    return (rows + columns - entropy(joint.ravel())) / ((rows + columns) / 2)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("n_classes", "n_clusters"), [(2, 2), (3, 3), (4, 2), (2, 5)])
def test_the_summary_holds_accuracy_rand_index_and_shared_information(seed, n_classes, n_clusters):
    true, pred = draw(seed, n_classes, n_clusters)
    pred = np.where(np.arange(true.size) % 3 == 0, pred, true % n_clusters)
    table = summary(true, pred)
    assert list(table) == ["accuracy", "ari", "nmi"]
    assert table["accuracy"] == pytest.approx(best_of_all_matchings(true, pred))
    assert table["ari"] == pytest.approx(pair_counting_index(true, pred))
    assert table["nmi"] == pytest.approx(shared_information(true, pred))


def test_the_summary_of_equal_clusterings_is_all_ones():
    assert summary(list("aabbc"), [2, 2, 0, 0, 1]) == {"accuracy": 1.0, "ari": 1.0, "nmi": 1.0}


def test_the_summary_counts_features_if_they_are_given():
    selected, relevant = [True, True, False, True], [True, False, False, True]
    table = summary([0, 1], [0, 1], selected=selected)
    assert list(table) == ["accuracy", "ari", "nmi", "n_features"]
    assert table["n_features"] == 3.0
    table = summary([0, 1], [0, 1], selected=selected, relevant=relevant)
    assert list(table) == ["accuracy", "ari", "nmi", "n_features", "precision", "recall"]
    assert table["precision"] == pytest.approx(2 / 3)
    assert table["recall"] == 1.0
    assert all(type(value) is float for value in table.values())


def test_the_summary_of_no_selected_feature_has_no_precision():
    table = summary([0, 1], [0, 1], selected=[False, False], relevant=[True, False])
    assert table["n_features"] == 0.0
    assert math.isnan(table["precision"])
    assert table["recall"] == 0.0


def test_the_summary_refuses_relevant_without_selected():
    with pytest.raises(ValueError, match=r"^relevant was given without selected; .*\.$"):
        summary([0, 1], [0, 1], relevant=[True, False])


@pytest.mark.parametrize("selected", [[0, 5, 7], [1.0, 0.0], ["a", "b"], [[True, False]]])
@pytest.mark.parametrize("relevant", [None, [True, False]])
def test_the_summary_refuses_selected_that_is_no_mask(selected, relevant):
    with pytest.raises(TypeError, match="selected must be a boolean mask"):
        summary([0, 1], [0, 1], selected=selected, relevant=relevant)


def test_the_summary_refuses_masks_of_different_lengths():
    with pytest.raises(ValueError, match="selected has 3 entries and relevant has 2"):
        summary([0, 1], [0, 1], selected=[True] * 3, relevant=[True] * 2)
