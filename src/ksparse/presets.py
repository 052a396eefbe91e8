"""Estimators with the settings of others."""

from __future__ import annotations

from typing import Any, Self

__all__ = ["PAPER", "PresetMixin"]

# The settings of the paper and of its authors' programs, as parameters of KSparse. Where they
# are not those of its text, docs/comparison/README.md has the reason and what it is worth.
PAPER: dict[str, Any] = {
    "init": "spectral",
    "selector": "l1",
    "solver": "fista",
    "relax": False,
    "n_init": 40,
    "kmeans_criterion": "margin",
    "center": True,
    "max_loops": 10,
    "min_cluster_size": 1,
    "tol": None,
    "targets": "projection",
    "solver_tol": 0.0,
    "solver_max_iter": 50,
    "threshold": 0.01,
}


class PresetMixin:
    """Ways to make a `KSparse` other than by its parameters."""

    @classmethod
    def paper(cls, n_clusters: int, eta: float | None, **overrides: Any) -> Self:
        """Return an estimator with the settings of the paper and of its authors' programs.

        FISTA of 50 iterations, k + 4 components, one spectral start, 40 k-means replicates,
        10 loops, targets from the projection, no refit. Nearer to the paper's text would be
        ``solver="fista_paper", init="spectral_kernel", kmeans_criterion="inertia"`` and
        ``center=False, threshold=0``. docs/comparison/README.md has what each is worth.

        Parameters
        ----------
        n_clusters : int
            Number of clusters.
        eta : float or None
            Radius of the l1 ball. None if `n_features` is among the overrides: then the
            radius is sought that selects so many.
        **overrides
            Parameters of `KSparse` to set otherwise.

        Examples
        --------
        >>> from ksparse import KSparse
        >>> KSparse.paper(4, eta=1000).solver
        'fista'
        """
        return cls(n_clusters, **({"eta": eta} | PAPER | overrides))  # type: ignore[call-arg]
