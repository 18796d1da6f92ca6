// Puts the panels of the picture together, and tells each what changed.

import { h, keepKeys, pageTop, segmented, zoomOf } from "../shared/dom.js";
import { getKeys } from "../shared/keys.js";
import { createPanel } from "../shared/panel.js";
import { createFacts } from "./facts.js";
import { createLanes } from "./lanes.js";
import { createPool } from "./pool.js";
import { createRows } from "./rows.js";
import { look } from "./tables.js";
import { createTip } from "./tip.js";
import { createTwins } from "./twins.js";

const LEAST = 540; // px; a lower window scrolls
const NARROW = [700, 1100]; // px: a window that is less wide has one column, which is so high

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
  const panels = {
    lanes: panel("lanes", "Who is served when?", [lanes.legend, axis], lanes.root),
    rows: panel("rows", "The batch of this step", [rows.note], rows.root),
    pool: panel("pool", "The block pool after it", [pool.note], pool.root, pool.legend),
  };
  const twins = createTwins(batch, panels, { lanes, pool });
  root.append(
    facts.root,
    panels.lanes.root,
    h("div", { class: "lower" }, panels.rows.root, panels.pool.root),
    tip.root,
  );
  const stopFill = canFill(root, Object.values(panels), () => batch.changed("layout"));

  const parts = [facts, lanes, rows, pool];
  let theme = null;
  let settling = 0;
  const paint = (dirty) => {
    if (!theme || !batch.info) return;
    axis.choose(batch.axis);
    if ([...dirty].some((key) => key !== "hover")) {
      for (const part of parts) part.paint(theme);
      for (const twin of twins) twin.paint(look(batch), theme);
      settling ||= requestAnimationFrame(() => setTimeout(settle));
    }
    for (const part of [...parts, tip]) part.hover?.(theme);
  };
  // What reads sizes runs after the frame: then the browser has laid out the page anyway.
  const settle = () => {
    settling = 0;
    for (const twin of twins) twin.settle();
  };
  // It reaches from where it stands to the lower edge of the window; where that is changes while Streamlit builds the page.
  const fit = () => {
    const least = window.innerWidth < NARROW[0] ? NARROW[1] : LEAST;
    const height = `${Math.max(least, Math.floor((window.innerHeight - pageTop(root)) / zoomOf(root) - 8))}px`;
    if (root.style.height === height) return;
    root.style.height = height;
    batch.changed("layout");
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
      cancelAnimationFrame(settling);
      window.removeEventListener("resize", fit);
      observer.disconnect();
      stopFill();
      stopPaint();
      for (const part of [...parts, tip, ...twins]) part.stop?.();
      root.remove();
    },
  };
}

function panel(id, name, controls, ...body) {
  const made = createPanel({ id, name, controls });
  made.root.dataset.testid = `batching-${id}`;
  made.body.append(...body);
  return made;
}

// One panel fills the picture, until Esc or its button brings the others back.
function canFill(root, panels, changed) {
  let filled = null;
  const fill = (id) => {
    filled = filled === id ? null : id;
    root.classList.toggle("one", filled !== null);
    for (const one of panels) one.filled(one.id === filled);
    changed();
  };
  for (const one of panels) one.onFill = fill;
  return getKeys().add({
    title: "Panels",
    keys: [{ key: "Escape", shown: ["Esc"], does: "from one panel back to all", act: () => (filled ? fill(filled) : false) }],
  });
}
