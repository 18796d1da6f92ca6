// A colour a request: lightness and chroma stay, the hue turns by the golden angle, so that neighbours differ most. And one a state.

import { fromOklab, hexOf, inkOn } from "../shared/scales.js";

const GOLDEN = 2.39996; // radians

const cache = new Map();

/** {fill, soft, ink} of the request at this place; soft: what stands behind the filled part of a block. */
export function ownerColour(theme, place) {
  const key = `${theme.key} ${place}`;
  if (!cache.has(key)) {
    const level = (theme.dark ? 0.68 : 0.62) + 0.06 * ((place % 3) - 1);
    const at = (L, c) => fromOklab([L, c * Math.cos(0.6 + GOLDEN * place), c * Math.sin(0.6 + GOLDEN * place)]);
    const fill = at(level, 0.12);
    const soft = at(theme.dark ? 0.34 : 0.9, 0.045);
    cache.set(key, { fill: hexOf(fill), soft: hexOf(soft), ink: inkOn(fill) });
  }
  return cache.get(key);
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
