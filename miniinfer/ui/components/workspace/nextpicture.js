// The next-token panel as a drawing: candidates with both bars, the rest, the cumulative bar with the coin.

import * as format from "../shared/format.js";
import { fitted, font } from "../shared/picture.js";
import { quoted, visible } from "../shared/tokens.js";
import { interval, sentence } from "./cumulative.js";
import { CUTS } from "./cuts.js";
import { origin } from "./pictures.js";

const WIDTH = 560;
const ROW = 24;
const [BAR, USED, RAW] = [150, 470, WIDTH]; // left edge of the bars, right edges of the numbers

export function nextPicture(bus, view, theme) {
  const { next, history, q } = view;
  if (!next) return null;
  const rows = next.ids.length + 1;
  return {
    theme,
    title: `Next token after ${quoted(history.tokens[q])} at position ${q}`,
    lines: [
      "Wide bars: used, the odds of the draw after temperature and filters. Thin bars: raw, the model's own odds. Struck out: cut.",
      sentence(next),
      origin(view),
    ],
    width: WIDTH,
    height: rows * ROW + 74,
    dpr: Math.max(1, window.devicePixelRatio || 1),
    parts: [(context) => (list(context, view, theme), draw(context, next, theme, rows * ROW + 34))],
  };
}

function list(context, { next, history, q }, theme) {
  const top = Math.max(...next.used, ...next.raw, next.rest.raw, 1e-9);
  const scale = (USED - BAR - 90) / (top > 0.5 ? 1 : top);
  const write = (words, x, y, align, colour) => {
    context.textAlign = align;
    context.fillStyle = colour;
    context.fillText(words, x, y);
  };
  context.textBaseline = "middle";
  context.font = font(theme, 11);
  for (const [words, x, align] of [
    ["token", 6, "left"],
    ["used", USED, "right"],
    ["raw", RAW, "right"],
  ])
    write(words, x, 8, align, theme.text2);
  const line = (i, name, used, raw, cut, state) => {
    const y = 20 + i * ROW;
    const taken = state !== "";
    if (taken) {
      context.fillStyle = theme.hover;
      context.fillRect(0, y, WIDTH, ROW - 1);
      context.fillStyle = state === "forced" ? theme.violet : state === "drawn" ? theme.amber : theme.line2;
      context.fillRect(0, y, 3, ROW - 1);
    }
    context.font = `${taken ? 650 : 400} 13px ${theme.mono}, monospace`;
    const words = fitted(context, name, BAR - 18);
    write(words, 8, y + ROW / 2, "left", cut ? theme.text2 : theme.text);
    if (cut) context.fillRect(8, y + ROW / 2, context.measureText(words).width, 1);
    context.fillStyle = state === "forced" ? theme.violet : theme.amber;
    context.fillRect(BAR, y + 5, used * scale, 8);
    context.fillStyle = theme.text2;
    context.fillRect(BAR, y + 15, raw * scale, 3);
    context.font = font(theme, 12, taken ? 650 : 400);
    write(cut ? `cut: ${CUTS[cut] ?? cut}` : format.percent(used), USED, y + ROW / 2, "right", theme.text);
    write(format.percent(raw), RAW, y + ROW / 2, "right", theme.text2);
  };
  next.ids.forEach((id, i) => {
    const follows = next.token === null && history.tokens[q + 1]?.[0] === id;
    const state = id === next.token ? (next.forced ? "forced" : "drawn") : follows ? "follows" : "";
    line(i, visible(next.toks[i][1]), next.used[i], next.raw[i], next.cut[i], state);
  });
  const { count, used, raw } = next.rest;
  line(next.ids.length, `${format.count(count)} others`, used, raw, null, "");
}

function draw(context, next, theme, y) {
  context.fillStyle = theme.line;
  context.fillRect(0, y, WIDTH, 14);
  next.used.forEach((share, i) => {
    const x = interval(next, i)[0] * WIDTH;
    const taken = next.ids[i] === next.token;
    context.globalAlpha = taken ? 1 : 0.5;
    context.fillStyle = taken && next.forced ? theme.violet : theme.amber;
    const wide = share * WIDTH;
    context.fillRect(x, y, Math.max(0, wide - (wide > 2 ? 1 : 0)), 14);
  });
  context.globalAlpha = 1;
  context.fillStyle = theme.text2;
  context.font = font(theme, 11);
  context.textAlign = "left";
  context.fillText("all odds end to end, 0 to 1", 0, y + 26);
  if (next.coin === null || next.token === null) return;
  context.globalAlpha = next.greedy || next.forced ? 0.45 : 1;
  context.fillStyle = theme.text;
  context.fillRect(next.coin * WIDTH - 1, y - 5, 2, 22);
  context.beginPath();
  context.arc(next.coin * WIDTH, y - 5, 5, 0, 7);
  context.fill();
  context.textAlign = next.coin > 0.5 ? "right" : "left";
  context.fillText(`coin ${format.coin(next.coin)}`, next.coin * WIDTH + (next.coin > 0.5 ? -9 : 9), y - 7);
  context.globalAlpha = 1;
}
