// Colour scales with their numbers.

import { h } from "../shared/dom.js";

function legend(name, ticks, className) {
  const canvas = h("canvas", { width: 256, height: 1, "aria-hidden": "true" });
  const labels = ticks.map(([at, text]) => h("span", { class: "num", text, style: { left: `${100 * at}%` } }));
  const root = h(
    "span",
    { class: `legend ${className}`, role: "img", "aria-label": name, title: name },
    canvas,
    h("span", { class: "ticks" }, labels),
  );
  let painted = null;
  return {
    root,
    labels,
    paint(theme, ramp) {
      if (painted === ramp) return;
      painted = ramp;
      const context = canvas.getContext("2d");
      const image = context.createImageData(256, 1);
      new Uint32Array(image.data.buffer).set(ramp.rgba);
      context.putImageData(image, 0, 0);
    },
  };
}

export const PROBABILITY_TICKS = [
  [0, "0"],
  [0.5, "50"],
  [1, "100 %"],
];

export const ATTENTION_TICKS = [0, 0.01, 0.1, 0.5, 1].map((p) => [Math.sqrt(p), p === 1 ? "100 %" : String(100 * p)]);

/** 0 to 100 %, even steps. */
export function probabilityLegend() {
  const made = legend("Probability the model gave the token: 0 to 100 %", PROBABILITY_TICKS, "prob");
  return { root: made.root, paint: (theme) => theme && made.paint(theme, theme.ramps.prob) };
}

/** Attention is drawn on a square-root scale, so that a hundredth is still visible. */
export function attentionLegend() {
  const made = legend("Share of attention, square-root scale: 0, 1, 10, 50, 100 %", ATTENTION_TICKS, "attention");
  return { root: made.root, paint: (theme) => theme && made.paint(theme, theme.ramps.attention) };
}

export function normLegend() {
  const made = legend(
    "Length of the cached vectors, all KV heads of the layer together",
    [
      [0, ""],
      [1, ""],
    ],
    "kv",
  );
  return {
    root: made.root,
    paint(theme, low, high) {
      made.paint(theme, theme.ramps.kv);
      made.labels[0].textContent = low;
      made.labels[1].textContent = high;
    },
  };
}
