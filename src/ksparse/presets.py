"""Estimators with the settings of others."""

from __future__ import annotations

from typing import Any, Self

from ksparse.params import PAPER

__all__ = ["PresetMixin"]


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
