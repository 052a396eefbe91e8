"""Starts: labels from which the alternation begins. One file per start, and the registry."""

from __future__ import annotations

from ksparse.starts.base import Embedding, Start, StartData
from ksparse.starts.dense import DenseStart
from ksparse.starts.divisive import DivisiveStart
from ksparse.starts.graph import GraphStart
from ksparse.starts.kernel import KernelStart
from ksparse.starts.pca import PCAStart
from ksparse.starts.spectral import SpectralStart

__all__ = ["STARTS", "Embedding", "Start", "StartData", "register_start"]

STARTS: dict[str, Start] = {}


def register_start(name: str, start: Start) -> None:
    """Make a start known as `init=name`, and alternated densely first as `name + "+dense"`."""
    STARTS[name] = start
    STARTS[f"{name}+dense"] = DenseStart(start)


register_start("spectral", SpectralStart())
register_start("spectral_kernel", KernelStart())
register_start("pca", PCAStart())
register_start("graph", GraphStart())
register_start("divisive", DivisiveStart())
