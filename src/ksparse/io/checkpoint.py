"""Checkpoints: the finished steps of a run, kept in a folder.

A run is a fixed sequence of steps: given the data, the parameters and the state of the random
numbers, each has one result. So a run that was killed is done again from its beginning, but
takes from the folder what was finished, and the state of the random numbers after it. What is
kept is what a user would miss: the singular vectors, a start, a loop, a score.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ksparse._errors import InputError, Term
from ksparse.core.alternation import State
from ksparse.core.w_step import Projection
from ksparse.io.archives import check_archive
from ksparse.io.files import LOCK, claimed, new_file

__all__ = ["Checkpoint", "digest", "open_checkpoint"]

ENCODING, VERSION = "ksparse-checkpoint", 2
RNG_STATE = ("keys", "pos", "has_gauss", "gauss")
Arrays = dict[str, NDArray[Any]]
Result = TypeVar("Result")


@contextmanager
def open_checkpoint(
    folder: str | PathLike[str], run: dict[str, Any], rng: np.random.RandomState
) -> Iterator[Checkpoint]:
    """Yield the record of a run in a folder, which no other process may use meanwhile."""
    place = Path(folder)
    if place.exists() and not place.is_dir():
        raise InputError(Term("checkpoint", str(folder)), " is a file: give a folder.")
    place.mkdir(parents=True, exist_ok=True)
    with claimed(place / LOCK, Term("checkpoint", str(folder))):
        yield Checkpoint(place, run, rng)


class Checkpoint:
    """The record of a run (see `ksparse.search.settings.StepRecord`) in a folder.

    Parameters
    ----------
    folder : Path
        Where steps are kept; it exists, and is locked.
    run : dict
        What the run depends on; a folder of another run is refused.
    rng : RandomState
        The random numbers of the run; their state is kept with every step.

    Attributes
    ----------
    n_steps : int
        Steps so far.
    n_read : int
        How many of them were read from the folder.
    """

    def __init__(self, folder: Path, run: dict[str, Any], rng: np.random.RandomState) -> None:
        self.folder = folder
        self.run = run
        self.rng = rng
        self.n_steps = self.n_read = 0
        card = self.folder / "run.json"
        if card.exists():
            _check_same_run(card, run)
            for partial_file in self.folder.glob(".*.npz"):  # of a run that was killed
                partial_file.unlink(missing_ok=True)
        elif any(not path.name.startswith(".") for path in self.folder.iterdir()):
            raise InputError(
                Term("checkpoint", str(folder)),
                " holds other files, and no run: give an empty or a new folder.",
            )
        else:
            text = json.dumps({"encoding": ENCODING, "version": VERSION, "run": run}, indent=1)
            with new_file(card) as temporary:
                temporary.write_text(text, encoding="utf-8")

    def once(self, name: str, compute: Callable[[], Result]) -> Result:
        """Return what a step computes: from the folder, or computed and put there.

        Results are arrays, numbers, or tuples of these.
        """
        file = self._next_file(name)
        arrays = self._read(file)
        if arrays is not None:
            return _decode(arrays)
        result = compute()
        self._write(file, _encode(result))
        return result

    def states(
        self, name: str, resume: Callable[[State | None], Iterator[State]]
    ) -> Iterator[State]:
        """Yield the states in the folder, and then those of ``resume(last one or None)``."""
        last: State | None = None
        file = self._next_file(name)
        while (arrays := self._read(file)) is not None:
            last = _decode_state(arrays)
            yield last
            file = self._next_file(name)
        for state in resume(last):
            self._write(file, _encode_state(state))
            yield state
            file = self._next_file(name)

    def _next_file(self, name: str) -> Path:
        self.n_steps += 1
        return self.folder / f"{self.n_steps:05d}-{name}.npz"

    def _read(self, file: Path) -> Arrays | None:
        """Return a step that is whole and of this run, or None; restore the random numbers."""
        try:
            check_archive(file)
            # Opened here: numpy leaves a damaged file open.
            with file.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
            if not np.array_equal(arrays.pop("seal"), self._seal(file, arrays)):
                return None
        except MemoryError:
            raise
        except Exception:  # there are many ways to be damaged, and the step can be done again
            return None
        keys, pos, has_gauss, gauss = (arrays.pop(f"rng_{name}") for name in RNG_STATE)
        self.rng.set_state(("MT19937", keys, int(pos), int(has_gauss), float(gauss)))
        self.n_read += 1
        return arrays

    def _write(self, file: Path, arrays: Arrays) -> None:
        _, *numbers = self.rng.get_state()
        for name, number in zip(RNG_STATE, numbers, strict=True):
            arrays[f"rng_{name}"] = np.asarray(number)
        with new_file(file) as temporary, temporary.open("wb") as out:
            np.savez(out, **(arrays | {"seal": self._seal(file, arrays)}))  # type: ignore[arg-type]

    def _seal(self, file: Path, arrays: Arrays) -> NDArray[np.uint8]:
        """Return a checksum of a step, of the run and of the place that it belongs to."""
        about = json.dumps([self.run, file.name, sorted(arrays)])
        total = hashlib.sha256(about.encode())
        for key in sorted(arrays):
            total.update(_sha([arrays[key]]).encode())
        return np.frombuffer(total.digest(), dtype=np.uint8)


# Results as arrays ------------------------------------------------------------------------


def _encode(result: Any) -> Arrays:
    if isinstance(result, tuple):
        return {f"item_{i}": np.asarray(item) for i, item in enumerate(result)}
    return {"value": np.asarray(result)}


def _decode(arrays: Arrays) -> Any:
    if "value" in arrays:
        return _plain(arrays["value"])
    return tuple(_plain(arrays[f"item_{i}"]) for i in range(len(arrays)))


def _plain(array: NDArray[Any]) -> Any:
    return array if array.ndim else array.item()


def _encode_state(state: State) -> Arrays:
    """Return the arrays of a state: of the weights, the rows that are not zero."""
    assert state.projection is not None
    out: Arrays = {"labels": state.labels.astype(np.int32)}
    for name in ("n_loops", "centroids", "inertia", "labels_changed", "features_changed"):
        out[name] = np.asarray(getattr(state, name))
    for field in fields(Projection):
        value = getattr(state.projection, field.name)
        if field.name in ("weights", "l1_weights"):
            rows = np.flatnonzero(value.any(axis=1))
            out[f"{field.name}_rows"], out[field.name] = rows, value[rows]
            out["shape"] = np.array(value.shape)
        elif value is not None:
            out[f"projection_{field.name}"] = np.asarray(value)
    return out


def _decode_state(arrays: Arrays) -> State:
    values: dict[str, Any] = {}
    for field in fields(Projection):
        if field.name in ("weights", "l1_weights"):
            W = np.zeros(tuple(int(n) for n in arrays["shape"]))
            W[arrays[f"{field.name}_rows"]] = arrays[field.name]
            values[field.name] = W
        elif f"projection_{field.name}" in arrays:
            values[field.name] = _plain(arrays[f"projection_{field.name}"])
    return State(
        arrays["labels"].astype(np.intp),
        int(arrays["n_loops"]),
        Projection(**values),
        arrays["centroids"],
        float(arrays["inertia"]),
        float(arrays["labels_changed"]),
        float(arrays["features_changed"]),
    )


def _check_same_run(file: Path, run: dict[str, Any]) -> None:
    """Raise InputError unless a folder belongs to the same run."""
    try:
        card = json.loads(file.read_text(encoding="utf-8"))
        encoding, version, stored = card["encoding"], card["version"], dict(card["run"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise InputError(
            f"{file} is damaged, or not of a checkpoint: give another folder."
        ) from None
    if (encoding, version) != (ENCODING, VERSION):
        raise InputError(
            f"{file} is of version {version} of {encoding!r}, not {VERSION} of {ENCODING!r}: give "
            "another folder."
        )
    run = json.loads(json.dumps(run))
    different = [name for name in {**stored, **run} if stored.get(name) != run.get(name)]
    if different:
        name = different[0]
        raise InputError(
            Term("checkpoint", str(file.parent)), f" is of another run: {name} is "
            f"{stored.get(name)!r} there and {run.get(name)!r} here; give another folder.",
        )  # fmt: skip


def digest(value: Any) -> Any:
    """Return a parameter as something that JSON can hold; arrays as a checksum."""
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
