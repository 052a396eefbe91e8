"""Tools for AnnData, in the style of scanpy: results are written into the object."""

from ksparse.tl._embed import embed
from ksparse.tl._fit import ksparse
from ksparse.tl._gates import gates, get_gates
from ksparse.tl._panel import panel
from ksparse.tl._panel_evaluation import evaluate_panel, panel_curve
from ksparse.tl._path import path
from ksparse.tl._predict import predict
from ksparse.tl._rank_genes import rank_genes
from ksparse.tl._separation import choose_k, separation
from ksparse.tl._tree import tree

__all__ = [
    "choose_k",
    "embed",
    "evaluate_panel",
    "gates",
    "get_gates",
    "ksparse",
    "panel",
    "panel_curve",
    "path",
    "predict",
    "rank_genes",
    "separation",
    "tree",
]
