// The merges of a piece as a drawing, with the sentence that says why.

import { font } from "../shared/picture.js";
import { visible } from "../shared/tokens.js";
import { characters } from "./replay.js";

const [NAME, COLUMN, ROW] = [110, 40, 44];

/** For savePng. states: those that the page shows. */
export function ladderPicture(theme, sentence, piece, states) {
  const [text, rule, hex, symbols, ids, whole, , steps] = piece;
  const bytes = hex.match(/../g) ?? [];
  const chars = [...symbols];
  const rows = [
    ["characters", characters(text).map(([char, from, to]) => [visible(char), from, to])],
    ["bytes", bytes.map((byte, i) => [byte.toUpperCase(), i, i + 1])],
    ...states.map(({ parts, ranks, winner }, i) => [
      i === 0 ? "at first" : `after merge ${i}`,
      parts.map(([from, to]) => [chars.slice(from, to).join(""), from, to]),
      ranks,
      winner,
    ]),
  ];
  const last = states.at(-1);
  if (states.length === steps.length + 1)
    rows.push(["ids", (whole ? [[0, bytes.length]] : last.parts).map(([from, to], i) => [String(ids[i]), from, to])]);
  return {
    theme,
    title: `How “${visible(text)}” becomes tokens`,
    lines: [`Cut out as ${rule}. ${sentence}`],
    width: NAME + COLUMN * bytes.length,
    height: ROW * rows.length,
    dpr: Math.max(1, window.devicePixelRatio || 1),
    parts: [(context) => rows.forEach((row, i) => draw(context, theme, row, i * ROW))],
  };
}

function draw(context, theme, [name, cells, ranks = [], winner = null], y) {
  context.textBaseline = "middle";
  context.fillStyle = theme.text2;
  context.textAlign = "left";
  context.font = font(theme, 12);
  context.fillText(name, 0, y + 12);
  context.textAlign = "center";
  cells.forEach(([text, from, to], k) => {
    const [left, right] = [NAME + from * COLUMN, NAME + to * COLUMN];
    context.fillStyle = theme.side;
    context.fillRect(left + 1, y, right - left - 2, 24);
    const wins = winner !== null && (k === winner || k === winner + 1);
    context.strokeStyle = wins ? theme.blue : theme.line2;
    context.lineWidth = wins ? 2 : 1;
    context.strokeRect(left + 1.5, y + 0.5, right - left - 3, 23);
    context.fillStyle = theme.text;
    context.font = `13px ${theme.mono}, monospace`;
    context.fillText(text, (left + right) / 2, y + 12, right - left - 4);
    if (k < ranks.length && ranks[k] !== null) {
      context.fillStyle = k === winner ? theme.blue : theme.text2;
      context.font = font(theme, 10, k === winner ? 650 : 400);
      context.fillText(String(ranks[k]), right, y + 33);
    }
  });
}
