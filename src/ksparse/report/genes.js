// The table of the genes: sort, search, copy, download; a row colours the picture.
const table = { sort: "rank", down: false, query: "", all: false, most: 300 };
const HINTS = {
  contribution: "Contribution: share of the cluster's distance from the middle that is due to the gene; blue where its mean is higher than in all cells, orange where it is lower.",
  mean: "Mean expression of the gene in the cells of each cluster.",
  fraction: "Share of the cells of each cluster in which the gene is not zero.",
};
const clusterNames = data.clusters.map((cluster) => cluster.name);

function columnValue(gene, column) {
  if (column === "name") return gene.name.toLowerCase();
  if (column.startsWith("c")) return gene[byId("shown").value][Number(column.slice(1))];
  return gene[column];
}

function rows() {
  const query = table.query.toLowerCase();
  return inOrder(data.genes.filter((gene) => gene.name.toLowerCase().includes(query)), columnValue, table);
}

function header() {
  const chosen = state.highlight && state.highlight.kind === "cluster" ? state.highlight.index : null;
  const columns = [{ key: "rank", title: "#" }, { key: "name", title: "gene", text: true }, { key: "weight", title: "weight", down: true },
    { key: "cluster", title: "marker of", text: true }, ...clusterNames.map((name, i) => ({ key: `c${i}`, title: name, hint: `cluster ${name}`, chosen: chosen === i, down: true }))];
  byId("gene-table").tHead.replaceChildren(headRow(columns, table, fillTable));
}

function fillTable() {
  header();
  const list = rows(), kind = byId("shown").value;
  const most = table.all ? list.length : Math.min(list.length, table.most);
  const peak = Math.max(1e-12, ...data.genes.map((gene) => Math.max(...gene[kind].map(Math.abs))));
  const body = byId("gene-table").tBodies[0];
  body.replaceChildren(...list.slice(0, most).map((gene) => {
    const selected = state.colour === "gene" && state.gene === gene.index;
    const row = make("tr", { class: "gene", tabindex: 0, "aria-selected": selected, "data-gene": gene.index },
      make("td", {}, gene.rank), make("td", { class: "text", title: gene.name }, gene.name), make("td", {}, format(gene.weight)),
      make("td", { class: "text" }, groupChip(gene.cluster)));
    gene[kind].forEach((value, i) => {
      const share = Math.min(1, Math.abs(value) / peak) ** 0.7;
      const chosen = state.highlight && state.highlight.kind === "cluster" && state.highlight.index === i;
      row.append(make("td", { class: [chosen ? "chosen" : "", share > 0.75 ? "on" : ""].join(" ").trim(),
        css: { background: shade(value < 0 ? "minus" : "shade", share * 0.9) } }, kind === "mean" ? format(value, 2) : percent(value, kind === "contribution" && Math.abs(value) < 0.0995 ? 1 : 0)));
    });
    const choose = () => {
      if (!gene.values) return;
      byId("gene").value = "";
      if (selected) change({ colour: "cluster", gene: null });
      else colourBy(gene.index);
      showPicture();
    };
    row.addEventListener("click", choose);
    row.addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(); } });
    return row;
  }));
  byId("genes-hint").textContent = [HINTS[kind], data.genes_hint].filter(Boolean).join(" ");
  byId("gene-count").textContent = counted(list.length, data.genes.length);
  const more = byId("all-rows");
  more.hidden = most === list.length;
  more.textContent = `Show all ${whole(list.length)} rows (${whole(most)} are shown)`;
}

function csv() {
  const kinds = ["contribution", "mean", "fraction"];
  const head = ["rank", "gene", "weight", "cluster", ...kinds.flatMap((kind) => clusterNames.map((name) => `${kind}_${name}`))];
  const lines = rows().map((gene) => [gene.rank, gene.name, gene.weight, clusterNames[gene.cluster], ...kinds.flatMap((kind) => gene[kind])]);
  return csvText([head, ...lines]);
}

function setUpGenes() {
  data.genes.forEach((gene, index) => { gene.index = index; });
  byId("search").addEventListener("input", (event) => { table.query = event.target.value.trim(); fillTable(); });
  byId("shown").addEventListener("change", fillTable);
  byId("all-rows").addEventListener("click", () => { table.all = true; fillTable(); });
  byId("copy").addEventListener("click", (event) => copyNames(event.target, rows().map((gene) => gene.name)));
  byId("download").addEventListener("click", () => download("genes.csv", csv()));
  let highlighted = null;
  listeners.push(() => { // a highlighted cluster brings its genes to the top
    const now = state.highlight && state.highlight.kind === "cluster" ? state.highlight.index : null;
    if (now !== highlighted) {
      highlighted = now;
      table.sort = now === null ? "rank" : `c${now}`;
      table.down = now !== null;
      byId("gene-table").closest(".scroll").scrollTop = 0;
      fillTable();
      const head = document.querySelector("#gene-table th.chosen"), box = byId("gene-table").closest(".scroll");
      box.scrollLeft = head ? head.offsetLeft - box.clientWidth / 2 : 0;
      return;
    }
    fillTable();
  });
}
