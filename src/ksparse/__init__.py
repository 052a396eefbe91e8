"""Clusters and the few features that define them, found together."""

from ksparse import balls, metrics, pl, simulate, tl
from ksparse.cluster_number import ClusterNumber, choose_k
from ksparse.estimator import KSparse
from ksparse.path import FeaturePath, feature_path
from ksparse.stability import StabilitySelection, stability_selection

__all__ = [
    "ClusterNumber",
    "FeaturePath",
    "KSparse",
    "StabilitySelection",
    "__version__",
    "balls",
    "choose_k",
    "feature_path",
    "metrics",
    "pl",
    "simulate",
    "stability_selection",
    "tl",
]

__version__ = "0.1.0"
