// The small mark beside a figure that says where it comes from.

import { h, s, setAttr } from "./dom.js";

const WORDS = {
  measured: "Measured: read from a clock or an allocator during this run.",
  computed: "Computed: follows exactly from this run's own tensors or the model's settings.",
  estimated: "Estimated: a model of something that was not measured.",
  recorded: "Recorded: measured or computed in an earlier run and read from a file.",
};

const DRAWINGS = {
  measured: () => [s("circle", { cx: 6, cy: 6.5, r: 4 }), s("path", { d: "M6 6.5V4M4.8 1h2.4" })],
  computed: () => [s("path", { d: "M2.5 4.5h7M2.5 7.5h7" })],
  estimated: () => [s("path", { d: "M2 5c1.3-1.6 2.7-1.6 4 0s2.7 1.6 4 0M2 8.2c1.3-1.6 2.7-1.6 4 0s2.7 1.6 4 0" })],
  recorded: () => [s("circle", { cx: 6, cy: 6, r: 4 }), s("circle", { cx: 6, cy: 6, r: 1.4, class: "dot" })],
};

/** An element whose .set(source) draws the mark; unknown or missing sources show nothing. */
export function sourceMark(what) {
  const el = h("span", { class: "source" });
  el.set = (source) => {
    if (el.dataset.source === source) return;
    const known = Object.hasOwn(WORDS, source ?? "");
    el.dataset.source = source ?? "";
    el.replaceChildren(
      ...(known ? [s("svg", { viewBox: "0 0 12 12", "aria-hidden": "true" }, DRAWINGS[source]())] : []),
    );
    setAttr(el, "title", known ? `${what}. ${WORDS[source]}` : null);
    setAttr(el, "role", known ? "img" : null);
    setAttr(el, "aria-label", known ? `${what}: ${source}` : null);
  };
  return el;
}
