// A live region: says the step to those who do not see it. While steps run by, seldom; when they stop, where they stopped.

import { h, setText } from "../shared/dom.js";
import { stepSentence } from "../shared/live.js";

const GAP = 3000; // ms between two sentences while playing: one must be heard out before the next

export function announcer(bus) {
  const root = h("div", { class: "sr", role: "status", "aria-live": "polite", "data-testid": "transport-live" });
  let said = null;
  let at = -GAP;
  let later = 0;

  function paint(run) {
    const over = run?.finished && bus.cursor === bus.last ? bus.blocked : null;
    const key = `${run?.run} ${bus.cursor} ${bus.notice} ${over}`;
    if (!run || key === said) return;
    clearTimeout(later);
    const wait = bus.player.playing ? at + GAP - performance.now() : 0;
    if (wait > 0) return void (later = setTimeout(() => paint(bus.run), wait));
    const words = bus.notice ?? stepSentence(run, bus.cursor);
    if (words === null) return; // the server is about to tell
    said = key;
    at = performance.now();
    setText(root, [words, bus.notice === null && over].filter(Boolean).join(" "));
  }

  return { root, paint, stop: () => clearTimeout(later) };
}
