// The grid, its two splitters, and one panel filling the window.

import { h, setAttr } from "../shared/dom.js";
import { panelOfAddress } from "../shared/link.js";

const MIN = { columns: 260, rows: 190 };

export function createLayout(bus, host, panels) {
  const columns = splitter("vertical", "Width of the right panels");
  const rows = splitter("horizontal", "Height of the lower panels");
  const root = h("div", { class: "grid" }, ...Object.values(panels).map((panel) => panel.root), columns, rows);
  let filled = null;

  const drag = (bar, pref, sizeAt) => {
    bar.addEventListener("pointerdown", (event) => {
      bar.setPointerCapture(event.pointerId);
      event.preventDefault();
    });
    bar.addEventListener("pointermove", (event) => {
      if (bar.hasPointerCapture(event.pointerId)) set(pref, sizeAt(event));
    });
    bar.addEventListener("dblclick", () => set(pref, null));
    bar.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: 16, ArrowUp: 16, ArrowRight: -16, ArrowDown: -16 }[event.key];
      if (!step) return;
      event.preventDefault();
      set(pref, (pref === "columns" ? panels.next.root.offsetWidth : panels.kv.root.offsetHeight) + step);
    });
  };
  drag(columns, "columns", (event) => root.getBoundingClientRect().right - event.clientX);
  drag(rows, "rows", (event) => root.getBoundingClientRect().bottom - event.clientY);

  function set(pref, size) {
    const most = pref === "columns" ? root.clientWidth * 0.55 : root.clientHeight * 0.6;
    bus.setPref(pref, size === null ? null : Math.round(Math.max(MIN[pref], Math.min(size, most))));
    apply();
  }

  function apply() {
    const { columns: c, rows: r } = bus.prefs;
    root.style.setProperty("--right", c ? `min(${c}px, 55%)` : null);
    root.style.setProperty("--lower", r ? `min(${r}px, 60%)` : null);
  }

  function fill(id) {
    filled = filled === id ? null : id;
    root.classList.toggle("one", filled !== null);
    for (const panel of Object.values(panels)) panel.panel.filled(panel.panel.id === filled);
  }
  for (const panel of Object.values(panels)) panel.panel.onFill = fill;

  // A link may name a panel: it is marked until the reader does something.
  const pointed = Object.values(panels).find(({ panel }) => panel.id === panelOfAddress())?.root;
  const unmark = () => pointed?.classList.remove("pointed");
  pointed?.classList.add("pointed");
  if (pointed) for (const type of ["pointerdown", "keydown"]) document.addEventListener(type, unmark, { once: true });

  const onKey = (event) => {
    if (event.key !== "Escape" || event.defaultPrevented) return;
    if (filled) fill(filled);
    else if (bus.selection !== null) bus.select(null);
  };
  document.addEventListener("keydown", onKey);

  // The workspace reaches from where it stands to the lower edge of the window. Where it stands changes while Streamlit
  // builds the page, and no event tells; so it is looked at again after each message, and a few times after the start.
  let fitted = 0;
  const fit = () => {
    fitted = performance.now();
    const top = host.getBoundingClientRect().top + window.scrollY;
    const height = `${Math.max(480, Math.floor(window.innerHeight - top))}px`;
    if (host.style.height !== height) host.style.height = height;
  };
  window.addEventListener("resize", fit);
  const observer = new ResizeObserver(fit);
  observer.observe(document.documentElement);
  const later = [0, 100, 400, 1200].map((wait) => setTimeout(fit, wait));
  apply();

  return {
    root,
    fit: () => performance.now() - fitted > 500 && requestAnimationFrame(fit),
    stop() {
      later.forEach(clearTimeout);
      document.removeEventListener("keydown", onKey);
      for (const type of ["pointerdown", "keydown"]) document.removeEventListener(type, unmark);
      window.removeEventListener("resize", fit);
      observer.disconnect();
    },
  };
}

function splitter(orientation, label) {
  const bar = h("div", {
    class: `splitter ${orientation}`,
    role: "separator",
    tabindex: "0",
    "aria-label": label,
    title: "Drag to resize; double-click for the standard size",
    "data-testid": `splitter-${orientation}`,
  });
  setAttr(bar, "aria-orientation", orientation);
  return bar;
}
