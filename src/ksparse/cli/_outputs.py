"""Folders of results that appear whole or not at all."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ksparse._errors import InputError
from ksparse.cli._signals import held_signals

__all__ = ["check_file", "new_folder"]


def check_file(path: Path, force: bool) -> None:
    """Raise ValueError if a file exists, unless it may be replaced."""
    if path.is_dir():
        raise InputError(f"{path} is a folder: give the name of a file.")
    if path.exists() and not force:
        raise InputError(f"{path} exists: give --force to replace it.")


@contextmanager
def new_folder(folder: Path, names: Sequence[str], force: bool) -> Iterator[Path]:
    """Yield a folder to write the named files into; in the end they are moved to `folder`.

    Where older results are replaced, the last file is removed first and moved last, so that a
    folder that has it is complete.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file: give a folder for the results.")
    existing = [name for name in names if (folder / name).exists()]
    if existing and not force:
        raise InputError(
            f"{folder / existing[0]} exists: give --force to replace it, or another -o."
        )
    for name in existing:
        if (folder / name).is_dir():
            raise InputError(f"{folder / name} is a folder: remove it, or give another -o.")
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    work = None
    try:
        work = Path(tempfile.mkdtemp(dir=folder, prefix=".ksparse-"))
        yield work
        written = [name for name in names if (work / name).exists()]
        with held_signals():
            if existing:
                (folder / names[-1]).unlink(missing_ok=True)
            for name in written:
                (work / name).replace(folder / name)
        made = []
    finally:
        if work is not None:
            shutil.rmtree(work, ignore_errors=True)
        for path in made:  # after an error: leave no empty folder behind
            if path.is_dir() and not any(path.iterdir()):
                path.rmdir()
