"""Processes that this one starts: what they may import, and when they end."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["end_at_eof", "end_with_parent", "safe_children"]

# Python: import nothing from the current folder. numba: take no folder for its cache, which
# holds pickles, from a .numba_config.yaml there; the environment goes before that file.
SAFE = {"PYTHONSAFEPATH": "1", "NUMBA_CACHE_DIR": "", "NUMBA_CACHE_LOCATOR_CLASSES": ""}

_lock = threading.Lock()
_before: dict[str, str | None] = {}
_n_blocks = 0
_watching = 0


@contextmanager
def safe_children() -> Iterator[None]:
    """Let Python processes that are started in the block import nothing from the current folder.

    By default they look for modules in the current folder first, where data of somebody else
    may lie. The environment is changed, because libraries start processes, too.
    """
    global _n_blocks
    with _lock:
        _n_blocks += 1
        for name, value in SAFE.items() if _n_blocks == 1 else ():
            _before[name] = os.environ.get(name)
            os.environ[name] = _before[name] or value
    try:
        yield
    finally:
        with _lock:
            _n_blocks -= 1
            for name, older in _before.items() if _n_blocks == 0 else ():
                if older is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = older


def end_at_eof(descriptor: int) -> None:
    """End this process as soon as the other end of a pipe is closed, as when its owner dies."""

    def watch() -> None:
        while os.read(descriptor, 2**16):
            pass
        os._exit(1)

    _start(watch)


def end_with_parent(parent: int) -> None:
    """End this process as soon as `parent` has ended, if that started this process."""
    global _watching
    if _watching == os.getpid() or os.name != "posix" or os.getppid() != parent:
        return
    _watching = os.getpid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.2)
        os._exit(1)

    _start(watch)


def _start(watch: Callable[[], None]) -> None:
    threading.Thread(target=watch, name="ksparse-parent", daemon=True).start()
