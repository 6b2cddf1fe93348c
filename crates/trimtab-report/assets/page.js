// Draws each chart of the page from the figure beside it, in the colours of the style
// sheet, and changes them with the reader's colour scheme.
"use strict";
(() => {
  const plots = [];

  // What all charts share, as plotly.js takes it.
  function template() {
    const style = getComputedStyle(document.documentElement);
    const [ink, muted, card, rule, grid] = ["ink", "muted", "card", "rule", "grid"].map(
      (name) => style.getPropertyValue("--" + name).trim()
    );
    const family = getComputedStyle(document.body).fontFamily;
    const title = { font: { color: muted, size: 12 }, standoff: 8 };
    const axis = {
      title, gridcolor: grid, linecolor: rule, tickcolor: rule, zerolinecolor: rule,
      showline: true, tickfont: { color: ink, size: 11 },
    };
    return {
      layout: {
        paper_bgcolor: card, plot_bgcolor: card, font: { color: ink, family, size: 12 },
        xaxis: axis, yaxis: axis,
        hoverlabel: { bgcolor: card, bordercolor: rule, font: { color: ink, family, size: 12 } },
        modebar: { bgcolor: card, color: muted, activecolor: ink },
      },
      data: { heatmap: [{ colorbar: { title: { font: title.font }, tickfont: { color: ink, size: 11 } } }] },
    };
  }

  // Axes of latency are in seconds, and ask for d3's format of a currency: the only one
  // that writes a unit behind each number.
  const locales = { "en-US": { format: { currency: ["", "s"] } } };

  async function draw(figure) {
    const plot = figure.querySelector(".plot");
    const { data, layout, config } = JSON.parse(figure.querySelector("script").textContent);
    layout.template = template();
    // A finger scrolls the page; the chart's buttons zoom.
    if (matchMedia("(pointer: coarse)").matches) layout.dragmode = false;
    try {
      await Plotly.newPlot(plot, data, layout, { ...config, locales });
      plots.push(plot);
    } catch (error) {
      plot.textContent = "This chart cannot be drawn: " + error.message;
    }
  }

  async function drawAll() {
    for (const figure of document.querySelectorAll("figure.chart")) {
      await draw(figure);
      // Lets the reader scroll in between.
      await new Promise((resume) => setTimeout(resume));
    }
  }

  function recolour() {
    for (const plot of plots) Plotly.relayout(plot, { template: template() });
  }

  // Paper has the style sheet's print colours, and two narrow columns.
  function fit(width) {
    for (const plot of plots) Plotly.relayout(plot, width ? { width } : { width: null, autosize: true });
  }

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);
  addEventListener("beforeprint", () => fit(330));
  addEventListener("afterprint", () => fit(null));
  drawAll();
})();
