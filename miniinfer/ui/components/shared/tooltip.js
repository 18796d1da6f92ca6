// The box of a tooltip: facts as lines, beside the pointer and never on what it points at.

import { h } from "./dom.js";

const BESIDE = 16; // px between the pointer and the box
const EDGE = 8; // px that stay free at the window's edges

/** {root, open, close, place(x, y, {size, beside})} around the caller's own content. */
export function createTooltipBox(testid, ...content) {
  const root = h("div", { class: "tooltip", popover: "manual", role: "tooltip", "data-testid": testid }, content);
  const isOpen = () => root.matches(":popover-open");
  return {
    root,
    open: () => isOpen() || root.showPopover(),
    close: () => isOpen() && root.hidePopover(),
    // x, y in window coordinates; beside: stay left of this x; size: the box's, where it is known already.
    place(x, y, { size = [root.offsetWidth, root.offsetHeight], beside } = {}) {
      const [w, high] = size;
      const right = x + BESIDE + w > window.innerWidth - EDGE ? x - BESIDE - w : x + BESIDE;
      const left = beside === undefined ? right : beside - w - 10;
      const top = y + 18 + high > window.innerHeight - EDGE ? y - 14 - high : y + 18;
      root.style.transform = `translate(${Math.round(Math.max(EDGE, left))}px, ${Math.round(Math.max(EDGE, top))}px)`;
    },
  };
}

/** Write lines [[label, value]...] into a <dl>. */
export const setFacts = (list, lines) =>
  list.replaceChildren(
    ...lines.flatMap(([label, value]) => [h("dt", { text: label }), h("dd", { class: "num", text: String(value) })]),
  );
