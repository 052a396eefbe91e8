"""SCsim: single cells with four kinds of differential genes, trajectories, doublets and dropout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ksparse._errors import InputError, Term
from ksparse.params import check_integer, check_seed
from ksparse.simulate._counts import SimulatedCounts
from ksparse.simulate._steps import (
    STRENGTHS,
    Genes,
    draw_batches,
    draw_counts,
    draw_doublets,
    drop_out,
    expressed_folds,
    fold_changes,
    population_labels,
)

__all__ = ["PRESETS", "SimulatedCells", "scsim"]

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

PRESETS: dict[str, dict[str, Any]] = {
    "paper1": {"n_cells": 600, "n_genes": 5000},
    "paper2": {"n_cells": 600, "n_genes": 10000},
}


@dataclass(frozen=True)
class SimulatedCells(SimulatedCounts):
    """Simulated counts of cells with their populations, markers and doublets.

    Attributes
    ----------
    counts : csr_array, cells x genes
        Counts, as float32.
    labels : ndarray of int
        Population of each cell. A doublet has that of the cell that it replaces, which need
        not be one of its donors'.
    markers : ndarray of bool
        Mask of the genes that differ between populations.
    doublets : ndarray of bool
        Mask of the doublets.
    donors : list of ndarray of int
        The cells that each doublet is the mean of, in the order of the doublets.
    gene_types : ndarray of str
        "DE", "DM", "DP", "DC" (see `scsim`), or "NDE".
    gene_populations : ndarray of int
        The population that a gene belongs to; -1 for none.
    log2_fold_changes : ndarray, genes x populations
        log2 fold change of each gene in the cells of a population that express it.
    library_sizes : ndarray
        Factor of each cell.
    batches : ndarray of int
        Batch of each cell.
    """

    doublets: NDArray[np.bool_]
    donors: list[Ints]
    gene_types: NDArray[np.str_]
    gene_populations: Ints
    log2_fold_changes: Floats
    library_sizes: Floats
    batches: Ints

    def to_anndata(self) -> Any:
        """Return an AnnData object with populations, doublets and markers in obs and var.

        Examples
        --------
        >>> from ksparse.simulate import scsim
        >>> scsim(60, 200, random_state=0).to_anndata().obs["doublet"].sum().item()
        1
        """
        adata = super().to_anndata()
        adata.obs["doublet"] = self.doublets
        adata.obs["library_size"] = self.library_sizes
        adata.obs["batch"] = self.batches.astype(str)
        adata.obs["batch"] = adata.obs["batch"].astype("category")
        adata.var["type"] = self.gene_types
        adata.var["type"] = adata.var["type"].astype("category")
        adata.var["population"] = self.gene_populations
        for k, column in enumerate(self.log2_fold_changes.T):
            adata.var[f"log2fc_{k}"] = column
        return adata


def scsim(
    n_cells: int = 600,
    n_genes: int = 5000,
    *,
    n_clusters: int = 4,
    preset: str | None = None,
    sizes: Sequence[float] | None = None,
    marker_shares: Sequence[float] | None = None,
    de_shares: Sequence[float] | None = None,
    dm_shares: Sequence[float] | None = None,
    dp_shares: Sequence[float] | None = None,
    dc_shares: Sequence[float] | None = None,
    up_shares: Sequence[float] | None = None,
    trajectories: Sequence[Sequence[int]] | None = None,
    mixing: float = 25.0,
    strength: str = "medium",
    doublets: float = 2.0,
    dropout: float = 50.0,
    batches: Sequence[float] = (100,),
    random_state: int | np.random.RandomState | None = None,
) -> SimulatedCells:
    """Simulate single cells after the model of SCsim (Deprez 2017), as used in the paper.

    Genes have gamma-distributed means, cells have library sizes. Every population has
    genes of four types: DE, which differ in all its cells; DM, in all but a share of its
    cells (`mixing`); DP, also in a share of the cells of the next population on a
    trajectory; DC, which rise or fall along a trajectory (and are like DE if the
    population is on none). Some cells are doublets, the mean of two or three others. Counts
    are negative binomial, and small ones are set to zero until every cell has its share of
    zeros.

    All shares are in per cent, one entry for each population; for four of them the defaults
    are those of the paper's simulations as far as they are known. Seeds are independent.

    Parameters
    ----------
    n_cells, n_genes : int
        Size of the data; `preset` takes the place of both.
    n_clusters : int
        Number of populations.
    preset : {"paper1", "paper2"}, optional
        The sizes of the paper's simulations: 600 x 5,000 and 600 x 10,000.
    sizes : sequence of float, optional
        Share of the cells in each population.
    marker_shares : sequence of float, optional
        Share of all genes that belong to each population.
    de_shares, dm_shares, dp_shares, dc_shares : sequence of float, optional
        Share of each type among these.
    up_shares : sequence of float, optional
        Share of these that are raised; the others are lowered.
    trajectories : sequence of sequences of int, optional
        Populations, from 0, in the order in which cells develop; all in one by default.
    mixing : float
        Share of the cells in which DM genes do not differ, and of the cells of the next
        population in which DP genes differ.
    strength : {"small", "medium", "high"}
        Size of the fold changes.
    doublets : float
        Share of the cells that are doublets.
    dropout : float
        Share of zeros among the final counts.
    batches : sequence of float
        Size of each batch; with more than one, they differ in depth.
    random_state : int, RandomState or None
        Seed.

    Returns
    -------
    SimulatedCells

    Examples
    --------
    >>> from ksparse.simulate import scsim
    >>> data = scsim(preset="paper1", random_state=0)
    >>> data.counts.shape, int(data.markers.sum()), int(data.doublets.sum())
    ((600, 5000), 650, 12)
    """
    if isinstance(n_cells, str):  # presets come to mind as the first argument
        raise InputError(
            Term("n_cells", n_cells), " must be a number of cells: give a preset as ",
            Term("preset", n_cells if n_cells in PRESETS else next(iter(PRESETS))), ".",
        )  # fmt: skip
    if preset is not None:
        if preset not in PRESETS:
            raise InputError(
                Term("preset", preset), f" is unknown; choose from {', '.join(PRESETS)}."
            )
        n_cells, n_genes = PRESETS[preset]["n_cells"], PRESETS[preset]["n_genes"]
    n_cells, n_genes, n_clusters = (
        check_integer(name, count, 1)
        for name, count in (("n_cells", n_cells), ("n_genes", n_genes), ("n_clusters", n_clusters))
    )
    defaults = _default_shares(n_clusters)
    sizes = defaults["sizes"] if sizes is None else sizes
    marker_shares = defaults["markers"] if marker_shares is None else marker_shares
    up_shares = defaults["up"] if up_shares is None else up_shares
    if trajectories is None:
        trajectories = (tuple(range(n_clusters)),) if n_clusters > 1 else ()
    given = {"DE": de_shares, "DM": dm_shares, "DP": dp_shares, "DC": dc_shares}
    shares = {name: defaults[name] if s is None else s for name, s in given.items()}
    percents = {"mixing": mixing, "doublets": doublets, "dropout": dropout}
    _check_simulation(
        n_cells, n_genes, n_clusters, sizes, marker_shares, shares, up_shares, trajectories,
        strength, percents, batches,
    )  # fmt: skip
    rng = np.random.default_rng(check_seed(random_state).randint(2**31, size=4))
    labels = population_labels(n_cells, sizes)
    genes = Genes.draw(n_genes, marker_shares, shares, up_shares)
    folds = fold_changes(genes, trajectories, strength, rng)
    expressed = expressed_folds(genes, folds, labels, trajectories, mixing / 100, rng)
    base = rng.gamma(2.0, 1 / 0.75, n_genes)
    batch, depth = draw_batches(n_cells, batches, rng)
    library = np.abs(rng.normal(1.0, 0.25, n_cells))

    def means(cells: Ints) -> Floats:
        mu = base * (library * depth)[cells, None]
        mu[:, : expressed.shape[1]] *= np.exp2(expressed[cells])
        return mu

    is_doublet, donors = draw_doublets(n_cells, doublets / 100, rng)
    counts = draw_counts(means, n_cells, is_doublet, donors, rng)
    counts = drop_out(counts, dropout / 100, rng)
    return SimulatedCells(
        counts, labels, genes.population >= 0, is_doublet, donors, genes.types, genes.population,
        folds, library, batch,
    )  # fmt: skip


def _default_shares(k: int) -> dict[str, Sequence[float]]:
    """Return the shares of `k` populations: those of the paper for four, else decreasing ones."""
    if k == 4:
        return {"sizes": (30, 20, 10, 40), "markers": (4, 4, 3, 2), "up": (70, 50, 40, 60),
                "DE": (20, 40, 30, 40), "DM": (40, 20, 30, 20), "DP": (20,) * 4,
                "DC": (20,) * 4}  # fmt: skip
    decreasing = 1.0 / np.arange(2, k + 2)
    return {"sizes": tuple(100 * decreasing / decreasing.sum()), "markers": (min(3.0, 50 / k),) * k,
            "up": (60,) * k, "DE": (35,) * k, "DM": (25,) * k, "DP": (20,) * k,
            "DC": (20,) * k}  # fmt: skip


def _check_simulation(
    n_cells: int, n_genes: int, n_clusters: int, sizes: Any, marker_shares: Any, shares: Any,
    up_shares: Any, trajectories: Any, strength: str, percents: dict[str, float], batches: Any,
) -> None:  # fmt: skip
    """Raise InputError if the settings exclude each other or are out of range."""
    k = n_clusters
    named = {"sizes": sizes, "marker_shares": marker_shares, "up_shares": up_shares}
    named |= {f"{name.lower()}_shares": values for name, values in shares.items()}
    for name, values in named.items():
        if len(values) != k:
            raise InputError(
                f"{name} has {len(values)} entries, but ", Term("n_clusters", k), f": give {k}."
            )
        if min(values) < 0 or max(values) > 100:
            raise InputError(f"{name} must be percentages between 0 and 100.")
    for name, whole in (("sizes", sizes), ("batches", batches)):
        if len(whole) == 0 or min(whole) <= 0 or abs(sum(whole) - 100) > 1e-6:
            raise InputError(f"{name} must be positive percentages that sum to 100.")
    if sum(marker_shares) > 100:
        raise InputError(f"marker_shares sum to {sum(marker_shares):g}, which should be <= 100.")
    totals = np.sum(list(shares.values()), axis=0)
    if np.abs(totals - 100).max() > 1e-6:
        raise InputError("de_shares, dm_shares, dp_shares and dc_shares must sum to 100 each.")
    if n_cells < k:
        raise InputError(Term("n_cells", n_cells), " should be >= ", Term("n_clusters", k), ".")
    if strength not in STRENGTHS:
        raise InputError(
            Term("strength", strength), f" is unknown; choose from {', '.join(STRENGTHS)}."
        )
    for name, value in percents.items():
        if not 0 <= value < 100:
            raise InputError(Term(name, value), " must be a percentage in [0, 100).")
    for path in trajectories:
        if len(path) < 2 or len(set(path)) < len(path) or not set(path) <= set(range(k)):
            raise InputError(
                f"trajectories holds {tuple(path)}: give two or more different populations from 0 "
                f"to {k - 1}."
            )
