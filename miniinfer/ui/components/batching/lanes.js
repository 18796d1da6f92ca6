// A lane a request: its name at the left, the timeline, its times at the right. All three are one line and one thing to hover.

import { h, setAttr, setText, show } from "../shared/dom.js";
import * as format from "../shared/format.js";
import { sourceMark } from "../shared/provenance.js";
import { readable } from "../shared/tokens.js";
import { laneStyles, ownerSwatch } from "./colours.js";
import { createTimeline } from "./timeline.js";

const HEAD = 20; // px, as in the style sheet
const SHARE = 0.5; // of the picture's height, where the panel does not fill the window
const LEAST = 18;
const MOST = 40;
const NAMES = ["tokens", "TTFT", "TPOT"];
const MEANS = ["output tokens so far", "time to first token, from its arrival", "time per output token after the first"];

export function createLanes(batch) {
  const timeline = createTimeline(batch);
  const left = h("div", { class: "lane-names" });
  const right = h("div", { class: "lane-times" });
  const mark = sourceMark("TTFT and TPOT, ms");
  const heads = NAMES.map((text, i) => h("span", { text, title: MEANS[i] }));
  const root = h(
    "div",
    { class: "lanes-grid" },
    h("div", { class: "lane-head" }, h("span", { class: "quiet small", text: "request" })),
    h("div", { class: "lane-head" }, timeline.axis),
    h("div", { class: "lane-head times small quiet" }, h("span", { text: "is" }), heads[0], heads[1], h("span", {}, heads[2], mark)),
    left,
    timeline.root,
    right,
  );
  const legend = h("span", { class: "lane-legend small", "data-testid": "batching-legend" });
  let lines = [];
  let made = "";
  let legendOf = null;

  const listen = (el, request) => {
    el.addEventListener("pointermove", (event) => batch.setHover({ request, x: event.clientX, y: event.clientY }));
    el.addEventListener("pointerleave", () => batch.setHover(null));
  };

  function build(theme) {
    lines = batch.info.requests.map((request, i) => {
      const swatch = ownerSwatch(theme, i);
      const abort = h("button", {
        type: "button", class: "abort", text: "×", title: `Abort request ${readable(request.id)}: its blocks are free at once`,
        "aria-label": `Abort request ${readable(request.id)}`, "data-testid": `abort-${i}`, on: { click: () => batch.abort(i) },
      });
      const name = h(
        "div",
        { class: "lane-name", "data-testid": `lane-${i}` },
        swatch,
        h("b", { text: readable(request.id), title: readable(request.id), dir: "auto" }),
        h("span", { class: "quiet prompt", text: readable(request.prompt), dir: "auto" }),
        abort,
      );
      const state = h("span", { class: "state-word", "data-testid": `state-${i}` });
      const cells = NAMES.map(() => h("span", { class: "num" }));
      const times = h("div", { class: "lane-time" }, state, cells);
      listen(name, i);
      listen(times, i);
      return { name, abort, state, cells, times };
    });
    left.replaceChildren(...lines.map((line) => line.name));
    right.replaceChildren(...lines.map((line) => line.times));
  }

  function paint(theme) {
    const { info, cursor } = batch;
    const key = `${info.id} ${theme.key}`;
    if (key !== made) build(theme);
    made = key;
    if (legendOf !== theme) drawLegend(theme);
    legendOf = theme;
    fit();
    mark.set(batch.source.times);
    const step = batch.steps[cursor - 1];
    lines.forEach((line, i) => {
      const [ttft, tpot, out, , , , reason] = step?.requests[i] ?? [null, null, 0, 0, 0, 0, null];
      const state = batch.stateOf(i);
      const gone = batch.aborted[i] !== undefined && batch.aborted[i] <= cursor;
      const over = gone || reason || state === "refused";
      setText(line.state, batch.wordOf(i));
      setAttr(line.state, "title", info.requests[i].refused ?? null);
      setText(line.cells[0], `${out} / ${info.requests[i].max_new}`);
      setText(line.cells[1], ttft === null ? "–" : format.sig3(ttft));
      setText(line.cells[2], tpot === null ? "–" : format.sig3(tpot));
      const ended = batch.aborted[i] !== undefined || batch.steps.at(-1)?.requests[i][6];
      show(line.abort, !over && !ended);
    });
    timeline.paint(theme);
  }

  // All lanes are seen at once where there is room; below that they scroll.
  function fit() {
    const filled = root.closest(".panel.filled");
    const room = filled ? filled.clientHeight - 44 : SHARE * root.closest(".mi-batching").clientHeight;
    const lane = Math.max(LEAST, Math.min(MOST, Math.floor((room - HEAD) / Math.max(1, lines.length))));
    root.style.setProperty("--lane", `${lane}px`);
    timeline.lane = lane;
  }

  function hover(theme) {
    const at = batch.hover?.request ?? null;
    const lit = new Set(at === null ? (batch.hover?.owners ?? []) : [at]);
    lines.forEach((line, i) => {
      line.name.classList.toggle("lit", lit.has(i));
      line.times.classList.toggle("lit", lit.has(i));
    });
    timeline.hover(theme);
  }

  function drawLegend(theme) {
    legend.replaceChildren(
      ...Object.values(laneStyles(theme)).map(([name, means, kind, colour]) =>
        h("span", { class: `key ${kind}`, title: means, style: { "--c": colour } }, h("i", {}), name),
      ),
    );
  }

  return { root, legend, timeline, paint, hover, stop: timeline.stop };
}
