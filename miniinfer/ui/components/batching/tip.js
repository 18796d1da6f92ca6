// The tooltip of lanes, rows and blocks.

import { h, setText } from "../shared/dom.js";
import * as format from "../shared/format.js";
import { readable } from "../shared/tokens.js";
import { createTooltipBox, setFacts } from "../shared/tooltip.js";

export function createTip(batch) {
  const title = h("b");
  const facts = h("dl", { class: "facts" });
  const words = h("p", { class: "tip-words" });
  const box = createTooltipBox("batching-tip", title, facts, words);
  let shown = "";

  function hover() {
    const at = batch.hover;
    if (!at || !batch.info) return hide();
    box.open();
    const key = JSON.stringify([batch.info.id, batch.cursor, at.request, at.block, at.step, batch.aborted]);
    if (key !== shown) fill(at);
    shown = key;
    box.place(at.x, at.y);
  }

  function fill(at) {
    const { title: name, lines, said } = at.block === undefined ? ofRequest(batch, at) : ofBlock(batch, at);
    setText(title, name);
    setFacts(facts, lines);
    setText(words, said);
    words.hidden = !said;
  }

  function hide() {
    shown = "";
    box.close();
  }

  return { root: box.root, hover, stop: hide };
}

// The end of a text: what was written last is what is looked for.
const tail = (text, most) => (text.length <= most ? text : `…${text.slice(-most)}`);

function ofRequest(batch, { request, step }) {
  const info = batch.info.requests[request];
  const at = step ?? batch.cursor;
  const entry = batch.steps[at - 1];
  const row = entry?.rows.find((one) => one.r === request);
  const [, , out, preempted, cached, again] = entry?.requests[request] ?? [null, null, 0, 0, 0, 0];
  const lines = [at ? [`in step ${at}`, batch.didIn(request, at)] : ["before step 1", batch.stateOf(request, 0)]];
  if (row?.n) lines.push(["positions", `${row.start} to ${row.start + row.n - 1}`]);
  if (row?.pad) lines.push(["slots wasted", format.count(row.pad)]);
  lines.push(["prompt", format.plural(info.tokens, "token")], ["output", `${out} of ${info.max_new}`]);
  lines.push(["sampler", info.sampler]);
  lines.push(["arrives", info.arrival ? `after step ${info.arrival}` : "at the start"]);
  if (cached) lines.push(["from the prefix cache", format.count(cached)]);
  if (preempted) lines.push(["preempted", `${preempted} times, ${again} computed again`]);
  const text = batch.steps
    .slice(0, at)
    .flatMap((one) => one.rows.filter((r) => r.r === request && r.token && !r.ends).map((r) => r.token[1]))
    .join("");
  return { title: readable(info.id), lines, said: info.refused ?? `${readable(tail(info.prompt, 90))} ▸ ${readable(tail(text, 200))}` };
}

function ofBlock(batch, { block, owners, kept, filled }) {
  const names = owners.map((r) => readable(batch.info.requests[r].id)).join(", ");
  const lines = [
    [owners.length > 1 ? "shared by" : "owner", names || "nobody"],
    ["positions filled", `${filled} of ${batch.info.block_size}`],
    ["size", format.bytesExact(batch.info.block_bytes)],
  ];
  const said = kept
    ? owners.length
      ? "Full: another request with the same beginning can take it too."
      : "Free, and kept in case a request with the same beginning comes."
    : "";
  return { title: `block ${block}`, lines, said };
}
