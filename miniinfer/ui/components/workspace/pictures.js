// What "Save picture as PNG" draws: the canvases of a panel with a title and the text that explains them.

import * as format from "../shared/format.js";
import { quoted } from "../shared/tokens.js";
import { ATTENTION_TICKS } from "./legend.js";
import { weights } from "./weights.js";

/** "step 5 of “The capital …”, SmolLM2 · CPU · float32, temperature 0.8, seed 0" */
export function origin({ info, cursor, history }) {
  const { temperature, top_p: p, top_k: k, seed } = info.params;
  const filters = [k ? `top-k ${k}` : "", p < 1 ? `top-p ${p}` : ""].filter(Boolean).map((text) => `, ${text}`);
  const made = info.kind === "recorded" ? "recorded run of" : "run of";
  return `Step ${cursor} of “${info.name}”, a ${made} ${info.model} on ${info.device} in ${info.dtype} by ${info.backend}; temperature ${temperature}${filters.join("")}, seed ${seed}. Figures: ${sources(history.source)}.`;
}

const sources = (source) => [...new Set([source.attention, source.ms])].filter(Boolean).join(", times ");

export function attentionPicture(bus, view, theme, { heads, big }) {
  const { history, q } = view;
  if (q < 0 || !bus.head || !heads.width) return null;
  const [layer, head] = bus.head;
  const values = weights(history, bus.head, q);
  const keys = values ? Array.from({ length: q + 1 }, (_, k) => k) : [];
  const best = keys.sort((a, b) => values.share(b) - values.share(a)).slice(0, 3);
  const reads = best.map((k) => `${quoted(history.tokens[k])} ${values.text(k)}`).join(", ");
  const cells =
    bus.prefs.map === "patterns" ? "each cell is a head's whole pattern" : `each cell is the row of position ${q}`;
  const gap = 24;
  return {
    theme,
    title: `Attention: layer ${layer}, head ${head}`,
    lines: [
      `${quoted(history.tokens[q])} at position ${q} reads ${reads || "nothing that is here"}.`,
      `Left: all heads, layers down, heads across; ${cells}. Right: the head framed at the left; queries down, keys across.`,
      origin(view),
    ],
    scale: { ramp: theme.ramps.attention, ticks: ATTENTION_TICKS, label: "attention, square-root scale" },
    width: heads.width + gap + big.width,
    height: Math.max(heads.height, big.height),
    dpr: heads.dpr,
    parts: [...layersOf(heads, 0), ...layersOf(big, heads.width + gap)],
  };
}

export function kvPicture(bus, view, theme, { canvas, written }) {
  const { info, meta, history, ctx } = view;
  if (!meta || !canvas.width) return null;
  const value = bus.prefs.norm === "v";
  const range = history.kvRange[value ? 1 : 0];
  const per = 2 * info.num_layers * info.num_kv_heads * info.head_dim * info.itemsize;
  const ratio = info.num_heads / info.num_kv_heads;
  return {
    theme,
    title: `KV cache: ${format.plural(ctx, "position")}, ${format.bytes(meta.kv_used)}`,
    lines: [
      `2 (K and V) × ${info.num_layers} layers × ${info.num_kv_heads} KV heads × ${info.head_dim} numbers a head × ${info.itemsize} B = ${format.bytesExact(per)} per token.`,
      `Used ${format.bytes(meta.kv_used)}, allocated ${format.bytes(meta.kv_alloc)}, ${meta.kv_reserved === null ? "" : `reserved ${format.bytes(meta.kv_reserved)}`}${ratio > 1 ? `; without GQA ${format.bytes(meta.kv_used * ratio)}` : ""}.`,
      "Layers down, positions across, hatched: allocated, empty; framed: written in this step. Below: bytes against positions.",
      origin(view),
    ],
    scale: range && {
      ramp: theme.ramps.kv,
      ticks: [
        [0, format.sig3(range[0])],
        [1, format.sig3(range[1])],
      ],
      label: `length of the cached ${value ? "values" : "keys"}`,
    },
    width: canvas.width,
    height: canvas.height,
    dpr: canvas.dpr,
    parts: [...layersOf(canvas, 0), (context) => frame(context, written(), theme)],
  };
}

function frame(context, box, theme) {
  if (!box) return;
  context.strokeStyle = theme.blue;
  context.lineWidth = 2;
  context.strokeRect(box.x + 1, box.y + 1, box.width - 2, box.height - 2);
}

const layersOf = ({ contexts }, x) => [
  [contexts.base.canvas, x, 0],
  [contexts.over.canvas, x, 0],
];
