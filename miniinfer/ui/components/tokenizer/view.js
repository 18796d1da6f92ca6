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
    made = data.strips.map((strip) => createStrip(strip, { tip, select, light }));
    strips.replaceChildren(...made.map((strip) => strip.root));
    show(ladder.root, data.pieces.length > 0);
    const same = before && JSON.stringify(before.pieces) === JSON.stringify(data.pieces);
    if (data.pieces.length && !(same && ladder.piece !== null)) select(telling(data.pieces));
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

  return { root, show: update, useTheme: (theme) => ladder.useTheme(theme), stop: tip.stop };
}

// The piece with the most merges among the easy ones, or else the first.
function telling(pieces) {
  let best = 0;
  pieces.forEach(([, , hex, , , , , steps], i) => {
    if (steps && hex.length / 2 <= EASY && steps.length > (pieces[best][7]?.length ?? -1)) best = i;
  });
  return best;
}

