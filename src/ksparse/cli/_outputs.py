"""Folders of results that appear whole or not at all."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ksparse.signals import held_signals

__all__ = ["check_file", "new_folder"]


def check_file(path: Path, force: bool) -> None:
    """Refuse to overwrite a file unless that was asked for."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder: give the name of a file.")
    if path.exists() and not force:
        raise ValueError(f"{path} exists: give --force to replace it.")


@contextmanager
def new_folder(folder: Path, names: Sequence[str], force: bool) -> Iterator[Path]:
    """Give a folder to write the named files into; in the end they are moved to `folder`.

    The last name is the seal: where older results are replaced, it goes first and comes
    last, so that a folder that has it is complete.
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file: give a folder for the results.")
    there = [name for name in names if (folder / name).exists()]
    if there and not force:
        raise ValueError(f"{folder / there[0]} exists: give --force to replace it, or another -o.")
    for name in there:
        if (folder / name).is_dir():
            raise ValueError(f"{folder / name} is a folder: remove it, or give another -o.")
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    work = None
    try:
        work = Path(tempfile.mkdtemp(dir=folder, prefix=".ksparse-"))
        yield work
        written = [name for name in names if (work / name).exists()]
        with held_signals():
            if there:
                (folder / names[-1]).unlink(missing_ok=True)
            for name in written:
                (work / name).replace(folder / name)
        made = []
    finally:
        if work is not None:
            shutil.rmtree(work, ignore_errors=True)
        for path in made:  # nothing came of it: leave no empty folder behind
            if path.is_dir() and not any(path.iterdir()):
                path.rmdir()
