// Attention as tables: the row looked at, all heads in a line each, and the whole of the large head.

import * as col from "../shared/columns.js";
import { headWindow } from "./window.js";

/** Which earlier tokens the row looked at reads, in the head chosen. */
export function rowTable(bus, view) {
  const { history, q } = view;
  const values = q >= 0 && bus.head ? history.row(...bus.head, q) : null;
  if (!values) return null;
  const exact = history.exactRow(...bus.head, q);
  return {
    id: "row",
    name: `layer ${bus.head[0]} head ${bus.head[1]} row ${q}`,
    columns: [
      col.index("position read"),
      col.token("token read"),
      col.index("id"),
      exact
        ? col.percent("attention", history.source.attention)
        : col.attention("attention", history.source.attention),
    ],
    count: q + 1,
    order: [3, "descending"],
    focus: null,
    position: (k) => k,
    row: (k) => [
      k,
      history.tokens[k],
      history.tokens[k][0],
      exact ? col.hundredfold(exact[k]) : col.weight(values[k]),
    ],
  };
}

/** One line a head: what its row reads most. */
export function headsTable(bus, view) {
  const { history, info, q } = view;
  const all = q >= 0 ? history.rowsOf(q) : null;
  if (!all) return null;
  const n = q + 1;
  const group = info.num_heads / info.num_kv_heads;
  const { attention } = history.source;
  return {
    id: "heads",
    name: `all heads row ${q}`,
    columns: [
      col.index("layer"),
      col.index("head"),
      col.index("KV head"),
      col.index("reads most at"),
      col.token("reads most"),
      col.attention("attention", attention),
      col.attention("on the first token", attention),
      col.attention("on itself", attention),
    ],
    count: info.num_layers * info.num_heads,
    focus: bus.head ? bus.head[0] * info.num_heads + bus.head[1] : null,
    row(i) {
      const head = i % info.num_heads;
      const values = all.subarray(i * n, (i + 1) * n);
      let best = 0;
      for (let k = 1; k < n; k++) if (values[k] > values[best]) best = k;
      return [
        Math.floor(i / info.num_heads),
        head,
        Math.floor(head / group),
        best,
        history.tokens[best],
        ...[best, 0, q].map((k) => col.weight(values[k])),
      ];
    },
  };
}

/** Every cell of the large head: a query reads a key. */
export function patternTable(bus, view) {
  const { history, ctx } = view;
  if (!ctx || !bus.head) return null;
  const [from, to] = headWindow(view, bus.prefs.window);
  const n = to - from;
  const [layer, head] = bus.head;
  return {
    id: "pattern",
    name: `layer ${layer} head ${head} positions ${from} to ${to - 1}`,
    columns: [
      col.index("query position"),
      col.token("query token"),
      col.index("key position"),
      col.token("key token"),
      col.attention("attention", history.source.attention),
    ],
    count: (n * (n + 1)) / 2,
    at(place) {
      const [line, k] = cell((n * (n + 1)) / 2 - 1 - place); // the newest query first, its keys from left to right
      return (line * (line + 1)) / 2 + line - k;
    },
    focus: null,
    position: (i) => from + cell(i)[1],
    row(i) {
      const [q, k] = cell(i).map((x) => from + x);
      return [q, history.tokens[q], k, history.tokens[k], col.weight(history.row(layer, head, q)?.[k])];
    },
  };
}

// Row i of a triangle written line by line -> [line, place in it].
function cell(i) {
  const line = Math.floor((Math.sqrt(8 * i + 1) - 1) / 2);
  return [line, i - (line * (line + 1)) / 2];
}
