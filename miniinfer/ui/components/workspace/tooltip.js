// The one tooltip of all panels: whatever is under the pointer, the same facts about the token at that position.

import { h, setText } from "../shared/dom.js";
import * as format from "../shared/format.js";
import { hexBytes, kindOf, setToken } from "../shared/tokens.js";
import { createTooltipBox, setFacts } from "../shared/tooltip.js";
import { probabilityOf } from "./look.js";

/**
 * bus.hover = {pos, token, key, q, lines, x, y, src}: pos is lit in every panel; token overrides the token at pos (a candidate);
 * lines = [[label, value]...] and note come from
 * the panel; x, y in window coordinates; beside: stay left of this x (a list must not be covered by its own tooltip).
 */
export function createTooltip(bus) {
  const chip = h("span", { class: "tok" });
  const kind = h("span", { class: "quiet" });
  const rows = h("dl", { class: "facts" });
  const note = h("p", { class: "note" });
  const head = h("div", { class: "tip-head" }, chip, kind);
  const box = createTooltipBox("tooltip", head, rows, note);
  const { root } = box;
  let painted = null;
  let size = [0, 0];

  function hover(view) {
    const { hover: at } = bus;
    if (!at || !view) return hide();
    box.open();
    if (painted !== at.key) {
      fill(view, at);
      size = [root.offsetWidth, root.offsetHeight];
    }
    painted = at.key;
    box.place(at.x, at.y, { size, beside: at.beside });
  }

  function hide() {
    painted = null;
    box.close();
  }

  function fill(view, at) {
    const token = at.token ?? view.history.tokens[at.pos];
    head.hidden = !token;
    note.hidden = !at.note;
    setText(note, at.note ?? "");
    if (token) setToken(chip, token);
    setText(kind, token ? (kindOf(token) ?? "") : "");
    const facts = token ? tokenFacts(view, at, token) : [];
    setFacts(rows, [...facts, ...(at.lines ?? [])]);
  }

  function tokenFacts({ history }, at, token) {
    const facts = [];
    if (at.pos !== null && !at.token) facts.push(["position", format.count(at.pos)]);
    facts.push(["id", String(token[0])], ["bytes", hexBytes(token[2])]);
    if (at.token || at.pos === null) return facts;
    const p = probabilityOf(history, at.pos);
    const meta = history.meta[history.stepOfToken[at.pos] - 1];
    if (p !== null) facts.push(["probability given", format.percent(p)]);
    if (meta?.forced) facts.push(["chosen", `forced in step ${meta.step}`]);
    else if (meta && meta.logprob !== null)
      facts.push(["drawn with", `${format.percent(Math.exp(meta.logprob))} in step ${meta.step}`]);
    return facts;
  }

  return { root, hover, stop: hide };
}
