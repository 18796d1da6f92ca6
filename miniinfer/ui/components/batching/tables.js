// The numbers of each panel as a table: the steps, the requests, the rows of a step and their candidates, the blocks.

import * as col from "../shared/columns.js";
import { count } from "../shared/format.js";
import { readable } from "../shared/tokens.js";

/** What tables and pictures look at, or null where no step is looked at. */
export function look(batch) {
  const { info, cursor, source } = batch;
  return info ? { info, cursor, source, step: batch.steps[cursor - 1] ?? null } : null;
}

const number = (name, source) => col.whole(name, source);

export function stepsTable(batch) {
  const { times, counts } = batch.source;
  if (!batch.last) return null;
  return {
    id: "steps",
    columns: [
      col.index("step"), col.ms("time", times), col.ms("end", times), number("rows", counts), number("tokens", counts),
      number("padding", counts), number("idle", counts), number("new tokens", counts), col.text("waiting", 110),
      col.text("the first waits for"), col.text("preempted"), number("blocks used", counts), number("shared", counts),
      number("kept free", counts),
    ],
    count: batch.last,
    focus: batch.cursor ? batch.cursor - 1 : null,
    row(i) {
      const s = batch.steps[i];
      return [
        s.step, s.ms, s.end, s.rows.length, s.tokens, s.padding, s.idle, s.new, names(batch, s.waiting), s.waits_for ?? "",
        names(batch, s.preempted), s.used, s.num_shared, s.cached_free,
      ];
    },
  };
}

export function requestsTable(batch, { info, step }) {
  const { times, counts } = batch.source;
  return {
    id: "requests",
    columns: [
      col.index("no."), col.text("request", 90), col.text("is", 90), col.text("ended"), number("arrives after step", counts),
      number("prompt tokens", counts), number("output tokens", counts), number("at most", counts), col.ms("TTFT", times),
      col.ms("TPOT", times), number("preemptions", counts), number("from the prefix cache", counts),
      number("computed again", counts), col.text("sampler", 160), col.text("prompt", 240),
    ],
    count: info.requests.length,
    focus: null,
    hover: (request) => ({ request }),
    row(i) {
      const r = info.requests[i];
      const [ttft, tpot, out, preempted, cached, again, reason] = step?.requests[i] ?? [null, null, 0, 0, 0, 0, null];
      const ended = r.refused || batch.aborted[i] <= batch.cursor ? "abort" : (reason ?? "");
      return [
        i + 1, readable(r.id), batch.stateOf(i), ended, r.arrival, r.tokens, out, r.max_new, ttft, tpot, preempted, cached, again,
        r.sampler, readable(r.prompt),
      ];
    },
  };
}

export function rowsTable(batch, { info, step }) {
  const { counts } = batch.source;
  if (!step?.rows.length) return null;
  return {
    id: "rows",
    columns: [
      col.index("no."), col.text("request", 90), col.text("phase", 70), col.index("first position"), number("tokens", counts),
      number("padding", counts), number("cached", counts), number("computed again", counts), number("in cache after", counts),
      col.token("chosen"), col.index("id"), col.percent("drawn with", counts), col.share("coin", counts),
      col.length("margin", counts), col.text("ends"),
    ],
    count: step.rows.length,
    focus: null,
    hover: (i) => ({ request: step.rows[i].r }),
    row(i) {
      const r = step.rows[i];
      return [
        r.r + 1, readable(info.requests[r.r].id), r.phase, r.start, r.n, r.pad, r.cached, r.again, r.ctx, r.token ?? "none", r.token?.[0] ?? null,
        r.token ? col.hundredfold(r.prob) : null, r.coin, r.margin, r.ended ?? "",
      ];
    },
  };
}

export function candidatesTable(batch, { info, step }) {
  const { counts } = batch.source;
  const all = (step?.rows ?? []).flatMap((row) => row.top.map((one, i) => [row, i, one]));
  if (!all.length) return null;
  return {
    id: "candidates",
    columns: [
      col.index("no."), col.text("request", 90), col.index("rank"), col.token("token"), col.index("id"), col.percent("model", counts),
      col.percent("used", counts), col.text("chosen"),
    ],
    count: all.length,
    focus: null,
    hover: (i) => ({ request: all[i][0].r }),
    row(i) {
      const [row, rank, [token, raw, used]] = all[i];
      const chosen = token[0] === row.token?.[0] ? "chosen" : "";
      return [row.r + 1, readable(info.requests[row.r].id), rank + 1, token, token[0], col.hundredfold(raw), col.hundredfold(used), chosen];
    },
  };
}

export function blocksTable(batch, { info, step }, pool) {
  const { counts } = batch.source;
  if (!step) return null;
  return {
    id: "blocks",
    columns: [
      col.index("block"), col.text("is", 90), col.text("owners", 140), number("owners, number", counts),
      number(`filled of ${count(info.block_size)}`, counts), col.bytes("size", counts),
    ],
    count: pool.count(),
    focus: null,
    hover: (b) => pool.hoverOf(b),
    row(b) {
      const { owners, kept, filled } = pool.hoverOf(b);
      const is = owners.length > 1 ? "shared" : owners.length ? "owned" : kept ? "free, kept" : "free";
      return [b, is, names(batch, owners), owners.length, filled, info.block_bytes];
    },
  };
}

const names = (batch, places) => places.map((r) => readable(batch.info.requests[r].id)).join(", ");
