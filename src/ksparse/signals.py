"""Interrupts (SIGINT) and requests to end (SIGTERM): answered, held back, never lost."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["Terminated", "answered_signals", "check_signals", "held_signals"]

STOPPING = (signal.SIGINT, signal.SIGTERM)

# The signals that `_answer` has met.
_came: list[int] = []


class Terminated(BaseException):
    """The process was asked to end (SIGTERM)."""


def _answer(number: int, frame: FrameType | None) -> None:
    _came.append(number)
    check_signals()


def check_signals() -> None:
    """Raise again what a signal has raised before, if that did not stop the program.

    The exception comes wherever the program happens to be, and some places let no exception
    out: finalizers, callbacks from C, a bare `except` around an import.
    """
    if _came:
        raise Terminated if _came[0] == signal.SIGTERM else KeyboardInterrupt


@contextmanager
def answered_signals() -> Iterator[None]:
    """Turn both signals into exceptions, so that what is half done is cleared away.

    A signal that is ignored (SIGINT in the background of a shell) stays so.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in STOPPING}
    ours = [number for number in STOPPING if before[number] not in (signal.SIG_IGN, None)]
    _came.clear()
    for number in ours:
        signal.signal(number, _answer)
    try:
        yield
        check_signals()
    finally:
        for number in ours:
            signal.signal(number, before[number])
        _came.clear()


@contextmanager
def held_signals() -> Iterator[None]:
    """Let the signals wait until the block is done; those that came before end it at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    check_signals()
    before = {number: signal.getsignal(number) for number in STOPPING}
    held = [number for number in STOPPING if before[number] is not None]
    waiting: list[tuple[int, FrameType | None]] = []
    for number in held:
        signal.signal(number, lambda *which: waiting.append(which))
    try:
        yield
    finally:
        for number in held:
            signal.signal(number, before[number])
        for came, frame in waiting[:1]:
            handler = before[signal.Signals(came)]
            if callable(handler):
                handler(came, frame)
            elif handler == signal.SIG_DFL:
                signal.raise_signal(came)
