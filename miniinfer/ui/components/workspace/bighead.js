// One head, queries down, keys across, first token at the top left. Pooled by the largest value where cells are smaller than a pixel.

import { explorable, spoken } from "../shared/explore.js";
import { plural } from "../shared/format.js";
import { short, visible } from "../shared/tokens.js";
import { cellLines } from "./celllines.js";
import { createCanvas, hatch, hatchAll, pointIn, setFont } from "../shared/canvas.js";
import { HeadPixels } from "./headpixels.js";
import { capacity, headWindow, MOST_ROWS } from "./window.js";

const MIN_LABEL = 12; // px between two token labels

export function createBigHead(bus) {
  const canvas = createCanvas({ label: "", testid: "attention-head-map", className: "big" });
  const image = new HeadPixels();
  let last = { view: null, theme: null };
  let g = null;

  canvas.onResize = () => last.view && (paint(last.view, last.theme), hover(last.view, last.theme));
  canvas.root.addEventListener("pointermove", (event) => {
    const { view } = last;
    const at = view && cellAt(event);
    if (!at) return bus.setHover(null);
    const { q, k } = at;
    const lines =
      k > q
        ? [
            ["query → key", `${q} → ${k}`],
            ["masked", "a token cannot read a later one"],
          ]
        : cellLines(view, ...bus.head, q, k);
    bus.setHover({ src: "big", key: `big:${q}.${k}`, pos: k, q, x: event.clientX, y: event.clientY, lines });
  });
  canvas.root.addEventListener("pointerleave", () => bus.setHover(null));
  const unbind = explorable(canvas.root, { grid: walkable, said: () => spoken(bus.hover) });

  function walkable() {
    if (!g || !last.view?.ctx) return null;
    const n = Math.min(g.to, last.view.ctx) - g.from;
    const q = Math.max(0, Math.min(last.view.q - g.from, n - 1));
    return { columns: n, rows: n, start: [q, q], at: (k, row) => [g.x + (k + 0.5) * g.cell, g.y + (row + 0.5) * g.cell] };
  }
  canvas.root.addEventListener("click", (event) => {
    const at = cellAt(event);
    if (at) bus.select(bus.selection === at.q || (at.q === last.view.ctx - 1 && bus.selection === null) ? null : at.q);
  });

  function cellAt(event) {
    if (!g || !last.view) return null;
    const [x, y] = pointIn(event, canvas.root);
    const q = g.from + Math.floor((y - g.y) / g.cell);
    const k = g.from + Math.floor((x - g.x) / g.cell);
    return q < g.from || k < g.from || q >= g.to || k >= g.to || x < g.x || y < g.y ? null : { q, k };
  }

  function measure(view) {
    const [from, to] = headWindow(view, bus.prefs.window);
    const size = capacity(Math.max(1, to - from));
    const longest = Math.min(90, Math.max(50, canvas.width * 0.16));
    const roomy = Math.min(canvas.width - longest, canvas.height - longest) / size;
    const text = roomy >= MIN_LABEL / 6; // otherwise positions only
    const [x, y] = text ? [longest, Math.min(longest, 66)] : [38, 20];
    const side = Math.max(40, Math.min(canvas.width - x - 2, canvas.height - y - 7));
    const cell = side / size >= 12 ? Math.floor(side / size) : side / size;
    return { from, to, size, x, y, cell, text, labelWidth: x - 8, labelHeight: y - 6 };
  }

  function paint(view, theme) {
    last = { view, theme };
    const context = canvas.start("base");
    if (!context || !view || !bus.head) return;
    g = measure(view);
    const side = g.cell * g.size;
    context.fillStyle = theme.side;
    context.fillRect(g.x, g.y, side, side);
    if (view.ctx > 0) {
      pixels(context, view, theme);
      frame(context, view, theme);
    }
    labels(context, view, theme);
    axes(context, theme);
    const [layer, head] = bus.head;
    canvas.root.setAttribute(
      "aria-label",
      `Attention of layer ${layer}, head ${head}: ${g.to - g.from} queries by keys. The sentence above names the largest.`,
    );
    hover(view, theme);
  }

  function pixels(context, { history, ctx }, theme) {
    const n = g.to - g.from;
    const per = Math.min(1, g.cell * canvas.dpr);
    const skip = bus.prefs.hideFirst ? 1 : 0;
    image.update({
      history,
      head: bus.head,
      first: g.from,
      n,
      capacity: g.size,
      per,
      row: (i) => history.row(...bus.head, g.from + i),
      pooled: n > MOST_ROWS ? (history.pooled.get(bus.head.join(".")) ?? null) : null,
      skip,
      table: theme.ramps.attention.rgba,
    });
    image.draw(context, g.x, g.y, g.cell, per);
    const { unknown } = image;
    hatchAll(
      context,
      unknown.map((i) => [g.x, g.y + i * g.cell, (i + 1) * g.cell, g.cell]),
      theme.line2,
      7,
    );
    if (unknown.length) missing(context, unknown.length, theme);
    if (skip && g.from === 0) hatch(context, g.x, g.y, g.cell, ctx * g.cell, theme.line2, 6);
  }

  // Said in the empty upper triangle.
  function missing(context, count, theme) {
    setFont(context, `11px ${theme.font}, sans-serif`);
    context.fillStyle = theme.text2;
    context.textAlign = "right";
    context.textBaseline = "top";
    const words = bus.asks.waiting ? `fetching ${plural(count, "row")} …` : `${plural(count, "row")} not here`;
    context.fillText(words, g.x + g.cell * (g.to - g.from) - 8, g.y + 8);
  }

  // Grid lines where cells are large, the rows of this step, the row looked at.
  function frame(context, view, theme) {
    const n = g.to - g.from;
    if (g.cell >= 12) {
      context.fillStyle = theme.bg;
      for (let i = 1; i < n; i++) {
        context.fillRect(g.x, Math.round(g.y + i * g.cell) - 0.5, (i + 1) * g.cell, 1);
        context.fillRect(Math.round(g.x + i * g.cell) - 0.5, g.y + (i - 1) * g.cell, 1, (n - i + 1) * g.cell);
      }
    }
    context.fillStyle = theme.blue;
    const top = Math.max(view.first, g.from) - g.from;
    const rows = view.ctx - g.from - top;
    if (rows > 0 && view.ctx <= g.to) context.fillRect(g.x - 4, g.y + top * g.cell, 2, rows * g.cell);
    ring(context, view.q, view.selected === null ? theme.blue : theme.text, theme);
  }

  function ring(context, q, colour, theme) {
    if (q < g.from || q >= g.to) return;
    const box = [g.x - 1, g.y + (q - g.from) * g.cell - 1, (q - g.from + 1) * g.cell + 1, Math.max(g.cell, 2) + 1];
    context.lineWidth = 4;
    context.strokeStyle = theme.bg;
    context.strokeRect(...box);
    context.lineWidth = 2;
    context.strokeStyle = colour;
    context.strokeRect(...box);
  }

  function labels(context, view, theme) {
    const n = Math.max(g.to, g.from + Math.min(view.shown, g.size)) - g.from;
    const step = Math.max(1, Math.ceil(MIN_LABEL / g.cell));
    context.textBaseline = "middle";
    const every = g.text ? step : niceStep((g.size * 26) / (g.cell * g.size));
    setFont(context, g.text ? `11px ${theme.mono}, monospace` : `11px ${theme.font}, sans-serif`);
    for (let i = 0; i < n; i++) {
      const pos = g.from + i;
      const now = pos === view.q;
      if (
        !now &&
        (g.text
          ? i % every || Math.abs(pos - view.q) * g.cell < MIN_LABEL
          : pos % every || Math.abs(pos - view.q) * g.cell < 26)
      )
        continue;
      if (g.text && pos >= view.history.tokens.length) break;
      const words = g.text ? visible(view.history.tokens[pos][1]) : String(pos);
      context.fillStyle = now ? (view.selected === null ? theme.blue : theme.text) : theme.text2;
      label(context, words, g.x - 7, g.y + (i + 0.5) * g.cell, g.labelWidth, 0);
      if (g.text) label(context, words, g.x + (i + 0.5) * g.cell, g.y - 6, g.labelHeight, -Math.PI / 2);
      else if (pos + 26 / g.cell < n + g.from || now)
        label(context, words, Math.min(g.x + (i + 0.5) * g.cell, canvas.width - 14), g.y - 8, 60, null);
    }
  }

  // In the corner: what goes down and what goes across.
  function axes(context, theme) {
    if (!g.text) return;
    setFont(context, `11px ${theme.font}, sans-serif`);
    context.fillStyle = theme.text2;
    context.textAlign = "right";
    context.fillText("reads →", g.x - 7, g.y - 22);
    context.fillText("token ↓", g.x - 7, g.y - 8);
  }

  function hover(view, theme) {
    const at = bus.hover;
    const context = view && g && at && view.ctx > 0 ? canvas.start("over") : canvas.clear("over");
    if (!context) return;
    const thick = Math.max(g.cell, 2);
    context.lineWidth = 1;
    context.strokeStyle = theme.text;
    if (at.pos != null && at.pos >= g.from && at.pos < g.to) {
      const i = at.pos - g.from;
      context.strokeRect(
        g.x + i * g.cell + 0.5,
        g.y + (at.src === "big" ? 0 : i * g.cell) + 0.5,
        thick - 1,
        (g.to - g.from - (at.src === "big" ? 0 : i)) * g.cell - 1,
      );
      if (at.src !== "big" && at.src !== "map")
        context.strokeRect(g.x + 0.5, g.y + i * g.cell + 0.5, (i + 1) * g.cell - 1, thick - 1);
    }
    if (at.q != null && at.q >= g.from && at.q < g.to)
      context.strokeRect(g.x + 0.5, g.y + (at.q - g.from) * g.cell + 0.5, (at.q - g.from + 1) * g.cell - 1, thick - 1);
  }

  return { root: canvas.root, canvas, paint, hover, stop: () => (canvas.stop(), unbind()) };
}

const niceStep = (least) => [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].find((s) => s >= least) ?? 2000;

// angle null: centred; 0: right-aligned; otherwise turned and starting at the point.
function label(context, text, x, y, room, angle) {
  let words = text;
  for (let max = Math.min(24, [...text].length); max > 1 && context.measureText(words).width > room; max--)
    words = short(text, max - 1);
  context.save();
  context.translate(x, y);
  if (angle) context.rotate(angle);
  context.textAlign = angle === null ? "center" : angle ? "left" : "right";
  context.fillText(words, 0, 0);
  context.restore();
}
