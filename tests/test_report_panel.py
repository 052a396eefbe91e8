"""The page of a gene panel: its contents, and how it behaves in a real browser."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import pandas
import pytest

import ksparse as ks
from conftest import HOSTILE, crossed, page_content
from ksparse._errors import InputError
from ksparse.io.files import plain_text
from ksparse.report import _page, write_panel_report
from ksparse.scverse.panel_evaluation import held_out_half

anndata = pytest.importorskip("anndata")

GIVEN = {"normalize": "log1p", "random_state": 0}


def with_panel(adata, groupby, n_genes=8, **wishes):
    """Everything that the page can show, as `ksparse panel` computes it."""
    half = held_out_half(adata, groupby, 0)
    ks.tl.panel(adata, n_genes, groupby=groupby, **wishes, **GIVEN)
    ks.tl.panel(adata, n_genes, groupby=groupby, held_out=half, key_added="half", **wishes, **GIVEN)
    ks.tl.evaluate_panel(adata, "half", groupby, held_out=half, compare=False, n_random=0, **GIVEN)
    ks.tl.panel_curve(adata, groupby, n_genes=[3, n_genes], held_out=half,
                      rivals=["hvg", "random"], n_random=2, **GIVEN)  # fmt: skip
    ks.tl.gates(adata, groupby, max_genes=2, held_out=half, **GIVEN)
    ks.tl.gates(adata, groupby, genes=adata.var_names[adata.var["half"]], max_genes=2,
                held_out=half, key_added="half_gates", **GIVEN)  # fmt: skip
    return adata


@pytest.fixture(scope="module")
def adata(simulated):
    return with_panel(simulated.copy(), "label")


@pytest.fixture(scope="module")
def page_file(adata, tmp_path_factory):
    path = tmp_path_factory.mktemp("panel") / "panel.html"
    return write_panel_report(adata, path, half_gates_key="half_gates", title="A panel",
                              run={"command": "ksparse panel x"})  # fmt: skip


@pytest.fixture(scope="module")
def hostile_file(simulated, tmp_path_factory):
    adata = simulated.copy()
    names = list(adata.var_names)
    for place, name in zip((0, 1, 2, 15, 16, 30, 32), HOSTILE, strict=True):
        names[place] = name
    adata.var_names = names
    groupby = HOSTILE[1]
    adata.obs[groupby] = pandas.Categorical([HOSTILE[i] for i in adata.obs["label"].cat.codes])
    with_panel(adata, groupby, 30, keep=HOSTILE)
    path = tmp_path_factory.mktemp("hostile") / "panel.html"
    run = {"command": HOSTILE[0], "notes": HOSTILE, "input": {"name": HOSTILE[0]}}
    return write_panel_report(adata, path, half_gates_key="half_gates", title=HOSTILE[0], run=run)


def test_the_page_holds_what_was_found(page_file, adata):
    data = page_content(page_file)
    table = adata.uns["panel"]["genes"]
    assert data["title"] == "A panel"
    assert [gene["name"] for gene in data["genes"]] == table["gene"].tolist()
    assert [gene["why"] for gene in data["genes"]] == table["why"].tolist()
    groups = [group["name"] for group in data["clusters"]]
    assert [groups[gene["cluster"]] for gene in data["genes"]] == table["group"].tolist()
    assert [group["size"] for group in data["clusters"]] == (
        adata.obs["label"].value_counts()[groups].tolist()
    )
    X = ks.normalise.log_normalise(adata.X)
    for gene in data["genes"]:
        values = X[:, [adata.var_names.get_loc(gene["name"])]].toarray().ravel()
        for g, group in enumerate(groups):
            here = values[(adata.obs["label"] == group).to_numpy()]
            assert gene["mean"][g] == pytest.approx(here.mean(), rel=1e-3)
            assert gene["fraction"][g] == pytest.approx((here > 0).mean(), rel=1e-3)
    # In the dot plot genes stand in the order of the groups in which they are highest.
    marked = [group for _, group in data["dots"]]
    assert marked == sorted(marked)
    assert [np.argmax(data["genes"][j]["mean"]) for j, _ in data["dots"]] == marked
    assert data["command"] == "ksparse panel x"


def test_what_is_called_held_out_is(page_file, adata):
    data = page_content(page_file)
    stored = adata.uns["panel_evaluation"]
    assert stored["params"]["held_out"] == "yes"
    for row, group in zip(data["recall"], data["clusters"], strict=True):
        for name in ("logistic", "5nn"):
            assert row[name][0] == pytest.approx(stored["recall"][name][group["name"]], rel=1e-3)
    value = stored["scores"]["balanced_accuracy"].iloc[0]
    assert f"{value:.1%}" in data["story"]
    assert data["curve"][0]["panel"]["value"] == pytest.approx(value, rel=1e-3)
    gates = adata.uns["half_gates"].set_index("group")
    for gate in data["gates"]:
        expected = gates["F"][data["clusters"][gate["cluster"]]["name"]]
        assert gate["held_out"]["F"] == pytest.approx(expected, rel=1e-3)


def test_an_evaluation_with_the_cells_that_chose_is_not_shown_as_held_out(adata, tmp_path):
    other = adata.copy()
    ks.tl.evaluate_panel(other, "panel", "label", compare=False, n_random=0, **GIVEN)
    for present in (True, False):
        if not present:
            for name in ("panel_evaluation", "panel_curve", "gates"):
                del other.uns[name]
        data = page_content(write_panel_report(other, tmp_path / f"{present}.html"))
        recall = other.uns["panel"]["recall"]
        shown = [row["logistic"][0] for row in data["recall"]]
        assert shown == pytest.approx(recall["logistic"].tolist(), rel=1e-3)
        assert "the other half" in data["recall_hint"]
        assert bool(data["curve"]) == bool(data["gates"]) == present
        assert data["command"].startswith("ksparse.tl.panel(adata, 8, groupby='label'")


def test_what_is_damaged_is_told(adata, tmp_path):
    other = adata.copy()
    other.uns["panel_evaluation"] = dict(other.uns["panel_evaluation"], recall="none")
    with pytest.raises(InputError, match=r"recall must be a table.*tl.evaluate_panel again"):
        write_panel_report(other, tmp_path / "r.html")
    other.uns["panel_evaluation"] = {}
    with pytest.raises(InputError, match="holds no evaluation of a panel: run ksparse"):
        write_panel_report(other, tmp_path / "r.html")
    with pytest.raises(InputError, match="holds no panel"):
        write_panel_report(other, tmp_path / "r.html", key="nothing")
    with pytest.raises(InputError, match=r"genes of the panel are not in adata \(the first is"):
        write_panel_report(adata[:, ~adata.var["panel"]].copy(), tmp_path / "r.html")
    assert not (tmp_path / "r.html").exists()


def test_hostile_text_stands_only_in_json(hostile_file):
    text = hostile_file.read_text(encoding="utf-8")
    assert text.count("<script") == text.count("</script>") == 2
    assert "<img" not in text and "<b " not in text
    text = text.replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?://|//cdn|@import|<link|src=x?[\"']", text.split('id="data"')[0])
    assert page_content(hostile_file)["title"] == HOSTILE[0]


@pytest.mark.parametrize("page", [_page.CLUSTERS, _page.PANEL], ids=lambda page: page.sections)
def test_no_two_scripts_of_a_page_define_the_same(page):
    """The later function would silently replace the other."""
    folder = Path(_page.__file__).parent
    texts = [(folder / name).read_text(encoding="utf-8") for name in page.scripts]
    names = re.findall(r"^(?:async )?(?:function|const|let) (\w+)", "\n".join(texts), re.MULTILINE)
    assert len(names) > 20
    assert len(set(names)) == len(names)


# In a browser


def shown_genes(page):
    return page.locator("#gene-table tbody tr td:nth-child(2)").all_inner_texts()


@pytest.mark.parametrize(("width", "scheme"), crossed([400, 800, 1500], ["light", "dark"]))
def test_it_fits_narrow_and_wide_screens_in_light_and_dark(
    visit, page_file, width, scheme, tmp_path
):
    page = visit(page_file, viewport={"width": width, "height": 800}, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("document.documentElement.dataset.theme") == scheme
    shown = page.locator("section:visible h2").all_inner_texts()
    assert shown == [
        "Genes", "Genes in the groups", "How many genes?", "Held-out recall of the groups",
        "Gates", "Parameters and versions",
    ]  # fmt: skip
    assert page.locator("#curve-charts svg").count() == 2
    assert page.locator("#dot-plot circle").count() == 3 * 8 + 3 + 3
    assert page.locator("#recall-table tbody tr").count() == 3
    assert page.locator("#gate-table tbody tr").count() == 3
    page.screenshot(path=tmp_path / "page.png", full_page=True)


def test_genes_are_searched_filtered_and_sorted(visit, page_file):
    page, genes = visit(page_file), page_content(page_file)["genes"]
    assert shown_genes(page) == [gene["name"] for gene in genes]
    page.click("button[data-column='gain']")
    assert shown_genes(page) == [g["name"] for g in sorted(genes, key=lambda g: -g["gain"])]
    assert page.get_attribute("th:has(button[data-column='gain'])", "aria-sort") == "descending"
    page.click("button[data-column='rank']")
    page.select_option("#group", str(genes[0]["cluster"]))
    same = [gene["name"] for gene in genes if gene["cluster"] == genes[0]["cluster"]]
    assert shown_genes(page) == same
    page.fill("#search", genes[0]["name"])
    assert genes[0]["name"] in shown_genes(page)
    page.fill("#search", "no such gene")
    assert page.inner_text("#gene-count") == "0 of 8 genes"


def test_names_are_copied_and_the_table_is_downloaded(visit, page_file):
    page, genes = visit(page_file), page_content(page_file)["genes"]
    page.click("#copy")
    page.wait_for_function("() => document.getElementById('copy').textContent === 'Copied 8'")
    with page.expect_download() as waiting:
        page.click("#download")
    assert waiting.value.suggested_filename == "panel.csv"
    with Path(waiting.value.path()).open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["gene"] for row in rows] == [gene["name"] for gene in genes]
    assert [row["why"] for row in rows] == [gene["why"] for gene in genes]
    assert float(rows[0]["mean_type 0"]) == pytest.approx(genes[0]["mean"][0])


def test_the_theme_can_be_switched_and_it_prints(visit, page_file, tmp_path):
    page = visit(page_file, color_scheme="light")
    colour = "document.querySelector('#dot-plot circle').getAttribute('fill')"
    light = page.evaluate(colour)
    page.click("#theme")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert page.evaluate(colour) != light
    page.pdf(path=tmp_path / "panel.pdf")
    assert (tmp_path / "panel.pdf").stat().st_size > 10_000


def test_hostile_names_are_shown_and_not_run(visit, hostile_file):
    page = visit(hostile_file)
    assert page.inner_text("h1") == HOSTILE[0]
    genes = page_content(hostile_file)["genes"]
    shown = page.eval_on_selector_all(
        "#gene-table tbody td:nth-child(2)", "all => all.map(cell => cell.textContent)"
    )
    assert shown == [gene["name"] for gene in genes]
    with page.expect_download() as waiting:
        page.click("#download")
    with Path(waiting.value.path()).open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["gene"] for row in rows] == [plain_text(gene["name"]) for gene in genes]
    assert page.evaluate("window.hacked") is None


@pytest.mark.thorough
def test_many_groups_with_long_names_have_a_page_too(visit, simulated, tmp_path):
    adata = simulated.copy()
    groups = np.arange(adata.n_obs) % 40
    adata.obs["many"] = [f"pyramidal neurons of the cortex, layer {g}" for g in groups]
    with pytest.warns(match="that of chance"):
        ks.tl.panel(adata, 170, groupby="many", **GIVEN)
    page = visit(
        write_panel_report(adata, tmp_path / "r.html"), viewport={"width": 400, "height": 800}
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    assert "The first 150 of 170 genes" in page.inner_text("#dots-hint")
    drawn = page.locator("#recall-table td:first-child").all_inner_texts()
    assert len(set(drawn)) == 40
