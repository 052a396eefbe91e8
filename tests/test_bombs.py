"""Small files that unpack to gigabytes, or have no end, are refused soon and with little memory."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytest.importorskip("anndata")
pytest.importorskip("h5py")
pytest.importorskip("zarr")
pytest.importorskip("resource")

import bombs
from conftest import thorough_params

SECONDS, MEMORY = 20, 2**30

# What each of them is told. The slower ones are left to the second tier.
QUICK = {
    "csv of many columns": "has 31457281 columns, which take 94.4 GB of memory, but holds",
    "csv of one line": "line 1 has more than 67108864 characters",
    "mtx of more values": "it holds more than the 20 values that it announces",
    "mtx of comments": "its comments have more than 1048576 characters",
    "barcodes of one line": "line 1 has more than 100000 characters",
    "npz of empty names": "announces 64 GB of data, but holds 128 bytes",
    "model of much text": "model.json unpacks to 101 MB, but",
    "h5ad with a chunk in the middle": "is damaged: ",
    "h5ad of groups in groups": "links lead to /uns/level 8 in a circle, or on too many paths",
    "zarr of zlib": "is damaged, or needs more than",
    "pipe for csv": "is a named pipe or a device, which is not read",
    "pipe for h5ad": "is a named pipe",
    "pipe for a model": "is a named pipe",
    "pipe in zarr": "is a named pipe",
    "pipe in a 10x folder": "is a named pipe",
}
SLOW = {
    "csv of many rows": "rows of 2 columns, which take",
    "csv of one entry": "line 3 has more than 67108864 characters",
    "mtx of many values": "announces 500000000 values, which take 20 GB of memory, but holds",
    "mtx of empty lines": "it holds more than the 20 values that it announces",
    "barcodes of many lines": "lines, which take",
    "npz of no rows": "announces 20 GB of data, but holds",
    "npz of bytes": "announces 10 GB of data, but holds",
    "h5ad of many texts": "is damaged",
    "h5ad of large chunks": "has 16 bytes, in a chunk of 2684354560",
    "zarr of gzip": "is damaged, or needs more than",
    "zarr of bz2": "is damaged, or needs more than",
    "pipe for npz": "is a named pipe",
}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory, request):
    """What became of the bombs: one process makes them all, and forks for each."""
    asked = [
        item.callspec.params["name"]
        for item in request.session.items
        if item.path == request.path and hasattr(item, "callspec")
    ]
    words = [sys.executable, bombs.__file__, str(tmp_path_factory.mktemp("bombs")), *asked]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return dict(json.loads(line) for line in done.stdout.splitlines())


def test_every_bomb_is_tried():
    assert {*QUICK, *SLOW} == set(bombs.BOMBS)


@pytest.mark.parametrize("name", thorough_params(QUICK, SLOW))
def test_bombs_are_refused_in_one_line(outcomes, name):
    found = outcomes[name]
    assert found["code"] == 2, found
    assert found["printed"].count("\n") == 1
    assert found["path"] in found["printed"]
    assert {**QUICK, **SLOW}[name] in found["printed"]
    assert found["seconds"] < SECONDS
    assert found["bytes"] < MEMORY
