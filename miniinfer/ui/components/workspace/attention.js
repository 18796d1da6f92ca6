// Attention: all heads at a glance, one head large, and one sentence that says what the row reads.

import { h, segmented, setAttr, setText, show, toggle } from "../shared/dom.js";
import { sourceMark } from "../shared/provenance.js";
import { createBigHead } from "./bighead.js";
import { createHeadMap } from "./headmap.js";
import { attentionLegend } from "./legend.js";
import { createPanel } from "../shared/panel.js";
import { createReads } from "./reads.js";
import { NEAR } from "./window.js";

export function createAttention(bus) {
  const mark = sourceMark("Attention, drawn with 8 bits on a square-root scale; the row looked at as the model computed it");
  const map = segmented(
    "All heads show",
    [
      ["rows", "newest row", "Each cell: what the row looked at reads, first token at the left"],
      ["patterns", "pattern", "Each cell: the whole triangle, pooled by its largest value"],
    ],
    (value) => bus.setPref("map", value),
    "attention-map-mode",
  );
  const range = segmented(
    "Large head shows",
    [
      ["all", "all", "All positions"],
      ["near", `last ${NEAR}`, `A window of ${NEAR} positions around the row looked at`],
    ],
    (value) => bus.setPref("window", value),
    "attention-window",
  );
  const hideFirst = toggle(
    "hide first token",
    "Many heads park attention they do not need on the first token. Hiding its column shows the rest; the colours keep their scale.",
    (on) => bus.setPref("hideFirst", on),
    "attention-hide-first",
  );
  const layer = picker("layer", "attention-layer", (value) => bus.setHead(value, bus.head[1]));
  const head = picker("head", "attention-head", (value) => bus.setHead(bus.head[0], value));
  const kvNumber = h("span", { class: "num" });
  const kvHead = h(
    "span",
    {
      class: "quiet kv-head",
      title: "Query heads share key/value heads (grouped-query attention): the KV head whose cache this one reads.",
    },
    "KV",
    h("span", { class: "roomy", text: " head" }),
    " ",
    kvNumber,
  );
  const panel = createPanel({
    id: "attention",
    name: "Attention",
    question: "Which earlier tokens does this one read?",
    controls: [range, hideFirst],
  });
  const legend = attentionLegend();
  const reads = createReads(bus);
  const heads = createHeadMap(bus);
  const big = createBigHead(bus);
  panel.body.append(
    h(
      "div",
      { class: "side" },
      h("div", { class: "bar small" }, h("span", { class: "quiet", text: "all heads:" }), map),
      heads.root,
    ),
    h(
      "div",
      { class: "main" },
      h(
        "div",
        { class: "inner" },
        big.root,
        h(
          "div",
          { class: "aside" },
          h("div", { class: "bar" }, layer.root, head.root, kvHead),
          h("div", { class: "bar scale" }, legend.root, mark),
          reads.line,
          reads.list,
        ),
      ),
    ),
  );

  function draw(view, theme) {
    heads.paint(view, theme);
    big.paint(view, theme);
  }

  function paint(view, theme) {
    map.choose(bus.prefs.map);
    range.choose(bus.prefs.window);
    setAttr(hideFirst, "aria-pressed", String(bus.prefs.hideFirst));
    show(range, Boolean(view && view.ctx > NEAR));
    legend.paint(theme);
    mark.set(view?.ctx ? view.history.source.attention : null);
    for (const el of [layer.root, head.root, kvHead]) show(el, Boolean(bus.head));
    if (view && bus.head) {
      const group = view.info.num_heads / view.info.num_kv_heads;
      layer.paint(view.info.num_layers, bus.head[0]);
      head.paint(view.info.num_heads, bus.head[1]);
      setText(kvNumber, String(Math.floor(bus.head[1] / group)));
    }
    reads.paint(view);
  }

  return {
    root: panel.root,
    panel,
    canvases: { heads: heads.canvas, big: big.canvas },
    draw,
    paint,
    hover: (view, theme) => (heads.hover(view, theme), big.hover(view, theme), reads.hover()),
    stop: () => (heads.stop(), big.stop()),
  };
}

function picker(name, testid, onPick) {
  const select = h("select", { "aria-label": name, "data-testid": testid });
  select.addEventListener("change", () => onPick(Number(select.value)));
  return {
    root: h("label", {}, `${name} `, select),
    paint(count, value) {
      if (select.options.length !== count)
        select.replaceChildren(...Array.from({ length: count }, (_, i) => h("option", { value: i, text: i })));
      if (select.value !== String(value)) select.value = String(value);
    },
  };
}
