"""Files and folders of results that appear whole or not at all, and replace nothing unasked."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from ksparse._errors import InputError
from ksparse.cli._signals import held_signals
from ksparse.io.files import LOCK, claimed

__all__ = ["is_full_disk", "kept_on_full_disk", "new_folder", "new_output"]


@contextmanager
def new_output(path: Path, force: bool) -> Iterator[Path]:
    """Yield a path to write a file to; in the end it is moved to `path`."""
    _check_file(path, force)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path} cannot be written: there is no folder {path.parent}.")
    digest = hashlib.sha256(os.fsencode(path.name)).hexdigest()[:16]  # the name may be too long
    with _workplace(path.parent, f".{digest}.lock", path) as work:
        yield work / path.name
        with held_signals():
            _check_file(path, force)  # another program may have written it in the meantime
            (work / path.name).replace(path)


@contextmanager
def new_folder(folder: Path, names: Sequence[str], force: bool) -> Iterator[Path]:
    """Yield a folder to write files into; in the end they are moved to `folder`.

    None of the names may exist there, unless older results may be replaced. Then the last file
    is removed first and moved last, so that a folder that has it is complete.
    """
    _check_names(folder, names, force)
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with _workplace(folder, LOCK, folder) as work:
            _check_names(folder, names, force)  # what was written before this was ours
            yield work
            with held_signals():
                _check_names(folder, names, force)
                _move(work, folder, names)
        made = []
    finally:
        for path in made:  # after an error: leave no empty folder behind
            with suppress(OSError):
                path.rmdir()


@contextmanager
def _workplace(folder: Path, lock: str, what: Path) -> Iterator[Path]:
    """Yield a new hidden folder, which is removed in the end; `what` is ours until then."""
    with ExitStack() as stack:
        with held_signals():  # no interrupt between making something and noting to remove it
            stack.enter_context(claimed(folder / lock, str(what)))
            work = Path(tempfile.mkdtemp(dir=folder, prefix=".ksparse-"))
            stack.callback(shutil.rmtree, work, ignore_errors=True)
        yield work


def _check_file(path: Path, force: bool) -> None:
    """Raise InputError if a file exists, unless it may be replaced."""
    if path.is_dir():
        raise InputError(f"{path} is a folder: give the name of a file.")
    if path.exists() and not force:
        raise InputError(f"{path} exists: give --force to replace it. Nothing was written.")


def _check_names(folder: Path, names: Sequence[str], force: bool) -> None:
    """Raise InputError if results exist, unless they may be replaced."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file: give a folder for the results.")
    existing = [name for name in names if (folder / name).exists()]
    if existing and not force:
        raise InputError(
            f"{folder / existing[0]} exists: give --force to replace it, or another -o. Nothing "
            "was written."
        )
    for name in existing:
        if (folder / name).is_dir():
            raise InputError(f"{folder / name} is a folder: remove it, or give another -o.")


def _move(work: Path, folder: Path, names: Sequence[str]) -> None:
    """Move all files of a folder, also those in folders inside; the last name goes last.

    Older results that have no successor are removed: they would not belong to the new ones.
    """
    last = names[-1]
    files = sorted(file.relative_to(work) for file in work.rglob("*") if file.is_file())
    files.sort(key=lambda file: file == Path(last))
    for file in files:
        (folder / file).parent.mkdir(exist_ok=True)
    (folder / last).unlink(missing_ok=True)
    for name in names:
        if Path(name) not in files:
            (folder / name).unlink(missing_ok=True)
    for file in files:
        (work / file).replace(folder / file)


# Full disks --------------------------------------------------------------------------------


def is_full_disk(error: BaseException) -> bool:
    """Return whether an error, or one from which or during which it was raised, tells this."""
    return any(getattr(cause, "errno", None) == errno.ENOSPC for cause in _causes(error))


@contextmanager
def kept_on_full_disk(what: str) -> Iterator[None]:
    """Say what was kept, if the disk is full."""
    try:
        yield
    except Exception as error:
        if is_full_disk(error):
            raise InputError(f"no space left on the disk; {what}") from None
        raise


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, and the errors from which or during which it was raised."""
    seen: list[BaseException | None] = [None]
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is not None and one not in seen:
            yield one
            waiting += [one.__cause__, one.__context__]
        seen.append(one)
