"""How many clusters: several methods side by side, never a silent choice."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ksparse._errors import InputError, Term
from ksparse._plotting import COLOURS, given_axes
from ksparse._tables import as_table, render
from ksparse.matrix import Floats
from ksparse.params import Inputs, check_integer, check_listed, check_seed
from ksparse.search.fit import fit_prepared, prepare
from ksparse.selection.checks import check_n_jobs, read_arguments
from ksparse.selection.cluster_scores import ClusterScores
from ksparse.selection.gap import GAP_RULES
from ksparse.selection.jobs import PartialResultWarning, collect

__all__ = ["METHODS", "ClusterNumber", "choose_k"]

METHODS = ("gap", "silhouette", "agreement", "stability")
# Values within this of the best are as good: clear clusters can be merged in a way that
# is as reproducible as they are.
TIE = 0.005


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
        """The columns as a data frame."""
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
    keep_partial: bool = False,
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
    for all k.

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
    keep_partial : bool, default=False
        Whether to return what is done, with a warning, after an interrupt (Ctrl-C), instead
        of raising KeyboardInterrupt.
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
    >>> numbers = choose_k(X, range(1, 5), methods=("gap", "agreement"), random_state=0)
    >>> numbers.choices
    {'gap': 3, 'agreement': 3}
    >>> numbers.sentence
    'All methods agree on k = 3.'
    """
    _check_methods(methods, gap_rule)
    n_references = check_integer("n_references", n_references, 2)
    n_halvings = check_integer("n_halvings", n_halvings, 1)
    n_subsamples = check_integer("n_subsamples", n_subsamples, 2)
    n_jobs = check_n_jobs(n_jobs)
    tried = _check_ks(ks)
    rng = check_seed(random_state)
    inputs, _ = read_arguments(
        X, sample_weight, options, n_clusters=tried[-1], n_features=n_features, init=init
    )
    _check_possible(inputs, tried)
    extra = inputs.settings.n_components - tried[-1]
    wide = [replace(inputs.settings, n_clusters=k, n_components=max(1, k + extra)) for k in tried]
    shared = inputs.settings
    prepared = prepare(inputs.matrix, shared.n_components, rng, starts=shared.starts)
    fits = (fit_prepared(prepared, settings, rng).fit for settings in wide)
    done = collect(fits, len(tried), "numbers of clusters", verbose, keep_partial)
    stopped = len(done) < len(tried)
    tried = tried[: len(done)]
    counts = [fit.projection.selected.size for fit in done]
    settings = [replace(s, n_features=n, eta=None) for s, n in zip(wide, counts, strict=False)]
    run = ClusterScores(inputs, prepared, tried, settings, done, rng, n_jobs, verbose, keep_partial)
    columns: dict[str, NDArray[Any]] = {"k": np.array(tried), "n_features": np.array(counts)}
    choices: dict[str, int] = {}
    if "gap" in methods and tried[-1] > 1:
        gap, error = run.gap(n_references)
        columns |= {"gap": gap, "gap_se": error}
        choices["gap"] = tried[GAP_RULES[gap_rule](gap, error)]
    computations: dict[str, Callable[[], Any]] = {
        "silhouette": run.silhouettes,
        "agreement": lambda: run.agreement(n_halvings),
        "stability": lambda: run.stability(n_subsamples),
    }
    for method, compute in computations.items():
        if method not in methods:
            continue
        values: Any = np.full(len(tried), np.nan)
        if tried[-1] > 1 and not (stopped and method != "silhouette"):
            try:
                values = compute()
            except KeyboardInterrupt:  # before the first of its fits was done
                if not keep_partial:
                    raise
                stopped = True
                warnings.warn(
                    f"Interrupted: there is no {method}; the rest is kept.",
                    PartialResultWarning,
                    stacklevel=2,
                )
        columns |= values if isinstance(values, dict) else {method: values}
        if not np.isnan(columns[method]).all():
            choices[method] = _largest_near_best(tried, columns[method])
    labels = {k: run.labels(fit) for k, fit in zip(tried, done, strict=True)}
    return ClusterNumber(columns, choices, labels)


def _largest_near_best(tried: Sequence[int], values: Floats) -> int:
    best = np.nanmax(values)
    return max(k for k, value in zip(tried, values, strict=True) if value >= best - TIE)


def _check_methods(methods: Any, gap_rule: Any) -> None:
    if isinstance(methods, str) or not isinstance(methods, Iterable):
        raise InputError(
            Term("methods", methods), " must be a sequence, such as ('gap', 'agreement')."
        )
    unknown = [method for method in methods if method not in METHODS]
    if unknown or not methods:
        contained = repr(unknown[0]) if unknown else "nothing"
        raise InputError(
            Term("methods"), f" contains {contained}; choose from {', '.join(METHODS)}."
        )
    if gap_rule not in GAP_RULES:
        raise InputError(
            Term("gap_rule", gap_rule), f" is unknown; choose from {', '.join(GAP_RULES)}."
        )


def _check_ks(ks: Any) -> list[int]:
    """Return the numbers of clusters to try, in increasing order."""
    tried = check_listed("ks", ks)
    for k in tried:
        if not isinstance(k, Integral) or isinstance(k, bool) or k < 1:
            raise InputError(Term("ks"), f" contains {k!r}: give integers >= 1.")
    tried = sorted({int(k) for k in tried})
    if tried[-1] == 1:
        raise InputError(
            Term("ks"), " contains only 1: give larger numbers to compare one cluster with."
        )
    return tried


def _check_possible(inputs: Inputs, tried: Sequence[int]) -> None:
    half = inputs.matrix.shape[0] // 2
    if tried[-1] > half:
        raise InputError(
            Term("ks"), f" contains {tried[-1]}, which should be <= {half}, half the number of "
            "samples: halves are fitted by themselves.",
        )  # fmt: skip
    if len(tried) > 1 and not all(isinstance(start, str) for start in inputs.settings.starts):
        raise InputError(
            Term("init"), " holds labels, which are of one number of clusters, but ", Term("ks"),
            f" has {len(tried)}: name starts instead.",
        )  # fmt: skip
