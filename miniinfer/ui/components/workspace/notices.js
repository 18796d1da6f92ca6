// One line above the panels: an error that can be dismissed, or what the app has to say.

import { h, setText, show } from "../shared/dom.js";
import { icon } from "../shared/icons.js";

export function createNotices(bus) {
  const text = h("span", { class: "notice-text" });
  const close = h("button", { type: "button", "aria-label": "Dismiss", title: "Dismiss", "data-testid": "notice-close" }, icon("close"));
  const root = h("div", { class: "notice", "data-testid": "notice" }, text, close);
  root.hidden = true;
  let dismissed = null;
  close.addEventListener("click", () => {
    dismissed = bus.store.error;
    bus.notice = null;
    bus.changed("notice");
  });

  function paint() {
    const { error } = bus.store;
    if (!error) dismissed = null;
    const failed = error && error !== dismissed;
    const words = failed ? error : bus.notice;
    root.classList.toggle("error", Boolean(failed));
    root.setAttribute("role", failed ? "alert" : "note");
    show(root, Boolean(words));
    setText(text, words ?? "");
  }

  return { root, paint };
}
