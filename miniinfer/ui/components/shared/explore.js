// A drawing that the keyboard can walk through: Shift with the arrows moves from cell to cell, as the pointer would, so that everything
// that follows the pointer (tooltip, linked panels) follows the keys too. The arrows alone go on to step the run.

import { h, setText, zoomOf } from "./dom.js";
import { bindWithin } from "./keys.js";

const MOVES = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] };

/** Shared with everything that the arrows walk along. */
export const WALK = {
  inside: true,
  title: "In a drawing or a row of tokens that has the focus (Tab)",
  keys: [
    { key: Object.keys(MOVES), shift: true, name: "move", shown: ["Shift", "← ↑ ↓ →"], does: "walk from cell to cell, with what the pointer would show" },
    { key: ["Home", "End"], shift: true, name: "far", shown: ["Shift", "Home", "End"], does: "to the first, the last of the row" },
    { key: "Enter", name: "press", shown: ["Enter"], does: "do what a click there does" },
    { key: "Escape", name: "leave", shown: ["Esc"], does: "leave the cell" },
  ],
};

/**
 * element: what listens to the pointer. grid() -> null, or {columns, rows, start: [column, row], at(column, row) -> [x, y] in
 * CSS px of the element}. said() -> the words for the cell under the pointer. press(column, row): what Enter does; a click if left out.
 * Returns the way to stop.
 */
export function explorable(element, { grid, said, press }) {
  let at = null; // [column, row]
  const words = h("span", { class: "sr", role: "status", "aria-live": "polite" });
  element.append(words);
  element.tabIndex = 0;
  element.setAttribute("role", "application"); // the arrows are ours: a screen reader must let them through
  element.setAttribute("aria-roledescription", "drawing");
  element.setAttribute("aria-description", "Shift with the arrows walks through it. A table has the same numbers.");

  const point = (type, [x, y]) => {
    const box = element.getBoundingClientRect();
    const zoom = zoomOf(element);
    const where = { clientX: box.left + x * zoom, clientY: box.top + y * zoom, bubbles: true, cancelable: true };
    element.dispatchEvent(type === "click" ? new MouseEvent(type, where) : new PointerEvent(type, where));
  };
  const go = (now, [column, row]) => {
    at = [Math.max(0, Math.min(column, now.columns - 1)), Math.max(0, Math.min(row, now.rows - 1))];
    point("pointermove", now.at(...at));
    setText(words, said?.() ?? "");
    return true;
  };
  const leave = () => {
    if (!at) return false;
    at = null;
    element.dispatchEvent(new PointerEvent("pointerleave"));
    setText(words, "");
    return true;
  };
  // The first key shows where one is: where the run is.
  const move = (by) => (event) => {
    const now = grid();
    if (!now?.columns || !now.rows) return false;
    return go(now, at ? by(at, event, now) : now.start);
  };
  const stop = bindWithin(element, WALK, {
    move: move(([column, row], { key }) => [column + MOVES[key][0], row + MOVES[key][1]]),
    far: move(([, row], { key }, { columns }) => [key === "Home" ? 0 : columns - 1, row]),
    press: () => {
      const now = at && grid();
      if (!now) return false;
      if (press) press(...at);
      else point("click", now.at(...at));
      return true;
    },
    leave,
  });
  element.addEventListener("blur", leave);
  return () => (stop(), element.removeEventListener("blur", leave));
}

/** What a tooltip's lines say, as one sentence. */
export const spoken = (hover) => (hover?.lines ?? []).map(([name, value]) => `${name} ${value}`.trim()).join(", ");
