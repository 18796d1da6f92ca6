// The pairs of neighbours at one step of a piece, those with a rule first, the lowest rank on top; at the end, the merges that were made.

import { h, setText, show } from "../shared/dom.js";
import * as format from "../shared/format.js";

const MOST = 14;

export function createPairs() {
  const title = h("b");
  const list = h("tbody", { "data-testid": "pairs" });
  const rest = h("p", { class: "quiet small" });
  const table = h(
    "table",
    {},
    h("thead", {}, h("tr", {}, h("th", { class: "num", text: "rank" }), h("th", { text: "pair" }), h("th", { text: "becomes" }))),
    list,
  );
  const root = h("div", { class: "pairs" }, title, table, rest);

  function update(chars, states, at) {
    const ended = at === states.length - 1;
    setText(title, ended ? "Which merges were made, in order?" : "Which pairs are there?");
    const found = ended ? states.slice(0, -1).map((state) => pair(state, state.winner)) : sorted(states[at]);
    list.replaceChildren(...found.slice(0, MOST).map(({ parts, rank, k, winner }) => line(chars, parts, rank, k, !ended && k === winner)));
    show(table, found.length > 0);
    const more = Math.max(0, found.length - MOST);
    setText(rest, !found.length ? "None." : more ? `${format.plural(more, ended ? "more merge" : "more pair")}` : "");
  }

  return { root, show: update };
}

const pair = ({ parts, ranks, winner }, k) => ({ parts, rank: ranks[k], k, winner });

const sorted = (state) =>
  state.ranks
    .map((_, k) => pair(state, k))
    .sort((a, b) => (a.rank ?? Infinity) - (b.rank ?? Infinity) || a.k - b.k);

function line(chars, parts, rank, k, wins) {
  const text = (i) => chars.slice(...parts[i]).join("");
  return h(
    "tr",
    { class: wins ? "wins" : rank === null ? "quiet" : "" },
    h("td", { class: "num", text: rank === null ? "no rule" : format.count(rank) }),
    h("td", { class: "mono", text: `${text(k)} + ${text(k + 1)}` }),
    h("td", { class: "mono", text: rank === null ? "" : text(k) + text(k + 1) }),
  );
}
