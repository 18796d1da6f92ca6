// The grid, its two splitters, and one panel filling the window.

import { h, pageTop, setAttr, zoomOf } from "../shared/dom.js";
import { bindWithin, getKeys } from "../shared/keys.js";
import { panelOfAddress } from "../shared/link.js";

const MIN = { columns: 260, rows: 190 };
const NARROW = 760; // px
const SLIM = 480;
const RESIZE = {
  inside: true,
  title: "On a line between panels",
  keys: [
    { key: ["ArrowLeft", "ArrowUp", "ArrowRight", "ArrowDown"], name: "resize", shown: ["← ↑ ↓ →"], does: "move it" },
    { key: "Enter", name: "standard", shown: ["Enter"], does: "back to the standard size" },
  ],
};

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
    const size = () => (pref === "columns" ? panels.next.root.offsetWidth : panels.kv.root.offsetHeight);
    return bindWithin(bar, RESIZE, {
      resize: ({ key }) => set(pref, size() + { ArrowLeft: 16, ArrowUp: 16, ArrowRight: -16, ArrowDown: -16 }[key]),
      standard: () => set(pref, null),
    });
  };
  const unbind = [
    drag(columns, "columns", (event) => (root.getBoundingClientRect().right - event.clientX) / zoomOf(root)),
    drag(rows, "rows", (event) => (root.getBoundingClientRect().bottom - event.clientY) / zoomOf(root)),
  ];

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
    fit();
  }
  for (const panel of Object.values(panels)) panel.panel.onFill = fill;

  // A link may name a panel: it is marked until the reader does something.
  const pointed = Object.values(panels).find(({ panel }) => panel.id === panelOfAddress())?.root;
  const unmark = () => pointed?.classList.remove("pointed");
  pointed?.classList.add("pointed");
  if (pointed) for (const type of ["pointerdown", "keydown"]) document.addEventListener(type, unmark, { once: true });

  const back = () => {
    if (filled) fill(filled);
    else if (bus.selection !== null) bus.select(null);
    else return false;
  };
  const unlisten = getKeys().add({
    title: "Panels",
    keys: [{ key: "Escape", shown: ["Esc"], does: "from one panel back to all; from a selected token back to the step", act: back }],
  });

  // The workspace reaches from where it stands to the lower edge of the window. Where it stands changes while Streamlit
  // builds the page, and no event tells; so it is looked at again after each message, and a few times after the start.
  let fitted = 0;
  const fit = () => {
    fitted = performance.now();
    const narrow = host.clientWidth > 0 && host.clientWidth < NARROW;
    root.classList.toggle("narrow", narrow && filled === null);
    root.classList.toggle("slim", narrow && host.clientWidth < SLIM && filled === null);
    for (const [bar, part] of [[columns, panels.next.root.offsetWidth / root.clientWidth], [rows, panels.kv.root.offsetHeight / root.clientHeight]])
      setAttr(bar, "aria-valuenow", Math.round(100 * (part || 0)));
    const room = Math.floor((window.innerHeight - pageTop(host)) / zoomOf(host));
    const height = narrow && filled === null ? "auto" : `${Math.max(480, room)}px`;
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
      unlisten();
      unbind.forEach((stop) => stop());
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
    "aria-valuemin": "0",
    "aria-valuemax": "100",
    "aria-valuenow": "30",
    title: "Drag to resize; double-click for the standard size",
    "data-testid": `splitter-${orientation}`,
  });
  setAttr(bar, "aria-orientation", orientation);
  return bar;
}
