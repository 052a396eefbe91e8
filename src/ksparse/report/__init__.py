"""Reports of results: self-contained HTML pages."""

from ksparse.report._page import write_panel_report, write_report

__all__ = ["write_panel_report", "write_report"]
