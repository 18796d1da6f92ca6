// What "Save picture as PNG" draws: lanes with their names and times, the rows of a step, the block pool with its owners.

import * as format from "../shared/format.js";
import { fitted, font } from "../shared/picture.js";
import { readable, short, visible } from "../shared/tokens.js";
import { drawState, laneStyles, ownerColour } from "./colours.js";

const NAMES = 190; // px left of the lanes
const TIMES = 250; // px right of them
const WIDTH = 900;
const ROW = 30;
const KEY = 20; // height of a line of the legend
const dpr = () => Math.max(1, window.devicePixelRatio || 1);

/** What all pictures say about where they come from. */
export function origin({ info, cursor, source }) {
  return `After step ${cursor} of “${info.name}”: ${format.plural(info.requests.length, "request")} on ${info.model}, ${info.device}, ${info.dtype}; ${info.served}, budget ${format.count(info.budget)} slots, ${format.count(info.num_blocks)} blocks of ${info.block_size}. Figures: ${source.counts}, times ${source.times}.`;
}

export function lanesPicture(batch, view, theme, lanes) {
  const { timeline } = lanes;
  const { width } = timeline.size();
  const high = view.info.requests.length * timeline.lane;
  if (!width || !batch.last) return null;
  const legend = Object.values(laneStyles(theme));
  return {
    theme,
    title: "Who is served when?",
    lines: [`Lanes against ${batch.axis === "time" ? "wall time, ms (measured)" : "engine steps"}; at the right output tokens, TTFT and TPOT in ms. Framed: step ${view.cursor}; pale: later steps.`, origin(view)],
    width: NAMES + width + TIMES,
    height: KEY + 20 + high,
    dpr: dpr(),
    parts: [
      (context) => drawLegend(context, legend, theme),
      (context) => drawNames(context, view, theme, timeline.lane),
      (context) => drawTimes(context, batch, view, theme, timeline.lane, NAMES + width + 10),
      ...timeline.canvases().map(([canvas, y]) => [canvas, NAMES, KEY + y]),
    ],
  };
}

function drawLegend(context, legend, theme) {
  context.font = font(theme, 11);
  context.textBaseline = "middle";
  let x = 0;
  for (const [name, , kind, colour] of legend) {
    drawState(context, kind, colour, x, 4, 16, 11);
    context.fillStyle = theme.text;
    context.fillText(name, x + 20, 10);
    x += 36 + context.measureText(name).width;
  }
}

function drawNames(context, { info }, theme, lane) {
  context.textBaseline = "middle";
  info.requests.forEach((request, i) => {
    const y = KEY + 20 + (i + 0.5) * lane;
    swatch(context, theme, i, 0, y);
    context.fillStyle = theme.text;
    context.font = font(theme, 12, 600);
    const name = fitted(context, readable(request.id), 70);
    context.fillText(name, 24, y);
    const from = 30 + context.measureText(name).width;
    context.fillStyle = theme.text2;
    context.font = font(theme, 11);
    context.fillText(fitted(context, readable(short(request.prompt, 80)), NAMES - from - 6), from, y);
  });
}

function drawTimes(context, batch, { info, step }, theme, lane, x) {
  context.font = font(theme, 11);
  context.textBaseline = "middle";
  const columns = [[0, "is", "left"], [125, "tokens", "right"], [180, "TTFT", "right"], [235, "TPOT", "right"]];
  const write = (i, words, y, colour) => {
    context.textAlign = columns[i][2];
    context.fillStyle = colour;
    context.fillText(words, x + columns[i][0], y);
  };
  columns.forEach(([, name], i) => write(i, name, KEY + 10, theme.text2));
  info.requests.forEach((request, r) => {
    const y = KEY + 20 + (r + 0.5) * lane;
    const [ttft, tpot, out] = step?.requests[r] ?? [null, null, 0];
    write(0, batch.wordOf(r), y, theme.text);
    write(1, `${out} / ${request.max_new}`, y, theme.text);
    write(2, ttft === null ? "–" : format.sig3(ttft), y, theme.text);
    write(3, tpot === null ? "–" : format.sig3(tpot), y, theme.text);
  });
}

export function rowsPicture(batch, view, theme, workWords) {
  const rows = view.step?.rows ?? [];
  if (!rows.length) return null;
  return {
    theme,
    title: `The batch of step ${view.cursor}: ${format.plural(rows.length, "row")}, ${format.ms(view.step.ms)}`,
    lines: ["Left: who computes which positions, and the token that was chosen. Right: the likeliest next tokens by the model's own probability; framed: the chosen one.", origin(view)],
    width: WIDTH,
    height: rows.length * ROW,
    dpr: dpr(),
    parts: [(context) => rows.forEach((row, i) => drawRow(context, view.info, row, i * ROW, theme, workWords))],
  };
}

function drawRow(context, info, row, y, theme, workWords) {
  const middle = y + ROW / 2;
  context.textBaseline = "middle";
  swatch(context, theme, row.r, 0, middle);
  const write = (words, x, room, weight, face = theme.font) => {
    context.font = `${weight} 12px ${face}, ${face === theme.mono ? "monospace" : "sans-serif"}`;
    context.fillText(fitted(context, words, room), x, middle);
  };
  context.fillStyle = theme.text;
  write(readable(info.requests[row.r].id), 24, 76, 600);
  write(workWords(row), 106, 154, 400);
  const said = row.error ?? (row.token ? visible(row.token[1]) : "no token");
  write(said, 270, row.token ? 110 : WIDTH - 270, row.token ? 700 : 400, row.token ? theme.mono : theme.font);
  const wide = (WIDTH - 390) / 5;
  row.top.forEach(([token, raw], k) => {
    const x = 390 + k * wide;
    context.font = font(theme, 11);
    context.fillStyle = theme.text2;
    const share = format.percent(raw);
    const room = wide - 14 - context.measureText(share).width;
    context.textAlign = "right";
    context.fillText(share, x + wide - 8, middle - 5);
    context.textAlign = "left";
    context.fillStyle = theme.text;
    context.font = `11px ${theme.mono}, monospace`;
    context.fillText(fitted(context, visible(token[1]), room), x, middle - 5);
    context.fillStyle = theme.hover;
    context.fillRect(x, middle + 4, wide - 8, 5);
    context.fillStyle = theme.amber;
    context.fillRect(x, middle + 4, (wide - 8) * raw, 5);
    if (token[0] !== row.token?.[0]) return;
    context.strokeStyle = theme.blue;
    context.lineWidth = 1.5;
    context.strokeRect(x, middle + 4, wide - 8, 5);
  });
}

export function poolPicture(batch, view, theme, pool) {
  const { width, height } = pool.size();
  if (!width || !view.step) return null;
  const owners = [...new Set(Array.from({ length: pool.count() }, (_, b) => pool.ownersOf(b)).flat())].sort((a, b) => a - b);
  const columns = Math.max(1, Math.floor(Math.max(360, width) / 120));
  const top = Math.ceil(owners.length / columns) * KEY + 6;
  return {
    theme,
    title: `The block pool after step ${view.cursor}`,
    lines: [
      `${pool.words()}.`,
      "Coloured from below: filled positions of an owner's block; framed with several colours: shared; hatched: free, but kept for the prefix cache; empty: free.",
      origin(view),
    ],
    width,
    height: top + height,
    dpr: dpr(),
    parts: [
      (context) => {
        context.textBaseline = "middle";
        owners.forEach((r, i) => {
          const [x, y] = [(i % columns) * 120, Math.floor(i / columns) * KEY + 8];
          swatch(context, theme, r, x, y);
          context.fillStyle = theme.text;
          context.font = font(theme, 11);
          context.fillText(fitted(context, readable(view.info.requests[r].id), 88), x + 24, y);
        });
      },
      ...pool.canvases().map((canvas) => [canvas, 0, top]),
    ],
  };
}

// A box in the owner's colour with its number.
function swatch(context, theme, request, x, y) {
  const { fill, ink } = ownerColour(theme, request);
  context.fillStyle = fill;
  context.fillRect(x, y - 7, 18, 14);
  context.fillStyle = ink;
  context.font = font(theme, 10, 650);
  context.textAlign = "center";
  context.fillText(String(request + 1), x + 9, y + 0.5);
  context.textAlign = "left";
}
