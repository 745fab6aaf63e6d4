// The whole axis in a strip: how busy each run was with each group, and where the window lies.

function drawMap(tl) {
  const { ctx, layout, colours } = tl;
  const { lo, hi } = tl.whole;
  const columns = Math.round(layout.plot);
  const key = `${columns} ${lo} ${hi} ${tl.origins} ${tl.baseKeys} ${colours.ground}`;
  if (tl.map?.key !== key) tl.map = { key, picture: mapPicture(tl, columns, (hi - lo) / columns) };
  ctx.drawImage(tl.map.picture, layout.gutter, 0, layout.plot, MAP);
  ctx.fillStyle = colours.text;
  ctx.globalAlpha = 0.75;
  ctx.fillText(tl.width < 560 ? "all" : "whole runs", 0, MAP / 2);
  const from = layout.gutter + ((tl.view.lo - lo) / (hi - lo)) * layout.plot;
  const to = layout.gutter + ((tl.view.hi - lo) / (hi - lo)) * layout.plot;
  ctx.globalAlpha = 0.55;
  ctx.fillStyle = colours.ground;
  ctx.fillRect(layout.gutter, 0, Math.max(from - layout.gutter, 0), MAP);
  ctx.fillRect(to, 0, Math.max(tl.width - to, 0), MAP);
  ctx.globalAlpha = 1;
  ctx.strokeStyle = colours.text;
  ctx.lineWidth = 1;
  ctx.strokeRect(Math.max(from, layout.gutter) + 0.5, 0.5, Math.max(Math.min(to, tl.width) - Math.max(from, layout.gutter) - 1, 2), MAP - 1);
}

// Drawn once for a pair of runs: shares of all tracks, averaged over the devices.
function mapPicture(tl, columns, dt) {
  const height = Math.floor(MAP / Math.max(tl.scenes.length, 1)) - 1;
  const picture = new ImageData(columns, MAP);
  const data = new Uint32Array(picture.data.buffer).fill(tl.paint.ground);
  tl.scenes.forEach((scene, run) => {
    const shares = new Float32Array(tl.groups.length * columns);
    const series = scene.base.type === "bins" ? scene.base.series : seriesOf(scene.base, scene.legend.group, tl.groups.length);
    for (const s of series) addShares(scene.base, s, tl.whole.lo + tl.origins[run], dt, columns, shares, s.group * columns);
    for (let i = 0; i < shares.length; i++) shares[i] /= Math.max(scene.legend.devices, 1);
    const at = { data, columns, top: run * (height + 1), height, shares, paint: tl.paint, groups: tl.groups.length };
    for (let c = 0; c < columns; c++) stack(at, c);
  });
  const canvas = document.createElement("canvas");
  canvas.width = columns;
  canvas.height = MAP;
  canvas.getContext("2d").putImageData(picture, 0, 0);
  return canvas;
}
