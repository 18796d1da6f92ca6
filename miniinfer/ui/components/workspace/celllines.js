// What the tooltip says of one cell of an attention pattern.

import * as format from "../shared/format.js";
import { quoted } from "../shared/tokens.js";
import { roughly, weights } from "./weights.js";

/** Lines of [name, value] for what query position q gives key position k in one head. */
export function cellLines({ history }, layer, head, q, k) {
  const row = weights(history, [layer, head], q);
  return [
    ["layer, head", `${layer}, ${head}`],
    ["query → key", `${quoted(history.tokens[q], 12)} ${format.count(q)} → ${format.count(k)}`],
    ["attention", row ? row.text(k) : (pooledText(history, [layer, head], q, k) ?? "not fetched")],
  ];
}

// A long pattern is here only as the largest weight of each cell of positions.
function pooledText({ pooled }, [layer, head], q, k) {
  const map = pooled.get(`${layer}.${head}`);
  if (!map || q >= map.to) return null;
  const value = map.cells[Math.floor(q / map.cell) * map.size + Math.floor(k / map.cell)];
  return `${value ? "at most " : ""}${roughly(value)} (${map.cell} × ${map.cell} positions)`;
}
