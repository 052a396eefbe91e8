"""Several solvers of one convex problem: same answer, honest certificates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.linalg import hadamard
from scipy.optimize import nnls

from conftest import make_clusters, seeds
from ksparse.core.balls import project_l1
from ksparse.core.selectors import SELECTORS
from ksparse.core.solvers import SOLVERS
from ksparse.core.w_step import Problem
from ksparse.matrix import as_matrix
from ksparse.starts.spectral import decompose

select_features = SELECTORS["l1"].select

SEEDS = seeds(2, 4)
ITERATIVE = ("fista", "fista_paper", "projected_gradient")
COSTS = {
    "plain": lambda d, rng: np.ones(d),
    "weighted": lambda d, rng: rng.uniform(0.3, 3.0, d),
    "free": lambda d, rng: np.where(np.arange(d) % 7 == 1, 0.0, rng.uniform(0.5, 2.0, d)),
    "excluded": lambda d, rng: np.where(np.arange(d) % 5 == 2, np.inf, rng.uniform(0.5, 2.0, d)),
    "mixed": lambda d, rng: np.array([0.0, np.inf, 0.7, 1.3, 2.0])[np.arange(d) % 5],
}


def make_problem(seed, costs="plain", *, share=0.2, m=60, d=15, r=2, weighted=False, mixing=0.3):
    """A random problem; the radius is this share of the norm of the least-squares solution."""
    rng = np.random.default_rng([seed, d])
    mix = np.eye(d) + mixing / np.sqrt(d) * rng.normal(size=(d, d))
    X = rng.normal(size=(m, d)) @ mix + 0.2 * rng.normal(size=d)
    truth = np.zeros((d, r))
    truth[rng.permutation(d)[: d // 3 + 1]] = rng.normal(size=(d // 3 + 1, r))
    T = X @ truth + rng.normal(size=(m, r))
    weight = rng.uniform(0.2, 2.0, m) if weighted else None
    problem = problem_of(X, T, COSTS[costs](d, rng), weight=weight)
    return replace(problem, radius=share * problem.norm(least_squares(problem, T))), T


def problem_of(X, T, costs=None, *, weight=None, radius=1.0):
    matrix = as_matrix(X, sample_weight=weight)
    matrix = matrix.scaled(decompose(matrix, 1, np.random.RandomState(0)).norm)
    T = T - np.average(T, axis=0, weights=weight)
    squares = np.average(T**2, axis=0, weights=weight).sum() * matrix.total_weight
    costs = np.ones(X.shape[1]) if costs is None else costs
    return Problem(matrix, matrix.correlate(T), float(squares), radius, costs)


def dense(problem, T):
    """Data and targets in plain numpy, with the weights of the samples in them."""
    weight = problem.matrix.sample_weight
    Xc = problem.matrix.columns(np.arange(problem.matrix.shape[1]))
    T = T - np.average(T, axis=0, weights=weight)
    root = 1.0 if weight is None else np.sqrt(weight)[:, None]
    return Xc * root, T * root


def least_squares(problem, T):
    X, T = dense(problem, T)
    allowed = np.isfinite(problem.costs)
    W = np.zeros((X.shape[1], T.shape[1]))
    W[allowed] = np.linalg.lstsq(X[:, allowed], T, rcond=None)[0]
    return W


def objective(problem, T, W):
    X, T = dense(problem, T)
    return 0.5 * float(((T - X @ W) ** 2).sum())


def minimum(problem, T):
    """Lower bound of the minimum, and a feasible point that reaches it: by active sets.

    W = P - N with P, N >= 0 and the bound as one heavy equation: non-negative least
    squares, as exact as its linear algebra. Its solution minimises the Lagrangian at some
    multiplier, which gives the bound; moving the equation makes the bound sharp.
    """
    X, T = dense(problem, T)
    d, r = X.shape[1], T.shape[1]
    allowed = np.flatnonzero(np.isfinite(problem.costs))
    A = np.kron(np.eye(r), np.linalg.qr(np.column_stack([X[:, allowed], T]))[1])
    n = allowed.size
    right = A[:, [c * (n + r) + n + c for c in range(r)]].sum(axis=1)
    A = A[:, [c * (n + r) + j for c in range(r) for j in range(n)]]
    cost = np.tile(problem.costs[allowed], r)
    heavy = 10 * np.sqrt(problem.scale) / problem.radius
    equation = heavy * np.concatenate([cost, cost, [1.0]])
    rows = np.vstack([np.hstack([A, -A, np.zeros((A.shape[0], 1))]), equation])
    W, aim = np.zeros((d, r)), problem.radius
    for _ in range(5):
        x, _ = nnls(rows, np.append(right, heavy * aim), maxiter=10_000)
        W[allowed] = (x[: n * r] - x[n * r : 2 * n * r]).reshape(r, n).T
        excess = problem.norm(W) + x[-1] - problem.radius
        multiplier = heavy**2 * (excess + problem.radius - aim)
        aim -= excess
    residual = 0.5 * float(((T - X @ W) ** 2).sum())
    bound = residual + multiplier * (problem.norm(W) - problem.radius)
    W[problem.costs > 0] *= min(1.0, problem.radius / problem.norm(W))
    return bound, W


def solve(name, problem, start=None, *, tol=1e-6):
    effort = {} if name == "working_set" else {"max_iter": 20_000}
    return SOLVERS[name](problem, start, tol=tol, **effort)


def rows_of(weights):
    return np.flatnonzero(weights.any(axis=1))


@pytest.fixture(params=SOLVERS)
def solver(request):
    return request.param


@pytest.fixture(params=COSTS)
def costs(request):
    return request.param


# The problem -------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_objective_and_gradient_are_those_of_plain_numpy(seed, weighted, costs):
    problem, T = make_problem(seed, costs, weighted=weighted)
    W = np.random.default_rng(seed).normal(size=problem.correlation.shape) * 5
    found = problem.evaluate(W)
    X, targets = dense(problem, T)
    assert found.objective == pytest.approx(objective(problem, T, W), rel=1e-10)
    np.testing.assert_allclose(found.gradient, X.T @ (X @ W - targets), atol=1e-10 * 50)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_norm_counts_each_feature_at_its_cost(seed, costs):
    problem, _ = make_problem(seed, costs)
    W = np.random.default_rng(seed).normal(size=problem.correlation.shape)
    price = np.where(np.isinf(problem.costs), 0.0, problem.costs)
    assert problem.norm(W) == pytest.approx((price[:, None] * np.abs(W)).sum(), rel=1e-12)


@pytest.mark.parametrize("share", [0.05, 0.5])
@pytest.mark.parametrize("seed", range(12))
def test_the_gap_bounds_the_distance_to_the_minimum_anywhere_in_the_ball(seed, share, costs):
    problem, T = make_problem(seed, costs, share=share)
    least, best = minimum(problem, T)
    rng = np.random.default_rng(seed)
    for mix in (0.0, 0.5, 0.99, 1.0):
        W = rng.normal(size=best.shape)
        W[np.isinf(problem.costs)] = 0.0
        W[problem.costs > 0] *= problem.radius / problem.norm(W)
        W = problem.refit_free((1 - mix) * W + mix * best)
        excess = objective(problem, T, W) - least
        assert problem.evaluate(W).gap >= excess - 1e-9 * problem.scale


@pytest.mark.parametrize("seed", SEEDS)
def test_the_gap_is_what_its_definition_says_at_any_point(seed, costs):
    problem, T = make_problem(seed, costs)
    X, targets = dense(problem, T)
    W = np.random.default_rng(seed).normal(size=problem.correlation.shape) * 5
    W[np.isinf(problem.costs)] = 0.0
    gradient = X.T @ (X @ W - targets)
    paid = (problem.costs > 0) & np.isfinite(problem.costs)
    steepest = (np.abs(gradient[paid]) / problem.costs[paid, None]).max()
    expected = (gradient * W)[paid].sum() + problem.radius * steepest
    # What the free features gain by going to their optimum.
    step = np.linalg.lstsq(X[:, problem.free], targets - X @ W, rcond=None)[0]
    expected += ((X[:, problem.free] @ step) ** 2).sum() / 2
    assert expected > 0
    assert problem.evaluate(W).gap == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_gap_vanishes_at_the_minimum_only(seed, costs):
    problem, T = make_problem(seed, costs)
    _, best = minimum(problem, T)
    best = problem.refit_free(best)
    assert problem.evaluate(best).gap <= 1e-5 * problem.scale
    assert problem.evaluate(problem.refit_free(0.9 * best)).gap >= 1e-3 * problem.scale


@pytest.mark.parametrize("costs", ["free", "mixed"])
@pytest.mark.parametrize("seed", SEEDS)
def test_refitted_free_features_leave_no_gradient_and_the_rest_as_it_was(seed, costs):
    problem, _ = make_problem(seed, costs)
    W = np.random.default_rng(seed).normal(size=problem.correlation.shape)
    W[np.isinf(problem.costs)] = 0.0
    before = W.copy()
    refitted = problem.refit_free(W)
    assert np.abs(problem.evaluate(refitted).gradient[problem.free]).max() < 1e-11 * problem.scale
    assert np.array_equal(W, before)
    assert np.array_equal(refitted[problem.costs > 0], W[problem.costs > 0])


# All solvers -------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("share", [0.01, 0.2, 0.8])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_solution_is_feasible_and_as_close_to_the_minimum_as_its_gap_says(
    solver, seed, share, weighted, costs
):
    problem, T = make_problem(seed, costs, share=share, weighted=weighted)
    solution = solve(solver, problem)
    least, reached = minimum(problem, T)
    assert objective(problem, T, reached) - least <= 1e-9 * problem.scale  # a sharp reference
    assert problem.norm(solution.weights) <= problem.radius * (1 + 1e-9)
    assert not solution.weights[np.isinf(problem.costs)].any()
    excess = objective(problem, T, solution.weights) - least
    assert excess <= solution.gap + 1e-10 * problem.scale
    assert solution.gap <= 3e-6 * problem.scale


@pytest.mark.parametrize("seed", SEEDS)
def test_the_gap_is_that_of_the_weights_and_decides_on_convergence(solver, seed, costs):
    problem, _ = make_problem(seed, costs)
    for tol, effort in ((1e-2, 500), (1e-6, 2), (1e-6, 20)):
        solution = SOLVERS[solver](problem, tol=tol, max_iter=effort)
        assert solution.gap == pytest.approx(problem.evaluate(solution.weights).gap, rel=1e-9)
        assert solution.converged == (solution.gap <= tol * problem.scale)
        assert solution.n_iter <= effort


@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-6])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_solver_goes_on_until_it_has_converged(solver, seed, tol, costs):
    problem, _ = make_problem(seed, costs)
    assert solve(solver, problem, tol=tol).converged


@pytest.mark.parametrize("seed", SEEDS)
def test_all_solvers_agree_in_objective_and_weights(seed, costs):
    problem, T = make_problem(seed, costs)
    solutions = [solve(name, problem, tol=1e-8) for name in SOLVERS]
    for one in solutions:
        for other in solutions:
            difference = objective(problem, T, one.weights) - objective(problem, T, other.weights)
            assert difference <= one.gap + 1e-12 * problem.scale
            scale = np.abs(one.weights).max()
            np.testing.assert_allclose(one.weights, other.weights, atol=2e-3 * scale)


@pytest.mark.parametrize("seed", SEEDS)
def test_at_the_solution_one_multiplier_serves_all_features(solver, seed, costs):
    problem, T = make_problem(seed, costs)
    W = solve(solver, problem, tol=1e-10).weights
    X, targets = dense(problem, T)
    slope = X.T @ (targets - X @ W)
    paid = (problem.costs > 0) & np.isfinite(problem.costs)
    price = problem.costs[paid, None]
    per_cost, active = slope[paid] / price, np.abs(W[paid]) > 1e-4 * np.abs(W).max()
    multiplier = np.abs(per_cost[active]).mean()
    assert multiplier > 0
    assert problem.norm(W) == pytest.approx(problem.radius, rel=1e-5)
    expected = multiplier * np.sign(W[paid][active])
    np.testing.assert_allclose(per_cost[active], expected, rtol=2e-3)
    assert np.abs(per_cost).max() <= multiplier * (1 + 2e-3)
    assert np.abs(slope[problem.free]).max(initial=0.0) <= 1e-3 * multiplier


@pytest.mark.parametrize("seed", SEEDS)
def test_a_ball_that_does_not_bind_gives_least_squares(solver, seed, costs):
    problem, T = make_problem(seed, costs, share=2.0)
    W = solve(solver, problem, tol=1e-10).weights
    expected = least_squares(problem, T)
    np.testing.assert_allclose(W, expected, atol=1e-3 * np.abs(expected).max())
    assert objective(problem, T, W) == pytest.approx(objective(problem, T, expected), rel=1e-8)


@pytest.mark.parametrize("radius", [1e6, np.inf])
def test_a_huge_or_infinite_radius_gives_least_squares(solver, radius, costs):
    problem, T = make_problem(0, costs, m=200, d=6)
    problem = replace(problem, radius=radius)
    effort = {} if solver == "working_set" else {"max_iter": 1000}
    W = SOLVERS[solver](problem, **effort).weights
    expected = least_squares(problem, T)
    np.testing.assert_allclose(W, expected, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("seed", SEEDS)
def test_a_start_at_the_solution_converges_at_once(solver, seed, costs):
    problem, _ = make_problem(seed, costs)
    solution = solve("working_set", problem, tol=1e-8)
    again = solve(solver, problem, solution.weights, tol=1e-6)
    assert again.converged
    assert again.n_iter == (1 if solver == "working_set" else 0)
    scale = np.abs(solution.weights).max()
    np.testing.assert_allclose(again.weights, solution.weights, atol=1e-3 * scale)


@pytest.mark.parametrize("seed", SEEDS)
def test_any_start_leads_to_the_same_minimum(solver, seed, costs):
    problem, T = make_problem(seed, costs)
    start = 10 * np.random.default_rng(seed).normal(size=problem.correlation.shape)
    before = start.copy()
    solution = solve(solver, problem, start)
    least, _ = minimum(problem, T)
    assert objective(problem, T, solution.weights) - least <= 3e-6 * problem.scale
    assert problem.norm(solution.weights) <= problem.radius * (1 + 1e-9)
    assert not solution.weights[np.isinf(problem.costs)].any()
    assert np.array_equal(start, before)


def test_nothing_to_explain_gives_zero_weights(solver, costs):
    problem, _ = make_problem(0, costs)
    problem = replace(problem, correlation=0 * problem.correlation, target_norm2=0.0)
    solution = SOLVERS[solver](problem)
    assert solution.converged
    assert not solution.weights.any()


@pytest.mark.parametrize("seed", SEEDS)
def test_sparse_and_dense_data_have_the_same_solution(solver, seed):
    X, labels, _ = make_clusters(seed, sizes=(30, 20, 20), n_features=25, zeros=0.6)
    T = np.eye(3)[labels]
    found = [
        solve(solver, problem_of(kind(X), T, radius=8.0), tol=1e-9).weights
        for kind in (np.asarray, sp.csr_array, sp.csc_array)
    ]
    scale = np.abs(found[0]).max()
    np.testing.assert_allclose(found[1], found[0], atol=1e-6 * scale)
    np.testing.assert_allclose(found[2], found[0], atol=1e-6 * scale)


@pytest.mark.parametrize("seed", SEEDS)
def test_weighted_samples_are_repeated_samples(solver, seed):
    rng = np.random.default_rng(seed)
    X, T, weight = rng.normal(size=(40, 8)), rng.normal(size=(40, 2)), rng.integers(0, 4, 40)
    often = np.repeat(np.arange(40), weight)
    weighted = problem_of(X, T, weight=weight.astype(float), radius=2.0)
    repeated = problem_of(X[often], T[often], radius=2.0)
    one, other = (solve(solver, problem, tol=1e-10).weights for problem in (weighted, repeated))
    np.testing.assert_allclose(one, other, atol=1e-4 * np.abs(one).max())


# What is particular to each ----------------------------------------------------------


@pytest.mark.parametrize("share", [0.05, 0.5, 2.0])
@pytest.mark.parametrize("seed", SEEDS)
def test_projected_gradient_never_raises_the_objective(seed, share, costs):
    problem, _ = make_problem(seed, costs, share=share, weighted=True)
    history = SOLVERS["projected_gradient"](problem, tol=0.0, max_iter=200).objective_history
    assert history.size > 2
    assert np.diff(history).max() <= 1e-12 * problem.scale


@pytest.mark.parametrize("n_iter", [3, 30, 200])
@pytest.mark.parametrize("seed", SEEDS)
def test_fista_returns_the_best_point_it_saw(seed, n_iter, costs):
    problem, T = make_problem(seed, costs, share=0.6)
    solution = SOLVERS["fista"](problem, tol=0.0, max_iter=n_iter)
    history = solution.objective_history
    reached = objective(problem, T, solution.weights)
    assert history.size >= n_iter + 1
    assert reached == pytest.approx(history.min(), rel=1e-11)


def test_fista_does_not_always_fall_so_its_best_point_is_a_choice():
    problem, _ = make_problem(0, share=0.9)
    history = SOLVERS["fista"](problem, tol=0.0, max_iter=400).objective_history
    assert np.diff(history).max() > 0


@pytest.mark.parametrize("n_iter", [1, 7, 40])
@pytest.mark.parametrize("seed", SEEDS)
def test_fista_leaves_free_features_at_their_optimum_wherever_it_ends(seed, n_iter):
    problem, _ = make_problem(seed, "free", share=0.6)
    solution = SOLVERS["fista"](problem, tol=0.0, max_iter=n_iter)
    gradient = problem.evaluate(solution.weights).gradient
    assert np.abs(gradient[problem.free]).max() < 1e-10 * problem.scale
    assert solution.objective_history.size == n_iter + 2  # refitted once


@pytest.mark.parametrize("tol", [1e-2, 1e-4])
@pytest.mark.parametrize("seed", SEEDS)
def test_fista_leaves_free_features_at_their_optimum_where_it_converges(seed, tol):
    problem, _ = make_problem(seed, "free", share=0.6)
    solution = SOLVERS["fista"](problem, tol=tol, max_iter=5_000)
    assert solution.converged
    gradient = problem.evaluate(solution.weights).gradient
    assert np.abs(gradient[problem.free]).max() < 1e-10 * problem.scale


@pytest.mark.parametrize("tol", [1e-2, 1e-3, 1e-4, 1e-5])
@pytest.mark.parametrize("seed", range(10))
def test_fista_ends_at_the_first_point_with_a_small_gap(monkeypatch, seed, tol):
    problem, _ = make_problem(seed, share=0.9, mixing=1.0)
    gaps, real = [], Problem.evaluate

    def evaluate(self, W):
        found = real(self, W)
        gaps.append(found.gap)
        return found

    monkeypatch.setattr(Problem, "evaluate", evaluate)
    solution = SOLVERS["fista"](problem, tol=tol, max_iter=5_000)
    assert solution.converged
    assert solution.gap == gaps[-1] <= tol * problem.scale < min(gaps[:-1])


@pytest.mark.parametrize("seed", SEEDS)
def test_fista_returns_its_last_point_if_asked_to(seed):
    problem, T = make_problem(seed, share=0.9)
    solution = SOLVERS["fista"](problem, tol=0.0, max_iter=60, last=True)
    assert objective(problem, T, solution.weights) == pytest.approx(solution.objective_history[-1])
    assert solution.gap == pytest.approx(problem.evaluate(solution.weights).gap, rel=1e-9)


def algorithm_2(X, T, W, n_max, gamma, eta):
    """The pseudo-code of the paper, line by line; returns its W and its last W_new."""
    t = 1.0
    for n in range(n_max + 1):
        V = W - gamma * X.T @ (X @ W - T)
        W_new = project_l1(V, eta)
        t_new = (n + 5) / 4
        factor = 1 + (t - 1) / t_new
        W = (1 - factor) * W + factor * W_new
        t = t_new
    return W, W_new


@pytest.mark.parametrize("n_max", [0, 1, 2, 9, 49])
@pytest.mark.parametrize("seed", SEEDS)
def test_fista_of_the_paper_is_its_pseudo_code(seed, n_max):
    problem, T = make_problem(seed, share=0.6, mixing=1.0)
    X, targets = dense(problem, T)
    first = np.full(problem.correlation.shape, 0.01)
    _, expected = algorithm_2(X, targets, first, n_max, 1.0, problem.radius)
    solution = SOLVERS["fista_paper"](problem, first, tol=0.0, max_iter=n_max + 1)
    np.testing.assert_allclose(solution.weights, expected, atol=1e-11 * np.abs(expected).max())
    assert solution.n_iter == n_max + 1
    assert objective(problem, T, solution.weights) == pytest.approx(solution.objective_history[-1])


@pytest.mark.parametrize("seed", SEEDS)
def test_the_point_that_the_paper_returns_may_lie_outside_the_ball(seed):
    problem, T = make_problem(seed)
    X, targets = dense(problem, T)
    first = np.full(problem.correlation.shape, 0.01)
    outside, inside = algorithm_2(X, targets, first, 3, 1.0, problem.radius)
    assert problem.norm(outside) > problem.radius * 1.001
    assert problem.norm(inside) <= problem.radius * (1 + 1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_update_of_the_paper_leads_to_the_optimum_but_is_not_fista(seed):
    problem = make_problem(seed, d=20, m=60, share=0.5, mixing=2.0)[0]
    effort = {
        name: SOLVERS[name](problem, tol=1e-4, max_iter=20_000)
        for name in ("projected_gradient", "fista_paper", "fista")
    }
    assert all(solution.converged for solution in effort.values())
    plain, paper, fast = (solution.n_iter for solution in effort.values())
    assert fast < 0.8 * paper
    assert 0.4 * plain < paper < 0.6 * plain


@pytest.mark.parametrize("threshold", [0.01, 0.5])
@pytest.mark.parametrize("name", ["fista", "fista_paper"])
@pytest.mark.parametrize("seed", SEEDS)
def test_fista_with_a_threshold_has_no_smaller_weights(seed, name, threshold):
    problem, _ = make_problem(seed, "weighted")
    W = SOLVERS[name](problem, tol=1e-6, max_iter=300, threshold=threshold).weights
    plain = SOLVERS[name](problem, tol=1e-6, max_iter=300).weights
    assert np.abs(W[W != 0]).min() >= threshold
    assert problem.norm(W) <= problem.radius * (1 + 1e-9)
    assert np.abs(W - plain).max() > 0 or np.abs(plain[plain != 0]).min() >= threshold


@pytest.mark.parametrize("name", ITERATIVE)
@pytest.mark.parametrize("size", [0.1, 100.0])
def test_the_first_iterate_is_the_start_or_its_projection(name, size):
    problem, T = make_problem(1)
    start = np.random.default_rng(1).normal(size=problem.correlation.shape)
    start *= size * problem.radius / problem.norm(start)
    solution = SOLVERS[name](problem, start, max_iter=0)
    assert solution.n_iter == 0
    assert solution.objective_history[0] == pytest.approx(objective(problem, T, solution.weights))
    if size < 1:
        assert np.array_equal(solution.weights, start)
    else:
        assert problem.norm(solution.weights) == pytest.approx(problem.radius, rel=1e-12)


@pytest.mark.parametrize("share", [0.02, 0.3, 1.5])
@pytest.mark.parametrize("shape", [(60, 15), (200, 30), (30, 300), (60, 1000)])
@pytest.mark.parametrize("seed", range(3))
def test_working_set_reaches_a_gap_of_a_millionth_when_asked(seed, shape, share):
    problem, _ = make_problem(seed, "weighted", m=shape[0], d=shape[1], r=3, share=share)
    solution = SOLVERS["working_set"](problem, tol=1e-6)
    assert solution.converged
    assert solution.gap <= 1e-6 * problem.scale
    assert problem.norm(solution.weights) <= problem.radius * (1 + 1e-12)


@pytest.mark.parametrize("share", [0.02, 0.3, 1.5])
@pytest.mark.parametrize("seed", SEEDS)
def test_working_set_reaches_a_gap_of_a_millionth_on_correlated_features(seed, share):
    problem, T = make_problem(seed, "weighted", m=200, d=30, r=3, share=share, mixing=2.0)
    assert np.linalg.cond(dense(problem, T)[0]) < 1000
    assert SOLVERS["working_set"](problem, tol=1e-6).converged


@pytest.mark.parametrize("seed", SEEDS)
def test_the_most_correlated_features_are_looked_at_first(seed):
    problem, _ = make_problem(seed, m=150, d=500, r=2, share=0.02, mixing=0.0)
    assert SOLVERS["working_set"](problem, tol=1e-8).n_iter == 1
    for n in (1, 8, 20):
        quick, whole = (select_features(problem, n, exact=exact) for exact in (False, True))
        assert rows_of(quick.solution.weights).tolist() == rows_of(whole.solution.weights).tolist()


@pytest.mark.parametrize("seed", SEEDS)
def test_working_set_finds_features_that_only_matter_given_others(seed):
    # The last feature is uncorrelated with the target: it enters only behind the first.
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(np.column_stack([np.ones(900), rng.normal(size=(900, 401))]))[0][:, 1:]
    hidden, target = Q[:, 0], Q[:, 1]
    noise = Q[:, 2:] + 0.05 * target[:, None]
    X = np.column_stack([target + hidden, noise, hidden])
    problem = problem_of(X, target[:, None], radius=8.0)
    ranks = np.argsort(-np.abs(problem.correlation[:, 0]))
    assert ranks[-1] == X.shape[1] - 1
    solution = SOLVERS["working_set"](problem, tol=1e-8)
    assert solution.converged
    assert solution.n_iter > 1
    assert solution.weights[-1, 0] < -1e-3
    assert problem.evaluate(solution.weights).gap <= 1e-8 * problem.scale


# A number of features instead of a radius --------------------------------------------


@pytest.mark.parametrize("costs", ["plain", "weighted"])
@pytest.mark.parametrize("seed", range(6))
def test_every_number_of_features_is_met_exactly(seed, costs):
    problem, _ = make_problem(seed, costs)
    for n in range(1, 16):
        selection = select_features(problem, n)
        W = selection.solution.weights
        assert rows_of(W).size == n
        assert not selection.tied
        assert selection.solution.converged
        assert np.isin(rows_of(W), selection.columns).all()


@pytest.mark.parametrize("n", [1, 4, 9, 14])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_radius_returned_is_the_norm_and_gives_the_same_weights_again(seed, n, costs):
    problem, T = make_problem(seed, costs)
    n = min(n + 3, int(np.isfinite(problem.costs).sum()))  # more than the free features
    selection = select_features(problem, n)
    W = selection.solution.weights
    assert problem.norm(W) == pytest.approx(selection.radius, rel=1e-9)
    there = replace(problem, radius=selection.radius)
    least, _ = minimum(there, T)
    assert objective(problem, T, W) - least <= selection.solution.gap + 1e-10 * problem.scale
    assert selection.solution.gap <= 1e-6 * problem.scale
    again = solve("working_set", there, tol=1e-9).weights
    np.testing.assert_allclose(again, W, atol=1e-4 * np.abs(W).max())


@pytest.mark.parametrize("n", [1, 5, 20, 60])
@pytest.mark.parametrize("shape", [(100, 600), (400, 250)])
def test_the_number_is_met_among_many_features_with_a_certificate_on_all(shape, n):
    problem, _ = make_problem(0, "weighted", m=shape[0], d=shape[1], r=3)
    selection = select_features(problem, n)
    assert rows_of(selection.solution.weights).size == n
    assert not selection.tied
    there = replace(problem, radius=selection.radius)
    assert there.evaluate(selection.solution.weights).gap <= 1e-4 * problem.scale


@pytest.mark.parametrize("seed", SEEDS)
def test_the_penalty_returned_is_the_multiplier_of_the_ball(seed):
    problem, T = make_problem(seed, "weighted")
    selection = select_features(problem, 6)
    W = selection.solution.weights
    X, targets = dense(problem, T)
    per_cost = np.abs(X.T @ (targets - X @ W)) / problem.costs[:, None]
    np.testing.assert_allclose(per_cost[W != 0], selection.penalty, rtol=1e-3)
    assert per_cost.max() <= selection.penalty * (1 + 1e-3)


@pytest.mark.parametrize("factor", [1e-3, 0.5, 0.99, 1.0, 2.0, 1e3])
@pytest.mark.parametrize("n", [1, 6, 15])
def test_a_start_or_a_first_working_set_does_not_change_the_solution(n, factor):
    problem, T = make_problem(5, "weighted")
    first = select_features(problem, 6)
    again = select_features(
        problem,
        n,
        factor * first.solution.weights,
        columns=first.columns[:3],
    )
    W = again.solution.weights
    assert rows_of(W).size == n
    assert not again.tied
    least, _ = minimum(replace(problem, radius=again.radius), T)
    assert objective(problem, T, W) - least <= 1e-6 * problem.scale


@pytest.mark.parametrize("costs", ["plain", "weighted", "free"])
@pytest.mark.parametrize("seed", SEEDS)
def test_an_inexact_selection_has_the_number_too(seed, costs):
    problem, _ = make_problem(seed, costs, d=40, m=120)
    for n in (6, 7, 13, 25, 40):
        selection = select_features(problem, n, exact=False)
        assert rows_of(selection.solution.weights).size == n
        assert np.isnan(selection.solution.gap)
        assert not selection.solution.converged


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("costs", ["free", "excluded", "mixed"])
@pytest.mark.parametrize("seed", SEEDS)
def test_free_features_are_always_selected_and_excluded_ones_never(seed, costs, exact):
    problem, _ = make_problem(seed, costs, d=20)
    free, allowed = problem.free, np.flatnonzero(np.isfinite(problem.costs))
    for n in range(free.size + 1, allowed.size + 1):
        selected = rows_of(select_features(problem, n, exact=exact).solution.weights)
        assert selected.size == n
        assert np.isin(free, selected).all()
        assert np.isin(selected, allowed).all()


@pytest.mark.parametrize("exact", [True, False])
def test_a_free_feature_of_little_weight_is_not_cut(exact):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 60))
    X -= X.mean(axis=0)
    X[:, 0] -= X[:, 1:] @ np.linalg.lstsq(X[:, 1:], X[:, 0], rcond=None)[0]
    T = X[:, 1:] @ rng.normal(size=(59, 2)) + rng.normal(size=(200, 2))
    T -= np.outer(X[:, 0], X[:, 0] @ T / (X[:, 0] @ X[:, 0]))
    T += 1e-7 * X[:, :1]  # all that the free feature explains
    problem = problem_of(X, T, np.where(np.arange(60) == 0, 0.0, 1.0))
    for n in range(20, 61):
        selected = rows_of(select_features(problem, n, exact=exact).solution.weights)
        assert selected.size == n
        assert selected[0] == 0


@pytest.mark.parametrize("costs", ["free", "mixed"])
@pytest.mark.parametrize("seed", SEEDS)
def test_as_many_features_as_are_free_are_the_free_ones_at_their_optimum(seed, costs):
    problem, _ = make_problem(seed, costs)
    selection = select_features(problem, problem.free.size)
    W = selection.solution.weights
    assert rows_of(W).tolist() == problem.free.tolist()
    assert np.abs(problem.evaluate(W).gradient[problem.free]).max() <= 1e-9 * problem.scale
    assert not selection.tied
    assert selection.radius <= 1e-6 * np.abs(W).max()


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("n, tied", [(1, 0), (2, 1), (3, 1), (4, 0), (5, 1), (6, 0), (7, 0)])
def test_features_that_enter_together_are_a_tie_cut_to_the_number(n, tied, exact):
    rng = np.random.default_rng(0)
    X = np.linalg.qr(np.column_stack([np.ones(40), rng.normal(size=(40, 7))]))[0][:, 1:]
    strength = np.array([3.0, 2.0, -2.0, 2.0, 1.0, -1.0, 0.5])  # orthogonal: the order of entry
    problem = problem_of(X, X @ strength[:, None])
    selection = select_features(problem, n, exact=exact)
    selected = rows_of(selection.solution.weights)
    assert selected.size == n
    assert selection.tied == bool(tied)
    assert np.abs(strength[selected]).min() >= np.sort(np.abs(strength))[::-1][n - 1]
    if exact:  # the certificate is that of what is returned, also after the cut
        at_radius = replace(problem, radius=selection.radius)
        gap = at_radius.evaluate(selection.solution.weights).gap
        assert selection.solution.gap == pytest.approx(gap, abs=1e-12)
        assert selection.solution.converged == (not tied)
        assert (gap > 1e-3 * problem.scale) == bool(tied)


@pytest.mark.parametrize("copies", [2, 3])
@pytest.mark.parametrize("seed", range(6))
def test_duplicated_features_are_a_tie_or_share_a_weight_and_never_exceed_the_number(seed, copies):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 8))
    T = X[:, :4] @ rng.normal(size=(4, 2)) + 0.3 * rng.normal(size=(60, 2))
    problem = problem_of(np.tile(X, copies), T)
    for n in range(1, 8 * copies + 1):
        selection = select_features(problem, n)
        norms = np.linalg.norm(selection.solution.weights, axis=1)
        assert np.count_nonzero(norms) == n
        # A weight that is rounding only does not make a feature selected.
        assert selection.tied or norms[norms > 0].min() > 1e-8 * norms.max()


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("size", [1e-6, 1.0])
def test_only_copies_share_a_weight_not_all_of_the_same_size(size, sign):
    Q = hadamard(8).astype(float)[:, 1:4]  # orthogonal without any rounding
    # A large feature that is shut out, the target, a feature of the target's size, a copy.
    X = np.column_stack([Q[:, 0], size * Q[:, 1], size * Q[:, 2], sign * size * Q[:, 1]])
    costs = np.array([np.inf, 1.0, 1.0, 1.0])
    problem = problem_of(X, Q[:, 1:2], costs)
    selection = select_features(problem, 3, columns=np.arange(1, 4))
    W = selection.solution.weights[:, 0]
    assert np.flatnonzero(W).tolist() == [1, 3]
    assert W[1] == pytest.approx(sign * W[3])
    assert selection.tied


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("seed", SEEDS)
def test_fewer_informative_features_than_asked_for_are_all_selected_and_a_tie(seed, exact):
    rng = np.random.default_rng(seed)
    X = np.zeros((50, 12))
    X[:, [2, 5, 9]] = rng.normal(size=(50, 3))
    X[:, 4] = 3.3
    problem = problem_of(X, X[:, [2, 5, 9]] @ rng.normal(size=(3, 2)))
    for n in (4, 7, 12):
        selection = select_features(problem, n, exact=exact)
        assert rows_of(selection.solution.weights).tolist() == [2, 5, 9]
        assert selection.tied
        assert selection.penalty < 1e-8 * np.abs(problem.correlation).max()  # the end of the path
    assert not select_features(problem, 3).tied


def test_no_correlation_at_all_selects_nothing_and_is_a_tie():
    problem, _ = make_problem(0)
    problem = replace(problem, correlation=0 * problem.correlation)
    selection = select_features(problem, 3)
    assert not selection.solution.weights.any()
    assert selection.radius == 0
    assert selection.tied


def wide(seed, share=0.3):
    """More features than a first working set holds, many of them of use: several rounds."""
    return make_problem(seed, m=150, d=500, r=2, share=share, mixing=1.0)[0]


def test_without_a_tolerance_the_answer_is_near_the_optimum():
    problem = wide(0)
    solution = SOLVERS["working_set"](problem)
    best = SOLVERS["working_set"](problem, tol=1e-12)
    found, least = (problem.evaluate(each.weights)[0] for each in (solution, best))
    assert found - least <= 1.01e-4 * problem.scale
    assert solution.converged
    assert solution.n_iter > 1  # a looser tolerance would have stopped before


@pytest.mark.parametrize("seed", SEEDS)
def test_as_many_rounds_as_allowed_and_no_more(seed):
    problem = wide(seed)
    whole = SOLVERS["working_set"](problem, tol=1e-12)
    assert whole.n_iter > 2  # so that there is something to cut
    for most in (1, 2):
        part = SOLVERS["working_set"](problem, tol=1e-12, max_iter=most)
        assert part.n_iter == most
        assert len(part.objective_history) == most
        assert not part.converged
    assert select_features(problem, 90, max_iter=1).solution.n_iter == 1


@pytest.mark.parametrize("seed", SEEDS)
def test_momentum_is_worth_its_name(seed):
    """The accelerated steps need far fewer iterations than plain ones for the same gap."""
    problem = make_problem(seed, d=20, m=60, share=0.5, mixing=2.0)[0]
    plain = SOLVERS["projected_gradient"](problem, tol=1e-4, max_iter=20_000)
    fast = SOLVERS["fista"](problem, tol=1e-4, max_iter=20_000)
    assert fast.converged
    assert fast.n_iter < 0.6 * plain.n_iter


@pytest.mark.parametrize("costs", list(COSTS))
@pytest.mark.parametrize("seed", SEEDS)
def test_the_gap_bounds_the_distance_to_the_optimum_anywhere_in_the_ball(seed, costs):
    problem = make_problem(seed, costs)[0]
    least = problem.evaluate(SOLVERS["working_set"](problem, tol=1e-12).weights)[0]
    rng = np.random.default_rng(seed)
    for size in (0.0, 0.3, 1.0, 5.0):
        W = size * rng.normal(size=problem.correlation.shape)
        W[~np.isfinite(problem.costs)] = 0.0
        norm = problem.norm(W)
        if norm > problem.radius:
            W[problem.costs > 0] *= problem.radius / norm
        value, _, gap = problem.evaluate(W)
        assert np.isfinite(gap)
        assert value - least <= gap * (1 + 1e-9) + 1e-12
