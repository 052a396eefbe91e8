"""Select features one after the other, for labels that have converged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ksparse.core.forward import BalancedProblem, balanced_problem, forward_path
from ksparse.core.w_step import Problem, Selection, Solution, refit
from ksparse.matrix import Floats, Ints

__all__ = ["ForwardSelector"]


class ForwardSelector:
    """Features that explain most of what is left, every cluster counting the same.

    In the loops it would follow labels that follow its few features; so the labels are found
    with as many features as they need, by another selector.
    """

    balls: tuple[str, ...] | None = None
    radius_determines_support = False
    in_loops = False

    def select(
        self,
        problem: Problem,
        n_features: int,
        start: Floats | None = None,
        *,
        columns: Ints | None = None,
        tol: float = 1e-4,
        exact: bool = True,
    ) -> Selection:
        """Return a ridge regression on `n_features` features; see `Selection`.

        There is no certificate: `explained` has the share of the targets that the features
        explain, and that of all candidates together, which no set of them can exceed.
        """
        balanced = _balanced(problem, n_features)
        path = forward_path(balanced, n_features)
        W = refit(problem, np.sort(balanced.features[path.places]), problem.ridge)
        solution = Solution(W, np.array([]), np.nan, path.places.size, True)
        explained = balanced.explained(path.places), balanced.explained()
        tied = path.places.size < n_features
        return Selection(solution, problem.norm(W), np.nan, balanced.features, tied, explained)

    def select_path(self, problem: Problem, counts: Sequence[int]) -> Iterator[Ints]:
        """Yield the features selected for each of several increasing numbers."""
        balanced = _balanced(problem, max(counts))
        places = forward_path(balanced, max(counts)).places
        for count in counts:
            yield np.sort(balanced.features[places[:count]])

    def candidates(self, problem: Problem, n_candidates: int) -> Ints:
        """Return the features that explain most by themselves."""
        size = np.linalg.norm(problem.correlation, axis=1)
        size = np.where(np.isfinite(problem.costs), size, 0.0)
        size /= np.where(problem.costs > 0, problem.costs, 1.0)
        size[problem.free] = np.inf
        return np.sort(np.argsort(-size, kind="stable")[:n_candidates])


def _balanced(problem: Problem, n_features: int) -> BalancedProblem:
    assert problem.labels is not None and problem.sums is not None
    return balanced_problem(
        problem.matrix, problem.labels, problem.sums, problem.costs,
        n_features=n_features, ridge=problem.ridge,
    )  # fmt: skip
