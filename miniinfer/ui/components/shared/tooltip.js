// The box of a tooltip: facts as lines, beside the pointer and never on what it points at.

import { h, zoomOf } from "./dom.js";

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
      const zoom = zoomOf(root); // large type: the pointer's coordinates are not those of the box
      const [px, py, wide, tall] = [x, y, window.innerWidth, window.innerHeight].map((value) => value / zoom);
      const right = px + BESIDE + w > wide - EDGE ? px - BESIDE - w : px + BESIDE;
      const left = beside === undefined ? right : beside / zoom - w - 10;
      const top = py + 18 + high > tall - EDGE ? py - 14 - high : py + 18;
      root.style.transform = `translate(${Math.round(Math.max(EDGE, left))}px, ${Math.round(Math.max(EDGE, top))}px)`;
    },
  };
}

/** Write lines [[label, value]...] into a <dl>. */
export const setFacts = (list, lines) =>
  list.replaceChildren(
    ...lines.flatMap(([label, value]) => [h("dt", { text: label }), h("dd", { class: "num", text: String(value) })]),
  );
