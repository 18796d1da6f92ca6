// What stands around the data: background, grid, axes, shapes, notes, legend, colour bars.

import { coloursOf } from "./marks.js";
import { barsOf, barTicks, legendOf } from "./place.js";
import { drawText, lineHeight, measure } from "./text.js";

const GAP = 5;
const TITLE = 12;
const APART = 5; // px between two labels of a colour bar

export function drawGrounds(context, figure) {
  const { plot_bgcolor: ground } = figure.layout;
  for (const panel of figure.panels) {
    const { x, y, box } = panel;
    if (ground && !ground.startsWith("rgba")) {
      context.fillStyle = ground;
      context.fillRect(box.x, box.y, box.width, box.height);
    }
    context.lineWidth = 1;
    for (const axis of [x, y]) {
      if (axis.spec.showgrid === false) continue;
      context.strokeStyle = axis.spec.gridcolor ?? "rgba(128,128,128,0.25)";
      context.beginPath();
      for (const tick of axis.ticks) {
        const at = Math.round(axis.to(tick.at)) + 0.5;
        if (axis === x) context.moveTo(at, box.y), context.lineTo(at, box.y + box.height);
        else context.moveTo(box.x, at), context.lineTo(box.x + box.width, at);
      }
      context.stroke();
    }
  }
}

export function drawAxes(context, figure) {
  for (const panel of figure.panels) {
    drawDown(context, figure, panel);
    drawAcross(context, figure, panel);
  }
}

function drawDown(context, figure, { y, box }) {
  let widest = 0;
  if (y.spec.showticklabels !== false)
    for (const tick of y.ticks) {
      drawText(context, tick.text, box.x - GAP, y.to(tick.at), y.font, { align: "right", most: y.most });
      widest = Math.max(widest, Math.min(y.most ?? Infinity, measure(context, tick.text, y.font).width));
    }
  const title = y.spec.title?.text;
  if (title) turned(context, figure, title, box.x - GAP - widest - 4 - lineHeight(TITLE) / 2, box.y + box.height / 2, -90);
}

function drawAcross(context, figure, { x, box }) {
  const top = x.spec.side === "top";
  const line = top ? box.y - GAP : box.y + box.height + GAP;
  const angle = x.spec.tickangle ?? 0;
  let reach = 0;
  if (x.spec.showticklabels !== false)
    for (const tick of x.ticks) {
      const at = x.to(tick.at);
      if (angle) {
        context.save();
        context.translate(at, line);
        context.rotate((angle * Math.PI) / 180);
        drawText(context, tick.text, 0, 0, x.font, { align: "right", most: x.most });
        context.restore();
        reach = Math.max(reach, Math.min(x.most, measure(context, tick.text, x.font).width) * Math.abs(Math.sin((angle * Math.PI) / 180)));
      } else {
        drawText(context, tick.text, at, line, x.font, { align: "center", base: top ? "bottom" : "top" });
        reach = lineHeight(x.font.size);
      }
    }
  const title = x.spec.title?.text;
  if (title) drawText(context, title, box.x + box.width / 2, line + (top ? -reach - 4 : reach + 4), figure.font(TITLE), { align: "center", base: top ? "bottom" : "top" });
}

function turned(context, figure, text, x, y, degrees, font = figure.font(TITLE)) {
  context.save();
  context.translate(x, y);
  context.rotate((degrees * Math.PI) / 180);
  drawText(context, text, 0, 0, font, { align: "center" });
  context.restore();
}

// Shapes and notes

const panelOf = (figure, ref, letter) => figure.panels.find((panel) => panel[letter].id === ref.split(" ")[0]);

/** A coordinate in pixels: of an axis, of its domain ("x domain"), or of the paper. */
function pixels(figure, letter, ref, value) {
  const { inner } = figure;
  const across = letter === "x";
  if (!ref || ref === "paper") return across ? inner.x + value * inner.width : inner.y + (1 - value) * inner.height;
  const panel = panelOf(figure, ref, letter);
  if (!panel) return NaN;
  const { box } = panel;
  if (ref.endsWith("domain")) return across ? box.x + value * box.width : box.y + (1 - value) * box.height;
  return panel[letter].to(panel[letter].unit(value));
}

export function drawShapes(context, figure, below) {
  for (const shape of figure.layout.shapes ?? []) {
    if ((shape.layer === "below") !== below) continue;
    const at = (name) => pixels(figure, name[0], shape[`${name[0]}ref`] ?? name[0], shape[name]);
    const [x0, x1, y0, y1] = ["x0", "x1", "y0", "y1"].map(at);
    if (![x0, x1, y0, y1].every(Number.isFinite)) continue;
    context.strokeStyle = shape.line?.color ?? figure.text;
    context.lineWidth = shape.line?.width ?? 1;
    context.setLineDash({ dot: [2, 3], dash: [6, 4] }[shape.line?.dash] ?? []);
    context.beginPath();
    if (shape.type === "line") context.moveTo(x0, y0), context.lineTo(x1, y1);
    else if (shape.type === "circle") context.arc((x0 + x1) / 2, (y0 + y1) / 2, Math.abs(x1 - x0) / 2, 0, 2 * Math.PI);
    else context.rect(Math.min(x0, x1), Math.min(y0, y1), Math.abs(x1 - x0), Math.abs(y1 - y0));
    context.stroke();
    context.setLineDash([]);
  }
}

export function drawNotes(context, figure) {
  for (const note of figure.layout.annotations ?? []) {
    const x = pixels(figure, "x", note.xref, note.x) + (note.xshift ?? 0);
    const y = pixels(figure, "y", note.yref, note.y) - (note.yshift ?? 0);
    const style = { align: note.xanchor ?? "center", base: note.yanchor ?? "middle" };
    if (style.align === "auto") style.align = "center";
    drawText(context, note.text, x, y, figure.font(note.font?.size ?? 12, note.font?.color ?? figure.text), style);
  }
}

// Legend and colour bars

export function drawLegend(context, figure) {
  const named = legendOf(figure);
  if (!named.length) return;
  const { inner, layout } = figure;
  const font = figure.font(12);
  const widths = named.map((trace) => 22 + measure(context, trace.name, font).width + 16);
  const whole = widths.reduce((a, b) => a + b, 0);
  const right = layout.legend?.xanchor === "right";
  let x = right ? inner.x + inner.width - whole : inner.x;
  const y = (layout.legend?.y ?? 1) < 0 ? figure.height - 14 : inner.y - 16;
  named.forEach((trace, i) => {
    drawKey(context, figure, trace, x, y);
    drawText(context, trace.name, x + 22, y, font);
    x += widths[i];
  });
}

function drawKey(context, figure, trace, x, y) {
  const { marker = {}, line = {} } = trace;
  if (trace.type === "bar") {
    const colour = Array.isArray(marker.color) ? marker.color[0] : marker.color;
    context.fillStyle = colour ?? figure.text;
    if (!String(colour).endsWith(",0)")) context.fillRect(x + 2, y - 5, 12, 10);
    if (marker.line?.width) {
      context.strokeStyle = marker.line.color;
      context.lineWidth = marker.line.width;
      context.strokeRect(x + 2, y - 5, 12, 10);
    }
    return;
  }
  if ((trace.mode ?? "lines").includes("lines")) {
    context.strokeStyle = line.color ?? figure.text;
    context.lineWidth = line.width ?? 2;
    context.setLineDash({ dot: [2, 3], dash: [6, 4] }[line.dash] ?? []);
    context.beginPath();
    context.moveTo(x, y);
    context.lineTo(x + 18, y);
    context.stroke();
    context.setLineDash([]);
    return;
  }
  context.fillStyle = marker.line?.color ?? marker.color ?? figure.text;
  if (marker.symbol === "line-ns") context.fillRect(x + 8, y - 6, marker.line?.width ?? 2, 12);
  else context.fillRect(x + 4, y - 5, 10, 10);
}

export function drawColourBars(context, figure) {
  for (const bar of barsOf(figure)) {
    const panel = figure.panels.find((other) => other.traces.includes(bar.trace));
    if (bar.spec.orientation === "h") drawFlat(context, figure, bar, panel.box);
    else drawUpright(context, figure, bar, panel.box);
  }
}

const share = ({ low, high }, at) => (at - low) / (high - low || 1);

function drawFlat(context, figure, bar, box) {
  const thick = bar.spec.thickness ?? 8;
  const [x, y, width] = [box.x + box.width * 0.02, box.y - 4 - thick, box.width * 0.96];
  paint(context, bar.stops, false, x, y, width, thick);
  const font = figure.font(bar.spec.tickfont?.size ?? 11);
  const ticks = barTicks(bar, Math.max(2, Math.floor(width / 52)));
  const labels = ticks.map((tick, i) => {
    const align = i === 0 && share(bar, tick.at) < 0.05 ? "left" : i === ticks.length - 1 && share(bar, tick.at) > 0.95 ? "right" : "center";
    const at = x + share(bar, tick.at) * width;
    const wide = measure(context, tick.text, font).width;
    const from = at - wide * { left: 0, center: 0.5, right: 1 }[align];
    return { text: tick.text, at, align, from, to: from + wide };
  });
  for (const { text, at, align } of apart(labels)) drawText(context, text, at, y - 2, font, { align, base: "bottom" });
}

/** Without those that would touch another one: the last says where the scale ends, so it stays, and of the others the first. */
function apart(labels) {
  const last = labels.at(-1);
  const kept = [];
  for (const label of labels) {
    const free = label === last || label.to + APART <= last.from;
    if (free && (!kept.length || label === last || kept.at(-1).to + APART <= label.from)) kept.push(label);
  }
  return kept;
}

function drawUpright(context, figure, bar, box) {
  const thick = bar.spec.thickness ?? 10;
  const [x, height] = [box.x + box.width + 10, box.height];
  paint(context, bar.stops, true, x, box.y, thick, height);
  context.strokeStyle = "rgba(128,128,128,0.5)";
  context.lineWidth = 1;
  context.strokeRect(x + 0.5, box.y + 0.5, thick - 1, height - 1);
  const font = figure.font(bar.spec.tickfont?.size ?? 11);
  let widest = 0;
  for (const tick of barTicks(bar, Math.max(2, Math.floor(height / 40)))) {
    const at = box.y + height - share(bar, tick.at) * height;
    const base = at < box.y + 6 ? "top" : at > box.y + height - 6 ? "bottom" : "middle";
    drawText(context, tick.text, x + thick + 4, at, font, { base });
    widest = Math.max(widest, measure(context, tick.text, font).width);
  }
  const title = bar.spec.title?.text;
  if (title) turned(context, figure, title, x + thick + 6 + widest + lineHeight(font.size) / 2, box.y + height / 2, 90, font);
}

/** A scale as 256 pixels in a row, or upright with the largest on top, drawn as large as it should be. */
function paint(context, stops, upright, x, y, width, height) {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = upright ? [1, 256] : [256, 1];
  const image = new ImageData(canvas.width, canvas.height);
  coloursOf(stops).forEach((colour, i) => image.data.set([...colour, 255], 4 * (upright ? 255 - i : i)));
  canvas.getContext("2d").putImageData(image, 0, 0);
  context.imageSmoothingEnabled = true;
  context.drawImage(canvas, x, y, width, height);
}
