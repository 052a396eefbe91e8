// The page of a gene panel: genes with reasons, dots, curve, recall, gates.
const order = { sort: "rank", down: false };
const COLUMNS = [{ key: "rank", title: "#" }, { key: "name", title: "gene", text: true }, { key: "cluster", title: "chosen for", text: true },
  { key: "up", title: "direction", hint: "higher or lower in that group", text: true }, { key: "gain", title: "gain", down: true }, { key: "explained", title: "explained" },
  { key: "why", title: "why", text: true }];

function geneValue(gene, key) {
  return key === "name" || key === "why" ? gene[key].toLowerCase() : gene[key];
}

function geneRows() {
  const query = byId("search").value.trim().toLowerCase(), group = byId("group").value;
  return inOrder(data.genes.filter((gene) => gene.name.toLowerCase().includes(query) && (group === "" || gene.cluster === Number(group))), geneValue, order);
}

function fillGenes() {
  const list = geneRows(), shown = byId("gene-table");
  shown.tHead.replaceChildren(headRow(COLUMNS, order, fillGenes));
  shown.tBodies[0].replaceChildren(...list.map((gene) => make("tr", {}, make("td", {}, gene.rank), make("td", { class: "text", title: gene.name }, gene.name),
    make("td", { class: "text" }, groupChip(gene.cluster)), make("td", { class: "text" }, gene.up ? "↑ higher" : "↓ lower"),
    make("td", {}, percent(gene.gain, 2)), make("td", {}, percent(gene.explained, 1)), make("td", { class: "text why" }, gene.why))));
  byId("gene-count").textContent = counted(list.length, data.genes.length);
}

function geneCsv() {
  const kinds = ["mean", "fraction"], names = data.clusters.map((group) => group.name);
  const head = ["rank", "gene", "gain", "explained", "group", "direction", "difference", "why", ...kinds.flatMap((kind) => names.map((name) => `${kind}_${name}`))];
  return csvText([head, ...geneRows().map((gene) => [gene.rank, gene.name, gene.gain, gene.explained, names[gene.cluster], gene.up ? "up" : "down", gene.difference, gene.why, ...kinds.flatMap((kind) => gene[kind])])]);
}

function setUpGenes() {
  const used = [...new Set(data.genes.map((gene) => gene.cluster))].sort((a, b) => a - b);
  byId("group").replaceChildren(make("option", { value: "" }, "all groups"), ...used.map((index) => make("option", { value: index }, clusterName(data.clusters[index].name))));
  for (const [id, event] of [["search", "input"], ["group", "change"]]) byId(id).addEventListener(event, fillGenes);
  byId("copy").addEventListener("click", (event) => copyNames(event.target, geneRows().map((gene) => gene.name)));
  byId("download").addEventListener("click", () => download("panel.csv", geneCsv()));
  byId("dots-hint").textContent = data.dots_hint;
  fillGenes();
}

function curveCharts() {
  if (!data.curve.length) return;
  byId("curve").hidden = false;
  const all = data.curve.flatMap((one) => [one.chance, one.panel.value, ...one.series.flatMap((line) => line.values)]).filter((value) => value !== null);
  const bottom = Math.max(0, Math.floor(10 * (Math.min(...all) - 0.02)) / 10);
  byId("curve-charts").replaceChildren(...data.curve.map(({ title, n_genes: x, series, chance, panel }) => {
    const counts = [...new Set([...x, panel.n_genes])].sort((a, b) => a - b), at = (values) => counts.map((n) => (x.includes(n) ? values[x.indexOf(n)] : null));
    const drawn = series.map((one) => ({ name: one.name, colour: one.colour || "var(--soft)", values: at(one.values), errors: at(one.errors) }));
    if (chance !== null) drawn.push({ name: "chance", colour: "var(--soft)", values: counts.map(() => chance), dashed: true, size: 0 });
    const only = (value) => counts.map((n) => (n === panel.n_genes ? value : null));
    if (panel.value !== null) drawn.push({ name: "as this panel", colour: data.palette[5], values: only(panel.value), errors: only(panel.error), size: 5.5 });
    return lines({ title, x: counts, series: drawn, xLabel: "genes", yLabel: "balanced accuracy, held out", log: true, top: 1.02, bottom });
  }));
}

const withError = ([value, error]) => percent(value, 1) + (error === null ? "" : ` ± ${(100 * error).toFixed(1)}`);

const BAR = "recall (logistic regression)";

function plainHead(id, titles) {
  byId(id).tHead.replaceChildren(make("tr", {}, ...titles.map((title, i) => make("th", { scope: "col", class: [i < 2 ? "text" : "", title === BAR ? "wide" : ""].join(" ").trim() }, title))));
}

function recallTable() {
  plainHead("recall-table", ["group", BAR, "logistic regression", "5 nearest neighbours", "cells scored"]);
  byId("recall-table").tBodies[0].replaceChildren(...data.recall.map((row) => {
    const [value] = row.logistic, group = data.clusters[row.cluster];
    const bar = make("div", { class: "track" }, make("div", { class: "fill", css: { width: `${100 * (value || 0)}%`, background: group.colour } }),
      make("div", { class: "tick", title: `by chance ${percent(row.chance, 1)}`, css: { left: `${100 * row.chance}%` } }));
    return make("tr", {}, make("td", { class: "text" }, groupChip(row.cluster)), make("td", { class: "text wide" }, bar), make("td", {}, withError(row.logistic)), make("td", {}, withError(row["5nn"])), make("td", {}, whole(row.n_cells)));
  }));
  byId("recall-hint").textContent = data.recall_hint;
}

function gateTable() {
  if (!data.gates.length) return;
  byId("gates").hidden = false;
  const again = data.gates.some((gate) => gate.held_out);
  plainHead("gate-table", ["group", "gate", "precision", "recall", "F", ...(again ? ["F, held out"] : [])]);
  byId("gate-table").tBodies[0].replaceChildren(...data.gates.map((gate) => {
    const conditions = gate.conditions.map(([gene, sign, threshold]) => make("span", { class: "condition", title: gene }, make("b", {}, shortened(gene, 18)), ` ${sign === "+" ? ">" : "≤"} ${format(threshold, 3)}`));
    const row = make("tr", {}, make("td", { class: "text" }, groupChip(gate.cluster)), make("td", { class: "text" }, ...(conditions.length ? conditions : ["none found"])),
      make("td", {}, percent(gate.precision)), make("td", {}, percent(gate.recall)), make("td", {}, format(gate.F, 3)));
    if (again) row.append(make("td", { title: gate.held_out ? gate.held_out.gate : "" }, gate.held_out ? format(gate.held_out.F, 3) + (gate.held_out.F_se === null ? "" : ` ± ${format(gate.held_out.F_se, 2)}`) : "–"));
    return row;
  }));
  byId("gates-hint").textContent = "A cell is in the gate of a group if all conditions hold. Precision, recall and F (their harmonic mean) are those of cells that had no part in finding the gate; but the genes of the panel, among which it was searched, were chosen with all cells, so they can be a little too good. "
    + (again ? "F, held out: a gate that was found in the same way, with a panel that was chosen without the cells scored. " : "") + data.unit;
}

function start() {
  summary();
  setUpGenes();
  curveCharts();
  recallTable();
  gateTable();
  settings();
  setUpTheme(dotPlot, () => {});
  document.documentElement.dataset.ready = "true";
}

start();
