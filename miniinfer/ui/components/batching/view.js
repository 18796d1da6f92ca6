// Puts the parts of the picture together, and tells each what changed.

import { h, keepKeys, pageTop, segmented, zoomOf } from "../shared/dom.js";
import { createFacts } from "./facts.js";
import { createLanes } from "./lanes.js";
import { createPool } from "./pool.js";
import { createRows } from "./rows.js";
import { createTip } from "./tip.js";

export function createView(batch, parent) {
  const root = keepKeys(
    h("div", { class: "mi mi-batching", tabindex: "-1", "data-testid": "batching", style: { visibility: "hidden" } }),
  );
  parent.append(root);
  const axis = segmented(
    "Lanes against",
    [
      ["steps", "steps", "Every engine step is as wide as the others"],
      ["time", "wall time", "Every step is as wide as it took (measured)"],
    ],
    (value) => batch.setAxis(value),
    "batching-axis",
  );
  const facts = createFacts(batch);
  const lanes = createLanes(batch);
  const rows = createRows(batch);
  const pool = createPool(batch);
  const tip = createTip(batch);
  const parts = [facts, lanes, rows, pool];
  root.append(
    facts.root,
    panel("lanes", "Who is served when?", [lanes.legend, axis], lanes.root),
    h(
      "div",
      { class: "lower" },
      panel("rows", "The batch of this step", [rows.note], rows.root),
      panel("pool", "The block pool after it", [pool.note], pool.root, pool.legend),
    ),
    tip.root,
  );
  let theme = null;
  const paint = (dirty) => {
    if (!theme || !batch.info) return;
    axis.choose(batch.axis);
    const hoverOnly = [...dirty].every((key) => key === "hover");
    if (!hoverOnly) for (const part of parts) part.paint(theme);
    for (const part of [...parts, tip]) part.hover?.(theme);
  };
  // It reaches from where it stands to the lower edge of the window; where that is changes while Streamlit builds the page.
  const fit = () => {
    const height = `${Math.max(540, Math.floor((window.innerHeight - pageTop(root)) / zoomOf(root) - 8))}px`;
    if (root.style.height !== height) root.style.height = height;
  };
  window.addEventListener("resize", fit);
  const observer = new ResizeObserver(fit);
  observer.observe(document.documentElement);
  if (parent.getRootNode().host) observer.observe(parent.getRootNode().host);
  const later = [0, 100, 400, 1200].map((wait) => setTimeout(fit, wait));
  const stopPaint = batch.on(paint);

  return {
    root,
    useTheme(next) {
      requestAnimationFrame(fit);
      if (next === theme) return;
      theme = next;
      batch.changed("theme");
    },
    stop() {
      later.forEach(clearTimeout);
      window.removeEventListener("resize", fit);
      observer.disconnect();
      stopPaint();
      for (const part of [...parts, tip]) part.stop?.();
      root.remove();
    },
  };
}

function panel(id, title, controls, ...body) {
  return h(
    "section",
    { class: `panel ${id}`, "aria-label": title, "data-testid": `batching-${id}` },
    h("header", {}, h("h2", { text: title }), h("span", { class: "gap" }), controls),
    ...body,
  );
}
