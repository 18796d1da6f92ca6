// One line above the panels: an error, or a note on the run, until it is dismissed.

import { h, setText, show } from "../shared/dom.js";
import { icon } from "../shared/icons.js";

export function createNotices(bus) {
  const text = h("span", { class: "notice-text" });
  const close = h(
    "button",
    { type: "button", "aria-label": "Dismiss", title: "Dismiss", "data-testid": "notice-close" },
    icon("close"),
  );
  const root = h("div", { class: "notice", role: "alert", "data-testid": "notice" }, text, close);
  root.hidden = true;
  let dismissed = null;
  let shown = null;
  close.addEventListener("click", () => {
    dismissed = shown;
    bus.changed("notice");
  });

  function paint() {
    const { model, error, note } = bus.store;
    const wrong = error ?? (model?.state === "failed" ? model.text : null);
    const said = wrong ?? note;
    if (!said) dismissed = null;
    shown = said === dismissed ? null : said;
    root.classList.toggle("note", !wrong);
    show(root, shown !== null);
    setText(text, shown ?? "");
  }

  return { root, paint };
}
