// The lanes on canvas, against steps or against wall time. A click or a drag goes to a step; steps beyond the cursor are pale.

import { explorable } from "../shared/explore.js";
import * as format from "../shared/format.js";
import { createCanvas, pointIn, setFont } from "../shared/canvas.js";
import { drawState, laneStyles } from "./colours.js";

const WIDEST = 30; // px a step
const ROOM = 24; // steps that there is room for from the start

export function createTimeline(batch) {
  const canvas = createCanvas({ label: "Lanes of all requests", testid: "batching-timeline", className: "lane-canvas" });
  const axis = createCanvas({ label: "Axis of the lanes", testid: "batching-axis-ticks", className: "axis-canvas" });
  const self = {
    root: canvas.root, axis: axis.root, lane: 22, paint, hover, stop: () => (canvas.stop(), axis.stop(), unbind()),
    size: () => ({ width: canvas.width, height: canvas.height }),
    canvases: () => [[axis.contexts.base.canvas, 0], [canvas.contexts.base.canvas, 20]], // and how far down
  };
  let theme = null;
  canvas.onResize = axis.onResize = () => theme && batch.info && (paint(theme), hover());

  // Where step s begins and ends, in px.
  const scale = () => {
    const { last, steps } = batch;
    if (batch.axis === "steps") {
      const unit = Math.min(WIDEST, canvas.width / Math.max(ROOM, last + 1));
      return { from: (s) => (s - 1) * unit, to: (s) => s * unit };
    }
    const total = steps[last - 1]?.end || 1;
    const px = (canvas.width - 14) / total;
    return { from: (s) => (steps[s - 1].end - steps[s - 1].ms) * px, to: (s) => steps[s - 1].end * px, px, total };
  };

  const stepAt = (x) => {
    const { from } = scale();
    let found = 0;
    for (let s = 1; s <= batch.last && from(s) <= x; s++) found = s;
    return found;
  };

  canvas.root.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    canvas.root.setPointerCapture(event.pointerId);
    batch.player.stop();
    batch.goto(stepAt(pointIn(event, canvas.root)[0]));
  });
  canvas.root.addEventListener("pointermove", (event) => {
    if (!batch.info) return;
    const [x, y] = pointIn(event, canvas.root);
    const step = stepAt(x);
    if (canvas.root.hasPointerCapture(event.pointerId)) batch.goto(step);
    const request = Math.floor(y / self.lane);
    const inside = request >= 0 && request < batch.info.requests.length;
    batch.setHover(inside ? { request, step: step || null, x: event.clientX, y: event.clientY } : null);
  });
  canvas.root.addEventListener("pointerleave", () => batch.setHover(null));
  const unbind = explorable(canvas.root, { grid: walkable, said, press: (column) => (batch.player.stop(), batch.goto(column + 1)) });

  function walkable() {
    const { from, to } = scale();
    const at = (column, row) => [(from(column + 1) + to(column + 1)) / 2, (row + 0.5) * self.lane];
    return batch.info && { columns: batch.last, rows: batch.info.requests.length, start: [Math.max(0, batch.cursor - 1), 0], at };
  }

  function said() {
    const { request, step } = batch.hover ?? {};
    return step ? `request ${batch.info.requests[request].id}, step ${step}: ${batch.didIn(request, step)}` : "";
  }

  function paint(next) {
    theme = next;
    const count = batch.info.requests.length;
    const height = `${count * self.lane}px`;
    if (canvas.root.style.height !== height) canvas.root.style.height = height;
    const context = canvas.start("base");
    if (!context) return;
    const { from, to } = scale();
    const styles = laneStyles(theme);
    context.fillStyle = theme.line;
    for (let i = 1; i < count; i++) context.fillRect(0, i * self.lane - 1, canvas.width, 1);
    for (let s = 1; s <= batch.last; s++) {
      context.globalAlpha = s > batch.cursor ? 0.28 : 1;
      const [x, w] = [from(s), Math.max(0.6, to(s) - from(s))];
      for (let i = 0; i < count; i++) drawCell(context, s, i, x, w, styles);
    }
    context.globalAlpha = 1;
    for (let i = 0; i < count; i++) drawMarks(context, i, from, to);
    if (batch.cursor) {
      const [x, w] = [from(batch.cursor), to(batch.cursor) - from(batch.cursor)];
      context.strokeStyle = theme.blue;
      context.lineWidth = 2;
      context.strokeRect(x + 0.5, 1, Math.max(2, w - 1), count * self.lane - 2);
    }
    drawAxis();
  }

  function drawCell(context, s, i, x, w, styles) {
    const state = batch.didIn(i, s);
    const [, , kind, colour] = styles[state] ?? [];
    if (!kind) return;
    const pad = Math.max(3, Math.round(self.lane / 7));
    const [top, high, gap] = [i * self.lane + pad, self.lane - 2 * pad, w > 5 ? 1 : 0];
    if (kind !== "full") return drawState(context, kind, colour, x, top, kind === "line" ? w : w - gap, high);
    context.fillStyle = colour;
    const row = batch.steps[s - 1].rows.find((one) => one.r === i);
    const share = row?.pad ? row.n / (row.n + row.pad) : 1;
    context.fillRect(x, top, (w - gap) * share, high);
    if (share < 1) drawState(context, "hatch", styles.idle[3], x + (w - gap) * share, top, (w - gap) * (1 - share), high);
    if (state === "prefill" && w >= 20 && share === 1) {
      setFont(context, `10px ${theme.font}, sans-serif`);
      context.fillStyle = theme.dark ? "#101318" : "#ffffff";
      context.textAlign = "center";
      context.textBaseline = "middle";
      context.fillText(String(row.n), x + (w - gap) / 2, top + high / 2 + 0.5);
    }
  }

  // A triangle where a request arrives, a cross where somebody ended it.
  function drawMarks(context, i, from, to) {
    const { arrival, refused } = batch.info.requests[i];
    const middle = (i + 0.5) * self.lane;
    setFont(context, `12px ${theme.font}, sans-serif`);
    context.textAlign = "left";
    context.textBaseline = "middle";
    if (refused) {
      context.fillStyle = theme.red;
      return context.fillText("refused: it never ran", 4, middle);
    }
    if (arrival < batch.last || (arrival === 0 && batch.last)) {
      const x = arrival ? to(arrival) : 0;
      context.fillStyle = theme.text;
      context.beginPath();
      context.moveTo(x, middle - 4);
      context.lineTo(x + 5, middle);
      context.lineTo(x, middle + 4);
      context.fill();
    }
    const aborted = batch.aborted[i];
    if (aborted === undefined || aborted > batch.last) return;
    context.fillStyle = theme.red;
    context.fillText("× aborted", aborted ? to(aborted) + 3 : 6, middle);
  }

  function drawAxis() {
    const context = axis.start("base");
    if (!context) return;
    setFont(context, `11px ${theme.font}, sans-serif`);
    context.fillStyle = theme.text2;
    context.textBaseline = "middle";
    const { from, to, px, total } = scale();
    if (batch.axis === "time") {
      const step = nice(total / Math.max(2, Math.floor(axis.width / 90)));
      for (let t = 0; t <= total; t += step) tick(context, t * px, t ? format.count(Math.round(t)) : "0 ms");
      return;
    }
    const unit = Math.min(WIDEST, canvas.width / Math.max(ROOM, batch.last + 1));
    const every = nice(26 / unit);
    for (let s = 1; s * unit <= axis.width; s++)
      if (s === 1 || s % every === 0) {
        context.globalAlpha = s <= batch.last ? 1 : 0.45;
        tick(context, (s - 1) * unit + unit / 2 - 4, String(s));
      }
    context.globalAlpha = 1;
  }

  function tick(context, x, text) {
    if (x + context.measureText(text).width < axis.width) context.fillText(text, x + 1, 10);
  }

  function hover() {
    const at = batch.hover;
    const context = at && theme ? canvas.start("over") : canvas.clear("over");
    if (!context) return;
    const lit = at.request !== undefined && at.request !== null ? [at.request] : (at.owners ?? []);
    context.strokeStyle = theme.text;
    context.lineWidth = 1.5;
    for (const i of lit) context.strokeRect(0.75, i * self.lane + 1, canvas.width - 1.5, self.lane - 2);
    if (!at.step || at.step > batch.last) return;
    const { from, to } = scale();
    context.fillStyle = theme.text;
    context.globalAlpha = 0.08;
    context.fillRect(from(at.step), 0, Math.max(1, to(at.step) - from(at.step)), canvas.height);
    context.globalAlpha = 1;
  }

  return self;
}

/** The next of 1, 2, 5, 10, 20, ... that is at least x. */
function nice(x) {
  const ten = 10 ** Math.floor(Math.log10(Math.max(x, 1)));
  return [1, 2, 5, 10].map((n) => n * ten).find((n) => n >= x);
}
