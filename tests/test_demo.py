"""The demo, its simulated data, and the command line."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from ksparse import __version__, simulate
from ksparse.cli import main
from ksparse.files import new_file


def read(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_demo_says_and_writes_what_it_found(tmp_path, capsys):
    folder = tmp_path / "new" / "folder"
    assert main(["demo", "-o", str(folder)]) == 0
    text = capsys.readouterr().out
    for word in ("accuracy", "ARI", "NMI", "40 features", "markers", "clusters of"):
        assert word in text
    clusters, features = read(folder / "clusters.csv"), read(folder / "features.csv")
    assert len(clusters) == 600
    agree = np.mean([row["cluster"] == row["true_cluster"] for row in clusters])
    assert agree > 0.9
    assert [int(row["rank"]) for row in features] == list(range(1, 41))
    assert np.mean([int(row["is_marker"]) for row in features]) > 0.9
    weights = [float(row["weight"]) for row in features]
    assert weights == sorted(weights, reverse=True)
    assert (folder / "demo.png").read_bytes()[:4] == b"\x89PNG"
    assert sorted(path.name for path in folder.iterdir()) == [
        "clusters.csv",
        "demo.png",
        "features.csv",
    ]


def test_errors_are_one_line_and_exit_code_2(tmp_path, capsys):
    occupied = tmp_path / "file"
    occupied.write_text("mine")
    assert main(["demo", "-o", str(occupied)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("ksparse: ")
    assert error.count("\n") == 1
    assert occupied.read_text() == "mine"
    with pytest.raises(OSError, match="file"):
        main(["--debug", "demo", "-o", str(occupied)])


@pytest.mark.parametrize("arguments", [[], ["unknown"], ["demo", "--seed", "x"]])
def test_bad_use_exits_with_2(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    assert "usage: ksparse" in capsys.readouterr().err


def test_the_version_is_told(capsys):
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out.strip() == f"ksparse {__version__}"


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    path = tmp_path / "out.txt"
    path.write_text("old")
    with pytest.raises(RuntimeError), new_file(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert path.read_text() == "old"
    with new_file(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("seed", range(3))
def test_simulated_counts_are_counts_with_the_truth_beside_them(seed):
    data = simulate.simulate_counts(300, 400, 5, n_markers=10, random_state=seed)
    again = simulate.simulate_counts(300, 400, 5, n_markers=10, random_state=seed)
    counts = data.counts.toarray()
    np.testing.assert_array_equal(counts, again.counts.toarray())
    assert (counts == np.round(counts)).all()
    assert counts.min() == 0
    assert 0.3 < (counts == 0).mean() < 0.8
    sizes = np.bincount(data.labels)
    assert len(sizes) == 5
    assert sizes.min() > 0
    assert data.markers.sum() == 50
    means = np.array([counts[data.labels == c].mean(axis=0) for c in range(5)])
    spread = means.std(axis=0) / means.mean(axis=0)
    assert spread[data.markers].mean() > 2 * spread[~data.markers].mean()


@pytest.mark.parametrize(
    ("counts", "part"),
    [
        ([[1, -2]], "1 negative values"),
        ([[1, np.nan]], "NaN"),
        ([1, 2], "2D"),
        ([["a"]], "convert"),
    ],
)
def test_what_is_not_counts_is_not_normalised(counts, part):
    with pytest.raises(ValueError, match=part):
        simulate.log_normalise(counts)


@pytest.mark.parametrize(
    ("sizes", "options", "part"),
    [
        ((3, 50, 4), {}, "n_samples=3"),
        ((100, 50, 4), {"n_markers": 20}, "n_features=50"),
        ((100, 500, 4), {"zeros": 1.0}, "zeros=1.0"),
    ],
)
def test_impossible_simulations_are_refused(sizes, options, part):
    with pytest.raises(ValueError, match=part):
        simulate.simulate_counts(*sizes, **options)
