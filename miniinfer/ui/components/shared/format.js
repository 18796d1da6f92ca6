// Numbers for people: thousands separated, three significant digits unless exactness is the point (bytes).

const grouped = new Intl.NumberFormat("en-US");

export const count = (n) => grouped.format(n);

/** Three significant digits without an exponent: 0.0123, 1.23, 12.3, 123, 1,230. */
export function sig3(x) {
  if (!Number.isFinite(x)) return String(x);
  if (x === 0) return "0";
  const rounded = Number(x.toPrecision(3));
  if (Math.abs(rounded) >= 100) return grouped.format(Math.round(rounded));
  const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(rounded))));
  return rounded.toFixed(Math.min(digits, 6));
}

/** A probability as a percentage: "77.3 %", "0.012 %", "< 0.001 %". */
export function percent(p) {
  if (p === null || p === undefined || Number.isNaN(p)) return "–";
  if (p === 0) return "0 %";
  if (p >= 1) return "100 %";
  if (p > 0.9995) return "> 99.9 %";
  const x = 100 * p;
  if (x < 0.001) return "< 0.001 %";
  if (x < 1) return `${x.toPrecision(2)} %`;
  return `${x.toFixed(1)} %`;
}

export const bytesExact = (n) => `${count(n)} B`;

/** 230 kB, 11.8 MB (powers of ten). */
export function bytes(n) {
  if (n < 1000) return `${n} B`;
  for (const [unit, size] of [
    ["GB", 1e9],
    ["MB", 1e6],
    ["kB", 1e3],
  ])
    if (n >= size * 0.9995) return `${sig3(n / size)} ${unit}`;
  return `${n} B`;
}

export const ms = (x) => (x === null || x === undefined ? "–" : x >= 10000 ? `${sig3(x / 1000)} s` : `${sig3(x)} ms`);

export const plural = (n, word) => `${count(n)} ${word}${n === 1 ? "" : "s"}`;

export const coin = (x) => x.toFixed(3);
