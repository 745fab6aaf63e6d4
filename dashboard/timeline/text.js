// Numbers and elements. Names come from traces: they reach the page as text only, never as markup.

const UNITS = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];

function grouped(number, digits = 0) {
  return number.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

// Time in the largest unit that leaves at least 1, as the other views write it.
function duration(ns) {
  for (const [size, unit] of UNITS) {
    if (Math.abs(ns) >= size) return size > 1 ? `${grouped(ns / size, 2)} ${unit}` : `${grouped(ns)} ns`;
  }
  return `${grouped(ns)} ns`;
}

// The same with the exact ns, where the two differ.
function exactly(ns) {
  return Math.abs(ns) < 1e3 ? duration(ns) : `${duration(ns)} (${grouped(ns)} ns)`;
}

function percent(share) {
  return `${(100 * share).toFixed(1)} %`;
}

function plural(number, word) {
  return `${grouped(number)} ${word}${number === 1 ? "" : "s"}`;
}

function element(tag, { text, cls, parent, ...attributes } = {}) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (cls) made.className = cls;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (parent) parent.append(made);
  return made;
}

// The largest of 1, 2, 5 times a power of ten that is not above `most`, and at least 1 ns.
function niceStep(most) {
  const power = 10 ** Math.floor(Math.log10(Math.max(most, 1)));
  for (const factor of [5, 2, 1]) if (factor * power <= most) return Math.max(factor * power, 1);
  return Math.max(power, 1);
}

// A moment on the axis, with as many digits as the distance between ticks needs.
function tickText(ns, step) {
  if (ns === 0) return "0";
  const [size, unit] = UNITS.find(([size]) => Math.abs(ns) >= size) ?? UNITS[3];
  const digits = Math.max(0, Math.ceil(Math.log10(size / step) - 1e-9));
  return `${grouped(ns / size, Math.min(digits, 9))} ${unit}`;
}

// Black or white, whichever is easier to read on a colour (WCAG relative luminance).
function inkOn(hex) {
  const parts = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255);
  const [r, g, b] = parts.map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000" : "#fff";
}

function rgbOf(colour) {
  const probe = document.createElement("canvas").getContext("2d");
  probe.fillStyle = colour;
  probe.fillRect(0, 0, 1, 1);
  return [...probe.getImageData(0, 0, 1, 1).data.slice(0, 3)];
}

// One pixel as ImageData holds it on a little-endian machine.
function pixel([r, g, b]) {
  return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
}

function blend(over, under, share) {
  return over.map((c, i) => Math.round(c * share + under[i] * (1 - share)));
}
