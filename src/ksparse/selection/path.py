"""How many features: quality along a path of numbers of features, or of radii."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ksparse._errors import InputError, Term, warn
from ksparse._plotting import COLOURS, given_axes
from ksparse._tables import as_table, render
from ksparse.core.alternation import Fit
from ksparse.core.w_step import WStep
from ksparse.matrix import Floats
from ksparse.metrics import summary
from ksparse.params import check_count, check_listed, check_seed
from ksparse.search.feature_count import smallest_on_plateau
from ksparse.search.fit import (
    Prepared,
    converge,
    fit_labels,
    fit_prepared,
    label_all,
    prepare,
    w_step_for,
)
from ksparse.search.judge import mean_and_error
from ksparse.search.settings import Settings
from ksparse.selection.checks import (
    check_several_clusters,
    check_true_labels,
    read_arguments,
)
from ksparse.selection.held_out import PointScores, score_halving
from ksparse.selection.jobs import collect
from ksparse.selection.scores import silhouette

__all__ = ["FeaturePath", "feature_path"]

# The default path: so many numbers of features in this range, evenly spaced by ratio.
N_POINTS, SMALLEST, LARGEST = 20, 5, 500
# Loops of the alternation at a point that starts from its neighbour's labels, how often the
# samples are halved, and columns of the Gram matrix that are kept for all points.
MAX_LOOPS = 2
N_HALVINGS = 2
GRAM_COLUMNS = 3_000


@dataclass(frozen=True)
class FeaturePath:
    """Fits along a path, from few features to many.

    Attributes
    ----------
    columns : dict of ndarray
        One entry per point: eta, n_features, cost, gap, silhouette (of the projection that
        was fitted, so optimistic with many features), agreement and explained with their
        standard errors; with true labels accuracy, ari and nmi. For agreement and explained
        the samples are halved, and the path is fitted on each half by itself: agreement is
        the adjusted Rand index of the clusters of one half and of those in which the fit of
        the other places its samples, explained the share of the one's targets that the
        other's projection explains. Both are about 0 or below where there are no clusters.
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
        """The columns as a data frame."""
        return as_table(self.columns)

    def __len__(self) -> int:
        return len(self.features)

    def __str__(self) -> str:
        best, plateau = self._best()
        end = "" if plateau else " (there is no plateau)"
        return f"{render(self.columns)}\nbest: {best} feature{'' if best == 1 else 's'}{end}"

    def _best(self) -> tuple[int, bool]:
        """Return the best number, and whether anything is explained at all."""
        counts, explained = self.columns["n_features"], self.columns["explained"]
        if np.isnan(explained).all():
            return int(counts[-1]), False
        return smallest_on_plateau(counts, explained), bool(np.nanmax(explained) > 0)

    def best(self) -> int:
        """Return the smallest number of features on the plateau of quality.

        Quality is the share of the targets that is explained on held-out samples; the
        plateau is what reaches 95 % of its largest value on the path. The same rule is
        behind ``KSparse(n_features="auto")``, which applies it to the clusters of its first
        start, and so agrees with this within a factor of two where the clusters are clear.
        Warns if nothing is explained on held-out samples, as where there are no clusters.
        """
        best, plateau = self._best()
        if not plateau:
            warn(
                "There is no plateau: no number of features explains the clusters of other "
                "samples, so there may be no clusters, or too few samples to find them again.",
                stacklevel=2,
            )
        return best

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
        best, _ = self._best()
        right.axvline(best, color="0.5", linewidth=1, linestyle=":")
        low = min(0.0, *(float(np.nanmin(column[key])) for _, key in curves))
        right.set(xlabel="selected features", xscale="log", ylim=(low, 1.02))
        counts = column["n_features"]
        ticks = [n * 10**e for e in range(6) for n in (1, 2, 5)]
        inside = [n for n in ticks if counts.min() <= n <= counts.max()]
        if len(inside) > 1:
            right.set_xticks(inside, labels=[str(n) for n in inside])
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
    keep_partial: bool = False,
    random_state: int | np.random.RandomState | None = None,
    verbose: int = 0,
    **options: Any,
) -> FeaturePath:
    """Fit along a path of numbers of features, or of radii, and score every point.

    One full fit in the middle of the path, and from there to both ends, each point
    starting from the clusters of its neighbour. With a selector of few features ("forward",
    "auto"), the full fit has as many features as the clusters need, and points with fewer
    select for its clusters.

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
    keep_partial : bool, default=False
        Whether to return the points that are done, with a warning, after an interrupt
        (Ctrl-C), instead of raising KeyboardInterrupt.
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
        raise InputError(
            Term("n_features"), " and ", Term("etas"), " exclude each other: give one."
        )
    if "eta" in options:
        raise InputError("feature_path takes no eta: give ", Term("etas"), ", a sequence of radii.")
    n_clusters = check_several_clusters(n_clusters)
    rng = check_seed(random_state)
    radii = None if by_count else _radii(etas)
    eta = None if radii is None else radii[0]  # so that no selector is asked for
    inputs, _ = read_arguments(X, sample_weight, options, n_clusters=n_clusters, eta=eta)
    grid = _counts(n_features, inputs.settings.costs) if radii is None else radii
    truth = check_true_labels(labels, inputs.X.shape[0])
    components = inputs.settings.n_components
    prepared = prepare(
        inputs.matrix, components, rng, starts=inputs.settings.starts, gram_columns=GRAM_COLUMNS
    )

    def w_step(value: Any) -> WStep:
        if by_count:
            return w_step_for(inputs.settings, int(value))
        return w_step_for(replace(inputs.settings, eta=float(value)), None)

    steps = [w_step(value) for value in grid]
    points = _points(inputs.settings, prepared, steps, rng, fixed_labels)
    done = collect(points, len(grid), "path", verbose, keep_partial)
    fits = [fit for _, fit in sorted(done, key=lambda point: point[0])]

    def fit_points(settings: Settings, half: Prepared, rng: np.random.RandomState) -> Sequence[Fit]:
        made = dict(_points(settings, half, steps, rng, fixed_labels))
        return [made[place] for place, _ in sorted(done, key=lambda point: point[0])]

    halvings = (
        score_halving(prepared.matrix, inputs.settings, fit_points, rng)
        for _ in range(N_HALVINGS if inputs.matrix.shape[0] >= 4 * n_clusters else 0)
    )
    scored = collect(halvings, N_HALVINGS, "scores", verbose, keep_partial)
    all_labels = np.array([
        label_all(
            inputs.X, inputs.fitted, inputs.weight, prepared.matrix, fit, reassign=not fixed_labels
        ).labels
        for fit in fits
    ], dtype=np.int32)  # fmt: skip
    columns = _columns(fits, scored, rng)
    if truth is not None:
        scores = [summary(truth, point_labels) for point_labels in all_labels]
        columns |= {name: np.array([s[name] for s in scores]) for name in scores[0]}
    return FeaturePath(columns, [fit.projection.selected for fit in fits], all_labels)


def _points(
    settings: Settings,
    prepared: Prepared,
    steps: Sequence[WStep],
    rng: np.random.RandomState,
    fixed_labels: bool,
) -> Iterator[tuple[int, Fit]]:
    """Yield the fits of all points with their places: one first, then to both ends.

    The first is in the middle; or, if few features are selected after the loops, it has as many
    as the clusters need, and all points with fewer select for its clusters.
    """
    last = len(steps)
    if settings.few is None or steps[0].n_features is None:
        first = last // 2
        asked = replace(settings, n_features=steps[first].n_features, eta=steps[first].eta)
        fits = {first: fit_prepared(prepared, asked, rng).fit}
        yield first, fits[first]
        below = range(first - 1, -1, -1)
    else:
        asked = replace(settings, n_features=None, few=None, always=False)
        found = fit_prepared(prepared, asked, rng).fit
        needed = np.inf if settings.always else found.projection.selected.size
        n_few = sum(step.n_features is not None and step.n_features < needed for step in steps)
        for index, step in enumerate(steps[:n_few]):
            problem = prepared.alternation(settings, replace(step, selector=settings.few))
            yield index, fit_labels(problem, found.labels, reassign=not fixed_labels)
        first, fits, below = n_few - 1, {n_few - 1: found}, range(0)
    few = replace(settings.loop, n_init=0, max_loops=min(MAX_LOOPS, settings.loop.max_loops))
    for index in [*range(first + 1, last), *below]:
        near = fits[index - 1 if index > first else index + 1]
        problem = prepared.alternation(replace(settings, loop=few), steps[index])
        if fixed_labels:
            fits[index] = fit_labels(problem, near.labels)
        else:
            fits[index] = converge(problem, near.labels, few, rng, last=near.projection)
        yield index, fits[index]


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
        raise InputError(Term("etas"), " must be numbers > 0.") from None
    wrong = [eta for eta in numbers if not 0 < eta < np.inf]
    if wrong:
        raise InputError(Term("etas"), f" contains {wrong[0]}: radii must be finite numbers > 0.")
    return sorted(set(numbers))


def _columns(
    fits: Sequence[Fit], scored: Sequence[PointScores], rng: np.random.RandomState
) -> dict[str, NDArray[Any]]:
    """Return the table of all points, but for the columns that need true labels."""
    seed = int(rng.randint(np.iinfo(np.int32).max))
    columns = {
        "eta": [fit.projection.eta for fit in fits],
        "n_features": [fit.projection.selected.size for fit in fits],
        "cost": [fit.history["cost"][-1] for fit in fits],
        "gap": [fit.projection.gap for fit in fits],
        "silhouette": [silhouette(fit.projected, fit.labels, seed) for fit in fits],
    }
    for name in ("agreement", "explained"):
        values = np.array([getattr(score, name) for score in scored]).reshape(-1, len(fits)).T
        means = [mean_and_error(value) for value in values]
        columns[name], columns[f"{name}_se"] = map(list, zip(*means, strict=True))
    return {name: np.array(values) for name, values in columns.items()}
