// What each stage did, the tokens, and the merges of the piece that is selected. All of it is in the message: no click reaches the server.

import { h, keepKeys, show } from "../shared/dom.js";
import { createLadder } from "./ladder.js";
import { createStrip } from "./strip.js";
import { createTip } from "./tip.js";

const EASY = 14; // bytes: among pieces up to here the one with the most merges is shown first

export function createView() {
  const tip = createTip();
  const stages = h("ol", { class: "stages", "data-testid": "stages" });
  const strips = h("div", { class: "strips" });
  const ladder = createLadder();
  const root = keepKeys(h("div", { class: "mi tokenizer", style: { visibility: "hidden" } }, stages, strips, ladder.root, tip.root));
  let made = [];
  let data = null;

  function update(next) {
    const before = data;
    data = next;
    show(stages, data.stages.length > 0);
    stages.replaceChildren(
      ...data.stages.map(([name, value, why]) =>
        h("li", { title: why }, h("span", { class: "quiet small", text: name }), h("span", { class: "num", text: value })),
      ),
    );
    made.forEach((strip) => strip.stop());
    made = data.strips.map((strip) => createStrip(strip, { tip, select, light }));
    strips.replaceChildren(...made.map((strip) => strip.root));
    show(ladder.root, data.pieces.length > 0);
    root.classList.toggle("with-ladder", data.pieces.length > 0);
    const same = before && JSON.stringify(before.pieces) === JSON.stringify(data.pieces);
    if (data.pieces.length && !(same && ladder.piece !== null)) select(telling(data));
    else mark();
  }

  function select(number) {
    if (number === null || !data.pieces[number]) return;
    ladder.show(data, number);
    mark();
  }

  const mark = () => made.forEach((strip) => strip.mark(data.pieces.length ? ladder.piece : null));

  // The bytes under the pointer are lit in every strip, so that two tokenizers can be compared.
  function light(range) {
    made.forEach((strip) => strip.light(range));
  }

  function stop() {
    tip.hide();
    made.forEach((strip) => strip.stop());
    ladder.stop();
  }

  return { root, show: update, useTheme: (theme) => ladder.useTheme(theme), stop };
}

// The piece with the most merges among the easy ones that the user typed, or else the first of those.
function telling({ pieces, strips }) {
  const all = strips.flatMap(({ tokens }) => tokens.filter((token) => token[4] !== null));
  const typed = all.filter((token) => token[7] === "typed");
  const numbers = [...new Set((typed.length ? typed : all).map((token) => token[4]))];
  const merges = (i) => (pieces[i][7] && pieces[i][2].length / 2 <= EASY ? pieces[i][7].length : -1);
  return numbers.reduce((best, i) => (merges(i) > merges(best) ? i : best), numbers[0]);
}

