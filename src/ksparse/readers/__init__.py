"""Read data files into AnnData objects."""

from ksparse.readers._read import read

__all__ = ["read"]
