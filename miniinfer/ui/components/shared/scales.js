// Colour scales with even steps of lightness (OKLab), as 256-entry tables. Colour-blind safe: one hue, lightness carries the value.

const lin = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
const gam = (c) => (c <= 0.0031308 ? 12.92 * c : 1.055 * c ** (1 / 2.4) - 0.055);

export const rgbOf = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
export const hexOf = (rgb) => `#${rgb.map((c) => Math.round(c).toString(16).padStart(2, "0")).join("")}`;

export function toOklab(rgb) {
  const [r, g, b] = rgb.map((c) => lin(c / 255));
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ];
}

export function fromOklab([L, a, b]) {
  const l = (L + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (L - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (L - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ].map((c) => Math.round(255 * Math.min(1, Math.max(0, gam(Math.min(1, Math.max(0, c)))))));
}

/** WCAG relative luminance and contrast. */
export const luminance = (rgb) => {
  const [r, g, b] = rgb.map((c) => lin(c / 255));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
export const contrast = (a, b) => {
  const [hi, lo] = [luminance(a), luminance(b)].sort((x, y) => y - x);
  return (hi + 0.05) / (lo + 0.05);
};

export function mix(a, b, t) {
  const [x, y] = [toOklab(a), toOklab(b)];
  return fromOklab(x.map((v, i) => v + (y[i] - v) * t));
}

/** Stops (hex, lightness rising or falling throughout) -> {rgb: Uint8Array(768), css(i), rgba: Uint32Array(256)}. */
export function ramp(stops) {
  const labs = stops.map((hex) => toOklab(rgbOf(hex)));
  const [first, last] = [labs[0][0], labs.at(-1)[0]];
  const rgb = new Uint8Array(768);
  for (let i = 0; i < 256; i++) {
    const L = first + ((last - first) * i) / 255;
    let k = 0;
    while (k < labs.length - 2 && Math.abs(labs[k + 1][0] - first) < Math.abs(L - first)) k++;
    const t = (L - labs[k][0]) / (labs[k + 1][0] - labs[k][0]);
    rgb.set(fromOklab([L, ...[1, 2].map((j) => labs[k][j] + (labs[k + 1][j] - labs[k][j]) * t)]), 3 * i);
  }
  const bytes = new Uint8Array(1024);
  for (let i = 0; i < 256; i++) bytes.set([rgb[3 * i], rgb[3 * i + 1], rgb[3 * i + 2], 255], 4 * i);
  return {
    rgb,
    rgba: new Uint32Array(bytes.buffer),
    at: (i) => [rgb[3 * i], rgb[3 * i + 1], rgb[3 * i + 2]],
    css: (i) => `rgb(${rgb[3 * i]} ${rgb[3 * i + 1]} ${rgb[3 * i + 2]})`,
  };
}

/** Black or white, whichever reads better on the colour. */
export const inkOn = (rgb) => (contrast(rgb, [255, 255, 255]) >= contrast(rgb, [0, 0, 0]) ? "#ffffff" : "#000000");
