"""Interrupts (SIGINT) and requests to end (SIGTERM): handled, delayed, never lost."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["Terminated", "answered_signals", "check_signals", "held_signals"]

STOPPING = (signal.SIGINT, signal.SIGTERM)

# The signals that `_answer` has received.
_received: list[int] = []


class Terminated(BaseException):
    """The process was asked to end (SIGTERM)."""


def _answer(number: int, frame: FrameType | None) -> None:
    _received.append(number)
    check_signals()


def check_signals() -> None:
    """Raise again what a signal has raised before, if that did not stop the program.

    The exception is raised wherever the program happens to be, and some places swallow it:
    finalizers, callbacks from C, a bare `except` around an import.
    """
    if _received:
        raise Terminated if _received[0] == signal.SIGTERM else KeyboardInterrupt


@contextmanager
def answered_signals() -> Iterator[None]:
    """Turn both signals into exceptions, so that temporary files are removed.

    A signal that is ignored (SIGINT in the background of a shell) stays ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in STOPPING}
    handled = [number for number in STOPPING if before[number] not in (signal.SIG_IGN, None)]
    _received.clear()
    for number in handled:
        signal.signal(number, _answer)
    try:
        yield
        check_signals()
    finally:
        for number in handled:
            signal.signal(number, before[number])
        _received.clear()


@contextmanager
def held_signals() -> Iterator[None]:
    """Delay the signals until the block is done; raise those that came before at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    check_signals()
    before = {number: signal.getsignal(number) for number in STOPPING}
    held = [number for number in STOPPING if before[number] is not None]
    waiting: list[tuple[int, FrameType | None]] = []
    for number in held:
        signal.signal(number, lambda *given: waiting.append(given))
    try:
        yield
    finally:
        for number in held:
            signal.signal(number, before[number])
        for received, frame in waiting[:1]:
            handler = before[signal.Signals(received)]
            if callable(handler):
                handler(received, frame)
            elif handler == signal.SIG_DFL:
                signal.raise_signal(received)
