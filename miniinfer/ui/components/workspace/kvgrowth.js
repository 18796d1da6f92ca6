// Bytes against positions, on the same horizontal axis as the cells: used is a straight line, allocated a staircase,
// and the dashed line is the same cache without grouped-query attention.

import * as format from "../shared/format.js";
import { setFont } from "../shared/canvas.js";

export function drawGrowth(context, g, { info, ctx }, theme) {
  if (g.growth < 34) return;
  const ratio = info.num_heads / info.num_kv_heads;
  const most = g.slots * g.per * Math.max(1, ratio);
  const x = (pos) => g.x + pos * g.col;
  const y = (bytes) => g.growthBottom - ((g.growthBottom - g.growthTop) * bytes) / most;
  context.fillStyle = theme.line;
  context.fillRect(g.x, g.growthBottom, g.slots * g.col, 1);

  // The stairs of the blocks held.
  context.fillStyle = theme.side;
  context.strokeStyle = theme.line2;
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(x(0), g.growthBottom);
  for (let p = 0; p < g.allocated; p += g.block) {
    context.lineTo(x(p), y((p + g.block) * g.per));
    context.lineTo(x(p + g.block), y((p + g.block) * g.per));
  }
  context.lineTo(x(g.allocated), g.growthBottom);
  context.fill();
  context.stroke();

  line(context, [x(0), g.growthBottom], [x(g.slots), y(g.slots * g.per)], theme.line2, 1, []);
  line(context, [x(0), g.growthBottom], [x(ctx), y(ctx * g.per)], theme.teal, 2.5, []);
  if (ratio > 1)
    line(context, [x(0), g.growthBottom], [x(g.slots), y(g.slots * g.per * ratio)], theme.text2, 1.2, [4, 4]);
  context.fillStyle = theme.teal;
  context.beginPath();
  context.arc(x(ctx), y(ctx * g.per), 3.5, 0, 7);
  context.fill();

  setFont(context, `11px ${theme.font}, sans-serif`);
  context.textBaseline = "middle";
  context.textAlign = "right";
  const right = x(g.slots) - 4;
  context.fillStyle = theme.text2;
  if (ratio > 1) {
    const words = `without GQA: ${format.bytes(g.slots * g.per * ratio)} at ${format.count(g.slots)}`;
    const end = right - (30 / (g.growthBottom - g.growthTop)) * g.slots * g.col * 0.5;
    context.fillText(words, Math.max(g.x + context.measureText(words).width, end), g.growthTop + 5);
  }
  context.fillText(`${format.bytes(g.slots * g.per)} at ${format.count(g.slots)}`, right, y(g.slots * g.per) - 8);
}

function line(context, from, to, colour, width, dash) {
  context.setLineDash(dash);
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.beginPath();
  context.moveTo(...from);
  context.lineTo(...to);
  context.stroke();
  context.setLineDash([]);
}
