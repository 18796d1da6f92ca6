// The tooltip of a token: the same facts as in the workspace.

import { h, setText, zoomOf } from "../shared/dom.js";
import { hexBytes, kindOf, setToken } from "../shared/tokens.js";

export function createTip() {
  const chip = h("span", { class: "tok" });
  const kind = h("span", { class: "quiet" });
  const facts = h("dl", { class: "facts" });
  const root = h(
    "div",
    { class: "tooltip", popover: "manual", role: "tooltip", "data-testid": "token-tip" },
    h("div", { class: "tip-head" }, chip, kind),
    facts,
  );

  function show(token, position, x, y) {
    if (!root.matches(":popover-open")) root.showPopover();
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
    facts.replaceChildren(
      ...lines.flatMap(([label, value]) => [h("dt", { text: label }), h("dd", { class: "num", text: String(value) })]),
    );
    const zoom = zoomOf(root);
    const [px, py, wide, high] = [x, y, window.innerWidth, window.innerHeight].map((value) => value / zoom);
    const left = Math.max(8, Math.min(px + 16, wide - root.offsetWidth - 8));
    const top = py + 18 + root.offsetHeight > high - 8 ? py - 14 - root.offsetHeight : py + 18;
    root.style.transform = `translate(${Math.round(left)}px, ${Math.round(Math.max(8, top))}px)`;
  }

  function hide() {
    if (root.matches(":popover-open")) root.hidePopover();
  }

  return { root, show, hide };
}
