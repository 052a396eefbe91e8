"""Clusters and the few features that define them, found together."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ksparse import balls, baselines, datasets, metrics, pl, readers, report, simulate, tl
    from ksparse.cluster_number import ClusterNumber, choose_k
    from ksparse.estimator import KSparse
    from ksparse.loading import load
    from ksparse.path import FeaturePath, feature_path
    from ksparse.stability import StabilitySelection, stability_selection

__all__ = [
    "ClusterNumber",
    "FeaturePath",
    "KSparse",
    "StabilitySelection",
    "__version__",
    "balls",
    "baselines",
    "choose_k",
    "datasets",
    "feature_path",
    "load",
    "metrics",
    "pl",
    "readers",
    "report",
    "simulate",
    "stability_selection",
    "tl",
]

__version__ = "0.1.0"

# Loaded when first asked for: the numerical libraries take two seconds, which neither
# `ksparse --version` nor an interrupt should have to wait for.
_HOMES = {
    "ClusterNumber": "cluster_number",
    "FeaturePath": "path",
    "KSparse": "estimator",
    "StabilitySelection": "stability",
    "choose_k": "cluster_number",
    "feature_path": "path",
    "load": "loading",
    "stability_selection": "stability",
}
_MODULES = (
    "balls",
    "baselines",
    "datasets",
    "metrics",
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
