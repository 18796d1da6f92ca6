// The candidates for the next token as a table; the last row is the rest of the vocabulary.

import * as format from "../shared/format.js";
import * as col from "../shared/columns.js";
import { interval } from "./cumulative.js";
import { CUTS } from "./cuts.js";

export function candidateTable(bus, view) {
  const { next, history } = view;
  if (!next) return null;
  const source = history.source.next;
  const ends = next.ids.map((_, i) => interval(next, i));
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
        return [null, name, ...odds(used, raw), "", "", ...(used > 0 ? place([1 - used - apart(next, ends), 1]) : NOWHERE), null];
      }
      const cut = next.cut[i];
      const taken = next.ids[i] !== next.token ? "" : next.forced ? "forced" : next.greedy ? "the best one" : "drawn";
      return [
        next.ids[i] === next.token && apart(next, ends) ? null : i + 1,
        next.toks[i],
        ...odds(next.used[i], next.raw[i]),
        cut ? (CUTS[cut] ?? cut) : "",
        taken,
        ...(next.used[i] > 0 ? place(ends[i]) : NOWHERE),
        next.ids[i],
      ];
    },
  };
}

const NOWHERE = [null, null];
const place = ([from, to]) => [col.float32(from), col.float32(to)];

// The share of a chosen token that stands among the others, between the candidates and the end of the bar.
function apart({ ids, used, token }, ends) {
  const i = ids.indexOf(token);
  return i > 0 && ends[i][0] - ends[i - 1][1] > 1e-5 ? used[i] : 0;
}
