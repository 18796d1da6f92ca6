// A panel: title line with its controls, body. Double-click on the title fills the window, Esc brings the others back.

import { h, setAttr } from "./dom.js";
import { setIcon } from "./icons.js";

export function createPanel({ id, name, question, controls = [] }) {
  const fact = h("span", { class: "fact", "data-testid": `${id}-fact` });
  const fill = h("button", { class: "fill", type: "button", "data-testid": `${id}-fill` });
  const title = h(
    "div",
    { class: "title", title: "Double-click: fill the window (Esc: back)" },
    h("h2", { text: name }),
    question ? h("span", { class: "question", text: question }) : null,
    fact,
  );
  const head = h("header", {}, title, h("div", { class: "controls" }, controls, fill));
  const body = h("div", { class: "body" });
  const root = h("section", { class: `panel ${id}`, "aria-label": name, "data-testid": `panel-${id}` }, head, body);
  const panel = { id, root, head, title, fact, body, onFill: null };
  const toggle = () => panel.onFill?.(id);
  fill.addEventListener("click", toggle);
  head.addEventListener("dblclick", (event) => {
    if (!event.target.closest("button, select")) toggle();
  });
  panel.addMenu = (button, list) => {
    fill.before(button);
    root.append(list);
  };
  panel.filled = (on) => {
    setIcon(fill, on ? "shrink" : "grow");
    setAttr(fill, "aria-label", on ? `${name}: back to all panels` : `${name}: fill the window`);
    setAttr(fill, "title", on ? "Back to all panels (Esc)" : "Fill the window (double-click the title)");
    root.classList.toggle("filled", on);
  };
  panel.filled(false);
  return panel;
}
