"""KSparse: clusters and the features that define them, as a scikit-learn estimator."""

from __future__ import annotations

from os import PathLike
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import ClassifierTags

from ksparse.fitting import DataMixin, FitMixin
from ksparse.prediction import PredictionMixin
from ksparse.presets import PresetMixin

__all__ = ["KSparse"]

Array = NDArray[Any]


class KSparse(
    FitMixin, DataMixin, PresetMixin, PredictionMixin,
    SelectorMixin, ClusterMixin, BaseEstimator,  # type: ignore[misc]
):  # fmt: skip
    """Clustering with feature selection by k-sparse.

    Alternates k-means on the projected data X W with the search for a sparse projection W
    that brings every sample near the target of its cluster: least squares on an l1 ball.
    Only the features with nonzero weights define the clusters; their number is met exactly.

    Parameters
    ----------
    n_clusters : int or "auto", default=8
        Number of clusters k. "auto" takes the number that `ksparse.choose_k` recommends, 1 if no
        two clusters are separated; that takes about as long as one fit for every number tried.
    n_features : int, float or "auto", default="auto"
        How many features to select: exactly that many, or a fraction of all. "auto" takes
        the smallest number (of a grid up to 400) that explains the clusters of a start (the one
        whose clusters are explained best) about as well as any does: 95 % of the best share of
        the targets on held-out samples. `ksparse.feature_path` shows the whole curve.
    eta : float, optional
        Radius of the l1 ball, in the paper's units (data divided by their largest singular
        value). Give this or `n_features`, not both.
    n_components : int, optional
        Dimension of the projection; k + 4 by default, as in the paper.
    init : str, array-like or list of these, default="auto"
        Where to start: "spectral", "pca", "graph" (communities of the nearest-neighbour
        graph), "divisive" (split in two again and again, which finds rare clusters),
        "spectral_kernel" (the full kernel, for checking), any of these followed by "+dense"
        (converged with all features first), or one label per sample. With a list
        all are tried and the one whose clusters stay apart best on held-out samples is
        kept (an earlier one, if the difference is within one standard error, or if its
        features explain its clusters better). "auto" tries "divisive", "graph+dense" and
        "spectral+dense", from random numbers of their own: they depend on the data alone.
    selector : {"auto", "l1", "forward"}, default="auto"
        How `n_features` features are chosen. "l1" finds the radius of the ball at which exactly
        that many have weights. "forward" finds the clusters with as many features as they need
        (as ``n_features="auto"`` does, but at least 100 where there are 5 samples for each), and
        then takes, one after the other, the feature that explains most of what is left, every
        cluster counting the same. "auto" is "forward" for fewer features than the clusters need,
        and "l1" otherwise (and without `relax`).
    solver : str, default="working_set"
        Solver of the W-step: "working_set", which is exact and fast, "projected_gradient",
        "fista", or "fista_paper" (its update as it is printed). All give the same answer.
    ball : {"l1"}, default="l1"
        What bounds the weights.
    relax : bool, default=True
        Whether to refit the projection on the selected features without the l1 bound
        before clustering. The bound shrinks the projection, which blurs clusters.
    n_init : int, default=5
        k-means++ replicates in every loop, besides a run from the current labels. Where
        several starts are compared, each goes on from its labels alone.
    kmeans_criterion : {"margin", "inertia"}, default="margin"
        What decides between these runs: how far samples are from the next cluster, or, as
        usual, how near to their own; the latter tends to cut large clusters in two.
    max_loops : int, default=10
        Largest number of loops of the alternation.
    min_cluster_size : int, default=5
        Smallest cluster (or a quarter of the mean size, if that is less). Samples of smaller ones
        are set apart, and the others clustered again: see `outlying_`. 1: nothing is.
    tol : float or None, default=0.01
        Stop when labels (1 - ARI) change by no more than this in a loop, and the selected
        features by no more than five times this share. None always runs `max_loops`.
    center : bool, default=True
        Whether to subtract the mean of every feature.
    scale : bool, default=False
        Whether to divide every feature by its standard deviation.
    feature_weights : array-like, optional
        Cost of each feature in the l1 norm. 0: always allowed, infinity: never selected.
    ridge : float, default=0.3
        Ridge of the relaxed projection, relative to the mean variance of the features.
    targets : {"balanced", "embedding", "projection"}, default="balanced"
        What W aims at: one axis for each cluster, all clusters counting the same, so that rare
        ones have features, too; or centroids, in the spectral embedding, which keeps their scale,
        or in the projection, as in the paper, where they shrink.
    solver_tol : float, default=1e-4
        Gap at which the W-step counts as solved, relative to half the squared targets.
    solver_max_iter : int, optional
        Largest number of iterations of the W-step.
    threshold : float, default=0.0
        Weights below this are set to zero in every iteration of "fista" and "fista_paper".
    max_labels : int, default=1
        Largest number of labels of a sample. With 2 or more, samples between clusters (such as
        doublets) may get several: they are modelled as the mean of their centroids.
    sigma : float, default=150.0
        Width of the kernel of "spectral_kernel".
    memory_limit : int or str, optional
        Memory for blocks of data that are read from files, in bytes or as text ("2GB"); 1 GiB by
        default. Added are about 7 numbers per sample and component, and 5,000 samples.
    checkpoint : path, optional
        A folder in which every finished loop is kept. A run that was killed goes on from there
        with the same data and parameters; one of another run is refused.
    random_state : int, RandomState or None, default=None
        Seed; it has no effect where several starts are compared, as by default.
    verbose : int, default=0
        1 shows a progress bar on a terminal.

    Attributes
    ----------
    labels_ : ndarray of int, one per sample
        Cluster of each sample. Clusters are numbered by decreasing size (total weight).
    weights_ : ndarray, features x components
        The projection in use (refitted if `relax`), for centred data in the paper's units.
        Column c belongs to cluster c, and columns beyond the clusters are zero (unless
        ``targets="projection"``, or there are fewer components than clusters).
    cluster_number_ : ClusterNumber
        What the number of clusters is based on (see `ksparse.choose_k`). Only with
        ``n_clusters="auto"``; not in saved models.
    l1_weights_ : ndarray, features x components
        The solution on the l1 ball.
    centroids_ : ndarray, clusters x components
        Cluster centres in the projection. Data with fewer distinct samples than
        `n_clusters` have that many clusters only (a ConvergenceWarning says so).
    known_classes_ : ndarray of object, one per cluster
        The class of each cluster, None for new ones. Only with `known_labels` (see `fit`).
    batches_, batch_means_, batch_mixing_, batch_support_
        What is known about batches, only with `groups`; see `batch_table` and docs/batches.md.
    outlying_ : ndarray of int
        Samples that would be a cluster of fewer than `min_cluster_size`: they have no part in the
        fit, and the label of the nearest cluster.
    unmarked_ : ndarray of int
        Clusters that no selected feature marks: none has another mean in them than in every other
        cluster (t-tests with the variance within clusters, level 5 % for all of them).
    memberships_ : ndarray of 0 and 1, samples x clusters
        All labels of each sample. Only with ``max_labels > 1``, as are the next two.
    membership_log_odds_ : ndarray, one per sample
        Log odds of the best set of several labels against the primary label alone.
    membership_centroids_ : ndarray, clusters x components
        Centroids fitted to the memberships by least squares.
    n_features_selected_ : int
        Number of features with nonzero weights.
    feature_importances_ : ndarray, one per feature
        Norm of the weights of each feature; 0 if not selected.
    eta_ : float
        Radius of the ball.
    gap_ : float
        Frank-Wolfe gap of `l1_weights_`, relative to half the squared targets: their objective
        is at most this far from the optimum on the l1 ball. It says nothing about the refit
        or the clusters. Large where weights were cut to meet `n_features`; NaN (no certificate)
        where these were selected forward.
    explained_, explained_bound_ : float
        Where features were selected forward: the share of the targets (one for each cluster, all
        of equal weight) that they explain, and that which all candidates together explain, which
        no set of them can exceed. NaN otherwise.
    converged_ : bool
        Whether the gap is below `solver_tol`, and labels and features converged within
        `max_loops` (a fit that was chosen after its first loop has). If not, there is a
        ConvergenceWarning, unless ``tol=None``, ``max_loops=1`` or ``solver_tol=0``.
    n_iter_ : int
        Number of loops, as in `history_`; the selection of features forward is one more.
    cost_history_ : ndarray
        Cost 1/2 ||Y mu - X W||^2 after each loop. It may rise, as targets are taken anew in
        every loop, unless ``targets="projection"``.
    history_ : dict of ndarray
        Per loop: cost, labels_changed (1 - ARI), n_features, eta, gap (NaN: not certified).
    starts_ : dict of list
        Table of the starts tried: start, score, score_se, n_features, n_loops, chosen. The
        score is the mean margin between clusters (at most 1; noise is negative) of samples
        that had no part in choosing the features or fitting the projection, and NaN if there
        was nothing to compare; its standard error is corrected for the overlap of the halves
        (Nadeau and Bengio, 2003). A later start is chosen if it is better by more than one
        standard error of the difference, half by half, and its targets are explained no worse.
        With features selected forward the chosen row has their score, which may be lower.
    spread_ : float
        Variance within clusters in the projection, per component.
    mean_, scale_ : ndarray, one per feature
        What is subtracted from each feature (zero unless `center`), and by what it is multiplied.
    n_passes_ : int or None
        How often data in files or on a cluster were read; None for data in memory.
    n_features_in_ : int
        Number of features of X.
    feature_names_in_ : ndarray of str
        Names of the features, where X has string column names.

    References
    ----------
    C. Gilet, M. Deprez, J.-B. Caillau, M. Barlaud. Clustering with feature selection using
    alternating minimization and a projection-gradient method. 2018.

    Examples
    --------
    >>> import numpy as np
    >>> from ksparse import KSparse
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(150, 200))
    >>> X[:50, :5] += 4
    >>> X[50:90, 5:10] += 4
    >>> model = KSparse(n_clusters=3, n_features=10, random_state=0).fit(X)
    >>> np.bincount(model.labels_)
    array([60, 50, 40])
    >>> np.flatnonzero(model.get_support())
    array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    """

    def __init__(
        self,
        n_clusters: int | str = 8,
        *,
        n_features: int | float | str = "auto",
        eta: float | None = None,
        n_components: int | None = None,
        init: Any = "auto",
        selector: str = "auto",
        solver: str = "working_set",
        ball: str = "l1",
        relax: bool = True,
        n_init: int = 5,
        kmeans_criterion: str = "margin",
        max_loops: int = 10,
        min_cluster_size: int = 5,
        tol: float | None = 0.01,
        center: bool = True,
        scale: bool = False,
        feature_weights: ArrayLike | None = None,
        ridge: float = 0.3,
        targets: str = "balanced",
        solver_tol: float = 1e-4,
        solver_max_iter: int | None = None,
        threshold: float = 0.0,
        max_labels: int = 1,
        sigma: float = 150.0,
        memory_limit: int | str | None = None,
        checkpoint: str | PathLike[str] | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters, self.n_features, self.eta = n_clusters, n_features, eta
        self.n_components, self.init, self.selector = n_components, init, selector
        self.solver, self.ball, self.relax, self.n_init = solver, ball, relax, n_init
        self.kmeans_criterion, self.max_loops, self.tol = kmeans_criterion, max_loops, tol
        self.min_cluster_size = min_cluster_size
        self.center, self.scale, self.feature_weights = center, scale, feature_weights
        self.ridge, self.targets, self.solver_tol = ridge, targets, solver_tol
        self.solver_max_iter, self.threshold = solver_max_iter, threshold
        self.max_labels, self.sigma, self.memory_limit = max_labels, sigma, memory_limit
        self.checkpoint, self.random_state, self.verbose = checkpoint, random_state, verbose

    def fit(
        self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None,
        *, known_labels: Any = None, groups: Any = None,
    ) -> Self:  # fmt: skip
        """Find clusters and features.

        Parameters
        ----------
        X : array-like, sparse matrix (CSR, CSC), AnnData, stored matrix or dask array
            The data, samples x features. Sparse data stay sparse. Constant features are never
            selected. Matrices in HDF5 and zarr files (dense or CSR, as in a backed AnnData) are
            read in blocks of rows; dask arrays are worked on by the scheduler that is active.
        y : ignored
            For compatibility.
        sample_weight : array-like, optional
            Weight of each sample; weight 2 is the same as the sample given twice. Samples
            of weight 0 are labelled in the end, and have no part in the fit.
        known_labels : array-like, optional
            The class of each sample, of any kind; missing (None, NaN or NA, not -1) where it
            is not known. Every class has one cluster: known samples stay there in any case,
            all others join the class or the new cluster that they are nearest to.
        groups : array-like, optional
            The batch of each sample, of any kind: features are centred within batches, and
            held-out scores leave out one batch after the other (see docs/batches.md).

        Returns
        -------
        self

        Examples
        --------
        >>> import numpy as np
        >>> from ksparse import KSparse
        >>> X = np.random.default_rng(0).normal(size=(60, 20)) + 5 * np.eye(20)[np.arange(60) % 3]
        >>> known = ["B cell", "T cell"] + [None] * 58
        >>> KSparse(3, n_features=3).fit(X, known_labels=known).known_classes_
        array(['B cell', 'T cell', None], dtype=object)
        """
        self.fit_project(X, sample_weight=sample_weight, known_labels=known_labels, groups=groups)
        return self

    def fit_project(
        self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None,
        *, known_labels: Any = None, groups: Any = None,
    ) -> Array:  # fmt: skip
        """Fit, and return all samples in the projection.

        The same as ``fit(X).project(X)``, without projecting the samples a second time.
        Parameters are those of `fit`.

        Returns
        -------
        ndarray, samples x components
        """
        X = self._validate(X, reset=True)
        return self._fitted(X, sample_weight, known_labels, groups)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        # Still a clusterer; scikit-learn's checks read these tags wherever they find
        # `predict_proba` and sparse input together.
        tags.classifier_tags = ClassifierTags(multi_class=self.n_clusters != 2)
        return tags
