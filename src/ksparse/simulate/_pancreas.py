"""Simulated cells of a pancreas: fourteen types in four families, some of them rare."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksparse._errors import InputError, Term
from ksparse.params import check_integer, check_seed
from ksparse.simulate._counts import SimulatedCounts

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

__all__ = ["SimulatedPancreas", "simulate_pancreas"]

# Cells of each type among 2,000, by family: about the shares that Baron et al. (2016) found in the
# human pancreas, but for the rarest types, of which there would be 2 to 6 cells.
FAMILIES = {
    "endocrine": {"beta": 567, "alpha": 530, "delta": 140, "gamma": 60, "epsilon": 10},
    "exocrine": {"ductal": 250, "acinar": 220},
    "stromal": {"activated stellate": 66, "endothelial": 60, "quiescent stellate": 40,
                "schwann": 7},
    "immune": {"macrophage": 30, "mast": 13, "t cell": 7},
}  # fmt: skip
SIZES = {name: size for family in FAMILIES.values() for name, size in family.items()}
BLOCK = 1_000
# The variance of a count is its mean + DISPERSION mean^2; standard deviations of the logarithm of
# the depth of a cell, and of log2 fold changes.
DISPERSION, DEPTH, FOLD = 0.3, 0.35, 0.5
# Marker genes of each family are so many times those of a type.
OF_FAMILY = 2


@dataclass(frozen=True)
class SimulatedPancreas(SimulatedCounts):
    """Simulated cells with their types.

    Attributes
    ----------
    types : ndarray of str
        Names of the types, by their number in `labels`.
    families : ndarray of str
        Family of each type.
    doublets : ndarray of bool
        Cells that are the sum of two; their label is that of the first.
    """

    types: NDArray[np.str_]
    families: NDArray[np.str_]
    doublets: NDArray[np.bool_]

    def to_anndata(self) -> Any:
        """Return an AnnData object with type, family and doublets in obs, markers in var.

        Examples
        --------
        >>> from ksparse.simulate import simulate_pancreas
        >>> simulate_pancreas(500, 1500, random_state=0).to_anndata().obs["label"].nunique()
        14
        """
        adata = super().to_anndata()
        for column, names in (("label", self.types), ("family", self.families)):
            adata.obs[column] = names[self.labels]
            adata.obs[column] = adata.obs[column].astype("category")
        adata.obs["doublet"] = self.doublets
        return adata


def simulate_pancreas(
    n_cells: int = 2000,
    n_genes: int = 3000,
    *,
    n_markers: int = 60,
    fold_change: float = 2.5,
    mean_count: float = 0.8,
    doublets: float = 0.02,
    random_state: int | np.random.RandomState | None = None,
) -> SimulatedPancreas:
    """Simulate the cells of a pancreas: 14 types in four families, four of them with 7 to 13 cells.

    A test of methods that must find rare types beside large ones. Every type has markers of its
    own and shares others with its family, all of them raised; a marker of a rare type is hardly
    seen in the variance of all cells. Counts are negative binomial with gamma-distributed means,
    and depths differ; most counts are zero.

    Parameters
    ----------
    n_cells, n_genes : int
        Size of the data. The numbers of cells of each type are those of 2,000 cells in proportion,
        and at least 2.
    n_markers : int
        Number of marker genes of each type; each of the four families has twice as many.
    fold_change : float
        Mean log2 fold change of a marker.
    mean_count : float
        Mean count of a gene that is no marker.
    doublets : float
        Share of the cells that are the sum of two.
    random_state : int, RandomState or None
        Seed.

    Returns
    -------
    SimulatedPancreas

    Examples
    --------
    >>> import numpy as np
    >>> from ksparse.simulate import simulate_pancreas
    >>> data = simulate_pancreas(random_state=0)
    >>> data.types[np.bincount(data.labels) < 15]
    array(['epsilon', 'schwann', 'mast', 't cell'], dtype='<U18')
    """
    n_cells = check_integer("n_cells", n_cells, 2 * len(SIZES))
    n_genes = check_integer("n_genes", n_genes, 1)
    n_markers = check_integer("n_markers", n_markers, 0)
    if not 0 <= doublets < 1:
        raise InputError(Term("doublets", doublets), " must be at least 0 and less than 1.")
    if not mean_count > 0:
        raise InputError(Term("mean_count", mean_count), " must be positive.")
    families = np.repeat(list(FAMILIES), [len(types) for types in FAMILIES.values()])
    needed = n_markers * (len(SIZES) + OF_FAMILY * len(FAMILIES))
    if needed > n_genes:
        raise InputError(
            Term("n_genes", n_genes), f" should be >= {needed}, the number of markers with ",
            Term("n_markers", n_markers), ".",
        )  # fmt: skip
    rng = check_seed(random_state)
    labels = rng.permutation(np.repeat(np.arange(len(SIZES)), _sizes(n_cells)))
    folds = _fold_changes(families, n_markers, fold_change, rng)
    base = rng.gamma(0.6, mean_count / 0.6, n_genes)
    depth = rng.lognormal(0.0, DEPTH, n_cells)
    is_doublet = rng.random_sample(n_cells) < doublets
    partner = np.where(is_doublet, labels[rng.permutation(n_cells)], -1)
    rows = [
        _counts(labels[part], partner[part], depth[part], base, folds, rng)
        for part in (slice(start, start + BLOCK) for start in range(0, n_cells, BLOCK))
    ]
    return SimulatedPancreas(
        sp.csr_array(sp.vstack(rows)), labels, np.arange(n_genes) < needed,
        np.array(list(SIZES)), families, is_doublet,
    )  # fmt: skip


def _sizes(n_cells: int) -> Ints:
    """Return the number of cells of each type; what rounding leaves over goes to the largest."""
    given = np.array(list(SIZES.values()))
    sizes = np.maximum(np.round(given * n_cells / given.sum()), 2).astype(np.intp)
    while sizes.sum() != n_cells:
        sizes[sizes.argmax()] += np.sign(n_cells - sizes.sum())
    return sizes


def _fold_changes(
    families: NDArray[np.str_], n_markers: int, fold_change: float, rng: np.random.RandomState
) -> Floats:
    """Return log2 fold changes, types x markers: those of types first, then those of families."""
    blocks = [np.arange(families.size) == one for one in range(families.size)]
    widths = [n_markers] * families.size
    for family in FAMILIES:
        blocks.append(families == family)
        widths.append(OF_FAMILY * n_markers)
    return np.hstack(
        [
            np.outer(block, np.abs(rng.normal(fold_change, FOLD, width)))
            for block, width in zip(blocks, widths, strict=True)
        ]
    )


def _counts(
    labels: Ints, partner: Ints, depth: Floats, base: Floats, folds: Floats,
    rng: np.random.RandomState,
) -> Any:  # fmt: skip
    """Return the counts of some cells; doublets hold those of their partner, too."""
    mean = _means(labels, base, folds)
    two = partner >= 0
    mean[two] += _means(partner[two], base, folds)
    mean *= depth[:, None]
    counts = rng.poisson(mean * rng.gamma(1 / DISPERSION, DISPERSION, mean.shape))
    return sp.csr_array(counts.astype(np.float32))


def _means(types: Ints, base: Floats, folds: Floats) -> Floats:
    mean = np.tile(base, (types.size, 1))
    mean[:, : folds.shape[1]] *= np.exp2(folds[types])
    return mean
