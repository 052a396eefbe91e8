"""Clusters and the few features that define them, found together."""

from ksparse import balls, metrics
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
    "stability_selection",
]

__version__ = "0.1.0"
