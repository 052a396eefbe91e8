"""How N features are chosen: one file per selector, and the registry."""

from __future__ import annotations

from ksparse.core.selectors.forward import ForwardSelector
from ksparse.core.selectors.l1 import L1Selector
from ksparse.core.w_step import Selector

__all__ = ["SELECTORS"]

SELECTORS: dict[str, Selector] = {
    "l1": L1Selector(),
    "forward": ForwardSelector(),
}
