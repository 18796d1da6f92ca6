// The numbers above the picture: this step's slots, the queue and why it waits, and the sums so far.

import { h, setText, show } from "../shared/dom.js";
import * as format from "../shared/format.js";
import { sourceMark } from "../shared/provenance.js";
import { readable } from "../shared/tokens.js";
import { ownerSwatch } from "./colours.js";

const WAITS = {
  budget: () => "the token budget of the step is used up",
  seqs: ({ max_seqs }) => `${format.plural(max_seqs, "request")} run already, the most at once`,
  blocks: () => "too few free blocks",
  policy: () => "another prompt is being computed beside the decodes",
  batch: () => "the static batch must end first",
};

export function createFacts(batch) {
  const tokens = h("div", { class: "part tokens" });
  const wasted = h("div", { class: "part wasted" });
  const slots = h("span", { "data-testid": "batching-slots" });
  const slotMark = sourceMark("Slots of this step");
  const queue = h("span", { class: "chips", "data-testid": "batching-queue" });
  const why = h("span", { class: "quiet", "data-testid": "batching-why" });
  const sums = h("span", { "data-testid": "batching-sums" });
  const sumMark = sourceMark("Tokens per second and time");
  const more = h("span", { class: "quiet" });
  const moreMark = sourceMark("Counts so far");
  const notice = h("div", { class: "say", role: "status", "data-testid": "batching-notice" });
  const root = h(
    "div",
    { class: "facts-row" },
    h("div", { class: "fact" }, h("div", { class: "budget", "aria-hidden": "true" }, tokens, wasted), h("div", { class: "line" }, slots, slotMark)),
    h("div", { class: "fact wide" }, h("div", { class: "line" }, h("span", { class: "quiet", text: "queue" }), queue), h("div", { class: "line" }, why)),
    h("div", { class: "fact" }, h("div", { class: "line" }, sums, sumMark), h("div", { class: "line" }, more, moreMark)),
    notice,
  );

  function paint(theme) {
    const { info, cursor } = batch;
    const step = batch.steps[cursor - 1];
    slotMark.set(batch.source.counts);
    moreMark.set(batch.source.counts);
    sumMark.set(step ? batch.source.times : null);
    const waste = step ? step.padding + step.idle : 0;
    const width = Math.max(info.budget, (step?.tokens ?? 0) + waste);
    tokens.style.width = `${(100 * (step?.tokens ?? 0)) / width}%`;
    wasted.style.width = `${(100 * waste) / width}%`;
    setText(slots, step ? slotWords(step, waste, info.budget) : `nothing computed yet; budget ${format.count(info.budget)} slots a step`);
    const waiting = step ? step.waiting.filter((r) => !(batch.aborted[r] <= cursor)) : info.requests.flatMap((r, i) => (r.arrival || r.refused || batch.aborted[i] === 0 ? [] : [i]));
    queue.replaceChildren(
      ...(waiting.length ? waiting.map((r) => chip(info, r, theme)) : [h("span", { class: "quiet", text: "empty" })]),
    );
    setText(why, whyWords(step, waiting, info));
    setText(sums, step ? sumWords(step.totals) : info.served);
    setText(more, step ? moreWords(step.totals) : "press the right arrow for one step, space to play");
    setText(notice, batch.notice ?? "");
    show(notice, Boolean(batch.notice));
  }

  return { root, paint };
}

function chip(info, request, theme) {
  const { id, prompt } = info.requests[request];
  return h("span", { class: "owner", title: readable(prompt) }, ownerSwatch(theme, request), h("span", { text: readable(id), dir: "auto" }));
}

function slotWords(step, waste, budget) {
  const used = `${format.count(step.tokens)} of ${format.count(budget)} slots used`;
  if (!waste) return `${used}, none wasted`;
  const parts = [step.padding && `${format.count(step.padding)} padding`, step.idle && `${format.count(step.idle)} idle`];
  return `${used}, ${format.count(waste)} wasted: ${parts.filter(Boolean).join(", ")}`;
}

function whyWords(step, waiting, info) {
  if (!step) return waiting.length ? "the first step will look at them" : "nobody has arrived";
  if (!waiting.length) return step.rows.length ? "nobody waits" : "nobody is there in this step";
  const words = WAITS[step.waits_for]?.(info);
  return words ? `the first waits because ${words}` : "";
}

function sumWords({ new: made, tok_s, wall }) {
  const speed = tok_s === null ? "" : ` · ${format.sig3(tok_s)} tokens/s`;
  return `${format.plural(made, "new token")} in ${format.ms(wall)}${speed}`;
}

function moreWords({ padding, idle, preemptions, recomputed, cached }) {
  return [
    `${format.plural(padding + idle, "slot")} wasted`,
    preemptions && `${format.plural(preemptions, "preemption")}, ${format.count(recomputed)} computed again`,
    cached && `${format.count(cached)} from the prefix cache`,
  ]
    .filter(Boolean)
    .join(" · ");
}
