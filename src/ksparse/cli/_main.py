"""How the command line ends: exit codes, one-line errors, signals."""

from __future__ import annotations

import errno
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from ksparse import __version__
from ksparse.signals import Terminated, answered_signals

__all__ = ["in_shell_words", "main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code.

    0: done. 2: bad use or bad input, told in one line. 130: interrupted. 143: terminated.
    141: nobody reads the output any more (click ends by SystemExit then). 1: a fault of the
    program.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    try:
        with answered_signals():
            if words == ["--version"]:  # without waiting for the numerical libraries
                click.echo(f"ksparse {__version__}")
                return 0
            # Imported here, where an interrupt is met: this takes two seconds.
            from ksparse.cli import _compare, _numbers, _results, _run  # noqa: F401
            from ksparse.cli._app import app

            with _plain_warnings():
                app.main(args=words, prog_name="ksparse", standalone_mode=False)
        sys.stdout.flush()
    except (KeyboardInterrupt, click.exceptions.Abort):
        return _end("interrupted", 130)
    except Terminated:
        return _end("terminated", 143)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return 2
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        hint = f" (see {context.command_path} --help)" if context is not None else ""
        return _end(error.format_message() + hint, 2)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except (BrokenPipeError, SystemExit):  # whoever reads our output has seen enough
        _silence()
        return 141
    except Exception as error:
        if debug:
            raise
        return _failed(error)
    return 0


# What the Python functions call things, and what they are called here.
SHELL_WORDS = (
    (r"run ksparse\.tl\.ksparse\(.*?\) first", "it is no result of `ksparse run`"),
    (r"adata\.uns\['ksparse'\] holds no result: ", "There is no result in the file: "),
    (r"n_cells=(\d+) should be >= n_clusters=(\d+)", r"--cells \1 should be >= --clusters \2"),
    (r"n_samples=(\d+)", r"\1 cells"),
    (r"n_clusters=(\d+)", r"-k \1"),
    (r"n_features=(\w+)", r"--genes \1"),
    (r"normalize='log1p'", "--normalize log1p"),
    (r"normalize=None", "--normalize none"),
    (r"layer=('.*?') is not in adata\.layers", r"--layer \1 is not in the file"),
    (r"layer=('.*?')", r"--layer \1"),
    (r"give layer= \(", "give --layer ("),
    (r"min_share=", "--min-share "),
    (r"new_adata", "INPUT"),
    (r"adata\.X", "X"),
)


def in_shell_words(text: str) -> str:
    """Say it in one line and in the words of the command line."""
    text = " ".join(text.split())
    for ours, theirs in SHELL_WORDS:
        text = re.sub(ours, theirs, text)
    return text


def _failed(error: Exception) -> int:
    from ksparse.jobs import Interrupted

    text = str(error)
    if isinstance(error, Interrupted):
        return _end("interrupted", 130)
    if getattr(error, "errno", None) == errno.ENOSPC or "No space left on device" in text:
        return _end("no space left on the disk; nothing was written", 2)
    if isinstance(error, OSError) and error.filename is not None:
        return _end(f"{error.filename}: {error.strerror}", 2)
    if isinstance(error, MemoryError):
        return _end(f"not enough memory. {text}", 2)
    if isinstance(error, ValueError | TypeError | OSError | ImportError):
        return _end(text or type(error).__name__, 2)
    return _end(f"a fault in ksparse, {type(error).__name__}: {text} (--debug tells where)", 1)


def _end(message: str, code: int) -> int:
    click.echo(f"ksparse: {in_shell_words(message)}", err=True)
    return code


def _silence() -> None:
    """Let nothing more be written to a closed pipe at exit."""
    import os

    with open(os.devnull, "w") as nowhere:  # noqa: PTH123
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Show our warnings as one line each, and not those that are for programmers."""
    from ksparse.jobs import Interrupted

    def show(message: Any, category: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(category, UserWarning):
            click.echo(f"ksparse: warning: {in_shell_words(str(message))}", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("always", category=UserWarning, module="ksparse")
        warnings.filterwarnings("always", category=UserWarning, module="__main__")
        # Half a path is not what was asked for: stop, as after any interrupt.
        warnings.simplefilter("error", Interrupted)
        warnings.showwarning = show
        yield
