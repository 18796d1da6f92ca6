// Drawn here, so that no icon font has to load. 16 x 16.

import { s } from "./dom.js";

const PATHS = {
  first: "M3 3h1.6v10H3zM13 3v10L5.6 8z",
  back: "M11.5 3v10L4 8z",
  play: "M4.5 2.8v10.4L13 8z",
  pause: "M4 3h2.8v10H4zM9.2 3H12v10H9.2z",
  forward: "M4.5 3v10L12 8z",
  last: "M11.4 3H13v10h-1.6zM3 3v10l7.4-5z",
  down: "M4 6h8l-4 4.5z",
  close: "M4.2 3.2 8 7l3.8-3.8 1 1L9 8l3.8 3.8-1 1L8 9l-3.8 3.8-1-1L7 8 3.2 4.2z",
  grow: "M9 2h5v5h-1.4V4.4L9.4 7.6l-1-1 3.2-3.2H9zM7 14H2V9h1.4v2.6l3.2-3.2 1 1-3.2 3.2H7z",
  shrink: "M8.6 2H10v2.6l3-3 1 1-3 3h2.6V7H8.6zM7.4 14H6v-2.6l-3 3-1-1 3-3H2.4V9h5z",
  more: "M2 6.6h2.8v2.8H2zM6.6 6.6h2.8v2.8H6.6zM11.2 6.6H14v2.8h-2.8z",
  branch:
    "M4 2a1.9 1.9 0 0 1 .7 3.7v4.6A1.9 1.9 0 1 1 3.3 10V5.7A1.9 1.9 0 0 1 4 2zm8 1.5a1.9 1.9 0 0 1 .6 3.7c-.2 2-1.9 2.9-6 3.3V9c3-.3 4.4-.8 4.6-1.9A1.9 1.9 0 0 1 12 3.5z",
};

export function icon(name) {
  return s("svg", { class: "icon", viewBox: "0 0 16 16", "aria-hidden": "true" }, s("path", { d: PATHS[name] }));
}

export function setIcon(el, name) {
  if (el.dataset.icon === name) return;
  el.dataset.icon = name;
  el.querySelector("svg")?.remove();
  el.prepend(icon(name));
}
