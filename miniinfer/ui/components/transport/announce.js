// A live region: says the step to those who do not see it, and not more than once a second while playing.

import { h, setText } from "../shared/dom.js";
import * as format from "../shared/format.js";
import { visible } from "../shared/tokens.js";

export function announcer(bus) {
  const root = h("div", { class: "sr", role: "status", "aria-live": "polite", "data-testid": "transport-live" });
  let said = null;
  let at = 0;
  let later = 0;

  function paint(run) {
    const key = `${run?.run} ${bus.cursor} ${bus.notice}`;
    if (!run || key === said) return;
    clearTimeout(later);
    const wait = bus.player.playing ? at + 1000 - performance.now() : 0;
    if (wait > 0) return void (later = setTimeout(() => paint(bus.run), wait));
    said = key;
    at = performance.now();
    setText(root, bus.notice ?? sentence(run, bus.cursor));
  }

  return { root, paint };
}

function sentence(run, cursor) {
  if (run.said) return run.said;
  if (cursor === 0)
    return `Step 0 of ${run.last}: ${format.plural(run.prompt_len, "prompt token")}, the KV cache is empty.`;
  const meta = run.history?.meta[cursor - 1];
  const phase = meta?.phase ?? run.meta?.[cursor - 1]?.[0] ?? "";
  const token = meta && meta.token !== null ? run.history.tokens[meta.ctx] : null;
  const chose = token ? `, ${meta.forced ? "forced" : "chose"} “${visible(token[1])}”` : "";
  return `Step ${cursor} of ${run.last}: ${phase}${chose}${meta ? `, ${format.ms(meta.ms)}` : ""}.`;
}
