// Put it all together.
function summary() {
  document.querySelector("h1").textContent = data.title;
  byId("story").textContent = data.story;
  byId("tiles").replaceChildren(...data.tiles.map(([name, value]) => make("div", { class: "tile" }, make("b", {}, value), make("span", {}, name))));
  byId("notes").replaceChildren(...data.notes.map((note) => make("li", {}, note)));
}

function settings() {
  byId("tables").replaceChildren(...data.tables.map(([title, entries]) => make("div", {}, make("h3", {}, title),
    make("table", {}, make("tbody", {}, ...entries.map(([name, value]) => make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, value))))))));
  if (data.command) {
    byId("reproduce").hidden = false;
    byId("command").textContent = data.command;
  }
}

function still() { dotPlot(); confusion(); }

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  readTheme();
  still();
  change({});
}

async function start() {
  summary();
  sizeBars();
  pathCharts();
  convergenceCharts();
  settings();
  setUpGenes();
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  let chosen = null; // until the reader chooses, follow the system
  const wanted = () => chosen || (dark.matches ? "dark" : "light");
  dark.addEventListener("change", () => setTheme(wanted()));
  byId("theme").addEventListener("click", () => { chosen = wanted() === "dark" ? "light" : "dark"; setTheme(chosen); });
  window.addEventListener("beforeprint", () => { table.all = true; setTheme("light"); });
  window.addEventListener("afterprint", () => { table.all = false; setTheme(wanted()); });
  setTheme(wanted());
  await loadCells();
  setUpCells();
  let width = 0;
  new ResizeObserver(() => {
    const now = byId("cells").parentElement.clientWidth;
    if (now !== width) { width = now; paint(); }
  }).observe(byId("cells").parentElement);
  change({});
  document.documentElement.dataset.ready = "true";
}

start().catch((error) => {
  byId("story").after(make("p", { class: "noscript" }, `The cells cannot be drawn in this browser (${error.message}): use a newer one.`));
  throw error;
});
