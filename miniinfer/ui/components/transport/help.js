// The overview behind "?": the keys that act on this page, out of the table that binds them, and the switch for large type.

import { focused, h } from "../shared/dom.js";
import { getKeys } from "../shared/keys.js";

const EVERYWHERE = [
  [["Tab", "Shift Tab"], "to the next, the previous control"],
  [["Enter", "Space"], "press the button that has the focus"],
  [["Esc"], "close what is open"],
];

// Streamlit's own keys, on pages that have a table.
const TABLE = {
  inside: true,
  title: "In a table that has the focus (Tab)",
  ready: () => document.querySelector("[data-testid='stDataFrame']") !== null,
  keys: [
    { key: [], shown: ["← ↑ ↓ →"], does: "walk from cell to cell" },
    { key: [], shown: ["Shift", "Space"], does: "choose the row, where rows can be chosen" },
  ],
};

/** {root, open(), groups: to bind}. The dialog is modal: the browser keeps the focus inside, Esc closes it. */
export function createHelp() {
  const close = h("button", { type: "button", class: "close", text: "Close", "data-testid": "help-close" });
  const body = h("div", { class: "help-body" });
  const root = h(
    "dialog",
    { class: "mi mi-help", "aria-labelledby": "mi-help-title", "data-testid": "help" },
    h("header", {}, h("h2", { id: "mi-help-title", text: "Keys on this page" }), close),
    body,
  );
  close.addEventListener("click", () => root.close());
  root.addEventListener("click", (event) => event.target === root && root.close()); // beside the dialog
  // From the last control back to the first: the browser alone would go on to its own buttons.
  root.addEventListener("keydown", (event) => {
    if (event.key !== "Tab") return;
    const all = [...root.querySelectorAll("button, [tabindex='0']")];
    const here = all.indexOf(root.getRootNode().activeElement);
    event.preventDefault();
    all[(here + (event.shiftKey ? -1 : 1) + all.length) % all.length].focus();
  });

  // What had the focus, also inside another component: it gets it back.
  let before = null;
  root.addEventListener("close", () => {
    getKeys().changed = null;
    before?.focus();
  });

  function open() {
    if (root.open) return;
    before = focused();
    getKeys().changed = fill;
    fill();
    root.showModal();
    close.focus();
  }

  function fill() {
    const groups = [...getKeys().groups.map(({ title, keys }) => [title, keys.map(({ shown, does }) => [shown, does])]), ["Everywhere", EVERYWHERE]];
    body.replaceChildren(...groups.map(([title, lines], i) => section(title, lines, i)));
    body.tabIndex = 0; // it may scroll in a low window
  }

  const help = { title: "Help", keys: [{ key: "?", shift: null, shown: ["?"], does: "this overview", act: open }] };
  return { root, open, groups: [help, TABLE] };
}

function section(title, lines, i) {
  const id = `mi-help-${i}`;
  return h(
    "section",
    { "aria-labelledby": id },
    h("h3", { id, text: title }),
    h("dl", {}, lines.flatMap(([shown, does]) => [h("dt", {}, shown.map((key) => h("kbd", { text: key }))), h("dd", { text: does })])),
  );
}
