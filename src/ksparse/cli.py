"""The command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["main"]


def _parser() -> argparse.ArgumentParser:
    from ksparse import __version__

    parser = argparse.ArgumentParser(
        prog="ksparse", description="Clusters and the few features that define them."
    )
    parser.add_argument("--version", action="version", version=f"ksparse {__version__}")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    demo = commands.add_parser(
        "demo",
        help="cluster a small simulated data set and write the result",
        description="Simulate counts of 600 samples x 2,000 features in 4 clusters, find the "
        "clusters and 40 features, compare with the truth, and write clusters.csv, features.csv "
        "and demo.png.",
    )
    demo.add_argument(
        "-o", "--output", type=Path, default=Path("ksparse-demo"), help="folder (ksparse-demo)"
    )
    demo.add_argument("--seed", type=int, default=0, help="random seed (0)")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    options = _parser().parse_args(arguments)
    try:
        from ksparse.demo import run_demo

        print(run_demo(options.output, options.seed))
    except KeyboardInterrupt:
        print("ksparse: interrupted", file=sys.stderr)
        return 130
    except (ValueError, TypeError, OSError, ImportError) as error:
        if options.debug:
            raise
        print(f"ksparse: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
