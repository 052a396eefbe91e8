"""Clusters and the few features that define them, found together."""

from ksparse import balls, metrics
from ksparse.estimator import KSparse
from ksparse.path import FeaturePath, feature_path

__all__ = ["FeaturePath", "KSparse", "__version__", "balls", "feature_path", "metrics"]

__version__ = "0.1.0"
