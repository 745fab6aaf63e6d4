// The elements of the timeline, and the picker of steps.

const stepOf = (scene, name) => scene.steps.find(([phase, number]) => `${phase}:${number}` === name);
const stepLabel = (name) => name.replace(/:(-?\d+)$/, " $1");

function build(tl) {
  const bar = element("div", { cls: "kg-bar", parent: tl.root });
  tl.steps = element("select", { parent: bar, "aria-label": "Step at the origin of the axis" });
  tl.steps.addEventListener("change", () => tl.goStep(tl.steps.value));
  const button = (text, label, act) => {
    element("button", { text, parent: bar, type: "button", "aria-label": label, title: label }).addEventListener("click", act);
  };
  button("−", "Zoom out (S or -)", () => tl.zoom(ZOOM));
  button("+", "Zoom in (W or +)", () => tl.zoom(1 / ZOOM));
  button("Step", "Show the step (0)", () => tl.reset());
  button("Whole runs", "Show the whole runs", () => tl.show(tl.whole.lo, tl.whole.hi));
  tl.box = element("input", { parent: bar, type: "search", placeholder: "Search names ( / )", "aria-label": "Search kernel names", maxlength: 200 });
  tl.count = element("span", { cls: "kg-count", parent: bar, role: "status" });
  button("?", "Keys", () => tl.toggleKeys());
  tl.legend = element("div", { cls: "kg-legend", parent: tl.root });
  tl.stage = element("div", { cls: "kg-stage", parent: tl.root, tabindex: 0, role: "application", "aria-roledescription": "timeline" });
  tl.canvas = element("canvas", { parent: tl.stage, "aria-hidden": "true" });
  tl.ctx = tl.canvas.getContext("2d", { alpha: false });
  tl.tip = element("div", { cls: "kg-tip", parent: tl.stage });
  tl.tip.hidden = true;
  tl.keys = keySheet(tl.stage);
  tl.notes = element("div", { parent: tl.root });
  const below = element("div", { cls: "kg-below", parent: tl.root });
  tl.details = element("div", { parent: below });
  tl.totals = element("div", { parent: below });
  tl.spoken = element("div", { cls: "kg-quiet", parent: tl.root, role: "status", "aria-live": "polite" });
}

function fillSteps(tl) {
  const sides = new Map();
  for (const scene of tl.scenes) {
    for (const [phase, number] of scene.steps) {
      const name = `${phase}:${number}`;
      if (!sides.get(name)?.includes(scene.side)) sides.set(name, [...(sides.get(name) ?? []), scene.side]);
    }
  }
  const option = (value, text) => {
    const made = element("option", { text });
    made.value = value;
    return made;
  };
  tl.steps.replaceChildren(option("", "each run from its start"), ...[...sides].map(([name, found]) => (
    option(name, `${stepLabel(name)}${found.length < tl.scenes.length ? ` (only ${found})` : ""}`)
  )));
}
