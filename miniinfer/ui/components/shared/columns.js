// Columns of tables: what a number means, its unit, how it is written. A column keeps its decimals, so that numbers line up.

import { count } from "./format.js";

const number = (name, unit, show, source = null) => ({ name, unit, kind: "number", show, source });

const formats = [1, 2, 3].map(
  (digits) => new Intl.NumberFormat("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits }),
);

// A value that would be rounded to nothing is not nothing.
const fixed = (digits) => (x) => {
  const least = 10 ** -digits;
  return x > 0 && x < least / 2 ? `< ${least}` : formats[digits - 1].format(x);
};

export const index = (name) => number(name, null, String);
export const whole = (name, source) => number(name, null, count, source);
export const bytes = (name, source) => number(name, "B", count, source);
export const ms = (name, source) => number(name, "ms", fixed(2), source);
export const length = (name, source) => number(name, null, fixed(2), source);
export const share = (name, source) => number(name, "0 to 1", fixed(3), source);
export const percent = (name, source) => number(name, "%", fixed(2), source);
/** As percent, with the digits that 8 bits on a square-root scale give. */
export const attention = (name, source) => number(`${name}, rounded to 8 bits`, "%", String, source);
export const token = (name) => ({ name, unit: null, kind: "token", show: String, source: null });
export const text = (name, width = 80) => ({ name, unit: null, kind: "text", show: String, source: null, width });

/** Seven digits: what a float32 holds. */
export const float32 = (x) => (Number.isFinite(x) ? Number(x.toPrecision(7)) : null);

/** A probability in per cent. */
export const hundredfold = (p) => (p === null || p === undefined || Number.isNaN(p) ? null : float32(100 * p));

/** An attention weight in per cent, to the digits that its 8 bits, round(255 sqrt(p)), hold. */
export const weight = (value) => {
  if (value === null || value === undefined) return null;
  const percent = 100 * (value / 255) ** 2;
  return Number(percent.toFixed(percent >= 1 ? 0 : 1));
};
