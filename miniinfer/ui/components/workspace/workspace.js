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

const only = (dirty, key) => dirty.size === 1 && dirty.has(key);

export function createWorkspace(bus, parent) {
  const root = keepKeys(
    h("div", { class: "mi mi-workspace", "data-testid": "workspace", style: { visibility: "hidden" } }),
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
  root.append(notices.root, layout.root, tooltip.root);

  let theme = null;
  const all = Object.values(panels);
  const draw = (dirty) => {
    if (!theme || only(dirty, "hover")) return;
    const view = look(bus);
    for (const panel of all) panel.draw?.(view, theme, dirty);
  };
  const paint = (dirty) => {
    if (!theme) return;
    const view = look(bus);
    root.classList.toggle("swift", bus.player.playing && bus.player.interval < 200);
    if (!only(dirty, "hover")) for (const part of [notices, ...all, ...twins]) part.paint(view, theme, dirty);
    for (const part of [...all, tooltip]) part.hover?.(view, theme);
    for (const panel of all) panel.settle?.(view);
  };
  const stops = [
    bus.on(draw, true),
    bus.on(paint),
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
