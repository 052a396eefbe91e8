// Pictures that do not move: dots, bars, confusion, lines.
function dotPlot() {
  const box = byId("dot-plot"), pairs = data.dots;
  if (!pairs.length) { byId("dots").hidden = true; return; }
  const names = data.clusters.map((cluster) => shortened(clusterName(cluster.name), 26));
  const step = 26, left = Math.max(80, 28 + 7.2 * Math.max(...names.map((name) => name.length))), longest = Math.max(...pairs.map(([g]) => Math.min(16, data.genes[g].name.length)));
  const top = 40, below = 18 + longest * 7.8, height = top + data.clusters.length * step + below;
  const width = Math.max(left + pairs.length * step + 10, 380);
  const plot = draw("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Dot plot of the top genes by cluster" });
  pairs.forEach(([g, c], column) => {
    const gene = data.genes[g], x = left + column * step + step / 2;
    if (c % 2) plot.append(draw("rect", { x: x - step / 2, y: top - 4, width: step, height: data.clusters.length * step + 4, fill: "var(--wash)" }));
    const low = Math.min(...gene.mean), high = Math.max(...gene.mean);
    data.clusters.forEach((cluster, row) => {
      const share = high > low ? (gene.mean[row] - low) / (high - low) : 0;
      plot.append(draw("circle", { cx: x, cy: top + row * step + step / 2, r: 1.5 + 9.5 * Math.sqrt(gene.fraction[row]), fill: ramp(share), stroke: "var(--line)" },
        draw("title", {}, `${gene.name}, ${clusterName(cluster.name)}: mean ${format(gene.mean[row], 3)}, ${percent(gene.fraction[row])} of the cells`)));
    });
    const name = gene.name.length > 16 ? gene.name.slice(0, 15) + "…" : gene.name;
    const y = top + data.clusters.length * step + 8;
    plot.append(draw("text", { x, y, transform: `rotate(-90 ${x} ${y})`, "text-anchor": "end", dy: "0.35em", class: gene.values ? "link" : "",
      on: { click: () => { if (gene.values) { colourBy(g); showPicture(); } } } }, name, draw("title", {}, gene.name)));
  });
  data.clusters.forEach((cluster, row) => {
    plot.append(draw("circle", { cx: 9, cy: top + row * step + step / 2, r: 5, fill: cluster.colour }),
      draw("text", { x: 20, y: top + row * step + step / 2, dy: "0.35em" }, names[row], draw("title", {}, clusterName(cluster.name))));
  });
  plot.append(draw("text", { x: 4, y: 14, dy: "0.35em", class: "soft" }, "cells expressing"));
  [0.25, 0.5, 1].forEach((share, i) => plot.append(
    draw("circle", { cx: 118 + i * 78, cy: 14, r: 1.5 + 9.5 * Math.sqrt(share), fill: "var(--soft)" }),
    draw("text", { x: 134 + i * 78, y: 14, dy: "0.35em", class: "soft" }, percent(share))));
  box.replaceChildren(plot);
}

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

function ticks(low, high) {
  const step = 10 ** Math.floor(Math.log10((high - low) / 3 || 1)), width = [1, 2, 5, 10].map((n) => n * step).find((n) => (high - low) / n <= 5.5) || step;
  const out = [];
  for (let value = Math.ceil(low / width - 1e-9) * width; value <= high + 1e-9 * width; value += width) out.push(Number(value.toPrecision(10)));
  return out;
}

function lines({ title, x, series, xLabel, yLabel, log = false, mark = null, top = null, wholeX = false }) {
  const width = 460, height = 290, left = 56, right = 14, up = 30, down = 66;
  const all = series.flatMap((one) => one.values).filter((value) => value !== null);
  if (!all.length) return make("p", {}, "");
  const low = Math.min(0, ...all), high = top === null ? Math.max(...all, low + 1e-9) * 1.06 : top;
  const scaleX = (value) => (log ? Math.log10(value) : value);
  const first = scaleX(Math.min(...x)), last = scaleX(Math.max(...x));
  const px = (value) => left + ((scaleX(value) - first) / (last - first || 1)) * (width - left - right) * (last > first ? 1 : 0) + (last > first ? 0 : (width - left - right) / 2);
  const py = (value) => up + (1 - (value - low) / (high - low)) * (height - up - down);
  const plot = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title });
  plot.append(draw("text", { x: left, y: 16, "font-weight": 600 }, title));
  for (const value of ticks(low, high)) plot.append(draw("line", { x1: left, x2: width - right, y1: py(value), y2: py(value), class: "grid" }),
    draw("text", { x: left - 8, y: py(value), dy: "0.35em", "text-anchor": "end", class: "soft" }, format(value, 4)));
  const marks = log ? [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000].filter((n) => n >= Math.min(...x) && n <= Math.max(...x))
    : wholeX ? x.filter((_, i) => i % Math.ceil(x.length / 10) === 0) : ticks(Math.min(...x), Math.max(...x));
  for (const value of marks) plot.append(draw("text", { x: px(value), y: height - down + 17, "text-anchor": "middle", class: "soft" }, whole(value)));
  plot.append(draw("line", { x1: left, x2: width - right, y1: py(low), y2: py(low), class: "axis" }),
    draw("text", { x: (left + width - right) / 2, y: height - down + 34, "text-anchor": "middle", class: "soft" }, xLabel));
  if (yLabel) plot.append(draw("text", { x: 13, y: (up + height - down) / 2, transform: `rotate(-90 13 ${(up + height - down) / 2})`, "text-anchor": "middle", class: "soft" }, yLabel));
  if (mark !== null) plot.append(draw("line", { x1: px(mark), x2: px(mark), y1: up, y2: py(low), class: "axis", "stroke-dasharray": "3 3" }));
  let at = left;
  for (const one of series) {
    const points = x.map((value, i) => [value, one.values[i]]).filter(([, value]) => value !== null);
    plot.append(draw("polyline", { points: points.map(([a, b]) => `${px(a)},${py(b)}`).join(" "), fill: "none", stroke: one.colour, "stroke-width": 2, "stroke-dasharray": one.dashed ? "5 4" : "none" }));
    for (const [a, b] of points) plot.append(draw("circle", { cx: px(a), cy: py(b), r: 3, fill: one.colour }, draw("title", {}, `${one.name}: ${format(b, 4)} at ${format(a, 5)}`)));
    if (series.length > 1) {
      plot.append(draw("circle", { cx: at + 5, cy: height - 8, r: 4, fill: one.colour }), draw("text", { x: at + 13, y: height - 8, dy: "0.35em", class: "soft" }, one.name));
      at += 26 + one.name.length * 6.4;
    }
  }
  return plot;
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
