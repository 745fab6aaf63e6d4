// One frame: minimap, axis, and each run's name, steps and tracks. All positions in CSS pixels.

const AXIS = 20;
const MAP = 30;
const HEAD = 34; // name of the run, then its steps
const LABELS = 400; // texts on kernels per frame

function layOut(tl) {
  const gutter = tl.width < 560 ? 62 : 104;
  let top = MAP + 6 + AXIS;
  const panels = tl.scenes.map((scene) => {
    const number = Math.max(scene.legend.tracks.length, 1);
    const height = Math.max(Math.min(Math.floor(190 / number), 34), 5);
    const panel = { top, tracks: top + HEAD, height, pitch: height + 1, number };
    top = panel.tracks + number * panel.pitch + 10;
    return panel;
  });
  return { gutter, plot: Math.max(tl.width - gutter, 50), panels, height: top };
}

function draw(tl) {
  const began = performance.now();
  const { ctx, layout, colours, view } = tl;
  ctx.setTransform(tl.ratio, 0, 0, tl.ratio, 0, 0);
  ctx.fillStyle = colours.ground;
  ctx.fillRect(0, 0, tl.width, layout.height);
  ctx.font = `12px ${colours.font}`;
  ctx.textBaseline = "middle";
  const scale = layout.plot / (view.hi - view.lo);
  const x = (t) => layout.gutter + (t - view.lo) * scale;
  drawMap(tl);
  drawAxis(tl, x);
  tl.scenes.forEach((scene, run) => drawRun(tl, scene, run, x));
  drawRange(tl, x);
  tl.frameMs = performance.now() - began;
}

function drawAxis(tl, x) {
  const { ctx, view, layout, colours } = tl;
  const step = niceStep(((view.hi - view.lo) / layout.plot) * 190);
  const top = MAP + 6;
  ctx.fillStyle = colours.text;
  ctx.textAlign = "center";
  for (let t = Math.ceil(view.lo / step) * step; t <= view.hi; t += step) {
    const at = Math.round(x(t));
    ctx.globalAlpha = 0.16;
    ctx.fillRect(at, top + AXIS - 4, 1, layout.height - top - AXIS);
    ctx.globalAlpha = 1;
    const text = tickText(t, step);
    const half = ctx.measureText(text).width / 2;
    if (at - half > layout.gutter - 4 && at + half < tl.width) ctx.fillText(text, at, top + 8);
  }
  ctx.textAlign = "left";
  ctx.globalAlpha = 0.75;
  const origin = view.step ? "since the step" : "since the start";
  ctx.fillText(tl.width < 560 ? "time" : origin, 0, top + 8);
  ctx.globalAlpha = 1;
}

function drawRun(tl, scene, run, x) {
  const { ctx, layout, colours, view, ratio } = tl;
  const panel = layout.panels[run];
  ctx.fillStyle = colours.text;
  ctx.font = `600 13px ${colours.font}`;
  ctx.fillText(clipped(ctx, `${scene.side}  ${scene.title}`, tl.width), 0, panel.top + 8);
  ctx.font = `12px ${colours.font}`;
  scene.legend.tracks.forEach((track, at) => {
    if (panel.height < 10 && at % Math.ceil(10 / panel.pitch)) return;
    const middle = panel.tracks + at * panel.pitch + panel.height / 2;
    ctx.fillText(clipped(ctx, trackName(track, scene, tl.width < 560), layout.gutter - 6), 0, middle);
  });
  const columns = Math.round(layout.plot * ratio);
  const height = Math.round(panel.height * ratio);
  const gap = Math.round(panel.pitch * ratio) - height;
  const rows = Math.max(panel.number * (height + gap), 1);
  if (!scene.picture || scene.picture.width !== columns || scene.picture.height !== rows) {
    scene.picture = new ImageData(columns, rows);
  }
  const t0 = view.lo + tl.origins[run];
  const dt = (view.hi - view.lo) / columns;
  const labels = drawTracks(
    scene.picture, scene, partFor(scene, t0, t0 + dt * columns), t0, dt, tl.paint, tl.groups.length, height, gap,
  );
  ctx.putImageData(scene.picture, Math.round(layout.gutter * ratio), Math.round(panel.tracks * ratio));
  drawLabels(tl, scene, panel, labels);
  drawHits(tl, scene, run, panel);
  drawSteps(tl, scene, run, panel, x);
  drawSelected(tl, run, panel, x);
}

function trackName([rank, device, stream, lane, overflow], scene, short) {
  if (overflow) return short ? "overflow" : "overflow lane";
  const where = scene.legend.devices > 1 ? `${rank === null ? "" : `r${rank} `}d${device ?? "?"} ` : "";
  const name = stream === null ? "no stream" : `${short ? "s" : "stream "}${stream}`;
  return `${where}${name}${lane ? ` +${lane}` : ""}`;
}

// The exact kernels of the window if they are here, else what is known of the whole run.
function partFor(scene, t0, t1) {
  const detail = scene.detail;
  if (!detail) return scene.base;
  const [first, last] = scene.legend.span;
  const covers = detail.window[0] <= Math.max(t0, first) && Math.min(t1, last) <= detail.window[1];
  return covers ? detail : scene.base;
}

function clipped(ctx, text, width) {
  if (width < 10) return "";
  let cut = text.length > 200 ? `${text.slice(0, 199)}…` : text;
  let wide = ctx.measureText(cut).width;
  while (wide > width && cut.length > 1) {
    cut = `${cut.slice(0, Math.max(Math.min(cut.length - 2, Math.floor((cut.length * width) / wide) - 1), 0))}…`;
    wide = ctx.measureText(cut).width;
  }
  return wide > width ? "" : cut;
}

function drawLabels(tl, scene, panel, labels) {
  if (panel.height < 11) return;
  const { ctx, layout, ratio } = tl;
  ctx.font = `11px ${tl.colours.font}`;
  for (const { track, x0, x1, kind, group } of labels.slice(0, LABELS)) {
    const from = Math.max(x0 / ratio, 0) + 4;
    const name = scene.legend.names[scene.legend.name[kind]].replace(/^void /, "");
    const text = clipped(ctx, name, Math.min(x1 / ratio, layout.plot) - from - 3);
    if (text.length < 3) continue;
    ctx.fillStyle = scene.match && !scene.match[kind] ? tl.colours.text : tl.inks[group];
    ctx.fillText(text, layout.gutter + from, panel.tracks + track * panel.pitch + panel.height / 2 + 0.5);
  }
}

// A mark above the tracks for every pixel that holds the start of a kernel that the search found.
function drawHits(tl, scene, run, panel) {
  if (!scene.hits) return;
  const { ctx, layout, view } = tl;
  ctx.fillStyle = tl.colours.accent;
  const dt = (view.hi - view.lo) / layout.plot;
  let at = above(scene.hits, view.lo + tl.origins[run] - 1e-9);
  for (let c = 0; c < layout.plot && at < scene.hits.length; c++) {
    const next = above(scene.hits, view.lo + tl.origins[run] + (c + 1) * dt, at);
    if (next > at) ctx.fillRect(layout.gutter + c, panel.tracks - 5, 1, 4);
    at = next;
  }
}

// Where steps begin, and their names as far as there is room.
function drawSteps(tl, scene, run, panel, x) {
  const { ctx, layout, view } = tl;
  const bottom = panel.tracks + panel.number * panel.pitch;
  let free = layout.gutter;
  let drawn = -Infinity; // lines closer than that would only be a grey area
  ctx.font = `11px ${tl.colours.font}`;
  for (const [phase, number, start, end] of scene.steps) {
    const from = start - tl.origins[run];
    const to = end - tl.origins[run];
    if (to < view.lo || from > view.hi) continue;
    const at = Math.max(x(from), layout.gutter);
    if (at - drawn < 5) continue;
    const roomy = x(to) - x(from) >= 14;
    drawn = at;
    ctx.fillStyle = tl.colours.text;
    ctx.globalAlpha = 0.55;
    if (from >= view.lo) ctx.fillRect(Math.round(at), panel.top + 17, 1, roomy ? bottom - panel.top - 17 : 5);
    if (roomy && to <= view.hi) ctx.fillRect(Math.round(x(to)), panel.top + 17, 1, 6);
    ctx.globalAlpha = 1;
    const room = Math.min(x(to), tl.width) - Math.max(at, free) - 8;
    const text = clipped(ctx, `${phase} ${number}`, room);
    if (text.length > 2 && at >= free) {
      ctx.fillText(text, at + 4, panel.top + 23);
      free = at + 8 + ctx.measureText(text).width;
    }
  }
}

function drawSelected(tl, run, panel, x) {
  const kernel = tl.selected;
  if (!kernel || kernel.run !== run) return;
  const { ctx, layout } = tl;
  const x0 = x(kernel.start - tl.origins[run]);
  const x1 = Math.max(x(kernel.end - tl.origins[run]), x0 + 1);
  if (x1 < layout.gutter || x0 > tl.width) return;
  const y = panel.tracks + kernel.track * panel.pitch;
  const from = Math.max(x0, layout.gutter);
  ctx.strokeStyle = tl.colours.text;
  ctx.lineWidth = 2;
  ctx.strokeRect(from - 1, y - 1, Math.min(x1, tl.width) - from + 2, panel.height + 2);
  ctx.fillStyle = tl.colours.accent;
  ctx.beginPath();
  ctx.moveTo((from + x1) / 2, y - 1);
  ctx.lineTo((from + x1) / 2 - 4, y - 7);
  ctx.lineTo((from + x1) / 2 + 4, y - 7);
  ctx.fill();
}

function drawRange(tl, x) {
  if (!tl.view.range) return;
  const { ctx, layout } = tl;
  const from = Math.max(x(tl.view.range[0]), layout.gutter);
  const to = Math.min(x(tl.view.range[1]), tl.width);
  if (to < from) return;
  const top = MAP + 6;
  ctx.fillStyle = tl.colours.accent;
  ctx.globalAlpha = 0.13;
  ctx.fillRect(from, top, Math.max(to - from, 1), layout.height - top);
  ctx.globalAlpha = 1;
  ctx.fillRect(from, top, 1, layout.height - top);
  ctx.fillRect(to - 1, top, 1, layout.height - top);
}
