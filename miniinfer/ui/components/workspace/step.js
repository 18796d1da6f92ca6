// This step: what it cost, and where the time went.

import { bar, h, setAttr, setText, show } from "../shared/dom.js";
import * as format from "../shared/format.js";
import { sourceMark } from "../shared/provenance.js";
import { createPanel } from "../shared/panel.js";
import { STAGES } from "./steptimes.js";
import { createTimeline } from "./timeline.js";

export function createStep(bus) {
  const panel = createPanel({ id: "step", name: "This step", question: "What did it cost?" });
  const time = h("span", { class: "big num", "data-testid": "step-ms" });
  const timeMark = sourceMark("Time of this step");
  const phase = h("span", { class: "quiet", "data-testid": "step-phase" });
  const facts = [
    fact("tokens", "tokens through the model", (m) => format.count(m.n)),
    fact(
      "weights",
      "bytes of weights read",
      (m) => format.bytes(m.weights_read),
      (m) => format.bytesExact(m.weights_read),
    ),
    fact(
      "cache",
      "bytes of KV cache read",
      (m) => format.bytes(m.kv_read),
      (m) => format.bytesExact(m.kv_read),
    ),
  ];
  const bars = STAGES.map(([id, name]) => stage(id, name));
  const none = h("p", { class: "quiet small", text: "No stage times were kept for this step." });
  const stages = h(
    "div",
    { class: "stages" },
    bars.map((bar) => bar.root),
  );
  const timeline = createTimeline(bus);
  const content = h(
    "div",
    { class: "step-content", role: "group", tabindex: "0", "aria-label": "What this step cost" }, // it scrolls in a low window
    h("div", { class: "bar" }, time, timeMark, phase),
    h(
      "div",
      { class: "step-facts" },
      facts.map((f) => f.root),
    ),
    stages,
    none,
  );
  const empty = h("p", {
    class: "empty quiet",
    text: "Step 0: nothing ran yet. Time, tokens and bytes of each step will stand here.",
  });
  panel.body.append(content, empty, timeline.root);

  function paint(view) {
    const meta = view?.meta ?? null;
    show(content, Boolean(meta));
    show(empty, !meta);
    if (!meta) return;
    const { source, info } = view.history;
    setText(time, format.ms(meta.ms));
    timeMark.set(meta.step <= (info.resumed ?? 0) ? "recorded" : source.ms); // measured before the run came back
    setText(
      phase,
      meta.phase === "prefill"
        ? meta.n > 1
          ? "prefill, one wide pass"
          : "prefill, one token"
        : "decode, one thin pass",
    );
    for (const f of facts) f.paint(meta, source);
    show(stages, Boolean(meta.stages));
    show(none, !meta.stages);
    if (!meta.stages) return;
    const most = Math.max(...Object.values(meta.stages), 1e-9);
    const total = Object.values(meta.stages).reduce((a, b) => a + b, 0);
    for (const bar of bars) bar.paint(meta.stages[bar.id] ?? 0, most, total);
  }

  return { root: panel.root, panel, draw: timeline.paint, paint, hover: timeline.hover, stop: timeline.stop };
}

function fact(id, name, value, exact) {
  const number = h("b", { class: "num" });
  const mark = sourceMark(name);
  const root = h(
    "div",
    { class: "step-fact", "data-testid": `step-${id}` },
    h("span", { class: "quiet", text: name }),
    number,
    mark,
  );
  return {
    root,
    paint(meta, source) {
      const there = id === "tokens" || meta.weights_read !== null; // not before a saved run has come back
      setText(number, there ? value(meta) : "–");
      setAttr(number, "title", there && exact ? exact(meta) : null);
      mark.set(there ? source.read : null);
    },
  };
}

function stage(id, name) {
  const fill = h("i", {});
  const value = h("span", { class: "right num" });
  const root = h(
    "div",
    { class: `stage ${id}`, "data-testid": `step-stage-${id}` },
    h("span", { text: name }),
    h("span", { class: "track-bar" }, fill),
    value,
  );
  return {
    id,
    root,
    paint(ms, most, total) {
      bar(fill, ms / most);
      setText(value, format.ms(ms));
      root.title = `${name}: ${format.ms(ms)}, ${format.percent(total ? ms / total : 0)} of the step`;
    },
  };
}
