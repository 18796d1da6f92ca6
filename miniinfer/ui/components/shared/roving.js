// A row or a list of buttons that is one stop of the Tab key: Shift with the arrows walks along it, the arrows alone go on to step the run.

import { setAttr } from "./dom.js";
import { WALK } from "./explore.js";
import { bindWithin } from "./keys.js";

const BY = { across: { ArrowRight: 1, ArrowLeft: -1 }, down: { ArrowDown: 1, ArrowUp: -1 } };

/**
 * items() -> the buttons in their order, some perhaps hidden; each is made with tabindex -1. way: how they stand. Returns
 * {paint(), stop()}; paint after they changed.
 */
export function roving(list, items, way = "across") {
  const seen = () => items().filter((item) => !item.hidden);
  const open = (chosen) => items().forEach((item) => setAttr(item, "tabindex", item === chosen ? "0" : "-1"));

  function focus(item) {
    if (!item) return;
    open(item);
    item.focus();
  }

  const stop = bindWithin(list, WALK, {
    move: ({ key, target }) => {
      const by = BY[way][key];
      const here = seen().findIndex((item) => item.contains(target));
      if (!by || here < 0) return false;
      focus(seen()[here + by]);
    },
    far: ({ key }) => focus(seen().at(key === "Home" ? 0 : -1)),
  });

  /** One of those that are seen can be reached. */
  function paint() {
    const all = items();
    if (!all.some((item) => item.tabIndex === 0 && !item.hidden)) open(all.find((item) => !item.hidden));
  }

  return { paint, stop };
}
