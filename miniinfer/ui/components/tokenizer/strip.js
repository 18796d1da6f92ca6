// Tokens as chips, those of one piece side by side. A click selects the piece.

import { h } from "../shared/dom.js";
import { roving } from "../shared/roving.js";
import { CONTROL, setToken, SPLIT, visible } from "../shared/tokens.js";
import * as format from "../shared/format.js";

const COMPACT = 90; // from this many tokens on, ids move into the tooltip

export function createStrip({ title, fact, total, tokens }, { tip, select, light }) {
  const list = h("div", { class: "chips", role: "group", "aria-label": title || "Tokens", "data-testid": "token-strip" });
  list.classList.toggle("compact", tokens.length > COMPACT);
  const chips = tokens.map((token, i) => chip(token, i));
  let group = null;
  chips.forEach((el, i) => {
    const piece = tokens[i][4];
    if (piece === null || group?.piece !== piece) {
      group = { piece, el: h("span", { class: piece === null ? "piece alone" : "piece" }) };
      list.append(group.el);
    }
    group.el.append(el);
  });
  if (total > tokens.length)
    list.append(h("span", { class: "quiet small", text: `${format.count(total - tokens.length)} more tokens: the table has them` }));
  if (!tokens.length) list.append(h("span", { class: "quiet", text: "No tokens: the text is empty. Type something at the left." }));
  const head = title || fact ? h("div", { class: "strip-head" }, h("b", { text: title }), h("span", { class: "quiet", text: fact })) : null;
  const root = h("section", { class: "strip" }, head, list);

  list.addEventListener("pointermove", (event) => point(event.target.closest?.(".chip"), event.clientX, event.clientY));
  list.addEventListener("pointerleave", away);
  list.addEventListener("focusin", ({ target }) => {
    const box = target.getBoundingClientRect();
    if (target.matches(":focus-visible")) point(target.closest(".chip"), box.left, box.bottom);
  });
  list.addEventListener("focusout", away);
  list.addEventListener("click", ({ target }) => {
    const at = target.closest(".chip")?.dataset.pos;
    if (at !== undefined) select(tokens[at][4]);
  });

  const walk = roving(list, () => chips);
  walk.paint();

  function point(el, x, y) {
    if (!el) return away();
    const token = tokens[el.dataset.pos];
    tip.show(token, Number(el.dataset.pos), x, y);
    light([token[5], token[6]]);
  }

  function away() {
    tip.hide();
    light(null);
  }

  return {
    root,
    stop: walk.stop,
    mark(piece) {
      chips.forEach((el, i) => el.classList.toggle("selected", piece !== null && tokens[i][4] === piece));
      const el = chips[tokens.findIndex((token) => piece !== null && token[4] === piece)];
      if (!el || list.scrollHeight <= list.clientHeight) return;
      if (el.offsetTop < list.scrollTop || el.offsetTop + el.offsetHeight > list.scrollTop + list.clientHeight)
        list.scrollTop = el.offsetTop - list.clientHeight / 2;
    },
    light: (range) =>
      chips.forEach((el, i) => el.classList.toggle("lit", range !== null && tokens[i][5] < range[1] && tokens[i][6] > range[0])),
  };
}

function chip(token, i) {
  const text = h("span", { class: "chip-text", dir: "auto" });
  setToken(text, token);
  const el = h(
    "button",
    { class: "chip", type: "button", tabindex: "-1", "data-pos": i, "data-testid": `tok-${i}`, "data-writer": token[7] },
    text,
    h("span", { class: "chip-id", text: token[0] }),
  );
  el.classList.toggle("control", Boolean(token[3] & CONTROL));
  el.classList.toggle("split", Boolean(token[3] & SPLIT));
  el.setAttribute("aria-label", `${visible(token[1])}, position ${i}, id ${token[0]}, written by ${token[7]}`);
  return el;
}
