// Bytes per token as a product: 2 x 30 layers x 3 KV heads x 64 x 4 B = 46,080 B per token. Each factor named and coloured.

import { h, setText } from "../shared/dom.js";
import * as format from "../shared/format.js";

const FACTORS = [
  ["kv", "K and V", () => 2, "Each token leaves a key and a value."],
  ["layers", "layers", (info) => info.num_layers, "Every layer has a cache of its own."],
  [
    "heads",
    "KV heads",
    (info) => info.num_kv_heads,
    "Not the query heads: several of them share one KV head (GQA). That is the saving the dashed line shows.",
  ],
  ["dim", "numbers a head", (info) => info.head_dim, "Head size: how long one key or value is."],
  ["bytes", "bytes each", (info) => info.itemsize, "Size of one number in this run's dtype."],
];

export function createFormula(bus) {
  const parts = FACTORS.map(([id, name, value, why], i) => {
    const number = h("b", { class: "num" });
    const root = h(
      "span",
      { class: `factor f${i + 1}`, tabindex: "0", role: "note", "aria-description": why, "data-testid": `kv-factor-${id}` },
      number,
      h("span", { class: "factor-name", text: name }),
    );
    const show = (x, y) =>
      bus.setHover({ src: "formula", key: `formula:${id}`, pos: null, factor: id, note: why, x, y });
    root.addEventListener("pointerenter", (event) => show(event.clientX, event.clientY));
    root.addEventListener("pointerleave", () => bus.setHover(null));
    root.addEventListener("focus", () => {
      const { left, bottom } = root.getBoundingClientRect();
      if (root.matches(":focus-visible")) show(left, bottom);
    });
    root.addEventListener("blur", () => bus.setHover(null));
    return { root, number, value };
  });
  const total = h("b", { class: "num", "data-testid": "kv-bytes-per-token" });
  const root = h(
    "div",
    { class: "formula" },
    parts.flatMap((part, i) => (i ? [h("span", { class: "times quiet", text: "×" }), part.root] : [part.root])),
    h("span", { class: "times quiet", text: "=" }),
    h("span", { class: "factor total" }, total, h("span", { class: "factor-name", text: "per token" })),
  );

  function paint(view) {
    root.hidden = !view;
    if (!view) return;
    for (const part of parts) setText(part.number, format.count(part.value(view.info)));
    setText(total, format.bytesExact(parts.reduce((product, part) => product * part.value(view.info), 1)));
  }

  return { root, paint };
}
