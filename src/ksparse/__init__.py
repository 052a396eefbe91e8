"""Clusters and the few features that define them, found together."""

from __future__ import annotations

from importlib import import_module

# Not imported: with `python -m ksparse` this is executed while the current folder is still the
# first place in which Python looks for a module that it has not loaded yet.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ksparse import (
        balls,
        baselines,
        compare,
        datasets,
        metrics,
        normalise,
        panel,
        pl,
        readers,
        report,
        simulate,
        tl,
    )
    from ksparse.estimator import KSparse
    from ksparse.loading import load
    from ksparse.panel.selector import PanelSelector
    from ksparse.selection.cluster_number import ClusterNumber, choose_k
    from ksparse.selection.path import FeaturePath, feature_path
    from ksparse.selection.separation import Separation, separation
    from ksparse.selection.stability import StabilitySelection, stability_selection
    from ksparse.selection.tree import ClusterTree, tree

__all__ = [
    "ClusterNumber",
    "ClusterTree",
    "FeaturePath",
    "KSparse",
    "PanelSelector",
    "Separation",
    "StabilitySelection",
    "__version__",
    "balls",
    "baselines",
    "choose_k",
    "compare",
    "datasets",
    "feature_path",
    "load",
    "metrics",
    "normalise",
    "panel",
    "pl",
    "readers",
    "report",
    "separation",
    "simulate",
    "stability_selection",
    "tl",
    "tree",
]

__version__ = "0.1.0"

# Loaded when first asked for: the numerical libraries take two seconds, which neither
# `ksparse --version` nor an interrupt should have to wait for.
_HOMES = {
    "ClusterNumber": "selection.cluster_number",
    "ClusterTree": "selection.tree",
    "FeaturePath": "selection.path",
    "KSparse": "estimator",
    "PanelSelector": "panel.selector",
    "Separation": "selection.separation",
    "StabilitySelection": "selection.stability",
    "choose_k": "selection.cluster_number",
    "feature_path": "selection.path",
    "load": "loading",
    "separation": "selection.separation",
    "stability_selection": "selection.stability",
    "tree": "selection.tree",
}
_MODULES = (
    "balls",
    "baselines",
    "compare",
    "datasets",
    "metrics",
    "normalise",
    "panel",
    "pl",
    "readers",
    "report",
    "simulate",
    "tl",
)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"ksparse.{name}")
    if name in _HOMES:
        value = getattr(import_module(f"ksparse.{_HOMES[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'ksparse' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
