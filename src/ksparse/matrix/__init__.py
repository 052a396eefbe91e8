"""Data of any storage behind one small protocol."""

from ksparse.matrix.base import Floats, GramCache, Ints, Matrix
from ksparse.matrix.sources import as_matrix, project_samples

__all__ = ["Floats", "GramCache", "Ints", "Matrix", "as_matrix", "project_samples"]
