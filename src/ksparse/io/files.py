"""Write files that appear complete or not at all."""

from __future__ import annotations

import csv
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["new_file", "plain_text", "write_csv"]

# What spreadsheets take for the beginning of a formula, in wide characters too. The script of
# the report (genes.js) has the same two patterns.
FORMULA = re.compile(r"'*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(inf|nan)")


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
    """Write a header and rows as a .csv file, with texts as `plain_text` returns them."""
    with new_file(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([plain_text(value) for value in header])
        writer.writerows([plain_text(value) for value in row] for row in rows)


def plain_text(value: Any) -> Any:
    """Return a value for a table so that a spreadsheet does not take text for a formula.

    Names come from data files. Text that begins like a formula gets a single quote in front,
    and so does text that begins like that after quotes: removing one quote gives it back.
    Numbers, also those that are written as text, stay as they are.

    Examples
    --------
    >>> from ksparse.io.files import plain_text
    >>> [plain_text(value) for value in ("=1+1", "@cell", "-1.5", -1.5, "Actb", "'=1+1")]
    ["'=1+1", "'@cell", '-1.5', -1.5, 'Actb', "''=1+1"]
    """
    if isinstance(value, str) and FORMULA.match(value) and not NUMBER.fullmatch(value):
        return f"'{value}"
    return value
