"""How many clusters: several methods side by side, never a silent choice."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from ksparse.alternation import Fit
from ksparse.estimator import KSparse
from ksparse.gap import GAP_RULES, gap_statistic
from ksparse.inputs import Inputs, label_all, read_inputs
from ksparse.jobs import Interrupted, collect, draw_seeds, run_all
from ksparse.judgement import Judge
from ksparse.matrix import Floats, Ints
from ksparse.pipeline import Prepared, Settings, fit_prepared
from ksparse.plotting import COLOURS, given_axes
from ksparse.resampling import common_agreement, fit_halves, labels_of_part
from ksparse.scores import mean_and_error, silhouette
from ksparse.tables import as_table, render
from ksparse.validation import check_at_least, check_listed, check_n_jobs

__all__ = ["METHODS", "ClusterNumber", "choose_k"]

METHODS = ("gap", "silhouette", "agreement", "stability")
# Share of the samples in a subsample, and how many samples such fits have at most.
SHARE, MAX_SAMPLES = 0.8, 20_000
# Values within this of the best are as good: clear clusters can be merged in a way that
# is as reproducible as they are.
TIE = 0.005
# Points on which the gap statistic is computed at most.
GAP_SAMPLES = 1_000


@dataclass(frozen=True)
class ClusterNumber:
    """What each method says about the number of clusters.

    Attributes
    ----------
    columns : dict of ndarray
        One entry per k: k, n_features, and for each method its value, with standard errors
        (``_se``) where there are any; NaN where a method says nothing (k = 1).
    choices : dict
        The k that each method chooses.
    labels : dict of ndarray
        The clusters for each k, numbered by decreasing size.
    """

    columns: dict[str, NDArray[Any]]
    choices: dict[str, int]
    labels: dict[int, NDArray[np.int32]]

    @property
    def table(self) -> Any:
        """The columns as a data frame (without pandas, as they are)."""
        return as_table(self.columns)

    @property
    def sentence(self) -> str:
        """What the methods agree or disagree on, in plain words."""
        ks = self.columns["k"]
        if not self.choices:
            return "No method could choose a number of clusters."
        groups: dict[int, list[str]] = {}
        for method, k in self.choices.items():
            groups.setdefault(k, []).append(method)
        order = sorted(groups, key=lambda k: (-len(groups[k]), k))
        parts = [f"{_listed(groups[k])} choose{'s' if len(groups[k]) == 1 else ''} k = {k}"
                 for k in order]  # fmt: skip
        if len(ks) == 1:
            return f"Only k = {ks[0]} was tried."
        if len(self.choices) == 1:
            text = f"{parts[0]}."
        elif len(order) == 1:
            text = f"All methods agree on k = {order[0]}."
        else:
            text = f"The methods disagree: {'; '.join(parts)}."
        if len(ks) > 1 and int(ks.max()) in groups:
            text += f" k = {ks.max()} is the largest tried: try larger ones too."
        return text[0].upper() + text[1:]

    def __str__(self) -> str:
        return f"{render(self.columns)}\n{self.sentence}"

    def plot(self, axes: Any = None) -> Any:
        """Draw the value of each method against k, with its choice marked.

        Parameters
        ----------
        axes : sequence of matplotlib Axes, optional
            Where to draw, one for each method; a new figure by default.

        Returns
        -------
        sequence of Axes
        """
        methods = [method for method in METHODS if method in self.columns]
        axes = given_axes(axes, len(methods), width=3.2, height=3.2)
        ks = self.columns["k"]
        for ax, method, colour in zip(axes, methods, COLOURS, strict=False):
            values = self.columns[method]
            error = self.columns.get(f"{method}_se")
            ax.errorbar(ks, values, yerr=error, fmt="o-", color=colour, markersize=4, capsize=2)
            chosen = self.choices.get(method)
            if chosen is not None:
                at = int(np.flatnonzero(ks == chosen)[0])
                ax.plot(chosen, values[at], "o", markersize=12, fillstyle="none", color="black")
            ax.set_title(method if chosen is None else f"{method}: k = {chosen}")
            ax.set(xlabel="clusters k", xticks=ks)
        return axes


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def choose_k(
    X: Any,
    ks: Iterable[int],
    *,
    methods: Sequence[str] = METHODS,
    n_features: int | float | str = "auto",
    init: Any = "graph",
    n_references: int = 20,
    gap_rule: str = "first_max",
    n_halvings: int = 5,
    n_subsamples: int = 6,
    sample_weight: ArrayLike | None = None,
    n_jobs: int | None = None,
    random_state: int | np.random.RandomState | None = None,
    verbose: int = 0,
    **options: Any,
) -> ClusterNumber:
    """Fit several numbers of clusters and let several methods judge them.

    - gap: the gap statistic (Tibshirani, Walther and Hastie 2001) of samples in the
      projection fitted for the largest k. The projection is fitted on one half of the
      samples and the other half is looked at, both ways: on the samples that it was fitted
      to, even noise would fall in clusters. The reference is drawn evenly from the box around
      the projected samples along their principal axes. It can choose k = 1.
    - silhouette: mean silhouette of the clusters of each k in the same projection.
    - agreement: two halves are clustered independently, and each places the samples of the
      other; adjusted Rand index with the other's own clusters.
    - stability: adjusted Rand index of the clusters of samples common to two subsamples of
      80 %.

    The last three choose the k with the largest value (the largest such k, if several are
    within 0.005 of it). Singular vectors are computed once
    for all k. An interrupt (Ctrl-C) keeps what is done.

    Parameters
    ----------
    X : array-like or sparse matrix, samples x features
        The data.
    ks : iterable of int
        Numbers of clusters to try.
    methods : sequence of str
        Which methods to use.
    n_features : int, float or "auto"
        Number of features to select, as in `KSparse`.
    init : str, array-like or list
        Where fits start, as in `KSparse`; by default the neighbour graph, which is fast.
    n_references : int
        Reference sets of the gap statistic.
    gap_rule : {"first_max", "tibshirani"}
        How the gap chooses: "tibshirani" takes the smallest k whose gap is within one
        standard error of the next one's. That stops too early where clusters are all about
        as far apart, and few of them are no better than none; so "first_max" takes the
        smallest k within one standard error of the first local maximum.
    n_halvings, n_subsamples : int
        How often samples are halved and drawn.
    sample_weight : array-like, optional
        Weight of each sample.
    n_jobs : int, optional
        Processes to use; the result does not depend on it.
    random_state : int, RandomState or None
        Seed.
    verbose : int
        1 shows progress bars on a terminal.
    **options
        Other parameters of `KSparse`.

    Returns
    -------
    ClusterNumber

    Examples
    --------
    >>> import numpy as np
    >>> from ksparse import choose_k
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(120, 60))
    >>> X[:40, :5] += 4
    >>> X[40:80, 5:10] += 4
    >>> found = choose_k(X, range(1, 6), methods=("gap", "agreement"), random_state=0)
    >>> found.choices
    {'gap': 3, 'agreement': 3}
    >>> found.sentence
    'All methods agree on k = 3.'
    """
    _check(methods, gap_rule, n_references, n_halvings, n_subsamples)
    check_n_jobs(n_jobs)
    tried = check_listed("ks", ks)
    for k in tried:
        if not isinstance(k, Integral) or isinstance(k, bool) or k < 1:
            raise ValueError(f"ks contains {k!r}: give integers >= 1.")
    tried = sorted({int(k) for k in tried})
    if tried[-1] == 1:
        raise ValueError("ks contains only 1: give larger numbers to compare one cluster with.")
    rng = check_random_state(random_state)
    model = KSparse(tried[-1], n_features=n_features, init=init, random_state=rng, **options)
    inputs = read_inputs(model, X, sample_weight)
    m = inputs.matrix.shape[0]
    if tried[-1] > m // 2:
        raise ValueError(
            f"ks contains {tried[-1]}, which should be <= {m // 2}, half the number of samples: "
            "halves are fitted by themselves."
        )
    if len(tried) > 1 and not all(isinstance(start, str) for start in inputs.settings.starts):
        raise ValueError(
            f"init holds labels, which are of one number of clusters, but ks has {len(tried)}: "
            "name starts instead."
        )
    extra = inputs.settings.n_components - tried[-1]
    wide = [replace(inputs.settings, n_clusters=k, n_components=max(1, k + extra)) for k in tried]
    prepared = Prepared(inputs.matrix, inputs.settings.n_components, rng)

    def fits() -> Iterator[Fit]:
        for settings in wide:
            yield fit_prepared(prepared, settings, rng).fit

    done = collect(fits(), len(tried), "numbers of clusters", verbose)
    stopped = len(done) < len(tried)
    tried, wide = tried[: len(done)], wide[: len(done)]
    settings = [
        replace(s, n_features=f.projection.selected.size, eta=None)
        for s, f in zip(wide, done, strict=True)
    ]
    run = _Run(inputs, prepared, tried, settings, done, rng, n_jobs, verbose)
    columns: dict[str, NDArray[Any]] = {
        "k": np.array(tried),
        "n_features": np.array([f.projection.selected.size for f in done]),
    }
    choices: dict[str, int] = {}
    if "gap" in methods and tried[-1] > 1:
        gap, error = run.gap(n_references)
        columns |= {"gap": gap, "gap_se": error}
        choices["gap"] = tried[GAP_RULES[gap_rule](gap, error)]
    found = {
        "silhouette": run.silhouettes if "silhouette" in methods else None,
        "agreement": (lambda: run.agreement(n_halvings)) if "agreement" in methods else None,
        "stability": (lambda: run.stability(n_subsamples)) if "stability" in methods else None,
    }
    for method, compute in found.items():
        if compute is None:
            continue
        values: Any = np.full(len(tried), np.nan)
        if tried[-1] > 1 and not (stopped and method != "silhouette"):
            try:
                values = compute()
            except KeyboardInterrupt:  # before the first of its fits was done
                stopped = True
                warnings.warn(
                    f"Interrupted: there is no {method}; the rest is kept.",
                    Interrupted,
                    stacklevel=2,
                )
        columns |= values if isinstance(values, dict) else {method: values}
        if not np.isnan(columns[method]).all():
            best = np.nanmax(columns[method])
            choices[method] = max(
                k for k, v in zip(tried, columns[method], strict=True) if v >= best - TIE
            )
    labels = {k: label_all(inputs, f).astype(np.int32) for k, f in zip(tried, done, strict=True)}
    return ClusterNumber(columns, choices, labels)


def _check(methods: Any, gap_rule: Any, *numbers: Any) -> None:
    if isinstance(methods, str) or not isinstance(methods, Iterable):
        raise TypeError(f"methods={methods!r} must be a sequence, such as ('gap', 'agreement').")
    unknown = [method for method in methods if method not in METHODS]
    if unknown or not methods:
        what = repr(unknown[0]) if unknown else "nothing"
        raise ValueError(f"methods contains {what}; choose from {', '.join(METHODS)}.")
    if gap_rule not in GAP_RULES:
        raise ValueError(f"gap_rule={gap_rule!r} is unknown; choose from {', '.join(GAP_RULES)}.")
    for name, value, least in zip(
        ("n_references", "n_halvings", "n_subsamples"), numbers, (2, 1, 2), strict=True
    ):
        check_at_least(name, value, least)


@dataclass(frozen=True)
class _Run:
    """What all methods share."""

    inputs: Inputs
    prepared: Prepared
    ks: list[int]
    settings: list[Settings]
    fits: list[Fit]
    rng: np.random.RandomState
    n_jobs: int | None
    verbose: int

    def _shown(self) -> tuple[Judge, list[Floats]]:
        """Samples in the projection for the largest k that was fitted on others."""
        settings, fit = self.settings[-1], self.fits[-1]
        embedding = self.prepared.embedding(settings.n_components).rows
        seeded = np.random.RandomState(draw_seeds(self.rng, 1)[0])
        judge = Judge(
            self.prepared.matrix, embedding, self.ks[-1], seeded, n_halvings=2, max_features=None
        )
        n = int(settings.n_features or 1)
        return judge, judge.held_out(fit.labels, settings.w_step(n), n)

    def gap(self, n_references: int) -> tuple[Floats, Floats]:
        _, shown = self._shown()
        gaps, errors = [], []
        for points in shown:
            gap, error = gap_statistic(
                points[:GAP_SAMPLES], self.ks, self.rng, n_references=n_references
            )
            gaps.append(gap)
            errors.append(error)
        return np.mean(gaps, axis=0), np.sqrt(np.mean(np.square(errors), axis=0))

    def silhouettes(self) -> Floats:
        judge, shown = self._shown()
        out = np.full(len(self.ks), np.nan)
        for i, fit in enumerate(self.fits):
            labels = fit.labels if judge.samples is None else fit.labels[judge.samples]
            values = [
                silhouette(points, labels[test], 0)
                for points, (_, test) in zip(shown, judge.halves(), strict=True)
            ]
            out[i] = np.mean(values) if self.ks[i] > 1 else np.nan
        return out

    def _several(self) -> list[Settings]:
        return [s for s in self.settings if s.n_clusters > 1]

    def _spread(self, values: list[Floats]) -> tuple[Floats, Floats]:
        """Means and standard errors for every k, NaN for k = 1."""
        means, errors = zip(*map(mean_and_error, values), strict=True)
        front = [np.nan] * (len(self.ks) - len(values))
        return np.array([*front, *means]), np.array([*front, *errors])

    def agreement(self, n_halvings: int) -> dict[str, Floats]:
        settings, matrix = self._several(), self.prepared.matrix
        seeds = draw_seeds(self.rng, n_halvings)
        tasks = [(matrix, self._draw(1.0), settings, seed) for seed in seeds]
        done = collect(
            run_all(fit_halves, tasks, self.n_jobs), n_halvings, "halvings", self.verbose
        )
        values = [np.array([h[i] for h in done]).ravel() for i in range(len(settings))]
        mean, error = self._spread(values)
        return {"agreement": mean, "agreement_se": error}

    def stability(self, n_subsamples: int) -> dict[str, Floats]:
        settings, matrix = self._several(), self.prepared.matrix
        seeds = draw_seeds(self.rng, n_subsamples)
        rows = [np.sort(self._draw(SHARE)) for _ in seeds]
        tasks = [(matrix, r, settings, seed) for r, seed in zip(rows, seeds, strict=True)]
        done = collect(
            run_all(labels_of_part, tasks, self.n_jobs), n_subsamples, "subsamples", self.verbose
        )
        values = [
            np.array(
                [
                    common_agreement(rows[a], done[a][i], rows[b], done[b][i])
                    for a in range(len(done))
                    for b in range(a)
                ]
            )
            for i in range(len(settings))
        ]
        mean, error = self._spread(values)
        return {"stability": mean, "stability_se": error}

    def _draw(self, share: float) -> Ints:
        """Some of the samples, in random order."""
        m = self.prepared.matrix.shape[0]
        return self.rng.permutation(m)[: min(round(share * m), MAX_SAMPLES)]
