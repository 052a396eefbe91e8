"""One new class and one line in a registry: another ball, selector, solver, target rule, start."""

from __future__ import annotations

import numpy as np
import pytest

from conftest import make_clusters
from ksparse import KSparse, feature_path
from ksparse.core.balls import BALLS, Ball
from ksparse.core.selectors import SELECTORS
from ksparse.core.selectors.l1 import L1Selector
from ksparse.core.solvers import SOLVERS
from ksparse.core.targets import TARGETS, EmbeddingTargets
from ksparse.core.w_step import Selection, Solution, Solver, refit
from ksparse.starts import STARTS, register_start

X, TRUTH, MARKERS = make_clusters(0)


class Euclidean(Ball):
    """||W||_F <= radius: shrinks, and selects nothing."""

    def project(self, V, radius, costs):
        norm = self.norm(V, costs)
        return V if norm <= radius else V * (radius / norm)

    def norm(self, W, costs):
        return float(np.linalg.norm(W))

    def dual_norm(self, G, costs):
        return float(np.linalg.norm(G))


def test_another_ball(monkeypatch):
    monkeypatch.setitem(BALLS, "euclidean", Euclidean())
    given = {"eta": 3.0, "init": "spectral", "relax": False, "random_state": 0}
    models = [
        KSparse(3, ball="euclidean", solver=solver, solver_tol=1e-7, **given).fit(X)
        for solver in ("fista", "projected_gradient")
    ]
    for model in models:
        assert model.n_features_selected_ == X.shape[1]
        assert model.gap_ <= 1e-7
        assert np.linalg.norm(model.l1_weights_) == pytest.approx(3.0, rel=1e-6)
    np.testing.assert_allclose(models[0].weights_, models[1].weights_, atol=1e-3)
    with pytest.raises(ValueError, match=r"solver='working_set' solves on the ball l1 only"):
        KSparse(3, ball="euclidean", eta=3.0).fit(X)
    with pytest.raises(ValueError, match=r"selector='auto' selects on the ball l1 only.*give eta"):
        KSparse(3, ball="euclidean", solver="fista", n_features=5).fit(X)


def test_a_path_of_radii_takes_another_ball(monkeypatch):
    monkeypatch.setitem(BALLS, "euclidean", Euclidean())
    given = {"ball": "euclidean", "solver": "fista", "init": "spectral", "relax": False}
    path = feature_path(X, 3, etas=[1.0, 3.0], random_state=0, **given)
    np.testing.assert_array_equal(path.columns["eta"], [1.0, 3.0])
    np.testing.assert_array_equal(path.columns["n_features"], [X.shape[1]] * 2)
    assert (path.columns["gap"] <= 1e-4).all()
    with pytest.raises(ValueError, match="selector='auto' selects on the ball l1 only"):
        feature_path(X, 3, n_features=[2, 5], random_state=0, **given)


class LargestVariance(L1Selector):
    """The l1 selector, among the features of largest variance only."""

    radius_determines_support = False

    def select(self, problem, n_features, start=None, **options):
        variance = problem.matrix.variance * (problem.costs < np.inf)
        small = np.argsort(-variance, kind="stable")[n_features:]
        costs = problem.costs.copy()
        costs[small] = np.inf
        problem = type(problem)(
            problem.matrix, problem.correlation, problem.target_norm2, problem.radius, costs
        )
        return super().select(problem, n_features, None, tol=options["tol"], exact=True)


def test_another_selector(monkeypatch):
    monkeypatch.setitem(SELECTORS, "variance", LargestVariance())
    model = KSparse(3, n_features=8, selector="variance", random_state=0).fit(X)
    largest = np.argsort(-X.var(axis=0))[:8]
    assert set(np.flatnonzero(model.get_support())) == set(largest)


class MostCorrelated:
    """Least squares on the features most correlated with the targets: no ball, no path."""

    balls = None
    radius_determines_support = False
    in_loops = True

    def order(self, problem):
        size = np.linalg.norm(problem.correlation, axis=1) * (problem.costs < np.inf)
        return np.argsort(-size, kind="stable")

    def select(self, problem, n_features, start=None, *, columns=None, tol=1e-4, exact=True):
        chosen = np.sort(self.order(problem)[:n_features])
        W = refit(problem, chosen, 0.0)
        solution = Solution(W, np.array([]), 0.0, 1, True)
        return Selection(solution, problem.norm(W), 0.0, chosen, False)

    def select_path(self, problem, counts):
        for count in counts:
            yield np.sort(self.order(problem)[:count])

    def candidates(self, problem, n_candidates):
        return np.sort(self.order(problem)[:n_candidates])


@pytest.mark.parametrize("solver", ["working_set", "fista"])
@pytest.mark.parametrize("relax", [True, False])
def test_a_selector_written_from_scratch_keeps_its_number_with_every_solver(
    monkeypatch, solver, relax
):
    monkeypatch.setitem(SELECTORS, "correlated", MostCorrelated())
    given = {"n_features": 7, "selector": "correlated", "random_state": 0, "relax": relax}
    model = KSparse(3, solver=solver, **given).fit(X)
    assert model.n_features_selected_ == 7
    assert MARKERS[model.get_support()].all()


def test_another_solver(monkeypatch):
    called = []

    def exact(problem, start=None, *, tol=1e-4, max_iter=20, ridge=0.0):
        called.append((tol, ridge))
        answer = SOLVERS["working_set"](problem, start, tol=tol)
        return Solution(answer.weights, answer.objective_history, answer.gap, 1, answer.converged)

    monkeypatch.setitem(SOLVERS, "mine", Solver(exact, options=("ridge",), balls=("l1",)))
    given = {"n_features": 10, "random_state": 0}
    mine, plain = (KSparse(3, solver=s, **given).fit(X) for s in ("mine", "working_set"))
    assert called
    assert set(called) == {(1e-4, 0.3)}
    np.testing.assert_array_equal(mine.labels_, plain.labels_)
    np.testing.assert_allclose(mine.weights_, plain.weights_, atol=1e-9)


class LargerTargets(EmbeddingTargets):
    """The usual targets, three times as far out."""

    def targets(self, *arguments):
        return 3 * super().targets(*arguments)


def test_another_target_rule(monkeypatch):
    monkeypatch.setitem(TARGETS, "larger", LargerTargets())
    given = {"n_features": 10, "init": "spectral", "random_state": 0}
    large, plain = (KSparse(3, targets=t, **given).fit(X) for t in ("larger", "embedding"))
    np.testing.assert_array_equal(large.labels_, plain.labels_)
    np.testing.assert_allclose(large.weights_, 3 * plain.weights_, rtol=1e-6, atol=1e-9)
    assert large.eta_ == pytest.approx(3 * plain.eta_)


class Striped:
    """Samples in turn."""

    def labels(self, data, rng):
        return np.arange(data.matrix.shape[0]) % data.n_clusters


@pytest.mark.parametrize("init", ["striped", "striped+dense", ["striped", "spectral"]])
def test_another_start(monkeypatch, init):
    for name in ("striped", "striped+dense"):
        monkeypatch.setitem(STARTS, name, None)  # removed again after the test
    register_start("striped", Striped())
    model = KSparse(3, n_features=10, init=init, random_state=0).fit(X)
    assert model.starts_["start"] == ([init] if isinstance(init, str) else init)
    assert len(set(model.labels_)) == 3


@pytest.mark.parametrize("parameter", ["ball", "selector", "solver", "targets", "init"])
def test_unknown_names_are_refused_with_those_that_are_known(parameter):
    registry = {"ball": BALLS, "selector": SELECTORS, "solver": SOLVERS, "targets": TARGETS,
                "init": STARTS}[parameter]  # fmt: skip
    with pytest.raises(
        ValueError, match=f"{parameter}='no such' is unknown; choose from"
    ) as caught:
        KSparse(3, **{parameter: "no such"}).fit(X)
    assert all(name in str(caught.value) for name in registry)
