"""Plots of the results of `ksparse.tl`; each function returns matplotlib Axes."""

from ksparse.pl._embedding import embedding
from ksparse.pl._genes import dotplot, genes, heatmap
from ksparse.pl._panel import panel, panel_curve
from ksparse.pl._results import clusters_vs_labels, convergence, path
from ksparse.pl._separation import separation
from ksparse.pl._tree import tree

__all__ = [
    "clusters_vs_labels",
    "convergence",
    "dotplot",
    "embedding",
    "genes",
    "heatmap",
    "panel",
    "panel_curve",
    "path",
    "separation",
    "tree",
]
