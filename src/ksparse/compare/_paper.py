"""Results reported in the paper: accuracy and ARI in per cent, NMI, seconds; and its radii."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["ETAS", "PAPER", "TITLES", "paper_name"]

Row = tuple[float | None, float | None, float | None, float | None]

ETAS = {"scsim1": 1000.0, "scsim2": 3000.0, "usoskin": 8000.0, "klein": 20000.0, "zeisel": 16000.0}

TITLES = {"scsim1": "Simulation 1", "scsim2": "Simulation 2", "usoskin": "Usoskin",
          "klein": "Klein", "zeisel": "Zeisel"}  # fmt: skip

PAPER: dict[str, dict[str, Row]] = {
    "scsim1": {
        "pca": (62.33, 37.21, 0.50, 0.36),
        "spectral": (74.00, 56.43, 0.63, 0.48),
        "simlr": (97.33, 93.77, 0.89, 10.04),
        "ksparse-paper": (98.33, 95.27, 0.92, 13.73),
    },
    "scsim2": {
        "pca": (61.33, 34.75, 0.49, 0.63),
        "spectral": (74.50, 57.36, 0.60, 0.75),
        "simlr": (97.50, 93.26, 0.90, 13.82),
        "ksparse-paper": (97.83, 94.03, 0.91, 62.92),
    },
    "usoskin": {
        "pca": (54.82, 22.33, 0.29, 1.06),
        "spectral": (60.13, 26.46, 0.33, 0.91),
        "simlr": (76.37, 67.19, 0.75, 15.67),
        "sparcl": (57.24, 31.30, 0.39, 1830),
        "ksparse-paper": (91.96, 85.85, 0.83, 57.07),
    },
    "klein": {
        "pca": (68.50, 44.82, 0.55, 10.91),
        "spectral": (63.31, 38.91, 0.54, 20.81),
        "simlr": (99.12, 98.34, 0.96, 511),
        "simlr-large": (None, 61.49, None, 8.64),
        "sparcl": (65.11, 45.11, 0.56, 30384),
        "ksparse-paper": (99.33, 98.77, 0.97, 97.10),
    },
    "zeisel": {
        "pca": (39.60, 34.67, 0.54, 11),
        "spectral": (59.30, 50.55, 0.68, 23),
        "simlr": (71.85, 64.8, 0.75, 464),
        "simlr-large": (None, 56.39, None, 8.19),
        "sparcl": (65.23, 59.06, 0.69, 28980),
        "ksparse-paper": (83.26, 75.06, 0.77, 71.60),
    },
}


def paper_name(data: str) -> str | None:
    """Return which of the paper's data sets a name or file stands for, or None."""
    stem = Path(data).stem.lower()
    whole = (name for name in PAPER if re.search(rf"(?<![a-z0-9]){name}(?![a-z0-9])", stem))
    return next(whole, None)
