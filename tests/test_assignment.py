"""k-means on projected samples: no empty cluster, converged labels stay, weights are counts."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from conftest import seeds
from ksparse._threads import limited_threads
from ksparse.core import y_step as assignment
from ksparse.core.y_step import (
    agreement,
    assign,
    centroids,
    distances,
    fill_empty,
    margins,
    order_by_size,
)

SEEDS = range(5)


def rng_of(seed):
    return np.random.RandomState(seed)


def make_points(seed, k=3, size=30, spread=1.0):
    rng = np.random.default_rng([seed, k])
    labels = rng.permutation(np.repeat(np.arange(k), size))
    return 8 * np.eye(k)[labels] + spread * rng.normal(size=(labels.size, k)), labels


def converge(P, labels, k, weight=None):
    """Lloyd's iterations in plain numpy, until no label changes."""
    weight = np.ones(len(P)) if weight is None else weight
    while True:
        centres = np.array([np.average(P[labels == g], axis=0, weights=weight[labels == g])
                            for g in range(k)])  # fmt: skip
        new = cdist(P, centres).argmin(axis=1)
        if np.array_equal(new, labels):
            return labels
        labels = new


def sizes_of(labels, k):
    return np.bincount(labels, minlength=k)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("n", "k", "other_k"), [(1, 1, 1), (2, 2, 1), (40, 3, 5), (200, 1, 4), (50, 50, 3)]
)
def test_agreement_is_the_index_of_scikit_learn(seed, n, k, other_k):
    rng = rng_of(seed)
    one, other = rng.randint(k, size=n), rng.randint(other_k, size=n).astype(np.int32)
    assert agreement(one, other) == adjusted_rand_score(one, other)
    assert agreement(one, one) == 1.0
    assert agreement(one, (one + 1) % k) == 1.0


# Centroids and distances -------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_centroids_are_weighted_means(seed, weighted):
    rng = np.random.default_rng(seed)
    P, labels = rng.normal(size=(40, 3)), rng.integers(0, 4, 40)
    weight = rng.uniform(0.1, 2, 40) if weighted else None
    expected = [
        np.average(P[labels == g], axis=0, weights=None if weight is None else weight[labels == g])
        for g in range(4)
    ]
    np.testing.assert_allclose(centroids(P, labels, 4, weight), expected, rtol=1e-12)


def test_the_centroid_of_an_empty_cluster_is_zero():
    P = np.array([[1.0, 2.0], [3.0, 4.0]])
    found = centroids(P, np.array([2, 2]), 4)
    assert found.tolist() == [[0, 0], [0, 0], [2, 3], [0, 0]]


def test_weights_may_be_as_small_as_they_like():
    P, labels = np.array([[1.0, 2.0], [3.0, 6.0], [5.0, 5.0]]), np.array([0, 0, 1])
    found = centroids(P, labels, 2, np.array([0.1, 0.3, 1e-9]))
    np.testing.assert_allclose(found, [[2.5, 5.0], [5.0, 5.0]], rtol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_centroids_of_weighted_samples_are_those_of_repeated_samples(seed):
    rng = np.random.default_rng(seed)
    P, labels, weight = rng.normal(size=(40, 3)), np.arange(40) % 4, rng.integers(1, 5, 40)
    often = np.repeat(np.arange(40), weight)
    np.testing.assert_allclose(
        centroids(P, labels, 4, weight.astype(float)),
        centroids(P[often], labels[often], 4),
        atol=1e-12,
    )


@pytest.mark.parametrize("offset", [0.0, 1e8])
@pytest.mark.parametrize("seed", SEEDS)
def test_distances_are_squared_and_exact_far_from_the_origin(seed, offset):
    rng = np.random.default_rng(seed)
    P, centres = np.round(rng.normal(size=(20, 3)), 2), np.round(rng.normal(size=(4, 3)), 2)
    found = distances(P + offset, centres + offset)
    np.testing.assert_allclose(found, cdist(P, centres, "sqeuclidean"), atol=1e-6)
    assert found.shape == (20, 4)


# Numbering ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "labels, expected",
    [
        ([0, 1, 1, 2, 2, 2], [2, 1, 0]),
        ([2, 2, 1, 1, 0, 0], [2, 1, 0]),  # equal sizes: by their first member
        ([1, 0, 0, 1, 2], [1, 0, 2]),
        ([0, 0, 0], [0, 1, 2]),  # empty clusters come last
        ([1, 1], [1, 0, 2]),
    ],
)
def test_clusters_are_numbered_by_size_and_then_by_first_member(labels, expected):
    assert order_by_size(np.array(labels), 3).tolist() == expected


def test_sizes_are_sums_of_weights():
    labels, weight = np.array([0, 0, 0, 1, 2]), np.array([1.0, 1.0, 1.0, 5.0, 3.0])
    assert order_by_size(labels, 3).tolist() == [0, 1, 2]
    assert order_by_size(labels, 3, weight).tolist() == [1, 0, 2]  # 3, 5, 3: first member decides


@pytest.mark.parametrize("seed", range(20))
def test_renumbered_labels_are_the_same_partition_in_decreasing_sizes(seed):
    labels = np.random.default_rng(seed).integers(0, 6, 25)
    rank = order_by_size(labels, 6)
    assert sorted(rank) == list(range(6))
    renumbered = rank[labels]
    assert (np.diff(sizes_of(renumbered, 6)) <= 0).all()
    assert adjusted_rand_score(labels, renumbered) == 1.0
    assert order_by_size(renumbered, 6)[renumbered].tolist() == renumbered.tolist()


@pytest.mark.parametrize("seed", range(10))
def test_the_numbering_does_not_depend_on_the_names_of_the_clusters(seed):
    rng = np.random.default_rng(seed)
    labels, names = np.append(np.arange(5), rng.integers(0, 5, 20)), rng.permutation(5)
    renamed = names[labels]
    assert np.array_equal(order_by_size(labels, 5)[labels], order_by_size(renamed, 5)[renamed])


# Empty clusters ----------------------------------------------------------------------


def test_an_empty_cluster_gets_the_sample_farthest_from_its_centroid():
    P = np.array([[0.0], [1.0], [10.0], [11.0], [19.0]])
    labels = np.array([0, 0, 2, 2, 2])
    assert fill_empty(P, labels, 3).tolist() == [0, 0, 2, 2, 1]
    assert labels.tolist() == [0, 0, 2, 2, 2]


@pytest.mark.parametrize("seed", range(20))
def test_the_farthest_is_found_in_any_direction(seed):
    P = np.random.default_rng(seed).normal(size=(12, 3))
    labels = np.arange(12) % 2
    centres = np.array([P[labels == g].mean(axis=0) for g in range(2)])
    farthest = np.linalg.norm(P - centres[labels], axis=1).argmax()
    moved = np.flatnonzero(fill_empty(P, labels, 3) != labels)
    assert moved.tolist() == [farthest]


def test_a_sample_alone_in_its_cluster_is_not_taken():
    P = np.array([[0.0], [50.0], [51.0]])
    assert sizes_of(fill_empty(P, np.array([0, 1, 1]), 3), 3).tolist() == [1, 1, 1]


def test_labels_without_an_empty_cluster_stay():
    P, labels = make_points(0)
    assert np.array_equal(fill_empty(P, labels, 3), labels)


@pytest.mark.parametrize("distinct", [1, 2, 5])
@pytest.mark.parametrize("seed", range(10))
def test_no_cluster_is_left_empty_whatever_the_labels_and_points(seed, distinct):
    rng = np.random.default_rng(seed)
    m, k = int(rng.integers(6, 20)), 6
    P = rng.normal(size=(distinct, 2))[rng.integers(0, distinct, m)]
    labels = rng.integers(0, rng.integers(1, 4), m)
    filled = fill_empty(P, labels, k)
    assert (sizes_of(filled, k) > 0).all()
    assert np.count_nonzero(filled != labels) == (sizes_of(labels, k) == 0).sum()


# Margins -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "x, label, expected",
    [
        (0.0, 0, 1.0),  # at its centroid
        (2.0, 0, 0.0),  # half-way
        (2.0, 1, 0.0),
        (1.0, 0, 2 / 3),  # distances 1 and 3
        (3.0, 0, -2 / 3),  # beyond the middle
        (4.0, 0, -1.0),  # at the other centroid
        (-4.0, 0, 0.5),  # distances 4 and 8
        (7.0, 1, 0.0),  # distances 3 to its own and 3 to the third
    ],
)
def test_margins_by_hand(x, label, expected):
    centres = np.array([[0.0], [4.0], [10.0]])
    found = margins(np.array([[x]]), np.array([label]), centres)
    assert found == pytest.approx([expected])


@pytest.mark.parametrize("seed", SEEDS)
def test_margins_are_between_minus_one_and_one_and_compare_own_with_nearest_other(seed):
    rng = np.random.default_rng(seed)
    P, labels, centres = rng.normal(size=(50, 3)), rng.integers(0, 4, 50), rng.normal(size=(4, 3))
    found = margins(P, labels, centres)
    assert ((found >= -1) & (found <= 1)).all()
    D = cdist(P, centres)
    for i, label in enumerate(labels):
        own, other = D[i, label], np.delete(D[i], label).min()
        assert found[i] == pytest.approx((other - own) / max(own, other), abs=1e-12)


def test_margins_of_one_cluster_are_zero():
    found = margins(np.arange(3.0)[:, None], np.zeros(3, dtype=int), np.ones((1, 1)))
    assert found.tolist() == [0, 0, 0]


def test_margins_where_centroids_coincide_are_zero():
    assert margins(np.ones((2, 2)), np.array([0, 1]), np.ones((2, 2))).tolist() == [0, 0]


# k-means -----------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_separated_clusters_are_found_with_their_centroids_and_inertia(seed, weighted):
    P, labels = make_points(seed)
    weight = np.random.default_rng(seed).uniform(0.2, 2, len(P)) if weighted else None
    found = assign(P, 3, rng_of(seed), n_init=5, sample_weight=weight)
    assert adjusted_rand_score(found.labels, labels) == 1.0
    np.testing.assert_allclose(found.centroids, centroids(P, found.labels, 3, weight), rtol=1e-12)
    squares = ((P - found.centroids[found.labels]) ** 2).sum(axis=1)
    assert found.inertia == pytest.approx(np.sum(squares if weight is None else weight * squares))


@pytest.mark.parametrize("n_init", [0, 1, 4])
@pytest.mark.parametrize("distinct", [1, 2, 3, 7])
@pytest.mark.parametrize("seed", SEEDS)
def test_no_cluster_is_ever_empty_even_among_duplicated_points(seed, distinct, n_init):
    rng = np.random.default_rng(seed)
    P = rng.normal(size=(distinct, 2))[rng.integers(0, distinct, 15)]
    found = assign(P, 5, rng_of(seed), n_init=n_init, current=np.arange(15) % 5)
    assert (sizes_of(found.labels, 5) > 0).all()
    assert np.isfinite(found.centroids).all()
    np.testing.assert_allclose(found.centroids, centroids(P, found.labels, 5), atol=1e-12)


def test_current_labels_with_an_empty_cluster_serve():
    P, labels = make_points(0)
    found = assign(P, 4, rng_of(0), n_init=0, current=labels)
    assert (sizes_of(found.labels, 4) > 0).all()


def test_as_many_clusters_as_samples_are_single_samples():
    P = np.random.default_rng(0).normal(size=(6, 2))
    found = assign(P, 6, rng_of(0), n_init=2)
    assert sorted(found.labels) == list(range(6))
    assert found.inertia == pytest.approx(0.0, abs=1e-20)


def test_one_cluster_is_everything():
    P = np.random.default_rng(0).normal(size=(9, 2))
    found = assign(P, 1, rng_of(0), n_init=2, current=np.zeros(9, dtype=int))
    assert not found.labels.any()
    np.testing.assert_allclose(found.centroids[0], P.mean(axis=0))


@pytest.mark.parametrize("spread", [1.0, 6.0])
@pytest.mark.parametrize("seed", range(10))
def test_a_run_from_converged_labels_keeps_them(seed, spread):
    P, labels = make_points(seed, spread=spread)
    converged = converge(P, labels, 3)
    found = assign(P, 3, rng_of(seed), n_init=0, current=converged)
    assert np.array_equal(found.labels, converged)


@pytest.mark.parametrize("seed", SEEDS)
def test_converged_labels_keep_their_numbers_when_other_runs_find_the_same(seed):
    P, labels = make_points(seed)
    for names in ([0, 1, 2], [2, 0, 1]):
        current = np.array(names)[labels]
        found = assign(P, 3, rng_of(seed), n_init=10, current=current)
        assert np.array_equal(found.labels, current)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_from_wrong_labels_improves_them(seed):
    P, labels = make_points(seed)
    wrong = labels.copy()
    wrong[::7] = (wrong[::7] + 1) % 3
    found = assign(P, 3, rng_of(seed), n_init=0, current=wrong)
    assert np.array_equal(found.labels, labels)


@pytest.mark.parametrize("spread", [1.0, 3.0, 6.0])
@pytest.mark.parametrize("seed", SEEDS)
def test_weighted_samples_are_assigned_like_repeated_samples(seed, spread):
    P, labels = make_points(seed, spread=spread)
    weight = np.random.default_rng(seed).integers(1, 4, len(P))
    often = np.repeat(np.arange(len(P)), weight)
    current = converge(P, labels, 3, weight.astype(float))
    current[:3] = [0, 1, 2]
    one = assign(P, 3, rng_of(0), n_init=0, current=current, sample_weight=weight.astype(float))
    other = assign(P[often], 3, rng_of(0), n_init=0, current=current[often])
    assert np.array_equal(one.labels[often], other.labels)
    np.testing.assert_allclose(one.centroids, other.centroids, atol=1e-10)
    assert one.inertia == pytest.approx(other.inertia)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_same_seed_gives_the_same_labels(seed):
    P = np.random.default_rng(seed).normal(size=(80, 3))
    one, other = (assign(P, 4, rng_of(seed), n_init=3) for _ in range(2))
    assert np.array_equal(one.labels, other.labels)
    assert one.inertia == other.inertia


def test_no_runs_and_no_labels_are_refused():
    with pytest.raises(ValueError, match="n_init=0"):
        assign(np.ones((3, 1)), 2, rng_of(0), n_init=0)


# Single runs -------------------------------------------------------------------------


def any_points(seed, m, r, k, weighted):
    """Points with more or less distinct clusters, some of them in the same place."""
    rng = np.random.default_rng(seed)
    P = rng.normal(size=(m, r)) + (seed % 3) * rng.normal(size=(k, r))[rng.integers(0, k, m)]
    P[: m // 10] = P[-1]
    return P, rng.uniform(0.1, 2, m) if weighted else None


def labels_of_scikit_learn(P, k, start, weight, seed):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return (
            KMeans(k, init=start, n_init=1, random_state=seed).fit(P, sample_weight=weight).labels_
        )


def points_of(P, weight):
    return assignment._Points(P, np.ones(len(P)) if weight is None else weight)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("m, r, k", [(30, 1, 3), (300, 2, 12), (257, 13, 9), (700, 8, 1)])
@pytest.mark.parametrize("seed", seeds(5, 30))
def test_a_run_gives_the_labels_of_scikit_learn(seed, m, r, k, weighted):
    P, weight = any_points(seed, m, r, k, weighted)
    points = points_of(P, weight)
    found = assignment._lloyd(points, assignment._chosen_centroids(points, k, seed))
    expected = labels_of_scikit_learn(P, k, "k-means++", weight, seed)
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("n_empty", [1, 2])
@pytest.mark.parametrize("seed", seeds(5, 30))
def test_empty_clusters_of_a_run_are_those_of_scikit_learn(seed, n_empty):
    P, _ = any_points(seed, 200, 3, 5, False)
    start = P[:5] + 0.0
    start[:n_empty] += 1e3 * (1 + np.arange(n_empty))[:, None]  # far from everything
    start[n_empty:] = P[20 : 25 - n_empty]
    found = assignment._lloyd(points_of(P, None), start)
    assert np.array_equal(found, labels_of_scikit_learn(P, 5, start, None, 0))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_parts_and_threads_do_not_change_what_k_means_finds(monkeypatch, seed, weighted):
    P, weight = any_points(seed, 900, 4, 6, weighted)

    def found(threads):
        with limited_threads(threads):
            return assign(P, 6, rng_of(seed), n_init=4, sample_weight=weight)

    whole = found(1)
    assert np.array_equal(found(2).labels, whole.labels)
    monkeypatch.setattr(assignment, "PART", 100)
    in_parts = found(1)
    assert np.array_equal(in_parts.labels, whole.labels)
    assert np.array_equal(found(2).centroids, in_parts.centroids)


# Two optima of k-means on a line: a broad cluster (0 to 10) and a few samples at 18.
# Whole, the broad cluster has the better margins; cut in two, the lower inertia.
LINE = np.concatenate([np.linspace(0, 10, 1000), np.full(30, 18.0)])[:, None]
WHOLE = np.repeat([0, 1], [1000, 30])
CUT = (LINE[:, 0] > 5).astype(np.intp)
LIMIT = 6500.0


def mean_margin(found):
    return margins(LINE, found.labels, found.centroids).mean()


def test_runs_are_compared_by_margin_not_by_inertia():
    whole = assign(LINE, 2, rng_of(0), n_init=0, current=WHOLE)
    cut = assign(LINE, 2, rng_of(0), n_init=0, current=CUT)
    assert mean_margin(whole) > mean_margin(cut)
    assert whole.inertia > LIMIT > cut.inertia
    found = assign(LINE, 2, rng_of(0), n_init=40, current=CUT)
    assert adjusted_rand_score(found.labels, WHOLE) == 1.0


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("current", [None, WHOLE])
def test_runs_are_compared_by_inertia_if_asked_to(current, unit):
    found = assign(unit * LINE, 2, rng_of(0), n_init=40, current=current, criterion="inertia")
    usual = KMeans(2, n_init=40, random_state=0).fit(LINE)
    assert found.inertia == pytest.approx(unit**2 * usual.inertia_, rel=1e-4)
    assert adjusted_rand_score(found.labels, WHOLE) < 0.5


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("seed", SEEDS)
def test_settled_labels_keep_their_numbers_by_inertia_too(seed, unit):
    P, labels = make_points(seed)
    current = np.array([2, 0, 1])[labels]
    found = assign(unit * P, 3, rng_of(seed), n_init=10, current=current, criterion="inertia")
    assert np.array_equal(found.labels, current)


def test_points_that_coincide_have_no_inertia_to_compare():
    found = assign(np.ones((6, 2)), 3, rng_of(0), n_init=5, criterion="inertia")
    assert found.inertia == 0
    assert (sizes_of(found.labels, 3) > 0).all()


@pytest.mark.parametrize("current", [None, WHOLE])
@pytest.mark.parametrize("seed", SEEDS)
def test_runs_beyond_the_largest_inertia_are_passed_over(seed, current):
    found = assign(LINE, 2, rng_of(seed), n_init=40, current=current, max_inertia=LIMIT)
    assert found.inertia <= LIMIT


def test_labels_within_the_largest_inertia_beat_better_margins_beyond_it():
    found = assign(LINE, 2, rng_of(0), n_init=40, current=CUT, max_inertia=LIMIT)
    assert found.inertia <= LIMIT
    assert adjusted_rand_score(found.labels, WHOLE) < 0.5


def test_an_inertia_equal_to_the_largest_is_allowed():
    cut = assign(LINE, 2, rng_of(0), n_init=0, current=CUT)
    found = assign(LINE, 2, rng_of(0), n_init=40, current=CUT, max_inertia=cut.inertia)
    assert np.array_equal(found.labels, cut.labels)


@pytest.mark.parametrize("seed", SEEDS)
def test_where_every_run_is_beyond_the_largest_inertia_the_best_margin_wins(seed):
    found = assign(LINE, 2, rng_of(seed), n_init=40, current=WHOLE, max_inertia=0.0)
    assert np.array_equal(found.labels, WHOLE)


# Many samples ------------------------------------------------------------------------


@pytest.fixture
def few_replicated(monkeypatch):
    monkeypatch.setattr(assignment, "MAX_REPLICATED", 60)


@pytest.fixture
def runs(monkeypatch):
    """How many samples each run of k-means was given."""
    seen = []
    real = assignment._lloyd

    def lloyd(points, centres):
        seen.append(len(points.rows))
        return real(points, centres)

    monkeypatch.setattr(assignment, "_lloyd", lloyd)
    return seen


@pytest.mark.parametrize("n_init", [1, 3])
def test_replicates_run_on_twenty_thousand_samples_at_most(runs, n_init):
    P = np.random.default_rng(0).normal(size=(20_001, 1))
    assign(P[:-1], 2, rng_of(0), n_init=n_init)
    assert runs == [20_000] * n_init
    runs.clear()
    assign(P, 2, rng_of(0), n_init=n_init)
    assert runs == [20_000] * n_init + [20_001]
    runs.clear()
    assign(P, 2, rng_of(0), n_init=0, current=(P[:, 0] > 0).astype(np.intp))
    assert runs == [20_001]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_replicates_on_a_sample_label_all_samples(few_replicated, seed, weighted):
    P, labels = make_points(seed, size=100)
    weight = np.random.default_rng(seed).uniform(0.2, 2, len(P)) if weighted else None
    found = assign(P, 3, rng_of(seed), n_init=5, sample_weight=weight)
    assert adjusted_rand_score(found.labels, labels) == 1.0
    np.testing.assert_allclose(found.centroids, centroids(P, found.labels, 3, weight), rtol=1e-12)


@pytest.mark.parametrize("distinct", [1, 2, 7])
def test_replicates_on_a_sample_leave_no_cluster_empty(few_replicated, distinct):
    rng = np.random.default_rng(0)
    P = rng.normal(size=(distinct, 2))[rng.integers(0, distinct, 200)]
    found = assign(P, 5, rng_of(0), n_init=3)
    assert (sizes_of(found.labels, 5) > 0).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_replicates_on_a_sample_leave_converged_labels_as_they_are(few_replicated, seed):
    P, labels = make_points(seed, size=100)
    found = assign(P, 3, rng_of(seed), n_init=10, current=labels)
    assert np.array_equal(found.labels, labels)


@pytest.mark.parametrize("seed", SEEDS)
def test_replicates_on_a_sample_are_compared_by_inertia_if_asked_to(monkeypatch, seed):
    monkeypatch.setattr(assignment, "MAX_REPLICATED", 800)
    found = assign(LINE, 2, rng_of(seed), n_init=40, current=WHOLE, criterion="inertia")
    assert found.inertia <= LIMIT


@pytest.mark.parametrize("current", [None, WHOLE, CUT])
@pytest.mark.parametrize("seed", SEEDS)
def test_replicates_on_a_sample_keep_to_the_largest_inertia(monkeypatch, seed, current):
    monkeypatch.setattr(assignment, "MAX_REPLICATED", 800)
    found = assign(LINE, 2, rng_of(seed), n_init=40, current=current, max_inertia=LIMIT)
    assert found.inertia <= LIMIT
