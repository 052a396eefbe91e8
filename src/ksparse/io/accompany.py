"""What accompanies a fit where it is asked for: a progress bar and a checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import numpy as np

from ksparse._progress import progress_bar
from ksparse.io.checkpoint import digest, open_checkpoint
from ksparse.matrix.checksum import data_checksum
from ksparse.params import NO_EFFECT, Inputs
from ksparse.search.fit import Observer

__all__ = ["accompany"]


@contextmanager
def accompany(
    params: Mapping[str, Any], inputs: Inputs, rng: np.random.RandomState
) -> Iterator[tuple[Observer, np.random.RandomState]]:
    """Yield the observer of a fit, and its random numbers."""
    observer = Observer()
    with ExitStack() as stack:
        if params["checkpoint"] is not None:
            if params["random_state"] is None:
                rng = np.random.RandomState(rng.randint(2**31 - 1))
            run = _run(params, inputs)
            record = stack.enter_context(open_checkpoint(params["checkpoint"], run, rng))
            if params["random_state"] is None:
                record.once("random", lambda: 0)  # the same random numbers when it goes on
            observer = replace(observer, record=record)
        bar = stack.enter_context(progress_bar(None, "ksparse", params["verbose"]))

        def on_step(step: str) -> None:
            bar.set_postfix_str(step, refresh=False)
            bar.update()

        yield replace(observer, on_step=on_step), rng


def _run(params: Mapping[str, Any], inputs: Inputs) -> dict[str, Any]:
    """Return what the result of a run depends on."""
    known = inputs.settings.known
    return {
        "version": version("ksparse"),
        "shape": list(inputs.X.shape),
        "dtype": str(inputs.X.dtype),
        "data": f"{data_checksum(inputs.X):016x}",
        "sample_weight": digest(inputs.weight),
        # Left out where there are none, as in runs of versions that knew none.
        **({} if known is None else {"known_labels": digest(known.every)}),
        **({} if inputs.batches is None else {"groups": digest(inputs.batches.every)}),
    } | {name: digest(value) for name, value in params.items() if name not in NO_EFFECT}
