// One bar a step on a canvas: how long each took. Shared by the panel and its picture.

import * as format from "../shared/format.js";
import { setFont } from "../shared/canvas.js";

export const STAGES = [
  ["attention", "attention"],
  ["mlp", "MLP"],
  ["unembed", "unembed"],
  ["sampling", "sampling"],
  ["bookkeeping", "bookkeeping"],
];

const SIZES = [16, 32, 64, 128, 256, 512];

/** Draws into width x height and returns {n, w}: number of bars and the width each has. */
export function paintTimes(context, { history, info, cursor }, theme, width, height) {
  const metas = history.meta.slice(0, history.offered);
  const room = SIZES.find((size) => size >= metas.length) ?? metas.length;
  const slots = Math.max(metas.length, Math.min(room, Math.max(info.max_new + 1, 12)));
  const most = metas.reduce((top, meta) => Math.max(top, meta.ms), 0);
  const top = scaleOf(metas, most);
  const w = width / slots;
  const floor = height - 1;
  const high = height - 16;
  context.fillStyle = theme.line;
  context.fillRect(0, floor, width, 1);
  metas.forEach((meta, i) => {
    const size = Math.max(1, high * Math.min(1, meta.ms / top));
    context.fillStyle = i + 1 === cursor ? theme.blue : meta.phase === "prefill" ? theme.text2 : theme.line2;
    context.fillRect(i * w, floor - size, Math.max(1, Math.min(w - (w > 3 ? 1 : 0), 24)), size);
  });
  setFont(context, `11px ${theme.font}, sans-serif`);
  context.textBaseline = "top";
  context.textAlign = "left";
  context.fillStyle = theme.text2;
  const scale = `ms by step, up to ${format.ms(top)}`;
  const longest = format.ms(most);
  const said = most > top ? [`${scale}; taller bars are cut (longest ${longest})`, `${scale}; the longest: ${longest}`] : [scale];
  context.fillText(said.find((words) => context.measureText(words).width <= width) ?? said.at(-1), 0, 0);
  return { n: metas.length, w };
}

// A prefill can be many times a decode step: the scale follows the decode steps, and a bar that leaves it is said to be cut.
function scaleOf(metas, most) {
  const decode = metas
    .filter((meta) => meta.phase === "decode")
    .map((meta) => meta.ms)
    .sort((a, b) => a - b);
  return decode.length >= 3 ? decode[Math.floor(decode.length * 0.95)] * 1.35 : most;
}
