"""Write files that appear complete or not at all."""

from __future__ import annotations

import csv
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["new_file", "write_csv"]


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; rename it to `path` unless the block raises."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path} cannot be written: there is no folder {path.parent}.")
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=path.suffix)
    os.close(descriptor)
    temporary = Path(name)
    try:
        yield temporary
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)  # mkstemp makes files that only their owner can read
        with temporary.open("rb") as file:
            os.fsync(file.fileno())  # or a machine that loses power keeps the name alone
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a header and rows as a .csv file."""
    with new_file(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)
