// What the live region says of a step. Pure functions.

import { percent, plural } from "./format.js";
import { visible } from "./tokens.js";

const BLANKS = { " ": "a space", "\n": "a new line", "\t": "a tab", "\r": "a carriage return" };

/** A token for the ear: blanks are named where there is nothing else, else left as they are; hidden characters as code points. */
function heard(text) {
  if (BLANKS[text]) return BLANKS[text];
  if (text.trim() === "") return visible(text);
  return `“${visible(text).replaceAll("␣", " ").replaceAll("↵", " new line ")}”`;
}

/** run: as bus.run gives it; of a page without a workspace only the step at the cursor is known in full: null until it is. */
export function stepSentence(run, cursor) {
  if (run.said) return run.said;
  if (cursor === 0)
    return `Step 0 of ${run.last}: ${plural(run.prompt_len, "prompt token")}, the KV cache is empty.`;
  const meta = run.history ? run.history.meta[cursor - 1] : null;
  const phase = meta?.phase ?? run.meta?.[cursor - 1]?.[0] ?? "";
  const newest = meta ? of(meta, run.history) : run.newest?.step === cursor ? run.newest : null;
  if (!newest) return null;
  if (!newest.token) return `Step ${cursor} of ${run.last}, ${phase}.`;
  const p = newest.forced ? ", forced" : newest.logprob === null ? "" : `, probability ${percent(Math.exp(newest.logprob))}`;
  return `Step ${cursor} of ${run.last}, ${phase}: token ${heard(newest.token[1])}${p}.`;
}

const of = (meta, history) => ({
  token: meta.token === null ? null : history.tokens[meta.ctx],
  forced: meta.forced,
  logprob: meta.logprob,
});
