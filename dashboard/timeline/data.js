// What the server sends, and how it is asked: kernels and bins as columns, found by binary search.

const MAGIC = "KGT1";
const KIND_BITS = 16;
const LONG = 0xffffffff;
const TYPES = { "<u4": Uint32Array, "<f8": Float64Array };

// The chunks of one message: the page's JSON, then JSON and columns of each part.
function unframe(bytes) {
  const whole = bytes.slice(); // aligned: the message may lie anywhere in its buffer
  const view = new DataView(whole.buffer);
  if (String.fromCharCode(...whole.subarray(0, 4)) !== MAGIC) throw new Error("not a timeline message");
  const chunks = [];
  for (let at = 8, left = view.getUint32(4, true); left > 0; left--) {
    const size = Number(view.getBigUint64(at, true));
    chunks.push(whole.subarray(at + 8, at + 8 + size));
    at += 8 + size + ((8 - (size % 8)) % 8);
  }
  const json = (chunk) => JSON.parse(new TextDecoder().decode(chunk));
  const parts = [];
  for (let i = 1; i + 1 < chunks.length; i += 2) parts.push(built(json(chunks[i]), chunks[i + 1]));
  return { page: json(chunks[0]), parts };
}

function built(about, blob) {
  const column = {};
  for (const [name, [type, at, count]] of Object.entries(about.columns)) {
    column[name] = new TYPES[type](blob.buffer, blob.byteOffset + at, count);
  }
  return about.type === "kernels" ? kernelPart(about, column) : binPart(about, column);
}

function kernelPart(about, { start: offset, used, what, epoch_at, epoch_ns, long_at, long_ns, place }) {
  const n = about.count;
  const start = new Float64Array(n);
  const end = new Float64Array(n);
  for (let e = 0; e < epoch_at.length; e++) {
    const base = epoch_ns[e];
    const last = e + 1 < epoch_at.length ? epoch_at[e + 1] : n;
    for (let i = epoch_at[e]; i < last; i++) start[i] = base + offset[i];
  }
  for (let i = 0; i < n; i++) end[i] = start[i] + used[i];
  for (let i = 0; i < long_at.length; i++) end[long_at[i]] = start[long_at[i]] + long_ns[i];
  return { ...about, start, end, what, place, tracks: byTrack(what, n), series: null };
}

// Kernels by track, by start within it: places in `order` from first[t] to first[t + 1].
function byTrack(what, n) {
  let most = 0;
  for (let i = 0; i < n; i++) if (what[i] >>> KIND_BITS >= most) most = (what[i] >>> KIND_BITS) + 1;
  const first = new Uint32Array(most + 1);
  for (let i = 0; i < n; i++) first[(what[i] >>> KIND_BITS) + 1]++;
  for (let t = 0; t < most; t++) first[t + 1] += first[t];
  const next = first.slice();
  const order = new Uint32Array(n);
  for (let i = 0; i < n; i++) order[next[what[i] >>> KIND_BITS]++] = i;
  return { first, order };
}

// One series for each group on each track: when its kernels start, and how long those before ran together.
function seriesOf(part, groupOf, groups) {
  if (part.series) return part.series;
  const { start, end, what, tracks } = part;
  part.series = [];
  for (let t = 0; t + 1 < tracks.first.length; t++) {
    const mine = tracks.order.subarray(tracks.first[t], tracks.first[t + 1]);
    const count = new Uint32Array(groups);
    for (const i of mine) count[groupOf[what[i] & 0xffff]]++;
    const made = Array.from(count, (n, g) => ({
      track: t, group: g, at: 0, start: new Float64Array(n), before: new Float64Array(n + 1),
    }));
    for (const i of mine) {
      const s = made[groupOf[what[i] & 0xffff]];
      s.start[s.at] = start[i];
      s.before[s.at + 1] = s.before[s.at] + (end[i] - start[i]);
      s.at++;
    }
    part.series.push(...made.filter((s) => s.at));
  }
  return part.series;
}

function binPart(about, { busy }) {
  const series = about.series.map(([track, group], s) => {
    const before = new Float64Array(about.bins + 1);
    for (let b = 0; b < about.bins; b++) before[b + 1] = before[b] + busy[s * about.bins + b];
    return { track, group, before };
  });
  return { ...about, series };
}

// The first place in ascending `values` whose value is above `limit`, searched from `from`.
function above(values, limit, from = 0, to = values.length) {
  let step = 1;
  let high = from;
  while (high < to && values[high] <= limit) { from = high + 1; high += step; step *= 2; }
  high = Math.min(high, to);
  while (from < high) {
    const middle = (from + high) >>> 1;
    if (values[middle] <= limit) from = middle + 1;
    else high = middle;
  }
  return from;
}

// Adds to out[column] the share (0..1) of each column, `dt` ns wide from `t0`, in which the series ran.
function addShares(part, series, t0, dt, columns, out, offset) {
  const { start, before } = series;
  let at = 0;
  const until = start
    ? (t) => {
      at = above(start, t, at);
      return at ? Math.min(before[at - 1] + (t - start[at - 1]), before[at]) : 0;
    }
    : (t) => {
      const x = Math.min(Math.max((t - part.first) / part.width, 0), part.bins);
      const bin = Math.min(Math.floor(x), part.bins - 1);
      return before[bin] + (x - bin) * (before[bin + 1] - before[bin]);
    };
  let sofar = until(t0);
  for (let c = 0; c < columns; c++) {
    const now = until(t0 + (c + 1) * dt);
    out[offset + c] += (now - sofar) / dt;
    sofar = now;
  }
}

// Places [from, to) in `order` of a track's kernels that may show between t0 and t1.
function visible(part, track, t0, t1) {
  const { first, order } = part.tracks;
  const low = first[track];
  const high = first[track + 1];
  const cut = (t) => {
    let a = low;
    let b = high;
    while (a < b) {
      const middle = (a + b) >>> 1;
      if (part.start[order[middle]] < t) a = middle + 1;
      else b = middle;
    }
    return a;
  };
  return [Math.max(cut(t0) - 1, low), cut(t1)];
}

// The kernel of a track at a moment, else the closest one at most `slack` ns away; -1 if none.
function kernelAt(part, track, t, slack) {
  const { order } = part.tracks;
  const [from, to] = visible(part, track, t - slack, t + slack + 1);
  let best = -1;
  let least = slack;
  for (let k = Math.max(part.tracks.first[track], from - 64); k < to; k++) {
    const i = order[k];
    const away = t < part.start[i] ? part.start[i] - t : t >= part.end[i] ? t - part.end[i] : 0;
    if (away <= least && (away < least || best < 0 || away === 0)) { best = i; least = away; }
  }
  return best;
}
