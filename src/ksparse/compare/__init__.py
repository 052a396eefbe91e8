"""The paper's comparison: every method on every data set, each run in a process of its own."""

from ksparse.compare._methods import METHODS
from ksparse.compare._run import Plan, compare
from ksparse.compare._summary import summarise

__all__ = ["METHODS", "Plan", "compare", "summarise"]
