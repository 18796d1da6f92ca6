// The KV cache as tables: how long each cached vector is, and how many bytes it all takes.

import * as format from "../shared/format.js";
import * as col from "../shared/columns.js";

export function lengthsTable(bus, view) {
  const { history, info, ctx } = view;
  const held = Math.min(ctx, history.kvCount);
  if (!held) return null;
  const { kv } = history.source;
  const place = (i) => Math.floor(i / info.num_layers);
  return {
    id: "lengths",
    name: "lengths",
    columns: [
      col.index("position"),
      col.token("token"),
      col.index("block"),
      col.index("slot"),
      col.index("layer"),
      col.length("length of K", kv),
      col.length("length of V", kv),
    ],
    count: held * info.num_layers,
    at: (i) => (held - 1 - place(i)) * info.num_layers + (i % info.num_layers), // the newest position first
    focus: null,
    position: place,
    row(i) {
      const pos = place(i);
      const layer = i % info.num_layers;
      return [
        pos,
        history.tokens[pos],
        Math.floor(pos / info.block_size),
        pos % info.block_size,
        layer,
        col.float32(history.norm(layer, pos, 0)),
        col.float32(history.norm(layer, pos, 1)),
      ];
    },
  };
}

export function bytesTable(bus, { history, info, meta, ctx }) {
  if (!meta) return null;
  const per = 2 * info.num_layers * info.num_kv_heads * info.head_dim * info.itemsize;
  const factors = `2 × ${info.num_layers} layers × ${info.num_kv_heads} KV heads × ${info.head_dim} × ${info.itemsize} B`;
  const ratio = info.num_heads / info.num_kv_heads;
  const rows = [
    ["per token", per, factors],
    ["used", meta.kv_used, `${format.plural(ctx, "position")} × ${format.bytesExact(per)}`],
    ["allocated", meta.kv_alloc, `blocks of ${info.block_size} positions held by this sequence`],
    ["reserved", meta.kv_reserved, "storage of the whole pool"],
    ["without GQA", meta.kv_used * ratio, `used × ${info.num_heads} query heads / ${info.num_kv_heads} KV heads`],
  ];
  return {
    id: "bytes",
    name: "bytes",
    columns: [col.text("what", 110), col.bytes("size", history.source.kv), col.text("how it comes about", 300)],
    count: rows.length,
    focus: null,
    row: (i) => rows[i],
  };
}
