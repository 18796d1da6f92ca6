// The bar: buttons, speed, scrubber, run menu, what runs on what.

import { h, keepKeys, setAttr, setText, show } from "../shared/dom.js";
import * as format from "../shared/format.js";
import { icon, setIcon } from "../shared/icons.js";
import { toEnd } from "../shared/keyboard.js";
import { SPEEDS } from "../shared/player.js";
import { sourceMark } from "../shared/provenance.js";
import { announcer } from "./announce.js";
import { setLarge } from "./large.js";
import { createRunMenu } from "./runmenu.js";
import { createScrubber } from "./scrubber.js";

/** bus: the run, or a batch in its place. help() opens the overview of the keys. */
export function createBar(bus, help) {
  const manual = (fn) => () => {
    bus.player.stop();
    fn();
  };
  const button = (name, label, key, fn) =>
    h(
      "button",
      {
        class: "step",
        type: "button",
        "aria-label": label,
        title: `${label} (${key})`,
        "data-testid": `transport-${name}`,
        on: { click: fn },
      },
      icon(name),
    );
  const first = button(
    "first",
    "To the start",
    "Home",
    manual(() => bus.goto(0)),
  );
  const back = button(
    "back",
    "One step back",
    "left arrow",
    manual(() => bus.back()),
  );
  const forward = button(
    "forward",
    "One step on",
    "right arrow",
    manual(() => bus.forward()),
  );
  const last = button("last", "To the last step; from there, run to the end", "End", () => toEnd(bus));
  const playLabel = h("span", { text: "Play" });
  const play = h(
    "button",
    { class: "play", type: "button", "data-testid": "transport-play", on: { click: () => bus.player.toggle() } },
    playLabel,
  );
  const speed = h(
    "select",
    {
      "aria-label": "Speed of play, steps per second",
      title: "Speed of play in steps per second; max: as fast as the model runs",
      "data-testid": "transport-speed",
    },
    SPEEDS.map(([value, text]) => h("option", { value, text })),
  );
  speed.value = String(bus.prefs.speed);
  speed.addEventListener("change", () => bus.setPref("speed", speed.value));

  const scrubber = createScrubber(bus);
  const menu = createRunMenu(bus);
  const summary = h("span", { class: "summary", "data-testid": "transport-summary" });
  const where = h("span", {});
  const time = h("span", { class: "num" });
  const mark = sourceMark("Time of this step");
  const model = h("div", { class: "model", "data-testid": "transport-model" });
  const modelText = h("span", { class: "model-text" });
  const modelBar = h("span", { class: "model-bar", role: "progressbar", "aria-label": "Loading the model" }, h("span"));
  model.append(modelText, modelBar);
  const facts = h("div", { class: "facts small quiet" }, summary, where, time, mark);
  const live = announcer(bus);
  const more = h(
    "button",
    { class: "help", type: "button", text: "?", "aria-label": "Keys on this page", title: "Keys on this page (?)", "data-testid": "transport-help" },
  );
  more.addEventListener("click", () => help());
  const large = h("button", { class: "large", type: "button", text: "Aa", "aria-label": "Large type", title: "Large type, for a projector", "data-testid": "transport-large" });
  large.addEventListener("click", () => setLarge(bus, !bus.prefs.large));

  const root = h(
    "div",
    {
      class: "mi mi-transport",
      role: "toolbar",
      tabindex: "-1", // a click between the buttons must not focus the page around them
      "aria-label": "Transport",
      "data-testid": "transport",
      style: { visibility: "hidden" },
    },
    h("div", { class: "buttons" }, first, back, play, forward, last),
    speed,
    scrubber.root,
    h("div", { class: "state" }, menu.root, h("div", { class: "under" }, facts, model)),
    large,
    more,
    live.root,
  );

  function paint() {
    const run = bus.run;
    scrubber.paint(run);
    menu.paint(run);
    live.paint(run);
    const { playing } = bus.player;
    setIcon(play, playing ? "pause" : "play");
    setText(playLabel, playing ? "Pause" : "Play");
    setAttr(play, "title", `${playing ? "Pause" : "Play"} (space)`);
    setAttr(large, "aria-pressed", String(Boolean(bus.prefs.large)));
    const atEnd = bus.cursor >= bus.last && Boolean(bus.blocked);
    for (const [el, off, why] of [
      [first, bus.cursor === 0, "This is the start."],
      [back, bus.cursor === 0, "This is the start."],
      [forward, atEnd, bus.blocked],
      [last, atEnd, bus.blocked],
    ]) {
      setAttr(el, "aria-disabled", off ? "true" : null);
      el.dataset.title ??= el.title;
      setAttr(el, "title", off ? why : el.dataset.title);
    }
    paintState(run);
  }

  function paintState(run) {
    const { model: state, frame } = bus.store;
    const info = run?.history?.info;
    setText(summary, info ? info.model : (frame?.summary ?? ""));
    const backend = info && info.backend !== "torch" ? ` · ${info.backend}` : ""; // torch, the reference, goes without saying
    setText(where, info ? `· ${info.device} · ${info.dtype}${backend}` : "");
    show(where, Boolean(info)); // else the summary says it, and a second gap would follow it
    const meta = run?.history?.meta[bus.cursor - 1];
    const took = run?.history ? (meta?.ms ?? null) : (frame?.ms ?? null);
    setText(time, took === null ? "" : `· ${format.ms(took)}`);
    mark.set(took === null ? null : (run?.history?.source.ms ?? "measured"));
    const busy = state && state.state !== "ready";
    show(model, Boolean(busy));
    show(facts, !busy);
    if (!busy) return;
    const known = state.state === "loading" && typeof state.progress === "number";
    setText(modelText, known ? `${state.text} ${Math.floor(100 * state.progress)} %` : state.text);
    setAttr(modelText, "title", state.text);
    setAttr(modelBar, "aria-valuenow", known ? Math.floor(100 * state.progress) : null);
    model.classList.toggle("failed", state.state === "failed");
    show(modelBar, state.state === "loading");
    modelBar.classList.toggle("unknown", !known);
    modelBar.firstChild.style.width = known ? `${100 * state.progress}%` : "";
  }

  keepKeys(root);
  return { root, paint, stop: () => (menu.stop(), live.stop()) };
}
