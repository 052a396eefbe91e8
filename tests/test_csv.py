"""Tables for spreadsheets: text stays text, numbers stay numbers, and one function writes them."""

from __future__ import annotations

import ast
import csv
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ksparse
from conftest import examples
from ksparse.io.files import FORMULA, NUMBER, plain_text, write_csv

SOURCE = Path(ksparse.__file__).parent
FORMULAS = ["=1+1", "=cmd|' /C calc'!A0", "+1+1", "-1+1", "@SUM(1)", "\t=1", "\r=1", "\n=1", "＝1",
            "-gene", "+", "=", "'=1", "''-a", "--5"]  # fmt: skip
NUMBERS = ["-1.5", "+3", "-1e-05", "-.5", "-inf", "nan", "-0.0312", "+1.", "1e9"]
NAMES = ["Actb", "5'-end", "'quoted'", "a=1", " =1", "HLA-A", "", "T cell, CD4+"]


def read(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def test_formulas_get_a_quote_and_all_else_stays(tmp_path):
    write_csv(
        tmp_path / "t.csv", [*FORMULAS, "x"], [[*NUMBERS], [*NAMES], [-1.5, np.float64(-2), -3]]
    )
    assert read(tmp_path / "t.csv") == [
        [*(f"'{text}" for text in FORMULAS), "x"], NUMBERS, NAMES, ["-1.5", "-2.0", "-3"]
    ]  # fmt: skip


@settings(max_examples=examples(100, 2000), deadline=None, derandomize=True, database=None)
@given(st.text(alphabet="'=+-@\t\r\n＝＋－＠1.5eaé ", max_size=6))
def test_text_comes_back_and_no_formula_is_left(text):
    written = plain_text(text)
    assert written[:1] not in ("=", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
    assert written[:1] not in ("+", "-") or NUMBER.fullmatch(written)
    formula = (
        written[:1] == "'" and FORMULA.match(written[1:]) and not NUMBER.fullmatch(written[1:])
    )
    assert (written[1:] if formula else written) == text


def test_the_tables_of_the_command_line_hold_no_formulas(simulated, tmp_path):
    pytest.importorskip("anndata")
    from ksparse.cli import main

    adata = simulated.copy()
    adata.var_names = [f"=gene+{j}" for j in range(adata.n_vars)]
    adata.obs_names = [f"@cell{i}" for i in range(adata.n_obs)]
    adata.obs["-type"] = [f"+{label}b" for label in adata.obs["label"]]
    del adata.obs["label"]
    adata.write_h5ad(tmp_path / "cells.h5ad")
    words = ["run", str(tmp_path / "cells.h5ad"), "-k", "3", "--genes", "12", "--no-check"]
    assert main([*words, "--label-column", "-type", "-o", str(tmp_path / "out")]) == 0
    head, *cells = read(tmp_path / "out" / "clusters.csv")
    assert head == ["cell", "cluster", "margin", "'-type"]
    assert [row[0] for row in cells] == [f"'@cell{i}" for i in range(adata.n_obs)]
    assert all(float(row[2]) < 2 and row[3].startswith("'+") for row in cells)
    head, *genes = read(tmp_path / "out" / "genes.csv")
    assert all(row[head.index("gene")].startswith("'=gene+") for row in genes)
    numbers = [float(value) for row in genes for value in row[head.index("weight") :] if value]
    assert min(numbers) < 0  # contributions: numbers, without a quote


def test_all_tables_are_written_by_one_function():
    for path in SOURCE.rglob("*.py"):
        words = {node.attr for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
                 if isinstance(node, ast.Attribute)}  # fmt: skip
        writers = words & {"to_csv", "writer", "DictWriter", "savetxt", "to_excel"}
        assert not writers or path.name == "files.py", path


def test_the_download_of_a_report_has_the_same_patterns():
    script = (SOURCE / "report" / "tables.js").read_text(encoding="utf-8")
    assert f"/^{FORMULA.pattern}/" in script
    assert f"/^({NUMBER.pattern})$/" in script
