// One row of attention: as the model computed it where that is here, else from its 8 bits, with a sign that says so.

import * as format from "../shared/format.js";

/** {exact, share(k): 0 to 1, text(k)} of the query at position q, or null when nothing of it is here. */
export function weights(history, [layer, head], q) {
  const exact = history.exactRow(layer, head, q);
  if (exact) return { exact: true, share: (k) => exact[k], text: (k) => format.percent(exact[k]) };
  const rounded = history.row(layer, head, q);
  return rounded && { exact: false, share: (k) => (rounded[k] / 255) ** 2, text: (k) => roughly(rounded[k]) };
}

/** u8 on the square-root scale -> "≈ 43 %", "≈ 0.5 %": no more digits than 8 bits hold, and a sign that says so. */
export function roughly(value) {
  const p = (value / 255) ** 2;
  if (value === 0 || p < 0.001) return "< 0.1 %";
  return p >= 0.01 ? `≈ ${Math.round(100 * p)} %` : `≈ ${(100 * p).toFixed(1)} %`;
}
