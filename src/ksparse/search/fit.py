"""From a matrix view to a finished fit: what every front end runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ksparse._threads import blas_threads
from ksparse.core.alternation import Alternation, Fit, State, alternate
from ksparse.core.known import anchor
from ksparse.core.w_step import Projection, Selector, WStep, solve_w_step
from ksparse.core.y_step import agreement, centroids, inertia_of, nearest_labels, order_by_size
from ksparse.matrix import Floats, GramCache, Ints, Matrix, project_samples
from ksparse.matrix.batches import BatchMatrix
from ksparse.matrix.sources import select_rows
from ksparse.search.feature_count import SEED, Counts, choose_counts
from ksparse.search.judge import Judge, Scores, mean_and_error
from ksparse.search.search import Candidate, search
from ksparse.search.settings import Loop, Settings, StepRecord
from ksparse.starts import STARTS, Embedding, StartData
from ksparse.starts.spectral import decompose, embedding_of

__all__ = [
    "Labelled",
    "Observer",
    "Prepared",
    "SearchResult",
    "converge",
    "fit_labels",
    "fit_prepared",
    "label_all",
    "prepare",
    "w_step_for",
]

# What "auto" tries. Of equally good ones the first is taken, so the one that involves least
# chance comes first.
AUTO_STARTS = ("divisive", "graph+dense", "spectral+dense")
# How many times the tolerance of the labels the selected features may change.
FEATURE_TOL = 5
# The tolerance of the labels by which convergence is told where none is given.
USUAL_TOL = 0.01
HISTORY = ("cost", "labels_changed", "n_features", "eta", "gap")

Result = TypeVar("Result")


class _NoRecord:
    """Keep nothing."""

    def once(self, name: str, compute: Callable[[], Result]) -> Result:
        return compute()

    def states(
        self, name: str, resume: Callable[[State | None], Iterator[State]]
    ) -> Iterator[State]:
        return resume(None)


NO_RECORD = _NoRecord()


@dataclass(frozen=True)
class Observer:
    """What accompanies a fit: a function that is told of every step, and a record of results."""

    on_step: Callable[[str], object] = lambda step: None
    record: StepRecord = NO_RECORD


@dataclass(frozen=True)
class Prepared:
    """What several fits share: data divided by their largest singular value, the leading left
    singular vectors and singular values of the centred data, and Gram matrices.
    """

    matrix: Matrix
    U: Floats
    s: Floats
    gram: GramCache

    def embedding(self, n_components: int) -> Embedding:
        """Return the spectral embedding with that many components."""
        return embedding_of(self.U, self.s, n_components, self.matrix.total_weight)

    def alternation(self, settings: Settings, w_step: WStep) -> Alternation:
        """Return what stays the same in all loops of a fit."""
        embedding = self.embedding(settings.n_components).coordinates
        return Alternation(
            self.matrix, embedding, settings.n_clusters, w_step, settings.targets,
            settings.loop.n_init, self.gram, settings.known.fitted if settings.known else None,
        )  # fmt: skip


def prepare(
    matrix: Matrix,
    n_components: int,
    rng: np.random.RandomState,
    *,
    starts: Sequence[str | Ints] = (),
    gram_columns: int | None = None,
    observer: Observer = Observer(),
) -> Prepared:
    """Scale the data as in the paper, and compute their leading singular vectors.

    As many as `n_components`, the largest number that will be asked for, and the `starts` need;
    `gram_columns` of the Gram matrix are kept.
    """
    observer.on_step("embedding")
    rank = max(n_components - 1, 1)
    names = [name for start in starts for name in _expanded(start) if isinstance(name, str)]
    more = max([rank, *(getattr(STARTS[name], "rank", 0) for name in names)]) - rank
    with _threads_for(matrix, n_components):
        norm, U, s = observer.record.once("embedding", lambda: decompose(matrix, rank, rng, more))
    scaled = matrix.scaled(norm)
    gram = GramCache(scaled) if gram_columns is None else GramCache(scaled, gram_columns)
    return Prepared(scaled, U, s, gram)


def _threads_for(matrix: Matrix, n_components: int) -> Any:
    """Return a context with as many threads as products with the data are worth."""
    m, d = matrix.shape
    return blas_threads(float(m) * d * n_components, in_parallel=matrix.in_parallel)


@dataclass(frozen=True)
class SearchResult:
    """The best fit and the table of all that were tried."""

    fit: Fit
    table: dict[str, list[Any]]


def fit_prepared(
    prepared: Prepared,
    settings: Settings,
    rng: np.random.RandomState,
    *,
    observer: Observer = Observer(),
) -> SearchResult:
    """Choose the number of features if that is asked for, and fit from all starts."""
    with _threads_for(prepared.matrix, settings.n_components):
        return _fit_prepared(prepared, settings, rng, observer)


def _fit_prepared(
    prepared: Prepared, settings: Settings, rng: np.random.RandomState, observer: Observer
) -> SearchResult:
    k, matrix, once = settings.n_clusters, prepared.matrix, observer.record.once
    starts = _expanded_starts(settings, matrix.shape[0])
    names = [start if isinstance(start, str) else "labels" for start in starts]
    embedding = prepared.embedding(settings.n_components)
    data = StartData(matrix, embedding, k, settings.sigma, prepared.U, prepared.s)
    known, points, weight = settings.known, embedding.coordinates, matrix.sample_weight
    # Where several starts are compared, they depend on the data alone.
    start_rng = rng if len(starts) == 1 else np.random.RandomState(SEED)

    @cache
    def start_labels(i: int) -> Ints:
        start = starts[i]
        if isinstance(start, str):
            way, made = STARTS[start], data.known.get(STARTS[start])  # another has begun with it
            start = once("start", lambda: way.labels(data, start_rng) if made is None else made)
        return start if known is None else anchor(points, start, known.fitted, k, weight)

    judge = Judge(matrix, k, np.random.RandomState(SEED)) if len(starts) > 1 else None
    counts = Counts(settings.n_features, None)
    if settings.eta is None and (settings.n_features is None or settings.few is not None):
        observer.on_step("number of features")
        given, w_step = [start_labels(i) for i in range(len(starts))], w_step_for(settings, 1)
        chosen = once("count", lambda: choose_counts(matrix, given, settings, w_step, judge))
        counts = Counts(*chosen)
    problem = prepared.alternation(settings, w_step_for(settings, counts.in_loops))

    def finish(problem: Alternation, labels: Ints, certify: bool = False) -> Fit:
        return converge(
            problem, labels, settings.loop, rng, certify=certify, record=observer.record
        )

    if judge is not None:
        one_loop = partial(fit_labels, reassign=True)
        fit, tried, best = search(
            problem, names, start_labels, finish, one_loop, judge,
            on_step=observer.on_step, once=once,
        )  # fmt: skip
    else:
        observer.on_step(names[0])
        labels, best = start_labels(0), 0
        fit = finish(problem, labels, certify=True)
        tried = [Candidate(names[0], labels, fit, None)]
    if settings.few is not None and counts.after is not None:
        observer.on_step("few features")
        w_step = replace(w_step_for(settings, counts.after), selector=settings.few)
        before, fit = fit.labels, _narrowed(replace(problem, w_step=w_step), fit)
        n, scores = fit.projection.selected.size, None
        if judge is not None:  # what is returned is judged, too
            scores = Scores(*once("score", lambda: tuple(judge(fit.labels, w_step, n))))
        tried[best] = Candidate(names[best], before, fit, scores)
    return SearchResult(fit, _table(tried, best, 1.0 if judge is None else judge.ratio))


def _narrowed(problem: Alternation, fit: Fit) -> Fit:
    """Return the fit of few features to labels that have converged, with the history of both."""
    last = fit_labels(problem, fit.labels, reassign=True)
    history = {name: [*values, *last.history[name]] for name, values in fit.history.items()}
    return replace(last, history=history, converged=fit.converged)


def _table(tried: Sequence[Candidate], chosen: int, ratio: float) -> dict[str, list[Any]]:
    """Return a table of fits that were tried: one row each, with mean and error of scores."""
    names = ("start", "score", "score_se", "n_features", "n_loops", "chosen")
    table: dict[str, list[Any]] = {name: [] for name in names}
    for i, (name, _, fit, scores) in enumerate(tried):
        score, error = (np.nan, np.nan) if scores is None else mean_and_error(scores.margin, ratio)
        n_features, n_loops = fit.projection.selected.size, len(fit.history["cost"])
        row = (name, score, error, int(n_features), n_loops, i == chosen)
        for column, value in zip(names, row, strict=True):
            table[column].append(value)
    return table


def w_step_for(
    settings: Settings, n_features: int | None, selector: Selector | None = None
) -> WStep:
    """Return how the W-step is solved for a number of features (None: for `eta`)."""
    return WStep(
        n_features, settings.eta if n_features is None else None, settings.costs,
        selector or settings.selector, settings.solver, settings.solver_options, settings.ball,
        settings.relax, settings.ridge,
    )  # fmt: skip


def _expanded_starts(settings: Settings, n_samples: int) -> list[str | Ints]:
    """Return the starts, with those that "auto" stands for in its place."""
    if settings.n_clusters == 1:
        return [np.zeros(n_samples, dtype=np.intp)]
    return [name for start in settings.starts for name in _expanded(start)]


def _expanded(start: str | Ints) -> Sequence[str | Ints]:
    is_auto = isinstance(start, str) and start == "auto"
    return AUTO_STARTS if is_auto else (start,)


def converge(
    problem: Alternation,
    labels: Ints,
    loop: Loop,
    rng: np.random.RandomState,
    *,
    last: Projection | None = None,
    certify: bool = True,
    record: StepRecord = NO_RECORD,
) -> Fit:
    """Alternate from given labels, and from the projection of a similar fit (`last`).

    With `certify`, the first W-step is solved exactly (unless there is a `last` one), which
    finds a good working set; those after it use that set without certificate, and once labels
    and features have converged (or at the last loop) the W-step is solved exactly again: the
    result is certified.
    """

    def exact(state: State) -> bool:
        # In the paper's own scheme every W-step goes on from the last, so all are full.
        return certify and (
            problem.rule.monotone
            or state.projection is None
            or (loop.tol is not None and _converged(loop, state))
            or state.n_loops + 1 == loop.max_loops
        )

    def resume(state: State | None) -> Iterator[State]:
        begin = State(labels, projection=last) if state is None else state
        return alternate(problem, begin, rng, certify=exact)

    history: dict[str, list[float]] = {name: [] for name in HISTORY}
    before = State(labels, projection=last)
    for state in record.states("loop", resume):
        _append(history, state)
        was_exact, before = exact(before), state
        done = loop.tol is not None and _converged(loop, state) and was_exact == certify
        if state.n_loops == loop.max_loops or done:
            break
    return _as_fit(problem, state, history, _converged(loop, state))


def _converged(loop: Loop, state: State) -> bool:
    """Return whether labels and features changed no more in the last loop than the tolerance.

    Without a tolerance (all loops are run), whether they changed no more than by the usual one.
    """
    tol = USUAL_TOL if loop.tol is None else loop.tol
    return state.labels_changed <= tol and state.features_changed <= FEATURE_TOL * tol


def fit_labels(
    problem: Alternation,
    labels: Ints,
    *,
    last: Projection | None = None,
    certify: bool = True,
    reassign: bool = False,
) -> Fit:
    """Return the fit with one W-step, for given labels.

    With `reassign`, every sample whose label is not known joins the nearest centroid in the end;
    the centroids stay those of the given labels, so that they predict what is returned.
    """
    mu, k = problem.targets(labels, None), problem.n_clusters
    W = solve_w_step(
        problem.matrix, labels, mu, problem.w_step, gram=problem.gram, last=last, certify=certify
    )
    P = problem.matrix.project(W.weights)
    weight = problem.matrix.sample_weight
    centres, changed = centroids(P, labels, k, weight), 0.0
    if reassign:
        nearest = nearest_labels(P, centres, problem.known)
        changed = 1.0 - agreement(labels, nearest)
        labels = nearest
    state = State(labels, 1, W, centres, inertia_of(P, centres[labels], weight), changed, 0.0, P)
    history: dict[str, list[float]] = {name: [] for name in HISTORY}
    _append(history, state)
    return _as_fit(problem, state, history, True)


def _append(history: dict[str, list[float]], state: State) -> None:
    W = state.projection
    assert W is not None
    row = (state.inertia / 2, state.labels_changed, W.selected.size, W.eta, W.gap)
    for name, value in zip(HISTORY, row, strict=True):
        history[name].append(value)


def _as_fit(
    problem: Alternation, state: State, history: dict[str, list[float]], converged: bool
) -> Fit:
    W, centres, P = state.projection, state.centroids, state.projected
    assert W is not None and centres is not None
    if P is None:  # the last loop was read from a checkpoint
        P = problem.matrix.project(W.weights)
    return Fit(state.labels, centres, state.inertia, W, P, history, converged)


class Labelled(NamedTuple):
    """All samples with their final labels.

    Attributes
    ----------
    labels : ndarray of int
        Cluster of each sample; clusters are numbered by decreasing size.
    projected : ndarray, samples x components
        The samples in the projection.
    order : ndarray of int
        Cluster c was number ``order[c]`` in the fit.
    """

    labels: Ints
    projected: Floats
    order: Ints


def label_all(
    X: Any,
    rows: Ints | None,
    sample_weight: Floats | None,
    matrix: Matrix,
    fit: Fit,
    known: Ints | None = None,
    *,
    reassign: bool = True,
) -> Labelled:
    """Label all samples X, those without weight included, by their nearest centroids.

    `rows` are the samples that were fitted (None: all), `sample_weight` has a weight for each of
    all, `matrix` is the view that was fitted. Without `reassign`, fitted samples keep labels.
    Samples whose label is `known` (not -1) keep it.
    """
    k, P = fit.centroids.shape[0], fit.projected
    if rows is not None:
        rest = np.setdiff1d(np.arange(X.shape[0]), rows)
        P = np.empty((X.shape[0], fit.projected.shape[1]))
        P[rows] = fit.projected
        W = fit.projection.weights
        P[rest] = project_samples(select_rows(X, rest), matrix.mean, matrix.factor, W)
        if isinstance(matrix, BatchMatrix):
            P[rest] -= matrix.offsets(W)[matrix.every[rest]]
    # In the precision in which a model keeps them, so that it predicts the same labels.
    centres = fit.centroids.astype(X.dtype).astype(np.float64)
    labels = nearest_labels(P, centres, known)
    if not reassign:
        labels[slice(None) if rows is None else rows] = fit.labels
    rank = order_by_size(labels, k, sample_weight)
    return Labelled(rank[labels], P, np.argsort(rank))
