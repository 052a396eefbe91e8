"""The paper's comparison: every method on every data set, each run in a new process."""

from ksparse.compare._data import PREPARATIONS
from ksparse.compare._methods import METHODS
from ksparse.compare._pages import write_summary
from ksparse.compare._run import Plan, compare

__all__ = ["METHODS", "PREPARATIONS", "Plan", "compare", "write_summary"]
