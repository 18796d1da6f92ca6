// The KV cache: layers by positions, a column a step; three numbers; bytes per token as a product of named factors.

import { h, segmented, setText, show } from "../shared/dom.js";
import { explorable, spoken } from "../shared/explore.js";
import * as format from "../shared/format.js";
import { sourceMark } from "../shared/provenance.js";
import { createCanvas, pointIn } from "../shared/canvas.js";
import { createFormula } from "./kvformula.js";
import { drawGrowth } from "./kvgrowth.js";
import { createHeat } from "./kvheat.js";
import { measureKv } from "./kvscale.js";
import { normLegend } from "./legend.js";
import { createPanel } from "../shared/panel.js";

export function createKv(bus) {
  const norm = segmented(
    "Colour shows the length of",
    [
      ["k", "K", "Length of the keys (as cached, after RoPE)"],
      ["v", "V", "Length of the values"],
    ],
    (value) => bus.setPref("norm", value),
    "kv-norm",
  );
  const legend = normLegend();
  const mark = sourceMark("Bytes and vector lengths of the KV cache");
  const scale = h(
    "span",
    { class: "controls" },
    h("span", { class: "quiet", text: "length of" }),
    norm,
    legend.root,
    mark,
  );
  const panel = createPanel({
    id: "kv",
    name: "KV cache",
    question: "What is kept, so that nothing is computed twice?",
    controls: [scale],
  });
  const formula = createFormula(bus);
  const sizes = ["used", "allocated", "reserved"].map((name) => size(name));
  const without = h(
    "span",
    { class: "size ghost", "data-testid": "kv-without-gqa" },
    h("span", { class: "quiet", text: "without GQA " }),
    h("b", { class: "num" }),
  );
  const canvas = createCanvas({ label: "KV cache: layers by positions", testid: "kv-canvas" });
  const heat = createHeat();
  const top = h(
    "div",
    { class: "kv-top" },
    formula.root,
    h(
      "div",
      { class: "sizes" },
      sizes.map((item) => item.root),
      without,
    ),
  );
  const written = h("i", { class: "kv-written" });
  canvas.root.append(written);
  panel.body.append(top, canvas.root);
  let last = { view: null, theme: null };
  let g = null;

  canvas.onResize = () => last.view && (draw(last.view, last.theme), frame(last.view));
  canvas.root.addEventListener("pointermove", (event) => point(event));
  canvas.root.addEventListener("pointerleave", () => bus.setHover(null));
  const unbind = explorable(canvas.root, { grid: walkable, said: () => `position ${bus.hover?.pos ?? "empty"}, ${spoken(bus.hover)}` });
  canvas.root.addEventListener("click", (event) => {
    const at = at_(event);
    if (at && at.pos < last.view.ctx) bus.select(bus.selection === at.pos ? null : at.pos);
  });

  function walkable() {
    if (!g || !last.view) return null;
    const start = [Math.max(0, last.view.ctx - 1), 0];
    return { columns: g.slots, rows: g.layers, start, at: (pos, layer) => [g.x + (pos + 0.5) * g.col, g.top + (layer + 0.5) * g.row] };
  }

  function at_(event) {
    if (!g || !last.view) return null;
    const [x, y] = pointIn(event, canvas.root);
    const pos = Math.floor((x - g.x) / g.col);
    if (pos < 0 || pos >= g.slots) return null;
    const layer = Math.floor((y - g.top) / g.row);
    return { pos, layer: layer >= 0 && layer < g.layers ? layer : null };
  }

  function point(event) {
    const at = at_(event);
    if (!at) return bus.setHover(null);
    const { view } = last;
    const { info, history, ctx } = view;
    const where = { src: "kv", key: `kv:${at.pos}.${at.layer}`, x: event.clientX, y: event.clientY };
    const block = ["block, slot", `${Math.floor(at.pos / info.block_size)}, ${at.pos % info.block_size}`];
    if (at.pos >= ctx) {
      const held = at.pos < g.allocated;
      return bus.setHover({
        ...where,
        pos: null,
        lines: [["position", String(at.pos)], block, ["slot", held ? "allocated, empty" : "not allocated"]],
      });
    }
    const lines = [block];
    if (at.layer !== null)
      lines.unshift(
        ["layer", String(at.layer)],
        ["length of K", format.sig3(history.norm(at.layer, at.pos, 0))],
        ["length of V", format.sig3(history.norm(at.layer, at.pos, 1))],
      );
    bus.setHover({ ...where, pos: at.pos, lines });
  }

  function paint(view, theme) {
    norm.choose(bus.prefs.norm);
    show(top, Boolean(view));
    show(scale, Boolean(view));
    formula.paint(view);
    if (!view) return;
    mark.set(view.ctx ? view.history.source.kv : null);
    setText(panel.fact, view.info.kind === "saved" ? "keys and values come back with the model" : "");
    numbers(view);
    const range = view.history.kvRange[bus.prefs.norm === "v" ? 1 : 0];
    show(legend.root, range !== null);
    frame(view);
    if (range) legend.paint(theme, format.sig3(range[0]), format.sig3(range[1]));
  }

  function drawNew(view, theme, dirty) {
    if (!view || !["data", "run", "cursor", "select", "prefs", "theme"].some((key) => dirty.has(key))) return;
    draw(view, theme);
  }

  function numbers({ meta, info, ctx }) {
    const per = 2 * info.num_layers * info.num_kv_heads * info.head_dim * info.itemsize;
    const values = meta ? [meta.kv_used, meta.kv_alloc, meta.kv_reserved] : [0, 0, null];
    const notes = [
      `${format.plural(ctx, "position")} × ${format.bytesExact(per)}`,
      "blocks held by this sequence",
      "storage of the whole pool",
    ];
    sizes.forEach((item, i) => item.paint(values[i], notes[i]));
    const ratio = info.num_heads / info.num_kv_heads;
    show(without, ratio > 1);
    setText(without.lastChild, `${format.bytes((meta?.kv_used ?? 0) * ratio)} (× ${format.sig3(ratio)})`);
    without.title = `If each of the ${info.num_heads} query heads had keys and values of its own: ${format.bytesExact((meta?.kv_used ?? 0) * ratio)} used. The dashed line below.`;
  }

  function draw(view, theme) {
    last = { view, theme };
    const context = canvas.start("base");
    if (!context) return;
    g = measureKv(view, canvas.width, canvas.height);
    heat.draw(context, g, view, theme, bus.prefs.norm === "v" ? 1 : 0);
    drawGrowth(context, g, view, theme);
    canvas.root.setAttribute(
      "aria-label",
      `KV cache: ${view.ctx} of ${g.allocated} allocated positions used, in ${view.info.num_layers} layers`,
    );
    hover(view, theme);
  }

  // What this step wrote: a frame that slides on with the steps; marks above and below where a frame would hide the column.
  function frame({ meta, first, ctx }) {
    show(written, Boolean(meta && g));
    if (!meta || !g) return;
    const width = (ctx - first) * g.col;
    const thin = width < 6;
    const wide = thin ? Math.max(4, width) : width + 1;
    written.classList.toggle("thin", thin);
    const x = g.x + first * g.col + (thin ? (width - wide) / 2 : -1);
    written.style.cssText = `width: ${wide}px; height: ${g.row * g.layers + 4}px; top: ${g.top - 2}px; transform: translateX(${x}px)`;
  }

  function hover(view, theme) {
    const at = bus.hover;
    const context = view && g && (at || view.selected !== null) ? canvas.start("over") : canvas.clear("over");
    if (!context) return;
    const column = (pos, colour, width) => {
      context.strokeStyle = colour;
      context.lineWidth = width;
      context.strokeRect(g.x + pos * g.col + 0.5, g.top - 1, Math.max(2, g.col - 1), g.row * g.layers + 2);
    };
    if (view.selected !== null) column(view.selected, theme.text, 2);
    if (at?.pos != null && at.pos < g.slots) column(at.pos, theme.text, 1);
    if (at?.factor) heat.factor(context, g, at.factor, theme);
  }

  // Where the frame around what this step wrote stands on the canvas, or null.
  const writtenBox = () => {
    if (written.hidden || !g) return null;
    const { width, height, top, transform } = written.style;
    const [y, x] = [top, /translateX\((.*)px\)/.exec(transform)?.[1]].map(parseFloat);
    return { x, y, width: parseFloat(width), height: parseFloat(height) };
  };

  return { root: panel.root, panel, canvas, written: writtenBox, draw: drawNew, paint, hover, stop: () => (canvas.stop(), unbind()) };
}

function size(name) {
  const value = h("b", { class: "num" });
  const root = h(
    "span",
    { class: `size ${name}`, "data-testid": `kv-${name}` },
    h("span", { class: "quiet", text: `${name} ` }),
    value,
  );
  return {
    root,
    paint(bytes, note) {
      setText(value, bytes === null ? "–" : format.bytes(bytes));
      root.title = bytes === null ? note : `${format.bytesExact(bytes)}: ${note}`;
    },
  };
}
