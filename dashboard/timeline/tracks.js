// The tracks of one run as pixels. Where kernels are narrower than a pixel, the column shows how busy the track
// was with each group, stacked: never the largest group alone, which would hide the others.

const HATCH = 7; // pixels between the lines of idle time
const SEPARATE = 4; // pixels from which a kernel gets an edge
const WALK = 3; // kernels per column up to which they are drawn one by one

// Colours as pixels: the groups, the same dimmed (not found by the search) and darkened (edges), the ground.
function paints(groups, idle, ground) {
  const of = (colour, share, under) => pixel(blend(rgbOf(colour), under, share));
  const under = rgbOf(ground);
  return {
    full: groups.map((g) => of(g[1], 1, under)), dim: groups.map((g) => of(g[1], 0.28, under)),
    edge: groups.map((g) => of(g[1], 0.62, [0, 0, 0])), ground: pixel(under), line: of(idle, 0.38, under),
  };
}

// Draws a run's tracks into a picture `columns` wide; t0 and dt in ns of the run. Returns what can be labelled.
function drawTracks(picture, scene, part, t0, dt, paint, groups, height, gap) {
  const data = new Uint32Array(picture.data.buffer);
  const columns = picture.width;
  ground(data, picture, scene, t0, dt, paint);
  const shares = new Float32Array(groups * columns);
  const labels = [];
  for (let track = 0; track < scene.legend.tracks.length; track++) {
    const at = { data, columns, top: track * (height + gap), height, shares, paint, groups };
    if (part.type === "bins") dense(at, part.series, part, track, t0, dt);
    else if (!few(part, track, t0, dt, columns, scene)) {
      dense(at, seriesOf(part, scene.legend.group, groups), part, track, t0, dt);
    } else walk(at, scene, part, track, t0, dt, labels);
  }
  return labels;
}

function few(part, track, t0, dt, columns, scene) {
  if (track + 1 >= part.tracks.first.length) return true;
  const [from, to] = visible(part, track, t0, t0 + dt * columns);
  return to - from <= WALK * columns || scene.legend.tracks[track][4];
}

// Idle hatch inside the run, nothing outside it.
function ground(data, picture, scene, t0, dt, paint) {
  const { width, height } = picture;
  const [first, last] = scene.legend.span;
  const from = Math.min(Math.max(Math.floor((first - t0) / dt), 0), width);
  const to = Math.min(Math.max(Math.ceil((last - t0) / dt), 0), width);
  data.fill(paint.ground);
  for (let y = 0; y < height; y++) {
    const row = y * width;
    for (let x = from + ((HATCH - ((from + y) % HATCH)) % HATCH); x < to; x += HATCH) data[row + x] = paint.line;
  }
}

function dense(at, series, part, track, t0, dt) {
  const { shares, columns } = at;
  shares.fill(0);
  let any = false;
  for (const s of series) {
    if (s.track !== track) continue;
    addShares(part, s, t0, dt, columns, shares, s.group * columns);
    any = true;
  }
  if (any) for (let c = 0; c < columns; c++) stack(at, c);
}

// One column: the groups on top of each other, each as high as its share; at least one pixel if anything ran.
function stack({ data, columns, top, height, shares, paint, groups }, column) {
  let total = 0;
  let most = 0;
  for (let g = 0; g < groups; g++) {
    const share = shares[g * columns + column];
    total += share;
    if (share > shares[most * columns + column]) most = g;
  }
  if (total <= 1e-9) return;
  const scale = height / Math.max(total, 1); // kernels of the overflow track may cover each other
  let sofar = 0;
  let y = 0;
  for (let g = 0; g < groups; g++) {
    sofar += shares[g * columns + column] * scale;
    for (const to = Math.round(sofar); y < to; y++) data[(top + height - 1 - y) * columns + column] = paint.full[g];
  }
  if (y === 0) data[(top + height - 1) * columns + column] = paint.full[most];
}

// Kernels at least a pixel wide are drawn as they are; columns that hold narrower ones become stacks.
function walk(at, scene, part, track, t0, dt, labels) {
  if (track + 1 >= part.tracks.first.length) return;
  const { columns, shares } = at;
  const { start, end, what, tracks } = part;
  const overflow = scene.legend.tracks[track][4];
  const [seen, to] = visible(part, track, t0, t0 + dt * columns);
  const from = overflow ? tracks.first[track] : seen;
  const mixed = new Uint8Array(columns);
  shares.fill(0);
  for (let k = from; k < to; k++) {
    const i = tracks.order[k];
    const x0 = (start[i] - t0) / dt;
    const x1 = (end[i] - t0) / dt;
    if (x1 < 0 || x0 >= columns) continue;
    const kind = what[i] & 0xffff;
    const group = scene.legend.group[kind];
    if (x1 - x0 >= 1) {
      bar(at, x0, x1, group, scene.match && !scene.match[kind]);
      edges(shares, group * columns, columns, x0, x1);
      if (!overflow && x1 - x0 >= 40) labels.push({ track, x0, x1, kind, group });
    } else spread(shares, group * columns, columns, x0, x1, mixed);
  }
  for (let c = 0; c < columns; c++) {
    if (!mixed[c]) continue;
    for (let y = 0; y < at.height; y++) {
      at.data[(at.top + y) * columns + c] = (c + at.top + y) % HATCH ? at.paint.ground : at.paint.line;
    }
    stack(at, c);
  }
}

function bar({ data, columns, top, height, paint }, x0, x1, group, dimmed) {
  const from = Math.max(Math.round(x0), 0);
  const to = Math.min(Math.max(Math.round(x1), Math.round(x0) + 1), columns);
  const colour = dimmed ? paint.dim[group] : paint.full[group];
  for (let y = top; y < top + height; y++) data.fill(colour, y * columns + from, y * columns + to);
  if (x1 - x0 < SEPARATE || x0 < 0) return;
  for (let y = top; y < top + height; y++) data[y * columns + from] = paint.edge[group];
}

// The columns that a wide kernel covers in part: what a narrow neighbour's stack must add.
function edges(shares, offset, columns, x0, x1) {
  const first = Math.floor(x0);
  const last = Math.floor(x1);
  if (first >= 0) shares[offset + first] += first + 1 - x0;
  if (last < columns && last > first) shares[offset + last] += x1 - last;
}

// A kernel narrower than a pixel lies in one column or two.
function spread(shares, offset, columns, x0, x1, mixed) {
  const first = Math.floor(x0);
  const split = Math.min(first + 1, x1);
  const tiny = 1e-6; // an empty kernel still shows
  if (first >= 0) { shares[offset + first] += Math.max(split - x0, tiny); mixed[first] = 1; }
  if (x1 > first + 1 && first + 1 < columns) { shares[offset + first + 1] += x1 - first - 1; mixed[first + 1] = 1; }
}
