// The picture of the cells: colour, hover, highlight.
const cells = { count: data.cells.shown, names: null, values: new Map(), points: null, grid: null };

async function loadCells() {
  const [x, y, cluster, label, names] = await Promise.all(
    ["x", "y", "cluster", "label", "names"].map((part) => (data.cells[part] ? inflate(data.cells[part]) : null)));
  cells.x = two(x);
  cells.y = two(y);
  cells.cluster = two(cluster);
  cells.label = label && two(label);
  cells.names = JSON.parse(new TextDecoder().decode(names));
}

async function geneValues(index) {
  if (!cells.values.has(index)) cells.values.set(index, await inflate(data.genes[index].values));
  return cells.values.get(index);
}

const groups = () => (state.colour === "label" ? data.labels : data.clusters);
const groupOf = () => (state.colour === "label" ? cells.label : cells.cluster);

function place(canvas) {
  const width = canvas.parentElement.clientWidth;
  const height = Math.round(Math.min(600, Math.max(300, width * 0.78)));
  const dense = window.devicePixelRatio || 1;
  canvas.style.height = height + "px";
  canvas.width = Math.round(width * dense);
  canvas.height = Math.round(height * dense);
  const pad = 18, size = Math.min(width, height) - 2 * pad;
  const spanX = data.cells.aspect >= 1 ? 1 : data.cells.aspect, spanY = data.cells.aspect >= 1 ? 1 / data.cells.aspect : 1;
  const scale = Math.min((width - 2 * pad) / spanX, (height - 2 * pad) / spanY, size * 1.6);
  const left = (width - scale * spanX) / 2, top = (height - scale * spanY) / 2;
  const points = new Float32Array(2 * cells.count);
  for (let i = 0; i < cells.count; i++) {
    points[2 * i] = left + (cells.x[i] / 65535) * scale * spanX;
    points[2 * i + 1] = top + (1 - cells.y[i] / 65535) * scale * spanY;
  }
  cells.points = points;
  cells.grid = new Map();
  for (let i = 0; i < cells.count; i++) {
    const key = (points[2 * i] >> 4) + 10000 * (points[2 * i + 1] >> 4);
    if (!cells.grid.has(key)) cells.grid.set(key, []);
    cells.grid.get(key).push(i);
  }
  return { width, height, dense };
}

function isHighlighted(i) {
  const chosen = state.highlight;
  return chosen === null || (chosen.kind === "label" ? cells.label : cells.cluster)[i] === chosen.index;
}

function paint() {
  const canvas = byId("cells");
  if (state.colour === "gene" && !cells.values.has(state.gene)) {
    geneValues(state.gene).then(paint);
    return;
  }
  const values = state.colour === "gene" ? cells.values.get(state.gene) : null;
  const { width, height, dense } = place(canvas);
  const context = canvas.getContext("2d");
  context.setTransform(dense, 0, 0, dense, 0, 0);
  context.clearRect(0, 0, width, height);
  const radius = Math.max(1, Math.min(4, 0.42 * Math.sqrt((width * height) / cells.count) / 2.2));
  const style = getComputedStyle(document.documentElement);
  const buckets = new Map(), faint = [];
  for (let i = 0; i < cells.count; i++) {
    if (!isHighlighted(i)) { faint.push(i); continue; }
    const key = values ? values[i] : groupOf()[i];
    if (!buckets.has(key)) buckets.set(key, []);
    buckets.get(key).push(i);
  }
  const stamp = (indices, colour, r) => {
    context.fillStyle = colour;
    context.beginPath();
    for (const i of indices) {
      const px = cells.points[2 * i], py = cells.points[2 * i + 1];
      if (r < 1.6) context.rect(px - r, py - r, 2 * r, 2 * r);
      else { context.moveTo(px + r, py); context.arc(px, py, r, 0, 6.2832); }
    }
    context.fill();
  };
  stamp(faint, style.getPropertyValue("--muted-dot"), radius);
  const levels = data.cells.levels;
  for (const key of [...buckets.keys()].sort((a, b) => a - b)) {
    const colour = values ? ramp(key / levels) : (groups()[key] || { colour: "#888888" }).colour;
    stamp(buckets.get(key), colour, radius);
  }
  if (!values) nameGroups(context, style);
  canvas.setAttribute("aria-label", `${whole(cells.count)} cells on a plane, coloured by ${colourName()}`);
  canvas.dataset.painted = `${state.colour}:${state.gene}:${state.highlight ? state.highlight.kind + state.highlight.index : ""}`;
}

// Names on the picture, those of large groups first; none on top of another.
function nameGroups(context, style) {
  if (state.highlight !== null) return;
  context.font = "600 12px system-ui, sans-serif";
  context.textAlign = "center";
  context.textBaseline = "middle";
  const of = groupOf(), taken = [];
  const places = groups().map(() => [[], []]);
  for (let i = 0; i < cells.count; i++) if (places[of[i]]) { places[of[i]][0].push(cells.points[2 * i]); places[of[i]][1].push(cells.points[2 * i + 1]); }
  const order = places.map((_, index) => index).sort((a, b) => places[b][0].length - places[a][0].length);
  const middle = (list) => list.sort((a, b) => a - b)[list.length >> 1];
  for (const index of order) {
    const [xs, ys] = places[index], full = groups()[index].name;
    if (!xs.length) continue;
    const name = shortened(full, 18);
    const half = context.measureText(name).width / 2 + 5, width = context.canvas.clientWidth;
    const x = Math.min(Math.max(middle(xs), half + 2), width - half - 2);
    const y = Math.max(10, middle(ys) - (xs.length < 20 ? 17 : 0)); // few cells are not hidden by their name
    if (taken.some((other) => Math.abs(other.x - x) < other.half + half && Math.abs(other.y - y) < 19)) continue;
    taken.push({ x, y, half });
    context.globalAlpha = 0.86;
    context.fillStyle = style.getPropertyValue("--card");
    context.fillRect(x - half, y - 9, 2 * half, 18);
    context.globalAlpha = 1;
    context.fillStyle = style.getPropertyValue("--ink");
    context.fillText(name, x, y + 0.5);
  }
}

function nearest(x, y) {
  let best = -1, least = 81;
  for (let row = (y >> 4) - 1; row <= (y >> 4) + 1; row++)
    for (let column = (x >> 4) - 1; column <= (x >> 4) + 1; column++)
      for (const i of cells.grid.get(column + 10000 * row) || []) {
        const square = (cells.points[2 * i] - x) ** 2 + (cells.points[2 * i + 1] - y) ** 2;
        if (square < least) { least = square; best = i; }
      }
  return best;
}

function hover(event) {
  const tip = byId("tip"), canvas = byId("cells");
  const box = canvas.getBoundingClientRect();
  // Clicks come in whole pixels, movements may not: both have to mean the same cell.
  const x = Math.floor(event.clientX) - box.left, y = Math.floor(event.clientY) - box.top;
  const i = cells.grid ? nearest(x, y) : -1;
  tip.hidden = i < 0;
  if (i < 0) return -1;
  const lines = [cells.names[i], clusterName(data.clusters[cells.cluster[i]].name)];
  if (cells.label) lines.push(`${data.label_name}: ${(data.labels[cells.label[i]] || { name: "(missing)" }).name}`);
  if (state.colour === "gene" && cells.values.has(state.gene)) {
    const gene = data.genes[state.gene];
    lines.push(`${gene.name}: ${format(gene.low + (cells.values.get(state.gene)[i] / data.cells.levels) * (gene.top - gene.low), 2)}`);
  }
  tip.textContent = lines.join("\n");
  tip.style.left = Math.min(x + 14, box.width - tip.offsetWidth - 4) + "px";
  tip.style.top = Math.max(4, y - tip.offsetHeight - 10) + "px";
  return i;
}

const colourName = () => (state.colour === "gene" ? data.genes[state.gene].name : state.colour === "label" ? data.label_name : "cluster");

function toggle(kind, index) {
  const same = state.highlight && state.highlight.kind === kind && state.highlight.index === index;
  change({ highlight: same ? null : { kind, index } });
}

function legend() {
  const box = byId("legend");
  box.replaceChildren();
  if (state.colour === "gene") {
    const gene = data.genes[state.gene];
    box.append(make("div", { class: "scale" }, make("strong", {}, gene.name), make("div", { class: "ramp" }),
      make("div", { class: "ramp-ends" }, make("span", {}, format(gene.low, 3)), make("span", {}, format(gene.top, 3)))));
  }
  const kind = state.colour === "label" ? "label" : "cluster";
  groups().forEach((group, index) => {
    const pressed = state.highlight !== null && state.highlight.kind === kind && state.highlight.index === index;
    const plain = state.colour === "gene" ? [] : [dot(group.colour)];
    box.append(make("button", { type: "button", "aria-pressed": pressed, "data-group": index, on: { click: () => toggle(kind, index) } },
      ...plain, make("span", { class: "name" }, kind === "cluster" ? clusterName(group.name) : group.name), make("span", { class: "count" }, whole(group.size))));
  });
  byId("clear").hidden = state.highlight === null && state.colour === "cluster";
}

// What was clicked elsewhere changes the picture: bring it into view if little of it is seen.
function showPicture() {
  const box = byId("cells").getBoundingClientRect();
  const seen = Math.min(box.bottom, window.innerHeight) - Math.max(box.top, 0);
  if (seen < box.height / 2) byId("picture").scrollIntoView({ behavior: "smooth" });
}

function colourBy(value) {
  if (value === "cluster" || value === "label") change({ colour: value, gene: null, highlight: null });
  else change({ colour: "gene", gene: Number(value), highlight: state.highlight && state.highlight.kind === "cluster" ? state.highlight : null });
}

function setUpCells() {
  const select = byId("colour");
  select.append(make("option", { value: "cluster" }, "cluster"));
  if (data.labels) select.append(make("option", { value: "label" }, data.label_name));
  data.genes.forEach((gene, index) => {
    if (!gene.values) return;
    select.append(make("option", { value: index }, gene.name));
    byId("gene-names").append(make("option", { value: gene.name }));
  });
  select.addEventListener("change", () => colourBy(select.value));
  byId("gene").addEventListener("input", (event) => {
    const index = data.genes.findIndex((gene) => gene.values && gene.name.toLowerCase() === event.target.value.trim().toLowerCase());
    if (index >= 0) colourBy(index);
  });
  byId("clear").addEventListener("click", () => { byId("gene").value = ""; change({ colour: "cluster", gene: null, highlight: null }); });
  const canvas = byId("cells");
  canvas.addEventListener("pointermove", hover);
  canvas.addEventListener("pointerleave", () => { byId("tip").hidden = true; });
  canvas.addEventListener("click", (event) => {
    const i = hover(event);
    if (i < 0) { if (state.highlight) change({ highlight: null }); return; }
    if (state.colour === "label") { if (data.labels[cells.label[i]]) toggle("label", cells.label[i]); }
    else toggle("cluster", cells.cluster[i]);
  });
  byId("picture-hint").textContent = data.cells.hint;
  listeners.push(() => { select.value = state.colour === "gene" ? String(state.gene) : state.colour; legend(); paint(); });
}
