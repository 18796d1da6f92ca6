// What the cursor and the selection point at, worked out once a frame for all panels.

/**
 * null without a run, else {history, info, cursor, meta, ctx, first, chosen, shown, selected, q, next, forcedAt}:
 * ctx positions are in the cache after the step; first..ctx-1 went through the model in it; chosen is the position of the
 * token it chose (or null); shown tokens are known to the reader; q is the query looked at (-1: none); next is what the model
 * says after q: NEXT, null (nothing is said there) or undefined (not here yet); step is the step that drew after q, or null.
 */
export function look(bus) {
  const { history, cursor } = bus;
  if (!history) return null;
  const { info } = history;
  const meta = cursor > 0 ? (history.meta[cursor - 1] ?? null) : null;
  const ctx = meta?.ctx ?? 0;
  const first = meta ? ctx - meta.n : 0;
  const chosen = meta && meta.token !== null ? ctx : null;
  const shown = Math.min(history.tokens.length, Math.max(info.prompt_len, ctx + (chosen === null ? 0 : 1)));
  const selected = bus.selection !== null && bus.selection < ctx ? bus.selection : null;
  const q = selected ?? ctx - 1;
  const rowStep = history.stepOfRow[q];
  const drew = rowStep !== undefined && history.meta[rowStep - 1]?.token !== null;
  return {
    history,
    info,
    cursor,
    meta,
    ctx,
    first,
    chosen,
    shown,
    selected,
    q,
    next: nextAt(history, q, rowStep, drew, selected !== null),
    step: drew ? rowStep : null,
  };
}

function nextAt(history, q, step, drew, looking) {
  if (q < 0) return null;
  if (drew) return history.next.has(step) ? history.next.get(step) : history.looks.get(q)?.next;
  if (looking) return history.looks.get(q)?.next;
  return null; // the prompt is not through yet: nothing is drawn
}

/** Tokens known beyond the cursor, because those steps were already on screen. */
export function ahead(view) {
  const { history } = view;
  const meta = history.meta[Math.min(history.seen, history.known) - 1];
  return meta
    ? Math.min(history.tokens.length, Math.max(view.shown, meta.ctx + (meta.token === null ? 0 : 1)))
    : view.shown;
}

/** Probability the model gave the token at a position, or null: from the model's raw distribution when it is here. */
export function probabilityOf(history, position) {
  const p = history.probs[position];
  if (p !== undefined) return Number.isNaN(p) ? null : p;
  const next = history.next.get(history.stepOfToken[position]);
  const i = next ? next.ids.indexOf(history.tokens[position][0]) : -1;
  return i < 0 ? null : next.raw[i];
}
