// Cells of the KV cache: one column a position, one line a layer.

import { createImage, hatch, setFont } from "../shared/canvas.js";

export function createHeat() {
  const image = createImage();

  function draw(context, g, view, theme, which) {
    const { history, info, ctx } = view;
    const height = g.row * g.layers;
    const right = g.x + g.slots * g.col;
    context.fillStyle = theme.side;
    context.fillRect(g.x, g.top, g.slots * g.col, height);
    hatch(context, g.x + ctx * g.col, g.top, (Math.min(g.allocated, g.slots) - ctx) * g.col, height, theme.line2);
    const range = history.kvRange[which];
    const n = Math.min(ctx, history.kvCount);
    if (n > 0 && range) {
      const pixels = image.pixels(n, info.num_layers);
      const table = theme.ramps.kv.rgba;
      const scale = 255 / (range[1] - range[0] || 1);
      for (let p = 0; p < n; p++) {
        const base = p * info.num_layers * 2 + which;
        for (let layer = 0; layer < info.num_layers; layer++)
          pixels[layer * image.stride + p] = table[Math.round((history.kv[base + 2 * layer] - range[0]) * scale)];
      }
      image.draw(context, g.x, g.top, n * g.col, height);
      if (g.col >= 7) lines(context, g, n, theme);
    }
    blocks(context, g, right, theme);
    axis(context, g, info, theme);
    band(context, g, view, theme);
  }

  return { draw, factor };
}

function lines(context, g, n, theme) {
  context.fillStyle = theme.bg;
  for (let p = 1; p < n; p++) context.fillRect(Math.round(g.x + p * g.col) - 1, g.top, 1, g.row * g.layers);
}

function blocks(context, g, right, theme) {
  const height = g.row * g.layers;
  for (let p = 0; p <= g.slots; p += g.block) {
    const held = p <= g.allocated;
    const x = Math.round(g.x + p * g.col) - 1;
    context.fillStyle = held ? theme.text2 : theme.line;
    context.fillRect(x, g.top - 3, 1, 3);
    context.fillRect(x, g.bottom, 1, 3);
    context.globalAlpha = g.block * g.col < 60 ? 0.4 : 1; // many lines close together would hide the cells
    context.fillRect(x, g.top, 1, height);
    context.globalAlpha = 1;
  }
  context.strokeStyle = theme.line;
  context.lineWidth = 1;
  context.strokeRect(g.x - 0.5, g.top - 0.5, right - g.x, height + 1);
}

function axis(context, g, info, theme) {
  setFont(context, `11px ${theme.font}, sans-serif`);
  context.fillStyle = theme.text2;
  context.textBaseline = "middle";
  context.textAlign = "right";
  for (const layer of [0, Math.floor((info.num_layers - 1) / 2), info.num_layers - 1]) {
    context.fillText(
      String(layer),
      g.x - 6,
      g.top + Math.max(5, Math.min((layer + 0.5) * g.row, g.row * g.layers - 5)),
    );
  }
  // Blocks by name while a name fits below each; otherwise positions at some of their edges.
  const wide = g.block * g.col;
  const every = [1, 2, 4, 8, 16, 32, 64].find((k) => k * wide >= 54) ?? 128;
  context.textAlign = every === 1 ? "center" : "left";
  for (let b = 0; b * g.block < g.slots; b += every) {
    const from = b * g.block;
    const x = Math.min(g.x + from * g.col, g.x + g.slots * g.col - context.measureText(String(from)).width);
    if (every > 1) context.fillText(String(from), x, g.bottom + 10);
    else {
      const words = `block ${b} · positions ${from}–${from + g.block - 1}`;
      context.fillText(fitting(context, words, `block ${b}`, wide), g.x + (b + 0.5) * wide, g.bottom + 10);
    }
  }
}

const fitting = (context, words, shorter, room) => (context.measureText(words).width <= room - 4 ? words : shorter);

// Above the cells: what a prefill wrote in one go, what decode added one by one.
function band(context, g, { history, info, ctx, cursor }, theme) {
  if (ctx === 0) return;
  const metas = history.meta.slice(0, cursor);
  const prefilled = metas.reduce((most, meta) => (meta.phase === "prefill" ? Math.max(most, meta.ctx) : most), 0);
  const passes = metas.filter((meta) => meta.phase === "prefill").length;
  context.textBaseline = "middle";
  setFont(context, `11px ${theme.font}, sans-serif`);
  const part = (from, to, words, colour) => {
    const [x, w] = [g.x + from * g.col, (to - from) * g.col - 2];
    context.fillStyle = colour;
    context.fillRect(x, g.top - 5, w, 2);
    context.textAlign = "left";
    context.fillStyle = theme.text2;
    return [x, w, words];
  };
  const a = part(0, prefilled, passes > 1 ? `prefill in ${passes} steps` : "prefill: one pass", theme.line2);
  const room = ctx > prefilled ? a[1] : g.slots * g.col;
  let free = g.x;
  for (const words of [a[2], "prefill"]) {
    if (context.measureText(words).width > room) continue;
    context.fillText(words, a[0], g.top - 11);
    free = a[0] + context.measureText(words).width + 12;
    break;
  }
  if (ctx <= prefilled) return;
  const b = part(prefilled, ctx, "decode: a column a step", theme.text2);
  const end = g.x + g.slots * g.col;
  for (const words of [b[2], "decode"]) {
    const wide = context.measureText(words).width;
    const x = Math.min(Math.max(b[0], free), end - wide);
    if (x < free) continue;
    context.fillText(words, x, g.top - 11);
    break;
  }
}

/** Hovering a factor of the formula shows what it counts. */
function factor(context, g, name, theme) {
  context.strokeStyle = theme.text;
  context.lineWidth = 2;
  if (name === "layers") {
    context.beginPath();
    for (let layer = 0; layer <= g.layers; layer++) {
      context.moveTo(g.x - 4, g.top + layer * g.row);
      context.lineTo(g.x + 2, g.top + layer * g.row);
    }
    context.stroke();
  }
}
