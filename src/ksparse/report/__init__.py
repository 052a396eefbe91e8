"""A report of a result: one self-contained HTML page."""

from ksparse.report._page import write_report

__all__ = ["write_report"]
