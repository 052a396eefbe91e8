"""Read data files into AnnData objects; `FORMATS` is the registry of file formats."""

from ksparse.readers._format import Format, ReadOptions, has_suffix
from ksparse.readers._read import read
from ksparse.readers._registry import FORMATS

__all__ = ["FORMATS", "Format", "ReadOptions", "has_suffix", "read"]
