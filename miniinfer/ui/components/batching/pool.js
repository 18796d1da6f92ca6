// Every block of the pool, coloured by its owner and filled as far as it holds positions. Shared, free and kept ones look different.

import { h, setText } from "../shared/dom.js";
import { explorable } from "../shared/explore.js";
import * as format from "../shared/format.js";
import { sourceMark } from "../shared/provenance.js";
import { createCanvas, hatch, pointIn, setFont } from "../shared/canvas.js";
import { ownerColour } from "./colours.js";

const NOBODY = 255;
const LARGEST = 96; // px a cell
const LEAST = 4;

export function createPool(batch) {
  const canvas = createCanvas({ label: "Blocks of the KV cache", testid: "batching-blocks", className: "pool-canvas" });
  const said = h("span", { class: "quiet small", "data-testid": "batching-pool-words" });
  const mark = sourceMark("Blocks");
  const note = h("span", { class: "note" }, said, mark);
  const each = h("span", {});
  const legend = h(
    "div",
    { class: "pool-legend small quiet" },
    key("owned", "one owner, filled from below"),
    key("shared", "shared"),
    key("kept", "free, but kept for the prefix cache"),
    key("free", "free"),
    each,
  );
  let theme = null;
  canvas.onResize = () => theme && batch.info && (paint(theme), hover());

  let words = "";
  const cells = () => batch.blocks[batch.cursor - 1] ?? null;
  const count = () => (cells() ? cells().length / 4 : Math.min(batch.info.num_blocks, 4096));

  function layout() {
    const n = Math.max(1, count());
    for (let size = LARGEST; size > LEAST; size--) {
      const columns = Math.floor(canvas.width / size);
      if (columns && Math.ceil(n / columns) * size <= canvas.height) return { size, columns };
    }
    return { size: LEAST, columns: Math.max(1, Math.floor(canvas.width / LEAST)) };
  }

  const ownersOf = (b) => {
    const step = batch.steps[batch.cursor - 1];
    const data = cells();
    if (!data || data[4 * b] === NOBODY) return [];
    const all = step.shared[b] ?? [data[4 * b]];
    return all.filter((r) => !(batch.aborted[r] <= batch.cursor));
  };

  function paint(next) {
    theme = next;
    const { info } = batch;
    const step = batch.steps[batch.cursor - 1];
    words = step
      ? `${format.count(step.used)} of ${format.count(info.num_blocks)} used · ${format.count(step.num_shared)} shared · ${format.count(step.cached_free)} kept`
      : format.plural(info.num_blocks, "block");
    setText(said, words);
    setText(each, `a block: ${format.plural(info.block_size, "position")}, ${format.bytes(info.block_bytes)}`);
    mark.set(batch.source.counts);
    const context = canvas.start("base");
    if (!context) return;
    const { size, columns } = layout();
    for (let b = 0; b < count(); b++) drawBlock(context, b, (b % columns) * size, Math.floor(b / columns) * size, size);
  }

  function drawBlock(context, b, left, top, size) {
    const gap = size > 9 ? 3 : 1;
    const [x, y, w] = [left + 0.5, top + 0.5, size - gap];
    const data = cells();
    const owners = ownersOf(b);
    if (!owners.length) {
      context.strokeStyle = theme.line2;
      context.lineWidth = 1;
      context.strokeRect(x + 0.5, y + 0.5, w - 1, w - 1);
      if (data?.[4 * b + 1]) hatch(context, x, y, w, w, theme.text2, Math.max(3, size / 6));
      return;
    }
    const filled = (data[4 * b + 2] + 256 * data[4 * b + 3]) / batch.info.block_size;
    owners.forEach((r, i) => {
      const colour = ownerColour(theme, r);
      const wide = w / owners.length;
      context.fillStyle = colour.soft;
      context.fillRect(x + i * wide, y, wide, w);
      context.fillStyle = colour.fill;
      context.fillRect(x + i * wide, y + w * (1 - filled), wide, w * filled);
    });
    if (owners.length > 1) {
      context.strokeStyle = theme.text;
      context.lineWidth = size > 14 ? 2 : 1;
      context.strokeRect(x + 0.5, y + 0.5, w - 1, w - 1);
    }
    if (size < 13) return;
    setFont(context, `650 ${size < 20 ? 9 : 10}px ${theme.font}, sans-serif`);
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillStyle = filled > 0.5 ? ownerColour(theme, owners[0]).ink : theme.text;
    const text = owners.length > 1 ? `${owners.length} ×` : String(owners[0] + 1);
    if (context.measureText(text).width < w - 1) plate(context, text, owners, x + w / 2, y + w / 2);
  }

  // Over several colours the number stands on a ground of its own.
  function plate(context, text, owners, x, y) {
    if (owners.length > 1) {
      const wide = context.measureText(text).width + 4;
      context.fillStyle = theme.bg;
      context.fillRect(x - wide / 2, y - 7, wide, 14);
      context.fillStyle = theme.text;
    }
    context.fillText(text, x, y + 0.5);
  }

  /** What hovering a block lights up. */
  function hoverOf(block) {
    const data = cells();
    return {
      block, owners: ownersOf(block), kept: Boolean(data?.[4 * block + 1]),
      filled: data ? data[4 * block + 2] + 256 * data[4 * block + 3] : 0,
    };
  }

  canvas.root.addEventListener("pointermove", (event) => {
    if (!batch.info) return;
    const { size, columns } = layout();
    const [px, py] = pointIn(event, canvas.root);
    const column = Math.floor(px / size);
    const block = Math.floor(py / size) * columns + column;
    if (column >= columns || block < 0 || block >= count()) return batch.setHover(null);
    batch.setHover({ ...hoverOf(block), x: event.clientX, y: event.clientY });
  });
  canvas.root.addEventListener("pointerleave", () => batch.setHover(null));
  const unbind = explorable(canvas.root, { grid: walkable, said: spokenBlock, press: () => {} });

  function walkable() {
    if (!batch.info) return null;
    const { size, columns } = layout();
    return { columns, rows: Math.ceil(count() / columns), start: [0, 0], at: (column, row) => [(column + 0.5) * size, (row + 0.5) * size] };
  }

  function spokenBlock() {
    const { block, owners, filled } = batch.hover ?? {};
    if (block === undefined) return "";
    const whose = owners.length ? owners.map((r) => batch.info.requests[r].id).join(", ") : "nobody";
    return `block ${block}: ${whose}, ${filled} of ${batch.info.block_size} positions`;
  }

  function hover() {
    const at = batch.hover;
    const context = at && theme ? canvas.start("over") : canvas.clear("over");
    if (!context) return;
    const { size, columns } = layout();
    const ring = (b) => context.strokeRect((b % columns) * size + 1, Math.floor(b / columns) * size + 1, size - 3, size - 3);
    const lit = new Set(at.request !== undefined && at.request !== null ? [at.request] : at.owners);
    context.strokeStyle = theme.text;
    context.lineWidth = size > 14 ? 2.5 : 1.5;
    for (let b = 0; b < count(); b++) if (b === at.block || ownersOf(b).some((r) => lit.has(r))) ring(b);
  }

  return {
    root: canvas.root, note, legend, paint, hover, stop: () => (canvas.stop(), unbind()), count, ownersOf, hoverOf, words: () => words,
    size: () => ({ width: canvas.width, height: canvas.height }), canvases: () => [canvas.contexts.base.canvas],
  };
}

const key = (kind, text) => h("span", { class: `block-key ${kind}` }, h("i", {}), text);
