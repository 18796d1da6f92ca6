// A plotly figure as it comes from Python: arrays decoded, traces sorted into panels, one object for each axis.

const TYPES = {
  f8: Float64Array,
  f4: Float32Array,
  i1: Int8Array,
  u1: Uint8Array,
  i2: Int16Array,
  u2: Uint16Array,
  i4: Int32Array,
  u4: Uint32Array,
};

/** {layout, traces, axes: [axis], panels: [{x, y, traces}]}. A panel is a pair of axes with what is drawn in it. */
export function readFigure({ data = [], layout = {} }) {
  const traces = data.map((trace) => decoded(trace));
  const axes = new Map();
  const axis = (id) => {
    if (!axes.has(id)) axes.set(id, createAxis(id, layout[`${id[0]}axis${id.slice(1)}`] ?? {}));
    return axes.get(id);
  };
  const panels = [];
  for (const trace of traces) {
    const [x, y] = [axis(trace.xaxis ?? "x"), axis(trace.yaxis ?? "y")];
    let panel = panels.find((other) => other.x === x && other.y === y);
    if (!panel) panels.push((panel = { x, y, traces: [] }));
    panel.traces.push(trace);
    Object.assign(trace, trace.type === "heatmap" ? cells(trace) : points(trace));
    x.take(trace.x);
    y.take(trace.y);
  }
  for (const { x, y, traces: mine } of panels)
    for (const trace of mine) {
      trace.px = Array.from(trace.x, x.unit);
      trace.py = Array.from(trace.y, y.unit);
    }
  return { layout, traces, axes: [...axes.values()], panels };
}

function decoded(value) {
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value)) return value.some((item) => item && typeof item === "object") ? value.map(decoded) : value;
  if (typeof value.bdata === "string") return typed(value);
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, decoded(item)]));
}

function typed({ bdata, dtype, shape }) {
  const bytes = Uint8Array.from(atob(bdata), (char) => char.charCodeAt(0));
  const flat = new TYPES[dtype](bytes.buffer);
  const sizes = shape === undefined ? [] : String(shape).split(",").map(Number);
  if (sizes.length < 2) return flat;
  const width = sizes.slice(1).reduce((a, b) => a * b, 1);
  return Array.from({ length: sizes[0] }, (_, i) => flat.subarray(i * width, (i + 1) * width));
}

const count = (n) => Array.from({ length: n }, (_, i) => i);

function cells(trace) {
  const rows = trace.z?.length ?? 0;
  const columns = rows ? trace.z[0].length : 0;
  return { rows, columns, x: trace.x ?? count(columns), y: trace.y ?? count(rows) };
}

function points(trace) {
  const n = trace.x?.length ?? trace.y?.length ?? 0;
  return { x: trace.x ?? count(n), y: trace.y ?? count(n) };
}

const isName = (value) => typeof value === "string" && (value.trim() === "" || Number.isNaN(Number(value)));

/**
 * An axis: unit(value) is its place on a linear scale (the index of a category, a logarithm to base 10). low, high: the
 * two ends that are shown, low at the left or at the bottom.
 */
function createAxis(id, spec) {
  const names = new Map();
  const axis = { id, letter: id[0], spec, category: spec.type === "category", log: spec.type === "log", low: 0, high: 1 };
  axis.take = (values) => {
    axis.category ||= Array.prototype.some.call(values, isName);
    if (axis.category) for (const value of values) if (!names.has(String(value))) names.set(String(value), names.size);
  };
  axis.unit = (value) => {
    if (value === null || value === undefined) return NaN;
    if (axis.category) return names.get(String(value)) ?? Number(value);
    return axis.log ? Math.log10(Number(value)) : Number(value);
  };
  axis.name = (place) => [...names.keys()][place] ?? String(place);
  Object.defineProperty(axis, "names", { get: () => [...names.keys()] });
  return axis;
}
