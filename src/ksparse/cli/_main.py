"""Run the command line: exit codes, errors and warnings of one line, signals."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from ksparse import __version__
from ksparse._errors import InputError, InputWarning
from ksparse._processes import safe_children
from ksparse.cli._outputs import is_full_disk
from ksparse.cli._signals import Terminated, answered_signals, check_signals
from ksparse.cli._words import say, shell_text

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code.

    0: done. 2: bad use or bad input, with a message of one line. 130: interrupted. 143:
    terminated. 141: the output is no longer read (click ends by SystemExit then). 1: a fault of
    the program.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    end = words.index("--") if "--" in words else len(words)  # then come names of files
    debug = "--debug" in words[:end]
    words = [word for word in words[:end] if word != "--debug"] + words[end:]
    try:
        with answered_signals(), safe_children():
            if words == ["--version"]:  # without waiting for the numerical libraries
                say(f"ksparse {__version__}")
                return 0
            # Imported here, where an interrupt is handled: this takes two seconds.
            from ksparse._progress import each_step
            from ksparse.cli import _compare, _numbers, _panel, _results, _run, _tree  # noqa: F401
            from ksparse.cli._app import app

            with each_step(check_signals), _plain_warnings():
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
    except (BrokenPipeError, SystemExit):  # the output is no longer read
        _silence()
        return 141
    except Exception as error:
        if debug:
            raise
        return _failed(error)
    return 0


def _failed(error: Exception) -> int:
    text = shell_text(error)
    if is_full_disk(error) and not isinstance(error, InputError):
        return _end("no space left on the disk; nothing was written", 2)
    if isinstance(error, OSError) and error.filename is not None:
        return _end(f"{error.filename}: {error.strerror}", 2)
    if isinstance(error, MemoryError):
        return _end(f"not enough memory. {text}", 2)
    if isinstance(error, ValueError | TypeError | OSError | ImportError):
        return _end(text or type(error).__name__, 2)
    return _end(f"a fault in ksparse, {type(error).__name__}: {text} (--debug shows where)", 1)


def _end(message: str, code: int) -> int:
    say(f"ksparse: {' '.join(message.split())}", err=True)
    return code


def _silence() -> None:
    """Let nothing more be written to a closed pipe at exit."""
    import os

    with open(os.devnull, "w") as nowhere:  # noqa: PTH123
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Show the warnings of ksparse as one line each, and not those that are for programmers."""

    def show(message: Any, category: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(category, UserWarning):
            say(f"ksparse: warning: {shell_text(message)}", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("always", category=InputWarning)
        warnings.filterwarnings("always", category=UserWarning, module="ksparse")
        warnings.filterwarnings("always", category=UserWarning, module="__main__")
        warnings.showwarning = show
        yield
