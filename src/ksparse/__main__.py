"""``python -m ksparse`` is the command line."""

import os
import sys


def _leave_current_folder() -> None:
    """Import nothing from the current folder, where Python looks first when it is given -m."""
    try:
        here = os.getcwd()  # noqa: PTH109  (before anything else is imported)
    except OSError:
        return
    if not sys.flags.safe_path and sys.path[:1] == [here]:
        del sys.path[0]


if __name__ == "__main__":
    _leave_current_folder()
    from ksparse.cli import main

    sys.exit(main())
