// The data of a figure as rows and columns, so that the keyboard walks through what the pointer can point at.

import { areaOf, barBox } from "./marks.js";

/**
 * {columns, rows, start, at(column, row) -> [x, y] in CSS px of the figure}, or null where there is nothing to point at. Cells of a
 * heat map are as they are seen; of bars and lines, a column is a point and a row is a trace, the other way round where bars lie.
 * Several panels stand beside each other: the last column of one is followed by the first of the next.
 */
export function walkOf(figure) {
  const panels = figure.panels.map((panel) => gridOf(figure, panel)).filter(Boolean);
  const columns = panels.reduce((sum, grid) => sum + grid.columns, 0);
  if (!columns) return null;
  const rows = Math.max(...panels.map((grid) => grid.rows));
  const at = (column, row) => {
    let left = column;
    const grid = panels.find((other) => left < other.columns || ((left -= other.columns), false));
    return grid.at(left, Math.min(row, grid.rows - 1));
  };
  return { columns, rows, start: [0, 0], at };
}

function gridOf(figure, panel) {
  const traces = panel.traces.filter((trace) => trace.hoverinfo !== "skip");
  const heat = traces.find((trace) => trace.type === "heatmap" && trace.rows && trace.columns);
  if (heat) return cellsOf(panel, heat);
  const unified = figure.layout.hovermode === "x unified"; // the pointer shows all lines at once there
  const lists = traces.map((trace) => placesOf(panel, trace)).filter((list) => list.length);
  if (!lists.length) return null;
  const lines = unified ? [lists.reduce((a, b) => (b.length > a.length ? b : a))] : lists;
  const points = Math.max(...lines.map((list) => list.length));
  const point = (i, line) => lines[line][Math.min(i, lines[line].length - 1)];
  return traces.some((trace) => trace.orientation === "h")
    ? { columns: lines.length, rows: points, at: (line, i) => point(points - 1 - i, line) }
    : { columns: points, rows: lines.length, at: point };
}

function cellsOf({ x, y }, trace) {
  const { rows, columns } = trace;
  const at = (column, row) => {
    const area = areaOf(x, y, trace);
    return [area.x + ((column + 0.5) * area.width) / columns, area.y + ((row + 0.5) * area.height) / rows];
  };
  return { rows, columns, at };
}

/** [[x, y]...] of the trace's points that are seen. */
function placesOf(panel, trace) {
  const { x, y, box } = panel;
  const count = trace.px.length;
  const places = Array.from({ length: count }, (_, i) => {
    if (trace.type !== "bar") return trace.marker?.size?.[i] === 0 ? [NaN, NaN] : [x.to(trace.px[i]), y.to(trace.py[i])];
    const bar = barBox(panel, trace, i);
    return [clamp(bar.x + bar.width / 2, box.x, box.width), clamp(bar.y + bar.height / 2, box.y, box.height)];
  });
  return places.filter(([left, top]) => left >= box.x - 1 && left <= box.x + box.width + 1 && top >= box.y - 1 && top <= box.y + box.height + 1);
}

const clamp = (value, from, size) => Math.max(from, Math.min(value, from + size));
