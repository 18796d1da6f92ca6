// The token strip as a drawing: chips in lines, marked as on the page.

import { inkOn } from "../shared/scales.js";
import { CONTROL, short, visible } from "../shared/tokens.js";
import { probabilityOf } from "./look.js";
import { PROBABILITY_TICKS } from "./legend.js";
import { origin } from "./pictures.js";

const WIDTH = 900;
const [CHIP, STEP] = [26, 31]; // height of a chip, of a line

export function tokenPicture(bus, view, theme) {
  const places = place(view, theme);
  const lines = [
    `${view.info.prompt_len} prompt tokens (filled), ${view.shown - view.info.prompt_len} generated (outlined). Underlined: through the model in this step; ringed: chosen by it.`,
    origin(view),
  ];
  return {
    theme,
    title: `Tokens of “${short(view.info.name, 60)}”`,
    lines,
    scale: bus.prefs.colour
      ? { ramp: theme.ramps.prob, ticks: PROBABILITY_TICKS, label: "probability the model gave the token" }
      : null,
    width: WIDTH,
    height: places.at(-1).y + CHIP,
    dpr: Math.max(1, window.devicePixelRatio || 1),
    parts: [(context) => places.forEach((chip) => draw(context, chip, bus, view, theme))],
  };
}

const mono = (theme) => `13px ${theme.mono}, monospace`;

function place({ history, shown }, theme) {
  const probe = document.createElement("canvas").getContext("2d");
  probe.font = mono(theme);
  let [x, y] = [0, 0];
  return history.tokens.slice(0, shown).map((token, pos) => {
    const text = short(visible(token[1]), 30);
    const width = Math.ceil(probe.measureText(text).width) + 12;
    if (x + width > WIDTH) [x, y] = [0, y + STEP];
    const chip = { pos, token, text, width, x, y };
    x += width + 4;
    return chip;
  });
}

function draw(context, { pos, token, text, width, x, y }, bus, view, theme) {
  const { info, ctx, first, chosen, history } = view;
  const output = pos >= info.prompt_len;
  const p = bus.prefs.colour ? probabilityOf(history, pos) : null;
  const rgb = p === null ? null : theme.ramps.prob.at(Math.round(255 * p));
  const box = (inset) => {
    context.beginPath();
    context.roundRect(x + inset, y + inset, width - 2 * inset, CHIP - 2 * inset, token[3] & CONTROL ? 10 : 4);
  };
  context.fillStyle = rgb ? `rgb(${rgb.join(" ")})` : output ? theme.bg : theme.side;
  box(0);
  context.fill();
  context.lineWidth = pos === chosen ? 2 : 1;
  context.strokeStyle = pos === chosen ? theme.blue : theme.line2;
  box(context.lineWidth / 2);
  const forced = output && history.meta[history.stepOfToken[pos] - 1]?.forced;
  if (forced) context.strokeStyle = theme.violet;
  if (output || token[3] & CONTROL || rgb) context.stroke();
  context.fillStyle = rgb ? inkOn(rgb) : theme.text;
  context.font = mono(theme);
  context.textBaseline = "middle";
  context.fillText(text, x + 6, y + CHIP / 2);
  context.fillStyle = theme.blue;
  if (pos >= first && pos < ctx) context.fillRect(x + 3, y + CHIP - 3, width - 6, 2);
}
