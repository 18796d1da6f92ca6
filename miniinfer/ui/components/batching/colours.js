// A colour and a number for each request, and one look for each state of a lane.

import { hatch } from "../shared/canvas.js";
import { h, setText } from "../shared/dom.js";
import { hexOf, inkOn, mix, rgbOf } from "../shared/scales.js";

// Found by search: each differs from all before it as much as can be, for full colour vision and for the three kinds of
// colour blindness (tests/components/test_owner_colours.py). The number on it says the same without any colour.
const OWNERS = {
  light: [
    "#6974cf", "#f2b038", "#5a3e05", "#33d7d6", "#bc5b1c", "#9f93be", "#6f528f", "#8c7293",
    "#5549c8", "#c2c092", "#840b54", "#e7862b", "#98484d", "#512691", "#b5877a", "#858ff9",
  ],
  dark: [
    "#7771fb", "#f4e93c", "#d1530c", "#4dd9fe", "#7b44aa", "#cda33d", "#72bca1", "#9c6d73",
    "#b6dca4", "#9a91cb", "#b2272e", "#a4f6ef", "#edbe0d", "#8771c0", "#9d3c75", "#a78e6a",
  ],
};

const cache = new Map();

/** {fill, soft, ink} of the request at this place; soft: what stands behind the filled part of a block. */
export function ownerColour(theme, place) {
  const key = `${theme.key} ${place}`;
  if (!cache.has(key)) {
    const all = OWNERS[theme.dark ? "dark" : "light"];
    const fill = rgbOf(all[place % all.length]);
    cache.set(key, { fill: hexOf(fill), soft: hexOf(mix(rgbOf(theme.bg), fill, 0.28)), ink: inkOn(fill) });
  }
  return cache.get(key);
}

/** A box in the owner's colour with its number, as it stands on its blocks. */
export function ownerSwatch(theme, place) {
  const el = h("span", { class: "swatch num" });
  paintSwatch(el, theme, place);
  return el;
}

export function paintSwatch(el, theme, place) {
  const { fill, ink } = ownerColour(theme, place);
  if (el.style.background !== fill) el.style.background = fill;
  el.style.color = ink;
  setText(el, String(place + 1));
}

/** What each state of a lane looks like: [name, what it means, how it is drawn, colour]. */
export const laneStyles = (theme) => ({
  waiting: ["waiting", "in the queue, never started", "thin", theme.line2],
  prefill: ["prefill", "a chunk of its prompt is computed", "full", theme.blue],
  decode: ["decode", "one token", "full", theme.teal],
  stalled: ["stalled", "started, but this step has no place for it", "thin", theme.text2],
  preempted: ["preempted", "lost its blocks and waits to come back", "hatch", theme.red],
  idle: ["idle or padding", "computed for nothing", "hatch", theme.amber],
  finished: ["finished", "done in an earlier step", "line", theme.line2],
});

/** One box in a state's look. kind: as in laneStyles. */
export function drawState(context, kind, colour, x, y, w, high) {
  context.fillStyle = colour;
  if (kind === "line") return context.fillRect(x, y + high / 2 - 0.5, w, 1);
  if (kind === "thin") return context.fillRect(x, y + high * 0.3, w, high * 0.4);
  if (kind === "full") return context.fillRect(x, y, w, high);
  const alpha = context.globalAlpha;
  context.globalAlpha = alpha * 0.22;
  context.fillRect(x, y, w, high);
  context.globalAlpha = alpha;
  hatch(context, x, y, w, high, colour, 4);
}
