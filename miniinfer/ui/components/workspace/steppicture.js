// "This step" as a drawing: where the time went, and the time of every step.

import * as format from "../shared/format.js";
import { font } from "../shared/picture.js";
import { origin } from "./pictures.js";
import { STAGES, paintTimes } from "./steptimes.js";

const WIDTH = 560;
const ROW = 22;
const TIMES = 110; // height of the bars by step

export function stepPicture(bus, view, theme) {
  const { meta, history } = view;
  if (!meta) return null;
  const rows = meta.stages ? STAGES.length : 0;
  const through = format.plural(meta.n, "token");
  return {
    theme,
    title: `Step ${meta.step}: ${format.ms(meta.ms)}, ${meta.phase} of ${through}`,
    lines: [
      `${meta.weights_read === null ? "" : `Weights read: ${format.bytes(meta.weights_read)}; `}${meta.kv_read === null ? "" : `KV cache read: ${format.bytes(meta.kv_read)}; `}${format.plural(meta.ctx, "position")} in the cache after the step.`,
      "Above: time of this step by stage. Below: time of each step, this one in blue, prefill dark.",
      origin(view),
    ],
    width: WIDTH,
    height: rows * ROW + 16 + TIMES,
    dpr: Math.max(1, window.devicePixelRatio || 1),
    parts: [
      (context) => {
        if (rows) stages(context, meta.stages, theme);
        context.translate(0, rows * ROW + 16);
        paintTimes(context, view, theme, WIDTH, TIMES);
      },
    ],
  };
}

function stages(context, times, theme) {
  const most = Math.max(...Object.values(times), 1e-9);
  const colour = { attention: theme.blue, sampling: theme.amber };
  context.textBaseline = "middle";
  context.font = font(theme, 12);
  STAGES.forEach(([id, name], i) => {
    const y = i * ROW;
    context.fillStyle = theme.text;
    context.textAlign = "left";
    context.fillText(name, 0, y + ROW / 2);
    context.textAlign = "right";
    context.fillText(format.ms(times[id] ?? 0), WIDTH, y + ROW / 2);
    context.fillStyle = theme.hover;
    context.fillRect(84, y + 6, WIDTH - 164, 10);
    context.fillStyle = colour[id] ?? theme.text2;
    context.fillRect(84, y + 6, ((WIDTH - 164) * (times[id] ?? 0)) / most, 10);
  });
}
