"""The paper's comparison: every method on every data set, each run in a process of its own."""

from ksparse.compare._methods import METHODS
from ksparse.compare._pages import write_summary
from ksparse.compare._run import Plan, compare

__all__ = ["METHODS", "Plan", "compare", "write_summary"]
