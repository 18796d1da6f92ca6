// Where an axis or a colour bar has ticks, and what they say.

import { format, significant } from "./text.js";

const SUPERSCRIPT = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };

/** [{at (axis units), text}] inside the ends. most: so many fit. */
export function ticksOf(axis, most) {
  const { spec, low, high } = axis;
  if (spec.showticklabels === false && !axis.gridded) return [];
  const inside = ({ at }) => at >= Math.min(low, high) - 1e-9 && at <= Math.max(low, high) + 1e-9;
  if (spec.tickvals) {
    const texts = spec.ticktext ?? Array.from(spec.tickvals, (value) => format(value, spec.tickformat));
    return Array.from(spec.tickvals, (value, i) => ({ at: axis.unit(value), text: String(texts[i]) })).filter(inside);
  }
  if (axis.category) {
    const { names } = axis;
    const every = spec.dtick ?? Math.max(1, Math.ceil(names.length / Math.min(most, spec.nticks ?? most)));
    return names.map((text, at) => ({ at, text })).filter((tick) => tick.at % every === 0 && inside(tick));
  }
  return (axis.log ? logarithmic(axis, most) : linear(axis, most)).filter(inside);
}

function linear({ spec, low, high }, most) {
  const values = evenly(Math.min(low, high), Math.max(low, high), Math.min(most, spec.nticks ?? most), spec.dtick);
  return values.map((at) => ({ at, text: spec.tickformat ? format(at, spec.tickformat) : wholeOrShort(at) }));
}

/** Round numbers between two ends: steps of 1, 2 or 5 times a power of ten, at most so many. */
export function evenly(low, high, most, step = null) {
  const rough = (high - low) / Math.max(1, most - 1) || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const steps = [0.5, 1, 2, 5, 10].map((n) => n * power);
  const fits = steps.findIndex((n) => n >= rough * 0.999);
  // A step that is too large for two ends between which few round numbers lie gives way to the next smaller one.
  const few = Math.floor(high / steps[fits]) - Math.ceil(low / steps[fits]) < 1;
  const by = step ?? steps[few ? fits - 1 : fits];
  const values = [];
  for (let i = Math.ceil(low / by - 1e-9); i * by <= high + by * 1e-9 && values.length < 200; i++)
    values.push(Number((i * by).toPrecision(12)));
  return values;
}

const wholeOrShort = (value) => {
  const text = Math.abs(value) >= 10000 && Number.isInteger(value) ? format(value, ",") : significant(value, 6);
  return text.replaceAll("-", "\u2212");
};

function logarithmic({ spec, low, high }, most) {
  const [from, to] = [Math.floor(Math.min(low, high)), Math.ceil(Math.max(low, high))];
  const fine = spec.dtick === "D2" || (spec.dtick === undefined && Math.abs(high - low) < 2);
  const first = Math.ceil(Math.min(low, high) - 1e-9); // the first whole power of ten that is shown
  const every = Math.max(1, Math.ceil((Math.floor(Math.max(low, high)) - first + 1) / most));
  const ticks = [];
  for (let power = from; power <= to; power++) {
    if ((power - first) % every) continue;
    for (const n of fine ? [1, 2, 5] : [1]) {
      const value = n * 10 ** power;
      ticks.push({ at: Math.log10(value), text: n === 1 ? powerOfTen(power) : wholeOrShort(value) });
    }
  }
  return ticks;
}

function powerOfTen(power) {
  if (power >= -3 && power <= 4) return wholeOrShort(10 ** power);
  return `10${[...String(power)].map((char) => SUPERSCRIPT[char]).join("")}`;
}

/** Those that do not touch each other, from the first on. size(tick): its length along the axis, place(tick) its middle. */
export function apart(ticks, place, size, room = 6) {
  const kept = [];
  let every = 1;
  const touches = () => {
    const shown = ticks.filter((_, i) => i % every === 0);
    return shown.some(
      (tick, i) =>
        i > 0 && Math.abs(place(tick) - place(shown[i - 1])) < (size(tick) + size(shown[i - 1])) / 2 + room,
    );
  };
  while (every < ticks.length && touches()) every++;
  ticks.forEach((tick, i) => i % every === 0 && kept.push(tick));
  return kept;
}
