// Puts the panels together and tells each what changed.

import { h } from "../shared/dom.js";
import { createAttention } from "./attention.js";
import { createKv } from "./kv.js";
import { createLayout } from "./layout.js";
import { createNext } from "./next.js";
import { look } from "./look.js";
import { createNotices } from "./notices.js";
import { createStep } from "./step.js";
import { createStrip } from "./strip.js";
import { createTooltip } from "./tooltip.js";

export function createWorkspace(bus, parent) {
  const root = h("div", { class: "mi mi-workspace", "data-testid": "workspace", style: { visibility: "hidden" } });
  parent.append(root);
  const notices = createNotices(bus);
  const panels = { strip: createStrip(bus), attention: createAttention(bus), next: createNext(bus), kv: createKv(bus), step: createStep(bus) };
  const tooltip = createTooltip(bus);
  const layout = createLayout(bus, root, panels);
  root.append(notices.root, layout.root, tooltip.root);

  let theme = null;
  const paint = (dirty) => {
    if (!theme) return;
    const view = look(bus);
    const only = [...dirty].every((key) => key === "hover");
    for (const part of [...Object.values(panels), tooltip]) part.hover?.(view, theme);
    if (only) return;
    notices.paint(view);
    for (const panel of Object.values(panels)) panel.paint(view, theme, dirty);
  };
  const stops = [bus.on(paint), layout.stop, tooltip.stop, ...Object.values(panels).map((panel) => panel.stop)];

  return {
    root,
    useTheme(next) {
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
