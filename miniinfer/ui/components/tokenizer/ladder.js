// One piece on its way to tokens: a column for each byte, a row for each merge. Which pair wins, and why.

import { h, setAttr, setText, show } from "../shared/dom.js";
import { fileName, savePng } from "../shared/export.js";
import * as format from "../shared/format.js";
import { icon } from "../shared/icons.js";
import { visible } from "../shared/tokens.js";
import { createPairs } from "./pairs.js";
import { ladderPicture } from "./picture.js";
import { characters, replay } from "./replay.js";

const MOST_TITLE = 60; // characters of a piece in the title
const MOST_IDS = 256; // so many of a piece's ids are in the message (figures/tokenizer/payload.py)

export function createLadder() {
  const title = h("span", { class: "ladder-title", "data-testid": "ladder-title" });
  const say = h("p", { class: "say", "data-testid": "ladder-say", "aria-live": "polite" });
  const count = h("span", { class: "num small quiet", "data-testid": "ladder-step" });
  const buttons = [
    ["first", "Before the first merge", () => go(0)],
    ["back", "One merge back", () => go(at - 1)],
    ["forward", "One merge on", () => go(at + 1)],
    ["last", "After the last merge", () => go(states.length - 1)],
  ].map(([name, label, click]) =>
    h(
      "button",
      { type: "button", title: label, "aria-label": label, "data-testid": `ladder-${name}`, on: { click } },
      icon(name),
    ),
  );
  const png = h("button", {
    type: "button",
    text: "Save PNG",
    "data-testid": "ladder-png",
    on: { click: () => savePng(fileName("merges", piece[0]) || "merges", ladderPicture(theme, sentence(), piece, states.slice(0, at + 1))) },
  });
  const head = h("header", {}, title, h("span", { class: "step" }, buttons[0], buttons[1], count, buttons[2], buttons[3]), png);
  const body = h("div", { class: "rungs", tabindex: "-1", "data-testid": "ladder" });
  const pairs = createPairs();
  const scroller = h("div", { class: "ladder-body" }, body, pairs.root);
  const root = h("section", { class: "ladder", "aria-label": "Merges of one piece" }, head, say, scroller);
  let piece = null;
  let number = null;
  let states = [];
  let at = 0;
  let theme = null;

  function open(data, chosen) {
    number = chosen;
    piece = data.pieces[chosen];
    const [text, rule, , , ids] = piece;
    const signs = [...visible(text)];
    const shown = signs.length > MOST_TITLE ? [...signs.slice(0, MOST_TITLE), "…"] : signs;
    setText(title, `Piece ${chosen}: “${shown.join("")}”, cut out as ${rule}`);
    states = piece[7] ? replay(piece) : [];
    show(scroller, states.length > 0);
    buttons.forEach((button) => (button.hidden = !states.length));
    show(png, states.length > 0);
    if (!states.length) {
      setText(count, "");
      const tokens = ids.length < MOST_IDS ? format.plural(ids.length, "token") : `${MOST_IDS} or more tokens`;
      return setText(say, `This piece is too long to be drawn; the table of merges has its steps. It has ${tokens}.`);
    }
    at = states.length - 1;
    build();
    go(at);
  }

  function build() {
    const [text, , hex, symbols, ids, whole] = piece;
    body.style.setProperty("--columns", String(hex.length / 2));
    const bytes = hex.match(/../g) ?? [];
    body.replaceChildren(
      row("characters", characters(text).map(([char, from, to]) => cell(visible(char), from, to, "char"))),
      row("bytes", bytes.map((byte, i) => cell(byte.toUpperCase(), i, i + 1, "byte"))),
      row("byte alphabet", [...symbols].map((char, i) => cell(char, i, i + 1, "symbol"))),
      ...states.map((state, i) => rung(state, i)),
      row(
        ids.length === 1 ? "id" : "ids",
        (whole ? [[0, bytes.length]] : states.at(-1).parts).map(([from, to], i) => cell(String(ids[i]), from, to, "id")),
        "ids",
      ),
    );
  }

  function rung({ parts, ranks, winner }, i) {
    const chars = [...piece[3]];
    const boxes = parts.map(([from, to], k) => {
      const box = cell(chars.slice(from, to).join(""), from, to, "part");
      if (winner !== null && (k === winner || k === winner + 1)) box.classList.add("wins");
      if (i > 0 && from === piece[7][i - 1][1]) box.classList.add("merged");
      if (k < ranks.length) {
        const badge = h("span", { class: "rank", text: ranks[k] === null ? "·" : String(ranks[k]) });
        if (k === winner) badge.classList.add("wins");
        box.append(badge);
      }
      return box;
    });
    const name = i === 0 ? "at first" : `after merge ${i}`;
    const el = row(name, boxes, "rung");
    el.dataset.testid = `rung-${i}`;
    el.addEventListener("click", () => go(i));
    return el;
  }

  function go(to) {
    at = Math.max(0, Math.min(states.length - 1, to));
    const rungs = body.querySelectorAll(".rung");
    rungs.forEach((el, i) => {
      show(el, i <= at);
      el.classList.toggle("now", i === at);
    });
    show(body.querySelector(".row.ids"), at === states.length - 1);
    setText(count, `merge ${at} of ${states.length - 1}`);
    buttons.forEach((button, i) => setAttr(button, "aria-disabled", String(i < 2 ? at === 0 : at === states.length - 1)));
    setText(say, sentence());
    pairs.show([...piece[3]], states, at);
    settle();
  }

  // Keep the newest row in sight, also once the style sheet is there and the rows have their places.
  function settle() {
    const now = body.querySelector(".rung.now");
    if (!now || scroller.scrollHeight <= scroller.clientHeight) return;
    scroller.scrollTop = at === states.length - 1 ? scroller.scrollHeight : now.offsetTop - scroller.clientHeight / 2;
  }

  const observer = new ResizeObserver(settle);
  observer.observe(scroller);

  function sentence() {
    const { parts, ranks, winner } = states[at];
    const [, , , symbols, ids, whole] = piece;
    if (whole) return "This vocabulary takes a piece that is itself a token as it is: nothing is merged.";
    const chars = [...symbols];
    const ruled = ranks.filter((rank) => rank !== null);
    if (winner === null) {
      const left = parts.length === 1 ? "One part is left" : `No two of the ${parts.length} neighbours that are left have a rule`;
      return `${left}: ${ids.length === 1 ? "this is the token" : "these are the tokens"}. The numbers between parts are ranks; a dot is a pair without a rule.`;
    }
    const text = (k) => chars.slice(...parts[k]).join("");
    const rank = format.count(ranks[winner]);
    const equal = ruled.filter((other) => other === ranks[winner]).length;
    const next = ruled.filter((other) => other !== ranks[winner]).sort((a, b) => a - b)[0];
    const why =
      ruled.length === 1
        ? "it is the only pair that has a rule"
        : equal > 1
          ? `it is the lowest rank, and of ${equal} equal pairs the leftmost`
          : `it is the lowest of ${ruled.length} ranks; the next is ${format.count(next)}`;
    return `Merge ${at + 1} joins “${text(winner)}” and “${text(winner + 1)}”, rank ${rank}: ${why}.`;
  }

  return {
    root,
    show: open,
    useTheme: (next) => (theme = next),
    stop: () => observer.disconnect(),
    get piece() {
      return number;
    },
  };
}

function row(name, cells, kind = "") {
  return h("div", { class: `row ${kind}` }, h("span", { class: "row-name", text: name }), h("div", { class: "cells" }, cells));
}

function cell(text, from, to, kind) {
  return h("span", { class: `cell ${kind}`, style: { "grid-column": `${from + 1} / ${to + 1}` } }, h("span", { class: "in", text, dir: "auto" }));
}
