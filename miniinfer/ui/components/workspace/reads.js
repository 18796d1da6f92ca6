// The row looked at, in words and bars: which earlier tokens it reads most.

import { bar, h, setText, show } from "../shared/dom.js";
import { setToken, tokenText } from "../shared/tokens.js";
import { weights } from "./weights.js";

const MOST = 12;
const WITH_THE_MODEL = "Attention, keys and values of this saved run come back with its model, which is being loaded.";

/** {line, list, paint, hover}: a sentence for narrow panels, bars where there is room beside the large head. */
export function createReads(bus) {
  const who = h("span", { class: "who" });
  const tail = h("span", { class: "tail" });
  const line = h("p", { class: "reads", "data-testid": "attention-reads" }, who, tail);
  const rows = Array.from({ length: MOST }, (_, i) => row(bus, i));
  const list = h(
    "div",
    { class: "reads-list", "data-testid": "attention-reads-list" },
    h("div", { class: "small quiet", text: "reads most" }),
    rows.map((r) => r.root),
  );
  let painted = "";

  function paint(view) {
    const values = view && view.q >= 0 && bus.head ? weights(view.history, bus.head, view.q) : null;
    const key = values
      ? `${view.info.id} ${view.q} ${bus.head} ${bus.prefs.hideFirst} ${view.selected} ${values.exact}`
      : `- ${view?.cursor} ${view?.q}`;
    if (key === painted) return;
    painted = key;
    list.classList.toggle("none", !values);
    line.classList.toggle("words", !values);
    if (!values) {
      tail.replaceChildren();
      return void setText(
        who,
        !view
          ? ""
          : view.cursor === 0
            ? "Step 0: nothing has been computed. The first step runs the prompt through the model and fills these maps."
            : view.info.kind === "saved"
              ? WITH_THE_MODEL
              : view.history.lacks(view.q)
              ? `This recording is of a long run and kept no row of position ${view.q} for this head.`
              : `Fetching the attention of position ${view.q} …`,
      );
    }
    const { tokens } = view.history;
    const best = largest(values, bus.prefs.hideFirst ? 1 : 0, view.q)
      .filter((k, i) => values.share(k) > (i < 3 ? 0 : 0.001)); // spread over thousands of tokens, the best are small too
    who.replaceChildren(
      tokenText(tokens[view.q], view.selected === null ? "now" : "picked"),
      h("span", { class: "quiet", text: ` at position ${view.q}${view.selected === null ? "" : " (selected)"} reads` }),
    );
    tail.replaceChildren(
      ...best.slice(0, 3).flatMap((k, i) => [i ? ", " : " ", tokenText(tokens[k]), ` ${values.text(k)}`]),
    );
    if (!best.length) tail.textContent = " nothing else";
    rows.forEach((r, i) => r.paint(view, best[i], values));
  }

  function hover() {
    for (const r of rows) r.root.classList.toggle("lit", bus.hover?.pos != null && r.key === bus.hover.pos);
  }

  return { line, list, paint, hover };
}

/** The MOST positions from..to with the largest weights, the largest first, of equal ones the first. */
function largest(values, from, to) {
  const best = [];
  for (let k = from; k <= to; k++) {
    const share = values.share(k);
    if (best.length === MOST && !(share > best[MOST - 1].share)) continue;
    let at = Math.min(best.length, MOST - 1);
    for (; at > 0 && share > best[at - 1].share; at--) best[at] = best[at - 1];
    best[at] = { k, share };
  }
  return best.map(({ k }) => k);
}

function row(bus, i) {
  const chip = h("span", { class: "tok", dir: "auto" });
  const fill = h("i", {});
  const value = h("span", { class: "right num" });
  const root = h(
    "div",
    { class: "read", "data-testid": `read-${i}` },
    chip,
    h("span", { class: "track-bar" }, fill),
    value,
  );
  const self = { root, key: null };
  root.addEventListener("pointermove", (event) =>
    bus.setHover({ src: "reads", key: `reads:${self.key}`, pos: self.key, x: event.clientX, y: event.clientY }),
  );
  root.addEventListener("pointerleave", () => bus.setHover(null));
  self.paint = (view, k, values) => {
    self.key = k ?? null;
    show(root, k !== undefined);
    if (k === undefined) return;
    setToken(chip, view.history.tokens[k]);
    bar(fill, values.share(k));
    setText(value, values.text(k));
  };
  return self;
}
