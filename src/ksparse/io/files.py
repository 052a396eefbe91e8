"""Write files that appear complete or not at all, one process at a time."""

from __future__ import annotations

import csv
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ksparse._errors import InputError, Term

__all__ = ["LOCK", "claimed", "new_file", "plain_text", "write_csv"]

# The name of the lock of a folder; hidden, because a process that is killed leaves it.
LOCK = ".ksparse.lock"

# What spreadsheets take for the beginning of a formula, in wide characters too. The script of
# the report (tables.js) has the same two patterns.
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


@contextmanager
def claimed(lock: Path, *what: str | Term) -> Iterator[None]:
    """Keep something to this process while the block runs.

    The lock is one of the operating system, which ends with the process, however that ends. Its
    file tells the number of the process, and is removed in the end.

    Parameters
    ----------
    lock : Path
        The file of the lock, in a folder that exists.
    *what : str or Term
        What is claimed, for the message.

    Raises
    ------
    InputError
        If another process, or another thread of this one, has claimed it.
    """
    descriptor = _open_locked(lock, what)
    try:
        os.ftruncate(descriptor, 0)
        os.write(descriptor, str(os.getpid()).encode())
        yield
    finally:
        if sys.platform == "win32":  # where an open file cannot be removed
            os.close(descriptor)
        with suppress(OSError):
            lock.unlink()
        if sys.platform != "win32":
            os.close(descriptor)


def _open_locked(lock: Path, what: Sequence[str | Term]) -> int:
    """Return the descriptor of a file that is locked, and still has its name."""
    while True:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
        try:
            _lock(descriptor)
            if os.path.samestat(os.fstat(descriptor), lock.stat()):
                return descriptor
        except BlockingIOError:
            owner = os.read(descriptor, 20).decode("ascii", "replace")
            who = f"process {owner}" if owner.isdigit() else "another process"
            os.close(descriptor)
            raise InputError(
                *what, f" is in use by {who}: wait until that has ended, or give another one."
            ) from None
        except FileNotFoundError:
            pass
        os.close(descriptor)  # it was removed by its owner before it was locked here


def _lock(descriptor: int) -> None:
    """Lock a file, or raise BlockingIOError; do nothing where the file system has no locks."""
    try:
        if sys.platform == "win32":
            import msvcrt

            os.lseek(descriptor, 2**30, os.SEEK_SET)  # what is locked cannot be read by others
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
            os.lseek(descriptor, 0, os.SEEK_SET)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except PermissionError as error:  # how Windows says it
        raise BlockingIOError from error
    except OSError:
        pass
