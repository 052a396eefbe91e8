"""What the README shows works as it stands there."""

from __future__ import annotations

import re
import shlex
import warnings
from pathlib import Path

import pytest

from conftest import thorough_params
from ksparse.cli import main

README = Path(__file__).resolve().parents[1] / "README.md"


def blocks(kind):
    text = README.read_text(encoding="utf-8")
    return re.findall(rf"^```{kind}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


# The two blocks about "how many?" belong together, and are slow; test_path and test_cluster_number
# have short ones.
PYTHON = thorough_params(
    [block for block in blocks("python") if "choose_k" not in block],
    ["\n".join(block for block in blocks("python") if "choose_k" in block)],
)


def test_the_readme_has_its_examples():
    assert len(PYTHON) >= 2
    assert len(blocks("sh")) >= 3


@pytest.mark.parametrize("block", PYTHON, ids=lambda block: block.splitlines()[0])
def test_python_examples_run(block, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib").use("Agg")
    pytest.importorskip("anndata")
    monkeypatch.chdir(tmp_path)
    if "cells.h5ad" in block and "anndata.read_h5ad(..." not in block:
        from ksparse.simulate import simulate_counts

        simulate_counts(random_state=0).to_anndata().write_h5ad("cells.h5ad")
    exec(compile(block, "README", "exec"), {})


# The one of choose-k takes a minute; test_cli has a short one.
@pytest.mark.thorough
@pytest.mark.parametrize("slow", [False, True])
def test_shell_examples_run_one_after_another(slow, tmp_path, monkeypatch, capsys):
    pytest.importorskip("anndata")
    monkeypatch.chdir(tmp_path)
    block = next(block for block in blocks("sh") if "ksparse simulate" in block)
    commands = [line.split("#")[0].strip() for line in block.splitlines()]
    assert len(commands) == 6
    with warnings.catch_warnings():
        for command in commands:
            if slow or "choose-k" not in command:
                assert main(shlex.split(command)[1:]) == 0, command
    assert (tmp_path / "again.html").stat().st_size > 50_000
    for line in next(block for block in blocks("sh") if "ksparse panel" in block).splitlines():
        assert main(shlex.split(line, comments=True)[1:]) == 0, line
    assert (tmp_path / "judged" / "confusion.csv").exists()


def test_pictures_and_files_that_are_named_are_there():
    text = README.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert (README.parent / target).exists(), target
