"""How many clusters: one recommendation, with the table behind it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ksparse._errors import InputError, Term
from ksparse._progress import progress_bar
from ksparse.core.alternation import Fit
from ksparse.core.y_step import order_by_size
from ksparse.matrix.sources import count_distinct_rows
from ksparse.params import DEFAULTS, Inputs, check_integer, check_listed, check_seed
from ksparse.search.fit import Prepared, fit_prepared, prepare
from ksparse.search.settings import Settings
from ksparse.selection.checks import check_n_jobs, plain_starts, read_arguments
from ksparse.selection.cluster_result import METHODS, ClusterNumber, words_of
from ksparse.selection.cluster_scores import ClusterScores
from ksparse.selection.gap import GAP_RULES
from ksparse.selection.jobs import PartialResultWarning, draw_seeds
from ksparse.selection.recommend import LEVEL, recommend, supported, worst_pair
from ksparse.selection.separation import Separation, tested

__all__ = ["ClusterNumber", "choose_k"]

# Numbers of clusters that are tried if none are given: all up to the first, then more until so many
# in a row are not supported, up to the second, and never more than one cluster for so many samples.
USUAL_CLUSTERS, MAX_CLUSTERS, MISSES, SAMPLES_PER_CLUSTER = 12, 40, 3, 5


def choose_k(
    X: Any,
    ks: Iterable[int] | None = None,
    *,
    methods: Sequence[str] = (),
    n_features: int | float | str = "auto",
    init: Any = "auto",
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
    """Recommend a number of clusters: the largest whose clusters are all separated.

    For every number k from 2 on the samples are clustered as `KSparse` would, and every pair of
    clusters is tested for a valley between them on samples that had no part in finding the
    features that tell them apart (see `ksparse.separation`). The recommendation is the largest k
    for which every pair has a valley (p <= 0.005, or 0.05 where that is not so with k - 1
    clusters); it is 1 if not even two clusters are separated. Clusters with very few samples
    cannot be shown to be separate.

    Other measures can be shown beside it, by `methods`; they do not decide.

    - gap: the gap statistic (Tibshirani, Walther and Hastie 2001) of samples in the
      projection fitted for the largest k. The projection is fitted on one half of the
      samples and the other half is looked at, both ways: on the samples that it was fitted
      to, even noise would fall in clusters. The reference is drawn evenly from the box around
      the projected samples along their principal axes.
    - silhouette: mean silhouette of the clusters of each k in the same projection.
    - agreement: two halves are clustered independently, and each places the samples of the
      other; adjusted Rand index with the other's own clusters. Ten more fits for every k.
    - stability: adjusted Rand index of the clusters of samples common to two subsamples of
      80 %. Six more fits for every k.

    Parameters
    ----------
    X : array-like, sparse matrix, AnnData, stored matrix or dask array
        The data, samples x features.
    ks : iterable of int, optional
        Numbers of clusters to try. By default 2 to 12, and more until three in a row are not
        supported, but at most one cluster for five samples.
    methods : sequence of str, optional
        Other measures to compute: "gap", "silhouette", "agreement", "stability".
    n_features : int, float or "auto"
        Number of features to select, as in `KSparse`.
    init : str, array-like or list
        Where fits start, as in `KSparse`; but "auto" tries "graph+dense", "spectral+dense" and
        "graph" here, which do not look for gaps. "graph" is faster.
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
        Weight of each sample in the fits. The test counts samples, whatever their weight.
    n_jobs : int, optional
        Processes for agreement and stability; the result does not depend on it.
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
    >>> number = choose_k(X, [2, 3, 4], random_state=0)
    >>> number.recommended, number.interval
    (3, (3, 3))
    >>> number.columns["p_separation"] < 0.005
    array([ True,  True, False])
    """
    _check_methods(methods, gap_rule)
    n_references = check_integer("n_references", n_references, 2)
    n_halvings = check_integer("n_halvings", n_halvings, 1)
    n_subsamples = check_integer("n_subsamples", n_subsamples, 2)
    n_jobs = check_n_jobs(n_jobs)
    given = None if ks is None else _check_ks(ks)
    rng = check_seed(random_state)
    inputs, _ = read_arguments(
        X, sample_weight, options, n_clusters=1 if given is None else given[-1],
        n_features=n_features, init=plain_starts(init),
    )  # fmt: skip
    if n_jobs not in (None, 1) and {"agreement", "stability"} & set(methods):
        inputs.matrix.check_shareable()
    tried = given or _possible(inputs)
    _check_possible(inputs, tried)
    run = _fits(inputs, tried, given is None, rng, verbose, keep_partial)
    columns = _columns(run)
    scores = ClusterScores(
        inputs, run.prepared, run.ks, run.counted, run.fits, rng, n_jobs, verbose, keep_partial
    )
    extra, choices = _other_measures(
        scores, methods, run, GAP_RULES[gap_rule], (n_references, n_halvings, n_subsamples),
        keep_partial,
    )  # fmt: skip
    best = recommend(run.ks, run.p_worst)
    labels = {k: scores.labels(fit) for k, fit in zip(run.ks, run.fits, strict=True)}
    more = {"n_features": n_features, "init": init, **options, "random_state": random_state}
    words = words_of(more, DEFAULTS)
    calls = f"KSparse({{k}}{words}).fit(X)", f"choose_k(X{words})"
    return ClusterNumber(
        best.k, (best.low, best.high), columns | extra, choices, labels, run.separations, calls
    )


@dataclass
class _Run:
    """Fits for several numbers of clusters, as far as they were done."""

    prepared: Prepared
    ks: list[int] = field(default_factory=list)
    settings: list[Settings] = field(default_factory=list)
    fits: list[Fit] = field(default_factory=list)
    separations: dict[int, Separation] = field(default_factory=dict)
    stopped: bool = False

    def add(self, k: int, settings: Settings, fit: Fit, inputs: Inputs) -> None:
        """Add the fit for a number of clusters, and test them."""
        if k > 1:
            labels = order_by_size(fit.labels, k)[fit.labels]
            names = [str(cluster) for cluster in range(k)]
            self.separations[k] = tested(
                inputs.matrix.X, labels, names, settings.costs, level=LEVEL,
                standardize=inputs.matrix.standardize, until_clear=True,
            )  # fmt: skip
        self.ks.append(k)
        self.settings.append(settings)
        self.fits.append(fit)

    @property
    def p_worst(self) -> list[float]:
        """The p-value of the least separated pair for each number (NaN for one cluster)."""
        return [worst_pair(self.separations[k])[0] if k > 1 else np.nan for k in self.ks]

    @property
    def n_misses(self) -> int:
        """How many numbers at the end are not supported."""
        good = supported(self.ks, self.p_worst)
        return len(good) - 1 - max((i for i, one in enumerate(good) if one), default=-1)

    @property
    def counted(self) -> list[Settings]:
        """The settings, with the numbers of features that were chosen."""
        counts = [fit.projection.selected.size for fit in self.fits]
        pairs = zip(self.settings, counts, strict=True)
        return [replace(settings, n_features=n, eta=None) for settings, n in pairs]


def _fits(
    inputs: Inputs, tried: Sequence[int], until_missed: bool, rng: np.random.RandomState,
    verbose: int, keep_partial: bool,
) -> _Run:  # fmt: skip
    """Fit and test one number after the other; with `until_missed`, as far as the rule looks."""
    shared = inputs.settings
    extra = shared.n_components - shared.n_clusters
    # What is found for one number does not depend on which others are tried: each begins with the
    # same random numbers, and how many singular vectors there are depends on this number alone.
    most, seed = USUAL_CLUSTERS, draw_seeds(rng, 1)[0]

    def prepared() -> Prepared:
        own = np.random.RandomState(seed)
        return prepare(inputs.matrix, max(1, most + extra), own, starts=shared.starts)

    while most < tried[0]:
        most *= 2
    run = _Run(prepared())
    total = None if until_missed else len(tried)
    with progress_bar(total, "numbers of clusters", verbose) as bar:
        try:
            for k in tried:
                if k > most:  # beyond what is usual: more singular vectors
                    while most < k:
                        most *= 2
                    run.prepared = prepared()
                settings = replace(shared, n_clusters=k, n_components=max(1, k + extra))
                own = np.random.RandomState(seed)
                run.add(k, settings, fit_prepared(run.prepared, settings, own).fit, inputs)
                bar.update()
                if until_missed and k >= USUAL_CLUSTERS and run.n_misses >= MISSES:
                    break
        except KeyboardInterrupt:
            if not run.fits or not keep_partial:
                raise
            run.stopped = True
            warnings.warn(
                f"Interrupted: {len(run.fits)} numbers of clusters were tried, and the result is "
                "of these.", PartialResultWarning, stacklevel=3,
            )  # fmt: skip
    return run


def _columns(run: _Run) -> dict[str, NDArray[Any]]:
    """Return what the fits and the tests say for every number of clusters."""
    rows: list[tuple[float, str, int]] = []
    for k in run.ks:
        if k == 1:
            rows.append((np.nan, "", 1))
            continue
        p, one, other = worst_pair(run.separations[k])
        rows.append((p, f"{one} and {other}", run.separations[k].n_separated))
    p_values, pairs, groups = zip(*rows, strict=True) if rows else ((), (), ())
    return {
        "k": np.array(run.ks, dtype=np.intp),
        "n_features": np.array([fit.projection.selected.size for fit in run.fits], dtype=np.intp),
        "p_separation": np.array(p_values, dtype=float),
        "least_separated": np.array(pairs, dtype=object),
        "n_separated": np.array(groups, dtype=np.intp),
    }


def _other_measures(
    scores: ClusterScores, methods: Sequence[str], run: _Run, gap_rule: Callable[..., int],
    counts: tuple[int, int, int], keep_partial: bool,
) -> tuple[dict[str, NDArray[Any]], dict[str, int]]:  # fmt: skip
    """Return the columns of the measures that were asked for, and what each would choose."""
    n_references, n_halvings, n_subsamples = counts
    ks = run.ks
    columns: dict[str, NDArray[Any]] = {}
    choices: dict[str, int] = {}
    if not ks or ks[-1] == 1:
        return columns, choices
    if "gap" in methods:
        gap, error = scores.gap(n_references)
        columns |= {"gap": gap, "gap_se": error}
        choices["gap"] = ks[gap_rule(gap, error)]
    computations: dict[str, Callable[[], Any]] = {
        "silhouette": scores.silhouettes,
        "agreement": lambda: scores.agreement(n_halvings),
        "stability": lambda: scores.stability(n_subsamples),
    }
    for method, compute in computations.items():
        if method not in methods:
            continue
        values: Any = np.full(len(ks), np.nan)
        if not (run.stopped and method != "silhouette"):
            try:
                values = compute()
            except KeyboardInterrupt:  # before the first of its fits was done
                if not keep_partial:
                    raise
                run.stopped = True
                warnings.warn(
                    f"Interrupted: there is no {method}; the rest is kept.",
                    PartialResultWarning,
                    stacklevel=3,
                )
        columns |= values if isinstance(values, dict) else {method: values}
        if not np.isnan(columns[method]).all():
            choices[method] = ks[int(np.nanargmax(columns[method]))]
    return columns, choices


def _check_methods(methods: Any, gap_rule: Any) -> None:
    if isinstance(methods, str) or not isinstance(methods, Iterable):
        raise InputError(
            Term("methods", methods), " must be a sequence, such as ('gap', 'agreement')."
        )
    unknown = [method for method in methods if method not in METHODS]
    if unknown:
        raise InputError(
            Term("methods"), f" contains {unknown[0]!r}; choose from {', '.join(METHODS)}."
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


def _possible(inputs: Inputs) -> list[int]:
    """Return all numbers of clusters that may be tried; only 1 if all samples are equal."""
    most = min(MAX_CLUSTERS, max(inputs.matrix.shape[0] // SAMPLES_PER_CLUSTER, 2))
    return list(range(2, count_distinct_rows(inputs.matrix.X, most) + 1)) or [1]


def _check_possible(inputs: Inputs, tried: Sequence[int]) -> None:
    m = inputs.matrix.shape[0]
    half = m // 2
    if m < 4:
        raise InputError(
            Term("n_samples", m), " should be >= 4 to compare numbers of clusters: give more "
            "samples, or the number of clusters.",
        )  # fmt: skip
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
