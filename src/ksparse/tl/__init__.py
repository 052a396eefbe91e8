"""Tools for AnnData, in the style of scanpy: results are written into the object."""

from ksparse.tl._embed import embed
from ksparse.tl._fit import ksparse
from ksparse.tl._gates import gates, get_gates
from ksparse.tl._path import path
from ksparse.tl._predict import predict
from ksparse.tl._rank_genes import rank_genes

__all__ = ["embed", "gates", "get_gates", "ksparse", "path", "predict", "rank_genes"]
