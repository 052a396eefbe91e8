"""Gene panels: a few features that tell given groups apart, and how well they do."""

from ksparse.panel.curve import panel_curve
from ksparse.panel.evaluation import evaluate_panel
from ksparse.panel.gates import find_gates
from ksparse.panel.selector import PanelSelector

__all__ = ["PanelSelector", "evaluate_panel", "find_gates", "panel_curve"]
