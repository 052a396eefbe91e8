"""One self-contained HTML page about what was found."""

from ksparse.report._page import write_report

__all__ = ["write_report"]
