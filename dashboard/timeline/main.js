// The timeline itself: its state, what changes it, and what of it the server hears.

const QUIET_MS = 250; // the server hears of a change after so long without another
const LEAST_NS = 8; // across the whole picture
const known = new WeakMap();

class Timeline {
  constructor(root) {
    this.root = root;
    this.parts = new Map();
    this.page = {};
    this.scenes = [];
    this.view = { step: "", lo: 0, hi: 1, range: null, find: "" };
    this.selected = null;
    this.asked = 0;
    this.done = {};
    build(this);
    listen(this);
    this.watch = new ResizeObserver(() => this.resize());
    this.watch.observe(this.stage);
  }

  // A message of the server: new parts, and the page as it is there.
  take(data, send) {
    const began = performance.now();
    this.send = send;
    if (data === this.last) return this.resize(); // only the theme changed
    this.last = data;
    const { page, parts } = unframe(data);
    for (const part of parts) this.parts.set(part.key, part);
    const keys = page.runs.flatMap((run) => [run.base, run.detail]).filter(Boolean);
    this.missing = keys.some((key) => !this.parts.has(key));
    if (this.missing) return this.report(); // another browser tab's memory: ask for all of it
    for (const key of this.parts.keys()) if (!keys.includes(key)) this.parts.delete(key);
    const moved = page.nav !== this.page.nav;
    this.page = page;
    this.groups = page.groups;
    this.idle = page.idle;
    const bases = page.runs.map((run) => run.base).join(" ");
    if (bases !== this.baseKeys) this.open(page, bases);
    else page.runs.forEach((run, i) => { this.scenes[i].detail = this.parts.get(run.detail) ?? null; });
    if (moved) this.follow(page.view);
    applySearch(this, this.view.find);
    this.stage.setAttribute("aria-label", page.summary);
    if (page.answer && page.answer.n === this.asked && this.waiting) this.answered(page.answer);
    else if (!this.selected && page.details && moved) this.selected = page.details.kernel;
    this.resize();
    this.takeMs = performance.now() - began;
    return undefined;
  }

  open(page, bases) {
    this.baseKeys = bases;
    this.selected = null;
    this.scenes = page.runs.map((run) => {
      const base = this.parts.get(run.base);
      return { side: run.side, title: run.title, base, legend: base.legend, steps: base.steps, detail: this.parts.get(run.detail) ?? null };
    });
    fillSteps(this);
    this.steps.value = this.view.step;
    this.origin();
    this.changed(); // the server hears which parts are here
  }

  follow(view) {
    this.view = { ...this.view, ...view };
    this.steps.value = this.view.step;
    this.box.value = this.view.find;
    this.selected = null;
    this.origin();
  }

  // Where 0 lies in each run, and how far the axis goes.
  origin() {
    this.origins = this.scenes.map((scene) => stepOf(scene, this.view.step)?.[2] ?? scene.legend.span[0]);
    const spans = this.scenes.map((scene, i) => scene.legend.span.map((t) => t - this.origins[i]));
    this.whole = { lo: Math.min(...spans.map((s) => s[0])), hi: Math.max(...spans.map((s) => s[1]), 1) };
  }

  exact(scene) {
    const run = this.scenes.indexOf(scene);
    return partFor(scene, this.view.lo + this.origins[run], this.view.hi + this.origins[run]).type === "kernels";
  }

  stepLength() {
    const found = this.scenes.map((scene) => stepOf(scene, this.view.step)).filter(Boolean);
    return Math.max(...found.map((s) => s[3] - s[2]), 0);
  }

  goStep(name) {
    this.view.step = name;
    this.view.range = null;
    this.steps.value = name;
    this.origin();
    this.reset();
    this.say(`${this.steps.selectedOptions[0]?.textContent ?? name} shown.`);
  }

  nextStep(direction) {
    const at = Math.min(Math.max(this.steps.selectedIndex + direction, 0), this.steps.options.length - 1);
    this.goStep(this.steps.options[at].value);
  }

  reset() {
    const length = this.stepLength();
    if (length) this.show(0, length);
    else this.show(this.whole.lo, this.whole.hi);
  }

  fit() {
    const { range } = this.view;
    if (range && range[1] > range[0]) return this.show(...range);
    if (!this.selected) return this.show(this.whole.lo, this.whole.hi);
    const { run, start, end } = this.selected;
    const margin = Math.max(end - start, LEAST_NS) * 2;
    return this.show(start - margin - this.origins[run], end + margin - this.origins[run]);
  }

  show(lo, hi) {
    const slack = (this.whole.hi - this.whole.lo) * 0.02;
    const wide = Math.min(Math.max(hi - lo, LEAST_NS), this.whole.hi - this.whole.lo + 2 * slack);
    const least = this.whole.lo - slack;
    const middle = Math.min(Math.max((lo + hi) / 2, least + wide / 2), this.whole.hi + slack - wide / 2);
    this.view.lo = middle - wide / 2;
    this.view.hi = middle + wide / 2;
    this.changed();
  }

  zoom(factor, around = (this.view.lo + this.view.hi) / 2) {
    this.show(around - (around - this.view.lo) * factor, around + (this.view.hi - around) * factor);
  }

  pan(share) {
    const shift = share * (this.view.hi - this.view.lo);
    this.show(this.view.lo + shift, this.view.hi + shift);
  }

  select(kernel) {
    this.selected = kernel;
    if (kernel) this.say(`${kindOf(this.scenes[kernel.run], kernel.kind).name.slice(0, 120)}, ${duration(kernel.end - kernel.start)}`);
    this.changed();
  }

  // Select a kernel and bring it into view without changing the zoom.
  go(kernel) {
    const from = kernel.start - this.origins[kernel.run];
    const wide = this.view.hi - this.view.lo;
    const seen = from >= this.view.lo && kernel.end - this.origins[kernel.run] <= this.view.hi;
    if (!seen) this.show(from - wide / 2, from + wide / 2);
    this.select(kernel);
  }

  search(words) {
    applySearch(this, words);
    this.changed();
  }

  ask(question) {
    this.asked += 1;
    this.waiting = { n: this.asked, ...question };
    this.say("Looking …");
    this.report();
  }

  answered(answer) {
    this.waiting = null;
    if (answer.kernel) this.go(answer.kernel);
    else this.say("No other kernel found.");
  }

  clear() {
    if (!this.keys.hidden) return this.toggleKeys();
    this.view.range = null;
    this.selected = null;
    this.box.value = "";
    this.search("");
    return this.say("Cleared.");
  }

  toggleKeys() { this.keys.hidden = !this.keys.hidden; }

  say(text) { this.spoken.textContent = text; }

  changed() {
    this.frame ??= requestAnimationFrame(() => { this.frame = null; this.redraw(); });
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.report(), QUIET_MS);
  }

  // Tell the server what is shown, unless it knows.
  report() {
    clearTimeout(this.timer);
    const { step, lo, hi, range, find } = this.view;
    const kernel = this.selected && `${this.scenes[this.selected.run].side.toLowerCase()}:${this.selected.place}`;
    const have = this.missing ? [] : [...this.parts.keys()];
    const now = { of: this.page.nav ?? null, step, lo: Math.round(lo), hi: Math.round(hi), range, find, kernel, have, ask: this.waiting ?? null };
    if (this.missing) { now.of = null; this.lastSent = null; }
    const text = JSON.stringify(now);
    if (text === this.lastSent || this.drag) return;
    this.lastSent = text;
    this.send(now);
  }

  resize() {
    if (!this.scenes.length || this.missing) return;
    const style = getComputedStyle(this.root);
    const read = (name, other) => style.getPropertyValue(name).trim() || other;
    this.colours = {
      text: read("--st-text-color", "#333"), ground: read("--st-background-color", "#fff"),
      accent: read("--st-primary-color", "#d33"), font: read("--st-font", "sans-serif"),
    };
    this.paint = paints(this.groups, this.idle, this.colours.ground);
    this.inks = this.groups.map(([, colour]) => inkOn(colour));
    this.ratio = window.devicePixelRatio || 1;
    this.width = this.stage.clientWidth;
    this.layout = layOut(this);
    const [wide, high] = [Math.round(this.width * this.ratio), Math.round(this.layout.height * this.ratio)];
    if (this.canvas.width !== wide || this.canvas.height !== high) {
      this.canvas.width = wide;
      this.canvas.height = high;
      this.canvas.style.height = `${this.layout.height}px`;
    }
    fillLegend(this, this.legend);
    this.redraw();
  }

  redraw() {
    if (!this.layout || !this.width) return;
    draw(this);
    this.frames = (this.frames ?? 0) + 1;
    this.once("count", [this.view.find, this.selected, this.scenes], () => { this.count.textContent = countText(this); });
    this.once("notes", [notesOf(this).join("\n")], () => {
      this.notes.replaceChildren();
      for (const text of notesOf(this)) element("div", { cls: "kg-note", text, parent: this.notes });
    });
    this.once("details", [this.selected, this.page.details, this.origins], () => fillDetails(this, this.details));
    fillTotals(this, this.totals);
  }

  // Does what it is told when what it depends on has changed.
  once(name, causes, act) {
    const before = this.done[name];
    if (before && causes.every((cause, i) => cause === before[i])) return;
    this.done[name] = causes;
    act();
  }

  end() {
    clearTimeout(this.timer);
    cancelAnimationFrame(this.frame);
    this.watch.disconnect();
    this.root.replaceChildren();
  }
}

export default function timeline({ parentElement, data, setStateValue }) {
  const root = parentElement.querySelector(".kg");
  let entry = known.get(root);
  if (!entry) {
    entry = { made: new Timeline(root), calls: 0 };
    known.set(root, entry);
    root.timeline = entry.made;
  }
  entry.calls += 1;
  const mine = entry.calls;
  entry.made.take(data, (view) => setStateValue("view", view));
  return () => {
    if (entry.calls !== mine) return; // a later call took over
    entry.made.end();
    known.delete(root);
  };
}
