// Pictures of clusters that do not move: sizes, confusion, paths, convergence.
function sizeBars() {
  const most = Math.max(...data.clusters.map((cluster) => cluster.size)), total = data.n_cells;
  byId("size-bars").replaceChildren(...data.clusters.map((cluster) => make("div", { class: "bar" },
    make("span", {}, clusterName(cluster.name)),
    make("div", { class: "track" }, make("div", { class: "fill", css: { width: (100 * cluster.size) / most + "%", background: cluster.colour } })),
    make("span", { class: "value" }, `${whole(cluster.size)} (${percent(cluster.size / total, 1)})`))));
}

function confusion() {
  if (!data.confusion) return;
  byId("truth").hidden = false;
  byId("scores").replaceChildren(...data.scores.map(([name, value]) => make("div", { class: "tile" }, make("b", {}, value), make("span", {}, name))));
  const { classes, clusters, counts } = data.confusion;
  const head = make("thead", {}, make("tr", {}, make("th", { class: "text" }, data.label_name), ...clusters.map((name) => make("th", { scope: "col" }, name)), make("th", {}, "all")));
  const body = make("tbody", {}, ...classes.map((name, i) => {
    const sum = counts[i].reduce((a, b) => a + b, 0);
    return make("tr", {}, make("th", { class: "text", scope: "row", title: name }, name), ...counts[i].map((count) => {
      const share = sum ? count / sum : 0;
      return make("td", { class: share > 0.6 ? "on" : "", css: { background: shade("shade", share * 0.9) }, title: percent(share, 1) + " of " + name }, count ? whole(count) : "");
    }), make("td", {}, whole(sum)));
  }));
  byId("confusion").replaceChildren(head, body);
}

function pathCharts() {
  const path = data.path;
  if (!path) return;
  byId("path").hidden = false;
  const colours = data.palette, known = path.accuracy !== undefined;
  const names = [["accuracy", "accuracy"], ["ari", "ARI"], ["nmi", "NMI"], ["explained", "explained"], ["agreement", "agreement"]].concat(known ? [] : [["silhouette", "silhouette"]]);
  const series = names.filter(([key]) => path[key]).map(([key, name], i) => ({ name, values: path[key], colour: colours[i], dashed: known && i > 2 }));
  byId("path-charts").replaceChildren(
    lines({ title: "Quality against the number of genes", x: path.n_features, series, xLabel: "selected genes", log: true, mark: path.best, top: 1.02 }),
    lines({ title: "Genes against eta", x: path.eta, series: [{ name: "genes", values: path.n_features, colour: colours[0] }], xLabel: "radius eta", yLabel: "selected genes" }));
  byId("path-hint").textContent = `Explained and agreement are measured on held-out cells. The dotted line, ${whole(path.best)} genes, is the fewest that explain the clusters about as well as any number does.`;
}

function convergenceCharts() {
  const { cost, labels_changed: changed } = data.history, loops = cost.map((_, i) => i + 1);
  byId("convergence-charts").replaceChildren(
    lines({ title: "Cost after each loop", x: loops, series: [{ name: "cost", values: cost, colour: data.palette[0] }], xLabel: "loop", wholeX: true }),
    lines({ title: "Labels that changed (1 − ARI)", x: loops, series: [{ name: "labels", values: changed, colour: data.palette[5] }], xLabel: "loop", wholeX: true, top: Math.max(0.05, ...changed) * 1.05 }));
  byId("convergence-hint").textContent = data.convergence;
}

function treePlot() {
  const tree = data.tree;
  if (!tree) return;
  byId("tree").hidden = false;
  const letter = 6.5, y = {}, total = tree.branches[0].size;
  for (const branch of tree.branches) y[branch.node] = branch.y * letter;
  const width = Math.ceil(tree.width * letter) + 8, height = Math.ceil(tree.height * letter);
  const plot = draw("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Tree of clusters with genes on its branches" });
  const word = (x, at, text, attributes = {}) => draw("text", { x, y: at, dy: "0.35em", ...attributes }, text);
  for (const branch of tree.branches) {
    const root = branch.parent < 0, left = root ? branch.right * letter - 22 : branch.left * letter, right = branch.right * letter, at = y[branch.node];
    plot.append(draw("path", { d: root ? `M${left} ${at}H${right}` : `M${left} ${y[branch.parent]}V${at}H${right}`, class: "axis", "stroke-width": (1 + 3 * Math.sqrt(branch.size / total)).toFixed(2) },
      draw("title", {}, `${whole(branch.size)} cells` + (branch.genes.length ? `; higher here: ${branch.genes.join(", ")}` : ""))));
    if (!root) plot.append(word(left + 7, at + (branch.above ? -9 : 10), branch.text, { "font-style": "italic" }));
    else if (branch.cluster < 0) plot.append(word(left - 3, at, whole(branch.size), { "text-anchor": "end", class: "soft" }));
    if (branch.cluster < 0) plot.append(word(right + 8, at, branch.note, { class: "soft" }));
    else {
      const name = tree.names[branch.cluster];
      plot.append(draw("circle", { cx: right, cy: at, r: 5.5, fill: tree.colours[branch.cluster] }),
        word(right + 11, at, draw("tspan", { "font-weight": 700 }, name), {}));
      plot.lastChild.append(draw("tspan", { class: "soft", dx: 10 }, `${whole(branch.size)}   ${branch.note}`));
    }
  }
  byId("tree-plot").replaceChildren(plot);
  byId("tree-hint").textContent = `${tree.sentence} On the branches: genes that are higher there than in the other branch of the split. p: of the two sides being one population, corrected for all splits.`;
}
