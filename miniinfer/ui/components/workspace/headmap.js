// Layers down, heads across: each cell the newest row of its head, or its pattern. A click chooses the head.

import { explorable, spoken } from "../shared/explore.js";
import { createCanvas, createImage, hatch, pointIn, setFont } from "../shared/canvas.js";
import { cellLines } from "./celllines.js";
import { Patterns } from "./patterns.js";

const LEFT = 20;
const TOP = 28;
const GROUP_GAP = 6; // between the heads of different KV heads

export function createHeadMap(bus) {
  const canvas = createCanvas({
    label: "All heads: layers down, heads across. Use the layer and head lists to choose one.",
    testid: "attention-heads",
  });
  const image = createImage();
  const patterns = new Patterns();
  let last = { view: null, theme: null };
  let grid = null;

  canvas.onResize = () => last.view && (paint(last.view, last.theme), hover(last.view, last.theme));
  canvas.root.addEventListener("click", (event) => {
    const at = cellAt(event);
    if (at) bus.setHead(at.layer, at.head);
  });
  canvas.root.addEventListener("pointermove", (event) => {
    const at = cellAt(event);
    const { view } = last;
    if (!at || !view || view.q < 0) return bus.setHover(null);
    const pos = Math.min(view.q, Math.floor(at.x * (view.q + 1)));
    const pattern = grid.pattern;
    const q = pattern ? Math.min(view.ctx - 1, Math.floor(at.y * view.ctx)) : view.q;
    const k = pattern ? Math.min(q, Math.floor(at.x * view.ctx)) : pos;
    bus.setHover({
      src: "map",
      key: `map:${at.layer}.${at.head}.${q}.${k}`,
      pos: k,
      q,
      cell: at,
      x: event.clientX,
      y: event.clientY,
      lines: cellLines(view, at.layer, at.head, q, k),
    });
  });
  canvas.root.addEventListener("pointerleave", () => bus.setHover(null));
  const unbind = explorable(canvas.root, { grid: walkable, said: () => spoken(bus.hover) });

  function walkable() {
    if (!grid || !bus.head) return null;
    const { heads, layers, x, y, cw, ch } = grid;
    const [layer, head] = bus.head;
    return { columns: heads, rows: layers, start: [head, layer], at: (h, l) => [x(h) + cw / 2, y(l) + ch / 2] };
  }

  function measure({ info }) {
    const groups = info.num_kv_heads;
    const perGroup = info.num_heads / groups;
    const cw = (canvas.width - LEFT - GROUP_GAP * (groups - 1)) / info.num_heads;
    const ch = (canvas.height - TOP) / info.num_layers;
    const pattern = bus.prefs.map === "patterns";
    const width = pattern ? Math.min(cw - 2, 1.5 * ch) : cw - 2; // of the drawn part of a cell
    const x = (head) => LEFT + head * cw + Math.floor(head / perGroup) * GROUP_GAP;
    return {
      cw,
      ch,
      x,
      y: (layer) => TOP + layer * ch,
      perGroup,
      pattern,
      width,
      pad: pattern ? (cw - 2 - width) / 2 : 0,
      layers: info.num_layers,
      heads: info.num_heads,
    };
  }

  function cellAt(event) {
    if (!grid) return null;
    const [px, py] = pointIn(event, canvas.root);
    const layer = Math.floor((py - TOP) / grid.ch);
    if (layer < 0 || layer >= grid.layers) return null;
    for (let head = 0; head < grid.heads; head++) {
      const x = px - grid.x(head);
      if (x < 0 || x >= grid.cw) continue;
      return {
        layer,
        head,
        x: Math.max(0, Math.min(0.9999, (x - grid.pad) / grid.width)),
        y: (py - grid.y(layer)) / grid.ch,
      };
    }
    return null;
  }

  function paint(view, theme) {
    last = { view, theme };
    const context = canvas.start("base");
    if (!context || !view) return;
    grid = measure(view);
    labels(context, view, theme);
    const { dpr } = canvas;
    const [w, rows] = [Math.round((canvas.width - LEFT) * dpr), Math.round((canvas.height - TOP) * dpr)];
    const pixels = image.pixels(w, rows);
    pixels.fill(0);
    const missing = grid.pattern
      ? paintPatterns(view, theme, pixels, w, rows)
      : paintRows(view, theme, pixels, w, rows);
    image.draw(context, LEFT, TOP, w / dpr, rows / dpr);
    if (missing) {
      for (let head = 0; head < grid.heads; head++)
        hatch(context, grid.x(head), TOP, grid.cw - 1, canvas.height - TOP, theme.line, 7);
    }
    hover(view, theme);
  }

  // Device-pixel box of a cell inside the image; one pixel is left free as the line between cells.
  function box(layer, head, w, rows) {
    const { dpr } = canvas;
    const left = grid.x(head) + grid.pad - LEFT;
    const line = grid.ch * dpr > 8 ? Math.max(1, Math.round(dpr)) * (grid.pattern ? 2 : 1) : 0;
    return [
      Math.round(left * dpr),
      Math.round(layer * grid.ch * dpr),
      Math.min(w, Math.round((left + grid.width) * dpr)),
      Math.min(rows, Math.round((layer + 1) * grid.ch * dpr)) - line,
    ];
  }

  function paintRows({ history, info, q }, theme, pixels, w, rows) {
    const all = q >= 0 ? history.rowsOf(q) : null;
    const n = q + 1;
    const skip = bus.prefs.hideFirst ? 1 : 0;
    const table = theme.ramps.attention.rgba;
    const empty = rgba(theme.side);
    for (let layer = 0; layer < info.num_layers; layer++) {
      for (let head = 0; head < info.num_heads; head++) {
        const [x0, y0, x1, y1] = box(layer, head, w, rows);
        const base = (layer * info.num_heads + head) * n;
        for (let x = x0; x < x1; x++) {
          let value = 0;
          if (all) {
            const from = Math.floor(((x - x0) * n) / (x1 - x0));
            const to = Math.max(from + 1, Math.floor(((x + 1 - x0) * n) / (x1 - x0)));
            for (let k = Math.max(from, skip); k < to; k++) if (all[base + k] > value) value = all[base + k];
          }
          const colour = q < 0 ? empty : table[value];
          for (let y = y0; y < y1; y++) pixels[y * image.stride + x] = colour;
        }
      }
    }
    return q >= 0 && !all;
  }

  function paintPatterns(view, theme, pixels, w, rows) {
    const { info, ctx } = view;
    const table = theme.ramps.attention.rgba;
    const pooled = patterns.at(view, Math.max(8, Math.min(32, Math.floor(grid.ch * canvas.dpr))));
    const unknown = rgba(theme.line2);
    const masked = rgba(grid.ch < 18 ? theme.line : theme.hover);
    const n = ctx / (pooled.bin || 1);
    for (let layer = 0; layer < info.num_layers; layer++) {
      for (let head = 0; head < info.num_heads; head++) {
        const [x0, y0, x1, y1] = box(layer, head, w, rows);
        const h = layer * info.num_heads + head;
        for (let y = y0; y < y1; y++) {
          const i = Math.floor(((y - y0) * n) / (y1 - y0));
          const line = pooled.lines[i];
          for (let x = x0; x < x1; x++) {
            const j = Math.floor(((x - x0) * n) / (x1 - x0));
            const hidden = bus.prefs.hideFirst && j === 0 && pooled.bin === 1;
            pixels[y * image.stride + x] =
              j > i || ctx === 0 ? masked : hidden ? table[0] : line ? table[line[h * (i + 1) + j]] : unknown;
          }
        }
      }
    }
    return false;
  }

  function labels(context, { info }, theme) {
    setFont(context, `11px ${theme.font}, sans-serif`);
    context.fillStyle = theme.text2;
    context.textBaseline = "middle";
    context.textAlign = "right";
    const every = grid.ch >= 12 && grid.layers <= 12 ? 1 : apart(grid.ch, 11, [5, 10, 20, 50, 100, 200, 500]);
    const beside = apart(grid.cw, 16, [1, 2, 4, 8, 16, 32, 64, 128, 256]);
    for (let layer = 0; layer < grid.layers; layer += every)
      context.fillText(String(layer), LEFT - 5, grid.y(layer) + grid.ch / 2);
    context.textAlign = "center";
    for (let head = 0; head < grid.heads; head += beside)
      context.fillText(String(head), grid.x(head) + grid.cw / 2, TOP - 7);
    for (let group = 0; group < info.num_kv_heads; group++) {
      const [a, b] = [grid.x(group * grid.perGroup), grid.x((group + 1) * grid.perGroup - 1) + grid.cw];
      context.fillText(b - a > 66 ? `KV head ${group}` : `KV ${group}`, (a + b) / 2, 6);
      context.fillStyle = theme.line2;
      context.fillRect(a, 13, b - a - 2, 1);
      context.fillStyle = theme.text2;
    }
  }

  function hover(view, theme) {
    const context = view && grid && bus.head ? canvas.start("over") : canvas.clear("over");
    if (!context) return;
    const [layer, head] = bus.head;
    context.lineWidth = 2;
    context.strokeStyle = theme.bg;
    context.strokeRect(grid.x(head) - 2, grid.y(layer) - 2, grid.cw + 2, grid.ch + 3);
    context.strokeStyle = theme.text;
    context.strokeRect(grid.x(head) - 1, grid.y(layer) - 1, grid.cw, grid.ch + 1);
    const at = bus.hover;
    if (!at) return;
    if (at.factor === "heads") return groups(context, view, theme);
    if (at.src === "map" && at.cell) {
      context.lineWidth = 1;
      context.strokeRect(grid.x(at.cell.head) - 0.5, grid.y(at.cell.layer) - 0.5, grid.cw, grid.ch);
    }
    const span = grid.pattern ? view.ctx : view.q + 1;
    if (at.pos === null || at.pos === undefined || at.pos >= span) return;
    // A mark above and a faint line through all heads at the position under the pointer.
    context.fillStyle = theme.text;
    for (let other = 0; other < grid.heads; other++) {
      const x = Math.round(grid.x(other) + grid.pad + (grid.width * (at.pos + 0.5)) / span);
      context.globalAlpha = 0.3;
      context.fillRect(x, TOP, 1, canvas.height - TOP);
      context.globalAlpha = 1;
      context.fillRect(x - 1, TOP - 3, 3, 3);
    }
  }

  // The KV heads that the formula counts.
  function groups(context, { info }, theme) {
    context.lineWidth = 2;
    context.strokeStyle = theme.text;
    for (let group = 0; group < info.num_kv_heads; group++) {
      const x = grid.x(group * grid.perGroup);
      context.strokeRect(x - 1, TOP - 1, grid.x((group + 1) * grid.perGroup - 1) + grid.cw - x, canvas.height - TOP);
    }
  }

  return { root: canvas.root, canvas, paint, hover, stop: () => (canvas.stop(), unbind()) };
}

// Every so many cells of this size have a number, so that none lies on the next.
const apart = (size, room, steps) => steps.find((step) => step * size >= room) ?? steps.at(-1);

const rgba = (hex) =>
  new Uint32Array(new Uint8Array([...[1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)), 255]).buffer)[0];
