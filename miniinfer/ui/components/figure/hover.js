// What lies under the pointer, in the words of the figure's own hover templates.

import { areaOf, barBox } from "./marks.js";
import { fillTemplate, stripped } from "./text.js";

const NEAR = 14; // px from a mark

/** {lines: [text], trace, point, box} of what is at (x, y) in the figure, or null. */
export function find(figure, x, y) {
  const panel = figure.panels.find(({ box }) => inside(box, x, y, 4));
  if (!panel) return null;
  if (figure.layout.hovermode === "x unified") return unified(figure, panel, x);
  const hits = panel.traces
    .filter((trace) => trace.hoverinfo !== "skip")
    .map((trace) => ({ heatmap: cellAt, bar: barAt, scatter: markAt })[trace.type ?? "scatter"]?.(panel, trace, x, y))
    .filter(Boolean)
    .sort((a, b) => a.distance - b.distance);
  return hits.length ? { ...hits[0], lines: wordsOf(panel, hits[0].trace, hits[0].point) } : null;
}

const inside = ({ x, y, width, height }, left, top, room) =>
  left >= x - room && left <= x + width + room && top >= y - room && top <= y + height + room;

function cellAt({ x, y }, trace, left, top) {
  const area = areaOf(x, y, trace);
  if (!inside(area, left, top, 0)) return null;
  const down = y.to(trace.py[trace.rows - 1]) >= y.to(trace.py[0]);
  const j = Math.min(trace.columns - 1, Math.floor(((left - area.x) / area.width) * trace.columns));
  const row = Math.min(trace.rows - 1, Math.floor(((top - area.y) / area.height) * trace.rows));
  const i = down ? row : trace.rows - 1 - row;
  const value = trace.z[i][j];
  if (trace.hoverongaps === false && (value === null || Number.isNaN(value))) return null;
  const [width, height] = [area.width / trace.columns, area.height / trace.rows];
  return { trace, point: [i, j], distance: 0, box: { x: area.x + j * width, y: area.y + row * height, width, height } };
}

function barAt(panel, trace, left, top) {
  for (let i = 0; i < trace.bars.length; i++) {
    const box = barBox(panel, trace, i);
    if (!Number.isFinite(box.width + box.height)) continue;
    const whole = trace.orientation === "h" ? { ...box, x: panel.box.x, width: panel.box.width } : { ...box, y: panel.box.y, height: panel.box.height };
    if (inside(whole, left, top, 1)) return { trace, point: i, distance: inside(box, left, top, 1) ? 0 : 1, box };
  }
  return null;
}

function markAt({ x, y }, trace, left, top) {
  if (!(trace.mode ?? "lines+markers").match(/markers|lines/)) return null;
  let best = null;
  for (let i = 0; i < trace.px.length; i++) {
    if (trace.marker?.size?.[i] === 0) continue; // a line's other end, which says nothing
    const distance = Math.hypot(x.to(trace.px[i]) - left, y.to(trace.py[i]) - top);
    if (Number.isFinite(distance) && distance < (best?.distance ?? NEAR)) best = { trace, point: i, distance };
  }
  if (!best && trace.mode === "lines") best = nearestAlong(x, trace, left);
  if (!best) return null;
  const at = [x.to(trace.px[best.point]), y.to(trace.py[best.point])];
  return { ...best, box: { x: at[0] - 6, y: at[1] - 6, width: 12, height: 12 } };
}

function nearestAlong(x, trace, left) {
  let best = null;
  for (let i = 0; i < trace.px.length; i++) {
    const distance = Math.abs(x.to(trace.px[i]) - left);
    if (Number.isFinite(distance + trace.py[i]) && distance < (best?.distance ?? Infinity)) best = { trace, point: i, distance };
  }
  return best && { ...best, distance: NEAR };
}

function unified(figure, panel, left) {
  const hits = panel.traces.map((trace) => nearestAlong(panel.x, trace, left)).filter(Boolean);
  if (!hits.length) return null;
  const { point, trace } = hits[0];
  const place = panel.x.to(trace.px[point]);
  const named = panel.x.spec.tickvals ? null : panel.x.spec.title?.text;
  const ticked = panel.x.spec.ticktext?.[Array.from(panel.x.spec.tickvals ?? []).indexOf(trace.x[point])];
  const names = figure.layout.meta?.places;
  const head = names?.[point] ?? ticked ?? `${named ?? "at"} ${trace.x[point]}`;
  const lines = hits.map((hit) => {
    const said = wordsOf(panel, hit.trace, hit.point).join(" ");
    return hits.length > 1 ? `${stripped(hit.trace.name).join(" ")}: ${said}` : said;
  });
  return { trace, point, lines: [head, ...lines], box: { x: place - 0.5, y: panel.box.y, width: 1, height: panel.box.height } };
}

function wordsOf({ x, y }, trace, point) {
  const pick = (values) => (Array.isArray(point) ? values?.[point[0]]?.[point[1]] : values?.[point]);
  const along = (values, k) => values[Array.isArray(point) ? point[k] : point];
  const find = (name, index) => {
    const value = {
      x: () => along(trace.x, 1), y: () => along(trace.y, 0), z: () => pick(trace.z), text: () => pick(trace.text),
      customdata: () => pick(trace.customdata), "marker.color": () => pick(trace.marker?.color),
    }[name]?.();
    return index === null ? value : value?.[index];
  };
  const template = trace.hovertemplate ?? "%{x}, %{y}";
  return stripped(fillTemplate(template, find));
}
