// The draw itself: all probabilities end to end, and the coin that falls on one of them.

import { h, setText, show } from "../shared/dom.js";
import * as format from "../shared/format.js";
import { quoted } from "../shared/tokens.js";

export function createCumulative(bus) {
  const track = h("div", { class: "cumulative", role: "img", "data-testid": "next-cumulative" });
  const pin = h("div", { class: "coin", "data-testid": "next-coin" });
  const words = h("p", { class: "coin-words small", "data-testid": "next-coin-words" });
  const root = h("div", { class: "draw" }, h("div", { class: "cumulative-box" }, track, pin), words);
  const parts = [];
  let now = null;

  track.addEventListener("pointermove", (event) => {
    const i = parts.indexOf(event.target);
    if (i < 0 || !now) return bus.setHover(null);
    const { next, view } = now;
    const [lo, hi] = interval(next, i);
    const lines = [
      ["share of the bar", format.percent(next.used[i])],
      ["from, to", `${format.coin(lo)}, ${format.coin(hi)}`],
    ];
    bus.setHover({
      src: "cumulative",
      key: `cum:${view.q}.${i}`,
      pos: next.ids[i] === next.token ? view.q + 1 : null,
      token: next.toks[i],
      candidate: i,
      lines,
      x: event.clientX,
      y: event.clientY,
    });
  });
  track.addEventListener("pointerleave", () => bus.setHover(null));

  function paint(next, view) {
    now = { next, view };
    while (parts.length < next.ids.length) parts.push(track.appendChild(h("i", { class: "part" })));
    parts.forEach((part, i) => {
      const share = next.used[i] ?? 0;
      show(part, share > 0);
      part.style.left = `${100 * interval(next, i)[0]}%`;
      part.style.width = `${100 * share}%`;
      part.classList.toggle("drawn", next.ids[i] === next.token);
      part.classList.toggle("forced", next.forced && next.ids[i] === next.token);
    });
    const drawn = next.coin !== null && next.token !== null;
    show(pin, drawn);
    pin.classList.toggle("unused", next.greedy || next.forced);
    if (drawn) pin.style.transform = `translateX(${100 * next.coin}%)`;
    setText(words, sentence(next));
    track.setAttribute("aria-label", sentence(next));
  }

  function hover(at) {
    const i = at?.src === "cumulative" || at?.src === "next" ? at.candidate : -1;
    parts.forEach((part, n) => part.classList.toggle("lit", n === i));
  }

  return { root, paint, hover };
}

/** Where candidate i lies on the bar. They stand side by side from 0 on, but for a chosen one from far down the list: it
 * has its own place among the others that are not shown. */
export function interval(next, i) {
  const own = next.ids[i] === next.token && next.lo !== null && Math.abs(next.hi - next.lo - next.used[i]) < 1e-5;
  if (own) return [next.lo, next.hi];
  let lo = 0;
  for (let k = 0; k < i; k++) lo += next.used[k];
  return [lo, lo + next.used[i]];
}

const ROUNDING = 0.01; // logits: another order of additions moves a logit by less

// The best two so close that another batch shape, thread count or precision may choose the other one.
function tie({ ids, toks, raw, token }) {
  const [first, second] = ids.map((_, i) => i).sort((a, b) => raw[b] - raw[a]);
  if (second === undefined || ![ids[first], ids[second]].includes(token)) return "";
  const gap = Math.log(raw[first] / raw[second]);
  if (!(gap < ROUNDING)) return "";
  const other = toks[ids[first] === token ? second : first];
  return ` ${quoted(other, 14)} is ${gap.toPrecision(1)} logits away: a tie within rounding.`;
}

/** What the draw did, in a sentence. */
export function sentence(next) {
  if (next.token === null) return "No draw here: this token stands in the prompt.";
  const name = quoted(next.toks[next.ids.indexOf(next.token)] ?? [next.token, "?", "", 0], 14);
  const coin = next.coin === null ? "" : `; the coin ${format.coin(next.coin)} is not used`;
  if (next.forced) return `${name} was forced${coin}.`;
  if (next.greedy) return `Greedy: the best token, ${name}, is taken${coin}.${tie(next)}`;
  if (next.coin === null) return `${name} was taken.`;
  return `The coin ${format.coin(next.coin)} falls on ${name}, which holds ${format.coin(next.lo)} to ${format.coin(next.hi)}.`;
}
