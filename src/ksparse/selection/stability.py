"""Stability selection: which features are selected again and again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics.cluster import contingency_matrix

from ksparse._errors import InputError, Term
from ksparse._tables import as_table
from ksparse.core.alternation import Fit
from ksparse.matrix import Floats, Ints, Matrix
from ksparse.metrics import correctly_placed
from ksparse.params import check_count, check_integer, check_seed
from ksparse.search.fit import fit_prepared, label_all, prepare
from ksparse.search.settings import Settings
from ksparse.selection.checks import check_n_jobs, check_several_clusters, read_arguments
from ksparse.selection.jobs import collect, draw_seeds, run_all
from ksparse.selection.resampling import fit_part

__all__ = ["StabilitySelection", "false_selection_bounds", "stability_selection"]


@dataclass(frozen=True)
class StabilitySelection:
    """How often every feature was selected, and every sample fell in its cluster.

    Attributes
    ----------
    frequencies : ndarray, one per feature
        Share of the subsamples in which the feature was selected.
    threshold : float
        Frequency from which a feature counts as stable.
    selected : ndarray of bool, one per feature
        The stable features.
    expected_false : dict
        Bounds on the expected number of stable features that carry no signal: "general"
        (Meinshausen and Buehlmann 2010; Shah and Samworth 2013) and "unimodal" (Shah and
        Samworth, sharper, if the frequencies of such features are unimodal).
    labels : ndarray of int
        Clusters of the fit of all samples.
    co_clustering : ndarray, clusters x clusters
        Mean probability that a sample of one cluster and a sample of another fell in the
        same cluster of a subsample: the nearer to an identity matrix, the more stable.
    confidence : ndarray, one per sample
        Share of its subsamples in which a sample fell in its cluster (NaN: never drawn).
    n_subsamples : int
        Number of subsamples that were fitted.
    feature_names : ndarray of str
        Names of the features, or their numbers.
    """

    frequencies: Floats
    threshold: float
    selected: NDArray[np.bool_]
    expected_false: dict[str, float]
    labels: NDArray[np.int32]
    co_clustering: Floats
    confidence: Floats
    n_subsamples: int
    feature_names: NDArray[Any]

    @property
    def table(self) -> Any:
        """Features that were ever selected, the most frequent first, as a data frame."""
        order = np.argsort(-self.frequencies, kind="stable")
        order = order[self.frequencies[order] > 0]
        return as_table(
            {
                "feature": self.feature_names[order],
                "frequency": self.frequencies[order],
                "stable": self.selected[order],
            }
        )

    def __str__(self) -> str:
        number, bound = int(self.selected.sum()), self.expected_false["general"]
        if bound < number:
            false = (
                f"at most {bound:.2g} of them are expected to be false "
                f"({self.expected_false['unimodal']:.2g} if unimodal)"
            )
        else:
            false = "how many of them are false, this number and threshold cannot tell"
        return (
            f"{number} feature{'' if number == 1 else 's'} selected in at least "
            f"{self.threshold:.0%} of {self.n_subsamples} subsamples; {false}. "
            f"Samples fell in their cluster in {np.nanmean(self.confidence):.1%} of the cases."
        )


def false_selection_bounds(
    n_selected: float, n_candidates: int, threshold: float, n_pairs: int
) -> dict[str, float]:
    """Return bounds on the expected number of features selected falsely.

    Parameters
    ----------
    n_selected : float
        Features selected in each subsample (q).
    n_candidates : int
        Features to select from (p).
    threshold : float
        Frequency from which features count, above 1/2.
    n_pairs : int
        Number of complementary pairs of halves (B).

    Returns
    -------
    dict
        "general": q^2 / ((2 threshold - 1) p). "unimodal": the r-unimodal bound of Shah and
        Samworth (2013, theorem 2), no larger than the general one.

    Examples
    --------
    >>> from ksparse.selection.stability import false_selection_bounds
    >>> bounds = false_selection_bounds(50, 5000, 0.9, 25)
    >>> round(bounds["general"], 3), round(bounds["unimodal"], 3)
    (0.625, 0.231)
    """
    base = n_selected**2 / n_candidates
    general = base / (2 * threshold - 1)
    share = n_selected / n_candidates
    least = min(0.5 + share**2, 0.5 + 1 / (2 * n_pairs) + 0.75 * share**2)
    unimodal = general
    if threshold > 0.75:
        unimodal = base * 4 * (1 - threshold + 1 / (2 * n_pairs)) / (1 + 1 / n_pairs)
    elif threshold > least and 2 * threshold - 1 > 1 / (2 * n_pairs):
        unimodal = base / (2 * (2 * threshold - 1 - 1 / (2 * n_pairs)))
    return {"general": general, "unimodal": min(general, unimodal)}


def stability_selection(
    X: Any,
    n_clusters: int,
    n_features: int,
    *,
    n_subsamples: int = 50,
    threshold: float = 0.9,
    init: Any = "graph",
    sample_weight: ArrayLike | None = None,
    n_jobs: int | None = None,
    keep_partial: bool = False,
    random_state: int | np.random.RandomState | None = None,
    verbose: int = 0,
    **options: Any,
) -> StabilitySelection:
    """Select features on many halves of the samples, and count.

    Halves come in complementary pairs (Shah and Samworth 2013). Each is clustered by itself,
    from its start to its features.

    Parameters
    ----------
    X : array-like or sparse matrix, samples x features
        The data.
    n_clusters : int
        Number of clusters.
    n_features : int
        Number of features to select on every half.
    n_subsamples : int
        Number of halves, even.
    threshold : float
        Share of the halves in which a stable feature is selected, above 1/2.
    init : str, array-like or list
        Where fits start, as in `KSparse`.
    sample_weight : array-like, optional
        Weight of each sample.
    n_jobs : int, optional
        Processes to use; the result does not depend on it.
    keep_partial : bool, default=False
        Whether to return the result of the halves that are done, with a warning, after an
        interrupt (Ctrl-C), instead of raising KeyboardInterrupt.
    random_state : int, RandomState or None
        Seed.
    verbose : int
        1 shows a progress bar on a terminal.
    **options
        Other parameters of `KSparse`.

    Returns
    -------
    StabilitySelection

    Examples
    --------
    >>> import numpy as np
    >>> from ksparse import stability_selection
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(120, 100))
    >>> X[:60, :5] += 3
    >>> stability = stability_selection(X, 2, 8, n_subsamples=10, random_state=0)
    >>> np.flatnonzero(stability.selected)
    array([0, 1, 2, 3, 4])
    """
    n_subsamples = check_integer("n_subsamples", n_subsamples, 2)
    if n_subsamples % 2:
        raise InputError(
            Term("n_subsamples", n_subsamples), " must be even: the samples are halved "
            f"{n_subsamples / 2} times, and both halves are fitted.",
        )  # fmt: skip
    if not isinstance(threshold, (int, float)) or not 0.5 < threshold <= 1:
        raise InputError(Term("threshold", threshold), " must be above 0.5 and at most 1.")
    n_jobs = check_n_jobs(n_jobs)
    n_clusters = check_several_clusters(n_clusters)
    rng = check_seed(random_state)
    inputs, names = read_arguments(
        X, sample_weight, options, n_clusters=n_clusters, n_features=n_features, init=init
    )
    settings = inputs.settings
    n_features = check_count(n_features, settings.costs)
    m, d = inputs.matrix.shape
    if m // 2 < n_clusters:
        raise InputError(
            Term("n_clusters", n_clusters), f" should be <= {m // 2}, half the number of samples."
        )
    prepared = prepare(inputs.matrix, settings.n_components, rng, starts=settings.starts)
    fit = fit_prepared(prepared, settings, rng).fit
    halves: list[Ints] = []
    for _ in range(n_subsamples // 2):
        order = rng.permutation(m)
        halves += [np.sort(order[: m // 2]), np.sort(order[m // 2 :])]
    seeds = draw_seeds(rng, n_subsamples)
    tasks = [
        (prepared.matrix, half, settings, seed) for half, seed in zip(halves, seeds, strict=True)
    ]
    done = collect(
        run_all(_one_half, tasks, n_jobs), n_subsamples, "subsamples", verbose, keep_partial
    )
    frequencies, together, confidence_of_fitted = _tally(fit, halves, done, d)
    labelled = label_all(inputs.X, inputs.fitted, inputs.weight, prepared.matrix, fit)
    confidence = np.full(inputs.X.shape[0], np.nan)
    confidence[slice(None) if inputs.fitted is None else inputs.fitted] = confidence_of_fitted
    candidates = int(np.count_nonzero(np.isfinite(settings.costs) & ~inputs.matrix.constant))
    bounds = false_selection_bounds(n_features, candidates, threshold, max(1, len(done) // 2))
    return StabilitySelection(
        frequencies,
        threshold,
        frequencies >= threshold - 1e-9,
        bounds,
        labelled.labels.astype(np.int32),
        together[np.ix_(labelled.order, labelled.order)],
        confidence,
        len(done),
        np.arange(d) if names is None else np.array(names, dtype=object),
    )


def _tally(
    fit: Fit, halves: list[Ints], done: list[tuple[Ints, Ints]], n_features: int
) -> tuple[Floats, Floats, Floats]:
    """Return how often features were selected, clusters fell together, and samples agreed."""
    n_clusters, m = fit.centroids.shape[0], fit.labels.size
    frequencies = np.zeros(n_features)
    together = np.zeros((n_clusters, n_clusters))
    hits, drawn = np.zeros(m), np.zeros(m)
    for half, (selected, labels) in zip(halves, done, strict=False):
        frequencies[selected] += 1 / len(done)
        whole = fit.labels[half]
        table = contingency_matrix(whole, labels).astype(float)
        present = np.unique(whole)
        together[np.ix_(present, present)] += _co_clustering(table) / len(done)
        hits[half] += correctly_placed(whole, labels)
        drawn[half] += 1
    with np.errstate(invalid="ignore"):
        return frequencies, together, hits / drawn


def _one_half(matrix: Matrix, rows: Ints, settings: Settings, seed: int) -> tuple[Ints, Ints]:
    fit = fit_part(matrix, rows, [settings], seed)[1][0]
    return fit.projection.selected, fit.labels


def _co_clustering(table: Floats) -> Floats:
    """Return the probability that two different samples of two groups are in the same cluster."""
    sizes = table.sum(axis=1)
    pairs = np.outer(sizes, sizes) - np.diag(sizes)
    same = table @ table.T - np.diag(sizes)
    return np.where(pairs > 0, same / np.maximum(pairs, 1.0), np.eye(sizes.size))
