// All steps as a table: what went through the model, what it cost, what was chosen.

import * as col from "../shared/columns.js";

const STAGES = ["attention", "mlp", "unembed", "sampling", "bookkeeping"];

export function stepTable(bus, { history, info, cursor }) {
  if (!history.offered) return null;
  const { source } = history;
  const greedy = info.params.temperature === 0;
  return {
    id: "steps",
    columns: [
      col.index("step"),
      col.ms("time", source.ms),
      col.token("chosen"),
      col.text("phase"),
      col.whole("tokens through"),
      col.whole("positions in cache"),
      col.index("id"),
      col.text("how"),
      col.percent("drawn with", source.next),
      col.share("coin", source.next),
      ...STAGES.map((name) => col.ms(name === "mlp" ? "MLP" : name, source.ms)),
      col.bytes("weights read", source.read),
      col.bytes("KV cache read", source.read),
      col.bytes("KV used", source.kv),
      col.bytes("KV allocated", source.kv),
      col.bytes("KV reserved", source.kv),
    ],
    count: history.offered,
    focus: cursor > 0 && cursor <= history.offered ? cursor - 1 : null,
    position: (i) => history.meta[i].ctx - 1,
    row(i) {
      const m = history.meta[i];
      const token = m.token === null ? null : (history.tokens[m.ctx] ?? null);
      return [
        m.step,
        m.ms,
        token,
        m.phase,
        m.n,
        m.ctx,
        m.token,
        m.token === null ? "" : m.forced ? "forced" : greedy ? "the best one" : "drawn",
        m.logprob === null || m.forced ? null : col.hundredfold(Math.exp(m.logprob)),
        m.coin,
        ...STAGES.map((name) => m.stages?.[name] ?? null),
        m.weights_read,
        m.kv_read,
        m.kv_used,
        m.kv_alloc,
        m.kv_reserved,
      ];
    },
  };
}
