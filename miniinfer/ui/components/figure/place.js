// Where everything stands in a figure of a given width: margins from what the labels need, then a box for each panel.

import { setRanges } from "./ranges.js";
import { apart, ticksOf } from "./ticks.js";
import { lineHeight, measure } from "./text.js";

const GAP = 5; // px between an axis and its labels
const TITLE = 12; // font size of axis titles
const MOST_LEFT = 0.42; // of the width, MOST_DOWN of the height: labels are cut beyond
const MOST_DOWN = 0.4;

/** The figure with `width`, `height`, a `box` {x, y, width, height} for each panel, ticks for each axis, `to(value)`. */
export function arrange(figure, width, context, family) {
  const { layout } = figure;
  if (!figure.ranged) setRanges(figure), (figure.ranged = true);
  const height = layout.height ?? 300;
  const text = layout.font?.color ?? "#000";
  figure.font = (size, colour = text) => ({ size, colour, family });
  Object.assign(figure, { width, height, text });
  let margin = { l: 8, r: 8, t: 8, b: 8, ...layout.margin };
  for (let pass = 0; pass < 2; pass++) {
    const inner = { x: margin.l, y: margin.t, width: width - margin.l - margin.r, height: height - margin.t - margin.b };
    figure.inner = { ...inner, width: Math.max(20, inner.width), height: Math.max(20, inner.height) };
    for (const panel of figure.panels) place(panel, figure.inner);
    for (const panel of figure.panels) keepShape(panel);
    for (const panel of figure.panels) label(figure, panel, context);
    if (pass === 0) margin = needed(figure, context);
  }
  return figure;
}

function place(panel, inner) {
  const [left, right] = panel.x.spec.domain ?? [0, 1];
  const [bottom, top] = panel.y.spec.domain ?? [0, 1];
  panel.box = {
    x: inner.x + left * inner.width,
    y: inner.y + (1 - top) * inner.height,
    width: (right - left) * inner.width,
    height: (top - bottom) * inner.height,
  };
  scale(panel);
}

function scale({ x, y, box }) {
  x.to = (at) => box.x + ((at - x.low) / (x.high - x.low)) * box.width;
  y.to = (at) => box.y + box.height - ((at - y.low) / (y.high - y.low)) * box.height;
  x.length = box.width;
  y.length = box.height;
}

/** A unit as long in y as in x, where the figure asks for that: the axis with room to spare shows more. */
function keepShape(panel) {
  const { x, y, box } = panel;
  if (y.spec.scaleanchor !== x.id) return;
  x.own ??= [x.low, x.high];
  y.own ??= [y.low, y.high];
  const unit = Math.min(box.width / (x.own[1] - x.own[0]), box.height / (y.own[1] - y.own[0]));
  for (const [axis, length] of [[x, box.width], [y, box.height]]) {
    const [middle, half] = [(axis.own[0] + axis.own[1]) / 2, length / unit / 2];
    [axis.low, axis.high] = [middle - half, middle + half];
  }
  scale(panel);
}

const sizeOf = (axis, fallback) => axis.spec.tickfont?.size ?? fallback ?? 12;
const shows = (axis) => axis.spec.showticklabels !== false;

function label(figure, panel, context) {
  const { x, y } = panel;
  const size = (axis) => Math.min(12, sizeOf(axis, figure.layout.font?.size));
  for (const axis of [x, y]) {
    axis.font = figure.font(size(axis));
    axis.gridded = axis.spec.showgrid !== false;
    const few = axis.letter === "x" ? Math.max(2, Math.floor(axis.length / 52)) : Math.max(2, Math.floor(axis.length / 30));
    const many = Math.max(2, Math.floor(axis.length / lineHeight(axis.font.size)));
    axis.ticks = ticksOf(axis, axis.category || axis.spec.tickvals ? many : few);
  }
  y.ticks = apart(y.ticks, (tick) => y.to(tick.at), () => axisLine(y), 0);
  const angle = x.spec.tickangle ?? 0;
  const along = (tick) => (angle ? axisLine(x) : measure(context, tick.text, x.font).width);
  x.ticks = apart(x.ticks, (tick) => x.to(tick.at), along, angle ? 0 : 8);
}

const axisLine = (axis) => lineHeight(axis.font.size) - 2;

/** How far labels and title of the axis reach from its line. */
function reach(context, axis, figure) {
  const titled = axis.spec.title?.text ? lineHeight(TITLE) + 4 : 0;
  if (!shows(axis) || !axis.ticks.length) return titled;
  const sizes = axis.ticks.map((tick) => measure(context, tick.text, axis.font));
  const widest = Math.max(...sizes.map((size) => size.width));
  if (axis.letter === "y") {
    axis.most = Math.min(widest, MOST_LEFT * figure.width - titled);
    return axis.most + GAP + titled;
  }
  const turn = Math.abs(((axis.spec.tickangle ?? 0) * Math.PI) / 180);
  const high = Math.sin(turn) * widest + Math.cos(turn) * lineHeight(axis.font.size);
  axis.most = turn ? Math.min(widest, (MOST_DOWN * figure.height) / Math.sin(turn)) : Infinity;
  return Math.min(high, MOST_DOWN * figure.height) + GAP + titled;
}

function needed(figure, context) {
  const given = { l: 8, r: 8, t: 8, b: 8, ...figure.layout.margin };
  const margin = { ...given, l: 8, b: 8 };
  for (const { x, y } of figure.panels) {
    const [low] = x.spec.domain ?? [0, 1];
    const [bottom, top] = y.spec.domain ?? [0, 1];
    const left = reach(context, y, figure);
    if (low < 0.01) margin.l = Math.max(margin.l, left + 6);
    else if (y.most) y.most = Math.min(y.most, 0.16 * figure.inner.width);
    const side = x.spec.side === "top" ? "t" : "b";
    if (side === "t" ? top > 0.99 : bottom < 0.01) margin[side] = Math.max(margin[side], reach(context, x, figure) + 6);
    else reach(context, x, figure);
    const last = x.ticks.at(-1);
    if (last && shows(x) && !x.spec.tickangle) margin.r = Math.max(margin.r, measure(context, last.text, x.font).width / 2 + 4);
  }
  const bar = barOf(figure);
  if (bar && bar.spec.orientation !== "h") margin.r = Math.max(given.r, barWidth(context, bar, figure) + 12);
  if (legendOf(figure).length && (figure.layout.legend?.y ?? 1) < 0) margin.b += 22;
  return margin;
}

/** The colour scale that has a bar: {spec, trace, low, high, stops}, or null. All of a figure: `barsOf`. */
export const barOf = (figure) => barsOf(figure)[0] ?? null;

export function barsOf({ traces }) {
  return traces.flatMap((trace) => {
    const source = trace.type === "heatmap" ? trace : trace.marker;
    if (!source?.colorscale || source.showscale === false) return [];
    const heat = trace.type === "heatmap";
    const [low, high] = heat ? [trace.zmin, trace.zmax] : [source.cmin, source.cmax];
    return [{ spec: source.colorbar ?? {}, trace, low, high, stops: source.colorscale }];
  });
}

/** The ticks of a colour bar, as those of an axis. */
export function barTicks({ spec, low, high }, most) {
  return ticksOf({ spec, low, high, unit: Number, category: false, log: false, gridded: true }, most);
}

export function barWidth(context, bar, figure) {
  const font = figure.font(bar.spec.tickfont?.size ?? 11);
  const widest = Math.max(0, ...barTicks(bar, 6).map((tick) => measure(context, tick.text, font).width));
  const title = bar.spec.title?.text ? lineHeight(font.size) + 2 : 0;
  return 10 + (bar.spec.thickness ?? 10) + 4 + widest + title;
}

/** Traces with a place in the legend. */
export function legendOf({ layout, traces }) {
  const named = traces.filter((trace) => trace.name && trace.showlegend !== false && trace.type !== "heatmap");
  return layout.showlegend === false || (named.length < 2 && layout.showlegend !== true) ? [] : named;
}
