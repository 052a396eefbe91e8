"""Simulated counts with known clusters and known markers."""

from ksparse.normalise import log_normalise
from ksparse.simulate._counts import SimulatedCounts, simulate_counts
from ksparse.simulate._pancreas import SimulatedPancreas, simulate_pancreas
from ksparse.simulate._scsim import SimulatedCells, scsim

__all__ = [
    "SimulatedCells",
    "SimulatedCounts",
    "SimulatedPancreas",
    "log_normalise",
    "scsim",
    "simulate_counts",
    "simulate_pancreas",
]
