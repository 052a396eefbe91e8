"""Clusters and the few features that define them, found together."""

from ksparse import balls, metrics
from ksparse.estimator import KSparse

__all__ = ["KSparse", "__version__", "balls", "metrics"]

__version__ = "0.1.0"
