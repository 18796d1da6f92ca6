// What an axis shows: bars get their places, then the ends of every axis are found.

const PAD = 0.05;

/** Give each bar its rectangle in axis units and each axis its ends. */
export function setRanges(figure) {
  for (const panel of figure.panels) placeBars(panel, figure.layout);
  for (const axis of figure.axes) {
    const found = extent(figure, axis);
    const { range, autorange, rangemode } = axis.spec;
    let [low, high] = range ? range : padded(found, rangemode);
    if (!range && autorange === "reversed") [low, high] = [high, low];
    if (low === high) [low, high] = [low - 0.5, high + 0.5];
    Object.assign(axis, { low, high });
  }
}

const isBar = (trace) => trace.type === "bar";
const numberAt = (value, i) => (typeof value === "object" && value !== null ? value[i] : value);

function placeBars({ traces }, layout) {
  const bars = traces.filter(isBar);
  if (!bars.length) return;
  const places = [...new Set(bars.flatMap((bar) => placesOf(bar).filter(Number.isFinite)))].sort((a, b) => a - b);
  const step = places.length > 1 ? Math.min(...places.slice(1).map((place, i) => place - places[i])) : 1;
  const all = step * (1 - (layout.bargap ?? 0.2));
  const overlay = layout.barmode === "overlay";
  bars.forEach((bar, i) => {
    const each = overlay ? all : all / bars.length;
    const shift = overlay ? 0 : -all / 2 + each * (i + 0.5);
    bar.bars = placesOf(bar).map((place, k) => {
      const width = bar.width !== undefined ? numberAt(bar.width, k) : each * (1 - (layout.bargroupgap ?? 0));
      return { from: place + shift - width / 2, to: place + shift + width / 2, value: valuesOf(bar)[k] };
    });
    bar.step = step;
  });
}

const placesOf = (bar) => (bar.orientation === "h" ? bar.py : bar.px);
const valuesOf = (bar) => (bar.orientation === "h" ? bar.px : bar.py);

/** {low, high, exact: no room is added, zero: the low or high end is a bar's foot} */
function extent({ panels, layout }, axis) {
  const found = { low: Infinity, high: -Infinity, exact: false, foot: false, marks: false };
  const add = (...values) => {
    for (const value of values)
      if (Number.isFinite(value)) [found.low, found.high] = [Math.min(found.low, value), Math.max(found.high, value)];
  };
  for (const panel of panels) {
    if (panel.x !== axis && panel.y !== axis) continue;
    for (const trace of panel.traces) {
      const own = axis.letter === "x" ? trace.px : trace.py;
      if (trace.type === "heatmap") {
        const half = halfStep(own);
        add(own[0] - half, own[own.length - 1] + half);
        found.exact = true;
      } else if (isBar(trace) && (trace.orientation === "h") === (axis.letter === "y")) {
        for (const { from, to } of trace.bars) add(from - 0.1 * trace.step, to + 0.1 * trace.step);
        found.exact = true;
      } else if (isBar(trace)) {
        add(...own, axis.log ? NaN : 0);
        found.foot = true;
      } else {
        add(...own);
        found.marks ||= axis.letter === "y" || !trace.mode || trace.mode.includes("markers");
      }
    }
  }
  if (!found.exact) for (const shape of layout.shapes ?? []) {
    const ref = axis.letter === "x" ? shape.xref : shape.yref;
    if (ref === axis.id) add(axis.unit(shape[`${axis.letter}0`]), axis.unit(shape[`${axis.letter}1`]));
  }
  return found;
}

/** Half of the distance between the middles of two cells. */
export const halfStep = (middles) => (middles.length > 1 ? Math.abs(middles[1] - middles[0]) / 2 : 0.5);

function padded({ low, high, exact, foot, marks }, rangemode) {
  if (!Number.isFinite(low)) return [0, 1];
  if (exact) return [low, high];
  const room = marks || foot ? PAD * (high - low || Math.abs(high) || 1) : 0;
  const keepsLow = (foot && low === 0) || (rangemode === "tozero" && low >= 0);
  if (rangemode === "tozero") [low, high] = [Math.min(0, low), Math.max(0, high)];
  const keepsHigh = foot && high === 0;
  return [keepsLow ? low : low - room, keepsHigh ? high : high + room];
}
