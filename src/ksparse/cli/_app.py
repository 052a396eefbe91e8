"""The command `ksparse`, to which the others belong."""

from __future__ import annotations

import click

from ksparse import __version__

__all__ = ["app"]

SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group(context_settings=SETTINGS)
@click.version_option(__version__, prog_name="ksparse", message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def app(debug: bool) -> None:
    """Clusters and the few genes that define them.

    \b
    Examples:
      ksparse demo
      ksparse run cells.h5ad -k 9 --genes 100 -o results/
      ksparse choose-k cells.h5ad -k 2-12 -o numbers/
      ksparse panel cells.h5ad --genes 50 --group-column cell_type -o panel/
    """
