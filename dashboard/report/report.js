"use strict";
// Draw every figure of the page in the colours of the reader's light or dark theme.
(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const theme = (layout) => {
    const style = getComputedStyle(document.documentElement);
    const get = (name) => style.getPropertyValue(name).trim();
    const out = {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", "font.color": get("--text"),
      "hoverlabel.bgcolor": get("--card"), "hoverlabel.font.color": get("--text"),
    };
    for (const key of Object.keys(layout)) {
      if (/^[xy]axis\d*$/.test(key)) {
        out[key + ".gridcolor"] = get("--line");
        out[key + ".zerolinecolor"] = get("--line");
      }
    }
    return out;
  };
  const config = { displaylogo: false, responsive: true, modeBarButtonsToRemove: ["lasso2d", "select2d"] };
  const draw = async () => {
    for (const source of document.querySelectorAll("script[data-figure]")) {
      await new Promise((done) => setTimeout(done)); // the page stays responsive between two figures
      const target = document.getElementById(source.dataset.figure);
      const { data, layout } = JSON.parse(source.textContent);
      await Plotly.newPlot(target, data, layout, config);
      await Plotly.relayout(target, theme(layout));
      dark.addEventListener("change", () => Plotly.relayout(target, theme(layout)));
    }
    document.body.dataset.drawn = "all";
  };
  draw();
})();
