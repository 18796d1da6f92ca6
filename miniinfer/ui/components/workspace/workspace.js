// Puts the panels together and tells each what changed.

import { h, keepKeys } from "../shared/dom.js";
import { createAttention } from "./attention.js";
import { createKv } from "./kv.js";
import { createLayout } from "./layout.js";
import { createNext } from "./next.js";
import { look } from "./look.js";
import { createNotices } from "./notices.js";
import { createStep } from "./step.js";
import { createStrip } from "./strip.js";
import { createTooltip } from "./tooltip.js";
import { createTwins } from "./twins.js";

const ELSEWHERE = new Set(["hover", "target", "play"]); // changes that no panel writes down
const WAITING = new Set(["target", "play"]); // of these, what nothing here shows
const NOT_DRAWN = new Set([...ELSEWHERE, "notice", "table"]); // changes that no canvas shows

const within = (dirty, keys) => [...dirty].every((key) => keys.has(key));

export function createWorkspace(bus, parent) {
  const root = keepKeys(
    h("div", {
      class: "mi mi-workspace",
      tabindex: "-1", // a click between the panels must not focus the page around them
      "data-testid": "workspace",
      style: { visibility: "hidden" },
    }),
  );
  parent.append(root);
  const notices = createNotices(bus);
  const panels = {
    strip: createStrip(bus),
    attention: createAttention(bus),
    next: createNext(bus),
    kv: createKv(bus),
    step: createStep(bus),
  };
  const twins = createTwins(bus, panels);
  const tooltip = createTooltip(bus);
  const layout = createLayout(bus, root, panels);
  root.append(h("h1", { class: "sr", text: "Workspace" }), notices.root, layout.root, tooltip.root);

  let theme = null;
  const all = Object.values(panels);
  const draw = (dirty) => {
    if (!theme || within(dirty, NOT_DRAWN)) return;
    const view = look(bus);
    for (const panel of all) panel.draw?.(view, theme, dirty);
  };
  const paint = (dirty) => {
    if (!theme) return;
    const view = look(bus);
    root.classList.toggle("swift", bus.player.playing && bus.player.interval < 200);
    if (!within(dirty, ELSEWHERE)) {
      for (const part of [notices, ...all, ...twins]) part.paint(view, theme, dirty);
      settling ||= requestAnimationFrame(() => setTimeout(settle));
    }
    if (within(dirty, WAITING)) return; // a step is being made: a canvas that is touched now has the browser paint meanwhile
    for (const part of [...all, tooltip]) part.hover?.(view, theme);
  };
  // What reads sizes runs after the frame: then the browser has laid out the page anyway.
  let settling = 0;
  const settle = () => {
    settling = 0;
    const view = look(bus);
    for (const part of [...all, ...twins]) part.settle?.(view);
  };
  const stops = [
    bus.on(draw, true),
    bus.on(paint),
    () => cancelAnimationFrame(settling),
    layout.stop,
    tooltip.stop,
    ...[...all, ...twins].map((part) => part.stop),
  ];

  return {
    root,
    useTheme(next) {
      layout.fit();
      if (next === theme) return;
      theme = next;
      bus.changed("theme");
    },
    stop() {
      for (const stop of stops) stop?.();
      root.remove();
    },
  };
}
