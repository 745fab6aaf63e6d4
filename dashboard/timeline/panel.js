// What stands around the picture: legend, tooltip, the selected kernel, the sums of a range, the keys.

const KEYS = [
  ["W S or ↑ ↓", "zoom in, out"], ["A D or ← →", "earlier, later"], ["+ −", "zoom in, out"],
  ["0", "back to the step"], ["[ ]", "previous, next step"], ["F", "fit the range, the kernel, or the whole runs"],
  [". ,", "next, previous kernel of the same name"], ["/", "search; Enter and Shift+Enter go through"],
  ["Esc", "clear range, kernel and search"], ["Ctrl + wheel", "zoom"], ["Shift + drag", "move"],
  ["drag", "select a range"], ["click", "select a kernel"], ["?", "this list"],
];

function fillLegend(tl, parent) {
  parent.replaceChildren();
  for (const [name, colour] of [...tl.groups, ["idle", tl.idle]]) {
    const entry = element("span", { parent });
    const swatch = element("i", { cls: "kg-swatch", parent: entry });
    swatch.style.background = name === "idle"
      ? `repeating-linear-gradient(135deg, ${colour} 0 2px, transparent 2px 5px)` : colour;
    element("span", { text: name, parent: entry });
  }
}

function keySheet(parent) {
  const sheet = element("div", { cls: "kg-keys", parent, role: "dialog", "aria-label": "Keys of the timeline" });
  sheet.hidden = true;
  const table = element("table", { parent: sheet });
  for (const [keys, what] of KEYS) {
    const row = element("tr", { parent: table });
    element("kbd", { text: keys, parent: element("td", { parent: row }) });
    element("td", { text: what, parent: row });
  }
  return sheet;
}

function kindOf(scene, kind) {
  const { legend } = scene;
  return {
    name: legend.names[legend.name[kind]], category: legend.category[kind] ?? "unknown",
    module: legend.module[kind],
  };
}

// The tooltip beside the pointer; `at` in CSS pixels of the stage.
function showTip(tl, kernel, at) {
  const { tip } = tl;
  tip.hidden = !kernel;
  if (!kernel) return;
  const scene = tl.scenes[kernel.run];
  const { name, category, module } = kindOf(scene, kernel.kind);
  tip.replaceChildren();
  element("b", { text: name, parent: tip });
  const start = kernel.start - tl.origins[kernel.run];
  element("div", { text: `${duration(kernel.end - kernel.start)} at ${duration(start)}`, parent: tip });
  element("div", { text: module ? `${category} · ${module}` : category, parent: tip });
  const { width, height } = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(Math.min(at.x + 14, tl.width - width - 2), 0)}px`;
  tip.style.top = `${at.y + 18 + height > tl.layout.height ? Math.max(at.y - height - 10, 0) : at.y + 18}px`;
}

function fillDetails(tl, parent) {
  parent.replaceChildren();
  const kernel = tl.selected;
  if (!kernel) return void element("div", { cls: "kg-note", text: "Click a kernel to see it here; drag over a range to add it up. Press ? for the keys.", parent });
  const scene = tl.scenes[kernel.run];
  const { name, category, module } = kindOf(scene, kernel.kind);
  element("h4", { text: `${scene.side}: ${name}`, parent });
  const list = element("dl", { parent });
  const line = (what, text) => {
    element("dt", { text: what, parent: list });
    element("dd", { text, parent: list });
  };
  line("Category", category);
  if (!scene.legend.modules_left_out) line("Module", module ?? "–");
  line("Start", `${exactly(kernel.start - tl.origins[kernel.run])} on the axis, ${grouped(kernel.start)} ns in the run`);
  line("Duration", exactly(kernel.end - kernel.start));
  const known = tl.page.details;
  const same = known && known.run === kernel.run && known.place === kernel.place && known.base === scene.base.key;
  for (const [what, text] of same ? known.lines : [["Idle before", "…"]]) line(what, text);
}

// Busy and idle ns of the range (else of what is in view), as the server added them up.
function fillTotals(tl, parent) {
  parent.replaceChildren();
  const { totals } = tl.page;
  if (!totals) return;
  const [lo, hi] = tl.view.range ?? [tl.view.lo, tl.view.hi];
  const stale = totals.of[0] !== Math.round(lo) || totals.of[1] !== Math.round(hi);
  const title = `${tl.view.range ? "Range" : "In view"}: ${exactly(Math.round(hi) - Math.round(lo))}`;
  element("h4", { text: stale ? `${title} …` : title, parent });
  const table = element("table", { parent });
  table.style.opacity = stale ? 0.45 : 1;
  const head = element("tr", { parent: element("thead", { parent: table }) });
  const sides = totals.runs.map((run) => run.side);
  for (const text of ["", ...sides.flatMap((side) => [`${side}, ns`, "share"]), ...(sides.length === 2 ? ["B − A, ns"] : [])]) {
    element("th", { text, parent: head, scope: "col" });
  }
  const body = element("tbody", { parent: table });
  const groups = [...tl.groups.map((g) => g[0]).filter((g) => totals.runs.some((run) => run.busy[g])), "idle"];
  for (const group of groups) {
    const ns = totals.runs.map((run) => (group === "idle" ? run.idle : run.busy[group] ?? 0));
    const row = element("tr", { parent: body });
    element("th", { text: group, parent: row, scope: "row" });
    ns.forEach((value, i) => {
      element("td", { text: grouped(value), parent: row });
      element("td", { text: totals.runs[i].span ? percent(value / totals.runs[i].span) : "–", parent: row });
    });
    if (ns.length === 2) element("td", { text: signed(ns[1] - ns[0]), parent: row });
  }
  const last = element("tr", { parent: body });
  element("th", { text: "kernels", parent: last, scope: "row" });
  for (const run of totals.runs) {
    element("td", { text: grouped(run.kernels), parent: last });
    element("td", { parent: last });
  }
  if (sides.length === 2) element("td", { text: signed(totals.runs[1].kernels - totals.runs[0].kernels), parent: last });
}

function signed(number) {
  return `${number > 0 ? "+" : number < 0 ? "−" : "±"}${grouped(Math.abs(number))}`;
}

// What the picture cannot show as it is: counted, never silent.
function notesOf(tl) {
  const out = [...(tl.page.notes ?? [])];
  tl.scenes.forEach((scene) => {
    const { legend, side } = scene;
    if (tl.view.step && !stepOf(scene, tl.view.step)) out.push(`${side} has no ${stepLabel(tl.view.step)}: its own start is at 0.`);
    if (!legend.count) out.push(`${side} has no kernel with a usable time.`);
    if (legend.overflow) out.push(`${side}: ${plural(legend.overflow, "kernel")} found no lane of their own and share the overflow lane, where they may cover each other.`);
    if (legend.unusable) out.push(`${side}: ${plural(legend.unusable, "row")} without a usable time ${legend.unusable === 1 ? "is" : "are"} not drawn.`);
    if (legend.names_left_out) out.push(`${side}: ${plural(legend.names_left_out, "rare name")} are not searched; a click shows them.`);
    if (legend.modules_left_out) out.push(`${side}: too many modules to send them all; a click shows a kernel's.`);
    if (legend.rounded) out.push(`${side} is longer than 104 days: the picture rounds to 2 ns or more; the numbers below it do not.`);
    if (scene.base.type === "bins") {
      const exact = tl.exact(scene);
      out.push(`${side}: ${plural(legend.count, "kernel")}; ${exact ? "single kernels shown" : `busy shares in bins of ${duration(scene.base.width)}, single kernels once fewer than ${grouped(tl.page.most)} are in view`}.`);
    }
  });
  return out;
}
