// What went wrong, and what a page says of the last thing asked for, is also said aloud: Streamlit only draws it.

import { h, setText } from "../shared/dom.js";

// The keys of their containers end so, but for errors of one field, which name it.
const ENDS = ["_note", "_notice", "_said", "_undo", "_hit", "batching_back"];
const WATCHED = ["[class*='st-key-'][class*='_error']", ...ENDS.map((end) => `[class*='st-key-'][class*='${end} ']`)].join();
const SENTENCES = "[data-testid='stText'], [data-testid='stMarkdownContainer'] p";

/** {root, stop}. Each sentence once, when it comes: what stands there already when the page is drawn anew is not said again. */
export function createAlerts() {
  const words = h("div", { class: "sr", role: "alert", "data-testid": "alerts" });
  const root = h("div", { class: "mi" }, words);
  let before = new Set();
  let frame = 0;

  function look() {
    frame = 0;
    const places = [...document.querySelectorAll(WATCHED)];
    const sentences = places.flatMap((place) => [...place.querySelectorAll(SENTENCES)].filter((el) => !el.closest("button")).map((el) => el.textContent.trim()));
    const now = new Set(sentences.filter(Boolean));
    const fresh = [...now].filter((sentence) => !before.has(sentence));
    before = now;
    if (fresh.length) setText(words, fresh.join(" "));
    else if (!now.size) setText(words, ""); // so that the same sentence is said again when it comes back
  }

  const observer = new MutationObserver(() => (frame ||= requestAnimationFrame(look)));
  observer.observe(document.body, { childList: true, subtree: true, characterData: true });
  return { root, stop: () => (observer.disconnect(), cancelAnimationFrame(frame)) };
}
