// What carries the data: cells, bars, lines, marks and texts. All functions draw in CSS pixels on any context.

import { inkOn } from "../shared/scales.js";
import { drawText } from "./text.js";

const at = (value, i) => (Array.isArray(value) || ArrayBuffer.isView(value) ? value[i] : value);

export function drawTrace(context, figure, panel, trace) {
  const draw = { heatmap: drawCells, bar: drawBars, scatter: drawScatter }[trace.type ?? "scatter"];
  draw?.(context, figure, panel, trace);
}

// Colours

const scales = new WeakMap();

/** 256 colours [r, g, b] along plotly's stops [[0..1, "#rrggbb"]]. */
export function coloursOf(stops) {
  if (!scales.has(stops)) {
    const parsed = stops.map(([place, hex]) => [place, [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16))]);
    const table = Array.from({ length: 256 }, (_, i) => {
      const t = i / 255;
      const k = Math.max(1, parsed.findIndex(([place]) => place >= t));
      const [[from, a], [to, b]] = [parsed[k - 1], parsed[k]];
      const part = to > from ? (t - from) / (to - from) : 0;
      return a.map((value, j) => Math.round(value + (b[j] - value) * part));
    });
    scales.set(stops, table);
  }
  return scales.get(stops);
}

export const shade = (table, value, low, high) =>
  table[Math.max(0, Math.min(255, Math.round((255 * (value - low)) / (high - low || 1))))];

const rgb = ([r, g, b]) => `rgb(${r},${g},${b})`;

// Cells: one pixel each on a canvas of their own, which is then drawn large without smoothing

function drawCells(context, figure, { x, y, box }, trace) {
  const { rows, columns, z } = trace;
  if (!rows || !columns) return;
  const table = coloursOf(trace.colorscale);
  const canvas = Object.assign(document.createElement("canvas"), { width: columns, height: rows });
  const image = new ImageData(columns, rows);
  const pixels = new Uint32Array(image.data.buffer);
  const packed = table.map(([r, g, b]) => (255 << 24) | (b << 16) | (g << 8) | r);
  const [low, by] = [trace.zmin, 255 / (trace.zmax - trace.zmin || 1)];
  const down = y.to(trace.py[rows - 1]) >= y.to(trace.py[0]);
  for (let i = 0; i < rows; i++) {
    const line = z[down ? i : rows - 1 - i];
    for (let j = 0; j < columns; j++) {
      const place = line[j] === null ? NaN : (line[j] - low) * by;
      if (!Number.isNaN(place)) pixels[i * columns + j] = packed[Math.max(0, Math.min(255, Math.round(place)))];
    }
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
  const area = areaOf(x, y, trace);
  context.save();
  clip(context, box);
  context.imageSmoothingEnabled = false;
  context.drawImage(canvas, area.x, area.y, area.width, area.height);
  if (trace.xgap || trace.ygap) drawGaps(context, figure, trace, area);
  if (trace.texttemplate) drawCellTexts(context, figure, trace, { x, y }, table);
  context.restore();
}

/** The rectangle that all cells of a heat map fill. */
export function areaOf(x, y, { px, py }) {
  const edge = (axis, places) => {
    const half = places.length > 1 ? (places[1] - places[0]) / 2 : 0.5;
    const ends = [axis.to(places[0] - half), axis.to(places[places.length - 1] + half)];
    return [Math.min(...ends), Math.abs(ends[1] - ends[0])];
  };
  const [[left, width], [top, height]] = [edge(x, px), edge(y, py)];
  return { x: left, y: top, width, height };
}

function drawGaps(context, figure, { rows, columns, xgap, ygap }, area) {
  const paper = figure.layout.plot_bgcolor;
  context.fillStyle = !paper || paper.startsWith("rgba") ? figure.background : paper;
  for (let j = 1; xgap && j < columns; j++)
    context.fillRect(area.x + (j * area.width) / columns - xgap / 2, area.y, xgap, area.height);
  for (let i = 1; ygap && i < rows; i++)
    context.fillRect(area.x, area.y + (i * area.height) / rows - ygap / 2, area.width, ygap);
}

function drawCellTexts(context, figure, trace, { x, y }, table) {
  const size = trace.textfont?.size ?? 11;
  const width = Math.abs(x.to(1) - x.to(0)) - 6;
  for (let i = 0; i < trace.rows; i++)
    for (let j = 0; j < trace.columns; j++) {
      const ink = inkOn(shade(table, trace.z[i][j], trace.zmin, trace.zmax));
      const style = { align: "center", most: width };
      drawText(context, trace.text[i][j], x.to(trace.px[j]), y.to(trace.py[i]), figure.font(size, ink), style);
    }
}

// Bars

/** The rectangle of bar i in pixels; NaN where there is no value. */
export function barBox({ x, y }, trace, i) {
  const { from, to, value } = trace.bars[i];
  const [along, up] = trace.orientation === "h" ? [y, x] : [x, y];
  const foot = up.log ? up.low : 0;
  const [a, b] = [along.to(from), along.to(to)].sort((p, q) => p - q);
  const [c, d] = [up.to(foot), up.to(value)].sort((p, q) => p - q);
  return trace.orientation === "h"
    ? { x: c, y: a, width: d - c, height: b - a }
    : { x: a, y: c, width: b - a, height: d - c };
}

function drawBars(context, figure, panel, trace) {
  const { marker = {} } = trace;
  context.save();
  clip(context, panel.box, 2);
  trace.bars.forEach((_, i) => {
    const box = barBox(panel, trace, i);
    if (!Number.isFinite(box.width + box.height)) return;
    context.globalAlpha = at(marker.opacity, i) ?? 1;
    context.fillStyle = at(marker.color, i) ?? figure.text;
    context.fillRect(box.x, box.y, box.width, box.height);
    context.globalAlpha = 1;
    if (marker.line?.width) {
      context.strokeStyle = marker.line.color;
      context.lineWidth = marker.line.width;
      context.strokeRect(box.x, box.y, box.width, box.height);
    }
  });
  context.restore();
  if (trace.text && trace.textposition === "outside") trace.bars.forEach((_, i) => drawBarText(context, figure, panel, trace, i));
}

function drawBarText(context, figure, panel, trace, i) {
  const box = barBox(panel, trace, i);
  const text = at(trace.text, i);
  if (!text || !Number.isFinite(box.width + box.height)) return;
  const font = figure.font(trace.textfont?.size ?? 11, trace.textfont?.color ?? figure.text);
  if (trace.orientation === "h") drawText(context, text, box.x + box.width + 4, box.y + box.height / 2, font);
  else drawText(context, text, box.x + box.width / 2, box.y - 2, font, { align: "center", base: "bottom" });
}

// Lines, marks, texts

const DASHES = { dot: [2, 3], dash: [6, 4], solid: [] };

function drawScatter(context, figure, panel, trace) {
  const { x, y, box } = panel;
  const mode = trace.mode ?? "lines+markers";
  const places = trace.px.map((place, i) => [x.to(place), y.to(trace.py[i])]);
  context.save();
  if (trace.cliponaxis !== false) clip(context, box, 8);
  if (mode.includes("lines")) drawLine(context, figure, trace, places);
  if (mode.includes("markers")) places.forEach(([left, top], i) => drawMark(context, figure, trace, i, left, top));
  context.restore();
  if (mode.includes("text"))
    places.forEach(([left, top], i) => {
      const text = at(trace.text, i);
      if (!text || !Number.isFinite(left + top)) return;
      const [up, side = "center"] = (trace.textposition ?? "middle center").split(" ");
      const font = figure.font(trace.textfont?.size ?? 12, trace.textfont?.color ?? figure.text);
      const style = {
        align: { left: "right", center: "center", right: "left" }[side],
        base: { top: "bottom", middle: "middle", bottom: "top" }[up],
      };
      drawText(context, text, left, top, font, style);
    });
}

function drawLine(context, figure, trace, places) {
  context.strokeStyle = trace.line?.color ?? figure.text;
  context.lineWidth = trace.line?.width ?? 2;
  context.setLineDash(DASHES[trace.line?.dash ?? "solid"] ?? []);
  context.beginPath();
  let broken = true;
  for (const [left, top] of places) {
    if (!Number.isFinite(left + top)) broken = true;
    else if (broken) context.moveTo(left, top), (broken = false);
    else context.lineTo(left, top);
  }
  context.stroke();
  context.setLineDash([]);
}

function drawMark(context, figure, trace, i, left, top) {
  if (!Number.isFinite(left + top)) return;
  const { marker = {} } = trace;
  const size = at(marker.size, i) ?? 6;
  if (!size) return;
  let colour = at(marker.color, i) ?? trace.line?.color ?? figure.text;
  if (marker.colorscale) colour = rgb(shade(coloursOf(marker.colorscale), colour, marker.cmin, marker.cmax));
  const symbol = marker.symbol ?? "circle";
  context.fillStyle = colour;
  context.strokeStyle = marker.line?.color ?? colour;
  context.lineWidth = marker.line?.width ?? 0;
  if (symbol === "line-ns") return context.fillRect(left - context.lineWidth / 2, top - size / 2, context.lineWidth || 2, size);
  if (symbol.startsWith("square")) {
    if (symbol === "square-open") context.strokeStyle = colour;
    else context.fillRect(left - size / 2, top - size / 2, size, size);
    if (context.lineWidth && (marker.line?.width ?? 0)) context.strokeRect(left - size / 2, top - size / 2, size, size);
    return;
  }
  context.beginPath();
  context.arc(left, top, size / 2, 0, 2 * Math.PI);
  context.fill();
  if (marker.line?.width) context.stroke();
}

/** Nothing is drawn outside the box, with `room` around it, until the context is restored. */
export function clip(context, { x, y, width, height }, room = 0) {
  context.beginPath();
  context.rect(x - room, y - room, width + 2 * room, height + 2 * room);
  context.clip();
}

