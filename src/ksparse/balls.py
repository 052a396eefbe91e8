"""Exact Euclidean projections on convex balls."""

from ksparse.core.balls import project_l1

__all__ = ["project_l1"]
