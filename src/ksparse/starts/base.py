"""What a start is, and what it is given."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from ksparse.matrix import Floats, Ints, Matrix

__all__ = ["Embedding", "Start", "StartData"]


@dataclass(frozen=True)
class Embedding:
    """Samples in a few dimensions.

    Attributes
    ----------
    coordinates : ndarray, samples x components
        Spectral coordinates, each row of unit length.
    scores : ndarray, samples x (components - 1, at least 1)
        Principal component scores: left singular vectors times singular values.
    """

    coordinates: Floats
    scores: Floats


@dataclass(frozen=True)
class StartData:
    """What starts are computed from.

    Attributes
    ----------
    matrix : Matrix
        The data, of spectral norm at most 1.
    embedding : Embedding
        Spectral coordinates and principal component scores.
    n_clusters : int
        Number of clusters.
    sigma : float
        Width of the kernel of "spectral_kernel".
    U, s : ndarray, optional
        Leading left singular vectors and singular values of the centred data, the first
        ones as exact as the embedding, the others to a few digits.
    known : dict
        Labels of starts that have been computed.
    """

    matrix: Matrix
    embedding: Embedding
    n_clusters: int
    sigma: float = 150.0
    U: Floats | None = field(default=None, repr=False)
    s: Floats | None = field(default=None, repr=False)
    known: dict[Start, Ints] = field(default_factory=dict, repr=False)

    def labels_of(self, start: Start, rng: np.random.RandomState) -> Ints:
        """Return the labels of a start, which are computed once."""
        if start not in self.known:
            self.known[start] = start.labels(self, rng)
        return self.known[start]


class Start(Protocol):
    """A way to find the labels from which the alternation begins.

    One that works with more singular vectors than the embedding has, has an attribute `rank`:
    then there are so many (or as many as the data have) in `StartData`.
    """

    def labels(self, data: StartData, rng: np.random.RandomState) -> Ints:
        """Return a label for each sample; no cluster is empty."""
        ...
