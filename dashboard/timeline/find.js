// Finding kernels: by words of their names, and the next or previous one of the same name.

// Which kinds have every word in their name, whatever the case; null without words.
function matching(legend, words) {
  const all = words.toLowerCase().split(/\s+/).filter(Boolean);
  if (!all.length) return null;
  const names = legend.names.map((name) => {
    const low = name.toLowerCase();
    return all.every((word) => low.includes(word)) ? 1 : 0;
  });
  return Uint8Array.from(legend.name, (name) => names[name]);
}

function applySearch(tl, words) {
  tl.view.find = words;
  for (const scene of tl.scenes) {
    scene.match = matching(scene.legend, words);
    scene.found = scene.match ? scene.legend.kernels.reduce((sum, n, kind) => sum + (scene.match[kind] ? n : 0), 0) : 0;
    scene.hits = scene.match ? hitsOf(scene) : null;
  }
}

// Starts of the kernels found, as far as single kernels are here.
function hitsOf(scene) {
  const part = scene.base.type === "kernels" ? scene.base : scene.detail;
  if (!part) return null;
  const out = new Float64Array(part.count);
  let n = 0;
  for (let i = 0; i < part.count; i++) if (scene.match[part.what[i] & 0xffff]) out[n++] = part.start[i];
  return out.subarray(0, n);
}

function kernelOf(tl, run, part, i) {
  return {
    run, place: part.place ? part.place[i] : i, start: part.start[i], end: part.end[i],
    kind: part.what[i] & 0xffff, track: part.what[i] >>> KIND_BITS,
  };
}

// The next kernel after `place` (or before it) of a kind wanted; -1 if none.
function following(part, place, direction, wanted) {
  for (let i = place + direction; i >= 0 && i < part.count; i += direction) {
    if (wanted(part.what[i] & 0xffff)) return i;
  }
  return -1;
}

const allHere = (tl) => tl.scenes.every((scene) => scene.base.type === "kernels");

// `.` and `,`: the same name, in the same run.
function jumpToSame(tl, direction) {
  const from = tl.selected;
  if (!from) return tl.say("Select a kernel first: click one.");
  if (!allHere(tl)) return tl.ask({ what: "same", run: from.run, place: from.place, direction });
  const { base, legend } = tl.scenes[from.run];
  const name = legend.name[from.kind];
  const at = following(base, from.place, direction, (kind) => legend.name[kind] === name);
  if (at < 0) return tl.say(direction > 0 ? "No later kernel of this name." : "No earlier kernel of this name.");
  return tl.go(kernelOf(tl, from.run, base, at));
}

// Enter and Shift+Enter in the search: through A's kernels, then B's, and around.
function jumpToFound(tl, direction) {
  const total = tl.scenes.reduce((sum, scene) => sum + scene.found, 0);
  if (!total) return undefined;
  const from = tl.view.lo + tl.origins[0]; // without a selected kernel: from what is shown of A
  if (!allHere(tl)) {
    const { run, place } = tl.selected ?? { run: 0, place: -1 };
    return tl.ask({ what: "find", run, place, direction, from: Math.round(from) });
  }
  const before = above(tl.scenes[0].base.start, from - 1) - (direction > 0 ? 1 : 0);
  let { run, place } = tl.selected ?? { run: 0, place: before };
  for (let tries = 0; tries <= tl.scenes.length; tries++) {
    const { base, match } = tl.scenes[run];
    const at = following(base, place, direction, (kind) => match[kind]);
    if (at >= 0) return tl.go(kernelOf(tl, run, base, at));
    run = (run + direction + tl.scenes.length) % tl.scenes.length;
    place = direction > 0 ? -1 : tl.scenes[run].base.count;
  }
  return undefined;
}

// "3 of 21": where the selected kernel stands among those found, while all of them are here.
function rankOfSelected(tl) {
  const kernel = tl.selected;
  if (!kernel || !allHere(tl) || !tl.scenes[kernel.run].match?.[kernel.kind]) return 0;
  let rank = 1;
  for (let run = 0; run < kernel.run; run++) rank += tl.scenes[run].found;
  const { base, match } = tl.scenes[kernel.run];
  for (let i = 0; i < kernel.place; i++) rank += match[base.what[i] & 0xffff];
  return rank;
}

function countText(tl) {
  if (!tl.view.find.trim()) return "";
  const total = tl.scenes.reduce((sum, scene) => sum + scene.found, 0);
  const sides = tl.scenes.map((scene) => `${scene.side} ${grouped(scene.found)}`).join(", ");
  const rank = rankOfSelected(tl);
  return `${rank ? `${grouped(rank)} of ` : ""}${grouped(total)} found (${sides})`;
}
