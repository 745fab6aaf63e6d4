// Keys, pointer and wheel. A plain wheel scrolls the page; keys act while the timeline has the focus.

const ZOOM = 1.5;
const CLICK = 4; // pixels that a click may move

function listen(tl) {
  const { stage, box: search } = tl;
  tl.root.addEventListener("keydown", (event) => {
    event.stopPropagation(); // Streamlit's own keys (r, c) must not see what is typed here
    if (event.target === stage) onKey(tl, event);
  });
  for (const type of ["keyup", "keypress"]) tl.root.addEventListener(type, (event) => event.stopPropagation());
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter") { event.preventDefault(); jumpToFound(tl, event.shiftKey ? -1 : 1); }
    if (event.key === "Escape") { event.preventDefault(); search.value = ""; tl.search(""); stage.focus({ preventScroll: true }); }
  });
  search.addEventListener("input", () => tl.search(search.value));
  stage.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    tl.zoom(Math.exp(Math.min(Math.max(event.deltaY, -200), 200) / 300), timeAt(tl, event));
  }, { passive: false });
  stage.addEventListener("pointerdown", (event) => onDown(tl, event));
  stage.addEventListener("pointermove", (event) => onMove(tl, event));
  stage.addEventListener("pointerup", (event) => onUp(tl, event));
  stage.addEventListener("pointercancel", () => { tl.drag = null; });
  stage.addEventListener("pointerleave", () => showTip(tl, null));
}

function onKey(tl, event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const act = {
    w: () => tl.zoom(1 / ZOOM), s: () => tl.zoom(ZOOM), a: () => tl.pan(-0.25), d: () => tl.pan(0.25),
    arrowup: () => tl.zoom(1 / ZOOM), arrowdown: () => tl.zoom(ZOOM),
    arrowleft: () => tl.pan(-0.25), arrowright: () => tl.pan(0.25),
    "+": () => tl.zoom(1 / ZOOM), "=": () => tl.zoom(1 / ZOOM), "-": () => tl.zoom(ZOOM),
    0: () => tl.reset(), f: () => tl.fit(), "[": () => tl.nextStep(-1), "]": () => tl.nextStep(1),
    ".": () => jumpToSame(tl, 1), ",": () => jumpToSame(tl, -1),
    "/": () => { tl.box.focus(); tl.box.select(); },
    "?": () => tl.toggleKeys(), escape: () => tl.clear(),
  }[event.key.toLowerCase()];
  if (!act) return;
  event.preventDefault();
  act();
}

function place(tl, event) {
  const box = tl.canvas.getBoundingClientRect();
  return { x: event.clientX - box.left, y: event.clientY - box.top };
}

function timeAt(tl, event) {
  const { gutter, plot } = tl.layout;
  const share = Math.min(Math.max((place(tl, event).x - gutter) / plot, 0), 1);
  return tl.view.lo + share * (tl.view.hi - tl.view.lo);
}

function onDown(tl, event) {
  if (event.button !== 0) return;
  tl.stage.setPointerCapture(event.pointerId);
  tl.stage.focus({ preventScroll: true });
  const at = place(tl, event);
  const kind = at.y < MAP ? "map" : event.shiftKey ? "pan" : "range";
  tl.drag = { kind, at, time: timeAt(tl, event), view: { ...tl.view }, moved: false };
  showTip(tl, null);
  if (kind === "map") centreFromMap(tl, at);
}

function onMove(tl, event) {
  const at = place(tl, event);
  const { drag } = tl;
  if (!drag) return showTip(tl, hit(tl, at), at);
  if (Math.abs(at.x - drag.at.x) >= CLICK) drag.moved = true;
  if (drag.kind === "map") return centreFromMap(tl, at);
  if (!drag.moved) return undefined;
  if (drag.kind === "pan") {
    const shift = ((drag.at.x - at.x) / tl.layout.plot) * (drag.view.hi - drag.view.lo);
    return tl.show(drag.view.lo + shift, drag.view.hi + shift);
  }
  const now = timeAt(tl, event);
  tl.view.range = [Math.round(Math.min(drag.time, now)), Math.round(Math.max(drag.time, now))];
  return tl.changed();
}

function onUp(tl, event) {
  const { drag } = tl;
  tl.drag = null;
  if (!drag) return;
  tl.changed();
  if (drag.kind !== "range") return;
  if (drag.moved) {
    if (tl.view.range) tl.say(`Range of ${duration(tl.view.range[1] - tl.view.range[0])} selected.`);
    return;
  }
  const kernel = hit(tl, place(tl, event));
  if (!kernel) tl.view.range = null;
  tl.select(kernel);
}

function centreFromMap(tl, at) {
  const { gutter, plot } = tl.layout;
  const middle = tl.whole.lo + (Math.min(Math.max(at.x - gutter, 0), plot) / plot) * (tl.whole.hi - tl.whole.lo);
  const half = (tl.view.hi - tl.view.lo) / 2;
  tl.show(middle - half, middle + half);
}

// The kernel under a place of the picture, or within 3 pixels of it.
function hit(tl, at) {
  const { gutter, plot, panels } = tl.layout;
  if (at.x < gutter) return null;
  const run = panels.findIndex((p) => at.y >= p.tracks && at.y < p.tracks + p.number * p.pitch);
  if (run < 0) return null;
  const scene = tl.scenes[run];
  const ns = (tl.view.hi - tl.view.lo) / plot;
  const track = Math.floor((at.y - panels[run].tracks) / panels[run].pitch);
  const from = tl.view.lo + tl.origins[run];
  const part = partFor(scene, from, from + ns * plot);
  if (part.type !== "kernels" || track + 1 >= part.tracks.first.length) return null;
  const i = kernelAt(part, track, from + (at.x - gutter) * ns, 3 * ns);
  return i < 0 ? null : kernelOf(tl, run, part, i);
}
