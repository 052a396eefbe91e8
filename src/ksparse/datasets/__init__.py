"""The published single-cell data of the paper, read from their original files."""

from ksparse.datasets._load import from_folder, klein, usoskin, zeisel
from ksparse.datasets._sources import SOURCES, cache_folder

__all__ = ["SOURCES", "cache_folder", "from_folder", "klein", "usoskin", "zeisel"]
