"""How many features: quality along a path of numbers of features, or of radii."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from ksparse.alternation import Fit, alternate, fit_labels
from ksparse.estimator import KSparse
from ksparse.feature_count import smallest_on_plateau
from ksparse.inputs import label_all, read_inputs
from ksparse.jobs import collect
from ksparse.judgement import Judge, Scores
from ksparse.matrix import Floats
from ksparse.metrics import summary
from ksparse.pipeline import Prepared, fit_prepared
from ksparse.plotting import COLOURS, given_axes
from ksparse.projection import WStep
from ksparse.scores import mean_and_error, silhouette
from ksparse.tables import as_table, render
from ksparse.validation import (
    check_count,
    check_listed,
    check_several_clusters,
    check_true_labels,
)

__all__ = ["FeaturePath", "feature_path"]

# The default path: so many numbers of features in this range, evenly spaced by ratio.
N_POINTS, SMALLEST, LARGEST = 20, 5, 500
# Loops of the alternation at a point that starts from its neighbour's labels, and columns
# of the Gram matrix that are kept for all points.
MAX_LOOPS = 2
GRAM_COLUMNS = 3_000


@dataclass(frozen=True)
class FeaturePath:
    """Fits along a path, from few features to many.

    Attributes
    ----------
    columns : dict of ndarray
        One entry per point: eta, n_features, cost, gap, silhouette (of the projection that
        was fitted, so optimistic with many features), agreement and agreement_se (adjusted
        Rand index on held-out samples), explained and explained_se (share of the targets
        explained on held-out samples); with true labels accuracy, ari and nmi.
    features : list of ndarray of int
        The features selected at each point.
    labels : ndarray of int, points x samples
        The clusters at each point, numbered by decreasing size.
    """

    columns: dict[str, NDArray[Any]]
    features: list[NDArray[np.intp]]
    labels: NDArray[np.int32]

    @property
    def table(self) -> Any:
        """The columns as a data frame (without pandas, as they are)."""
        return as_table(self.columns)

    def __len__(self) -> int:
        return len(self.features)

    def __str__(self) -> str:
        best = self.best()
        return f"{render(self.columns)}\nbest: {best} feature{'' if best == 1 else 's'}"

    def best(self) -> int:
        """The smallest number of features on the plateau of quality.

        Quality is the share of the targets that is explained on held-out samples; the
        plateau is what reaches 95 % of its largest value on the path. The same rule is
        behind ``KSparse(n_features="auto")``, which applies it to the clusters of its first
        start, and so agrees with this within a factor of two where the clusters are clear.
        """
        return smallest_on_plateau(self.columns["n_features"], self.columns["explained"])

    def plot(self, axes: Any = None) -> Any:
        """Draw features against eta, and quality against features.

        Parameters
        ----------
        axes : sequence of two matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        sequence of Axes
        """
        left, right = axes = given_axes(axes, 2)
        column = self.columns
        left.plot(column["eta"], column["n_features"], "o-", color=COLOURS[0], markersize=4)
        left.set(xlabel="radius eta", ylabel="selected features", xlim=(0, None), ylim=(0, None))
        left.set_title("Features against eta")
        curves = [("explained, held out", "explained"), ("agreement, held out", "agreement"),
                  ("silhouette", "silhouette")]  # fmt: skip
        if "accuracy" in column:
            curves = [("accuracy", "accuracy"), ("ARI", "ari"), ("NMI", "nmi"), *curves[:2]]
        for colour, (name, key) in zip(COLOURS, curves, strict=False):
            dashed = "--" if key in ("explained", "agreement") and "accuracy" in column else "-"
            right.plot(column["n_features"], column[key], "o", linestyle=dashed, color=colour,
                       markersize=4, label=name)  # fmt: skip
        best = self.best()
        right.axvline(best, color="0.5", linewidth=1, linestyle=":")
        low = min(0.0, *(float(np.nanmin(column[key])) for _, key in curves))
        right.set(xlabel="selected features", xscale="log", ylim=(low, 1.02))
        counts = column["n_features"]
        ticks = [n * 10**e for e in range(6) for n in (1, 2, 5)]
        shown = [n for n in ticks if counts.min() <= n <= counts.max()]
        if len(shown) > 1:
            right.set_xticks(shown, labels=[str(n) for n in shown])
            right.set_xticks([], minor=True)
        right.set_title(f"Quality against features (best: {best})")
        right.legend(frameon=False, fontsize=8, loc="lower right")
        return axes


def feature_path(
    X: Any,
    n_clusters: int,
    *,
    n_features: Iterable[int] | None = None,
    etas: Iterable[float] | None = None,
    labels: ArrayLike | None = None,
    fixed_labels: bool = False,
    sample_weight: ArrayLike | None = None,
    random_state: int | np.random.RandomState | None = None,
    verbose: int = 0,
    **options: Any,
) -> FeaturePath:
    """Fit along a path of numbers of features, or of radii, and score every point.

    One full fit in the middle of the path, and from there to both ends, each point
    starting from the clusters of its neighbour. An interrupt (Ctrl-C) keeps the points
    that are done.

    Parameters
    ----------
    X : array-like or sparse matrix, samples x features
        The data.
    n_clusters : int
        Number of clusters.
    n_features : iterable of int, optional
        Numbers of features to try; 20 between 5 and 500 by default.
    etas : iterable of float, optional
        Radii to try instead.
    labels : array-like, optional
        True labels, for accuracy, ARI and NMI; they have no part in the fits.
    fixed_labels : bool, default=False
        Whether to keep the clusters of the first fit at every point, and let only the
        features change.
    sample_weight : array-like, optional
        Weight of each sample.
    random_state : int, RandomState or None
        Seed.
    verbose : int
        1 shows a progress bar on a terminal.
    **options
        Other parameters of `KSparse`, such as `init` or `scale`.

    Returns
    -------
    FeaturePath

    Examples
    --------
    >>> import numpy as np
    >>> from ksparse import feature_path
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(120, 100))
    >>> X[:60, :5] += 3
    >>> path = feature_path(X, 2, n_features=[1, 2, 5, 20, 50], random_state=0)
    >>> path.columns["n_features"]
    array([ 1,  2,  5, 20, 50])
    >>> path.best()
    5
    """
    by_count = etas is None
    if not by_count and n_features is not None:
        raise ValueError("n_features and etas exclude each other: give one.")
    if "eta" in options:
        raise TypeError("feature_path takes no eta: give etas, a sequence of radii.")
    check_several_clusters(n_clusters)
    rng = check_random_state(random_state)
    model = KSparse(n_clusters, random_state=rng, **options)
    inputs = read_inputs(model, X, sample_weight)
    grid = _counts(n_features, inputs.settings.costs) if by_count else _radii(etas)
    truth = check_true_labels(labels, inputs.X.shape[0])
    settings = inputs.settings
    prepared = Prepared(inputs.matrix, settings.n_components, rng, gram_columns=GRAM_COLUMNS)
    embedding = prepared.embedding(settings.n_components)
    judge = Judge(inputs.matrix, embedding.rows, n_clusters, rng, n_halvings=2, max_features=None)

    def w_step(value: Any) -> WStep:
        if by_count:
            return settings.w_step(int(value))
        return replace(settings, eta=float(value)).w_step(None)

    middle = len(grid) // 2
    order = [middle, *range(middle + 1, len(grid)), *range(middle - 1, -1, -1)]

    def points() -> Iterator[tuple[int, Fit]]:
        at = {"n_features": int(grid[middle])} if by_count else {"eta": float(grid[middle])}
        first = fit_prepared(prepared, replace(settings, **at), rng).fit
        few = replace(settings.loop, n_init=0, max_loops=min(MAX_LOOPS, settings.loop.max_loops))
        fits = {middle: first}
        for index in order:
            if index not in fits:
                near = fits[index - 1 if index > middle else index + 1]
                how = w_step(grid[index])
                common = (inputs.matrix, embedding.rows, near.labels, n_clusters, how)
                if fixed_labels:
                    fits[index] = fit_labels(*common, gram=prepared.gram)
                else:
                    fits[index] = alternate(
                        *common, few, rng, gram=prepared.gram, last=near.projection
                    )
            yield index, fits[index]

    done = collect(points(), len(grid), "path", verbose)
    fits = [fit for _, fit in sorted(done, key=lambda point: point[0])]
    groups = _with_equal_labels(fits)
    scored = collect(
        (judge.along(group[0].labels, w_step(grid[0]), _increasing(group)) for group in groups),
        len(groups),
        "scores",
        verbose,
    )
    all_labels = np.array([label_all(inputs, fit) for fit in fits], dtype=np.int32)
    columns = _columns(fits, [score for group in scored for score in group], rng)
    if truth is not None:
        scores = [summary(truth, found) for found in all_labels]
        columns |= {name: np.array([s[name] for s in scores]) for name in scores[0]}
    return FeaturePath(columns, [fit.projection.selected for fit in fits], all_labels)


def _counts(n_features: Iterable[int] | None, costs: Floats) -> Sequence[int]:
    allowed, free = int(np.isfinite(costs).sum()), int((costs == 0).sum())
    if n_features is None:
        low, high = min(max(SMALLEST, free), allowed), min(LARGEST, allowed)
        return [int(n) for n in np.unique(np.geomspace(low, high, N_POINTS).round())]
    values = [check_count(n, costs) for n in check_listed("n_features", n_features)]
    return sorted(set(values))


def _radii(etas: Iterable[float] | None) -> Sequence[float]:
    values = check_listed("etas", etas)
    try:
        numbers = [float(eta) for eta in values]
    except (TypeError, ValueError):
        raise TypeError("etas must be numbers > 0.") from None
    wrong = [eta for eta in numbers if not 0 < eta < np.inf]
    if wrong:
        raise ValueError(f"etas contains {wrong[0]}: radii must be finite numbers > 0.")
    return sorted(set(numbers))


def _with_equal_labels(fits: Sequence[Fit]) -> list[list[Fit]]:
    """Runs of fits with the same labels: they can be scored together."""
    groups: list[list[Fit]] = []
    for fit in fits:
        if groups and np.array_equal(groups[-1][-1].labels, fit.labels):
            groups[-1].append(fit)
        else:
            groups.append([fit])
    return groups


def _increasing(fits: Sequence[Fit]) -> list[int]:
    """Numbers of features, none below the one before it."""
    counts = [max(1, fit.projection.selected.size) for fit in fits]
    return [int(n) for n in np.maximum.accumulate(counts)]


def _columns(
    fits: Sequence[Fit], scores: Sequence[Scores], rng: np.random.RandomState
) -> dict[str, NDArray[Any]]:
    """The table of all points, but for the columns that need true labels."""
    seed = int(rng.randint(np.iinfo(np.int32).max))
    missing = (np.nan,) * 4  # interrupted before it was scored
    rows = [
        (
            fit.projection.eta,
            fit.projection.selected.size,
            fit.history["cost"][-1],
            fit.projection.gap,
            silhouette(fit.projected, fit.labels, seed),
            *((*mean_and_error(s.agreement), *mean_and_error(s.explained)) if s else missing),
        )
        for fit, s in zip_longest(fits, scores)
    ]
    names = ("eta", "n_features", "cost", "gap", "silhouette",
             "agreement", "agreement_se", "explained", "explained_se")  # fmt: skip
    columns = zip(*rows, strict=True)
    return {name: np.array(values) for name, values in zip(names, columns, strict=True)}
