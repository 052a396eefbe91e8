// The frame of every page: summary, settings, light and dark, paper.
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

// Until the reader chooses, follow the system; paper is light. `showAll` shows all rows of tables.
function setUpTheme(redraw, showAll) {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;
  const wanted = () => chosen || (dark.matches ? "dark" : "light");
  const use = (name) => {
    document.documentElement.dataset.theme = name;
    readTheme();
    redraw();
  };
  dark.addEventListener("change", () => use(wanted()));
  byId("theme").addEventListener("click", () => { chosen = wanted() === "dark" ? "light" : "dark"; use(chosen); });
  window.addEventListener("beforeprint", () => { showAll(true); use("light"); });
  window.addEventListener("afterprint", () => { showAll(false); use(wanted()); });
  use(wanted());
}
