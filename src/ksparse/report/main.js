// Put it all together.
async function start() {
  summary();
  sizeBars();
  treePlot();
  pathCharts();
  convergenceCharts();
  settings();
  setUpGenes();
  setUpTheme(() => { dotPlot(); confusion(); change({}); }, (all) => { table.all = all; });
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
