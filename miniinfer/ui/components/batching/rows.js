// The batch of the step as rows: which positions of whom, the token that was chosen, and the five likeliest next ones.

import { bar, h, setText } from "../shared/dom.js";
import * as format from "../shared/format.js";
import { sourceMark } from "../shared/provenance.js";
import { readable, setToken } from "../shared/tokens.js";
import { paintSwatch } from "./colours.js";

const CANDIDATES = 5;
const WIDE = 800; // px; from there on the end of the text so far has a place of its own

export function createRows(batch) {
  const words = h("span", { class: "quiet small" });
  const mark = sourceMark("Probabilities: the model's own, before temperature and filters");
  const note = h("span", { class: "note" }, words, mark);
  const list = h("div", { class: "row-list" });
  const none = h("p", { class: "empty quiet" });
  const root = h("div", { class: "rows-scroll" }, list, none);
  let lines = [];
  let room = 8; // characters of the output before the newest token

  function makeLine() {
    const swatch = h("span", { class: "swatch num" });
    const id = h("b", { dir: "auto" });
    const work = h("span", { class: "work" });
    const before = h("span", { class: "quiet before", dir: "auto" });
    const token = h("span", { class: "tok", dir: "auto" });
    const said = h("span", { class: "quiet small said" });
    const tops = Array.from({ length: CANDIDATES }, () => {
      const text = h("span", { class: "tok", dir: "auto" });
      const share = h("span", { class: "num small" });
      const fill = h("i", {});
      return { root: h("span", { class: "top" }, h("span", { class: "top-line" }, text, share), h("span", { class: "top-bar" }, fill)), text, share, fill };
    });
    const el = h("div", { class: "batch-row" }, h("span", { class: "who" }, swatch, id), work, h("span", { class: "chosen" }, before, token, said), h("span", { class: "tops" }, tops.map((t) => t.root)));
    const line = { root: el, swatch, id, work, before, token, said, tops, request: null };
    el.addEventListener("pointermove", (event) => batch.setHover({ request: line.request, x: event.clientX, y: event.clientY }));
    el.addEventListener("pointerleave", () => batch.setHover(null));
    return line;
  }

  function paint(theme) {
    const step = batch.steps[batch.cursor - 1];
    const rows = step?.rows ?? [];
    while (lines.length < rows.length) lines.push(makeLine());
    room = root.clientWidth > WIDE ? 32 : 8;
    list.replaceChildren(...rows.map((row, i) => fill(lines[i], row, theme)));
    list.style.setProperty("--rows", Math.max(1, rows.length));
    list.hidden = rows.length === 0;
    none.hidden = rows.length > 0;
    setText(
      none,
      step
        ? "Nobody was there in this step: the next request has not arrived."
        : "The rows of the batch will stand here after the first step: who computes what, which token was chosen, and which were likely.",
    );
    setText(words, step ? `step ${format.count(step.step)} · ${format.plural(rows.length, "row")} · ${format.ms(step.ms)}` : "");
    mark.set(step ? batch.source.counts : null);
  }

  function fill(line, row, theme) {
    line.request = row.r;
    line.root.dataset.testid = `row-${row.r}`;
    line.root.classList.toggle("idle", row.phase === "idle");
    paintSwatch(line.swatch, theme, row.r);
    setText(line.id, readable(batch.info.requests[row.r].id));
    setText(line.work, workWords(row));
    line.work.title = cachedWords(row);
    setText(line.before, row.token ? outputBefore(batch, row.r, room) : "");
    line.token.hidden = !row.token;
    if (row.token) setToken(line.token, row.token);
    setText(line.said, row.error ?? (row.ended ? `ends: ${row.ended}` : row.token ? "" : row.phase === "idle" ? "computed for nothing" : "no token yet: the prompt goes on"));
    line.tops.forEach((top, k) => {
      const found = row.top[k];
      top.root.hidden = !found;
      if (!found) return;
      const [token, raw, used] = found;
      setToken(top.text, token);
      setText(top.share, format.percent(raw));
      bar(top.fill, raw);
      top.root.classList.toggle("now", token[0] === row.token[0]);
      top.root.title = `model ${format.percent(raw)}, after the sampler's settings ${format.percent(used)}`;
    });
    return line.root;
  }

  function hover() {
    const at = batch.hover;
    const lit = new Set(at ? (at.request !== undefined && at.request !== null ? [at.request] : at.owners) : []);
    for (const line of lines) line.root.classList.toggle("lit", lit.has(line.request));
  }

  return { root, note, paint, hover };
}

/** The end of what a request had written before the step looked at, from the steps before it. */
function outputBefore(batch, request, most) {
  let text = "";
  for (let s = batch.cursor - 1; s > 0 && text.length <= most; s--) {
    const token = batch.steps[s - 1].rows.find((row) => row.r === request)?.token;
    if (token) text = token[1] + text;
  }
  return readable(text.length > most ? `…${text.slice(-most)}` : text);
}

/** What a row computes, in words. */
export function workWords({ phase, start, n, pad }) {
  if (phase === "idle") return `idle, ${format.plural(pad, "slot")}`;
  const where = n === 1 ? `at ${format.count(start)}` : `${format.count(start)} to ${format.count(start + n - 1)}`;
  return `${phase} ${where}${pad ? `, ${format.count(pad)} padding` : ""}`;
}

function cachedWords({ n, cached, again, ctx }) {
  const facts = [`${format.plural(n, "position")} through the model, ${format.count(ctx)} in its cache after it`];
  if (cached) facts.push(`${format.count(cached)} found in the prefix cache`);
  if (again) facts.push(`${format.count(again)} computed again after a preemption`);
  return facts.join("; ");
}
