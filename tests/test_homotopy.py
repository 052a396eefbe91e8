"""The lasso path that the working-set solver follows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import lars_path_gram

from conftest import examples, make_clusters
from ksparse import KSparse
from ksparse.core.lasso_path import LassoPaths


def regression(seed, m, p, *, common=0.0, rank=2):
    """Gram matrix and correlations; `common` makes all features resemble each other."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, p)) + common * rng.normal(size=(m, 1))
    return X.T @ X, X.T @ rng.normal(size=(m, rank))


def violation(G, C, costs, W, penalty):
    """How far the optimality conditions are from holding, relative to the penalty."""
    R = C - G @ W
    paid = np.isfinite(costs) & (costs > 0)
    bound = penalty * np.where(paid, costs, 0.0)[:, None]
    outside = (np.abs(R) - bound)[paid].max(initial=0.0)
    used = W != 0
    inside = np.abs(R - bound * np.sign(W))[used & paid[:, None]].max(initial=0.0)
    free = np.abs(R[costs == 0]).max(initial=0.0)
    return max(outside, inside, free) / penalty


@settings(max_examples=examples(150, 1000), deadline=None)
@given(
    seed=st.integers(0, 10**6),
    m=st.integers(3, 60),
    p=st.integers(1, 40),
    common=st.sampled_from([0.0, 1.0, 10.0]),
    kind=st.sampled_from(["plain", "weighted", "mixed"]),
    shares=st.lists(st.floats(0.3, 0.999), min_size=1, max_size=12),
)
def test_the_optimality_conditions_hold_all_along_the_path(seed, m, p, common, kind, shares):
    G, C = regression(seed, m, p, common=common)
    rng = np.random.default_rng(seed)
    costs = np.ones(p) if kind == "plain" else rng.uniform(0.3, 3.0, p)
    if kind == "mixed" and p > 2:
        costs[:2] = 0.0, np.inf
    paths = LassoPaths(G, C, costs)
    penalty = paths.top
    for share in shares:
        penalty *= share
        if penalty < 1e-4 * paths.top or penalty == 0.0:
            break
        paths.go_to_penalty(penalty)
        assert violation(G, C, costs, paths.weights, penalty) < 1e-6


@pytest.mark.parametrize("common", [0.0, 3.0])
@pytest.mark.parametrize("seed", range(5))
def test_the_path_is_that_of_scikit_learn(seed, common):
    G, C = regression(seed, 40, 15, common=common, rank=1)
    alphas, _, coefs = lars_path_gram(C[:, 0], G, n_samples=1, method="lasso")
    paths = LassoPaths(G, C, np.ones(15))
    assert paths.top == pytest.approx(alphas[0])
    for alpha, coef in zip(alphas[1:-1], coefs.T[1:-1], strict=True):
        paths.go_to_penalty(alpha)
        np.testing.assert_allclose(paths.weights[:, 0], coef, atol=1e-8)


@pytest.mark.parametrize("seed", range(5))
def test_the_path_ends_at_least_squares(seed):
    G, C = regression(seed, 50, 12)
    paths = LassoPaths(G, C, np.ones(12))
    assert not paths.go_to_norm(np.inf).reached
    np.testing.assert_allclose(paths.weights, np.linalg.solve(G, C), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("seed", range(5))
def test_a_norm_is_met_exactly_and_in_one_way_however_it_is_reached(seed):
    G, C = regression(seed, 50, 20, common=1.0)
    full = np.abs(np.linalg.solve(G, C)).sum()
    for share in (0.01, 0.3, 0.9):
        paths = LassoPaths(G, C, np.ones(20))
        penalty, reached = paths.go_to_norm(share * full)
        assert reached
        assert np.abs(paths.weights).sum() == pytest.approx(share * full, rel=1e-9)
        assert violation(G, C, np.ones(20), paths.weights, penalty) < 1e-8


@pytest.mark.parametrize("common", [0.0, 3.0])
@pytest.mark.parametrize("seed", range(5))
def test_every_number_of_features_is_met(seed, common):
    G, C = regression(seed, 60, 25, common=common, rank=3)
    for n in range(1, 26):
        paths = LassoPaths(G, C, np.ones(25))
        found = paths.go_to_count(n)
        assert found.reached
        assert np.count_nonzero(paths.weights.any(axis=1)) == n
        assert violation(G, C, np.ones(25), paths.weights, found.penalty) < 1e-7


def test_a_feature_that_left_may_come_back_from_the_other_side():
    # It used to be kept out for good when a stage of the path ended in between.
    rng = np.random.default_rng(3)
    crossed = 0
    for _ in range(200):
        X = rng.normal(size=(16, 5)) + 3 * rng.normal(size=(16, 1))
        G, C = X.T @ X, X.T @ rng.normal(size=(16, 1))
        paths = LassoPaths(G, C, np.ones(5))
        signs = []
        for penalty in paths.top * 0.8 ** np.arange(1, 60):
            paths.go_to_penalty(penalty)
            assert violation(G, C, np.ones(5), paths.weights, penalty) < 1e-6
            signs.append(np.sign(paths.weights[:, 0]))
        history = np.array(signs)
        crossed += int(((history == 1).any(axis=0) & (history == -1).any(axis=0)).any())
    assert crossed > 5


@pytest.mark.parametrize("seed", range(3))
def test_copies_and_combinations_of_features_do_no_harm(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 6))
    X = np.hstack([X, X[:, :3], -X[:, 3:4], X[:, :1] + X[:, 1:2], np.zeros((40, 1))])
    G, C = X.T @ X, X.T @ rng.normal(size=(40, 2))
    paths = LassoPaths(G, C, np.ones(12))
    for penalty in paths.top * 0.7 ** np.arange(1, 30):
        paths.go_to_penalty(penalty)
        assert violation(G, C, np.ones(12), paths.weights, penalty) < 1e-6
    assert not paths.weights[11].any()
    assert np.linalg.matrix_rank(X[:, paths.weights[:, 0] != 0]) == np.count_nonzero(
        paths.weights[:, 0]
    )


@pytest.mark.parametrize("n_features", [30, 80, 150])
@pytest.mark.parametrize("seed", range(2))
def test_strongly_correlated_features_are_solved_to_the_last_digit(seed, n_features):
    # Coordinate descent gave up here: gaps of a percent, and ties that were none.
    X, _, _ = make_clusters(seed, sizes=(80, 60, 40), n_features=200)
    depth = np.random.default_rng(seed).normal(size=(180, 1))
    model = KSparse(3, n_features=n_features, init="spectral", random_state=0).fit(X + 5 * depth)
    assert model.n_features_selected_ == n_features
    assert model.gap_ < 1e-10
