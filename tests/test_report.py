"""The report: its contents, its size, and how it behaves in a real browser."""

from __future__ import annotations

import base64
import csv
import io
import re
import zlib

import numpy as np
import pandas
import pytest

import ksparse as ks
from conftest import HOSTILE, crossed, thorough_params
from conftest import page_content as content
from ksparse.io.files import plain_text
from ksparse.metrics import summary
from ksparse.report import write_report

anndata = pytest.importorskip("anndata")


@pytest.fixture(scope="module")
def adata(clustered):
    adata = clustered.copy()
    ks.tl.path(
        adata, 3, n_features=[5, 10, 20, 40], normalize="log1p", labels="label", random_state=0
    )
    return adata


@pytest.fixture(scope="module")
def page_file(adata, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    return write_report(
        adata, path, labels="label", title="Some cells", run={"command": "ksparse run x"}
    )


@pytest.fixture(scope="module")
def hostile_file(simulated, tmp_path_factory):
    adata = simulated.copy()
    names = list(adata.var_names)
    for place, name in zip((0, 1, 2, 15, 16, 30, 32), HOSTILE, strict=True):
        names[place] = name
    adata.var_names = names
    adata.obs_names = [*HOSTILE, *adata.obs_names[len(HOSTILE) :]]
    label = HOSTILE[1]
    adata.obs[label] = pandas.Categorical([HOSTILE[i] for i in adata.obs["label"].cat.codes])
    ks.tl.ksparse(adata, 3, n_features=40, normalize="log1p", random_state=0)
    chosen = set(adata.var_names[adata.var["ksparse_selected"]])
    assert len(chosen & set(HOSTILE)) >= 3
    path = tmp_path_factory.mktemp("hostile") / "report.html"
    run = {"command": HOSTILE[0], "notes": HOSTILE, "input": {"name": HOSTILE[0]}}
    return write_report(adata, path, labels=label, title=HOSTILE[0], run=run)


def test_the_report_holds_what_was_found(page_file, adata):
    data = content(page_file)
    assert data["title"] == "Some cells"
    assert data["n_cells"] == 240
    sizes = adata.obs["ksparse"].value_counts(sort=False).tolist()
    assert [cluster["size"] for cluster in data["clusters"]] == sizes
    names = [gene["name"] for gene in data["genes"]]
    order = adata.var["ksparse_weight"].sort_values(ascending=False, kind="stable").index[:12]
    assert names == order.tolist()
    scores = summary(adata.obs["label"], adata.obs["ksparse"])
    assert f"{scores['accuracy']:.1%}" in data["story"]
    assert np.sum(data["confusion"]["counts"]) == 240
    assert data["path"]["n_features"] == [5, 10, 20, 40]
    assert len(data["history"]["cost"]) == adata.uns["ksparse"]["results"]["n_iter"]
    assert data["command"] == "ksparse run x"
    versions = dict(next(rows for title, rows in data["tables"] if title == "Versions"))
    assert versions["ksparse"] == ks.__version__


def test_without_labels_path_or_run_these_parts_are_left_out(clustered, tmp_path):
    path = write_report(clustered, tmp_path / "r.html")
    data = content(path)
    assert data["labels"] is None
    assert data["confusion"] is None
    assert data["path"] is None
    assert data["command"].startswith("ksparse.tl.ksparse(adata, 3, n_features=12")
    assert [p.name for p in tmp_path.iterdir()] == ["r.html"]


def test_nothing_is_loaded_from_elsewhere(page_file):
    text = page_file.read_text(encoding="utf-8")
    text = text.replace("http://www.w3.org/2000/svg", "")  # a name, not an address
    assert not re.search(r"https?://|//cdn|@import|<link|src=", text)


def test_hostile_text_stands_only_in_json(hostile_file):
    text = hostile_file.read_text(encoding="utf-8")
    assert text.count("<script") == 2
    assert text.count("</script>") == 2
    assert "<img" not in text
    assert "<b " not in text
    data = content(hostile_file)
    assert data["title"] == HOSTILE[0]
    assert {gene["name"] for gene in data["genes"]} & set(HOSTILE)


@pytest.mark.thorough
def test_fifty_thousand_cells_stay_under_5_mb(tmp_path):
    few = ks.simulate.simulate_counts(
        400, 150, 5, n_markers=30, zeros=0.2, random_state=0
    ).to_anndata()
    ks.tl.ksparse(few, 5, n_features=100, normalize="log1p", random_state=0)
    many = ks.simulate.simulate_counts(52_000, 150, 5, n_markers=30, zeros=0.2, random_state=1)
    adata = many.to_anndata()
    letters = np.random.default_rng(0).choice(list("ACGT"), size=(52_000, 16))
    adata.obs_names = ["".join(row) + "-1" for row in letters]
    ks.tl.predict(few, adata)
    adata.uns["ksparse"] = few.uns["ksparse"]
    adata.obsm["ksparse_tsne"] = adata.obsm["ksparse"][:, :2]
    path = write_report(adata, tmp_path / "big.html", labels="label")
    assert path.stat().st_size < 5_000_000
    data = content(path)
    assert data["cells"]["shown"] == 50_000
    assert "50,000 of 52,000 cells are drawn" in data["cells"]["hint"]
    drawn = [gene for gene in data["genes"] if gene["values"]]
    assert len(drawn) >= 60
    if len(drawn) < 100:
        assert f"{100 - len(drawn)} genes cannot be shown" in data["genes_hint"]


def levels(packed):
    return np.frombuffer(zlib.decompress(base64.b64decode(packed)), dtype=np.uint8)


@pytest.mark.parametrize("room", [10**9, 1000])
def test_the_steps_of_a_gene_are_its_expression(clustered, tmp_path, monkeypatch, room):
    from ksparse.report import _cells
    from ksparse.simulate import log_normalise

    monkeypatch.setattr(_cells, "GENE_BYTES", room)
    data = content(write_report(clustered, tmp_path / "r.html"))
    shown = [gene for gene in data["genes"] if gene["values"]]
    assert shown
    assert (len(shown) < 12) == (room == 1000)
    assert data["cells"]["levels"] == (255 if room > 1000 else 15)
    X = log_normalise(clustered.X)
    for gene in shown:
        values = X[:, [clustered.var_names.get_loc(gene["name"])]].toarray().ravel()
        step = gene["top"] / data["cells"]["levels"]
        np.testing.assert_allclose(levels(gene["values"]) * step, values, atol=0.51 * step + 1e-4)


def test_negative_values_are_shown_as_such(simulated, tmp_path):
    from ksparse.simulate import log_normalise

    X = log_normalise(simulated.X).toarray()
    adata = anndata.AnnData(X - X.mean(axis=0), obs=simulated.obs.copy(), var=simulated.var.copy())
    ks.tl.ksparse(adata, 3, n_features=5, random_state=0)
    for gene in content(write_report(adata, tmp_path / "r.html"))["genes"]:
        values = adata.X[:, adata.var_names.get_loc(gene["name"])]
        assert gene["low"] == pytest.approx(values.min(), rel=1e-3)
        found = gene["low"] + levels(gene["values"]) / 255 * (gene["top"] - gene["low"])
        np.testing.assert_allclose(found, values, atol=0.02)


def test_a_path_of_another_number_of_clusters_is_not_shown(clustered, tmp_path):
    adata = clustered.copy()
    ks.tl.path(adata, 2, n_features=[5, 10], normalize="log1p", random_state=0)
    assert content(write_report(adata, tmp_path / "r.html"))["path"] is None


def test_numbers_are_no_labels(clustered, tmp_path):
    adata = clustered.copy()
    adata.obs["number"] = np.arange(adata.n_obs) / 7
    with pytest.raises(ValueError, match="labels='number' has 240 distinct values"):
        write_report(adata, tmp_path / "r.html", labels="number")


def test_renamed_clusters_and_some_of_the_cells(clustered, tmp_path):
    part = clustered[clustered.obs["ksparse"] != "1"].copy()
    data = content(write_report(part, tmp_path / "r.html", labels="label"))
    assert [cluster["size"] > 0 for cluster in data["clusters"]] == [True, False, True]
    renamed = clustered.copy()
    renamed.obs["ksparse"] = renamed.obs["ksparse"].cat.rename_categories(["Red", "Green", "<b>"])
    data = content(write_report(renamed, tmp_path / "r.html", labels="label"))
    assert [cluster["name"] for cluster in data["clusters"]] == ["Red", "Green", "<b>"]


# In a browser


def pixels(page):
    """The picture of the cells as counts of colours, and how many pixels are not empty."""
    return page.evaluate("""() => {
        const canvas = document.getElementById("cells");
        const all = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
        const counts = {};
        for (let i = 0; i < all.length; i += 4) if (all[i + 3] > 200) {
            const key = [all[i], all[i + 1], all[i + 2]].join(",");
            counts[key] = (counts[key] || 0) + 1;
        }
        return counts;
    }""")


def rgb(colour):
    return ",".join(str(int(colour[i : i + 2], 16)) for i in (1, 3, 5))


def painted(page, what):
    page.wait_for_function(
        "what => document.getElementById('cells').dataset.painted === what", arg=what
    )


def test_cells_are_drawn_in_the_colours_of_their_clusters(visit, page_file):
    page = visit(page_file)
    counts = pixels(page)
    for cluster in content(page_file)["clusters"]:
        assert counts[rgb(cluster["colour"])] > 100
    assert page.inner_text("h1") == "Some cells"
    assert page.locator("#legend button").count() == 3


def test_the_search_filters_the_genes(visit, page_file, adata):
    page = visit(page_file)
    assert page.locator("#gene-table tbody tr").count() == 12
    name = content(page_file)["genes"][4]["name"]
    page.fill("#search", name.upper())
    wanted = [g["name"] for g in content(page_file)["genes"] if name in g["name"]]
    assert page.locator("#gene-table tbody tr td:nth-child(2)").all_inner_texts() == wanted
    assert page.inner_text("#gene-count") == f"{len(wanted)} of 12 genes"
    page.fill("#search", "no such gene")
    assert page.locator("#gene-table tbody tr").count() == 0


def test_the_table_sorts(visit, page_file):
    page = visit(page_file)
    genes = content(page_file)["genes"]
    page.click("button[data-column='name']")
    shown = page.locator("#gene-table tbody tr td:nth-child(2)").all_inner_texts()
    assert shown == sorted((g["name"] for g in genes), key=str.lower)
    page.click("button[data-column='c1']")
    shown = page.locator("#gene-table tbody tr td:nth-child(2)").all_inner_texts()
    assert shown == [g["name"] for g in sorted(genes, key=lambda g: -g["contribution"][1])]
    assert page.get_attribute("th:has(button[data-column='c1'])", "aria-sort") == "descending"


@pytest.mark.parametrize("way", ["row", "select", "input", "dot plot"])
def test_colouring_by_a_gene_changes_the_picture(visit, page_file, way):
    page = visit(page_file)
    before = pixels(page)
    gene = content(page_file)["genes"][2]
    if way == "row":
        page.click(f"tr.gene:has(td:text-is('{gene['name']}'))")
    elif way == "select":
        page.select_option("#colour", label=gene["name"])
    elif way == "input":
        page.fill("#gene", gene["name"])
    else:
        page.locator("#dot-plot text.link", has_text=gene["name"]).first.click()
    painted(page, "gene:2:")
    after = pixels(page)
    assert after != before
    for cluster in content(page_file)["clusters"]:
        assert after.get(rgb(cluster["colour"]), 0) < 20
    assert gene["name"] in page.inner_text("#legend")
    assert page.get_attribute("tr.gene[data-gene='2']", "aria-selected") == "true"
    page.click("#clear")
    painted(page, "cluster:null:")
    assert pixels(page) == before


def test_colouring_by_the_true_labels(visit, page_file):
    page = visit(page_file)
    page.select_option("#colour", "label")
    painted(page, "label:null:")
    assert page.locator("#legend .name").all_inner_texts() == ["type 0", "type 1", "type 2"]


def test_a_click_on_a_cluster_highlights_it(visit, page_file):
    page = visit(page_file)
    clusters = content(page_file)["clusters"]
    before = pixels(page)
    page.click("#legend button[data-group='1']")
    painted(page, "cluster:null:cluster1")
    after = pixels(page)
    assert after[rgb(clusters[1]["colour"])] > 100
    for other in (0, 2):
        assert after.get(rgb(clusters[other]["colour"]), 0) < 20
    assert page.get_attribute("#legend button[data-group='1']", "aria-pressed") == "true"
    # Its genes come first.
    genes = sorted(content(page_file)["genes"], key=lambda g: -g["contribution"][1])
    first = page.locator("#gene-table tbody tr td:nth-child(2)").first.inner_text()
    assert first == genes[0]["name"]
    page.click("#legend button[data-group='1']")
    painted(page, "cluster:null:")
    assert pixels(page) == before


def test_hovering_names_a_cell_and_clicking_one_highlights_its_cluster(visit, page_file, adata):
    page = visit(page_file)
    page.locator("#cells").scroll_into_view_if_needed()
    box = page.locator("#cells").bounding_box()
    for share in np.linspace(0.1, 0.9, 60):  # along a diagonal there is a cell somewhere
        page.mouse.move(box["x"] + share * box["width"], box["y"] + share * box["height"])
        if page.locator("#tip").is_visible():
            break
    lines = page.inner_text("#tip").splitlines()
    cluster = adata.obs["ksparse"][lines[0]]
    assert lines[1] == f"cluster {cluster}"
    assert lines[2] == f"label: {adata.obs['label'][lines[0]]}"
    page.mouse.down()
    page.mouse.up()
    painted(page, f"cluster:null:cluster{cluster}")


def test_a_click_at_the_edge_of_a_cell_means_the_cell_that_is_named(visit, page_file, adata):
    page = visit(page_file)
    page.locator("#cells").scroll_into_view_if_needed()
    box = page.locator("#cells").bounding_box()
    y, named, x = box["y"] + box["height"] / 2, [], box["x"]
    while len(named) < 300:
        # Into a cell in large steps, back out in small ones: not only whole pixels.
        x += -0.7 if named else 7.0
        if x > box["x"] + box["width"]:  # no cell on this line
            x, y = box["x"], y + 5.0
        assert y < box["y"] + box["height"]
        page.mouse.move(x, y)
        if page.locator("#tip").is_visible():
            named.append((x, page.inner_text("#tip").splitlines()[0]))
        elif named:
            break
    for x, name in named[-2:]:
        page.mouse.click(x, y)
        painted(page, f"cluster:null:cluster{adata.obs['ksparse'][name]}")
        page.click("#clear")
        painted(page, "cluster:null:")


def test_the_download_has_the_rows_that_are_shown(visit, page_file, adata):
    page = visit(page_file)
    with page.expect_download() as waiting:
        page.click("#download")
    assert waiting.value.suggested_filename == "genes.csv"
    with open(waiting.value.path(), newline="", encoding="utf-8") as file:  # noqa: PTH123
        rows = list(csv.DictReader(file))
    genes = content(page_file)["genes"]
    assert [row["gene"] for row in rows] == [g["name"] for g in genes]
    for row, gene in zip(rows, genes, strict=True):
        assert float(row["weight"]) == pytest.approx(gene["weight"])
        assert float(row["contribution_2"]) == pytest.approx(gene["contribution"][2])
        assert float(row["mean_0"]) == pytest.approx(gene["mean"][0])
    page.fill("#search", genes[0]["name"])
    with page.expect_download() as waiting:
        page.click("#download")
    with open(waiting.value.path(), newline="", encoding="utf-8") as file:  # noqa: PTH123
        assert next(csv.DictReader(file))["gene"] == genes[0]["name"]


def test_names_can_be_copied(visit, page_file):
    page = visit(page_file)
    page.click("#copy")
    page.wait_for_function("() => document.getElementById('copy').textContent === 'Copied 12'")
    page.fill("#search", "")
    page.locator("#search").press("Control+V")
    genes = content(page_file)["genes"]
    assert page.input_value("#search").split() == [gene["name"] for gene in genes]


@pytest.mark.parametrize(("width", "scheme"), crossed([400, 800, 1500], ["light", "dark"]))
def test_it_fits_narrow_and_wide_screens_in_light_and_dark(
    visit, page_file, width, scheme, tmp_path
):
    page = visit(page_file, viewport={"width": width, "height": 800}, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("document.documentElement.dataset.theme") == scheme
    page.click("#legend button[data-group='0']")
    painted(page, "cluster:null:cluster0")
    box = page.locator("#cells").bounding_box()
    assert box["width"] > 0.4 * min(width, 1480) - 60
    shown = page.locator("section:visible h2").all_inner_texts()
    assert shown == ["Cells", "Genes", "Top genes by cluster", "Clusters",
                     "Clusters and known labels", "How many genes?", "Convergence",
                     "Parameters and versions"]  # fmt: skip
    page.screenshot(path=tmp_path / "page.png", full_page=True)


def test_the_theme_can_be_switched(visit, page_file):
    page = visit(page_file, color_scheme="light")
    colour = "getComputedStyle(document.documentElement).backgroundColor"
    light = page.evaluate(colour)
    page.click("#theme")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert page.evaluate(colour) != light


def test_it_prints_all_genes_on_paper(visit, page_file, tmp_path):
    page = visit(page_file, color_scheme="dark")
    page.pdf(path=tmp_path / "report.pdf")
    assert (tmp_path / "report.pdf").stat().st_size > 20_000
    page.emulate_media(media="print")
    assert not page.locator("#download").is_visible()
    assert page.locator("#gene-table tbody tr").count() == 12


@pytest.mark.parametrize("n_places", thorough_params([13], [25]))
def test_hostile_names_are_shown_and_not_run(visit, hostile_file, n_places):
    page = visit(hostile_file)
    assert page.inner_text("h1") == HOSTILE[0]
    genes = content(hostile_file)["genes"]
    nasty = [gene for gene in genes if gene["name"] in HOSTILE]
    for gene in nasty:
        page.locator(f"tr.gene[data-gene='{genes.index(gene)}']").click()
        painted(page, f"gene:{genes.index(gene)}:")
        assert " ".join(gene["name"].split()) in " ".join(page.inner_text("#legend").split())
    page.select_option("#colour", "label")
    painted(page, "label:null:")
    box = page.locator("#cells").bounding_box()
    for x in np.linspace(0, 1, n_places):
        for y in np.linspace(0, 1, n_places):
            page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"])
    assert page.evaluate("window.hacked") is None
    with page.expect_download() as waiting:
        page.click("#download")
    with open(waiting.value.path(), newline="", encoding="utf-8") as file:  # noqa: PTH123
        rows = list(csv.DictReader(io.StringIO(file.read(), newline="")))
    assert {row["gene"] for row in rows} == {plain_text(gene["name"]) for gene in genes}
    assert any(row["gene"].startswith("'=") for row in rows)


@pytest.mark.filterwarnings("ignore:n_clusters=1")
@pytest.mark.filterwarnings("ignore:.*marked by none of the")
@pytest.mark.parametrize("n_clusters", thorough_params([1, 45], [2]))
def test_few_and_many_clusters_have_a_report_too(visit, simulated, tmp_path, n_clusters):
    adata = simulated.copy()
    adata.obs["some"] = adata.obs["label"].where(np.arange(adata.n_obs) > 9)
    ks.tl.ksparse(adata, n_clusters, n_features=3, init="pca", min_cluster_size=1,
                  normalize="log1p", random_state=0)  # fmt: skip
    page = visit(write_report(adata, tmp_path / "r.html", labels="some"))
    assert page.locator("#legend button").count() == n_clusters
    page.select_option("#colour", "label")
    painted(page, "label:null:")
    assert "(missing)" in page.inner_text("#legend")
    assert len(pixels(page)) > 3


def test_choosing_a_gene_ends_the_highlight_of_a_label(visit, page_file):
    page = visit(page_file)
    page.select_option("#colour", "label")
    page.click("#legend button[data-group='0']")
    painted(page, "label:null:label0")
    page.click("tr.gene[data-gene='2']")
    painted(page, "gene:2:")


@pytest.mark.filterwarnings("ignore:Labels and features did not converge")
@pytest.mark.filterwarnings("ignore:.*marked by none of the")
def test_a_highlighted_cluster_brings_its_column_into_view(visit, simulated, tmp_path):
    adata = simulated.copy()
    ks.tl.ksparse(adata, 20, n_features=10, init="pca", normalize="log1p", random_state=0)
    page = visit(write_report(adata, tmp_path / "r.html"), viewport={"width": 500, "height": 800})
    for cluster in (18, 1):
        page.click(f"#legend button[data-group='{cluster}']")
        painted(page, f"cluster:null:cluster{cluster}")
        head = page.locator("#gene-table th.chosen").bounding_box()
        box = page.locator(".scroll:has(#gene-table)").bounding_box()
        assert box["x"] <= head["x"]
        assert head["x"] + head["width"] <= box["x"] + box["width"]


def test_a_script_that_got_in_would_not_run(visit, page_file, tmp_path, browser):
    text = page_file.read_text(encoding="utf-8")
    broken = tmp_path / "broken.html"
    broken.write_text(
        text.replace("<main>", "<main><script>window.hacked = 1</script>"), encoding="utf-8"
    )
    page = browser.new_page()
    page.goto(broken.as_uri())
    page.wait_for_selector("html[data-ready]")
    assert page.evaluate("window.hacked") is None
    page.close()


def test_long_names_of_clusters_are_told_apart(visit, clustered, tmp_path):
    adata = clustered.copy()
    names = [
        f"pyramidal neurons of the cortex,{i}"
        for i in range(len(adata.obs["ksparse"].cat.categories))
    ]
    adata.obs["ksparse"] = adata.obs["ksparse"].cat.rename_categories(names)
    page = visit(write_report(adata, tmp_path / "long.html"))
    drawn = page.eval_on_selector_all(
        "#dot-plot text title", "all => all.map(t => t.parentNode.childNodes[0].textContent)"
    )
    assert len({name for name in drawn if "…" in name}) == len(names)
    heads = page.eval_on_selector_all("#gene-table th button", "all => all.map(b => b.textContent)")
    assert len(set(heads)) == len(heads)
    assert max(map(len, heads)) <= 14
