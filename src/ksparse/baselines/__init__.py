"""Other clustering methods, as scikit-learn estimators, to compare with and to use."""

from ksparse.baselines._simlr import SIMLR
from ksparse.baselines._simple import PCAKMeans, Spectral
from ksparse.baselines._sparse_kmeans import BoundChoice, SparseKMeans

__all__ = ["SIMLR", "BoundChoice", "PCAKMeans", "SparseKMeans", "Spectral"]
