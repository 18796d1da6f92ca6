// The candidates for the next token as a table; the last row is the rest of the vocabulary.

import * as format from "../shared/format.js";
import * as col from "../shared/columns.js";
import { CUTS } from "./cuts.js";

export function candidateTable(bus, view) {
  const { next, history } = view;
  if (!next) return null;
  const source = history.source.next;
  const ends = next.used.reduce((all, p) => [...all, all.at(-1) + p], [0]);
  return {
    id: "next",
    name: `after position ${view.q}`,
    columns: [
      col.index("rank"),
      col.token("token"),
      col.percent("used", source),
      col.percent("raw", source),
      col.text("cut by"),
      col.text("taken"),
      col.share("bar from", source),
      col.share("bar to", source),
      col.index("id"),
    ],
    count: next.ids.length + 1,
    focus: next.token === null ? null : next.ids.indexOf(next.token),
    row(i) {
      const odds = (used, raw) => [col.hundredfold(used), col.hundredfold(raw)];
      if (i === next.ids.length) {
        const { count, used, raw } = next.rest;
        const name = `${format.count(count)} others`;
        return [null, name, ...odds(used, raw), "", "", ...span(ends[i], used), null];
      }
      const cut = next.cut[i];
      const taken = next.ids[i] !== next.token ? "" : next.forced ? "forced" : next.greedy ? "the best one" : "drawn";
      return [
        i + 1,
        next.toks[i],
        ...odds(next.used[i], next.raw[i]),
        cut ? (CUTS[cut] ?? cut) : "",
        taken,
        ...span(ends[i], next.used[i]),
        next.ids[i],
      ];
    },
  };
}

const span = (from, share) => (share > 0 ? [col.float32(from), col.float32(from + share)] : [null, null]);
