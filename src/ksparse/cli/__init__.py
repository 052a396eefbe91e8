"""The command line."""

from ksparse.cli._main import main

__all__ = ["main"]
