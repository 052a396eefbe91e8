"""Checkpoints: finished steps of a run, kept in a folder.

A run is a fixed sequence of steps: given the data, the parameters and the state of the random
numbers, each has one result. So a run that was killed is done again from its beginning, but
takes from the folder what was finished, and the state of the random numbers after it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ksparse.files import new_file
from ksparse.matrix import Blocks
from ksparse.promises import check_archive

__all__ = ["NO_JOURNAL", "Journal", "data_checksum", "digest"]

ENCODING, VERSION = "ksparse-checkpoint", 1
STATE = ("keys", "pos", "has_gauss", "gauss")  # of random numbers
Step = dict[str, Any]


class Journal:
    """Steps that are done once.

    Parameters
    ----------
    folder : path or None
        Where steps are kept; None keeps nothing.
    about : dict
        What the run depends on; a folder with another run is refused.
    """

    def __init__(
        self, folder: str | PathLike[str] | None = None, about: dict[str, Any] | None = None
    ):
        self.folder = None if folder is None else Path(folder)
        self.n_steps = 0
        self.n_kept = 0
        if self.folder is None:
            return
        if self.folder.exists() and not self.folder.is_dir():
            raise ValueError(f"checkpoint={str(folder)!r} is a file: give a folder.")
        self.folder.mkdir(parents=True, exist_ok=True)
        card = {"encoding": ENCODING, "version": VERSION, "run": about or {}}
        self.run = card["run"]
        file = self.folder / "run.json"
        if file.exists():
            _check_same(file, card)
            for left in self.folder.glob(".*.npz"):  # half written when a run was killed
                left.unlink(missing_ok=True)
        elif any(not path.name.startswith(".") for path in self.folder.iterdir()):
            raise ValueError(
                f"checkpoint={str(folder)!r} holds other files, and no run: give an empty or a "
                "new folder."
            )
        else:
            with new_file(file) as temporary:
                temporary.write_text(json.dumps(card, indent=1), encoding="utf-8")

    def step(self, name: str, rng: np.random.RandomState, compute: Callable[[], Step]) -> Step:
        """Return what a step gives: from the folder, or computed and put there.

        Entries are arrays, numbers, or None.
        """
        if self.folder is None:
            return compute()
        self.n_steps += 1
        file = self.folder / f"{self.n_steps:05d}-{name}.npz"
        kept = _read(file, self._seal)
        if kept is not None:
            keys, pos, has_gauss, gauss = (kept.pop(f"rng_{name}") for name in STATE)
            rng.set_state(("MT19937", keys, int(pos), int(has_gauss), float(gauss)))
            self.n_kept += 1
            return kept
        result = compute()
        _, *numbers = rng.get_state()
        state = {f"rng_{name}": number for name, number in zip(STATE, numbers, strict=True)}
        stored = {key: value for key, value in (result | state).items() if value is not None}
        arrays: dict[str, Any] = {key: np.asarray(value) for key, value in stored.items()}
        with new_file(file) as temporary, temporary.open("wb") as out:
            np.savez(out, **arrays, seal=self._seal(file, arrays))
        return result

    def _seal(self, file: Path, arrays: dict[str, NDArray[Any]]) -> NDArray[np.uint8]:
        """A checksum of a step, which also tells the run and the place that it belongs to."""
        about = json.dumps([self.run, file.name, sorted(arrays)])
        total = hashlib.sha256(about.encode())
        for key in sorted(arrays):
            total.update(_sha([arrays[key]]).encode())
        return np.frombuffer(total.digest(), dtype=np.uint8)


NO_JOURNAL = Journal()


def _read(file: Path, seal: Callable[[Path, Step], NDArray[np.uint8]]) -> Step | None:
    """A step that is whole and of this run, or None."""
    try:
        check_archive(file)
        # Opened by ourselves: numpy leaves a damaged file open.
        with file.open("rb") as stream, np.load(stream, allow_pickle=False) as found:
            out = {name: found[name] for name in found.files}
        return out if np.array_equal(out.pop("seal"), seal(file, out)) else None
    except MemoryError:
        raise
    except Exception:  # there are many ways to be damaged, and the step can be done again
        return None


def _check_same(file: Path, card: dict[str, Any]) -> None:
    try:
        there = json.loads(file.read_text(encoding="utf-8"))
        known = there["encoding"], there["version"], dict(there["run"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise ValueError(
            f"{file} is damaged, or not of a checkpoint: give another folder."
        ) from None
    if known[:2] != (ENCODING, VERSION):
        raise ValueError(
            f"{file} is of version {known[1]} of {known[0]!r}, not {VERSION} of {ENCODING!r}: give "
            "another folder."
        )
    here = json.loads(json.dumps(card["run"]))
    different = [name for name in {**known[2], **here} if known[2].get(name) != here.get(name)]
    if different:
        name = different[0]
        raise ValueError(
            f"checkpoint={str(file.parent)!r} is of another run: {name} is "
            f"{known[2].get(name)!r} there and {here.get(name)!r} here; give another folder."
        )


def digest(value: Any) -> Any:
    """A parameter as something that JSON can hold; arrays as a checksum of what is in them."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(value)
    if isinstance(value, np.random.RandomState):
        _, keys, pos, has_gauss, gauss = value.get_state()
        return "RandomState " + _sha([np.asarray(keys), np.array([pos, has_gauss, gauss])])
    if isinstance(value, (list, tuple)) and any(isinstance(item, str) for item in value):
        return [digest(item) for item in value]
    return "array " + _sha([np.asarray(value)])


def _sha(arrays: list[NDArray[Any]]) -> str:
    out = hashlib.sha256()
    for array in arrays:
        text = array.astype(str) if array.dtype.kind == "O" else array
        out.update(f"{text.dtype}{text.shape}".encode())
        out.update(np.ascontiguousarray(text).tobytes())
    return out.hexdigest()[:16]


@njit(cache=True, nogil=True)
def _mixed(i: np.uint64, j: np.uint64, bits: np.uint64) -> np.uint64:
    h = bits ^ (i * np.uint64(0x9E3779B97F4A7C15)) ^ (j * np.uint64(0xC2B2AE3D27D4EB4F))
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(31))


@njit(cache=True, nogil=True)
def _entries_sum(rows: NDArray[Any], columns: NDArray[Any], bits: NDArray[Any]) -> np.uint64:
    total = np.uint64(0)
    for p in range(bits.size):
        if bits[p] << np.uint64(1) != 0:  # neither 0 nor -0
            total += _mixed(np.uint64(rows[p]), np.uint64(columns[p]), bits[p])
    return total


def data_checksum(X: Any) -> int:
    """A sum over the nonzero values and their places: the same for any storage of the data."""
    if isinstance(X, Blocks):
        starts = [start for start, _ in X.bounds]
        return int(X.total(_block_checksum, (), starts, combine=_add))
    return _block_checksum(X, 0)


def _add(a: int, b: int) -> int:
    return (a + b) % 2**64


def _block_checksum(block: Any, start: int) -> int:
    total = 0
    step = max(1, 2**21 // max(1, block.shape[1]))
    by_rows = block if isinstance(block, np.ndarray) else block.tocsr()
    for first in range(0, block.shape[0], step):
        part = by_rows[first : first + step]
        if isinstance(part, np.ndarray):
            rows, columns = np.nonzero(part)
            values = part[rows, columns]
        else:
            part = part.tocoo()
            part.sum_duplicates()
            rows, columns, values = part.row, part.col, part.data
        bits = np.ascontiguousarray(values, dtype=np.float64).view(np.uint64)
        total = _add(total, int(_entries_sum(rows + (first + start), columns, bits)))
    return total
