// Draws every chart of the page from the specification beside it. The
// expressions are interpreted (ast), so that the page can forbid eval.
for (const figure of document.querySelectorAll("figure.chart")) {
  const spec = JSON.parse(figure.querySelector("script").textContent);
  const plot = figure.querySelector(".plot");
  vegaEmbed(plot, spec, {
    ast: true,
    mode: "vega-lite",
    renderer: "svg",
    actions: { export: true, source: false, compiled: false, editor: false },
    downloadFileName: spec.description,
  }).catch((error) => {
    plot.textContent = "This chart cannot be drawn: " + error.message;
  });
}
