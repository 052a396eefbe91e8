"""Progress, timing and notes of a command."""

from __future__ import annotations

import hashlib
import os
import shlex
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ksparse._errors import visible
from ksparse._progress import progress_bar
from ksparse.cli._words import say, shell_text

__all__ = ["Steps", "checksum", "command_line", "noted"]


class Steps:
    """The steps of a job: a bar on a terminal, a line for each with -v, and their seconds."""

    def __init__(self, total: int, verbose: int) -> None:
        self.seconds: dict[str, float] = {}
        self.verbose = verbose
        self._bar = progress_bar(total, "ksparse", 1)

    @contextmanager
    def step(self, name: str, description: str) -> Iterator[None]:
        """Time a step."""
        self._bar.set_postfix_str(visible(description))
        start = time.perf_counter()
        yield
        self.seconds[name] = round(time.perf_counter() - start, 3)
        self._bar.update()
        self.log(f"{description}: {self.seconds[name]:.1f} s")

    def log(self, text: str) -> None:
        """Write a line to standard error if -v was given."""
        if self.verbose:
            self._bar.clear()
            say(f"ksparse: {text}", err=True)

    def close(self) -> None:
        """Remove the bar."""
        self._bar.close()

    def __enter__(self) -> Steps:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()


def checksum(path: Path) -> str:
    """Return the SHA-256 of a file, or of all files in a folder with their names."""
    total = hashlib.sha256()
    files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    for file in files:
        if path.is_dir():
            total.update(os.fsencode(file.relative_to(path).as_posix()))
            total.update(f"\0{file.stat().st_size}\0".encode())
        with file.open("rb") as stream:
            while block := stream.read(2**20):
                total.update(block)
    return total.hexdigest()


def command_line(command: str, paths: Sequence[Any], words: Sequence[Any]) -> str:
    """Return a command with its arguments and options that can be pasted into a shell."""
    if any(str(path).startswith("-") for path in paths):
        words, paths = [*words, "--", *paths], []
    return shlex.join(str(word) for word in ("ksparse", command, *paths, *words))


@contextmanager
def noted(before: Sequence[str] = ()) -> Iterator[list[str]]:
    """Collect the texts of the warnings of a block, which are shown as well.

    Those that were collected `before` are left out.
    """
    notes: list[str] = []
    show_before = warnings.showwarning

    def show(message: Any, category: Any, *where: Any, **more: Any) -> None:
        if issubclass(category, UserWarning):
            if (text := shell_text(message)) in before:
                return
            notes.append(text)
        show_before(message, category, *where, **more)

    warnings.showwarning = show
    try:
        yield notes
    finally:
        warnings.showwarning = show_before
        sys.stderr.flush()
