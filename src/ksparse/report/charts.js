// Pictures of every page that do not move: dots and lines.
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

function ticks(low, high) {
  const step = 10 ** Math.floor(Math.log10((high - low) / 3 || 1)), width = [1, 2, 5, 10].map((n) => n * step).find((n) => (high - low) / n <= 5.5) || step;
  const out = [];
  for (let value = Math.ceil(low / width - 1e-9) * width; value <= high + 1e-9 * width; value += width) out.push(Number(value.toPrecision(10)));
  return out;
}

// Names below a picture, in as many lines as they need: their places, and the number of lines.
function legendPlaces(series, left, most) {
  const places = [];
  let at = left, line = 0;
  for (const { name } of series) {
    const width = 28 + name.length * 6.6;
    if (at + width > most && at > left) { at = left; line += 1; }
    places.push([at, line]);
    at += width;
  }
  return { places, n: line + 1 };
}

// Series are { name, values, colour, dashed, errors (of the values), size (of the points) }.
function lines({ title, x, series, xLabel, yLabel, log = false, mark = null, top = null, bottom = 0, wholeX = false }) {
  const width = 460, left = 56, right = 14, up = 30, names = legendPlaces(series, 10, width - 4), down = 50 + 16 * names.n, height = 224 + down;
  const all = series.flatMap((one) => one.values).filter((value) => value !== null);
  if (!all.length) return make("p", {}, "");
  const low = Math.min(bottom, ...all), high = top === null ? Math.max(...all, low + 1e-9) * 1.06 : top;
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
  series.forEach((one, number) => {
    const points = x.map((value, i) => [value, one.values[i], one.errors ? one.errors[i] : null]).filter(([, value]) => value !== null);
    plot.append(draw("polyline", { points: points.map(([a, b]) => `${px(a)},${py(b)}`).join(" "), fill: "none", stroke: one.colour, "stroke-width": 2, "stroke-dasharray": one.dashed ? "5 4" : "none" }));
    for (const [a, b, error] of points) {
      if (error) plot.append(draw("line", { x1: px(a), x2: px(a), y1: py(Math.min(high, b + error)), y2: py(Math.max(low, b - error)), stroke: one.colour }));
      if (one.size !== 0) plot.append(draw("circle", { cx: px(a), cy: py(b), r: one.size || 3, fill: one.colour }, draw("title", {}, `${one.name}: ${format(b, 4)}${error ? " ± " + format(error, 2) : ""} at ${format(a, 5)}`)));
    }
    if (series.length > 1) {
      const [at, line] = names.places[number], y = height - 8 - 16 * (names.n - 1 - line);
      plot.append(one.dashed && one.size === 0 ? draw("line", { x1: at + 1, x2: at + 11, y1: y, y2: y, stroke: one.colour, "stroke-width": 2, "stroke-dasharray": "3 2" }) : draw("circle", { cx: at + 5, cy: y, r: one.size || 4, fill: one.colour }),
        draw("text", { x: at + 14, y, dy: "0.35em", class: "soft" }, one.name));
    }
  });
  return plot;
}
