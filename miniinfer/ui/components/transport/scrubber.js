// All steps on one line: prefill, decode, and what has not been run yet. Dragging repaints from history.

import { h, setAttr, setText, show } from "../shared/dom.js";
import * as format from "../shared/format.js";
import { scale } from "./steps.js";

// ms that a step may take before it is marked as waited for. Most are there sooner; a mark that comes, moves and goes keeps the
// browser painting on a core that the model could have.
const PATIENCE = 150;

export function createScrubber(bus) {
  const prefill = h("div", { class: "region prefill" });
  const decode = h("div", { class: "region decode" });
  const done = h("div", { class: "done" });
  const fork = h("div", { class: "fork", title: "The branch starts here" });
  const knob = h("div", { class: "knob" });
  const target = h("div", { class: "target" });
  const track = h(
    "div",
    {
      class: "track",
      role: "slider",
      tabindex: "0",
      "aria-label": "Step",
      "aria-valuemin": "0",
      "data-keys": "step",
      "data-testid": "transport-scrubber",
    },
    h("div", { class: "rail" }, decode, prefill, done),
    fork,
    target,
    knob,
  );
  const prefillLabel = h("span", {
    class: "label",
    text: "prefill",
    title: "Prefill: the prompt goes through the model, all of it in one pass or in pieces.",
  });
  const decodeLabel = h("span", {
    class: "label",
    text: "decode",
    title: "Decode: one new token goes through the model in each step.",
  });
  const where = h("span", { class: "where num", "data-testid": "transport-step" });
  const root = h(
    "div",
    { class: "scrubber" },
    h("div", { class: "labels small" }, prefillLabel, decodeLabel, where),
    track,
  );
  let steps = scale(null);
  let patience = null;
  let late = false;

  const at = (event) => {
    const box = track.getBoundingClientRect();
    return Math.min(bus.last, steps.stepAt((event.clientX - box.left) / box.width));
  };
  track.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    track.setPointerCapture(event.pointerId);
    bus.player.stop();
    bus.goto(at(event));
  });
  track.addEventListener("pointermove", (event) => {
    if (track.hasPointerCapture(event.pointerId)) bus.goto(at(event));
    else setAttr(track, "title", `Step ${at(event)}`);
  });

  function watchTarget() {
    if (bus.target === null) {
      clearTimeout(patience);
      patience = null;
      late = false;
    } else {
      patience ??= setTimeout(() => ((late = bus.target !== null), bus.changed("target")), PATIENCE);
    }
  }

  function paint(run) {
    steps = scale(run);
    const pct = (x) => `${100 * x}%`;
    const now = steps.x(bus.cursor);
    knob.style.left = pct(now);
    done.style.width = pct(now);
    prefill.style.width = pct(steps.x(steps.prefill));
    decode.style.left = pct(steps.x(steps.prefill));
    decode.style.width = pct(steps.x(run?.last ?? 0) - steps.x(steps.prefill));
    decodeLabel.style.left = `max(${pct(steps.x(steps.prefill))}, 44px)`; // beside the other word
    watchTarget();
    if (late) target.style.left = pct(steps.x(Math.min(bus.target, steps.extent)));
    show(target, late);
    show(decodeLabel, steps.prefill > 0 && steps.extent > steps.prefill);
    show(prefillLabel, steps.prefill > 0);
    const forkStep = bus.store.runs.find((other) => other.id === run?.run)?.fork_step ?? null;
    show(fork, forkStep !== null);
    fork.style.left = pct(steps.x(forkStep ?? 0));
    const last = run?.last ?? 0;
    setText(
      where,
      run
        ? `step ${format.count(bus.cursor)} / ${format.count(last)}${run.finished && bus.cursor === last ? " · ended" : ""}`
        : "no run",
    );
    setAttr(where, "title", run?.finished && bus.cursor === last ? bus.blocked : null);
    setAttr(track, "aria-valuemax", last);
    setAttr(track, "aria-valuenow", bus.cursor);
    setAttr(track, "aria-valuetext", `step ${bus.cursor} of ${last}`);
  }

  return { root, paint };
}
