// The tooltip of a token: the same facts as in the workspace.

import { h, setText } from "../shared/dom.js";
import { hexBytes, kindOf, setToken } from "../shared/tokens.js";
import { createTooltipBox, setFacts } from "../shared/tooltip.js";

export function createTip() {
  const chip = h("span", { class: "tok" });
  const kind = h("span", { class: "quiet" });
  const facts = h("dl", { class: "facts" });
  const box = createTooltipBox("token-tip", h("div", { class: "tip-head" }, chip, kind), facts);

  function show(token, position, x, y) {
    box.open();
    setToken(chip, token);
    setText(kind, kindOf(token) ?? "");
    const lines = [
      ["position", position],
      ["id", token[0]],
      ["bytes", hexBytes(token[2])],
      ["place in the text", `bytes ${token[5]} to ${token[6]}`],
      ["written by", token[7]],
    ];
    if (token[4] !== null) lines.push(["piece", token[4]]);
    setFacts(facts, lines);
    box.place(x, y);
  }

  return { root: box.root, show, hide: box.close };
}
