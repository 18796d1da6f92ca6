// Light or dark: as the reader's system says, until the button says otherwise.

import { h, setAttr, setText } from "../shared/dom.js";

export function createScheme(root) {
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const heard = new Set();
  const button = h("button", { type: "button", class: "scheme", "data-testid": "scheme" });
  let dark = system.matches;

  function use(next) {
    dark = next;
    root.dataset.scheme = dark ? "dark" : "light";
    setText(button, dark ? "Light" : "Dark");
    setAttr(button, "title", `Show the page in ${dark ? "light" : "dark"} colours`);
    for (const fn of heard) fn();
  }
  button.addEventListener("click", () => use(!dark));
  system.addEventListener("change", () => use(system.matches));
  use(dark);
  return { button, onChange: (fn) => heard.add(fn) };
}
